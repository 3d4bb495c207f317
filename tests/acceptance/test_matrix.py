"""The kill matrix: every fault at every write that moves a run, and an operator who rewinds or cancels it at that very moment.
Whatever happens, the run ends by itself as was last wanted, each result is committed once, and nothing is left over. The
ledger counts what really ran.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx
import pytest

from tests.acceptance.faults import Hold, Place, Places, end_backends, freeze_child, kill_child, thaw_child
from tests.acceptance.invariants import CONNECTION, assert_invariants, assert_takes_at_once
from tests.acceptance.site import PATIENCE, TERMINAL, Site, fresh_name
from tests.kit.servers import Servers
from tests.kit.stack import Stack
from tests.kit.waiting import until
from tests.sizes import size

pytestmark = pytest.mark.acceptance

EXPLAINED = (*CONNECTION, "WorkerLostError")  # tracebacks that the faults cause
WORKERS, CHILDREN = ("w1", "w2"), 6
TOGETHER = (
    9  # runs that stand at writes at the same time; the other children are for their lanes and for takeovers
)


@pytest.fixture(scope="module")
def shared(servers: Servers) -> Iterator[Site]:
    """A short lease: what is frozen is to be taken over soon."""
    stack = Stack(servers, env={"HITL_LEASE_SECONDS": "3"})
    try:
        site = Site(stack)
        stack.start(workers=[])
        for worker in WORKERS:
            stack.start_worker(worker, children=CHILDREN)
        yield site
        site.close()
    finally:
        stack.stop()


@pytest.fixture(scope="module")
def places(shared: Site) -> Iterator[Places]:
    made = Places(shared, [write.place for write in WRITES])
    yield made
    made.close()


@dataclass(frozen=True)
class Subject:
    """A workflow of the kit, what its state holds in the end, and which stamps it leaves in the ledger."""

    workflow: str
    ends: dict[str, Any]
    stamps: tuple[str, ...]
    completed: int  # steps


PAIR = Subject("pair", {"done": ["work", "settle", "send"]}, ("work", "settle", "send", "charge", "mail"), 3)
MILL = Subject(
    "mill",
    {"trace": ["start", "left", "right", "only", "approve", "buy"], "parts": [1, 4, 9]},
    ("start", "right", "left", "charge", "grind1", "grind2", "grind3", "buy"),
    8,
)


@dataclass(frozen=True)
class Write:
    """A row of a run whose INSERT is the moment. approved: whether it comes after the approval."""

    subject: Subject
    place: Place
    approved: bool

    def __str__(self) -> str:
        moment = "at the commit of" if self.place.at_commit else "before"
        return f"{self.subject.workflow} {moment} {self.place.table}, {self.place.when}"


PLACES = [
    (PAIR, "runs_journalentry", "NEW.name = 'charge'", False),
    (PAIR, "runs_journalentry", "NEW.name = 'mail'", False),
    (PAIR, "runs_checkpoint", "NEW.node = 'work'", False),
    (PAIR, "runs_checkpoint", "NEW.node = 'settle'", False),
    (PAIR, "runs_approval", "NEW.node = 'confirm'", False),
    (PAIR, "runs_checkpoint", "NEW.node = 'send'", True),
    (MILL, "runs_checkpoint", "NEW.node = 'start'", False),  # the split
    (MILL, "runs_wait", "NEW.kind = 'timer'", False),
    (MILL, "runs_checkpoint", "NEW.node = 'right'", False),
    (MILL, "runs_checkpoint", "NEW.node = 'left'", False),  # the join
    (MILL, "runs_journalentry", "NEW.name = 'items'", False),
    (MILL, "runs_event", "NEW.kind = 'fan_out_started'", False),
    (MILL, "runs_event", "NEW.kind = 'step_completed' AND NEW.node = 'grind'", False),  # an item
    (MILL, "runs_child", "NEW.name <> ''", False),
    (MILL, "runs_approval", "NEW.node = 'buy'", False),
    (MILL, "runs_checkpoint", "NEW.node = 'buy' AND NEW.kind = 'step'", True),
]
WRITES = [
    # A row of the journal is committed with its own statement: there is no moment between the two.
    Write(subject, Place(table, when, at_commit), approved)
    for subject, table, when, approved in PLACES
    for at_commit in ((False,) if table == "runs_journalentry" else (False, True))
]


# ---- what happens to the process that stands at the write. Each returns what is to be done once the run has gone on.

Afterwards = Callable[[], None]


def killed(site: Site, one: Standing) -> Afterwards:
    """SIGKILL, and its connections go with it, as on a lost machine."""
    kill_child(one.child)
    end_backends(site, one.backends)
    return _nothing


def killed_unheard(site: Site, one: Standing) -> Afterwards:
    """SIGKILL between the commit and the answer."""
    freeze_child(one.child)
    one.release()
    _let_commit(site, one.backends)
    kill_child(one.child)
    return _nothing


def frozen(site: Site, one: Standing) -> Afterwards:
    """SIGSTOP until the operator has been answered, or for longer than its lease: then it comes back once others have gone on."""
    freeze_child(one.child)
    one.release()
    return lambda: thaw_child(one.child)


def cut_off(site: Site, one: Standing) -> Afterwards:
    """pg_terminate_backend: nothing of the transaction is left."""
    end_backends(site, one.backends)
    return _nothing


def cut_off_unheard(site: Site, one: Standing) -> Afterwards:
    """pg_terminate_backend between the commit and the answer: the worker cannot know whether it landed."""
    freeze_child(one.child)
    one.release()
    _let_commit(site, one.backends)
    end_backends(site, one.backends)
    thaw_child(one.child)
    return _nothing


def flushed(site: Site, one: Standing) -> Afterwards:
    """Redis is emptied."""
    site.stack.flush_redis()
    return _nothing


def _nothing() -> None:
    pass


def _let_commit(site: Site, backends: list[int]) -> None:
    """Until the server has done all that it can without the client."""
    until(
        lambda: (
            not site.sql("SELECT 1 FROM pg_stat_activity WHERE pid = ANY(%s) AND state = 'active'", backends)
        ),
        what="the statement is through",
    )


# ---- what an operator asks for while the process stands there: under way when the fault strikes


Ask = Callable[[], httpx.Response]


def undisturbed(site: Site, run_id: str) -> Ask | None:
    return None


def rewound(site: Site, run_id: str) -> Ask:
    """To any checkpoint that there is."""
    head = site.one("SELECT head FROM runs_run WHERE id = %s", run_id)
    return partial(site.rewind, run_id, random.randint(0, head))


def cancelled(site: Site, run_id: str) -> Ask:
    return partial(site.as_("olga").post, f"/runs/{run_id}/cancel", json={})


Act = Callable[[Site, str], Ask | None]
ACTS: list[Act] = [undisturbed, rewound, cancelled]


@dataclass
class Case:
    """One run on its way through a fault."""

    write: Write
    act: Act
    name: str = field(default_factory=fresh_name)
    run_id: str = ""
    hold: Hold | None = None
    answer: Future[httpx.Response] | None = None

    def __str__(self) -> str:
        return f"{self.write}, {self.act.__name__}: run {self.run_id} of {self.name}"

    @property
    def subject(self) -> Subject:
        return self.write.subject

    @property
    def wanted(self) -> str:
        """How the run is to end. Who cancels too late is told so, and changes nothing."""
        if self.act is not cancelled:
            return "completed"
        assert self.answer is not None
        answer = self.answer.result()
        if answer.status_code == 200:
            return "cancelled"
        assert answer.json()["code"] == "already_terminal", answer.text
        return "completed"


@dataclass
class Standing:
    """A pool child at the write of a case, or of two: beside the step that it was told of, it may have found a forgotten one."""

    child: int
    cases: list[Case] = field(default_factory=list)
    backends: list[int] = field(default_factory=list)

    def release(self) -> None:
        for case in self.cases:
            assert case.hold is not None
            case.hold.release()


Fault = Callable[[Site, Standing], Afterwards]


@pytest.mark.parametrize(
    "fault",
    [killed, killed_unheard, frozen, cut_off, cut_off_unheard, flushed],
    ids=lambda fault: fault.__name__,
)
def test_a_fault_at_a_write_loses_and_repeats_nothing(site: Site, places: Places, fault: Fault) -> None:
    """C32, C33, C38, C42, C52: random writes in the small size, all in the full one; runs left alone, rewound and cancelled."""
    cases = [
        Case(write, act) for _ in range(size("rounds of the matrix")) for act in ACTS for write in _some()
    ]
    random.shuffle(cases)
    for first in range(0, len(cases), TOGETHER):
        _go_wrong(site, places, fault, cases[first : first + TOGETHER])
    # Those that were frozen have come back, and what they had in hand is done with, when all take something.
    assert_takes_at_once(site, len(WORKERS) * CHILDREN)
    for case in cases:
        _see(site, case)
    every = [run_id for case in cases for run_id in (case.run_id, *_children(site, case.run_id))]
    assert_invariants(site, *every, expected=EXPLAINED, consume=False)


def test_who_was_overtaken_in_the_same_epoch_commits_nothing(site: Site, places: Places) -> None:
    """C32, C33: it comes back in mid-step while its heir stands at the commit of the same step. The run has not moved, so that
    the step's token alone tells the two apart.
    """
    called, committed = (
        next(write for write in WRITES if (write.place.table, write.place.when) == place)
        for place in (("runs_journalentry", "NEW.name = 'mail'"), ("runs_checkpoint", "NEW.node = 'work'"))
    )
    cases = [Case(called, undisturbed) for _ in range(size("overtaken"))]
    for case in cases:
        case.hold = places.hold(called.place, case.name)
        case.run_id = site.start(PAIR.workflow, name=case.name)
    standing = _standing(site, cases)
    commits = {case.run_id: places.hold(committed.place, case.name) for case in cases}
    for one in standing:
        freeze_child(one.child)
        one.release()  # the call is in the journal, and its process has not heard of it
    heirs = {run_id: hold.reached() for run_id, hold in commits.items()}
    for one in standing:
        thaw_child(one.child)
    for one in standing:
        for case in one.cases:
            is_back = partial(_is_back, site, one.child, case, heirs[case.run_id])
            until(is_back, seconds=PATIENCE, what=f"it is back: {case}")
            commits[case.run_id].release()
    _see_through(site, cases)
    assert_takes_at_once(site, len(WORKERS) * CHILDREN)
    for case in cases:
        _see(site, case)
        assert site.notes(case.run_id, "late_result_discarded"), (
            f"{case} was overtaken: {site.story(case.run_id)}"
        )
    assert_invariants(site, *(case.run_id for case in cases), expected=EXPLAINED, consume=False)


def _is_back(site: Site, child: int, case: Case, heir: list[int]) -> bool:
    """The child waits behind its heir with a result of its own, or has been told that nobody wants it."""
    waiting = site.sql(
        "SELECT application_name FROM pg_stat_activity WHERE pg_blocking_pids(pid) && %s::int[]", heir
    )
    is_waiting = any(row["application_name"].endswith(f" {child}") for row in waiting)
    return is_waiting or bool(site.notes(case.run_id, "late_result_discarded"))


def _some() -> list[Write]:
    return random.sample(WRITES, min(size("writes of the matrix"), len(WRITES)))


def _go_wrong(site: Site, places: Places, fault: Fault, cases: Sequence[Case]) -> None:
    """All of them at once: each to its write, there the operator's wish and the fault, and on to its end."""
    for case in cases:
        if not case.write.approved:
            case.hold = places.hold(case.write.place, case.name)
        case.run_id = site.start(case.subject.workflow, name=case.name)
    for case in cases:
        if case.write.approved:
            approval = _asked(site, case.run_id)
            case.hold = places.hold(case.write.place, case.name)
            assert site.decide(approval).status_code == 200
    with ThreadPoolExecutor(len(cases)) as operators:
        afterwards = [_strike(site, fault, one, operators) for one in _standing(site, cases)]
        for case in cases:
            if case.answer is not None:
                case.answer.result(timeout=PATIENCE)
    # Who was frozen comes back while the run goes on, or when all is over.
    for after in afterwards[::2]:
        after()
    _see_through(site, cases)
    for after in afterwards[1::2]:
        after()


