"""Makes the database of airports and the role that may change it, and takes from that role all that it does not need.

Every step may be done again. Data that is there stays as it is; rights are set anew each time.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from contextlib import closing
from importlib.metadata import version
from importlib.resources import files
from typing import Any, Final, LiteralString

import psycopg
from psycopg import sql

from examples.sql_change.address import Names
from examples.sql_change.tables import SCHEMA, TABLES, Table

SOURCE: Final = "airportsdata"
COMMENT: Final = (
    "Airports of the world from the package airportsdata {version}, MIT licence, (c) Mike Borsetti and contributors. "
    "Made by manage.py sql_change_setup."
)
LOCK: Final = 7_304_128  # one set-up at a time
CONNECTIONS: Final = 16

LIMITS: Final = {
    "statement_timeout": "5s",
    "lock_timeout": "2s",
    "idle_in_transaction_session_timeout": "10s",
}
"""Set as defaults of the role, and again with each connection: a role may change its own defaults."""

UNCHANGEABLE: Final = {"temp_file_limit": "64MB"}
"""Limits that only a superuser sets."""

# What a statement that the parser lets through is made of. Everything else in pg_catalog is taken from PUBLIC.
OPERAND_TYPES: Final = (
    "text",
    "integer",
    "smallint",
    "bigint",
    "double precision",
    "numeric",
    "boolean",
    "xid",
    "xid8",
    "character varying",
)
COSTLY: Final = ("%regex%", "dpow", "numeric_power", "ts_match%")
FUNCTIONS: Final = (
    *(
        "upper",
        "lower",
        "initcap",
        "btrim",
        "ltrim",
        "rtrim",
        "length",
        "replace",
        "abs",
        "round",
        "floor",
        "ceil",
    ),
    *("ceiling", "count", "min", "max", "sum", "avg"),
    *("hashtext", "hashint4", "hashint8", "hashfloat8", "hash_numeric"),  # long lists of IN
    "pg_current_xact_id",  # finds what a transaction wrote
)
SIGNATURES: Final = (
    '"substring"(text,integer)',
    '"substring"(text,integer,integer)',
)  # the others take patterns

GRANTED: Final[LiteralString] = """
SELECT p.oid::regprocedure::text
FROM pg_proc p
WHERE p.pronamespace = 'pg_catalog'::regnamespace
  AND p.provolatile = 'i'
  AND NOT EXISTS (SELECT 1 FROM unnest(p.proargtypes::oid[]) AS t(type) WHERE t.type <> ALL (%(types)s::regtype[]))
  AND (
      (EXISTS (SELECT 1 FROM pg_operator o WHERE o.oprcode = p.oid) AND NOT p.proname LIKE ANY (%(costly)s))
      OR EXISTS (SELECT 1 FROM pg_cast c WHERE c.castfunc = p.oid)
      OR p.proname = ANY (%(names)s)
  )
UNION
SELECT p.oid::regprocedure::text
FROM pg_proc p
WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname IN ('count', 'pg_current_xact_id')
"""


class CannotSetUp(Exception):
    """Said to the person as it is."""


def run(own: Mapping[str, Any], names: Names, *, password: str) -> list[str]:
    """Make what is missing and set all rights. own: where hitl's database is, as a superuser. Returns what to tell."""
    with closing(psycopg.connect(**own, autocommit=True)) as server:
        _check_superuser(server)
        server.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        _make_role(server, names, password)
        _make_database(server, names)
        with closing(psycopg.connect(**{**own, "dbname": names.database})) as target, target.transaction():
            loaded = [_fill(target, table) for table in TABLES.values() if _make_table(target, table)]
            _make_ledger(target)
            _give_rights(target, names)
        told = _close_other_databases(server, names)
    first = f"{sum(loaded):,} rows of {SOURCE} {version(SOURCE)} loaded; " if loaded else ""
    return [
        f"{names.database}: {first}role {names.role} may change the schema {SCHEMA} and nothing else",
        *told,
    ]


def _check_superuser(server: psycopg.Connection[Any]) -> None:
    if server.info.parameter_status("is_superuser") != "on":
        raise CannotSetUp(
            "The set-up makes a database and a role and takes rights away, for which the role of DATABASE_URL must be "
            "a superuser. Without one, make them by hand (examples/sql_change/README.md) and set SQL_CHANGE_DATABASE_URL."
        )


