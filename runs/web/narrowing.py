"""How a list is narrowed: views, chips that come off, fields of a form. For whichever list; `parts/narrowing.html` draws it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class View:
    word: str
    url: str
    current: bool
    sign: str = ""
    count: str = ""
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Chip:
    """A filter that is on: what it says, and where it is off."""

    word: str
    value: str
    url: str


@dataclass(frozen=True, slots=True)
class FilterField:
    """choices: value and word of each; without, it is typed, with `names` to choose from, in at most so many characters."""

    name: str
    word: str
    value: str
    hint: str = ""
    kind: str = "text"
    choices: Mapping[str, str] = field(default_factory=dict)
    names: Sequence[str] = ()
    longest: int = 200
