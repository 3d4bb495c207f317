"""What is left in Redis, and what the processes hold, after much work."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest

from tests.acceptance.invariants import CONNECTION, assert_invariants
from tests.acceptance.site import Site, fresh_name
from tests.acceptance.test_live import listening, signed_in, told
from tests.kit.waiting import until
from tests.sizes import size

pytestmark = pytest.mark.acceptance

BROKER = (*CONNECTION, "Connection closed by server", "redis.exceptions", "kombu.exceptions")
KNOWN = {  # the queue, what is on its way out of it, and what each worker listens to; one of each, whatever was done
    "runs",
    "unacked",
    "unacked_index",
    "_kombu.binding.celery.pidbox",
    "_kombu.binding_deadlines",
}
PORTIONS = size("portions of a soak")
FIRST = max(1, PORTIONS // 5)  # after so many everything is warm
CROWD = 32  # more than the threads of web, each of which keeps a connection to Postgres and one to Redis once it has worked


@dataclass(frozen=True)
class Weight:
    """What Redis holds, and what each process with its pool holds: open files, and memory in kB."""

    keys: list[str]
    channels: int
    clients: int
    files: dict[str, int]
    memory: dict[str, int]


@pytest.fixture
def with_beat(site: Site) -> Iterator[Site]:
    site.stack.start_beat()
    yield site
    site.stack.end("beat")


def test_redis_stays_small_and_processes_do_not_grow(with_beat: Site) -> None:
    """C102: steps, approvals, pages that open and close a stream, and restarts of Redis between them."""
    site = with_beat
    cookie = signed_in(site)
    channels = len(site.stack.redis.pubsub_channels())
    (begun,) = site.sql("SELECT clock_timestamp() AS at")
    run_ids = _crowd(site)
    for number in range(PORTIONS):
        if number:
            site.stack.stop_redis()
            site.stack.start_redis()
        run_ids += _portion(site, cookie)
        if number + 1 == FIRST:
            _let_beat_speak(site, begun["at"])
            early = _weigh(site)
    until(
        lambda: len(site.stack.redis.pubsub_channels()) <= channels,
        what="no channel of a closed page is left",
    )
    late = _weigh(site)
    assert len(late.keys) <= len(early.keys) + 50, late.keys
    assert not [key for key in late.keys if key not in KNOWN and site.stack.redis.ttl(key) < 0], late.keys
    assert sum(site.stack.redis.memory_usage(key) or 0 for key in late.keys) < 100_000, late.keys
    assert not [key for key in late.keys if key.startswith("celery-task-meta")]
    assert late.clients <= early.clients + len(late.files), (early.clients, late.clients)
    for name, files in late.files.items():
        assert files <= early.files[name] + 8, (name, early.files, late.files)
    for name, memory in late.memory.items():
        assert memory < 1.1 * early.memory[name], (name, early.memory, late.memory)
    assert_invariants(site, *run_ids[-2:], expected=BROKER)


def _crowd(site: Site) -> list[str]:
    """All threads of web at once: what they keep open is bounded, and grows to that only as they are needed together."""
    with ThreadPoolExecutor(CROWD) as clients:
        runs = list(clients.map(partial(_start, site, "pair"), range(2 * CROWD)))
        list(clients.map(site.approve, runs))
    for run_id in runs:
        site.wait(run_id)
    return runs


def _let_beat_speak(site: Site, begun: datetime) -> None:
    """It loads what it sends with at its first message, half a minute after its start."""
    until(
        lambda: site.sql("SELECT 1 FROM runs_servicebeat WHERE name = 'statistics' AND at > %s", begun),
        seconds=60,
        what="beat has had the statistics made",
    )


def _portion(site: Site, cookie: str) -> list[str]:
    """Ten steps a chain; each pair asks once."""
    with ThreadPoolExecutor(4) as clients:
        chains = list(clients.map(partial(_start, site, "chain"), range(size("chains of a portion"))))
        pairs = list(clients.map(partial(_start, site, "pair"), range(size("questions of a portion"))))
        for _ in range(size("pages of a portion")):
            _look_in(site, cookie)
        list(clients.map(site.approve, pairs))
    for run_id in (*chains, *pairs):
        site.wait(run_id)
    return [*chains, *pairs]


def _start(site: Site, workflow: str, _: int) -> str:
    return site.start(workflow, name=fresh_name())


def _look_in(site: Site, cookie: str) -> None:
    async def story() -> None:
        async with listening(site, "/live/inbox", cookie) as ear:
            await ear.next()

    told(story())


def _weigh(site: Site) -> Weight:
    """Once nothing is on its way any more."""
    broker = site.stack.redis
    until(
        lambda: not broker.llen("runs") and not broker.hlen("unacked"), what="nothing is left in the broker"
    )
    until(lambda: not _visitors(site), what="web has hung up on visitors that say nothing")
    names = ("web", "beat", "sweeper", *site.workers())
    groups = {name: _group(site.stack.children[name].pid) for name in names}
    return Weight(
        keys=[key.decode() if isinstance(key, bytes) else key for key in broker.scan_iter()],
        channels=len(broker.pubsub_channels()),
        clients=len(broker.client_list()),
        files={name: sum(_files(pid) for pid in pids) for name, pids in groups.items()},
        memory={name: sum(_memory(pid) for pid in pids) for name, pids in groups.items()},
    )


def _visitors(site: Site) -> int:
    """Connections that web holds open, as the kernel counts them."""
    port, established = int(site.stack.url.rpartition(":")[2]), "01"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == established for row in rows)


def _group(leader: int) -> list[int]:
    """The process and the children of its pool."""
    stats = {int(path.parent.name): path.read_text() for path in Path("/proc").glob("[0-9]*/stat")}
    return [pid for pid, stat in stats.items() if int(stat.rpartition(")")[2].split()[2]) == leader]


def _files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _memory(pid: int) -> int:
    (line,) = (
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")
    )
    return int(line.split()[1])