def _standing(site: Site, cases: Sequence[Case]) -> list[Standing]:
    """Who stands at the writes, once all cases are there. Whoever stands at two is to be struck once, at both."""
    found: dict[int, Standing] = {}
    for case in cases:
        assert case.hold is not None
        backends = case.hold.reached()
        child = _child(site, backends)
        one = found.setdefault(child, Standing(child))
        one.cases.append(case)
        one.backends += backends
    return list(found.values())


def _strike(site: Site, fault: Fault, one: Standing, operators: ThreadPoolExecutor) -> Afterwards:
    for case in one.cases:
        ask = case.act(site, case.run_id)
        if ask is not None:
            case.answer = operators.submit(_patiently, ask)
            until(
                partial(_is_under_way, site, case.answer, one.backends), what=f"the wish is under way: {case}"
            )
    afterwards = fault(site, one)
    one.release()
    return afterwards


def _patiently(ask: Ask) -> httpx.Response:
    """Asks again while somebody else holds the run."""
    answers: list[httpx.Response] = []

    def is_heard() -> bool:
        answers.append(ask())
        return not (answers[-1].status_code == 409 and answers[-1].json()["code"] == "busy")

    until(is_heard, seconds=PATIENCE, what="the run is free")
    return answers[-1]


def _is_under_way(site: Site, answer: Future[httpx.Response], backends: list[int]) -> bool:
    """Done already, or waiting for what the process at the write holds."""
    return answer.done() or bool(
        site.sql("SELECT 1 FROM pg_stat_activity WHERE pg_blocking_pids(pid) && %s::int[]", backends)
    )


