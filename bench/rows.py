"""Every row of the table: what is done, what it is compared with, and what it must keep."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.cluster import Cluster, moved
from bench.figures import Rounds, Row, median, p95, within
from bench.protocol import ROOT, Contender
from hitl.process import Child
from hitl.processes import Launch
from tests.kit.waiting import until

PEERS: Final = ("langgraph", "absurd", "dbos")
PATIENCE: Final = 120.0  # seconds; only a measurement that fails waits so long
WARM: Final = 6  # decisions before the first that counts: a statement is planned anew for its first five uses
RTT: Final = 0.0023  # seconds that the far database is away
RAW: Final = (
    "CREATE TABLE IF NOT EXISTS raw (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload jsonb)"
)
PAYLOAD: Final = json.dumps({"note": "x" * 200})


@dataclass(slots=True)
class Bench:
    """What the rows share: servers, contenders, and how often things are done."""

    cluster: Cluster
    quick: bool
    ours: Contender
    address: str
    peers: dict[str, Contender]

    @classmethod
    def begin(cls, cluster: Cluster, *, quick: bool) -> Bench:
        address = cluster.ours("ours")
        ours = cluster.contender("ours", "bench.ours", cluster.env(address))
        peers = {
            name: cluster.contender(name, f"bench.peers.{name}", {"DATABASE_URL": cluster.fresh(name)})
            for name in PEERS
        }
        return cls(cluster, quick, ours, address, peers)

    def times(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    @contextmanager
    def apart(self, name: str) -> Iterator[Contender]:
        """Our side once more, on a database that holds nothing else."""
        with self.cluster.contender(name, "bench.ours", self.cluster.env(self.cluster.ours(name))) as found:
            yield found

    @contextmanager
    def beside(self, start: Callable[[Launch], Child]) -> Iterator[Child]:
        """One of our processes on our database, for as long as it is needed."""
        child = start(Launch(self.cluster.env(self.address), self.cluster.folder / "log", ROOT))
        self.cluster.guard.add(child)
        try:
            yield child
        finally:
            if child.status is None:
                child.stop(grace=15)
            self.cluster.guard.drop(child)

    @contextmanager
    def working(self, name: str, *, children: int = 1) -> Iterator[Child]:
        """A real worker; it has taken its place when this goes on."""
        present = "SELECT count(*) FROM runs_workerchild WHERE gone_at IS NULL"
        with self.cluster.connect("ours") as connection:
            wanted = count(connection, present) + children
            with self.beside(lambda launch: launch.worker(name, children=children)) as child:
                until(lambda: count(connection, present) >= wanted, seconds=PATIENCE, what=f"{name} is there")
                yield child

    def stamped(self, known: int) -> float:
        """When the next first line ran, by the machine's clock; `known` lines are old."""
        until(lambda: self.stamps > known, seconds=PATIENCE, what="a node begins")
        return float(self.cluster.stamps.read_text().splitlines()[known])

    @property
    def stamps(self) -> int:
        file = self.cluster.stamps
        return len(file.read_text().splitlines()) if file.exists() else 0


def count(connection: Any, statement: str) -> int:
    return int(connection.execute(statement).fetchone()[0])


# ---- steps


def raw(connection: Any, times: int) -> list[float]:
    """A one-row INSERT and its commit: the least that a durable step can cost here."""
    connection.execute(RAW)
    found = []
    for _ in range(times):
        before = time.perf_counter()
        connection.execute("INSERT INTO raw (payload) VALUES (%s)", [PAYLOAD], prepare=True)
        found.append((time.perf_counter() - before) * 1000)
    return found


def steps_and_calls(bench: Bench) -> list[Row]:
    rounds, calls = Rounds(), Rounds()
    with bench.cluster.connect() as connection:
        raw(connection, 50)
        for _ in range(bench.times(15, 6)):
            floor = raw(connection, 100)
            rounds.add("raw", floor)
            rounds.add("ours", bench.ours.ask("steps", count=100))
            calls.add("raw", raw(connection, 100))
            calls.add("ours", bench.ours.ask("calls", count=100))
            for name, peer in bench.peers.items():
                rounds.add(name, peer.ask("steps", count=40))
    step, call = rounds.row("plain step", of="ours"), calls.row("journalled call", of="ours")
    call.peers["dbos"] = rounds.value("dbos")
    counted = {what: bench.ours.ask("wire", workflow=f"bench_{what}s") for what in ("step", "call")}
    return [
        Row("raw one-row commit", "ms", rounds.value("raw"), p95(rounds.samples["raw"]), 1.0),
        within(
            step,
            "2.0 raw; 0.4 langgraph; below absurd",
            rounds.ratio("ours", "raw") <= 2.0,
            rounds.ratio("ours", "langgraph") <= 0.4,
            rounds.ratio("ours", "absurd") < 1,
        ),
        within(call, "2.0 raw", calls.ratio("ours", "raw") <= 2.0),
        *(
            within(Row(f"{name} a {what}", "", counted[what][key]), "1", counted[what][key] == 1)
            for what in ("step", "call")
            for name, key in (("statements", "statements"), ("round trips", "trips"), ("commits", "commits"))
        ),
    ]


