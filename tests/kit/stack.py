"""The real thing for acceptance tests: web, workers and sweepers as processes, on a database of their own.

def test_…(stack: Stack):
    stack.submit…           HTTP through `stack.http`
    stack.kill("w1")        SIGKILL of the worker's whole group
    stack.ledger.count(…)   how often code really ran
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import psycopg
import redis
from psycopg.rows import dict_row

from hitl.embedded import Valkey, free_port
from hitl.env import root
from hitl.process import Child, tail
from hitl.processes import Launch, services
from tests.kit import ledger as ledgers
from tests.kit.ledger import Ledger
from tests.kit.servers import SECRET_KEY, Servers
from tests.kit.waiting import until

APPS = ["examples.refund", "examples.sql_change", "tests.kit.flows"]
FAST = {"HITL_LEASE_SECONDS": "3", "HITL_POISON_CRASHES": "3", "HITL_WORKERS": "1", "HITL_LOG_FORMAT": "text"}


def migrate(database_url: str) -> None:
    """Makes the template that each stack's database is copied from."""
    environ = {**os.environ, "DATABASE_URL": database_url, "HITL_SECRET_KEY": SECRET_KEY}
    words = [sys.executable, "manage.py", "migrate", "--no-input", "--verbosity", "0"]
    done = subprocess.run(words, cwd=root(), env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"migrate failed:\n{done.stderr[-3000:]}")


