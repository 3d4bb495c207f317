"""The state of a run at a checkpoint, as it is looked at: what changed, the whole as a tree or as text, one place of it. Pure.

Documents may have megabytes. What is drawn is bounded, and says what it leaves out; the exact text is an address of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import Any, Final
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from runs.engine import canonical, patch
from runs.engine.lineage import Line
from runs.engine.position import live_steps
from runs.engine.position import state as state_of
from runs.engine.redaction import Sight
from runs.models import Run
from runs.queries import Moment
from runs.templatetags import hidden, pretty, words
from runs.tongue import Words, number
from runs.web.run_page import Link, checkpoint_row

SHOWN: Final = Words({"difference": "Difference", "tree": "Tree", "state": "JSON", "update": "Position"})
MOST_LINES: Final = 1_500
LONGEST_LINE: Final = 2_000
MOST_COMPARED: Final = (
    400_000  # characters of both sides; above that the places are named, and no lines are compared
)
MOST_INSIDE: Final = 100  # of one list or object in a tree
MOST_BRANCHES: Final = 1_200  # of a tree
MOST_FOUND: Final = 100
OPEN_DEPTH: Final = 1


@dataclass(slots=True)
class Twig:
    """A place in a document: its key, and either its value or what is inside it. said: how much that is; more: is not drawn."""

    key: str
    said: str
    leaf: SafeString | None = None
    inside: list[Twig] = field(default_factory=list)
    more: int = 0
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    path: str
    value: SafeString


@dataclass(frozen=True, slots=True)
class Selected:
    """A checkpoint that is looked at. base: what it is held against, None for the first; against: that was chosen by hand.

    find: what is searched for, and `found` where it is. exact: the address of the state as exact text. left_out: lines.
    """

    no: int
    base: int | None
    against: int | None
    title: str
    at: datetime
    author: str
    reason: str
    can_rewind: bool
    can_fork: bool
    show: str
    views: list[Link]
    lines: list[pretty.Line]
    tree: list[Twig]
    find: str
    found: list[Found]
    left_out: int
    label: str
    nothing: str
    said: str
    state_size: int
    own_size: int
    exact: str
    before: str
    after: str
    stored_as: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """How a checkpoint is looked at: one of `SHOWN` or empty, held against which other, what is searched for."""

    show: str = ""
    against: int | None = None
    find: str = ""


def selected(
    moment: Moment, *, run: Run, line: Line, look: Look, may_steer: bool, may_fork: bool, sight: Sight
) -> Selected:
    point = moment.checkpoint
    row = checkpoint_row(point, run=run, line=line, may_steer=may_steer)
    state = sight.of_state(moment.state)
    before = {} if moment.before is None else sight.of_state(state_of(moment.before), against=moment.state)
    show = look.show if look.show in SHOWN else ("difference" if moment.before is not None else "tree")
    whole = sight.free(moment.position) if show == "update" else state
    lines, left_out = _lines_of(show, before, whole) if not look.find else ([], 0)
    return Selected(
        no=point.no,
        base=moment.base,
        against=look.against,
        title=f"{row.node} {row.note}".strip(),
        at=point.created_at,
        author=str((point.author or {}).get("name", "")),
        reason=point.reason,
        can_rewind=row.can_rewind and bool(live_steps(moment.position)),
        can_fork=may_fork and bool(live_steps(moment.position)),
        show=show,
        views=_views(run, point.no, look, show),
        lines=lines,
        tree=tree(state) if show == "tree" and not look.find else [],
        find=look.find,
        found=list(islice(places(whole, look.find), MOST_FOUND)) if look.find else [],
        left_out=left_out,
        label=LABELS[show],
        nothing=gettext("The state is as before; only the run's position moved on."),
        said=_said(before, state)
        if moment.before is not None
        else words.some(len(state), "{count} key", "{count} keys"),
        state_size=len(canonical.dumps(state).encode()),
        own_size=_own_size(before, state),
        exact=reverse("run-state", args=[run.pk, point.no]),
        before=address(run, point.no - 1) if point.no > 0 else "",
        after=address(run, point.no + 1) if point.no < run.checkpoint_no else "",
        stored_as=moment.stored_as,
        fault=moment.fault,
    )


LABELS: Final = Words(
    {
        "difference": "Difference of state",
        "tree": "State as a tree",
        "state": "State",
        "update": "Position",
    }
)


def address(run: Run, no: int, **told: Any) -> str:
    said = {key: value for key, value in told.items() if value not in (None, "")}
    return reverse("run-checkpoint", args=[run.pk, no]) + (f"?{urlencode(said)}" if said else "")


def lines_of(text: str) -> tuple[list[pretty.Line], int]:
    """A text as lines, the first of them and of each its beginning; and how many are left out."""
    every = text.split("\n")
    shown = every[:MOST_LINES]
    lines = pretty.text_lines("\n".join(line[:LONGEST_LINE] for line in shown))
    return [
        replace(line, html=line.html + _rest(whole)) for line, whole in zip(lines, shown, strict=True)
    ], len(every) - len(shown)


def tree(document: Any) -> list[Twig]:
    """What is inside a document, level by level, for as many places as can be drawn."""
    room = [MOST_BRANCHES]
    return _twig("", document, 0, room).inside


def places(value: Any, text: str, path: str = "") -> Iterator[Found]:
    """Leaves of a document whose path or value has a text in it, whatever its case."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from places(item, text, f"{path}/{canonical.escape(key)}")
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from places(item, text, f"{path}/{index}")
    elif text.casefold() in f"{pretty.pointer_words(path)}\n{_plain(value)}".casefold():
        yield Found(path, _leaf(value))


