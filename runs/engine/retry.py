"""Retry policies: how often, how long to wait, and for which errors. Pure: the random part is an argument."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from runs.errors import StepError, WorkflowError

LONGEST_DELAY = 7 * 24 * 3600.0
MOST_FAILURES = 10**300


@dataclass(frozen=True, slots=True)
class Retry:
    """A retry policy.

    attempts: how often the body may fail in all, first time included; crashes count as attempts.
    initial, multiplier, max: the wait before attempt n+1 is initial * multiplier^(n-1) seconds, at most max.
    jitter: the part of the wait that is random, 0 to 1.
    retry_on, give_up_on: exception classes; give_up_on wins. `StepTimeout` and `CallTimeout` are among them; what cannot
    get better by itself (`StepError.retryable`) is never tried again.
    """

    attempts: int = 3
    initial: float = 1.0
    multiplier: float = 2.0
    max: float = 300.0
    jitter: float = 0.1
    retry_on: tuple[type[BaseException], ...] = (Exception,)
    give_up_on: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        numbers = {
            "initial": self.initial,
            "multiplier": self.multiplier,
            "max": self.max,
            "jitter": self.jitter,
        }
        for name, value in numbers.items():
            if not _is_number(value) or not math.isfinite(value) or value < 0:
                raise WorkflowError(f"Retry({name}={value!r}): a finite number, not below 0, is needed.")
        if not _is_number(self.attempts) or not self.attempts >= 1 or self.attempts % 1:
            raise WorkflowError(f"Retry(attempts={self.attempts!r}): a whole number, at least 1, is needed.")
        if self.jitter > 1:
            raise WorkflowError(f"Retry(jitter={self.jitter!r}): at most 1 is possible.")
        for name in ("retry_on", "give_up_on"):
            object.__setattr__(self, name, _classes(name, getattr(self, name)))

    def wants(self, error: BaseException) -> bool:
        """Whether this kind of error may be tried again at all."""
        if isinstance(error, StepError) and not error.retryable:
            return False
        return isinstance(error, self.retry_on) and not isinstance(error, self.give_up_on)

    def delay(self, *, failures: int, draw: float) -> float:
        """Seconds to wait after `failures` failures; `draw` is a random number from 0 to 1."""
        longest = min(self.max, LONGEST_DELAY)
        if 0 in (longest, self.initial) or (self.multiplier == 0 and failures > 1):
            return 0.0
        plain = min(longest, self.initial)
        if failures > 1:
            # In logarithms, so that 1.0 * 2 ** 5000 is simply the longest wait and not an overflow.
            # A number of failures that no float can hold is as many as the largest one that can.
            times = float(min(failures - 1, MOST_FAILURES))
            exponent = math.log(self.initial) + times * math.log(self.multiplier)
            plain = longest if exponent >= math.log(longest) else min(longest, math.exp(exponent))
        return plain * (1 - self.jitter * (1 - draw))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _classes(name: str, given: Any) -> tuple[type[BaseException], ...]:
    """Said when it is declared: `isinstance` would say it when something has failed, and then there is nobody to hear."""
    classes = tuple(given) if isinstance(given, tuple | list | set | frozenset) else (given,)
    if not all(isinstance(one, type) and issubclass(one, BaseException) for one in classes):
        raise WorkflowError(f"Retry({name}={given!r:.200}): classes of exceptions are needed.")
    return classes


ONCE = Retry(attempts=1)
