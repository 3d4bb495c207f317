"""What the database knows of a run: which tables lead to it, and how."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import Model


def keys_to(model: type[Model]) -> list[models.ForeignKey[Any, Any]]:
    """Every foreign key that leads to a model, in order of tables; also those that nobody can follow back."""
    found = [
        relation.field
        for relation in model._meta.get_fields(include_hidden=True)
        if isinstance(relation, models.ManyToOneRel) and isinstance(relation.field, models.ForeignKey)
    ]
    return sorted(found, key=lambda key: (key.model._meta.db_table, key.column))


def pk_column(model: type[Model]) -> str:
    assert model._meta.pk is not None
    return str(model._meta.pk.column)
