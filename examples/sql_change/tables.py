"""The tables that may be changed, as parser, set-up and wording know them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SCHEMA: Final = "demo"
LEDGER: Final = "ledger.applied"
"""Which changes were made, by key: what a second attempt finds."""


@dataclass(frozen=True, slots=True)
class Table:
    """key: the primary key, which no change may alter. columns: all, in order, with their types.

    label: what people call a row by. one, many: the words for rows.
    """

    name: str
    key: str
    columns: dict[str, str]
    label: str
    one: str
    many: str

    @property
    def place(self) -> str:
        return f"{SCHEMA}.{self.name}"

    def rows(self, number: int) -> str:
        return f"{number:,} {self.one if number == 1 else self.many}"


TABLES: Final = {
    table.name: table
    for table in (
        Table(
            "airports",
            "icao",
            {
                "icao": "text",
                "iata": "text",
                "name": "text",
                "city": "text",
                "subd": "text",
                "country": "text",
                "elevation": "double precision",
                "lat": "double precision",
                "lon": "double precision",
                "tz": "text",
                "lid": "text",
            },
            label="name",
            one="airport",
            many="airports",
        ),
        Table(
            "metro_airports",
            "iata",
            {
                "iata": "text",
                "city_code": "text",
                "city_name": "text",
                "country": "text",
                "airport_name": "text",
            },
            label="airport_name",
            one="airport of a metropolis",
            many="airports of a metropolis",
        ),
    )
}
