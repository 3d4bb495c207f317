"""The database of the SQL change example beside the test database, as its set-up makes it; each test finds it fresh."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from psycopg import sql

from examples.sql_change import address, setup
from examples.sql_change.management.commands.sql_change_setup import own


class Airports:
    """`admin` is the superuser's connection to it; `writer()` opens one as the role, with nothing but its defaults."""

    def __init__(self) -> None:
        self.names = address.names()
        self.said = setup.run(own(), self.names, password=address.password())
        self.admin: psycopg.Connection[Any] = psycopg.connect(
            **{**own(), "dbname": self.names.database}, autocommit=True
        )
        self.admin.execute(
            "CREATE SCHEMA kept; CREATE TABLE kept.airports AS TABLE demo.airports;"
            "CREATE TABLE kept.metro_airports AS TABLE demo.metro_airports"
        )

    def restore(self) -> None:
        self.admin.execute(
            "TRUNCATE demo.metro_airports, demo.airports, ledger.applied;"
            "INSERT INTO demo.airports TABLE kept.airports; INSERT INTO demo.metro_airports TABLE kept.metro_airports"
        )

    def writer(self) -> psycopg.Connection[Any]:
        return psycopg.connect(**address.connection())

    def rows(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        return list(self.admin.execute(query.encode(), parameters or None))

    def one(self, query: str, *parameters: Any) -> Any:
        ((value,),) = self.rows(query, *parameters)
        return value

    def drop(self) -> None:
        self.admin.close()
        with closing(psycopg.connect(**own(), autocommit=True)) as server:
            server.execute(
                sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(self.names.database))
            )
            server.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(self.names.role)))


@pytest.fixture(scope="session")
def airports_database(django_db_setup: None) -> Iterator[Airports]:
    made = Airports()
    yield made
    made.drop()


@pytest.fixture
def airports(airports_database: Airports) -> Airports:
    airports_database.restore()
    return airports_database
