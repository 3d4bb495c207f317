"""Editing the arguments of an approval: what the form shows, and what it means when it comes back. Pure.

Two ways to write the same arguments, one of them on the page at a time: fields from the schema, or the JSON. The server
changes between them, so no browser ever re-writes a number. Whatever was typed comes back as it was typed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext

from runs.engine import canonical
from runs.engine.approval import ActionDecision, edit_problems
from runs.errors import BadRequest, HitlError, InvalidJson, Problem, Told
from runs.models import Approval
from runs.templatetags import pretty, words
from runs.web import fields, filling, pointing
from runs.web.since import compare

Post = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class EditAction:
    key: str
    allowed: list[str]
    can_edit: bool
    drawable: bool
    decision: str
    number: int
    fields: tuple[fields.Field, ...]
    text: str
    editable_words: str
    errors: list[pointing.Found]


@dataclass(frozen=True, slots=True)
class Edit:
    mode: str
    version: int
    digest: str
    actions: list[EditAction]
    changes: list[pretty.Change]
    unchanged: str
    reason: str
    is_new: bool = False

    @property
    def focus(self) -> str:
        """The field that a fresh form begins with; one that comes back stands where it was."""
        leaves = (one.id for one in self._fields() if one.editable and one.present and not one.is_group)
        return next(leaves, "") if self.is_new else ""

    @property
    def next_version(self) -> int:
        return self.version + 1

    @property
    def error_count(self) -> int:
        in_fields = sum(1 for field in self._fields() if field.wrong)
        return in_fields + sum(len(action.errors) for action in self.actions)

    @property
    def first_error(self) -> str:
        wrong = [field.id for field in self._fields() if field.wrong]
        return wrong[0] if wrong else "banner"

    @property
    def all_errors(self) -> list[pointing.Found]:
        """What is wrong anywhere, for where no field stands beside it."""
        in_fields = [pointing.Found(one.path, error) for one in self._fields() for error in one.errors]
        return in_fields + [error for action in self.actions for error in action.errors]

    def _fields(self) -> Iterator[fields.Field]:
        for action in self.actions:
            for field in action.fields:
                yield from field.all()


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
    for number, action in enumerate(approval.content["actions"]):
        key = action["key"]
        if "edit" not in action["allowed"]:
            continue
        if f"json:{key}" in post:
            found = parsed(post[f"json:{key}"])
        elif post.get("mode") == "form" and fields.drawable(action["args"], action["schema"]):
            found = filling.read(action["args"], action["schema"], action["editable"], sent(post, number))
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
            raise BadRequest(Told("Choose an answer for {key!r}.", key=key))
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
    checks: bool = False,
) -> Edit:
    """The edit page. post: what was typed, shown again untouched as long as the mode stays; error: why it was refused.
    checks: whether what was typed is held against the schema before it is sent.
    """
    post = post or {}
    document = approval.content
    actions = [
        _action(action, mode, post, typed, _problems_of(action, typed, error, post, checks=checks), number)
        for number, action in enumerate(document["actions"])
    ]
    changes: list[pretty.Change] = []
    unreadable = bool(typed and typed.problems)
    if typed and not unreadable:
        edited = [
            {**action, "args": typed.args.get(action["key"], action["args"])}
            for action in document["actions"]
        ]
        changes = compare(document, {**document, "actions": edited})
    unchanged = gettext("Nothing differs from the proposal yet.")
    if unreadable:
        unchanged = gettext("Shown as soon as the text can be read.")
    return Edit(
        mode, approval.version, approval.digest, actions, changes, unchanged, post.get("reason", ""), not post
    )


def choose_mode(approval: Approval, wanted: str) -> str:
    """Fields where the schema allows them, unless JSON is asked for."""
    drawable = any(
        "edit" in action["allowed"] and fields.drawable(action["args"], action["schema"])
        for action in approval.content["actions"]
    )
    return "form" if drawable and wanted != "json" else "json"


def drawn_anew(post: Post) -> dict[str, str] | None:
    """The form with a row more or less, or as it is, if a button asks only to draw it; None if it is to be saved."""
    asked = {name: post.get(name, "") for name in ("grow", "drop", "draw", "show") if name in post}
    if not asked:
        return None
    changed = dict(post)
    for name, change in (("grow", filling.more), ("drop", filling.fewer)):
        if name in asked:
            changed = change(changed, f"arg:{asked[name]}")
    return changed


# ---- inside


def parsed(text: str) -> filling.Read:
    try:
        return filling.Read(canonical.parse(text, limit=canonical.STATE_LIMIT), [])
    except InvalidJson as error:
        return filling.Read({}, error.errors)


def sent(post: Post, number: int) -> dict[str, str]:
    """What was sent of the fields of an action."""
    prefix = f"arg:{number}:"
    return {name.removeprefix(prefix): value for name, value in post.items() if name.startswith(prefix)}


def _action(
    action: Mapping[str, Any],
    mode: str,
    post: Post,
    typed: Typed | None,
    problems: Sequence[Problem],
    number: int,
) -> EditAction:
    key = action["key"]
    can_edit = "edit" in action["allowed"]
    drawable = can_edit and fields.drawable(action["args"], action["schema"])
    value = typed.args[key] if typed and key in typed.args and key not in typed.problems else action["args"]
    typed_fields = sent(post, number)
    base = action["args"] if typed_fields or not isinstance(value, dict) else value
    drawn = (
        fields.draw(
            base,
            action["schema"],
            action["editable"],
            typed=typed_fields,
            problems=problems,
            prefix=f"arg-{number}-",
        )
        if drawable and mode == "form"
        else ()
    )
    text = post.get(f"json:{key}") or canonical.dumps(value, indent=2)
    return EditAction(
        key=key,
        allowed=list(action["allowed"]),
        can_edit=can_edit,
        drawable=drawable,
        decision=post.get(f"decision:{key}", ""),
        number=number,
        fields=drawn,
        text=text,
        editable_words=words.listing([pretty.pointer_words(path) for path in action["editable"]]),
        errors=beside(problems, drawn) if mode == "form" else pointing.found_in(text, problems),
    )


def beside(problems: Sequence[Problem], drawn: Sequence[fields.Field]) -> list[pointing.Found]:
    """What no field shows: it concerns the whole, or something that has no field."""
    shown = {error for field in drawn for one in field.all() for error in one.errors}
    return [
        pointing.Found(problem.path, problem.message) for problem in problems if problem.message not in shown
    ]


def _problems_of(
    action: Mapping[str, Any], typed: Typed | None, error: HitlError | None, post: Post, *, checks: bool
) -> list[Problem]:
    key = action["key"]
    if error is not None and error.errors and error.facts.get("action", key) == key:
        return list(error.errors)
    found = list(typed.problems.get(key, [])) if typed else []
    if not found and checks and typed and key in typed.args:
        return edit_problems(action, typed.args[key])
    if {"draw", "grow", "drop"} & set(post):
        return [
            problem for problem in found if problem.code != filling.NOT_FILLED
        ]  # it is just being asked for
    return found