def _exists(server: psycopg.Connection[Any], query: LiteralString, name: str) -> bool:
    return server.execute(query, [name]).fetchone() is not None


# ---- the role


def _make_role(server: psycopg.Connection[Any], names: Names, password: str) -> None:
    role = sql.Identifier(names.role)
    if not _exists(server, "SELECT 1 FROM pg_roles WHERE rolname = %s", names.role):
        server.execute(sql.SQL("CREATE ROLE {}").format(role))
    server.execute(
        sql.SQL(
            "ALTER ROLE {} WITH LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT NOREPLICATION NOBYPASSRLS"
            " CONNECTION LIMIT {} PASSWORD {}"
        ).format(role, sql.Literal(CONNECTIONS), sql.Literal(password))
    )
    server.execute(sql.SQL("ALTER ROLE {} RESET ALL").format(role))
    for name, value in {**LIMITS, **UNCHANGEABLE, "search_path": "pg_catalog"}.items():
        server.execute(
            sql.SQL("ALTER ROLE {} SET {} = {}").format(role, sql.Identifier(name), sql.Literal(value))
        )
    for (group,) in server.execute(
        "SELECT g.rolname FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid JOIN pg_roles r ON r.oid = m.member"
        " WHERE r.rolname = %s",
        [names.role],
    ).fetchall():
        server.execute(sql.SQL("REVOKE {} FROM {}").format(sql.Identifier(group), role))


# ---- database and tables


def _make_database(server: psycopg.Connection[Any], names: Names) -> None:
    """From template0, so that nothing of a local template comes along."""
    if _exists(server, "SELECT 1 FROM pg_database WHERE datname = %s", names.database):
        return
    server.execute(
        sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING 'UTF8'").format(
            sql.Identifier(names.database)
        )
    )
    server.execute(
        sql.SQL("COMMENT ON DATABASE {} IS {}").format(
            sql.Identifier(names.database), sql.Literal(COMMENT.format(version=version(SOURCE)))
        )
    )


def _make_table(target: psycopg.Connection[Any], table: Table) -> bool:
    if _exists(target, "SELECT 1 WHERE to_regclass(%s) IS NOT NULL", table.place):
        return False
    columns = [
        sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind)) for name, kind in table.columns.items()
    ]
    rules = {
        "airports": "PRIMARY KEY (icao), UNIQUE (iata), CHECK (lat BETWEEN -90 AND 90), CHECK (lon BETWEEN -180 AND 180)",
        "metro_airports": "PRIMARY KEY (iata), FOREIGN KEY (iata) REFERENCES demo.airports (iata)",
    }[table.name]
    target.execute("CREATE SCHEMA IF NOT EXISTS demo")
    target.execute(
        sql.SQL("CREATE TABLE {} ({}, {})").format(
            sql.Identifier(SCHEMA, table.name),
            sql.SQL(", ").join(columns),
            sql.SQL(rules),
        )
    )
    return True


def _fill(target: psycopg.Connection[Any], table: Table) -> int:
    """The package's rows into a table that was just made; how many. An empty text there means unknown."""
    place = sql.Identifier(SCHEMA, table.name)
    names = sql.SQL(", ").join(map(sql.Identifier, table.columns))
    count = 0
    with target.cursor().copy(sql.SQL("COPY {} ({}) FROM STDIN").format(place, names)) as copy:
        for row in _ROWS[table.name]():
            copy.write_row(tuple(value or None for value in row))
            count += 1
    target.execute(sql.SQL("ANALYZE {}").format(place))
    return count


def _airports() -> Iterator[tuple[str, ...]]:
    for row in _csv("airports.csv"):
        yield tuple(row[name] for name in TABLES["airports"].columns)


def _metro_airports() -> Iterator[tuple[str, ...]]:
    for row in _csv("iata_macs.csv"):
        yield tuple(
            row[name] for name in ("Airport Code", "City Code", "City Name", "Country", "Airport Name")
        )


def _csv(name: str) -> Iterator[dict[str, str]]:
    with files(SOURCE).joinpath(name).open(encoding="utf-8") as file:
        yield from csv.DictReader(file)


_ROWS: Final = {"airports": _airports, "metro_airports": _metro_airports}


