"""docs/authors.md: its code blocks run, and come to what the text says."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from runs import operations, queries
from runs.engine import canonical
from runs.models import LogLine, Run
from tests.integration.core.conftest import House, open_approval
from tests.integration.core.test_sleeping import pass_time
from tests.kit.guides import shown


@pytest.fixture
def guide() -> Iterator[dict[str, Any]]:
    with shown("authors") as names:
        yield names


def output(house: House, name: str) -> Any:
    run = house.work(house.submit(name))
    assert run.status == "completed", run.error
    return canonical.loads(run.output or "")


def test_what_the_guide_shows_is_what_happens(house: House, guide: dict[str, Any]) -> None:
    assert output(house, "report")["notes"] == ["found: tea", "read: tea", "2 notes under About tea"]
    assert output(house, "careful")["notes"] == ["plan", "look", "look", "weigh"] * 3
    assert output(house, "reader")["pages"] == [3, 3]
    brave = output(house, "brave")
    assert (brave["notes"], brave["title"]) == (["out of tea", "calm"], "closed")
    assert [page["title"] for page in output(house, "survey")["pages"]] == ["tea 1", "tea 2", "tea 3"]
    assert output(house, "quick")["notes"] == ["GREEN", "TEA"]
    assert output(house, "stoppable")["notes"] == ["3"]
    assert output(house, "paid")["notes"] == ["about tea"]
    assert queries.spent_by_workflow(house.project.pk)["paid"].cost == {"USD": Decimal("0.0042")}


def test_the_guide_waits(house: House, guide: dict[str, Any]) -> None:
    run = house.work(house.submit("order"))
    house.answer(open_approval(run), "approve")
    house.work(run)
    pass_time(run, seconds=3 * 86400)
    house.sweep()
    house.work(run)
    operations.signal(actor=house.shop, run_id=run.pk, name="arrived")
    house.work(run)
    assert canonical.loads(run.output or "")["log"] == ["paid 5", "arrived"]


def test_the_guides_run_starts_runs(house: House, guide: dict[str, Any]) -> None:
    run = house.work(house.submit("shopping"))
    tea = house.work(Run.objects.get(parent=run))
    house.answer(open_approval(tea), "reject", comment="too dear")
    house.work(tea)
    pass_time(tea, seconds=8 * 86400)
    house.sweep()
    house.work(tea)
    house.sweep()
    house.work(run)
    milk = Run.objects.get(parent=run, finished_at=None)
    operations.cancel(actor=house.olga, run_id=milk.pk)
    house.sweep()
    house.work(run)
    assert canonical.loads(run.output or "")["log"] == ["reject: too dear", "late", "no milk: cancelled"]


def test_the_guides_nested_workflow_asks(house: House, guide: dict[str, Any]) -> None:
    run = house.work(house.submit("published"))
    house.answer(open_approval(run), "approve")
    house.work(run)
    assert canonical.loads(run.output or "")["title"] == "approve"


def test_the_guide_takes_back_what_it_did(house: House, guide: dict[str, Any]) -> None:
    run = house.work(house.submit("journey"))
    assert (run.status, (run.error or {})["message"]) == ("failed", "no room with a view")
    lines = LogLine.objects.filter(run=run).order_by("at").values_list("facts", flat=True)
    assert [canonical.loads(line) for line in lines] == [{"receipt": "R-hotel"}, {"receipt": "R-flight"}]
