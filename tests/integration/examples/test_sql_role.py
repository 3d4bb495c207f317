"""The role of the SQL change example, spoken to past the parser: what it sends does no harm even if it got that far."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors

from examples.sql_change import address, setup, target
from examples.sql_change.management.commands.sql_change_setup import own
from examples.sql_change.statement import read
from tests.kit.airports import Airports
from tests.kit.hostile_sql import GALLERY, Hostile

LIMIT = 8.0  # seconds: the limit of the role is 5
EXPECTED: dict[str, tuple[type[psycopg.Error], ...]] = {
    "denied": (errors.InsufficientPrivilege,),
    "limited": (errors.QueryCanceled, errors.ConfigurationLimitExceeded),
    "wrong": (
        psycopg.ProgrammingError,
        psycopg.NotSupportedError,
        psycopg.DataError,
        psycopg.IntegrityError,
        errors.ProtocolViolation,
    ),
}


@pytest.mark.parametrize("hostile", GALLERY, ids=lambda hostile: hostile.name)
def test_past_the_parser_the_database_itself_holds(airports_database: Airports, hostile: Hostile) -> None:
    """The same gallery that the parser refuses. What is "harmless" reaches rows of the demo's tables and nothing else."""
    before = _everything_else(airports_database)
    begun = time.monotonic()
    with airports_database.writer() as connection:
        connection.autocommit = hostile.alone
        came_of_it = _sent(connection, hostile.text)
        if not hostile.alone:
            connection.rollback()
    assert time.monotonic() - begun < LIMIT
    assert _everything_else(airports_database) == before
    if hostile.directly != "harmless":
        assert isinstance(came_of_it, EXPECTED[hostile.directly]), repr(came_of_it)
        assert isinstance(came_of_it, errors.InsufficientPrivilege) == (hostile.directly == "denied")


def _sent(connection: psycopg.Connection[Any], text: str) -> psycopg.Error | None:
    try:
        connection.execute(text.encode(), prepare=True)
    except psycopg.Error as error:
        return error
    return None


def _everything_else(airports: Airports) -> list[Any]:
    """What there is on the server beside the rows of the demo's tables."""
    return [
        airports.rows("SELECT rolname, rolsuper, rolcreaterole, rolcanlogin FROM pg_roles ORDER BY 1"),
        airports.rows("SELECT oid::regclass::text, relacl::text FROM pg_class ORDER BY 1"),
        airports.rows("SELECT count(*), max(oid::bigint) FROM pg_proc"),
        airports.rows(
            "SELECT count(*) FROM pg_trigger UNION ALL SELECT count(*) FROM pg_largeobject_metadata"
        ),
        airports.rows("SELECT name, setting FROM pg_file_settings ORDER BY 1, 2"),
        airports.rows("SELECT key FROM ledger.applied ORDER BY 1"),
        Path("/tmp/owned").exists(),
    ]


def test_the_role_has_no_power_beyond_its_rows(airports: Airports) -> None:
    ((role,),) = airports.rows("SELECT to_jsonb(r) FROM pg_roles r WHERE rolname = %s", airports.names.role)
    powers = ("super", "createrole", "createdb", "replication", "bypassrls", "inherit")
    assert [power for power in powers if role[f"rol{power}"]] == []
    assert role["rolconnlimit"] == setup.CONNECTIONS
    assert (
        airports.one("SELECT count(*) FROM pg_auth_members WHERE member = %s::regrole", airports.names.role)
        == 0
    )
    rights = airports.rows(
        "SELECT table_schema || '.' || table_name, string_agg(privilege_type, ' ' ORDER BY privilege_type)"
        " FROM information_schema.table_privileges WHERE grantee = %s GROUP BY 1 ORDER BY 1",
        airports.names.role,
    )
    assert rights == [
        ("demo.airports", "DELETE INSERT SELECT"),
        ("demo.metro_airports", "DELETE INSERT SELECT"),
        ("ledger.applied", "INSERT SELECT"),
    ]
    assert (
        airports.one(
            "SELECT has_column_privilege(%s, 'demo.airports', 'icao', 'UPDATE')", airports.names.role
        )
        is False
    )
    assert (
        airports.one(
            "SELECT has_column_privilege(%s, 'demo.airports', 'name', 'UPDATE')", airports.names.role
        )
        is True
    )


