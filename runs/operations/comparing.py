"""Two checkpoints side by side, of one branch, of two branches or of two runs: what led to each, and what came of it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.db.models import Q

from runs import queries, store
from runs.engine import canonical
from runs.engine import position as at
from runs.engine.canonical import Json
from runs.engine.patch import Change, difference
from runs.engine.status import ApprovalStatus, StepStatus
from runs.errors import Told, UnknownBranch, UnknownCheckpoint
from runs.models import Approval, Checkpoint, JournalEntry, Run, Step, Usage
from runs.operations.door import as_uuid
from runs.policies import Actor
from runs.queries import Spent

FORKS: Final = 20  # how far back a fork's way is followed
CALLS: Final = ("call", "child")
JOURNALLED: Final = (*CALLS, "answer", "first")

Place = tuple[str, str, str]
Stretch = tuple[uuid.UUID, int, int]  # a run, a branch of it, and its last checkpoint that counts


@dataclass(frozen=True, slots=True)
class At:
    """Where to look: a checkpoint, or where a branch or the run stands. run: default the one that is asked about."""

    run: uuid.UUID | None = None
    checkpoint: int | None = None
    branch: int | None = None


@dataclass(slots=True)
class Side:
    """One checkpoint with everything that led to it, the way of a fork's origin included."""

    run: Run
    checkpoint: int
    branch: int
    position: dict[str, Any]
    steps: dict[str, Step] = field(default_factory=dict)
    calls: dict[Place, JournalEntry] = field(default_factory=dict)
    way: tuple[Stretch, ...] = ()
    decisions: list[Approval] = field(default_factory=list)
    usage: Spent = field(default_factory=Spent)

    @property
    def state(self) -> dict[str, Json]:
        return at.state(self.position)


@dataclass(frozen=True, slots=True)
class CallPair:
    """A call that was made on both sides with another result, or on one side alone (None on the other)."""

    left: JournalEntry | None
    right: JournalEntry | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """left and right, and how they differ. run: the one that was asked about. common: how many steps are on the way to both."""

    run: Run
    left: Side
    right: Side
    state: list[Change]
    common: int
    only_left: list[Step]
    only_right: list[Step]
    calls: list[CallPair]


def compare(*, actor: Actor, run_id: uuid.UUID | str, left: At, right: At) -> Comparison:
    """Hold two checkpoints side by side. Changes nothing; whoever may see the runs may compare them."""
    run = queries.run(actor.project.pk, as_uuid(run_id))
    one = _side(_run_of(actor, run, left), left)
    other = _side(_run_of(actor, run, right), right)
    _fill(one, other)
    common = one.steps.keys() & other.steps.keys()
    return Comparison(
        run,
        one,
        other,
        list(difference(one.state, other.state)),
        len(common),
        _apart(one.steps, common),
        _apart(other.steps, common),
        _pairs(one.calls, other.calls),
    )


def compared_with(*, actor: Actor, run_id: uuid.UUID | str, left: At) -> At:
    """What to hold a checkpoint against if nothing else is said: the one before it; of a fork's first, its origin's."""
    run = queries.run(actor.project.pk, as_uuid(run_id))
    no = _checkpoint(run, left)
    found = Checkpoint.objects.filter(run=run, no=no).only("parent").first()
    if found is None:
        raise store.missing_checkpoint(run.pk, no)
    if found.parent is not None:
        return At(checkpoint=found.parent)
    if run.forked_from_id is not None:
        return At(run=run.forked_from_id, checkpoint=run.forked_checkpoint)
    return At(checkpoint=no)


def _run_of(actor: Actor, run: Run, where: At) -> Run:
    return run if where.run is None or where.run == run.pk else queries.run(actor.project.pk, where.run)


def _side(run: Run, where: At) -> Side:
    checkpoint = _checkpoint(run, where)
    line = store.lineage_at(run.pk, checkpoint)
    stored = store.version_at(run, checkpoint)
    position = queries.as_here(run, store.read_position(run.pk, checkpoint), stored=stored).position
    return Side(run, checkpoint, next(iter(line)), position, way=tuple(_way(run, line)))


def _checkpoint(run: Run, where: At) -> int:
    if where.checkpoint is not None:
        if not _fits(where.checkpoint):
            raise UnknownCheckpoint(
                Told("The run has no checkpoint {checkpoint}.", checkpoint=where.checkpoint),
                checkpoint=where.checkpoint,
            )
        return where.checkpoint
    if where.branch is None or where.branch == run.branch:
        return run.head
    branches, heads = queries.branches_of(run.pk)
    named = next((branch for branch in branches if branch.no == where.branch), None)
    if named is None:
        raise UnknownBranch(Told("The run has no branch {branch}.", branch=where.branch), branch=where.branch)
    return heads[named.no][0] if named.no in heads else int(named.parent_checkpoint or 0)


