"""Postgres itself is killed and comes back: the only truth is away for a moment, and nothing is lost or done twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from hitl.embedded import FAST, Postgres
from tests.acceptance.invariants import CONNECTION, assert_invariants
from tests.acceptance.site import Site, fresh_name
from tests.kit.servers import Servers
from tests.kit.stack import Stack
from tests.kit.waiting import until

pytestmark = pytest.mark.acceptance


class OwnServers(Servers):
    """With a Postgres that may be killed, whatever server the other tests use."""

    def start(self) -> None:
        self.postgres = Postgres(self.folder / "postgres", log=self.folder / "postgres.log", options=FAST)
        self.child = self.keep(self.postgres.start())
        self._ends += [self.postgres.forget, lambda: self.postgres.stop(grace=2)]
        os.environ["DATABASE_URL"] = self.postgres.url()

    def start_again(self) -> None:
        """On the same port: everybody knows that one."""
        self.postgres._clear_remains()
        self.postgres.child = self.child = self.keep(self.postgres._launch())

    def kill_postgres(self) -> None:
        self.child.signal(signal.SIGKILL)
        until(lambda: self.child.status is not None, what="Postgres is gone")


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnServers]:
    monkeypatch.setenv("DATABASE_URL", "")  # put back at the end, whatever the servers set
    servers = OwnServers()
    servers.start()
    yield servers
    servers.stop()


def test_postgres_killed_under_everything(own: OwnServers) -> None:
    """C38 and section 6: a step that works meanwhile commits afterwards; nobody who lives is taken for dead."""
    stack = Stack(own, env={"HITL_LEASE_SECONDS": "6"})
    site = Site(stack)
    try:
        stack.start()
        site.begin()
        _kill_and_see(own, site)
    finally:
        site.close()
        stack.stop()


def _kill_and_see(own: OwnServers, site: Site) -> None:
    name = fresh_name()
    run_id = site.start("patient", name=name, stops=["middle"])
    site.at_gate(f"{name}-middle")
    own.kill_postgres()
    assert site.as_("olga").get(f"/runs/{run_id}").status_code == 503
    signed_in = {"Cookie": "hitl_session=of-somebody"}
    page = site.stack.http.get("/inbox/", headers=signed_in)
    assert (page.status_code, page.headers["Retry-After"]) == (503, "1")
    assert "The database does not answer" in page.text
    site.ledger.open(f"{name}-middle")
    until(lambda: site.ledger.count(name=name, step="after") == 1, what="the body is done, and cannot commit")
    waiting = {"sweeper": "the sweeper waits", "w1": "the lease keeper waits", "w2": "the lease keeper waits"}
    until(lambda: all(site.stack.log(who).count(words) for who, words in waiting.items()), what="all wait")
    own.start_again()
    site.wait(run_id)
    over = {who: f"{words} for the database no longer" for who, words in waiting.items()}
    until(lambda: all(site.stack.log(who).count(words) for who, words in over.items()), what="all go on")
    assert all(site.stack.log(who).count(f"{words} for") == 2 for who, words in waiting.items())
    assert (
        site.stack.http.get("/inbox/", headers=signed_in).headers["Location"] == "/sign-in/?next=%2Finbox%2F"
    )
    assert [site.ledger.count(name=name, step=step) for step in ("before", "start", "end", "after")] == [
        1
    ] * 4
    assert "step_taken_over" not in site.kinds(run_id)
    assert_invariants(site, run_id, expected=CONNECTION, faults=["503"])