def test_every_function_that_the_role_may_call_computes_and_nothing_else(airports: Airports) -> None:
    """All but one are immutable: they neither read nor write anything. That one tells the transaction's own number."""
    callable_ones = airports.rows(
        "SELECT p.proname, p.provolatile FROM pg_proc p"
        " WHERE has_function_privilege(%s, p.oid, 'EXECUTE') AND has_schema_privilege(%s, p.pronamespace, 'USAGE')",
        airports.names.role,
        airports.names.role,
    )
    assert 200 < len(callable_ones) < 400
    assert {name for name, volatile in callable_ones if volatile != "i"} == {"pg_current_xact_id"}
    assert not [
        name for name, _ in callable_ones if "regex" in name or name.startswith(("lo_", "dblink", "pg_read"))
    ]


def test_it_may_connect_to_its_own_database_alone(airports: Airports) -> None:
    reachable = airports.rows(
        "SELECT datname FROM pg_database WHERE datallowconn AND has_database_privilege(%s, oid, 'CONNECT')",
        airports.names.role,
    )
    assert (airports.names.database,) in reachable
    told = [
        line for line in airports.said if "may also connect to" in line
    ]  # on a server that others use as well
    assert bool(told) == ((own()["dbname"],) in reachable)


def test_limits_come_with_the_connection_even_if_the_role_changes_its_defaults(airports: Airports) -> None:
    with airports.writer() as connection:
        for limit in setup.LIMITS:
            connection.execute(f"ALTER ROLE CURRENT_USER SET {limit} = 0".encode())
        connection.commit()
    slow = (
        "UPDATE airports SET lat = lat WHERE (SELECT count(*) FROM airports b WHERE b.lat < airports.lat) = 3"
    )
    with pytest.raises(target.Unfit, match="longer than 5s"):
        target.dry_run(text=read(slow).text)
    setup.run(own(), airports.names, password=address.password())
    with airports.writer() as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("5s",)


def test_disk_for_a_statement_is_limited_and_not_by_the_role(airports: Airports) -> None:
    with airports.writer() as connection:
        assert connection.execute("SHOW temp_file_limit").fetchone() == ("64MB",)
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute("SET temp_file_limit = -1")


def test_a_session_that_holds_locks_and_says_nothing_is_ended(airports: Airports) -> None:
    with airports.writer() as connection:
        connection.execute(
            "SET idle_in_transaction_session_timeout = '200ms'"
        )  # shorter, for the test's sake
        connection.execute("LOCK TABLE demo.airports IN ACCESS EXCLUSIVE MODE")
        assert airports.one("SELECT count(*) FROM demo.airports") == 28_298  # waits until it is gone
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT 1")


def test_a_superusers_address_is_refused(airports: Airports, monkeypatch: pytest.MonkeyPatch) -> None:
    powerful = own()
    place = f"{powerful['user']}:{powerful['password']}@{powerful['host']}:{powerful['port']}"
    monkeypatch.setenv(address.VARIABLE, f"postgresql://{place}/{airports.names.database}")
    with pytest.raises(target.Unsafe, match="superuser"):
        target.look(table="airports", keys=[], after_digest="")


def test_an_error_tells_no_value_of_any_row(airports: Airports) -> None:
    for text in (
        "UPDATE airports SET elevation = CAST((SELECT max(name) FROM airports) AS int) WHERE icao = 'EDDF'",
        "INSERT INTO airports (icao, iata) SELECT 'ZZZZ', max(iata) FROM airports",
    ):
        with pytest.raises(target.Unfit) as caught:
            target.dry_run(text=read(text).text)
        assert caught.value.__cause__ is None
        said = str(caught.value)
        assert not [name for (name,) in airports.rows("SELECT max(name) FROM demo.airports") if name in said]
        assert "ZZ" not in said.removeprefix("the database refuses its rows")


def test_the_set_up_may_be_run_again_and_keeps_what_was_changed(airports: Airports) -> None:
    airports.admin.execute("UPDATE demo.airports SET name = 'changed' WHERE icao = 'EDDF'")
    said = setup.run(own(), airports.names, password=address.password())
    assert airports.one("SELECT name FROM demo.airports WHERE icao = 'EDDF'") == "changed"
    assert "loaded" not in said[0]
    assert "28,387 rows of airportsdata" in airports.said[0]
    assert "MIT" in airports.one(
        "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = current_database()"
    )


def test_no_superuser_no_set_up(airports: Airports) -> None:
    with pytest.raises(setup.CannotSetUp, match="superuser"):
        setup.run(address.connection(), airports.names, password="x")


@pytest.mark.parametrize(
    "url", ["http://example.org/x", "postgresql://host/name", "postgresql://me@host", "nonsense"]
)
def test_an_address_of_another_form_names_the_variable(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(address.VARIABLE, url)
    with pytest.raises(address.BadAddress, match=address.VARIABLE):
        address.connection()