# ---- inside


def _views(run: Run, no: int, look: Look, show: str) -> list[Link]:
    return [
        Link(word, address(run, no, show=key, against=look.against, find=look.find), key == show)
        for key, word in SHOWN.items()
    ]


def _lines_of(show: str, before: Mapping[str, Any], whole: Any) -> tuple[list[pretty.Line], int]:
    if show == "tree":
        return [], 0
    if show != "difference":
        return lines_of(canonical.dumps(whole, indent=2))
    short = len(canonical.dumps(before)) + len(canonical.dumps(whole)) <= MOST_COMPARED
    found = pretty.difference(before, whole) if short else None
    if found is None:
        found = [pretty.Line(None, "", _place(change)) for change in patch.difference(before, whole)]
    return found[:MOST_LINES], max(len(found) - MOST_LINES, 0)


def _place(change: patch.Change) -> SafeString:
    return hidden.draw(f"{change.kind}: {pretty.pointer_words(change.path)}")


def _rest(text: str) -> SafeString:
    """What is said of the rest of a text that is longer than is shown."""
    over = len(text) - LONGEST_LINE
    return (
        format_html(
            '<span class="cm">{}</span>', gettext("… {count} more characters").format(count=number(over))
        )
        if over > 0
        else SafeString()
    )


def _twig(key: str, value: Any, depth: int, room: list[int]) -> Twig:
    room[0] -= 1
    if not isinstance(value, (dict, list)) or not value:
        return Twig(key, "", _leaf(value))
    items = value.items() if isinstance(value, dict) else enumerate(value)
    twig = Twig(key, _held(value), is_open=depth <= OPEN_DEPTH)
    for name, item in islice(items, MOST_INSIDE):
        if room[0] <= 0:
            break
        twig.inside.append(_twig(str(name), item, depth + 1, room))
    twig.more = len(value) - len(twig.inside)
    return twig


def _held(value: Any) -> str:
    if isinstance(value, dict):
        return words.some(len(value), "{count} key", "{count} keys")
    return words.some(len(value), "{count} item", "{count} items")


def _leaf(value: Any) -> SafeString:
    text = _plain(value)
    return (
        pretty.inline(value) if len(text) <= LONGEST_LINE else hidden.draw(text[:LONGEST_LINE]) + _rest(text)
    )


def _plain(value: Any) -> str:
    return canonical.dumps(value)


def _said(before: Mapping[str, Any], state: Mapping[str, Any]) -> str:
    kinds = Counter(change.kind for change in patch.difference(before, state))
    told = [
        words.some(kinds["added"], "{count} added", "{count} added") if kinds["added"] else "",
        words.some(kinds["changed"], "{count} changed", "{count} changed") if kinds["changed"] else "",
        words.some(kinds["removed"], "{count} removed", "{count} removed") if kinds["removed"] else "",
    ]
    return ", ".join(filter(None, told)) or gettext("nothing changed")


def _own_size(before: Mapping[str, Any], state: Mapping[str, Any]) -> int:
    """Bytes of the keys that differ."""
    fresh = {
        key: state[key] for key in state if key not in before or not canonical.same(before[key], state[key])
    }
    return len(canonical.dumps(fresh).encode()) if fresh else 0
