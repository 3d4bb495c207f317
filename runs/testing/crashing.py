"""Crashes at a chosen place: the worker of a played run ends there, as a killed process would, and another one takes over."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args

from runs.driver.port import Halted
from runs.testing.book import PlayError

Boundary = Literal[
    "before_body", "before_call", "after_call", "after_call_commit", "before_commit", "after_commit"
]
BOUNDARIES: Final[tuple[str, ...]] = get_args(Boundary)


@dataclass(slots=True)
class Crash:
    """Where a worker ends.

    at: before_body (the step is taken), before_call, after_call (it was made, its result is not committed),
    after_call_commit, before_commit (the body is done, nothing of it is committed), after_commit.
    node, call: of which one; empty means the first that comes. times: how often, one after the other.
    """

    at: Boundary
    node: str = ""
    call: str = ""
    times: int = 1

    def __post_init__(self) -> None:
        if self.at not in BOUNDARIES:
            raise PlayError(f"A crash happens at one of {', '.join(BOUNDARIES)}; not at {self.at!r}.")

    def strikes(self, at: str, node: str, call: str) -> bool:
        if self.times < 1 or self.at != at or self.node not in ("", node) or self.call not in ("", call):
            return False
        self.times -= 1
        return True


class Crashed(Halted):
    """The worker's process ends here; nothing of the body may hold it up."""


def planned(crash: Boundary | Crash | Iterable[Boundary | Crash] | None) -> list[Crash]:
    """What an author wrote as `crash=`: a boundary, a `Crash`, or several of them."""
    if crash is None:
        return []
    if isinstance(crash, str):
        return [Crash(crash)]
    if isinstance(crash, Crash):
        return [crash]
    return [one for given in crash for one in planned(given)]
