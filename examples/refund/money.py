"""Amounts of money: decimal text where it is stored, sent or read, whole cents where it is reckoned.

"2310.00" survives JSON exactly and is what a reviewer types; a float would not, and cents are misread.
"""

from __future__ import annotations

import re
from typing import Final

AMOUNT_PATTERN: Final = r"^(0|[1-9][0-9]{0,8})\.[0-9]{2}$"


def cents(amount: str) -> int:
    """Whole cents of "2310.00". Raises ValueError for any other form."""
    if not re.fullmatch(AMOUNT_PATTERN, amount):
        raise ValueError(f"{amount!r} is not an amount such as 2310.00")
    return int(amount.replace(".", ""))


def text(amount: int) -> str:
    """The stored form of whole cents: 231000 is "2310.00"."""
    return f"{amount // 100}.{amount % 100:02d}"


def shown(amount: str, currency: str) -> str:
    """The form for people: "2,310.00 EUR"."""
    whole, _, fraction = amount.partition(".")
    return f"{int(whole):,}.{fraction} {currency}"