def lanes(bench: Bench) -> list[Row]:
    found = []
    for number in (2, 4, 16):
        trips = median(bench.ours.ask("lanes", count=number) for _ in range(bench.times(5, 3)))
        found.append(within(Row(f"round trips a commit, {number} lanes", "", trips), "1.1", trips <= 1.1))
    return found


def throughput(bench: Bench) -> list[Row]:
    """Steps a second of many runs at once, on two processes each: ours through Celery and all, peers called directly."""
    runs, steps = bench.times(60, 30), 100
    rates: dict[str, list[float]] = {"ours": [], "langgraph": [], "absurd": []}
    other = bench.cluster.contender(
        "langgraph-2", "bench.peers.langgraph", {"DATABASE_URL": bench.cluster.postgres.url("langgraph")}
    )
    for _ in range(bench.times(3, 1)):
        rates["ours"].append(_our_rate(bench, runs, steps))
        pair = (bench.peers["langgraph"], other)
        for one in pair:
            one.tell("many", runs=8, count=steps, threads=1)
        rates["langgraph"].append(2 * 8 * steps / max(one.hear() for one in pair))
        rates["absurd"].append(
            32 * steps / bench.peers["absurd"].ask("many", runs=32, count=steps, threads=8)
        )
    found = {name: median(values) for name, values in rates.items()}
    row = Row("steps a second, 2 worker processes", "steps/s", found["ours"])
    row.peers = {name: rate for name, rate in found.items() if name != "ours"}
    limit = "2 langgraph; 1.25 absurd (aim 2,500)"
    held = (found["ours"] >= 2 * found["langgraph"], found["ours"] >= 1.25 * found["absurd"])
    return [within(row, limit, *held)]


def _our_rate(bench: Bench, runs: int, steps: int) -> float:
    bench.cluster.forget_hints()  # of runs that were driven by hand
    made = bench.ours.ask("submit", workflow="bench_steps", count=runs, input={"left": steps})
    with bench.working("rate", children=2):
        # Looked at seldom: to look takes processor time from what is measured.
        until(
            lambda: not bench.ours.ask("left", runs=made), seconds=PATIENCE, every=0.2, what="all have ended"
        )
    return float(bench.ours.ask("rate", runs=made))


# ---- a run of a thousand steps


def thousand(bench: Bench) -> list[Row]:
    """1,000 steps that append 1 KiB each: bytes, growth of a step, reads, history, rewind and fork."""
    with bench.apart("grown") as ours:
        told = ours.ask("grown", count=1000)
        plain = ours.ask("weight", count=1000)
        run = told["run"]
        mebibytes = told["bytes"] / 2**20
        reads = ours.ask("reads", run=run, numbers=[1000, 500, 10])
        history = [ours.ask("history", run=run, limit=limit) for limit in (10, 1000)]
        back = ours.ask("rewinds", run=run, checkpoint=500)
        fork = ours.ask("forks", run=run, checkpoint=500)
    growth = _growth(told["gaps"])
    peer = bench.peers["langgraph"]
    theirs = peer.ask("grown", count=bench.times(300, 100))
    size = peer.ask("size") / 2**20
    number = bench.times(300, 100)
    rows = [
        within(
            Row(
                "1,000 steps of 1 KiB: all tables and indexes",
                "MiB",
                mebibytes,
                peers={f"langgraph at {number}": size},
            ),
            "4 (aim 2)",
            mebibytes <= 4,
        ),
        Row("the same as written, before any vacuum", "MiB", told["written"] / 2**20),
        Row("a plain step, as written", "bytes", plain),
        within(
            Row(
                "step 1,000 against step 10",
                "x",
                growth,
                peers={f"langgraph at {number}": _growth(theirs["gaps"])},
            ),
            "1.2",
            growth <= 1.2,
        ),
    ]
    for place, took, other in zip(("end", "middle", "start"), reads, [*theirs["state"], None], strict=True):
        peers = {} if other is None else {f"langgraph at {number}": other}
        rows.append(
            within(
                Row(f"state at the {place}", "ms", median(took), p95(took), peers=peers),
                "10",
                median(took) <= 10,
            )
        )
    for what, took, limit in (("10 headers", history[0], 1), ("all 1,000", history[1], 10)):
        peers = {f"langgraph at {number}": theirs["history_10"]} if limit == 1 else {}
        row = Row(f"history, {what}", "ms", median(took), p95(took), peers=peers)
        rows.append(within(row, str(limit), median(took) <= limit))
    for what, took in (("rewind", back), ("fork", fork)):
        peers = {f"langgraph at {number}": theirs["fork"]} if what == "fork" else {}
        row = Row(f"{what} at 1,000 steps (commit)", "ms", median(took), p95(took), peers=peers)
        rows.append(within(row, "5", median(took) <= 5))
    return rows


