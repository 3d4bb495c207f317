"""Compacting old runs: what stays reads as before, the history holds, and a run goes on from wherever it is rewound to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Annotated, Any

import pytest
from django.core.management import call_command
from django.db import connection
from pydantic import BaseModel

from runs import keeping, operations, queries, store, workflows
from runs.engine import Action, Workflow, append, canonical, compaction
from runs.engine.compaction import Kept, Point
from runs.errors import CheckpointRemoved, UnknownCheckpoint
from runs.models import Checkpoint, JournalEntry, OperationalNote, Run
from tests.integration.core.conftest import House, by_sql, history_is_whole, kinds_of, open_approval, state_of
from tests.integration.core.test_retention import aged

Define = Callable[..., Workflow]
STEPS = 12


@pytest.fixture
def flow(define: Define) -> Workflow:
    return talk(define("talk"))


def talk(workflow: Workflow) -> Workflow:
    """Steps that each add to the log and call something, an approval in the middle, and more steps."""
    for index in range(STEPS):
        workflow.node(name=f"n{index}")(speaking(index))
    workflow.approval(name="ask", reviewers=["finance"])(asking)
    names = [*(f"n{i}" for i in range(STEPS // 2)), "ask", *(f"n{i}" for i in range(STEPS // 2, STEPS))]
    for one, other in pairwise(names):
        workflow.edge(one, other)
    workflows.register(workflow)
    return workflow


def speaking(index: int) -> Any:
    def body(state: Any, ctx: Any) -> dict[str, Any]:
        said = ctx.call(say, index)
        return {"log": [*state.log, said]}

    return body


def say(index: int) -> str:
    return f"step {index} " + "x" * 200


def asking(state: Any, ctx: Any) -> Any:
    return Action("pay", {"amount": 1})


def compacted(run: Run) -> Run:
    aged(run, 40)
    assert operations.keep_house().compacted == 1
    run.refresh_from_db()
    return run


def lived(house: House) -> Run:
    """Completed, rewound to the middle, answered again, completed again."""
    run = house.work(house.submit("talk"))
    house.answer(open_approval(run), "approve")
    house.work(run)
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=3, reason="once more")
    house.work(run)
    house.answer(open_approval(run), "approve")
    return house.work(run)


def documents(run: Run) -> dict[int, str]:
    numbers = Checkpoint.objects.filter(run=run).order_by("no").values_list("no", flat=True)
    return {no: canonical.dumps(store.read_position(run.pk, no)) for no in numbers}


def test_start_approvals_branch_points_and_ends_stay_and_read_as_before(house: House, flow: Workflow) -> None:
    """C101: kept checkpoints reconstruct exactly; the history and its chain are as they were."""
    run = lived(house)
    before, told = documents(run), kinds_of(run)
    size = by_sql("SELECT 1 FROM runs_checkpoint")
    compacted(run)
    after = documents(run)
    assert after == {no: before[no] for no in after}
    # start; parked at 6 and answered at 7; branch point 3; the end 13; on branch 2 parked, answered, end.
    assert sorted(after) == [0, 3, 6, 7, 13, 16, 17, 23]
    assert size == 24
    assert kinds_of(run) == told
    assert history_is_whole(run)
    call_command("verify_history", str(run.pk), verbosity=0)
    parents = dict(Checkpoint.objects.filter(run=run).values_list("no", "parent"))
    assert parents == {0: None, 3: 0, 6: 3, 7: 6, 13: 7, 16: 3, 17: 16, 23: 17}
    assert operations.keep_house().compacted == 0


def test_the_checkpoint_at_which_a_fork_began_stays_and_a_live_fork_spares_its_origin(
    house: House, flow: Workflow
) -> None:
    run = lived(house)
    forked = operations.fork(actor=house.olga, run_id=run.pk, checkpoint=4, reason="aside").run
    aged(run, 40)
    assert operations.keep_house().compacted == 0
    operations.cancel(actor=house.olga, run_id=forked.pk)
    compacted(run)
    assert Checkpoint.objects.filter(run=run, no=4).exists()
    assert not Checkpoint.objects.filter(run=run, no=5).exists()
    found = operations.compare(
        actor=house.vera, run_id=run.pk, left=operations.At(checkpoint=4), right=operations.At(run=forked.pk)
    )
    assert found.left.state == found.right.state


def test_a_fork_outlives_its_origin(house: House, flow: Workflow) -> None:
    run = lived(house)
    forked = operations.fork(actor=house.olga, run_id=run.pk, checkpoint=4, reason="aside").run
    operations.cancel(actor=house.olga, run_id=forked.pk)
    aged(run, 4_000)
    assert operations.keep_house().runs == 1
    forked.refresh_from_db()
    assert (forked.forked_from_id, forked.forked_checkpoint) == (None, 4)
    operations.rewind(actor=house.olga, run_id=forked.pk, checkpoint=0, reason="go on")
    assert house.work(forked).status == "waiting"
    assert history_is_whole(forked)


def test_a_compacted_run_never_weighs_more(house: House, flow: Workflow) -> None:
    run = lived(house)
    weight = "SELECT sum(octet_length(coalesce(patch, '') || coalesce(snapshot, ''))) FROM runs_checkpoint"
    before = number(weight)
    compacted(run)
    assert number(weight) < before


def number(sql: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return int(cursor.fetchone()[0])


def test_a_compacted_run_can_be_rewound_to_each_checkpoint_that_stays(house: House, flow: Workflow) -> None:
    """Each time it runs to its end, with the same outcome, from the journal where that still answers."""
    run = compacted(lived(house))
    wanted = state_of(run)
    for no in sorted(documents(run)):
        position = store.read_position(run.pk, no)
        if not position["root"]["lanes"]:
            continue  # the end: nothing is left to run
        preview = operations.preview_rewind(actor=house.olga, run_id=run.pk, checkpoint=no)
        assert preview.checkpoint == no
        operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=no, reason="again")
        house.work(run)
        if run.status == "waiting":
            house.answer(open_approval(run), "approve")
            house.work(run)
        assert run.status == "completed", (no, run.error)
        assert state_of(run) == wanted
        assert history_is_whole(run)


def test_a_run_that_went_on_is_compacted_again_after_it_ended(house: House, flow: Workflow) -> None:
    run = compacted(lived(house))
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=7, reason="again")
    house.work(run)
    assert run.compacted_at is not None
    count = Checkpoint.objects.filter(run=run).count()
    before = documents(run)
    aged(run, 40)
    assert operations.keep_house().compacted == 1
    after = documents(run)
    assert len(after) < count
    assert after == {no: before[no] for no in after}


def test_a_failed_run_goes_on_by_retry_after_it_was_compacted(house: House, define: Define) -> None:
    """Its row says when the next snapshot is due, and of which one its patches are made."""
    flow = define("talk")
    broken = {"yes": True}

    def fails(state: Any, ctx: Any) -> dict[str, Any]:
        if broken["yes"]:
            raise ValueError("no")
        return {"log": [*state.log, "well"]}

    for index in range(8):
        flow.node(name=f"n{index}")(speaking(index))
    flow.node(name="fails")(fails)
    flow.node(name="last")(speaking(9))
    names = [*(f"n{i}" for i in range(8)), "fails", "last"]
    for one, other in pairwise(names):
        flow.edge(one, other)
    workflows.register(flow)
    run = house.work(house.submit("talk"))
    assert run.status == "failed"
    compacted(run)
    assert sorted(documents(run)) == [0, 8]
    broken["yes"] = False
    operations.retry(actor=house.olga, run_id=run.pk)
    house.work(run)
    assert run.status == "completed"
    assert state_of(run)["log"][8:] == ["well", say(9)]
    assert sorted(documents(run)) == [0, 8, 9, 10]
    assert history_is_whole(run)


def test_copies_in_the_journal_go_and_what_they_were_copied_to_stays(house: House, flow: Workflow) -> None:
    run = lived(house)
    assert JournalEntry.objects.filter(run=run, branch=2, reused_from=1).count() == STEPS - 3
    compacted(run)
    left = JournalEntry.objects.filter(run=run).order_by("branch", "ordinal").values_list("branch", "node")
    assert sorted(left) == [(1, "n0"), (1, "n1"), (1, "n2"), *sorted((2, f"n{i}") for i in range(3, STEPS))]


def test_a_removed_checkpoint_says_so(house: House, flow: Workflow) -> None:
    run = compacted(lived(house))
    with pytest.raises(CheckpointRemoved) as removed:
        operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=2, reason="again")
    assert removed.value.facts["kept"] == sorted(documents(run))
    with pytest.raises(CheckpointRemoved):
        queries.checkpoint(run, 2)
    with pytest.raises(UnknownCheckpoint) as unknown:
        queries.checkpoint(run, 99)
    assert not isinstance(unknown.value, CheckpointRemoved)


def test_a_damaged_run_is_left_alone_once_and_for_all(house: House, flow: Workflow) -> None:
    run = lived(house)
    by_sql("UPDATE runs_checkpoint SET snapshot = '[' WHERE no = 2 AND run_id = %s", run.pk)
    numbers = set(Checkpoint.objects.filter(run=run).values_list("no", flat=True))
    aged(run, 40)
    assert operations.keep_house().compacted == 0
    assert set(Checkpoint.objects.filter(run=run).values_list("no", flat=True)) == numbers
    assert OperationalNote.objects.get(run=run).kind == "compaction_refused"
    assert not keeping.to_compact().exists()


def test_what_would_read_otherwise_is_not_compacted(
    house: House, flow: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The belt: each checkpoint is read again before the transaction commits."""
    run = lived(house)
    before = documents(run)
    real = compaction.rewritten

    def wrong(points: Iterable[Point], kept: frozenset[int]) -> Iterator[Kept]:
        for point in real(points, kept):
            yield replace(point, snapshot=point.snapshot and point.snapshot.replace("step 1 ", "step 9 "))

    monkeypatch.setattr(compaction, "rewritten", wrong)
    aged(run, 40)
    assert operations.keep_house().compacted == 0
    monkeypatch.undo()
    assert documents(run) == before


