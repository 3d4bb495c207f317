"""The migrations one by one and all of them in one lead to the same models; `make check` compares the latter with the models."""

from __future__ import annotations

from typing import Any

from django.db.migrations.loader import MigrationLoader
from django.db.migrations.serializer import serializer_factory
from django.db.migrations.state import ProjectState


def test_one_by_one_or_all_in_one_the_models_are_the_same() -> None:
    shortened, whole = MigrationLoader(None), MigrationLoader(None, replace_migrations=False)
    one_by_one = [key for key in whole.graph.leaf_nodes("runs") if not whole.disk_migrations[key].replaces]
    assert len(one_by_one) == 1
    assert _models(whole.project_state(one_by_one)) == _models(shortened.project_state())


def _models(state: ProjectState) -> dict[str, dict[str, str]]:
    return {
        name: {
            **{field: _written(made) for field, made in model.fields.items()},
            **{made.name: _written(made) for made in model.options.get("indexes", ())},
            **{made.name: _written(made) for made in model.options.get("constraints", ())},
        }
        for (app, name), model in state.models.items()
        if app == "runs"
    }


def _written(made: Any) -> str:
    """As a migration would have it: fields within others do not compare."""
    return str(serializer_factory(made).serialize()[0])
