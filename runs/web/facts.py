"""Facts as a card draws them: a short one as a tile, rows as a table, long texts folded. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from runs.engine import canonical
from runs.templatetags import links, pretty
from runs.web.payload import Rest, rest_of

SHORT: Final = 28  # characters of a tile
COLUMNS: Final = 12  # a table with more is read better as JSON
ROWS_SHOWN: Final = 8  # the rest is folded
LINES_SHOWN: Final = 12
TEXT_SHOWN: Final = 100_000  # characters
BEFORE: Final = "before"  # "price before" and "price after" are one column: what it was, what it will be
AFTER: Final = "after"


@dataclass(frozen=True, slots=True)
class Column:
    """number: whether all its values are numbers, which are aligned by their ends."""

    name: str
    number: bool


@dataclass(frozen=True, slots=True)
class Table:
    columns: list[Column]
    rows: list[list[tuple[Column, SafeString]]]

    @property
    def first(self) -> list[list[tuple[Column, SafeString]]]:
        return self.rows[:ROWS_SHOWN]

    @property
    def rest(self) -> list[list[tuple[Column, SafeString]]]:
        return self.rows[ROWS_SHOWN:]


@dataclass(frozen=True, slots=True)
class Fact:
    """short: fits a tile. table: of rows that are alike. lines: of a text of several. rest: what of it is not shown."""

    label: str
    html: SafeString
    short: bool
    table: Table | None = None
    lines: list[pretty.Line] | None = None
    rest: Rest | None = None

    @property
    def folded(self) -> bool:
        return self.lines is not None and len(self.lines) > LINES_SHOWN


def fact_of(fact: Mapping[str, Any]) -> Fact:
    label, value = str(fact["label"]), fact["value"]
    if isinstance(value, str):
        shown, rest = value[:TEXT_SHOWN], rest_of(value, TEXT_SHOWN)
        lines = pretty.text_lines(shown, json=False) if "\n" in shown else None
        return Fact(label, links.draw(shown), len(value) <= SHORT and not lines, lines=lines, rest=rest)
    text = canonical.dumps(value)
    if len(text) > TEXT_SHOWN:
        lines = pretty.text_lines(canonical.dumps(value, indent=2)[:TEXT_SHOWN])
        return Fact(label, SafeString(""), False, lines=lines, rest=rest_of(text, TEXT_SHOWN))
    short = len(text) <= SHORT
    return Fact(label, pretty.inline(value), short, table=None if short else table_of(value))


def table_of(value: Any) -> Table | None:
    """A table of a list of flat objects, or of columns beside rows; None of anything else."""
    names, rows = _objects(value) if isinstance(value, list) else _columns_and_rows(value)
    flat = not any(isinstance(cell, (dict, list)) for row in rows for cell in row)
    if not rows or not flat or not 0 < len(names) <= COLUMNS:
        return None
    return _table(names, rows)


# ---- inside


def _objects(value: Sequence[Any]) -> tuple[list[str], list[list[Any]]]:
    if not all(isinstance(row, dict) for row in value):
        return [], []
    columns = list(dict.fromkeys(key for row in value for key in row))
    return columns, [[row.get(name) for name in columns] for row in value]


def _columns_and_rows(value: Any) -> tuple[list[str], list[list[Any]]]:
    if not isinstance(value, dict) or set(value) != {"columns", "rows"}:
        return [], []
    columns, rows = value["columns"], value["rows"]
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        return [], []
    fits = isinstance(rows, list) and all(isinstance(row, list) and len(row) == len(columns) for row in rows)
    return (columns, rows) if fits else ([], [])


@dataclass(frozen=True, slots=True)
class _Source:
    """A column and the place in a row that it is drawn from; `now` is the place of what will be, of a pair."""

    column: Column
    place: int
    now: int | None = None

    def cell(self, row: Sequence[Any]) -> SafeString:
        return _cell(row[self.place]) if self.now is None else _change(row[self.place], row[self.now])


def _table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    sources = list(_sources(names, rows))
    drawn = [[(source.column, source.cell(row)) for source in sources] for row in rows]
    return Table([source.column for source in sources], drawn)


def _sources(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[_Source]:
    pairs = _pairs(names)
    for place, name in enumerate(names):
        if place in pairs:
            yield _Source(Column(_subject(name) or gettext("change"), number=False), place, pairs[place])
        elif place not in pairs.values():
            yield _Source(Column(name, _is_number(row[place] for row in rows)), place)


def _pairs(names: Sequence[str]) -> dict[int, int]:
    """Places of the columns that tell what was, each with the place of what will be."""
    places = {name: place for place, name in enumerate(names)}
    afters = {
        place: places.get(f"{_subject(name)} {AFTER}".strip())
        for name, place in places.items()
        if _is_before(name)
    }
    return {was: now for was, now in afters.items() if now is not None}


def _is_before(name: str) -> bool:
    return name == BEFORE or name.endswith(f" {BEFORE}")


def _subject(name: str) -> str:
    return name.removesuffix(BEFORE).rstrip()


def _change(was: Any, now: Any) -> SafeString:
    if canonical.same(was, now):
        return format_html('<span class="faint">{}</span>', _cell(was))
    return format_html(
        '<del>{}</del><span class="arrow" aria-hidden="true">→</span><span class="unseen"> {} </span><ins>{}</ins>',
        _cell(was),
        gettext("now"),
        _cell(now),
    )


def _is_number(values: Iterable[Any]) -> bool:
    told = [value for value in values if value is not None]
    return bool(told) and all(
        isinstance(value, (int, float)) and not isinstance(value, bool) for value in told
    )


def _cell(value: Any) -> SafeString:
    return links.draw(value) if isinstance(value, str) else pretty.inline(value)
