"""The embedded servers and the processes that hold them: hitl/embedded.py, hitl/process.py, hitl/guard.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
import redis

from hitl import env
from hitl.embedded import FAST, EmbeddedError, Postgres, Valkey, home
from hitl.process import Child, Identity, command, end, identify, started
from tests.kit.waiting import until

Start = Callable[[], Postgres]
SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(15, signal.SIG_IGN); print('x'); time.sleep(600)",
]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Open to root's `nobody`, which pytest's own is not."""
    with tempfile.TemporaryDirectory(prefix="hitl-embedded-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def postgres(folder: Path) -> Iterator[Start]:
    """Each call is another start on the same folder."""
    made: list[Postgres] = []

    def start() -> Postgres:
        made.append(Postgres(folder / "postgres", log=folder / "postgres.log", options=FAST))
        return made[-1]

    yield start
    for server in made:
        server.stop()


def test_a_killed_postgres_starts_again_with_all_its_rows(postgres: Start) -> None:
    server = postgres()
    child = server.start()
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
    child.kill()

    again = postgres()
    again.start()
    with psycopg.connect(again.url()) as connection:
        assert connection.execute("SELECT value FROM kept").fetchone() == (7,)


def test_a_postgres_that_an_earlier_start_left_running_is_stopped_first(postgres: Start) -> None:
    left = postgres().start()
    again = postgres()
    again.start()
    assert not left.identity.alive()
    left.kill()


def test_a_note_with_the_id_of_a_stranger_does_not_keep_postgres_from_starting(
    postgres: Start, folder: Path
) -> None:
    server = postgres()
    server.start()
    server.stop()
    stranger = Child("stranger", SLEEPER, log=folder / "stranger.log")
    (server.data / "postmaster.pid").write_text(f"{stranger.pid}\n{server.data}\n0\n")
    server.start()
    assert stranger.status is None
    stranger.kill()


def test_an_initdb_that_was_killed_leaves_nothing_that_looks_like_a_cluster(
    postgres: Start, folder: Path
) -> None:
    (folder / "postgres" / "data.half").mkdir(parents=True)
    (folder / "postgres" / "data.half" / "PG_VERSION").write_text("18")
    server = postgres()
    server.start()


def test_a_cluster_of_another_release_is_explained(postgres: Start) -> None:
    server = postgres()
    server.data.mkdir(parents=True)
    (server.data / "PG_VERSION").write_text("14\n")
    with pytest.raises(EmbeddedError, match=r"Postgres 14.*make reset"):
        server.start()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to give its data away")
def test_a_folder_that_nobody_can_reach_is_replaced_by_one_that_it_can(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    assert home(tmp_path / ".hitl" / "postgres").is_relative_to("/var/lib/hitl/data")


def test_the_password_of_valkey_is_needed_and_not_on_its_command_line(folder: Path) -> None:
    server = Valkey(log=folder / "valkey.log")
    shown = command(server.start().pid)
    with redis.Redis(port=server.port) as stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()
    server.stop()
    assert "valkey-server" in shown
    assert server.password not in shown


def test_a_process_is_not_taken_for_a_later_one_with_its_id() -> None:
    mine = identify(os.getpid())
    assert mine is not None
    assert mine.alive()
    assert not Identity(os.getpid(), "another time").alive()
    Identity(os.getpid(), "another time").kill()  # would end the tests


def test_who_does_not_stop_when_asked_is_killed(tmp_path: Path) -> None:
    child = Child("stubborn", STUBBORN, log=tmp_path / "log", env={**os.environ, "PYTHONUNBUFFERED": "1"})
    until(lambda: child.tail(), what="the handler is set")
    end([child.identity], grace=0.2)
    assert child.wait(5)
    assert child.status == -signal.SIGKILL


def test_the_children_of_a_killed_holder_are_ended_by_its_guard(tmp_path: Path) -> None:
    holder = f"""
import sys, time, pathlib
from hitl.process import Child, Guard
guard = Guard(grace=0.5)
child = Child("child", {STUBBORN!r}, log=pathlib.Path({str(tmp_path / "log")!r}))
guard.add(child)
print(child.pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen(
        [sys.executable, "-c", holder], cwd=env.root(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert started(pid)
        process.kill()
    until(lambda: started(pid) is None, what="the child is gone")