def _growth(gaps: list[float]) -> float:
    return median(gaps[-40:]) / median(gaps[:40])


# ---- workers


def wake_up(bench: Bench) -> list[Row]:
    """From the commit of a decision to the first line of the next node, in another process, through Celery."""
    rows = []
    theirs = median(bench.peers["langgraph"].ask("woken"))
    with bench.working("wake"):
        for depth in (1, 1000):
            took = [_woken(bench, depth) for _ in range(WARM + bench.times(20, 6))][WARM:]
            row = Row(f"decision to next node, depth {depth}", "ms", median(took), p95(took))
            row.peers = {"langgraph in process": theirs} if depth == 1 else {}
            rows.append(within(row, "6", median(took) <= 6))
        with _web(bench) as url:
            secret = bench.ours.ask("token")
            whole = [_woken_by_http(bench, url, secret) for _ in range(WARM + bench.times(20, 6))][WARM:]
        row = Row("HTTP request to next node", "ms", median(whole), p95(whole))
        rows.append(within(row, "20", median(whole) <= 20))
    return rows


def _woken(bench: Bench, depth: int) -> float:
    known, approval = bench.stamps, bench.ours.ask("parked", depth=depth, kib=0)
    told = bench.ours.ask("decide", **approval)
    return (bench.stamped(known) - float(told["committed"])) * 1000


@contextmanager
def _web(bench: Bench) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.set_inheritable(True)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with bench.beside(lambda launch: launch.web(listening.fileno())):
            until(lambda: _answers(url), seconds=PATIENCE, what="web answers")
            yield url


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _woken_by_http(bench: Bench, url: str, secret: str) -> float:
    known, approval = bench.stamps, bench.ours.ask("parked", depth=1, kib=0)
    body = {"version": approval["version"], "digest": approval["digest"], "type": "approve"}
    request = urllib.request.Request(
        f"{url}/api/v1/approvals/{approval['id']}/decide",
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {secret}", "Content-Type": "application/json"},
    )
    begun = time.clock_gettime(time.CLOCK_MONOTONIC)
    with urllib.request.urlopen(request, timeout=30) as answer:
        answer.read()
    return (bench.stamped(known) - begun) * 1000


def takeover(bench: Bench) -> list[Row]:
    """kill -9 of a whole worker in mid-step to the first line of the same step in another."""
    with _sweeping(bench):
        took = [_taken_over(bench, number) for number in range(bench.times(5, 2))]
    row = Row("kill -9 of a worker to takeover", "s", median(took), max(took))
    return [within(row, "2", median(took) <= 2)]


@contextmanager
def _sweeping(bench: Bench) -> Iterator[None]:
    """A sweeper; it has begun when this goes on."""
    with (
        bench.cluster.connect("ours") as connection,
        bench.beside(lambda launch: launch.sweeper("sweeper")) as child,
    ):
        its_own = f"SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'hitl % {child.pid}'"
        until(lambda: count(connection, its_own), seconds=PATIENCE, what="the sweeper is there")
        yield


def _taken_over(bench: Bench, number: int) -> float:
    known = bench.stamps
    with bench.working(f"victim{number}") as victim:
        bench.ours.ask("submit", workflow="bench_lingering", count=1, input={"left": 1})
        bench.stamped(known)
        with bench.working(f"heir{number}"):
            begun = time.clock_gettime(time.CLOCK_MONOTONIC)
            victim.kill()
            return bench.stamped(known + 1) - begun


