"""Our side: what is measured inside one process, on the database of its environment."""

from __future__ import annotations

import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import django

django.setup()

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test import Client

from bench.flows import workflows as flows
from bench.protocol import answer, gaps
from runs import inboxes, operations, queries, runlists, store
from runs.engine import position as at
from runs.models import Approval, Member, Project, Run, Step, Team, User
from runs.operations import ActionDecision, Answer
from runs.operations.working import Slice
from runs.policies import Actor
from runs.runlists import RunFilter
from runs.store.connection import plan_by_keys
from tests.kit.waiting import until
from tests.kit.wire import watched

WARM: Final = 5  # pages before the first that counts: templates are read once in a process


def actor() -> Actor:
    """Who does everything here: a member with every role, in the team that is asked."""
    project, _ = Project.objects.get_or_create(slug="bench", defaults={"name": "bench"})
    user, _ = User.objects.get_or_create(username="bench")
    roles = ["submitter", "reviewer", "operator", "admin"]
    Member.objects.get_or_create(project=project, user=user, defaults={"roles": roles})
    User.objects.get_or_create(username="asking")  # for whom the runs of a big database were made
    team, _ = Team.objects.get_or_create(project=project, name="bench")
    team.people.add(user)
    return Actor(user, project, "session", "127.0.0.1")


def submitted(workflow: str, **input: Any) -> Run:
    return operations.submit(actor=ME, workflow=workflow, input=input).run


def worked(run: Run) -> Run:
    """Advance everything that is ready, as a worker that got every hint would."""
    while step := Step.objects.filter(run=run, status="ready").first():
        operations.advance(run_id=run.pk, branch=step.branch, address=step.address)
    run.refresh_from_db()
    return run


# ---- steps and calls


def steps(count: int) -> list[float]:
    flows.begun.clear()
    worked(submitted("bench_steps", left=count))
    return gaps(flows.begun)


def calls(count: int) -> list[float]:
    flows.begun.clear()
    worked(submitted("bench_calls", left=count))
    return gaps(flows.begun)


def wire(workflow: str) -> dict[str, float]:
    """Statements, round trips and commits that each further step (or call) costs."""
    worked(submitted(workflow, left=3))
    short, long = _traffic(workflow, 5), _traffic(workflow, 105)
    return {name: (long[name] - short[name]) / 100 for name in long}


def _traffic(workflow: str, count: int) -> dict[str, int]:
    run = submitted(workflow, left=count)
    with tempfile.TemporaryDirectory() as folder, watched(Path(folder) / "wire") as traffic:
        worked(run)
    return {"statements": traffic.statements, "trips": traffic.trips, "commits": traffic.commits}


def lanes(count: int, steps: int = 8) -> float:
    """Round trips a commit, of lanes that commit at the same moment, each on a connection of its own."""
    run, me = submitted(f"bench_lanes_{count}"), operations.worker()
    me.stopping = True
    operations.advance(run_id=run.pk, branch=1, address=Step.objects.get(run=run).address)
    me.stopping = False
    slices = []
    for step in Step.objects.filter(run=run, status="ready").order_by("node"):
        claimed = store.claim(run_id=run.pk, branch=1, address=step.address, worker=me.id)
        assert claimed is not None
        slices.append(Slice(claimed, me))
        slices[-1].steps_left = steps
    before = Run.objects.get(pk=run.pk).checkpoint_no
    trips: list[int] = []
    ready = threading.Barrier(count)

    def drive(one: Slice, folder: str) -> None:
        connection.ensure_connection()
        plan_by_keys(connection.connection)  # once a connection, as statements are prepared
        with watched(Path(folder) / str(id(one))) as traffic:
            ready.wait()
            one.drive()
        trips.append(traffic.trips - traffic.parsed)
        connection.close()

    with tempfile.TemporaryDirectory() as folder:
        threads = [threading.Thread(target=drive, args=(one, folder)) for one in slices]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    made = Run.objects.get(pk=run.pk).checkpoint_no - before
    operations.cancel(actor=ME, run_id=run.pk)  # lest other workers have to count with its steps
    return sum(trips) / made


# ---- a run of many steps


def grown(count: int) -> dict[str, Any]:
    """A run of which each step appends 1 KiB to a list."""
    flows.begun.clear()
    before = stored()
    run = worked(submitted("bench_grown", left=count))
    took = gaps(flows.begun)
    written = stored() - before
    connection.ensure_connection()
    connection.connection.execute("VACUUM (FULL, ANALYZE)")
    return {"run": str(run.pk), "gaps": took, "written": written, "bytes": stored()}


def weight(count: int) -> float:
    """Bytes that a plain step adds to all tables and indexes, as written."""
    worked(submitted("bench_steps", left=3))
    before = stored()
    worked(submitted("bench_steps", left=count))
    return (stored() - before) / count


