"""Who may start: limits that authors declare, and the order in which runs that stand in line are let in. Pure.

A run that is limited stands in line until every limit has room for it. A `Concurrency` bounds how many runs are at work at
once; a `Rate` bounds how many start within a time. Both count by project, and by what their `key` makes of the input, so
that one customer's runs take nothing from another's. Runs with equal limits and keys form one line, in which the higher
priority goes first, then the older; if its first cannot be let in, none of it can.

The order between lines is fair to projects: next is the project with the fewest steps at work or handed out, whatever
priorities others give. Within a project priority decides, then the line that has the fewest at work, then age.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, get_args

from runs.engine.authored import contained, origin
from runs.engine.durations import seconds
from runs.errors import InvalidLimitKey, Told, WorkflowError

Key = Callable[[Any], str | None]
Holds = Literal["work", "run"]

DEFAULT_QUEUE: Final = "runs"
PRIORITIES: Final = range(-100, 101)
LONGEST_WINDOW: Final = 86_400.0
LARGEST: Final = 10_000
LONGEST_KEY: Final = 200
OF_WORKFLOW: Final = "max_concurrent_runs"
OF_PROJECT: Final = "project"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,59}\Z")


@dataclass(frozen=True, slots=True)
class Concurrency:
    """At most `limit` runs at once.

    key: `key(input)` gives the text by which runs are counted apart, or None if the limit does not concern this run. It is
    asked once, when the run is submitted; `input` has the fields of the workflow's input model.
    holds: "work": the run gives its slot back while it waits (for people, time, signals, children, another try), and stands
    in line again after that. "run": it keeps the slot from its start to its end.
    name: tells several limits of one workflow apart.
    """

    limit: int
    key: Key | None = None
    holds: Holds = "work"
    name: str = "concurrency"


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `limit` runs start in any stretch of time as long as `per` (seconds, or "30s", "1m", "1h"; a day at most).

    A run counts once, when it starts; going on after a wait, a retry or a rewind is no new start. key, name: as for
    `Concurrency`.
    """

    limit: int
    per: str | float = "1m"
    key: Key | None = None
    name: str = "rate"


Limit = Concurrency | Rate


@dataclass(frozen=True, slots=True)
class Place:
    """What one limit comes to for one run. per: seconds, of a rate. whole: the slot is kept while the run waits."""

    name: str
    key: str
    most: int
    per: float | None = None
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Head:
    """A run near the front of its line. nth: its place there, from 0. used: how many of its line are at work. free: how many
    of its line can be let in now."""

    run: Any
    project: Hashable
    line: str
    priority: int
    since: datetime
    nth: int = 0
    used: int = 0
    free: int = LARGEST


# ---- what authors declare


def check_queue(queue: Any, *, where: str) -> None:
    if not isinstance(queue, str) or not _NAME.match(queue):
        raise WorkflowError(f"{where}: queue={queue!r} is not 1 to 60 letters, digits, '_', '.', '-'.")


def check_priority(priority: int, *, where: str) -> None:
    if type(priority) is not int or priority not in PRIORITIES:
        raise WorkflowError(f"{where}: priority={priority!r} is no whole number from -100 to 100.")


def check_limits(limits: Sequence[Limit], *, where: str) -> None:
    """Raises `WorkflowError` naming the limit that cannot be."""
    for limit in limits:
        _check(limit, where)
    names = [limit.name for limit in limits]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise WorkflowError(f"{where}: two limits are named {twice!r}; say name=.")


def _check(limit: Any, where: str) -> None:
    if not isinstance(limit, Concurrency | Rate):
        raise WorkflowError(f"{where}: limits takes Concurrency and Rate, not {limit!r:.100}.")
    if not _NAME.match(str(limit.name)) or limit.name == OF_PROJECT:
        raise WorkflowError(f"{where}: {limit.name!r} cannot name a limit.")
    if type(limit.limit) is not int or not 1 <= limit.limit <= LARGEST:
        raise WorkflowError(f"{where}: limit {limit.name!r} is no whole number from 1 to {LARGEST:,}.")
    if limit.key is not None and not callable(limit.key):
        raise WorkflowError(f"{where}: key= of limit {limit.name!r} is no function of the input.")
    if isinstance(limit, Concurrency):
        if limit.holds not in get_args(Holds):
            raise WorkflowError(
                f"{where}: holds= of limit {limit.name!r} is {' or '.join(get_args(Holds))}, not {limit.holds!r}."
            )
    elif window(limit) > LONGEST_WINDOW:
        raise WorkflowError(f"{where}: per= of limit {limit.name!r} is a day at most.")


