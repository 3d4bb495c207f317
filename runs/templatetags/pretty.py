"""JSON laid out for people: coloured lines, differences by row and by line. Numbers keep every digit."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext

from runs.engine import canonical
from runs.tongue import number

from . import hidden, links

_TOKEN: Final = re.compile(
    r'(?P<key>"(?:[^"\\]|\\.)*"(?=:))|(?P<text>"(?:[^"\\]|\\.)*")|(?P<word>-?\d[\d.eE+-]*|true|false|null)'
)
_CLASSES: Final = {"key": "k", "text": "v", "word": "n"}
DIFF_LINES: Final = 4_000  # above this a difference by lines costs more than it tells; rows are shown instead
DIFF_TEXT: Final = 100_000  # characters, for the same reason
DIFF_HEAD: Final = 200
LEAST_FOLDED: Final = 3
MISSING: Final = object()
Paint = Callable[[str], SafeString]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a code block: number, sign ("", "+", "−"), HTML."""

    number: int | None
    sign: str
    html: SafeString

    @property
    def kind(self) -> str:
        return {"+": "add", "−": "del"}.get(self.sign, "")


@dataclass(frozen=True, slots=True)
class Change:
    """One place where two documents differ: pointer, and both sides as HTML (None where it has nothing)."""

    path: str
    was: SafeString | None
    now: SafeString | None
    lines: list[Line] | None = None  # both sides as lines with signs, for texts of several


def lines(value: Any) -> list[Line]:
    """A document as numbered, coloured lines."""
    return text_lines(canonical.dumps(value, indent=2))


def text_lines(text: str, *, json: bool = True) -> list[Line]:
    paint = _paint if json else links.draw
    return [Line(number, "", paint(line)) for number, line in enumerate(text.split("\n"), 1)]


def inline(value: Any) -> SafeString:
    """A value on one line, as JSON, hidden characters drawn and addresses set as addresses."""
    if isinstance(value, str):
        return mark_safe(f'"{links.draw(_inner(value))}"')  # noqa: S308 (drawn)
    text = canonical.dumps(value)
    return _paint(text) if isinstance(value, (dict, list)) else hidden.draw(text)


def changes(before: Any, after: Any) -> list[Change]:
    """The leaves in which two documents differ, in the order of the pointers."""
    return [_change(path, was, now) for path, was, now in _differing(before, after, "")]


def difference(before: Any, after: Any, *, context: int = 3) -> list[Line] | None:
    """Both documents as one list of lines with signs; None when they are too long for that.

    Unchanged stretches longer than twice the context are folded into one line that says how many.
    """
    old, new = (canonical.dumps(side, indent=2).split("\n") for side in (before, after))
    if len(old) + len(new) > DIFF_LINES:
        return None
    return _line_difference(old, new, context=context, paint=_paint)


def _text_difference(was: str, now: str) -> list[Line] | None:
    old, new = was.split("\n"), now.split("\n")
    if len(old) + len(new) > DIFF_LINES:
        return None
    return _line_difference(old, new, context=2, paint=links.draw)


def _line_difference(old: Sequence[str], new: Sequence[str], *, context: int, paint: Paint) -> list[Line]:
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    result: list[Line] = []
    for place, (tag, i1, i2, j1, j2) in enumerate(codes):
        if tag != "equal":
            result += _changed(old[i1:i2], new[j1:j2], i1, j1, paint=paint)
        elif len(codes) > 1:
            head = context if place > 0 else 0
            tail = context if place < len(codes) - 1 else 0
            result += _same(new[j1:j2], j1, head=head, tail=tail, paint=paint)
    return result


def findings(value: Any, path: str = "") -> Iterator[tuple[str, dict[str, int]]]:
    """(pointer, {name: count}) of each text or key of a document that has hidden characters."""
    if isinstance(value, str):
        found = hidden.count(value)
        if found:
            yield path, dict(found)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from findings(item, f"{path}/{index}")
    elif isinstance(value, dict):
        for key, item in value.items():
            place = f"{path}/{canonical.escape(key)}"
            yield from ((place, dict(found)) for found in [hidden.count(key)] if found)
            yield from findings(item, place)