class Trace(BaseModel):
    trace: Annotated[list[str], append] = []


def lanes(flow: Workflow) -> Workflow:
    """start -> a1..a4 | ask, b1, b2 -> end: one lane works while the other waits for people."""
    for name in ("start", "a1", "a2", "a3", "a4", "b1", "b2", "end"):
        flow.node(name=name)(lambda state, ctx: {"trace": [ctx.node]})
    flow.approval(name="ask", reviewers=["finance"])(asking)
    for way in (("start", "a1", "a2", "a3", "a4", "end"), ("start", "ask", "b1", "b2", "end")):
        for one, other in pairwise(way):
            flow.edge(one, other)
    workflows.register(flow)
    return flow


def test_a_run_with_lanes_is_compacted_and_rewound_like_any_other(house: House, define: Define) -> None:
    """The approval is kept as it was asked, beside what the sibling lane had done by then, and as it was answered."""
    lanes(define("lanes", state=Trace))
    run = house.work(house.submit("lanes"))
    house.answer(open_approval(run), "approve")
    house.work(run)
    assert run.status == "completed"
    before, wanted = documents(run), state_of(run)
    compacted(run)
    after = documents(run)
    assert after == {no: before[no] for no in after}
    assert 0 < len(after) < len(before)
    assert set(Checkpoint.objects.filter(run=run, kind="answer").values_list("no", flat=True)) <= set(after)
    for no in sorted(after)[:-1]:
        operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=no, reason="again")
        house.work(run)
        if run.status == "waiting":
            house.answer(open_approval(run), "approve")
            house.work(run)
        assert (run.status, state_of(run)) == ("completed", wanted)
        assert history_is_whole(run)
