"""Postgres and Redis for a test session: embedded, or those of DATABASE_URL and REDIS_URL."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from hitl.embedded import FAST, Postgres, Valkey
from hitl.process import Child, Guard

SECRET_KEY = "only-for-tests-" + "x" * 40


class Servers:
    """One for the whole session; Django's settings find them in the environment."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hitl-test-"))
        self.folder.chmod(0o755)  # root's Postgres runs as somebody else
        self.guard = Guard(grace=3)
        self._ends: list[Callable[[], None]] = []
        self.template: str | None = None  # a migrated database to copy, once there is one

    def start(self) -> None:
        if "DATABASE_URL" not in os.environ:
            postgres = Postgres(self.folder / "postgres", log=self.folder / "postgres.log", options=FAST)
            self.guard.add(postgres.start())
            self._ends += [postgres.forget, lambda: postgres.stop(grace=2)]
            os.environ["DATABASE_URL"] = postgres.url()
            self._greet_quickly(postgres.password)
        if "REDIS_URL" not in os.environ:
            valkey = self.valkey("session")
            os.environ["REDIS_URL"] = valkey.url

    def _greet_quickly(self, password: str) -> None:
        """Thousands of connections are made; hashing the password 4,096 times on both sides is a third of what each costs."""
        with psycopg.connect(self.address("postgres"), autocommit=True) as connection:
            connection.execute("SET scram_iterations = 1")
            connection.execute(sql.SQL("ALTER ROLE CURRENT_USER PASSWORD {}").format(password))

    def valkey(self, name: str) -> Valkey:
        """Another server for a test that stops or empties it."""
        server = Valkey(log=self.folder / f"{name}-valkey.log")
        self.guard.add(server.start())
        self._ends.append(lambda: server.stop(grace=1))
        return server

    def keep(self, child: Child) -> Child:
        self.guard.add(child)
        return child

    def stop(self) -> None:
        for end in reversed(self._ends):
            end()
        self.guard.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- databases

    def database_from_template(self, migrate: Callable[[str], None]) -> str:
        """A fresh migrated database in a tenth of a second; `migrate` gets the template's address once a
        session.
        """
        if self.template is None:
            name = f"template_{secrets.token_hex(4)}"
            self._admin(f'CREATE DATABASE "{name}"')
            migrate(self.address(name))
            self.template = name
        fresh = f"stack_{secrets.token_hex(6)}"
        self._admin(f'CREATE DATABASE "{fresh}" TEMPLATE "{self.template}"')
        return self.address(fresh)

    def drop(self, address: str) -> None:
        self._admin(f'DROP DATABASE IF EXISTS "{urlsplit(address).path[1:]}" WITH (FORCE)')

    def address(self, database: str) -> str:
        return urlunsplit(urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{database}"))

    def _admin(self, statement: str) -> None:
        with psycopg.connect(self.address("postgres"), autocommit=True) as connection:
            connection.execute(statement)
