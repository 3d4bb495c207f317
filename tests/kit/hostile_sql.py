# ruff: noqa: E501 (a statement is easier to read in one line)
"""Statements that would do harm, or tell what they should not. Each is refused by the parser, and separately by the role.

directly: what comes of it when the role itself sends it to the database, past the parser.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Directly = Literal["denied", "limited", "wrong", "harmless"]
"""denied: no right. limited: a limit on time, locks or disk ends it. wrong: no such thing. harmless: only demo rows."""


@dataclass(frozen=True, slots=True)
class Hostile:
    name: str
    text: str
    directly: Directly = "denied"
    alone: bool = False
    """Not in a transaction."""


_AIRPORT: Final = "UPDATE demo.airports SET name = {} WHERE icao = 'EDDF'"


def _name(value: str) -> str:
    return _AIRPORT.format(value)


GALLERY: Final = [
    # Programs, files, other servers
    Hostile("copy to program", "COPY demo.airports TO PROGRAM 'touch /tmp/owned'"),
    Hostile("copy from program", "COPY demo.airports FROM PROGRAM 'id'"),
    Hostile("copy to file", "COPY demo.airports TO '/tmp/owned'"),
    Hostile("copy from file", "COPY demo.airports FROM '/etc/passwd'"),
    Hostile("read a file", _name("pg_read_file('/etc/passwd')")),
    Hostile("read a file in bytes", _name("pg_read_binary_file('/etc/passwd')::text")),
    Hostile("list a folder", _name("(SELECT max(f) FROM pg_ls_dir('/') AS f)")),
    Hostile("import a large object", _name("lo_import('/etc/passwd')::text")),
    Hostile("export a large object", _name("lo_export(1, '/tmp/owned')::text")),
    Hostile("make a large object", _name("lo_creat(-1)::text")),
    Hostile("dblink", _name("(SELECT x FROM dblink('host=localhost', 'SELECT 1') AS t(x text))"), "wrong"),
    Hostile("load a library", "LOAD '/tmp/owned.so'"),
    Hostile("extension", "CREATE EXTENSION dblink"),
    Hostile("foreign server", "CREATE SERVER s FOREIGN DATA WRAPPER w", "wrong"),
    Hostile("query as text", _name("query_to_xml('SELECT 1', true, false, '')::text")),
    # Other sessions, the server
    Hostile("kill a session", _name("pg_terminate_backend(1)::text")),
    Hostile("cancel a session", "DELETE FROM demo.airports WHERE pg_cancel_backend(1)"),
    Hostile("reload the settings", "DELETE FROM demo.airports WHERE pg_reload_conf()"),
    Hostile("rotate the log", "DELETE FROM demo.airports WHERE pg_rotate_logfile()"),
    Hostile("sleep", "DELETE FROM demo.airports WHERE pg_sleep(3600) IS NULL"),
    Hostile("advisory lock", "DELETE FROM demo.airports WHERE pg_advisory_lock(1) IS NULL"),
    Hostile("notify", _name("pg_notify('x', 'y')::text")),
    Hostile("checkpoint", "CHECKPOINT"),
    Hostile("alter system", "ALTER SYSTEM SET work_mem = '1GB'", alone=True),
    # Settings and roles
    Hostile("set_config", _name("set_config('statement_timeout', '0', false)")),
    Hostile("current_setting", _name("current_setting('config_file')")),
    Hostile("set role", "SET ROLE postgres", "wrong"),
    Hostile("set session authorization", "SET SESSION AUTHORIZATION DEFAULT", "harmless"),
    Hostile("become a superuser", "ALTER ROLE CURRENT_USER SUPERUSER"),
    Hostile("make a role", "CREATE ROLE other SUPERUSER"),
    Hostile("grant", "GRANT ALL ON demo.airports TO PUBLIC", "harmless", alone=True),
    # Code and structure
    Hostile("do", "DO $$ BEGIN PERFORM 1; END $$"),
    Hostile("call", "CALL something()", "wrong"),
    Hostile("make a function", "CREATE FUNCTION demo.f() RETURNS int LANGUAGE sql AS 'SELECT 1'"),
    Hostile("make a table", "CREATE TABLE demo.t (x int)"),
    Hostile("temporary table", "CREATE TEMP TABLE t (x int)"),
    Hostile("select into", "SELECT * INTO t FROM demo.airports"),
    Hostile("trigger", "CREATE TRIGGER t AFTER UPDATE ON demo.airports EXECUTE FUNCTION suppress_redundant_updates_trigger()"),
    Hostile("rule", "CREATE RULE r AS ON DELETE TO demo.airports DO INSTEAD NOTHING"),
    Hostile("add a default", "ALTER TABLE demo.airports ALTER name SET DEFAULT pg_read_file('x')"),
    Hostile("drop", "DROP TABLE demo.airports"),
    Hostile("truncate", "TRUNCATE demo.airports"),
    Hostile("vacuum full", "VACUUM FULL demo.airports", "harmless", alone=True),
    Hostile("prepare", "PREPARE p AS DELETE FROM demo.airports", "harmless"),
    Hostile("explain analyze", "EXPLAIN ANALYZE DELETE FROM demo.metro_airports", "harmless"),
    # Sequences
    Hostile("setval", _name("setval('x', 1)::text"), "wrong"),
    Hostile("nextval in a value", "INSERT INTO demo.airports (icao) VALUES (nextval('x')::text)", "wrong"),
    Hostile("default", "INSERT INTO demo.airports (icao, name) VALUES ('ZZZZ', DEFAULT)", "harmless"),
    Hostile("default values", "INSERT INTO demo.airports DEFAULT VALUES", "wrong"),
    # A function where it is not looked for
    Hostile("function in RETURNING", f"{_name('name')} RETURNING pg_read_file('/etc/passwd')"),
    Hostile("RETURNING", "DELETE FROM demo.metro_airports RETURNING *", "harmless"),
    Hostile(
        "function in ON CONFLICT",
        "INSERT INTO demo.airports (icao) VALUES ('EDDF') ON CONFLICT (icao) DO UPDATE SET name = pg_read_file('x')",
    ),
    Hostile(
        "ON CONFLICT", "INSERT INTO demo.airports (icao) VALUES ('EDDF') ON CONFLICT DO NOTHING", "harmless"
    ),
    Hostile("function with a schema", _name("pg_catalog.pg_read_file('x')")),
    Hostile("function in quotes", _name("\"pg_read_file\"('x')")),
    Hostile("operator with a schema", _name("name OPERATOR(pg_catalog.||) 'x'"), "harmless"),
    Hostile("method on a column", _name("(airports).name"), "harmless"),
    Hostile("cast to regclass", _name("'pg_authid'::regclass::text"), "harmless"),
    Hostile("cast to a role", _name("CAST(10 AS regrole)::text"), "harmless"),
    Hostile("cast to xml", _name("CAST('<a/>' AS xml)::text"), "harmless"),
    Hostile("current user", _name("current_user"), "harmless"),
    Hostile("version", _name("version()")),
    # Several statements, statements in statements
    Hostile("two statements", f"{_name(chr(39) + 'x' + chr(39))}; DROP TABLE demo.airports", "wrong"),
    Hostile("two statements, one empty", f"; {_name('name')}", "harmless"),
    Hostile(
        "CTE with DML", "WITH gone AS (DELETE FROM demo.metro_airports RETURNING *) SELECT 1 FROM gone", "harmless"
    ),
    Hostile("CTE before an update", "WITH x AS (SELECT 1) UPDATE demo.airports SET name = 'x' WHERE icao = 'EDDF'", "harmless"),
    Hostile(
        "recursion without end",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) DELETE FROM demo.airports WHERE lat IN (SELECT n FROM r)",
        "limited",
    ),
    Hostile("transaction control", "COMMIT", "harmless"),
    Hostile("merge", "MERGE INTO demo.airports a USING demo.metro_airports m ON a.iata = m.iata WHEN MATCHED THEN DO NOTHING", "harmless"),
    Hostile("LATERAL", "DELETE FROM demo.airports WHERE EXISTS (SELECT 1 FROM demo.metro_airports m, LATERAL (SELECT pg_sleep(m.iata::int)) x)"),
    Hostile("USING", "DELETE FROM demo.metro_airports m USING pg_authid"),
    Hostile("FROM another table", "UPDATE demo.airports a SET name = s.usename FROM pg_shadow s"),
    Hostile("a SELECT", "SELECT * FROM demo.airports", "harmless"),
    # Catalogues and other schemas
    Hostile("passwords", _name("(SELECT max(passwd) FROM pg_shadow)")),
    Hostile("roles", _name("(SELECT max(rolname) FROM pg_roles)")),
    Hostile("other sessions", _name("(SELECT max(query) FROM pg_stat_activity)")),
    Hostile("information schema", _name("(SELECT max(table_name) FROM information_schema.tables)")),
    Hostile("write a catalogue", "UPDATE pg_catalog.pg_class SET relname = 'x'"),
    Hostile("write a catalogue without its schema", "DELETE FROM pg_class"),
    Hostile("take back the ledger", "DELETE FROM ledger.applied"),
    Hostile("system column", _name("ctid::text"), "harmless"),
    Hostile("a whole row", _name("airports::text"), "harmless"),
    Hostile("another database", "DELETE FROM hitl.demo.airports", "wrong"),
    Hostile("write the key", "UPDATE demo.airports SET icao = 'x' WHERE icao = 'EDDF'"),
    # Too much
    Hostile("a million rows", "INSERT INTO demo.airports (icao) SELECT g::text FROM generate_series(1, 1000000) g"),
    Hostile("a cross join", "INSERT INTO demo.airports (icao) SELECT a.icao || b.icao || c.icao FROM demo.airports a, demo.airports b, demo.airports c", "limited"),
    Hostile("a long value", _name("repeat('x', 1000000000)")),
    Hostile("a pattern without end", "DELETE FROM demo.airports WHERE name ~ '((a+)+)+$'"),
    Hostile("a replace in a replace", _name("replace(replace(name, 'a', name), 'a', name)"), "harmless"),
    Hostile("a huge statement", _name("'" + "x" * 20_000 + "'"), "harmless"),
    Hostile("deep brackets", _name("(" * 50 + "name" + ")" * 50), "harmless"),
    Hostile("FOR UPDATE", _name("(SELECT max(name) FROM (SELECT name FROM demo.airports FOR UPDATE) x)"), "harmless"),
    Hostile("lock the table", "LOCK TABLE demo.airports IN ACCESS EXCLUSIVE MODE", "harmless"),
    # What is written is not what is read
    Hostile("escape string", _name(r"E'\x41'"), "harmless"),
    Hostile("unicode escape", _name(r"U&'\0041'"), "harmless"),
    Hostile("unicode name", r'UPDATE demo.U&"\0061irports" SET name = name', "harmless"),
    Hostile("bits", _name("B'1'::text"), "harmless"),
    Hostile("dollar quotes", _name("$$x$$"), "harmless"),
    Hostile("dollar quotes with a tag", _name("$a$'; DROP TABLE x; --$a$"), "harmless"),
    Hostile("a parameter", _name("$1"), "wrong"),
    Hostile("nested comment", f"/* /* */ {_name(chr(39) + 'x' + chr(39))}", "wrong"),
    Hostile("psql", r"\! id", "wrong"),
    Hostile("psql variable", _name(":name"), "wrong"),
    Hostile("look-alike table", "UPDATE demo.аirports SET name = 'x'", "wrong"),
    Hostile("look-alike word in a string", _name("'Frаnkfurt'"), "harmless"),
    Hostile("full width", _name("'Ｆrankfurt'"), "harmless"),
    Hostile("full width semicolon", "DELETE FROM demo.airports； DROP TABLE x", "wrong"),
    Hostile("direction turned round", _name("'a\u202eb'"), "harmless"),
    Hostile("direction turned round in a comment", f"{_name('name')} -- \u202e", "harmless"),
    Hostile("zero width space", _name("'a\u200bb'"), "harmless"),
    Hostile("zero width in a name", "UPDATE demo.air\u200bports SET name = 'x'", "wrong"),
    Hostile("tag characters", _name("'a\U000e0041'"), "harmless"),
    Hostile("no-break space", "UPDATE\u00a0demo.airports SET name = 'x'", "wrong"),
    Hostile("line separator", f"{_name('name')} -- x\u2028 , city = 'x'", "harmless"),
    Hostile("taken apart", _name("'Zu\u0308rich'"), "harmless"),
]  # fmt: skip