def stored() -> int:
    """Bytes of all our tables that belong to runs, with their indexes."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relname IN"
            " ('runs_run', 'runs_branch', 'runs_checkpoint', 'runs_event', 'runs_step', 'runs_journalentry', 'runs_wait')"
        )
        return int(cursor.fetchone()[0])


def reads(run: str, numbers: Sequence[int]) -> list[list[float]]:
    """Milliseconds to the state at each of these checkpoints."""
    found = Run.objects.get(pk=run)
    return [timed(partial(_state_at, found, no), 10) for no in numbers]


def _state_at(run: Run, no: int) -> dict[str, Any]:
    return at.state(store.read_position(run.pk, no))


def history(run: str, limit: int) -> list[float]:
    found = Run.objects.get(pk=run)
    return timed(lambda: queries.checkpoints(found.pk, branch=None, after=-1, limit=limit), 30)


def rewinds(run: str, checkpoint: int) -> list[float]:
    return _committed(
        lambda: operations.rewind(actor=ME, run_id=run, checkpoint=checkpoint, reason="measured"), 15
    )


def forks(run: str, checkpoint: int) -> list[float]:
    return _committed(
        lambda: operations.fork(actor=ME, run_id=run, checkpoint=checkpoint, reason="measured"), 15
    )


def _committed(work: Callable[[], Any], times: int) -> list[float]:
    """Milliseconds from each call until its transaction has committed; the hints that follow are no part of it."""
    with commits() as committed:
        work()
        found = []
        for _ in range(times):
            before = now()
            work()
            found.append((committed[-1] - before) * 1000)
    return found


@contextmanager
def commits() -> Iterator[list[float]]:
    """When each transaction of Django's connection had committed, by the machine's clock."""
    seen: list[float] = []
    real = BaseDatabaseWrapper.commit

    def commit(self: BaseDatabaseWrapper) -> None:
        real(self)
        seen.append(now())

    BaseDatabaseWrapper.commit = commit  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        BaseDatabaseWrapper.commit = real  # type: ignore[method-assign]


def now() -> float:
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def timed(work: Callable[[], Any], times: int) -> list[float]:
    work()
    found = []
    for _ in range(times):
        before = time.perf_counter()
        work()
        found.append((time.perf_counter() - before) * 1000)
    return found


# ---- with workers beside


def submit(workflow: str, count: int, input: dict[str, Any]) -> list[str]:
    return [str(submitted(workflow, **input).pk) for _ in range(count)]


def left(runs: list[str]) -> int:
    """How many of these runs are not done yet."""
    return Run.objects.filter(pk__in=runs, finished_at=None).count()


def rate(runs: list[str]) -> float:
    """Steps a second of these runs, from the first commit of a step to the last, by the database's clock."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) / extract(epoch FROM max(at) - min(at)) FROM runs_event"
            " WHERE kind = 'step_completed' AND run_id = ANY(%s::uuid[])",
            [runs],
        )
        return float(cursor.fetchone()[0])


def parked(depth: int, kib: int) -> dict[str, Any]:
    """An open approval of a run that has made so many steps. The workers beside drive it there."""
    run = submitted("bench_asked", left=depth, kib=kib)
    asked = Approval.objects.filter(run=run, status="open")
    approval = until(asked.first, seconds=120, what="people are asked")
    assert approval is not None
    return {
        "id": str(approval.pk),
        "version": approval.version,
        "digest": approval.digest,
        "run": str(run.pk),
    }


def decide(id: str, version: int, digest: str, run: str) -> dict[str, float]:
    """When the call began, and when its transaction had committed, by the machine's clock."""
    content = Approval.objects.get(pk=id).content
    answers = [Answer(id, version, digest, [ActionDecision(a["key"], "approve") for a in content["actions"]])]
    with commits() as committed:
        begun = now()
        operations.decide(actor=ME, answers=answers)
    return {"begun": begun, "committed": committed[0]}


def token() -> str:
    _, secret = operations.create_token(
        actor=ME, name="bench", scopes=["approvals:decide", "runs:read"], expires_at=None
    )
    return secret


# ---- lists of a big database


def listed(times: int) -> dict[str, list[float]]:
    """The first page of the inbox, its badge, and the first page of the runs, then further ones by keyset."""
    asked = inboxes.Asked(ME.user, [inboxes.AskedSeat(ME.user, frozenset({"bench"}), reviewer=True)])
    pages: dict[str, list[float]] = {"inbox": [], "badge": [], "runs": [], "runs by status": []}
    after: Any = None
    project = ME.project.pk
    for _ in range(times):
        pages["inbox"] += timed(partial(inboxes.items, project, inboxes.Wanted(), asked, limit=50), 1)
        badge = partial(inboxes.counts, project, asked, {"mine": inboxes.Wanted()})
        pages["badge"] += timed(badge, 1)
        pages["runs"] += timed(partial(runlists.newest_first, project, RunFilter(), after=after, limit=50), 1)
        pages["runs by status"] += timed(
            partial(runlists.newest_first, project, RunFilter(status="waiting"), after=after, limit=50), 1
        )
        last = runlists.newest_first(project, RunFilter(), after=after, limit=50).rows[-1]
        after = (last.created_at, last.pk)
    return pages


def pages(times: int) -> dict[str, list[float]]:
    """Pages as a browser gets them: the inbox, the list of runs, the page of a run taken by chance. All of Django is in it, from
    the session to the last template; the network and the server's own thread pool are not."""
    client = Client(SERVER_NAME="localhost")
    client.force_login(ME.user)
    took: dict[str, list[float]] = {"inbox": [], "runs": [], "run": []}
    for turn in range(times + WARM):
        any_run = Run.objects.filter(project=ME.project, pk__gt=uuid.uuid4()).order_by("pk").first()
        run = any_run or Run.objects.filter(project=ME.project).latest("pk")
        for name, path in (("inbox", "/inbox/"), ("runs", "/runs/"), ("run", f"/runs/{run.pk}/")):
            found = timed(partial(_page, client, path), 1)
            took[name] += found if turn >= WARM else []
    return took


def _page(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200, (path, answer.status_code)


if __name__ == "__main__":
    operations.register_workflows()
    ME = actor()
    operations.worker()
    measured = (steps, calls, wire, lanes, weight, grown, reads, history, rewinds, forks)
    beside = (submit, left, rate, parked, decide, token, listed, pages)
    answer({case.__name__: case for case in (*measured, *beside)})
    operations.leave()
