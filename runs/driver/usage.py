"""What a call or a step used of paid models: tokens and money, each amount exact."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from runs.driver import secrets
from runs.engine import canonical
from runs.errors import InvalidUsage

MOST_TOKENS: Final = 10**15
MOST_COST: Final = Decimal(10) ** 12
PLACES: Final = 12  # after the decimal point
MAX_MODEL: Final = 200

_CURRENCY = re.compile(r"[A-Z]{3}\Z")


@dataclass(frozen=True, slots=True)
class Used:
    """One amount. cost is a plain decimal text ("0.00042"), with its currency; both empty if no money was told."""

    model: str
    model_tokens_in: int
    model_tokens_out: int
    cost: str
    currency: str

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def used(
    *,
    model_tokens_in: int,
    model_tokens_out: int,
    cost: Decimal | str | int | None,
    currency: Any,
    model: Any,
) -> Used:
    """Check an amount. Raises `InvalidUsage`."""
    for name, number in (("model_tokens_in", model_tokens_in), ("model_tokens_out", model_tokens_out)):
        if type(number) is not int or not 0 <= number <= MOST_TOKENS:
            raise InvalidUsage(f"{name}={number!r:.100} is not a whole number from 0 to 10^15.")
    if not isinstance(model, str) or len(model) > MAX_MODEL or canonical.visible(model) != model:
        raise InvalidUsage(f"model={model!r:.300} is not a text of at most {MAX_MODEL} characters.")
    text = _money(cost)
    if not isinstance(currency, str) or not _CURRENCY.match(currency):
        raise InvalidUsage(f"currency={currency!r:.100} is not three capital letters, as in USD.")
    return Used(secrets.redact(model), model_tokens_in, model_tokens_out, text, currency if text else "")


def _money(cost: Decimal | str | int | None) -> str:
    """A decimal text without an exponent. A float is refused: 0.1 + 0.2 would be somebody's bill."""
    if cost is None:
        return ""
    if isinstance(cost, (bool, float)):
        raise InvalidUsage(f"cost={cost!r} is not exact; give a Decimal, or a text such as '0.0042'.")
    try:
        amount = Decimal(cost)
    except (InvalidOperation, TypeError, ValueError):
        raise InvalidUsage(f"cost={cost!r:.100} is not a decimal number.") from None
    if not amount.is_finite() or not 0 <= amount <= MOST_COST:
        raise InvalidUsage(f"cost={cost!s:.100} is not between 0 and 10^12.")
    exponent = amount.as_tuple().exponent
    assert isinstance(exponent, int)
    if -exponent > PLACES:  # looked at before it is written out: 1E-999999999 would be a text of a gigabyte
        raise InvalidUsage(f"cost={cost!s:.100} has more than {PLACES} places after the point.")
    return f"{amount:f}" if amount else "0"