def _fits(number: int) -> bool:
    return 0 <= number < 2**31


def _way(run: Run, line: Mapping[int, int]) -> Iterable[Stretch]:
    """Every stretch that leads to a checkpoint, also in the runs that this one was forked from."""
    here, now = run, line
    for _ in range(FORKS):
        yield from ((here.pk, branch, limit) for branch, limit in now.items())
        origin = here.forked_from
        if origin is None or here.forked_checkpoint is None:
            return
        now = store.lineage_at(origin.pk, here.forked_checkpoint)
        here = origin


def _on(ways: Iterable[Stretch], last: str, *, inclusive: bool) -> Q:
    """Rows on a way. last: the column that says until when they count."""
    test = f"{last}__{'lte' if inclusive else 'lt'}"
    found = Q(pk__in=[])
    for run_id, branch, limit in ways:
        found |= Q(run=run_id, branch=branch, **{test: limit})
    return found


def _fill(*sides: Side) -> None:
    """What led to each: read together, as most of it led to both, and then told apart. Five queries."""
    stretches = {stretch for side in sides for stretch in side.way}
    answers = _add_rows(sides, stretches)
    _add_decisions(sides, stretches, answers)
    _add_usage(sides)


def _add_rows(sides: Sequence[Side], stretches: set[Stretch]) -> list[JournalEntry]:
    """Steps and calls; returns the answers that people gave in the middle of code."""
    steps = Step.objects.filter(_on(stretches, "checkpoint", inclusive=True)).exclude(status=StepStatus.VOID)
    for step in steps.order_by("ended_at", "checkpoint"):
        for side in sides:
            if _is_on(side, step, step.checkpoint, inclusive=True):
                side.steps[step.address] = step
    rows = JournalEntry.objects.filter(_on(stretches, "after", inclusive=False), kind__in=JOURNALLED)
    answers = []
    for row in rows.order_by("ended_at", "ordinal"):
        if row.kind not in CALLS:
            answers.append(row)
            continue
        for side in sides:
            if _is_on(side, row, row.after, inclusive=False):
                side.calls[row.address, row.name, row.occurrence] = row
    return answers


def _is_on(side: Side, row: Step | JournalEntry, no: int | None, *, inclusive: bool) -> bool:
    return no is not None and any(
        (run_id, branch) == (row.run_id, row.branch) and (no <= limit if inclusive else no < limit)
        for run_id, branch, limit in side.way
    )


def _add_decisions(
    sides: Sequence[Side], stretches: Iterable[Stretch], answers: Sequence[JournalEntry]
) -> None:
    """What people (or the clock) decided on the way: of an approval node its step is done; in code the answer is journalled."""
    runs = {run_id for run_id, _, _ in stretches}
    decided = Approval.objects.filter(
        run__in=runs, status__in=(ApprovalStatus.DECIDED, ApprovalStatus.EXPIRED)
    )
    found = list(queries.with_votes(decided).order_by("closed_at", "id"))
    for side in sides:
        done = {(step.run_id, step.branch, step.address) for step in side.steps.values()}
        answered = {
            (row.run_id, row.branch, row.address)
            for row in answers
            if _is_on(side, row, row.after, inclusive=False)
        }
        for approval in found:
            place = (approval.run_id, approval.branch, approval.address)
            if place in (done | answered if approval.name else done):
                side.decisions.append(approval)


def _add_usage(sides: Sequence[Side]) -> None:
    """What the steps on the way used, and the calls of those that are under way."""
    used = {id(side): _places(side) for side in sides}
    runs = {run_id for places in used.values() for run_id, _, _ in places}
    rows = Usage.objects.filter(run__in=runs)
    for run_id, branch, address, spent in queries.spent_by_place(rows, "run_id", "branch", "address"):
        for side in sides:
            if (run_id, branch, address) in used[id(side)]:
                side.usage.add(spent)


def _places(side: Side) -> set[tuple[uuid.UUID, int, str]]:
    rows: list[Step | JournalEntry] = [*side.steps.values(), *side.calls.values()]
    return {(row.run_id, row.branch, row.address) for row in rows}


def _apart(steps: Mapping[str, Step], common: Iterable[str]) -> list[Step]:
    shared = set(common)
    return [step for address, step in steps.items() if address not in shared]


def _pairs(left: Mapping[Place, JournalEntry], right: Mapping[Place, JournalEntry]) -> list[CallPair]:
    """Calls with another result, or on one side alone; in the order of the left side, then of the right one."""
    pairs = [CallPair(left.get(place), right.get(place)) for place in dict.fromkeys([*left, *right])]
    return [pair for pair in pairs if not _alike(pair)]


def _alike(pair: CallPair) -> bool:
    if pair.left is None or pair.right is None:
        return False
    return pair.left.pk == pair.right.pk or canonical.same(
        canonical.loads(pair.left.result), canonical.loads(pair.right.result)
    )
