"""The orders that the shop knows. They never change; what was refunded of them stands in the book.

An order may have a quirk, so that retries and idempotency keys can be seen without setting anything up:

- `look_up_fails`: of every three look-ups the first two answer 503.
- `answer_lost`: a refund is booked, but the first answer to each key never arrives.
- `stalls`: a refund is booked, but the first answer to each key comes after `STALL_SECONDS`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

Quirk = Literal["look_up_fails", "answer_lost", "stalls"]

STALL_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Line:
    sku: str
    title: str
    quantity: int
    price: int
    """Cents a piece."""


@dataclass(frozen=True, slots=True)
class Order:
    id: str
    customer: str
    city: str
    placed: str
    delivered: str | None
    paid_with: str
    lines: tuple[Line, ...]
    quirk: Quirk | None = None
    currency: str = "EUR"

    @property
    def total(self) -> int:
        """Cents."""
        return sum(line.quantity * line.price for line in self.lines)


def _catalogue() -> Iterator[Order]:
    yield Order(
        "88-4118",
        "Aino Virtanen",
        "Tampere",
        "2026-11-02",
        "2026-11-05",
        "card ending 4821",
        (Line("LMP-210", "Desk lamp, brass", 1, 8_900), Line("BLB-E27", "Bulb E27, warm white", 2, 495)),
    )
    yield Order(
        "88-4119",
        "Mateus Carvalho",
        "Porto",
        "2026-11-03",
        "2026-11-07",
        "card ending 0077",
        (Line("CHR-055", "Office chair, grey", 1, 34_900),),
    )
    yield Order(
        "88-4120",
        "Ines Keller",
        "Bern",
        "2026-11-04",
        "2026-11-10",
        "bank transfer",
        (Line("RUG-300", "Wool rug, 200 x 300", 1, 61_500), Line("PAD-300", "Rug pad, 200 x 300", 1, 4_950)),
    )
    yield Order(
        "88-4121",
        "Jonas Lindqvist",
        "Malmö",
        "2026-11-06",
        "2026-11-12",
        "card ending 9310",
        (Line("TBL-220", "Oak table, 220 cm", 1, 159_000), Line("CHR-012", "Dining chair, oak", 4, 18_000)),
    )
    yield Order(
        "88-4122",
        "Chiara Bruni",
        "Bologna",
        "2026-11-09",
        None,
        "card ending 5526",
        (
            Line("SFA-003", "Sofa, three seats, linen", 1, 189_900),
            Line("SRV-FLR", "Delivery to the room", 1, 7_900),
        ),
    )
    yield Order(
        "88-4123",
        "Tomasz Wrona",
        "Gdańsk",
        "2026-11-11",
        "2026-11-14",
        "card ending 6604",
        (Line("KTL-001", "Kettle, steel", 1, 5_990),),
    )
    yield Order(
        "88-4124",
        "Noor van Dijk",
        "Utrecht",
        "2026-11-13",
        "2026-11-17",
        "card ending 2218",
        (Line("SHF-140", "Shelf, 140 cm", 3, 12_900), Line("BRK-004", "Wall bracket, pair", 6, 850)),
    )
    yield Order(
        "88-4125",
        "Eleni Markou",
        "Thessaloniki",
        "2026-11-15",
        "2026-11-19",
        "card ending 7719",
        (Line("MIR-080", "Mirror, round, 80 cm", 1, 21_900),),
        quirk="look_up_fails",
    )
    yield Order(
        "88-4126",
        "Pádraig Nolan",
        "Galway",
        "2026-11-16",
        "2026-11-21",
        "card ending 3345",
        (Line("BED-160", "Bed frame, 160 cm", 1, 74_900), Line("SLT-160", "Slats, 160 cm", 1, 11_900)),
        quirk="answer_lost",
    )
    yield Order(
        "88-4127",
        "Soraya Haddad",
        "Lyon",
        "2026-11-18",
        "2026-11-23",
        "card ending 8080",
        (Line("DSK-STD", "Standing desk, electric", 1, 54_900),),
        quirk="stalls",
    )


ORDERS: Final = {order.id: order for order in _catalogue()}
