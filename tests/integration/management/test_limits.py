"""`manage.py limits`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.core.management import CommandError

from runs import workflows
from runs.engine import Concurrency, Workflow, canonical
from runs.models import AuditEntry, Run
from tests.integration.core.conftest import House, database, define, house, without_flush
from tests.integration.management.test_retention import row_of, said

__all__ = ["database", "define", "house", "without_flush"]


def test_what_is_in_use_and_who_stands_in_line(house: House, define: Callable[..., Workflow]) -> None:
    flow = define("films", limits=[Concurrency(1, key=lambda film: film.x)])
    flow.node(name="frames")(lambda state, ctx: None)
    workflows.register(flow)
    said("limits", "set", "--project", "demo", "--max-concurrent-runs", "2")
    house.project.refresh_from_db()
    for customer in ("acme", "zeta", "zeta"):
        house.submit("films", x=customer)
    text = said("limits", "show")
    assert row_of(text, "demo") == ["demo", "2", "1", "*", "project", "-", "2", "of", "2"]
    assert row_of(text, "films", "concurrency", "zeta")[3:] == ["1", "of", "1"]
    (told,) = canonical.loads(said("limits", "show", "--json"))
    assert (told["project"], told["max_concurrent_runs"], told["in_line"]) == ("demo", 2, 1)
    said("limits", "set", "--project", "demo", "--max-concurrent-runs", "any")
    assert row_of(said("limits", "show"), "demo")[1] == "any"
    audited = AuditEntry.objects.filter(verb="limit_project", method="command")
    assert list(audited.order_by("id").values_list("reason", flat=True)) == [
        "max_concurrent_runs=2",
        "max_concurrent_runs=None",
    ]
    assert Run.objects.filter(admitted_at=None).count() == 1


@pytest.mark.parametrize(
    "words",
    [
        ("--project", "no", "--max-concurrent-runs", "2"),
        ("--project", "demo", "--max-concurrent-runs", "few"),
        ("--project", "demo", "--max-concurrent-runs", "0"),
    ],
)
def test_what_cannot_be_is_said(house: House, words: tuple[str, ...]) -> None:
    with pytest.raises(CommandError):
        said("limits", "set", *words)