def distance(bench: Bench) -> list[Row]:
    """What a step costs in round trips where the database is far away: what it takes longer, by what an answer takes longer."""
    near_port = bench.cluster.postgres.port
    proxy = subprocess.Popen(
        [sys.executable, "-m", "bench.proxy", str(near_port), str(RTT / 2)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert proxy.stdout is not None
        port = int(proxy.stdout.readline())
        trips = {name: _trips(bench, name, port) for name in ("ours", "langgraph", "absurd", "dbos")}
    finally:
        proxy.kill()
        proxy.wait()
    row = Row("round trips a step at +2.3 ms", "", trips.pop("ours"), peers=trips)
    return [within(row, "1.3", (row.value or 0) <= 1.3)]


def _trips(bench: Bench, name: str, port: int) -> float:
    import psycopg

    near = bench.ours if name == "ours" else bench.peers[name]
    address = moved(bench.address if name == "ours" else bench.cluster.postgres.url(name), port)
    module = "bench.ours" if name == "ours" else f"bench.peers.{name}"
    env = bench.cluster.env(address) if name == "ours" else {"DATABASE_URL": address}
    with bench.cluster.contender(f"{name}-far", module, env) as far:
        far_steps, near_steps = far.ask("steps", count=60), near.ask("steps", count=60)
    with psycopg.connect(address, autocommit=True) as one, bench.cluster.connect() as other:
        added = median(_asked(one)) - median(_asked(other))
    return (median(far_steps) - median(near_steps)) / added


def _asked(connection: Any) -> list[float]:
    found = []
    for _ in range(60):
        before = time.perf_counter()
        connection.execute("SELECT 1", prepare=True)
        found.append((time.perf_counter() - before) * 1000)
    return found


def idle(bench: Bench) -> list[Row]:
    """What a worker and a sweeper ask when there is nothing to do, and how much memory a worker's processes take."""
    seconds = bench.times(20, 8)
    rows = []
    bench.cluster.forget_hints()  # of runs that were driven by hand
    with _counting(bench) as asked, bench.working("idle") as worker:
        fastest = asked.fastest(seconds)
        rows.append(within(Row("idle worker: its most frequent query", "/s", fastest), "1", fastest <= 1.05))
        largest = max(_rss(pid) for pid in _family(worker.pid))
        rows.append(within(Row("worker process: RSS", "MB", largest), "150", largest < 150))
    with _counting(bench) as asked, _sweeping(bench):
        fastest = asked.fastest(seconds)
    rows.append(within(Row("idle sweeper: its most frequent query", "/s", fastest), "1", fastest <= 1.05))
    return rows


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked of our tables since this was made."""

    connection: Any

    def fastest(self, seconds: int) -> float:
        """How often a second the most frequent statement is asked, once what was started is done with starting: nothing was
        asked in the half second between two looks."""
        looks = [0]

        def is_calm() -> bool:
            looks.append(self._count("sum"))
            return 0 < looks[-1] == looks[-2]

        until(is_calm, seconds=PATIENCE, every=0.5, what="nothing is asked")
        self.forget()
        time.sleep(seconds)  # the span of the measurement
        return self._count("max") / seconds

    def forget(self) -> None:
        self.connection.execute("SELECT pg_stat_statements_reset()")

    def _count(self, of: str) -> int:
        return count(
            self.connection,
            f"SELECT coalesce({of}(calls), 0) FROM pg_stat_statements JOIN pg_database ON dbid = pg_database.oid"
            " WHERE datname = current_database() AND query LIKE '%runs_%'",
        )


@contextmanager
def _counting(bench: Bench) -> Iterator[_Asked]:
    with bench.cluster.connect("ours") as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        asked = _Asked(connection)
        asked.forget()
        yield asked


def _family(pid: int) -> list[int]:
    """A process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return [pid, *(int(word) for word in children.read_text().split())] if children.exists() else [pid]


def _rss(pid: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) * 1024 / 1e6 if found else 0.0


ROWS: Final[dict[str, Callable[[Bench], list[Row]]]] = {
    "steps": steps_and_calls,
    "lanes": lanes,
    "throughput": throughput,
    "thousand": thousand,
    "wake-up": wake_up,
    "takeover": takeover,
    "distance": distance,
    "idle": idle,
}
