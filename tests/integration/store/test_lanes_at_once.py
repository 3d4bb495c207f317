"""Lanes of one run that commit at the same moment, on connections of their own."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pydantic import BaseModel

from runs import operations, store, workflows
from runs.engine import Workflow, append, canonical, machine
from runs.engine import position as at
from runs.models import Checkpoint, Event, JournalEntry, Run, Step
from runs.operations.working import Slice
from tests.integration.core.test_main_job import history_is_whole
from tests.integration.store.conftest import Define, House
from tests.kit.racing import at_once, in_order
from tests.sizes import size


class Trace(BaseModel):
    trace: Annotated[list[str], append] = []


def spread(flow: Workflow, lanes: int, *, length: int = 2) -> Workflow:
    """start, then lanes of some nodes each, then J."""
    for name in ("start", "J"):
        flow.node(name=name)(lambda state, ctx: {"trace": [ctx.node]})
    for lane in range(lanes):
        before = "start"
        for place in range(length):
            name = f"n{lane}_{place}"
            flow.node(name=name)(lambda state, ctx: {"trace": [ctx.node]})
            flow.edge(before, name)
            before = name
        flow.edge(before, "J")
    workflows.register(flow)
    return flow


def split(house: House, flow: Workflow) -> tuple[Run, list[Slice]]:
    """A run whose lanes are all claimed and have not begun."""
    run, me = house.submit(flow.name), operations.worker()
    me.stopping = True
    operations.advance(run_id=run.pk, branch=1, address=Step.objects.get(run=run).address)
    me.stopping = False
    slices = []
    for step in Step.objects.filter(run=run, status="ready").order_by("node"):
        claimed = store.claim(run_id=run.pk, branch=1, address=step.address, worker=me.id)
        assert claimed is not None
        slices.append(Slice(claimed, me))
    return run, slices


def whole(run: Run) -> None:
    assert history_is_whole(run)
    assert list(Event.objects.filter(run=run).order_by("seq").values_list("seq", flat=True)) == list(
        range(1, run.seq + 1)
    )
    points = list(Checkpoint.objects.filter(run=run).order_by("no").values_list("no", "parent"))
    assert points == [(0, None), *((no, no - 1) for no in range(1, len(points)))]
    for no, _ in points:
        store.read_position(run.pk, no)


def expected(lanes: int, length: int = 2) -> list[str]:
    return ["start", *(f"n{lane}_{place}" for lane in range(lanes) for place in range(length)), "J"]


@pytest.mark.parametrize("turned", [False, True])
def test_two_lanes_that_queue_for_the_runs_row_both_land_in_one_statement_each(
    house: House, define: Define, turned: bool
) -> None:
    """No version is compared: the second one's view lacks the first one's commit, and neither is worked out again."""
    run, slices = split(house, spread(define("spread", state=Trace), 2))
    for one in slices:
        one.steps_left = 1
    works = [one.drive for one in slices]
    for contender in in_order(run.pk, *(works[::-1] if turned else works)):
        assert contender.error is None
    run.refresh_from_db()
    assert (run.version, run.checkpoint_no) == (3, 3)  # only submit and split have moved the version
    assert [step.node for step in at.live_steps(store.read_position(run.pk, run.head))] == ["n0_1", "n1_1"]
    whole(run)
    house.work(run)
    assert canonical.loads(run.output or "")["trace"] == expected(2)


def test_lanes_that_arrive_at_once_are_joined_once(house: House, define: Define) -> None:
    """Each sees the other as still on its way; under the row's lock the last one lets the join go on."""
    flow, lanes = spread(define("spread", state=Trace), size("lanes"), length=1), size("lanes")
    for _ in range(size("race rounds")):
        run, slices = split(house, flow)
        for contender in at_once(*(one.drive for one in slices)):
            assert contender.error is None
        house.work(run)
        assert run.status == "completed"
        assert Step.objects.filter(run=run, node="J").count() == 1
        assert canonical.loads(run.output or "")["trace"] == expected(lanes, length=1)
        whole(run)


