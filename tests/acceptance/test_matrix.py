"""The kill matrix: every fault at every write that moves a run. Whatever happens, the run completes by itself, each result is
committed once, and nothing is left over. The ledger counts what really ran.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

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
from tests.acceptance.site import Site, fresh_name
from tests.kit.servers import Servers
from tests.kit.stack import Stack
from tests.kit.waiting import until
from tests.sizes import size

pytestmark = pytest.mark.acceptance

EXPLAINED = (*CONNECTION, "WorkerLostError")  # tracebacks that the faults cause
STEPS = ("work", "settle", "send")


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
class Write:
    """A row whose INSERT is the moment. at_commit: the last moment at which its transaction may still be lost."""

    table: str
    when: str
    at_commit: bool
    approved: bool = False  # whether it comes after the approval

    def __str__(self) -> str:
        return f"{'at the commit of' if self.at_commit else 'before'} {self.table} where {self.when}"


PLACES = [
    ("runs_journalentry", "NEW.name = 'charge'", False),
    ("runs_journalentry", "NEW.name = 'mail'", False),
    ("runs_checkpoint", "NEW.node = 'work'", False),
    ("runs_checkpoint", "NEW.node = 'settle'", False),
    ("runs_approval", "NEW.node = 'confirm'", False),
    ("runs_checkpoint", "NEW.node = 'send'", True),
]
WRITES = [
    # A row of the journal is committed with its own statement: there is no moment between the two.
    Write(table, when, at_commit, approved)
    for table, when, approved in PLACES
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
    name = fresh_name()
    stops = ["sending"] if write.approved else []
    run_id = None
    if write.approved:
        run_id = site.start("pair", name=name, stops=stops)
        site.approve(run_id)
        site.at_gate(f"{name}-sending")
    with held(site, write.table, write.when, at_commit=write.at_commit) as hold:
        if run_id is None:
            run_id = site.start("pair", name=name)
        else:
            site.ledger.open(f"{name}-sending")
        backends = hold.reached()
        afterwards = fault(site, site.holding(run_id), hold, backends)
    site.ledger.open(f"{name}-sending")
    if not write.approved:
        site.approve(run_id)
    ended = site.wait(run_id)
    afterwards()
    assert ended["state"]["done"] == list(STEPS), (write, site.story(run_id))
    assert site.kinds(run_id).count("step_completed") == len(STEPS), (write, site.story(run_id))
    assert _ran_as_promised(site, name), (write, site.ledger.stamps(name=name))
    assert_invariants(site, run_id, expected=EXPLAINED, consume=False)


def _ran_as_promised(site: Site, name: str) -> bool:
    """Bodies at least once, and at most once more than the one fault explains; every call of `charge` with one key."""
    stamps = site.ledger.stamps(name=name)
    counts = [sum(stamp["step"] == step for stamp in stamps) for step in (*STEPS, "charge", "mail")]
    keys = {stamp["key"] for stamp in stamps if stamp["step"] == "charge"}
    return all(1 <= count <= 2 for count in counts) and sum(counts) <= len(counts) + 3 and len(keys) == 1
