"""Editing the arguments of an approval: what the form shows, and what it means when it comes back. Pure.

Two ways to write the same arguments, one of them on the page at a time: fields from the schema, or the JSON. The server
changes between them, so no browser ever re-writes a number. Whatever was typed comes back as it was typed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runs.engine import canonical
from runs.engine.approval import ActionDecision
from runs.errors import BadRequest, HitlError, InvalidJson, Problem
from runs.models import Approval
from runs.templatetags import pretty, words
from runs.web import fields
from runs.web.card import compare

Post = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class EditAction:
    key: str
    allowed: list[str]
    can_edit: bool
    drawable: bool
    decision: str
    fields: list[fields.Field]
    text: str
    editable_words: str
    errors: list[Problem]


@dataclass(frozen=True, slots=True)
class Edit:
    mode: str
    version: int
    digest: str
    actions: list[EditAction]
    changes: list[pretty.Change]
    unchanged: str
    reason: str

    @property
    def next_version(self) -> int:
        return self.version + 1

    @property
    def error_count(self) -> int:
        shown_in_fields = sum(1 for action in self.actions for field in action.fields if field.wrong)
        return shown_in_fields or sum(len(action.errors) for action in self.actions)

    @property
    def first_error(self) -> str:
        wrong = [field.id for action in self.actions for field in action.fields if field.wrong]
        return wrong[0] if wrong else "banner"


@dataclass(frozen=True, slots=True)
class Typed:
    """What a form that came back holds: the arguments by action, for those that could be read, and what is wrong."""

    args: dict[str, Any]
    problems: dict[str, list[Problem]]

    def check(self) -> None:
        """Raise `InvalidJson` for the first action whose text cannot be read."""
        for key, problems in self.problems.items():
            raise InvalidJson(
                f"{problems[0].message[:1].upper()}{problems[0].message[1:]}.", errors=problems, action=key
            )


def read(approval: Approval, post: Post) -> Typed:
    """Parse what was typed, in the mode the form was in."""
    args: dict[str, Any] = {}
    wrong: dict[str, list[Problem]] = {}
    for action in approval.content["actions"]:
        key = action["key"]
        if "edit" not in action["allowed"]:
            continue
        if f"json:{key}" in post:
            found = _parse(post[f"json:{key}"])
        elif post.get("mode") == "form" and fields.drawable(action["args"], action["schema"]):
            found = fields.read(action["args"], action["schema"], action["editable"], _sent(post, key))
        else:
            continue
        args[key] = found.args
        if found.problems:
            wrong[key] = found.problems
    return Typed(args, wrong)


def decisions(approval: Approval, post: Post, typed: Typed) -> list[ActionDecision]:
    """What is decided about each action: the edit of the only one, or what was chosen for each of several."""
    actions = approval.content["actions"]
    made = []
    for action in actions:
        key = action["key"]
        chosen = "edit" if len(actions) == 1 else post.get(f"decision:{key}", "")
        if not chosen:
            raise BadRequest(f"Choose an answer for {key!r}.")
        args = typed.args.get(key, action["args"]) if chosen == "edit" else None
        message = post.get("reason", "") if chosen in ("reject", "respond") else ""
        made.append(ActionDecision(key, chosen, args, message))
    return made


def changed(approval: Approval, typed: Typed) -> dict[str, Any]:
    """The arguments that differ from what is proposed, by action."""
    proposed = {action["key"]: action["args"] for action in approval.content["actions"]}
    return {key: args for key, args in typed.args.items() if not canonical.same(args, proposed[key])}


def build(
    approval: Approval,
    *,
    mode: str,
    post: Post | None = None,
    typed: Typed | None = None,
    error: HitlError | None = None,
) -> Edit:
    """The edit page. post: what was typed, shown again untouched as long as the mode stays; error: why it was refused."""
    post = post or {}
    document = approval.content
    actions = [
        _action(action, mode, post, typed, error, number) for number, action in enumerate(document["actions"])
    ]
    changes: list[pretty.Change] = []
    unreadable = bool(typed and typed.problems)
    if typed and not unreadable:
        edited = [
            {**action, "args": typed.args.get(action["key"], action["args"])}
            for action in document["actions"]
        ]
        changes = compare(document, {**document, "actions": edited})
    unchanged = "Nothing differs from the proposal yet."
    if unreadable:
        unchanged = "Shown as soon as the text can be read."
    return Edit(mode, approval.version, approval.digest, actions, changes, unchanged, post.get("reason", ""))


def choose_mode(approval: Approval, wanted: str) -> str:
    """Fields where the schema allows them, unless JSON is asked for."""
    drawable = any(
        "edit" in action["allowed"] and fields.drawable(action["args"], action["schema"])
        for action in approval.content["actions"]
    )
    return "form" if drawable and wanted != "json" else "json"


# ---- inside


def _parse(text: str) -> fields.Read:
    try:
        return fields.Read(canonical.parse(text), [])
    except InvalidJson as error:
        return fields.Read({}, error.errors)


def _sent(post: Post, key: str) -> dict[str, str]:
    prefix = f"arg:{key}:"
    return {name.removeprefix(prefix): value for name, value in post.items() if name.startswith(prefix)}


def _action(
    action: Mapping[str, Any],
    mode: str,
    post: Post,
    typed: Typed | None,
    error: HitlError | None,
    number: int,
) -> EditAction:
    key = action["key"]
    can_edit = "edit" in action["allowed"]
    drawable = can_edit and fields.drawable(action["args"], action["schema"])
    problems = _problems_of(key, typed, error)
    value = typed.args[key] if typed and key in typed.args and key not in typed.problems else action["args"]
    sent = _sent(post, key)
    if not sent and drawable and value is not action["args"]:
        sent = _as_typed(value, action)
    return EditAction(
        key=key,
        allowed=list(action["allowed"]),
        can_edit=can_edit,
        drawable=drawable,
        decision=post.get(f"decision:{key}", ""),
        fields=fields.draw(
            action["args"],
            action["schema"],
            action["editable"],
            typed=sent,
            problems=problems,
            prefix=f"arg-{number}-",
        )
        if drawable and mode == "form"
        else [],
        text=post.get(f"json:{key}") or canonical.dumps(value, indent=2),
        editable_words=words.listing([pretty.pointer_words(path) for path in action["editable"]]),
        errors=problems,
    )


def _problems_of(key: str, typed: Typed | None, error: HitlError | None) -> list[Problem]:
    if error is not None and error.errors and error.facts.get("action", key) == key:
        return list(error.errors)
    return list(typed.problems.get(key, [])) if typed else []


def _as_typed(value: Any, action: Mapping[str, Any]) -> dict[str, str]:
    """The text of each field for arguments that came from the JSON text."""
    if not isinstance(value, dict):
        return {}
    drawn = fields.draw(value, action["schema"], action["editable"])
    added = {f"{name}:set": "yes" for name in value if name not in action["args"]}
    return {field.name: field.value for field in drawn} | added