class Stack:
    """Starts nothing by itself: see `start`. All processes are in the guard's keeping, so a killed pytest
    leaves none.
    """

    def __init__(self, servers: Servers, *, env: Mapping[str, str] | None = None) -> None:
        self.servers = servers
        self.folder = Path(tempfile.mkdtemp(prefix="stack-", dir=servers.folder))
        self.logs = self.folder / "log"
        self.children: dict[str, Child] = {}
        self.database_url = servers.database_from_template(migrate)
        self._connection = self._connect()
        self.valkey: Valkey = servers.valkey(self.folder.name)
        self.ledger = self._start_ledger()
        self._socket = _listening()
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.http = httpx.Client(base_url=self.url, timeout=30, trust_env=False)
        self.env = self._environment(env or {})
        self.launch = Launch(self.env, self.logs, root())

    def _environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        return {
            **os.environ,
            **FAST,
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.valkey.url,
            "HITL_SECRET_KEY": SECRET_KEY,
            "HITL_HINTS_AHEAD": "16",
            "HITL_DATA_DIR": str(self.folder),
            "HITL_WORKFLOW_APPS": ",".join(APPS),
            ledgers.VARIABLE: self.ledger.url,
            "PYTHONUNBUFFERED": "1",
            **extra,
        }

    # ---- processes

    def start(self, *, web: bool = True, workers: Sequence[str] = ("w1", "w2"), sweepers: int = 1) -> Stack:
        """Starts the wanted processes and waits until the web answers."""
        for number in range(sweepers):
            self.start_sweeper(f"sweeper{number + 1}" if number else "sweeper")
        for name in workers:
            self.start_worker(name)
        if web:
            self.start_web()
            self.wait_for_web()
        return self

    def start_web(self) -> Child:
        return self._keep("web", self.launch.web(self._socket.fileno()))

    def start_worker(self, name: str, *, children: int = 1, queues: str = "") -> Child:
        return self._keep(name, self.launch.worker(name, children=children, queues=queues))

    def start_sweeper(self, name: str = "sweeper") -> Child:
        return self._keep(name, self.launch.sweeper(name))

    def start_beat(self) -> Child:
        return self._keep("beat", self.launch.beat(self.folder / "beat"))

    def start_deliver(self, name: str = "deliver") -> Child:
        return self._keep(name, self.launch.deliver(name))

    def start_services(self, *apps: str) -> None:
        """What the apps' `processes` name; before the workers, which get the addresses by environment."""
        for service in (found.placed(self.folder) for found in services(apps or APPS)):
            self.env.update(service.env)
            self._keep(service.name, self.launch.service(service))

    def wait_for_web(self) -> None:
        def answers() -> bool:
            status = self.children["web"].status
            assert status is None, f"web ended with {status}:\n{self.log('web')}"
            try:
                return self.http.get("/healthz").status_code == 200
            except httpx.TransportError:
                return False

        until(answers, seconds=120, what="web answers")  # a busy machine takes its time to start

    def kill(self, name: str) -> None:
        """SIGKILL to the whole process group."""
        self.children.pop(name).kill()

    def freeze(self, name: str) -> None:
        """SIGSTOP to the whole group; when this returns, no thread of it runs any more."""
        group = self.children[name].pid
        self.children[name].signal(signal.SIGSTOP)
        until(lambda: _is_still(group), what=f"{name} stands still")

    def thaw(self, name: str) -> None:
        self.children[name].signal(signal.SIGCONT)

    def end(self, name: str, *, grace: float = 15) -> int | None:
        """SIGTERM, as a deploy does it; the exit status, None if it had to be killed."""
        child = self.children.pop(name)
        child.ask()
        ended = child.wait(grace)
        status = child.status
        child.kill()
        return status if ended else None

    def manage(
        self, *words: str, check: bool = True, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=root(),
            env={**self.env, **(env or {})},
            capture_output=True,
            text=True,
            check=False,
        )
        assert not check or done.returncode == 0, f"manage.py {' '.join(words)}:\n{done.stdout}{done.stderr}"
        return done

    # ---- Redis

    @property
    def redis(self) -> redis.Redis:
        return redis.Redis.from_url(self.valkey.url)

    def flush_redis(self) -> None:
        self.redis.flushall()

    def cut_redis(self) -> None:
        """Ends every connection, as a restart of a proxy does."""
        for kind in ("normal", "pubsub"):
            self.redis.client_kill_filter(_type=kind, skipme=True)

    def stop_redis(self) -> None:
        self.valkey.stop()

    def start_redis(self) -> None:
        """On the same port, empty."""
        self.servers.keep(self.valkey.start())

    # ---- Postgres

    def sql(self, statement: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[dict[str, Any]]:
        """By a connection that is kept: most of what a test does is to look again and again."""
        try:
            return self._execute(statement, parameters)
        except psycopg.OperationalError:
            if not self._connection.closed:
                raise
        return self._execute(statement, parameters)  # Postgres was killed, and may be back

    def _execute(self, statement: str, parameters: Sequence[Any] | Mapping[str, Any]) -> list[dict[str, Any]]:
        if self._connection.closed:
            self._connection = self._connect()
        cursor = self._connection.execute(statement, parameters)
        return list(cursor) if cursor.description else []

    def _connect(self) -> psycopg.Connection[dict[str, Any]]:
        return psycopg.connect(
            self.database_url, autocommit=True, row_factory=dict_row, prepare_threshold=None
        )

    def cut_postgres(self) -> int:
        """Terminates every backend of this stack's database; how many there were."""
        rows = self.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return len(rows)

    # ---- logs

    def log(self, name: str) -> str:
        return tail(self.logs / f"{name}.log", 60)

    def tracebacks(self, *, expected: Sequence[str] = ()) -> list[str]:
        """Unhandled faults in any log, but for the kinds that an injected fault explains."""
        found = []
        for path in sorted(self.logs.glob("*.log")):
            text = path.read_text(errors="replace")
            for block in text.split("Traceback (most recent call last)")[1:]:
                last = next(
                    (line for line in block.splitlines() if line and not line.startswith((" ", "\t"))), ""
                )
                if not any(word in last for word in expected):
                    found.append(f"{path.stem}: {last}")
        return found

    # ---- end

    def stop(self) -> None:
        children = list(self.children.values())
        for child in children:
            child.signal(signal.SIGCONT)  # a frozen one cannot end
            child.ask()
        for child in children:
            child.stop(grace=5)
        self.children.clear()
        self.http.close()
        self._connection.close()
        self._socket.close()
        self.valkey.stop(grace=1)
        self.servers.drop(self.database_url)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _keep(self, name: str, child: Child) -> Child:
        assert name not in self.children, f"{name} runs already"
        self.servers.keep(child)
        self.children[name] = child
        return child

    def _start_ledger(self) -> Ledger:
        port = free_port()
        words = ("-m", "tests.kit.ledger", "--port", str(port), "--file", str(self.folder / "stamps.jsonl"))
        child = Child("ledger", [sys.executable, *words], log=self.logs / "ledger.log", cwd=root())
        self._keep("ledger", child)
        ledger = Ledger(f"http://127.0.0.1:{port}")

        def answers() -> bool:
            try:
                return ledger.stamps() == []
            except OSError:
                return False

        until(answers, what="the ledger answers")
        return ledger


def _is_still(group: int) -> bool:
    """A stop reaches each thread when that is next scheduled, so one may still answer after the signal was sent."""
    if not Path("/proc/self/task").exists():
        shown = subprocess.run(
            ["ps", "-o", "stat=", "-g", str(group)], capture_output=True, text=True, check=False
        )
        return all(state.startswith("T") for state in shown.stdout.split())
    for task in Path("/proc").glob("[0-9]*/task/[0-9]*/stat"):
        try:
            state, _, of = task.read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue  # it has just ended
        if int(of) == group and state not in "TtZX":
            return False
    return True


def _listening() -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", 0))
    bound.listen(1024)
    bound.set_inheritable(True)
    return bound
