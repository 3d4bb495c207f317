"""One verb for many runs: looked at first, then done, each by itself."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from runs import operations, workflows
from runs.engine import Workflow
from runs.errors import BadRequest, Busy, NotFound, ReasonRequired, SelectionChanged
from runs.models import Branch, Run, Step
from runs.operations import Bulk, Order
from runs.runlists import RunFilter
from tests.integration.core.conftest import House, by_sql, history_is_whole, make_house, pay_flow
from tests.kit.racing import holding

Define = Callable[..., Workflow]


@pytest.fixture
def flaky(define: Define) -> dict[str, bool]:
    """first -> second; second fails until it is mended."""
    told = {"mended": False}
    flow = define("flaky")
    flow.node(name="first")(lambda state, ctx: None)

    @flow.node
    def second(state: Any, ctx: Any) -> None:
        if not told["mended"]:
            raise OSError("stuck")

    flow.edge("first", "second")
    workflows.register(flow)
    pay_flow(define("pay"))
    return told


def bulk(house: House, order: Order, *, dry: bool, **more: Any) -> Bulk:
    which = more.pop("which", RunFilter())
    return operations.bulk(**{"actor": house.olga, "order": order, "which": which, "dry": dry, **more})


def told(result: Bulk) -> dict[uuid.UUID, str]:
    return {item.run.pk: item.refusal for item in result.items}


def state() -> list[Any]:
    return [list(Run.objects.order_by("pk").values()), list(Step.objects.order_by("pk").values())]


def test_a_retry_of_what_failed_is_previewed_and_done(house: House, flaky: dict[str, bool]) -> None:
    failed = [house.work(house.submit("flaky")) for _ in range(3)]
    parked, _ = house.parked("pay", x=1)
    before = state()
    preview = bulk(house, Order("retry"), dry=True)
    assert preview.dry
    assert state() == before, "nothing has happened yet"
    assert [item.run.pk for item in preview.items] == sorted([run.pk for run in (*failed, parked)])
    assert (len(preview.done), len(preview.refused)) == (3, 1)
    assert preview.refused[0].refusal == "event_not_allowed"
    assert preview.refused[0].detail
    flaky["mended"] = True
    result = bulk(house, Order("retry", "mended"), dry=False, expect=[item.run.pk for item in preview.items])
    assert told(result) == told(preview)
    assert {house.work(run).status for run in failed} == {"completed"}
    assert all(history_is_whole(run) for run in failed)
    parked.refresh_from_db()
    assert parked.status == "waiting"


def test_others_than_were_looked_at_are_left_alone(house: House, flaky: dict[str, bool]) -> None:
    run = house.submit("flaky")
    preview = bulk(house, Order("cancel"), dry=True)
    house.submit("flaky")
    with pytest.raises(SelectionChanged):
        bulk(house, Order("cancel"), dry=False, expect=[item.run.pk for item in preview.items])
    run.refresh_from_db()
    assert run.status == "queued"


def test_each_run_is_done_by_itself(
    house: House, flaky: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that somebody holds is refused, and holds up none of the others."""
    runs = sorted((house.submit("flaky") for _ in range(3)), key=lambda run: run.pk)
    monkeypatch.setattr("runs.store.lock_run.__kwdefaults__", {"patience": 0.05})
    with holding(runs[1].pk):
        result = bulk(house, Order("cancel", "enough"), dry=False)
    assert [item.refusal for item in result.items] == ["", Busy.code, ""]
    assert sorted(Run.objects.values_list("status", flat=True)) == ["cancelled", "cancelled", "queued"]


def test_a_filter_names_runs_by_all_that_is_said(house: House, flaky: dict[str, bool]) -> None:
    first = house.submit("flaky")
    second = operations.submit(actor=house.shop, workflow="flaky", input={}, labels={"shop": "berlin"}).run
    third, _ = house.parked("pay", x=1)

    def found(**which: Any) -> set[uuid.UUID]:
        return set(told(bulk(house, Order("cancel"), dry=True, which=RunFilter(**which))))

    assert found(workflow="flaky") == {first.pk, second.pk}
    assert found(labels={"shop": "berlin"}) == {second.pk}
    assert found(status="waiting") == {third.pk}
    assert found(ids=[first.pk, uuid.uuid4()]) == {first.pk}
    assert found(created_from=second.created_at) == {second.pk, third.pk}
    assert found(created_until=second.created_at) == {first.pk}
    assert found(workflow="flaky", status="waiting") == set()


def test_a_long_list_is_done_in_parts(house: House, flaky: dict[str, bool]) -> None:
    runs = sorted(house.submit("flaky").pk for _ in range(5))
    first = bulk(house, Order("rewind", "again", checkpoint=0), dry=False, limit=3)
    assert (list(told(first)), first.next) == (runs[:3], runs[2])
    rest = bulk(house, Order("rewind", "again", checkpoint=0), dry=False, limit=3, after=first.next)
    assert (list(told(rest)), rest.next) == (runs[3:], None)
    assert set(Run.objects.values_list("branch", flat=True)) == {2}


def test_a_rewind_goes_to_a_checkpoint_or_to_a_node(house: House, flaky: dict[str, bool]) -> None:
    failed, (parked, _) = house.work(house.submit("flaky")), house.parked("pay", x=1)
    flaky["mended"] = True
    ended = house.work(house.submit("flaky"))
    order = Order("rewind", "mended", node="second")
    preview, result = bulk(house, order, dry=True), bulk(house, order, dry=False)
    assert told(preview) == told(result) == {failed.pk: "", ended.pk: "", parked.pk: "nothing_to_run"}
    assert {branch.parent_checkpoint for branch in Branch.objects.filter(no=2)} == {1}
    at_end = bulk(house, Order("rewind", "x", checkpoint=2), dry=True)
    assert told(at_end)[ended.pk] == "nothing_to_run"
    assert told(at_end)[parked.pk] == "unknown_checkpoint"


def test_who_may_not_is_refused_run_by_run(house: House, flaky: dict[str, bool]) -> None:
    own = house.submit("flaky")
    other = operations.submit(actor=house.olga, workflow="flaky", input={}).run
    for dry in (True, False):
        result = bulk(house, Order("cancel"), dry=dry, actor=house.shop)
        assert told(result) == {own.pk: "", other.pk: "forbidden"}
    assert bulk(house, Order("cancel"), dry=True, actor=make_house("other").olga).items == []
    left = make_house("third").olga
    left.user.is_active = False
    with pytest.raises(NotFound):
        bulk(house, Order("cancel"), dry=True, actor=left)
    assert by_sql("SELECT 1 FROM runs_auditentry WHERE verb = 'cancel' AND outcome = 'done'") == 1


@pytest.mark.parametrize(
    ("order", "error"),
    [
        (Order("delete"), BadRequest),
        (Order("rewind", checkpoint=0), ReasonRequired),
        (Order("rewind", "x"), BadRequest),
        (Order("rewind", "x", checkpoint=0, node="first"), BadRequest),
        (Order("rewind", "x", checkpoint=0, calls="never"), BadRequest),
        (Order("cancel", checkpoint=0), BadRequest),
    ],
)
def test_an_order_that_says_nothing_clear_is_refused(
    house: House, flaky: dict[str, bool], order: Order, error: type[Exception]
) -> None:
    house.submit("flaky")
    for dry in (True, False):
        with pytest.raises(error):
            bulk(house, order, dry=dry)
