"""Facts as a card draws them: a short one as a tile, rows as a table, long texts folded. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.utils.safestring import SafeString

from runs.engine import canonical
from runs.templatetags import links, pretty

SHORT: Final = 28  # characters of a tile
COLUMNS: Final = 12  # a table with more is read better as JSON
ROWS_SHOWN: Final = 8  # the rest is folded
LINES_SHOWN: Final = 12


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
    """short: fits a tile. table: of rows that are alike. lines: of a text of several."""

    label: str
    html: SafeString
    short: bool
    table: Table | None = None
    lines: list[pretty.Line] | None = None

    @property
    def folded(self) -> bool:
        return self.lines is not None and len(self.lines) > LINES_SHOWN


def fact_of(fact: Mapping[str, Any]) -> Fact:
    label, value = str(fact["label"]), fact["value"]
    if isinstance(value, str):
        lines = pretty.text_lines(value, json=False) if "\n" in value else None
        return Fact(label, links.draw(value), len(value) <= SHORT and not lines, lines=lines)
    short = len(canonical.dumps(value)) <= SHORT
    return Fact(label, pretty.inline(value), short, table=None if short else table_of(value))


def table_of(value: Any) -> Table | None:
    """A table of a list of flat objects, or of columns beside rows; None of anything else."""
    names, rows = _objects(value) if isinstance(value, list) else _columns_and_rows(value)
    flat = not any(isinstance(cell, (dict, list)) for row in rows for cell in row)
    if not rows or not flat or not 0 < len(names) <= COLUMNS:
        return None
    columns = [Column(name, _is_number(row[place] for row in rows)) for place, name in enumerate(names)]
    return Table(columns, [list(zip(columns, map(_cell, row), strict=True)) for row in rows])


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


def _is_number(values: Iterable[Any]) -> bool:
    told = [value for value in values if value is not None]
    return bool(told) and all(
        isinstance(value, (int, float)) and not isinstance(value, bool) for value in told
    )


def _cell(value: Any) -> SafeString:
    return links.draw(value) if isinstance(value, str) else pretty.inline(value)