def pointer_words(path: str) -> str:
    """A JSON Pointer as people write a path: "/params/period_from" is "params.period_from"."""
    tokens = [token.replace("~1", "/").replace("~0", "~") for token in path.split("/")[1:]]
    return ".".join(tokens) or gettext("the whole")


def _paint(line: str) -> SafeString:
    parts: list[str] = []
    end = 0
    for match in _TOKEN.finditer(line):
        kind = match.lastgroup or "word"
        drawn = links.draw(match.group()) if kind == "text" else hidden.draw(match.group())
        parts += [hidden.draw(line[end : match.start()]), f'<span class="{_CLASSES[kind]}">{drawn}</span>']
        end = match.end()
    parts.append(hidden.draw(line[end:]))
    return mark_safe("".join(parts))  # noqa: S308 (every part is drawn)


def _inner(text: str) -> str:
    return canonical.dumps(text)[1:-1]


def _differing(before: Any, after: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            place = f"{path}/{canonical.escape(key)}"
            yield from _differing(before.get(key, MISSING), after.get(key, MISSING), place)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (was, now) in enumerate(zip(before, after, strict=True)):
            yield from _differing(was, now, f"{path}/{index}")
    elif before is MISSING or after is MISSING or not canonical.same(before, after):
        yield path, before, after


def _change(path: str, was: Any, now: Any) -> Change:
    if any(isinstance(side, str) and len(side) > DIFF_TEXT for side in (was, now)):
        before, after = (None if side is MISSING else brief(side) for side in (was, now))
        return Change(path, before, after)
    if isinstance(was, str) and isinstance(now, str):
        lines = _text_difference(was, now) if "\n" in was or "\n" in now else None
        return Change(path, *_marked(_inner(was), _inner(now)), lines)
    before, after = (None if side is MISSING else inline(side) for side in (was, now))
    return Change(path, before, after)


def brief(side: Any) -> SafeString:
    """The start of a text that is too long to be compared letter by letter, and how it can be told from another."""
    text = side if isinstance(side, str) else canonical.dumps(side)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    tail = gettext("… {count} characters, SHA-256 {digest}").format(count=number(len(text)), digest=digest)
    return mark_safe(f'"{hidden.draw(text[:DIFF_HEAD])}" <small>{tail}</small>')  # noqa: S308 (drawn)


def _marked(was: str, now: str) -> tuple[SafeString, SafeString]:
    """Two texts with the stretch that differs marked, found by what they share at both ends."""
    start = _shared(was, now)
    back = _shared(was[start:][::-1], now[start:][::-1])
    return _mark(was, start, len(was) - back, "del"), _mark(now, start, len(now) - back, "ins")


def _shared(left: str, right: str) -> int:
    """Length of what two texts have in common at their start."""
    short = min(len(left), len(right))
    return next((index for index in range(short) if left[index] != right[index]), short)


def _mark(text: str, start: int, end: int, tag: str) -> SafeString:
    head, middle, tail = hidden.draw(text[:start]), hidden.draw(text[start:end]), hidden.draw(text[end:])
    return mark_safe(f'"{head}{f"<{tag}>{middle}</{tag}>" if middle else ""}{tail}"')  # noqa: S308 (drawn)


def _same(lines: Sequence[str], start: int, *, head: int, tail: int, paint: Paint) -> list[Line]:
    """Lines as before: all of a short stretch, of a long one its ends and how many lie between."""
    drawn = [Line(start + offset, "", paint(line)) for offset, line in enumerate(lines, 1)]
    between = len(drawn) - head - tail
    if between <= LEAST_FOLDED:
        return drawn
    return [*drawn[:head], _fold(between), *drawn[len(drawn) - tail :]]


def _changed(old: Sequence[str], new: Sequence[str], i: int, j: int, *, paint: Paint) -> list[Line]:
    gone = [Line(i + offset, "−", paint(line)) for offset, line in enumerate(old, 1)]
    return gone + [Line(j + offset, "+", paint(line)) for offset, line in enumerate(new, 1)]


def _fold(count: int) -> Line:
    return Line(
        None,
        "",
        format_html(
            '<span class="cm">{}</span>', gettext("{count} lines as before").format(count=number(count))
        ),
    )