def test_lanes_that_run_side_by_side_end_in_the_same_state(house: House, define: Define) -> None:
    flow = spread(define("spread", state=Trace), 3, length=4)
    for _ in range(size("race rounds")):
        run, slices = split(house, flow)
        for contender in at_once(*(one.drive for one in slices)):
            assert contender.error is None
        house.work(run)
        assert canonical.loads(run.output or "")["trace"] == expected(3, length=4)
        whole(run)


def test_a_lane_that_fails_while_another_commits_leaves_one_failed_run(house: House, define: Define) -> None:
    flow = define("fails", state=Trace)
    for name in ("start", "good", "J"):
        flow.node(name=name)(lambda state, ctx: {"trace": [ctx.node]})

    @flow.node
    def bad(state: Any, ctx: Any) -> None:
        raise RuntimeError("no")

    for name in ("good", "bad"):
        flow.edge("start", name)
        flow.edge(name, "J")
    workflows.register(flow)
    for turned in (False, True):
        run, slices = split(house, flow)
        works = [one.drive for one in slices]
        for contender in in_order(run.pk, *(works[::-1] if turned else works)):
            assert contender.error is None
        run.refresh_from_db()
        assert run.error is not None
        assert (run.status, run.error["step"]) == ("failed", "bad")
        statuses = dict(Step.objects.filter(run=run).values_list("node", "status"))
        assert statuses == {"start": "completed", "good": "completed", "bad": "failed"}
        whole(run)


def test_a_lane_among_others_costs_one_statement_a_step(house: House, define: Define) -> None:
    run, (one, _) = split(house, spread(define("spread", state=Trace), 2, length=8))
    one.steps_left = 5
    with CaptureQueriesContext(
        connection,
    ) as queries:
        one.drive()
    # The hot path goes round Django's cursor: what is counted here would be anything besides it.
    assert [query["sql"] for query in queries if "runs_checkpoint" in query["sql"]] == []
    run.refresh_from_db()
    assert (run.checkpoint_no, run.version) == (6, 3)


def test_a_call_of_a_lane_is_dated_by_the_runs_head(house: House, define: Define) -> None:
    """What a lane has seen may be older: a rewind to between would take the call for one before it."""
    flow = define("calls", state=Trace)
    flow.node(name="start")(lambda state, ctx: None)
    flow.node(name="slow")(lambda state, ctx: ctx.call(lambda: None, name="late"))
    flow.node(name="quick")(lambda state, ctx: None)
    flow.node(name="more")(lambda state, ctx: None)
    flow.edge("start", "quick")
    flow.edge("start", "slow")
    flow.edge("quick", "more")
    workflows.register(flow)
    run, (quick, slow) = split(house, flow)
    quick.steps_left = 1
    quick.drive()
    slow.drive()
    assert JournalEntry.objects.get(run=run).after == 2


def test_a_late_result_of_a_lane_leaves_its_siblings_alone(house: House, define: Define) -> None:
    """K5: a takeover replaces the token of one step; the sibling's commit lands."""
    run, (one, other) = split(house, spread(define("spread", state=Trace), 2))
    run.refresh_from_db()
    from django.db import transaction

    from runs.operations.door import aggregate, commit

    with transaction.atomic():
        locked = store.lock_run(run.pk)
        facts = aggregate(locked)
        live = at.find(facts.position, one.held.step.address)
        assert live is not None
        commit(locked, machine.take_over(facts, live, reason="lease_expired", crashes=1, limit=3, worker="1"))
    other.steps_left = 1
    for contender in at_once(partial(one.drive), partial(other.drive)):
        assert contender.error is None
    statuses = dict(Step.objects.filter(run=run).values_list("node", "status"))
    assert statuses == {"start": "completed", "n0_0": "ready", "n1_0": "completed", "n1_1": "ready"}
    house.work(run)
    assert canonical.loads(run.output or "")["trace"] == expected(2)
    whole(run)
