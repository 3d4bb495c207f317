"""An approval in a terminal: what is asked, and the answer of the person there.

Text of agents and customers is drawn, never obeyed: an escape sequence in it must not overwrite the facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Final

from runs.engine import canonical
from runs.engine.approval import ActionDecision, edit_problems
from runs.engine.canonical import Json
from runs.engine.patch import tokens
from runs.errors import InvalidJson
from runs.templatetags import hidden

Ask = Callable[[str], str]
Say = Callable[[str], None]

_FOLLOWS: Final = {
    "approve": "it is carried out as shown",
    "edit": "you change the arguments, then it is carried out",
    "reject": "it is not carried out",
    "respond": "your answer takes its place",
}
_QUESTIONS: Final = {"reject": "Reason: ", "respond": "Your answer: "}


def plain(text: str) -> str:
    """The text with every character that a terminal would obey or hide written as <U+001B>."""
    parts, end = [], 0
    for index, _ in hidden.find(text):
        parts += [text[end:index], f"<{hidden.code_point(text[index])}>"]
        end = index + 1
    return "".join([*parts, text[end:]])


def card(document: Mapping[str, Json]) -> Iterator[str]:
    """The lines that show an approval: what, why, facts, arguments, and last the agent's words."""
    yield _one_line(document["title"])
    if document["reason"]:
        yield f"  {_one_line(document['reason'])}"
    width = max((len(plain(fact["label"])) for fact in document["facts"]), default=0)
    for fact in document["facts"]:
        yield f"    {plain(fact['label']):<{width}}  {_one_line(fact['value'])}"
    for action in document["actions"]:
        yield from _action(action)
    if document["agent_note"]:
        yield "  The agent's own words, not verified:"
        yield indent(plain(document["agent_note"]), "  | ", lambda _: True)


def _action(action: Mapping[str, Json]) -> Iterator[str]:
    marks = [mark for mark in (action["effect"], action["risk"] and f"{action['risk']} risk") if mark]
    yield f"  {plain(action['tool'])} ({', '.join(marks)})"
    for name, value in action["args"].items():
        may_change = any(path in ("", f"/{canonical.escape(name)}") for path in action["editable"])
        yield f"    {plain(name)} = {plain(canonical.dumps(value))}{'   may be edited' if may_change else ''}"


def _one_line(value: Json) -> str:
    text = value if isinstance(value, str) else canonical.dumps(value)
    return " / ".join(plain(line) for line in text.split("\n"))


@dataclass(frozen=True, slots=True)
class Person:
    """Whoever sits at the terminal."""

    ask: Ask
    say: Say

    def decide(self, document: Mapping[str, Json]) -> list[ActionDecision]:
        """One decision for each action; asks again until the answer can be taken."""
        return [self._one(action) for action in document["actions"]]

    def _one(self, action: Mapping[str, Json]) -> ActionDecision:
        kind = self._choice(action["allowed"])
        args = self._edited(action) if kind == "edit" else None
        message = self.ask(_QUESTIONS[kind]) if kind in _QUESTIONS else ""
        return ActionDecision(key=action["key"], type=kind, args=args, message=message.strip())

    def _choice(self, allowed: Sequence[str]) -> str:
        self.say("")
        for kind in allowed:
            self.say(f"  {kind:<8} {_FOLLOWS[kind]}")
        while True:
            said = self.ask("Your decision: ").strip().lower()
            meant = [kind for kind in allowed if said and kind.startswith(said)]
            if len(meant) == 1 or said in allowed:
                return said if said in allowed else meant[0]
            self.say(f"One of {', '.join(allowed)} is needed; the first letters are enough.")

    def _edited(self, action: Mapping[str, Json]) -> Json:
        while True:
            args = {**action["args"], **{name: self._value(action, name) for name in _editable(action)}}
            problems = edit_problems(action, args)
            if not problems:
                return args
            for problem in problems:
                self.say(f"  {problem.path}: {plain(problem.message)}")

    def _value(self, action: Mapping[str, Json], name: str) -> Json:
        old = action["args"].get(name)
        said = self.ask(f"{plain(name)} (now {plain(canonical.dumps(old))}; empty keeps it): ").strip()
        return read_value(said, like=old) if said else old


@dataclass(frozen=True, slots=True)
class Script:
    """The same answer to every question, told beforehand."""

    kind: str
    message: str = ""
    changes: Mapping[str, str] | None = None

    def decide(self, document: Mapping[str, Json]) -> list[ActionDecision]:
        return [self._one(action) for action in document["actions"]]

    def _one(self, action: Mapping[str, Json]) -> ActionDecision:
        args = None
        if self.kind == "edit":
            known = action["args"]
            changed = {
                name: read_value(text, like=known.get(name)) for name, text in (self.changes or {}).items()
            }
            args = {**known, **changed}
        return ActionDecision(key=action["key"], type=self.kind, args=args, message=self.message)


def read_value(text: str, *, like: Json) -> Json:
    """What was typed, as text where a text stood before, else as JSON; what is no JSON is text."""
    if isinstance(like, str):
        return text
    try:
        return canonical.parse(text)
    except InvalidJson:
        return text


def _editable(action: Mapping[str, Json]) -> list[str]:
    """Names of the arguments of which any part may be changed."""
    return list(dict.fromkeys(tokens(path)[0] for path in action["editable"] if path)) or list(action["args"])