def _see_through(site: Site, cases: Sequence[Case]) -> None:
    """Until all have ended; whatever people are asked on the way is approved."""
    left = {case.run_id: case for case in cases}

    def have_ended() -> bool:
        for run_id in list(left):
            if site.one("SELECT status FROM runs_run WHERE id = %s", run_id) in TERMINAL:
                del left[run_id]
            elif site.sql("SELECT 1 FROM runs_approval WHERE run_id = %s AND status = 'open'", run_id):
                assert site.decide(_asked(site, run_id)).status_code == 200
        return not left

    until(have_ended, seconds=2 * PATIENCE, what="all have ended")


def _see(site: Site, case: Case) -> None:
    """Ended as wanted; along the checkpoints that lead to its head each step is committed once; nothing ran more often than
    the fault, the wait and the rewind explain.
    """
    ended = site.wait(case.run_id, case.wanted)
    if case.act is rewound:
        assert case.answer is not None
        assert case.answer.result().status_code == 202, case.answer.result().text
        assert ended["branch"] == 2, case
    for child in _children(site, case.run_id):
        site.wait(child, *TERMINAL)
    told = f"{case}: {site.story(case.run_id)} {site.ledger.stamps(name=case.name)}"
    if ended["status"] == "completed":
        assert {key: ended["state"][key] for key in case.subject.ends} == case.subject.ends, told
        assert _committed(site, case.run_id) == case.subject.completed, told
    counts = [site.ledger.count(name=case.name, step=step) for step in case.subject.stamps]
    least = int(ended["status"] == "completed")
    most = 4 if case.act is rewound else 2
    assert all(least <= count <= most for count in counts), told
    keys = {stamp["key"] for stamp in site.ledger.stamps(name=case.name, step="charge")}
    assert least <= len(keys) <= 1, told