def window(limit: Rate) -> float:
    """How long a stretch of time a rate speaks of, in seconds."""
    length = seconds(limit.per, where=f"limit {limit.name!r}", what="per")
    assert length is not None
    return length


def places(limits: Iterable[Limit], input: Any) -> list[Place]:
    """Which limits a run with this input stands under. Raises `InvalidLimitKey`."""
    found = []
    for limit in limits:
        key = _key(limit, input)
        if key is None:
            continue
        found.append(_place(limit, key))
    return found


def declared(limits: Iterable[Limit]) -> list[Place]:
    """The limits of a workflow as a run without keys would stand under them."""
    return [_place(limit, "") for limit in limits]


def _place(limit: Limit, key: str) -> Place:
    if isinstance(limit, Rate):
        return Place(limit.name, key, limit.limit, per=window(limit))
    return Place(limit.name, key, limit.limit, whole=limit.holds == "run")


def _key(limit: Limit, input: Any) -> str | None:
    if limit.key is None:
        return ""
    try:
        with contained:
            key: Any = limit.key(input)
    except Exception as error:  # an author's function
        raise InvalidLimitKey(
            Told(
                "The key of limit {limit!r} could not be worked out: {name}: {error}",
                limit=limit.name,
                name=type(origin(error)).__name__,
                error=error,
            ),
            limit=limit.name,
        ) from error
    if key is None:
        return None
    if not isinstance(key, str) or not 1 <= len(key) <= LONGEST_KEY or "\0" in key:
        raise InvalidLimitKey(
            Told(
                "The key of limit {limit!r} is no text of 1 to {longest_key} characters.",
                limit=limit.name,
                longest_key=LONGEST_KEY,
            ),
            limit=limit.name,
        )
    return str(key)


# ---- the rules


def room(most: int, taken: int) -> int:
    """How many more a limit lets in. A limit that was lowered lets nobody in until enough have left."""
    return max(0, most - taken)


def turns(
    heads: Iterable[Head],
    *,
    busy: Mapping[Any, int],
    room: int,
    spare: int = 0,
    draw: Callable[[Hashable], float],
) -> list[Head]:
    """Whom to let in, in this order. heads: the first of every line. busy: by project, steps at work or handed out.

    room: how many more may be handed out; spare: how many beyond that if their priority is above 0. A project of which
    nothing is at work is let in with one run even if there is no room: others' work in hand cannot keep it out. draw: settles
    between projects with equally much at work.
    """
    waiting = _by_project(heads)
    load = {project: busy.get(project, 0) for project in waiting}
    lots = {project: draw(project) for project in waiting}
    chosen: list[Head] = []
    taken: dict[str, int] = {}
    while waiting:
        project = min(waiting, key=lambda project: (load[project], lots[project]))
        head = waiting[project][-1]
        places = room + spare if head.priority > 0 else room
        if len(chosen) >= places and load[project] > 0:
            del waiting[project]
            continue
        waiting[project].pop()
        if not waiting[project]:
            del waiting[project]
        if taken.get(head.line, 0) >= head.free:
            continue
        taken[head.line] = taken.get(head.line, 0) + 1
        load[project] += 1
        chosen.append(head)
    return chosen


def _by_project(heads: Iterable[Head]) -> dict[Hashable, list[Head]]:
    """The heads of each project, whoever goes first last."""
    found: dict[Hashable, list[Head]] = {}
    for head in heads:
        found.setdefault(head.project, []).append(head)
    for mine in found.values():
        mine.sort(key=lambda head: (-head.priority, head.used + head.nth, head.since), reverse=True)
    return found