def _make_ledger(target: psycopg.Connection[Any]) -> None:
    """What was applied, by the key of the attempt: written in the transaction that applies it."""
    target.execute("CREATE SCHEMA IF NOT EXISTS ledger")
    target.execute(
        "CREATE TABLE IF NOT EXISTS ledger.applied ("
        " key text PRIMARY KEY, statement text NOT NULL, rows integer NOT NULL, before_digest text NOT NULL,"
        " after_digest text NOT NULL, applied_at timestamptz NOT NULL DEFAULT CURRENT_TIMESTAMP)"
    )


# ---- rights


def _give_rights(target: psycopg.Connection[Any], names: Names) -> None:
    role, database = sql.Identifier(names.role), sql.Identifier(names.database)
    # 1. Whatever everybody has: the database itself, functions, catalogues, languages.
    target.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC, {}").format(database, role))
    for schema in ("pg_catalog", "information_schema", "public"):
        place = sql.Identifier(schema)
        target.execute(sql.SQL("REVOKE ALL ON ALL ROUTINES IN SCHEMA {} FROM PUBLIC, {}").format(place, role))
        target.execute(sql.SQL("REVOKE ALL ON ALL TABLES IN SCHEMA {} FROM PUBLIC, {}").format(place, role))
    target.execute(sql.SQL("REVOKE ALL ON SCHEMA public FROM PUBLIC, {}").format(role))
    for (language,) in target.execute("SELECT lanname FROM pg_language WHERE lanpltrusted").fetchall():
        target.execute(sql.SQL("REVOKE ALL ON LANGUAGE {} FROM PUBLIC").format(sql.Identifier(language)))
    # 2. What a change needs: to come in, to read and write rows, to call what it is made of.
    target.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, role))
    target.execute(sql.SQL("GRANT USAGE ON SCHEMA demo, ledger TO {}").format(role))
    for table in TABLES.values():
        _give_table(target, table, role)
    target.execute(sql.SQL("REVOKE ALL ON ledger.applied FROM {}").format(role))
    target.execute(sql.SQL("GRANT SELECT, INSERT ON ledger.applied TO {}").format(role))
    _give_functions(target, role)


def _give_table(target: psycopg.Connection[Any], table: Table, role: sql.Identifier) -> None:
    """Rows may come and go; the key of one that stays may not be written."""
    place = sql.Identifier(SCHEMA, table.name)
    columns = sql.SQL(", ").join(sql.Identifier(name) for name in table.columns if name != table.key)
    target.execute(sql.SQL("REVOKE ALL ON {} FROM {}").format(place, role))
    target.execute(
        sql.SQL("GRANT SELECT, INSERT, DELETE, UPDATE ({}) ON {} TO {}").format(columns, place, role)
    )


def _give_functions(target: psycopg.Connection[Any], role: sql.Identifier) -> None:
    asked = {"types": list(OPERAND_TYPES), "costly": list(COSTLY), "names": list(FUNCTIONS)}
    found = [name for (name,) in target.execute(GRANTED, asked).fetchall()]
    words = sql.SQL(", ").join(map(sql.SQL, [*found, *SIGNATURES]))  # as Postgres itself writes them
    target.execute(sql.SQL("GRANT EXECUTE ON FUNCTION {} TO {}").format(words, role))


def _close_other_databases(server: psycopg.Connection[Any], names: Names) -> list[str]:
    """Everybody may connect to every database until PUBLIC loses it. Taken only where nobody else would lose anything."""
    others = server.execute(
        "SELECT rolname FROM pg_roles WHERE rolcanlogin AND NOT rolsuper AND rolname NOT LIKE %s",
        [r"%\_airports\_writer"],
    ).fetchall()
    open_ones = server.execute(
        "SELECT datname FROM pg_database WHERE datallowconn AND has_database_privilege(%s, oid, 'CONNECT') AND datname <> %s",
        [names.role, names.database],
    ).fetchall()
    if others and open_ones:
        listed = ", ".join(name for (name,) in open_ones)
        return [
            f"{names.role} may also connect to {listed}: other roles may too, and the set-up takes nothing from them"
        ]
    for (name,) in open_ones:
        server.execute(sql.SQL("REVOKE CONNECT ON DATABASE {} FROM PUBLIC").format(sql.Identifier(name)))
    return []
