"""What would be done: the arguments of an approval's actions as a card shows them, and what of them it cannot show. Pure."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.utils.safestring import SafeString
from django.utils.translation import gettext

from runs.engine import canonical
from runs.models import Approval
from runs.templatetags import hidden, pretty, words
from runs.web import parts

LONG_TEXT: Final = 120  # characters above which an argument is shown as a block of its own
ON_CARD: Final = (
    12_000  # characters of all arguments beside the answers; with more they have a page of their own
)
ON_PAGE: Final = 300_000  # characters of that page; what is longer still can only be read in the file
ARGUMENTS_ON_CARD: Final = 100
ARGUMENTS_ON_PAGE: Final = 5_000


@dataclass(frozen=True, slots=True)
class Finding:
    """Hidden characters in one place: how many of which name."""

    path: str
    counted: Counter[str]

    @property
    def count(self) -> int:
        return self.counted.total()

    @property
    def kinds(self) -> str:
        return words.listing([f"{count} {name}" for name, count in self.counted.most_common()])


@dataclass(frozen=True, slots=True)
class Rest:
    """What of a text is not shown: how much, of how much, and the digest of all of it."""

    size: int
    whole: int
    digest: str


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    html: SafeString
    editable: bool
    note: str = ""
    finding: Finding | None = None
    hidden: bool = False
    rest: Rest | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """A long text or a nested value of the arguments, with line numbers; a text exactly. rest: what there was no room for."""

    name: str
    lines: list[pretty.Line]
    size: int
    finding: Finding | None
    exact: bool = True
    rest: Rest | None = None


@dataclass(frozen=True, slots=True)
class ActionView:
    """more: arguments for which there was no room. unchecked: why an edit of it could not be checked."""

    key: str
    tool: str
    effect: str
    risk: str | None
    allowed: list[str]
    args: list[Argument]
    blocks: list[Block]
    document: Any
    size: int
    findings: list[Finding]
    hidden: list[str] = field(default_factory=list)
    more: int = 0
    unchecked: str = ""

    @property
    def is_cut(self) -> bool:
        return self.more > 0 or bool(self.rests)

    @property
    def rests(self) -> list[Rest]:
        """What there was no room for of what is shown."""
        rests = [arg.rest for arg in self.args] + [block.rest for block in self.blocks]
        return [rest for rest in rests if rest]


@dataclass(slots=True)
class Room:
    """How much of all arguments is shown, in the order in which they stand."""

    characters: int
    arguments: int

    def take(self, text: str) -> tuple[str, Rest | None]:
        """As much of a text as there is room for. A little of each is always shown, so that no name stands alone."""
        shown = text[: max(self.characters, LONG_TEXT)]
        self.characters -= len(shown)
        return shown, rest_of(text, len(shown))


def room(*, whole: bool) -> Room:
    return Room(ON_PAGE, ARGUMENTS_ON_PAGE) if whole else Room(ON_CARD, ARGUMENTS_ON_CARD)


def rest_of(text: str, shown: int) -> Rest | None:
    if shown >= len(text):
        return None
    data = text.encode("utf-8", "surrogatepass")
    return Rest(
        len(text[shown:].encode("utf-8", "surrogatepass")), len(data), hashlib.sha256(data).hexdigest()
    )


def is_cut(approval: Approval, *, whole: bool = False) -> bool:
    """Whether a card, or the page of the whole, has no room for all that would be done."""
    space = room(whole=whole)
    return any(action_view(action, space=space).is_cut for action in approval.content["actions"])


def hidden_in(approval: Approval) -> list[Finding]:
    """Hidden characters in what would be done and in what is told about it."""
    document = approval.content
    found = [
        _finding(path, kinds)
        for action in document["actions"]
        for path, kinds in pretty.findings(action["args"])
    ]
    return found + _other_findings(document)


def action_view(
    action: Mapping[str, Any], hidden: Sequence[str] = (), *, space: Room | None = None
) -> ActionView:
    """space: what there is room for; all actions of an approval share it."""
    args, space = action["args"], space or room(whole=False)
    found = [_finding(path, kinds) for path, kinds in pretty.findings(args)]
    members = sorted(args.items()) if isinstance(args, dict) else [("", args)]
    shown = members[: max(space.arguments, 0)]
    space.arguments -= len(shown)
    described = _descriptions(action.get("schema"))
    view = ActionView(
        key=action["key"],
        tool=action["tool"],
        effect=action["effect"],
        risk=action.get("risk"),
        allowed=list(action["allowed"]),
        args=[],
        blocks=[],
        document=args,
        size=len(canonical.dumps(args).encode()),
        findings=found,
        hidden=[pretty.pointer_words(path) for path in hidden],
        more=len(members) - len(shown),
        unchecked=str(action.get("unchecked") or ""),
    )
    for name, value in shown:
        finding = _under(found, name)
        if _is_long(value):
            view.blocks.append(_block(name, value, finding, space))
        else:
            html, rest = _inline(value, space)
            editable, veiled = _may_edit(name, action["editable"]), _under_pointer(hidden, name)
            view.args.append(Argument(name, html, editable, described.get(name, ""), finding, veiled, rest))
    return view


# ---- inside


def _block(name: str, value: Any, finding: Finding | None, space: Room) -> Block:
    exact = isinstance(value, str)
    text = value if exact else canonical.dumps(value, indent=2)
    shown, rest = space.take(text)
    lines = pretty.text_lines(shown, json=not exact)
    return Block(name, lines, len(text.encode("utf-8", "surrogatepass")), finding, exact, rest)


def _inline(value: Any, space: Room) -> tuple[SafeString, Rest | None]:
    text = value if isinstance(value, str) else canonical.dumps(value)
    shown, rest = space.take(text)
    if rest is None:
        return pretty.inline(value), None
    return hidden.draw(shown), rest


def _is_long(value: Any) -> bool:
    if isinstance(value, str):
        return "\n" in value or len(value) > LONG_TEXT
    return isinstance(value, (dict, list)) and len(canonical.dumps(value)) > LONG_TEXT


def _under_pointer(paths: Sequence[str], name: str) -> bool:
    path = f"/{canonical.escape(name)}"
    return any(place == path or place.startswith(f"{path}/") for place in paths)


def _may_edit(name: str, editable: Sequence[str]) -> bool:
    path = f"/{canonical.escape(name)}"
    return any(path == place or place.startswith(f"{path}/") for place in editable)


def _descriptions(schema: Any) -> dict[str, str]:
    told = parts.resolve(schema, schema).get("properties")
    drawn = (
        {name: parts.resolve(part, schema) for name, part in told.items()} if isinstance(told, dict) else {}
    )
    return {name: str(part["description"]) for name, part in drawn.items() if "description" in part}


def _finding(path: str, kinds: Mapping[str, int]) -> Finding:
    return Finding(pretty.pointer_words(path), Counter(kinds))


def _under(found: Sequence[Finding], name: str) -> Finding | None:
    inside = [finding for finding in found if finding.path == name or finding.path.startswith(f"{name}.")]
    if not inside:
        return None
    return Finding(name, sum((finding.counted for finding in inside), Counter[str]()))


def _other_findings(document: Mapping[str, Any]) -> list[Finding]:
    places = [(gettext("the title"), document.get("title"))]
    places += [(str(fact["label"]), [fact["label"], fact["value"]]) for fact in document.get("facts") or []]
    return [Finding(name, Counter(kinds)) for name, value in places for _, kinds in pretty.findings(value)]
