"""Taking back the calls of a played run: which they are, by the rules of the engine."""

from __future__ import annotations

from runs.engine import compensation
from runs.engine.compensation import CallPlace, Ending, failure, undo_of
from runs.engine.status import LIVE_STEPS, RunStatus, StepStatus
from runs.engine.transition import Transition, Undo
from runs.errors import Compensating
from runs.testing.book import CheckpointRow, JournalRow, RunRow, StepRow
from runs.testing.writing import World, lineage


def to_take_back(world: World, run: RunRow, transition: Transition, compensate: bool) -> list[Undo]:
    """The calls to take back before the run ends as this transition says."""
    if transition.status is RunStatus.CANCELLED and compensate:
        return _left(world, run)
    if transition.status is RunStatus.FAILED and world.workflow_of(run).compensate:
        return _left(world, run)
    return []


def ending_of(world: World, run: RunRow) -> Ending:
    rows = [row for row in _steps(world, run) if row.branch == run.branch and row.status == StepStatus.FAILED]
    failed = [failure(undo_at(row), row.error or {}) for row in rows]
    return Ending(run.status, run.ending or {}, _left(world, run), failed)


def everything_left(world: World, run: RunRow) -> Ending:
    """With the call that is being taken back."""
    ending = ending_of(world, run)
    under_way = [undo_at(row) for row in _steps(world, run) if row.status in LIVE_STEPS]
    return Ending(ending.status, ending.ending, [*under_way, *ending.left], ending.failed)


def undo_at(step: StepRow) -> Undo:
    branch, address, name, occurrence = step.undoes
    return Undo(branch, address, name, occurrence, step.node)


def entry_of(world: World, step: StepRow) -> JournalRow:
    undo = undo_at(step)
    return world.book.get(
        JournalRow,
        run=step.run,
        branch=undo.branch,
        address=undo.address,
        name=undo.name,
        occurrence=undo.occurrence,
    )


def taken_over(world: World, run: RunRow, step: StepRow, *, crashes: int, limit: int) -> Transition:
    return compensation.undo_taken_over(
        ending_of(world, run),
        undo_at(step),
        reason="worker_gone",
        crashes=crashes,
        limit=limit,
        worker="1",
    )


# ---- what goes on from a run that took calls back


def check_steady(run: RunRow) -> None:
    if run.ending is not None:
        raise Compensating()


def check_standing(world: World, run: RunRow, checkpoint: int) -> None:
    compensation.check_standing(_gone(world, run), _limits(world, run, checkpoint))


def check_unbroken(world: World, run: RunRow) -> None:
    compensation.check_unbroken(_gone(world, run), lineage(world.book, run.id, run.branch))


def to_make_again(world: World, run: RunRow, checkpoint: int) -> set[CallPlace]:
    return compensation.to_make_again(_calls(world, run), _gone(world, run), _limits(world, run, checkpoint))


def _limits(world: World, run: RunRow, checkpoint: int) -> dict[int, int]:
    point = world.book.get(CheckpointRow, run=run.id, no=checkpoint)
    line = lineage(world.book, run.id, point.branch)
    return {no: checkpoint if limit is None else min(limit, checkpoint) for no, limit in line.items()}


def _steps(world: World, run: RunRow) -> list[StepRow]:
    return [row for row in world.book.find(StepRow, run=run.id) if row.undoes]


def _calls(world: World, run: RunRow) -> list[JournalRow]:
    """Calls that say how they are taken back, the newest first."""
    return [row for row in reversed(world.book.find(JournalRow, run=run.id, kind="call")) if row.undo]


def _left(world: World, run: RunRow) -> list[Undo]:
    line = lineage(world.book, run.id, run.branch)
    begun = [row.address for row in _steps(world, run)]
    return compensation.left_to_take_back(_calls(world, run), line, begun)


def _gone(world: World, run: RunRow) -> list[JournalRow]:
    ended = (StepStatus.COMPLETED, StepStatus.FAILED)
    steps = {row.address for row in _steps(world, run) if row.status in ended}
    return [row for row in _calls(world, run) if undo_of(row).step in steps]
