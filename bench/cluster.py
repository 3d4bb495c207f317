"""A Postgres that keeps its word (fsync and synchronous_commit on), a Valkey, and a database for each contender."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit, urlunsplit

import psycopg
import redis

from bench.protocol import ROOT, Contender
from hitl.embedded import DURABLE, Postgres, Valkey
from hitl.process import Guard

# Those of any machine that is meant for a database; statistics of statements for the counts. Nothing about durability.
OPTIONS: Final = (
    *DURABLE,
    "shared_buffers=1GB",
    "max_wal_size=4GB",
    "shared_preload_libraries=pg_stat_statements",
)


class Cluster:
    """All servers of one run of the benchmark. `folder` is kept if it is named, and goes with the run if not."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="hitl-bench-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        self.keeps = folder is not None
        self.guard = Guard(grace=10)
        self.postgres = Postgres(self.folder / "postgres", log=self.folder / "postgres.log", options=OPTIONS)
        self.valkey = Valkey(log=self.folder / "valkey.log")
        self.guard.add(self.postgres.start())
        self.guard.add(self.valkey.start())
        self.secret_key = secrets.token_urlsafe(48)
        self._contenders: list[Contender] = []

    def stop(self) -> None:
        for contender in self._contenders:
            contender.end()
        self.valkey.stop(grace=1)
        self.postgres.stop(grace=20)
        self.guard.close()
        if not self.keeps:
            self.postgres.forget()
            shutil.rmtree(self.folder, ignore_errors=True)

    # ---- databases

    def connect(self, database: str = "hitl") -> psycopg.Connection[Any]:
        return psycopg.connect(self.postgres.url(database), autocommit=True)

    def fresh(self, name: str) -> str:
        """The address of an empty database of this name."""
        with self.connect("postgres") as admin:
            admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            admin.execute(f'CREATE DATABASE "{name}"')
        return self.postgres.url(name)

    def ours(self, name: str) -> str:
        """The address of a migrated database of this name."""
        address = self.fresh(name)
        self.manage(address, "migrate", "--no-input", "--verbosity", "0")
        return address

    def setting(self, name: str) -> str:
        with self.connect() as connection:
            row = connection.execute(cast(Any, f"SHOW {name}")).fetchone()
        assert row is not None
        return str(row[0])

    def forget_hints(self) -> None:
        """Empty the broker's queue."""
        redis.Redis.from_url(self.valkey.url).flushall()

    # ---- processes

    def env(self, address: str, **more: str) -> dict[str, str]:
        """What our own processes are started with, and nothing that somebody set for `make up`."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("HITL_")}
        return {
            **inherited,
            "DATABASE_URL": address,
            "REDIS_URL": self.valkey.url,
            "HITL_SECRET_KEY": self.secret_key,
            "HITL_DATA_DIR": str(self.folder),
            "HITL_WORKFLOW_APPS": "bench.flows",
            "HITL_LOG_FORMAT": "text",
            "DJANGO_SETTINGS_MODULE": "hitl.settings",
            "BENCH_STAMPS": str(self.stamps),
            **more,
        }

    @property
    def stamps(self) -> Path:
        return self.folder / "stamps"

    def contender(self, name: str, module: str, env: Mapping[str, str]) -> Contender:
        found = Contender(name, module, env=env, log=self.folder / f"{name}.log")
        self._contenders.append(found)
        return found

    def manage(self, address: str, *words: str) -> None:
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=ROOT,
            env=self.env(address),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"manage.py {words[0]} failed:\n{done.stderr[-3000:]}")


def moved(address: str, port: int) -> str:
    """The same database behind another port of this machine."""
    parts = urlsplit(address)
    head = parts.netloc.rpartition(":")[0]
    return urlunsplit(parts._replace(netloc=f"{head}:{port}"))
