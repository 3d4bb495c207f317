"""docs/time-travel.md: its code blocks run, and come to what the text says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from runs import operations
from runs.errors import FieldNotEditable
from runs.models import Run
from runs.runlists import RunFilter
from tests.integration.core.conftest import House, open_approval, state_of
from tests.kit.guides import shown


@pytest.fixture
def guide() -> Iterator[dict[str, Any]]:
    with shown("time-travel") as names:
        yield names


def bought(house: House, run: Run) -> Run:
    house.work(run)
    house.answer(open_approval(run), "approve")
    return house.work(run)


def test_the_guide_goes_back_and_forks(house: House, guide: dict[str, Any]) -> None:
    run = bought(house, house.submit("purchase", what="tea"))
    assert (run.head, guide["shop"]) == (3, ["look up tea", "order tea at 12"])
    guide["rewind_example"](operations, house.olga, run)
    bought(house, run)
    assert guide["shop"] == ["look up tea", "order tea at 12", "look up tea"], "the order was reused"
    fork = guide["fork_example"](operations, house.olga, run)
    bought(house, fork)
    assert guide["shop"][3:] == ["order coffee at 12"]
    assert guide["compare_example"](operations, house.vera, run, fork) == ["/receipt", "/what"]


def test_the_guide_edits_and_cancels(house: House, guide: dict[str, Any]) -> None:
    run = house.work(house.submit("purchase", what="tea"))
    guide["edit_example"](operations, house.frida, run)
    assert state_of(house.work(run))["note"] == "for the tea room"
    for actor, field in ((house.frida, "price"), (house.olga, "cost_centre")):
        with pytest.raises(FieldNotEditable, match=field):
            operations.edit_state(
                actor=actor, run_id=run.pk, version=run.version, changes={field: "1"}, reason="x"
            )
    done = guide["bulk_example"](operations, house.olga, RunFilter)
    assert [(item.run.pk, item.run.status) for item in done.done] == [(run.pk, "cancelled")]
