"""Which statements the SQL change example lets through, and what it makes of them."""

from __future__ import annotations

import random

import pytest

from examples.sql_change import statement
from examples.sql_change.statement import Refused, read
from tests.kit.hostile_sql import GALLERY, Hostile


@pytest.mark.parametrize("hostile", GALLERY, ids=lambda hostile: hostile.name)
def test_hostile_statements_are_refused_with_a_reason(hostile: Hostile) -> None:
    with pytest.raises(Refused) as caught:
        read(hostile.text)
    assert 10 < len(str(caught.value)) < 300


FINE = [
    "UPDATE airports AS a SET elevation = elevation + 1, name = upper(trim(name)) WHERE a.country = 'DE' AND name LIKE 'A%'",
    "delete from \"demo\".\"airports\" where icao in ('A', 'B') or lat between 1 and -2.5 and not (true) or lon is not null;",
    "INSERT INTO demo.airports (icao, name) VALUES ('X', 'Zürich'), ('Z', NULL)",
    """insert into airports (icao, name) select 'Z', max(name) from airports b where exists
    (select 1 from metro_airports c where c.country = b.country) and name not in (select city_name from metro_airports)""",
    """update airports set name = case when iata = '' then null else coalesce(name, 'x') end, city = replace(city, 'a', 'b')
    where elevation::numeric > 1 and lat = (select max(lat) from airports)""",
    """update airports set name = round(lat::numeric, 2)::text || 'x', city = substring(city, 1, 3), lid = initcap(lower(lid)),
    subd = trim(both 'x' from subd), lat = greatest(lat, 0.5) / 2 % 1 where length(tz) <> 3 and not name ilike 'a\\%'""",
    "update airports set name = 'it''s -- no comment; /* nor this */' where true",
    "UPDATE airports SET city = 'Москва', name = 'Αθήνα' WHERE icao = 'UUEE'",
]


@pytest.mark.parametrize("text", FINE)
def test_what_is_written_anew_is_read_as_the_same(text: str) -> None:
    change = read(text)
    again = read(change.text)
    assert (again.text, again.kind, again.table, again.columns) == (
        change.text, change.kind, change.table, change.columns,
    )  # fmt: skip


def test_the_schema_is_written_out_and_names_lose_their_quotes() -> None:
    change = read("UPDATE \"airports\" SET \"city\" = 'x' WHERE icao = 'EDDF'")
    assert " ".join(change.text.split()) == "UPDATE demo.airports SET city = 'x' WHERE icao = 'EDDF'"
    assert (change.kind, change.table.name, change.columns) == ("update", "airports", ("city",))


def test_comments_are_taken_out_and_kept_to_be_shown() -> None:
    change = read("/* one /* in another */ */ DELETE FROM airports -- all of\nWHERE icao = 'EDDF'")
    assert change.comments == ("/* one /* in another */ */", "-- all of")
    assert "--" not in change.text
    assert "/*" not in change.text


def test_what_a_string_holds_is_left_as_it_is() -> None:
    change = read(r"UPDATE airports SET name = 'a\nb''; DROP TABLE x; --' WHERE icao = 'EDDF'")
    assert r"'a\nb''; DROP TABLE x; --'" in change.text
    assert change.comments == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELECT 1", "only INSERT, UPDATE and DELETE"),
        ("DELETE FROM airports; DELETE FROM airports", "several statements"),
        ("UPDATE airports SET name = now()", "the function current_timestamp"),
        ("UPDATE airports SET name = md5(name)", "the function md5"),
        ("UPDATE airports SET name = bogus", "bogus is no column"),
        ("UPDATE airports SET city_code = 'x'", "city_code is no column of demo.airports"),
        ("UPDATE airports SET name = 'a', name = 'b'", "written twice"),
        ("DELETE FROM planes", "planes is none of the tables"),
        ("DELETE FROM other.airports", "only tables of the schema demo"),
        ("INSERT INTO airports (name) VALUES ('x')", "gives the key icao"),
        ("INSERT INTO airports VALUES ('x')", "names its columns"),
        ("DELETE FROM airports USING metro_airports", "USING of DELETE"),
        ("UPDATE airports SET name = 'x' FROM metro_airports", "FROM of UPDATE"),
        ("UPDATE airports SET name = (SELECT max(name) FROM airports a JOIN airports b ON true)", "joins"),
        ("UPDATE airports SET name = 'x' RETURNING name", "RETURNING"),
        ("UPDATE airports SET name = $$x$$", "dollar quotes"),
        ("UPDATE airports SET name = 'x", "not closed"),
        ("DELETE FROM airports WHERE /* x", "not closed"),
        ("DELETE FROM airports WHERE name = 'Frаnkfurt'", "U+0430 CYRILLIC SMALL LETTER A"),
        ("DELETE FROM airports WHERE name = 'a\u200b'", "U+200B ZERO WIDTH SPACE"),
        ("", "no statement"),
        ("-- nothing", "no statement"),
        (";", "no statement"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_is_not_let_through(text: str, told: str) -> None:
    with pytest.raises(Refused, match=told.replace("+", r"\+")):
        read(text)


def test_whatever_is_let_through_is_made_of_listed_parts_only() -> None:
    """Words of good and of hostile statements, shuffled: refused, or one change whose text stays as it is."""
    words = sorted({word for text in [*FINE, *(h.text for h in GALLERY)] for word in text.split()})
    chance = random.Random(7)
    passed = 0
    for _ in range(3_000):
        parts = chance.choice(FINE).split()
        for _ in range(chance.randint(0, 2)):
            parts[chance.randrange(len(parts))] = chance.choice(words)
        try:
            change = read(" ".join(parts))
        except Refused:
            continue
        passed += 1
        assert read(change.text).text == change.text
        assert change.kind in statement.ROOTS.values()
    assert passed > 300
