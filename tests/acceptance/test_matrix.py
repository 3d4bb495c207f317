"""The kill matrix: every fault at every write that moves a run. Whatever happens, the run completes by itself, each result is
committed once, and nothing is left over. The ledger counts what really ran.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from tests.acceptance.faults import (
    Hold,
    end_backends,
    freeze_child,
    held,
    kill_child,
    thaw_child,
)
from tests.acceptance.invariants import CONNECTION, assert_invariants
from tests.acceptance.site import PATIENCE, Site, fresh_name
from tests.kit.servers import Servers
from tests.kit.stack import Stack
from tests.kit.waiting import until
from tests.sizes import size

pytestmark = pytest.mark.acceptance

EXPLAINED = (*CONNECTION, "WorkerLostError")  # tracebacks that the faults cause


@pytest.fixture(scope="module")
def shared(servers: Servers) -> Iterator[Site]:
    """A short lease: what is frozen is to be taken over soon."""
    stack = Stack(servers, env={"HITL_LEASE_SECONDS": "3"})
    try:
        site = Site(stack)
        stack.start()
        yield site
        site.close()
    finally:
        stack.stop()


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
    """A row whose INSERT is the moment. at_commit: the last moment at which its transaction may still be lost.

    approved: whether it comes after the approval.
    """

    subject: Subject
    table: str
    when: str
    at_commit: bool
    approved: bool = False

    def __str__(self) -> str:
        return f"{self.subject.workflow} {'at the commit of' if self.at_commit else 'before'} {self.table}, {self.when}"


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
    Write(subject, table, when, at_commit, approved)
    for subject, table, when, approved in PLACES
    for at_commit in ((False,) if table == "runs_journalentry" else (False, True))
]


# ---- what happens to the process that stands at the write. Each returns what is to be done once the run has gone on.

Afterwards = Callable[[], None]


def killed(site: Site, child: int, hold: Hold, backends: list[int]) -> Afterwards:
    """SIGKILL, and its connection goes with it, as on a lost machine."""
    kill_child(child)
    end_backends(site, backends)
    return _nothing


def killed_unheard(site: Site, child: int, hold: Hold, backends: list[int]) -> Afterwards:
    """SIGKILL between the commit and the answer."""
    freeze_child(child)
    hold.release()
    _let_commit(site, backends)
    kill_child(child)
    return _nothing


def frozen(site: Site, child: int, hold: Hold, backends: list[int]) -> Afterwards:
    """SIGSTOP for longer than its lease; it comes back once others have gone on."""
    freeze_child(child)
    hold.release()
    return lambda: thaw_child(child)


def cut_off(site: Site, child: int, hold: Hold, backends: list[int]) -> Afterwards:
    """pg_terminate_backend: nothing of the transaction is left."""
    end_backends(site, backends)
    return _nothing


def cut_off_unheard(site: Site, child: int, hold: Hold, backends: list[int]) -> Afterwards:
    """pg_terminate_backend between the commit and the answer: the worker cannot know whether it landed."""
    freeze_child(child)
    hold.release()
    _let_commit(site, backends)
    end_backends(site, backends)
    thaw_child(child)
    return _nothing


def flushed(site: Site, child: int, hold: Hold, backends: list[int]) -> Afterwards:
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


Fault = Callable[[Site, int, Hold, list[int]], Afterwards]


@pytest.mark.parametrize(
    "fault",
    [killed, killed_unheard, frozen, cut_off, cut_off_unheard, flushed],
    ids=lambda fault: fault.__name__,
)
def test_a_fault_at_a_write_loses_and_repeats_nothing(site: Site, fault: Fault) -> None:
    """C32, C33, C38, C42: random writes in the small size, all of them, many times, in the full one."""
    for _ in range(size("rounds of the matrix")):
        for write in random.sample(WRITES, min(size("writes of the matrix"), len(WRITES))):
            _go_wrong(site, fault, write)


def _go_wrong(site: Site, fault: Fault, write: Write) -> None:
    name, subject = fresh_name(), write.subject
    with ExitStack() as stack:
        if not write.approved:
            hold = stack.enter_context(held(site, write.table, write.when, at_commit=write.at_commit))
        run_id = site.start(subject.workflow, name=name)
        if write.approved:
            approval = _asked(site, run_id)
            hold = stack.enter_context(held(site, write.table, write.when, at_commit=write.at_commit))
            assert site.decide(approval).status_code == 200
        backends = hold.reached()
        afterwards = fault(site, _standing(site, backends), hold, backends)
    if not write.approved:
        assert site.decide(_asked(site, run_id)).status_code == 200
    ended = site.wait(run_id)
    afterwards()
    assert {key: ended["state"][key] for key in subject.ends} == subject.ends, (write, site.story(run_id))
    assert site.kinds(run_id).count("step_completed") == subject.completed, (write, site.story(run_id))
    assert _ran_as_promised(site, subject, name), (write, site.ledger.stamps(name=name))
    assert_invariants(site, run_id, *_children(site, run_id), expected=EXPLAINED, consume=False)


def _asked(site: Site, run_id: str) -> dict[str, Any]:
    """What people are asked; a sibling or a child may still be under way when the run first waits."""
    asked = until(lambda: site.run(run_id)["pending_approvals"], seconds=PATIENCE, what="people are asked")
    return dict(asked[0])


def _standing(site: Site, backends: list[int]) -> int:
    """The pool child whose backend stands at the write, as its connection says."""
    return int(
        str(site.one("SELECT application_name FROM pg_stat_activity WHERE pid = %s", backends[0])).split()[-1]
    )


def _children(site: Site, run_id: str) -> list[str]:
    return [str(row["id"]) for row in site.sql("SELECT id FROM runs_run WHERE parent_id = %s", run_id)]


def _ran_as_promised(site: Site, subject: Subject, name: str) -> bool:
    """Bodies at least once, and at most once more than one fault and one wait explain; every `charge` with one key."""
    stamps = site.ledger.stamps(name=name)
    counts = [sum(stamp["step"] == step for stamp in stamps) for step in subject.stamps]
    keys = {stamp["key"] for stamp in stamps if stamp["step"] == "charge"}
    return all(1 <= count <= 2 for count in counts) and len(keys) == 1
