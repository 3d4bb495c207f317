"""What is made when a step begins to wait: approvals, and child runs that are played in the same book."""

from __future__ import annotations

from collections.abc import Sequence

from runs.engine import canonical, machine, schedule
from runs.engine.lineage import sees
from runs.engine.position import LiveStep
from runs.engine.status import RunStatus
from runs.engine.transition import Event, Transition
from runs.engine.waits import MAX_DEPTH, Place, Wanted, too_deep
from runs.engine.workflow import ApprovalOptions
from runs.errors import InvalidJson, JournalMismatch, SchemaViolation, Unprocessable
from runs.testing import waking
from runs.testing.book import ApprovalRow, BranchRow, ChildRow, RunRow
from runs.testing.writing import SYSTEM, Held, World, begin, lineage


def approval_of_node(world: World, run: RunRow, step: LiveStep, options: ApprovalOptions) -> ApprovalRow:
    earlier = world.book.find(ApprovalRow, run=run.id, node=step.node, name="")
    return _row(world, run, step.address, step.node, options, earlier)


def rows(
    world: World, run: RunRow, held: Held, wanted: Sequence[Wanted]
) -> dict[Place, ApprovalRow | RunRow]:
    """The rows that waits refer to, by place. Raises a `StepError` for a child whose input cannot be taken."""
    made: dict[Place, ApprovalRow | RunRow] = {}
    for one in wanted:
        if one.options is not None:
            made[one.place] = _question(world, run, held, one)
        elif one.child is not None:
            made[one.place] = _child(world, run, held.step.address, one)
    return made


def _question(world: World, run: RunRow, held: Held, one: Wanted) -> ApprovalRow:
    assert one.options is not None
    first = one.occurrence.partition("~")[0]
    asked = world.book.find(ApprovalRow, run=run.id, node=held.step.node, name=one.name)
    earlier = [row for row in asked if row.occurrence.partition("~")[0] == first]
    return _row(world, run, held.step.address, held.step.node, one.options, earlier)


def _row(
    world: World,
    run: RunRow,
    address: str,
    node: str,
    options: ApprovalOptions,
    earlier: Sequence[ApprovalRow],
) -> ApprovalRow:
    """An approval that is not stored yet; the commit completes it."""
    return ApprovalRow(
        id=world.new_id(),
        run=run.id,
        branch=run.branch,
        address=address,
        node=node,
        document=None,
        digest="",
        options=schedule.with_hours(options, world.people.hours_of(schedule.first_team(options))),
        opened_at=world.now,
        previous=earlier[-1].id if earlier else "",
    )


def unanswerable(world: World, row: ApprovalRow, step: LiveStep) -> list[Event]:
    """What the history says of a question that nobody can answer, if that is so."""
    lack = world.people.lack(ApprovalOptions.of(row.options))
    if lack is None:
        return []
    return [Event("approval_unanswerable", {"approval": row.id, **lack.as_dict()}, step.node, step.address)]


def told(transition: Transition, news: Sequence[Event]) -> Transition:
    """A transition that tells of the questions it opens, if it opens any."""
    if transition.opened or transition.wanted:
        transition.events.extend(news)
    return transition


# ---- children


def _child(world: World, parent: RunRow, address: str, one: Wanted) -> RunRow:
    """The child of this place: the one that was started there, one that a branch left behind has completed, or a new one."""
    line = lineage(world.book, parent.id, parent.branch)
    everywhere = _children_at(world, parent, address, one.place)
    seen = next((row for row in everywhere if sees(line, row.branch, row.after)), None)
    if seen is not None:
        return _same(world, seen, one)
    mended = _mended(world, parent, address, one)
    if mended is not None:
        return mended
    done = [row for row in everywhere if _is_done(world, row) and row.digest == one.digest]
    if done and world.book.get(BranchRow, run=parent.id, no=parent.branch).calls == "reuse":
        return world.run(done[0].run)
    _check_depth(world, parent, one)
    for old in everywhere:
        run = world.run(old.run)
        if run.finished_at is None and old.on_parent_cancel == "cancel":
            waking.store(world, run, machine.cancel(run.status, reason="parent_rewound"), actor=SYSTEM)
    return _start(world, parent, address, one)


def _check_depth(world: World, parent: RunRow, one: Wanted) -> None:
    """A workflow that starts itself comes to an end, here as in Postgres."""
    depth, above = 1, parent.parent
    while above and depth < MAX_DEPTH:
        depth, above = depth + 1, world.run(above).parent
    if depth >= MAX_DEPTH:
        raise too_deep(one.name)


def _children_at(world: World, parent: RunRow, address: str, place: Place) -> list[ChildRow]:
    """Every child that was ever started at a place, the newest first."""
    found = world.book.find(ChildRow, parent=parent.id, address=address, name=place[0], occurrence=place[1])
    return sorted(found, key=lambda row: (row.branch, row.row), reverse=True)


def _is_done(world: World, child: ChildRow) -> bool:
    return world.run(child.run).status == RunStatus.COMPLETED


def _mended(world: World, parent: RunRow, address: str, one: Wanted) -> RunRow | None:
    """A child that had failed when it was waited for, and has completed since by a Retry or a rewind of its own."""
    first, again, _ = one.occurrence.partition("~")
    line = lineage(world.book, parent.id, parent.branch)
    rows = _children_at(world, parent, address, (one.name, first)) if again else []
    seen = next((row for row in rows if sees(line, row.branch, row.after)), None)
    if seen is None or seen.digest != one.digest or not _is_done(world, seen):
        return None
    return world.run(seen.run)


def _same(world: World, child: ChildRow, one: Wanted) -> RunRow:
    run = world.run(child.run)
    if child.digest != one.digest:
        raise JournalMismatch(
            f"The child run of {one.name!r} ({one.occurrence}) was started with another input than it is asked for now.",
            call=one.name,
            occurrence=one.occurrence,
            recorded=run.input,
            asked=one.child.input if one.child else None,
        )
    return run


def _start(world: World, parent: RunRow, address: str, one: Wanted) -> RunRow:
    assert one.child is not None
    workflow = world.workflow(one.child.workflow)
    try:
        canonical.check(one.child.input)
        run = begin(world, workflow, one.child.input, parent=parent.id)
    except (Unprocessable, InvalidJson) as error:
        raise SchemaViolation(
            f"The input of the child run of {one.name!r} cannot be taken: {error.detail}", errors=error.errors
        ) from None
    child = ChildRow(
        run=run.id,
        parent=parent.id,
        branch=parent.branch,
        address=address,
        name=one.name,
        occurrence=one.occurrence,
        after=parent.head,
        digest=one.digest,
        on_parent_cancel=one.child.on_parent_cancel,
    )
    world.book.add(child)
    return run