def _asked(site: Site, run_id: str) -> dict[str, Any]:
    """What people are asked; a sibling or a child may still be under way when the run first waits."""
    asked = until(lambda: site.run(run_id)["pending_approvals"], seconds=PATIENCE, what="people are asked")
    return dict(asked[0])


def _child(site: Site, backends: list[int]) -> int:
    """The pool child whose backend stands at the write, as its connection says."""
    return int(
        str(site.one("SELECT application_name FROM pg_stat_activity WHERE pid = %s", backends[0])).split()[-1]
    )


def _children(site: Site, run_id: str) -> list[str]:
    return [str(row["id"]) for row in site.sql("SELECT id FROM runs_run WHERE parent_id = %s", run_id)]


def _committed(site: Site, run_id: str) -> int:
    """How many steps were completed along the line of checkpoints that leads to the head."""
    return int(
        site.one(
            "WITH RECURSIVE line AS ("
            " SELECT point.no, point.parent FROM runs_checkpoint point JOIN runs_run run ON run.id = run_id AND head = no"
            "  WHERE run_id = %s"
            " UNION ALL SELECT point.no, point.parent FROM runs_checkpoint point JOIN line ON point.no = line.parent"
            "  WHERE run_id = %s)"
            "SELECT count(*) FROM runs_event JOIN line ON line.no = checkpoint"
            " WHERE run_id = %s AND kind = 'step_completed'",
            run_id,
            run_id,
            run_id,
        )
    )
