"""Where in a JSON text a value stands: line and column of what a pointer names. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from runs.engine.patch import pointer
from runs.errors import Problem
from runs.templatetags import words

_TOKEN: Final = re.compile(
    r'[\s,:]*(?:(?P<open>[{\[])|(?P<close>[}\]])|(?P<text>")|(?P<word>[^\s,:{}\[\]"]+))'
)
_NAMED: Final = re.compile(r"line (\d+), column (\d+)")
_DECODER: Final = json.JSONDecoder()
EXCERPT: Final = 80  # characters of a line that is shown with what is wrong in it
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Found:
    """A problem, with the place in the text where it stands (line 0: nowhere) and that line."""

    path: str
    message: str
    line: int = 0
    column: int = 0
    excerpt: str = ""


def found_in(text: str, problems: Sequence[Problem]) -> list[Found]:
    """Problems with what somebody typed, each at its place."""
    known = places(text, [problem.path for problem in problems])
    lines = text.split("\n")
    found = []
    for problem in problems:
        line, column = known.get(problem.path) or named(problem.message)
        excerpt = words.cut(lines[line - 1].strip(), EXCERPT) if 0 < line <= len(lines) else ""
        found.append(Found(problem.path, problem.message, line, column, excerpt))
    return found


def places(text: str, paths: Sequence[str]) -> dict[str, Place]:
    """Line and column (from 1) of each of the values, by pointer; what is not there stands where its parent does."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return {}
    starts = dict(_walk(text))
    return {path: _line_and_column(text, starts[_nearest(path, starts)]) for path in paths if starts}


def named(message: str) -> Place:
    """The place that a message names itself, as those about syntax do."""
    found = _NAMED.search(message)
    return (int(found[1]), int(found[2])) if found else (0, 0)


# ---- inside


def _nearest(path: str, starts: dict[str, int]) -> str:
    while path and path not in starts:
        path = path.rpartition("/")[0]
    return path


def _line_and_column(text: str, index: int) -> Place:
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)


def _walk(text: str) -> Iterator[tuple[str, int]]:
    """(pointer, index) of every value of a text that is JSON."""
    above: list[
        tuple[str, int | str | None]
    ] = []  # pointer of a container, and the next place or the key that was read
    end = 0
    while found := _TOKEN.match(text, end):
        end = found.end()
        if found["close"]:
            above.pop()
            continue
        if found["text"]:
            said, end = _DECODER.raw_decode(text, end - 1)
            if above and above[-1][1] is None:  # a key
                above[-1] = (above[-1][0], said)
                continue
        path = _place_of_next(above)
        yield path, found.start("open") if found["open"] else found.start("text" if found["text"] else "word")
        if found["open"]:
            above.append((path, 0 if found["open"] == "[" else None))


def _place_of_next(above: list[tuple[str, int | str | None]]) -> str:
    if not above:
        return ""
    container, place = above[-1]
    above[-1] = (container, place + 1 if isinstance(place, int) else None)
    return container + pointer([place if place is not None else ""])
