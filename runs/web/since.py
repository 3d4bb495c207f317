"""What changed since the last version of an approval, or since it was asked before. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.utils.translation import gettext

from runs.engine import canonical
from runs.models import Approval, Revision
from runs.templatetags import pretty, words
from runs.tongue import Words
from runs.web.facts import fact_of
from runs.web.material import Material

VERBS: Final = Words({"approve": "approved", "reject": "rejected", "respond": "answered", "close": "closed"})


@dataclass(frozen=True, slots=True)
class Since:
    """What changed since the last version or the last time it was asked."""

    title: str
    who: str
    verb: str
    at: datetime | None
    quote: str
    before: str
    after: str
    changes: list[pretty.Change]
    previous: Approval | None = None


def since(material: Material) -> Since | None:
    """The latest edit of this approval, or what it asks again after."""
    approval = material.approval
    if approval.version > 1:
        return _since_edit(material)
    if approval.closed_reason == "edited" and material.revisions[-1:]:
        return _since_sent(approval, material.revisions[-1])
    if material.previous is not None:
        return _since_asked(material, material.previous)
    return None


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[pretty.Change]:
    """Differences of two approval documents, in the order in which a card shows them: texts among the arguments,
    then facts, then the other arguments; without such a text the arguments come first.
    """
    arguments = pretty.changes(_arguments_by_name(before), _arguments_by_name(after))
    facts = pretty.changes(_short_facts(before), _short_facts(after))
    texts = [change for change in arguments if change.lines]
    others = [change for change in arguments if not change.lines]
    return [*texts, *facts, *others] if texts else [*others, *facts]


# ---- inside


def _since_edit(material: Material) -> Since | None:
    approval = material.approval
    by_version = {revision.version: revision for revision in material.revisions}
    base = (
        material.seen
        if material.seen in by_version and material.seen != approval.version
        else approval.version - 1
    )
    before, made = by_version.get(base), by_version.get(approval.version)
    if before is None or made is None:
        return None
    return Since(
        gettext("Edited."),
        _author(made),
        gettext("made version {version}").format(version=made.version),
        made.created_at,
        made.comment,
        gettext("Version {version}").format(version=before.version),
        gettext("Version {version}").format(version=made.version),
        compare(canonical.loads(before.document), approval.content),
    )


def _since_asked(material: Material, previous: Approval) -> Since:
    """Asked again after an edit that was checked, or after a decision: by whom, why, and what differs."""
    if material.edit is not None:
        return _since_checked(material, previous, material.edit)
    vote = next((vote for vote in previous.votes.all() if vote.decisive), None)
    verb = VERBS.get(previous.outcome, VERBS["close"])
    closed = gettext("the action had changed") if previous.closed_reason == "payload_changed" else ""
    name = words.short_id(previous.id, "A-")
    return Since(
        gettext("Asked again."),
        str(vote.user or gettext("the system")) if vote else "",
        gettext("{verb} {name}").format(verb=verb, name=name)
        if vote
        else gettext("{name} closed").format(name=name),
        vote.at if vote else previous.closed_at,
        (vote.comment if vote else "") or closed,
        verb[:1].upper() + verb[1:] if vote else gettext("Before"),
        gettext("This one"),
        compare(previous.content, material.approval.content),
        previous,
    )


def _since_checked(material: Material, previous: Approval, edit: Revision) -> Since:
    edited, asked = canonical.loads(edit.document), material.approval.content
    taken = canonical.same(_arguments(edited), _arguments(asked)) or not canonical.same(
        _arguments(previous.content), _arguments(asked)
    )
    return Since(
        gettext("Asked again after an edit.")
        if taken
        else gettext("Asked again as it was: the edit did not pass the check."),
        _author(edit),
        gettext("edited {id}").format(id=words.short_id(previous.id, "A-")),
        edit.created_at,
        edit.comment,
        gettext("Proposed") if taken else gettext("Asked"),
        gettext("This one") if taken else gettext("The edit, not asked"),
        compare(previous.content, asked if taken else edited),
        previous,
    )


def _since_sent(approval: Approval, edit: Revision) -> Since:
    """An approval that somebody edited, while the edit is checked or after it."""
    return Since(
        gettext("Edited, to be asked anew."),
        _author(edit),
        gettext("edited this"),
        edit.created_at,
        edit.comment,
        gettext("Proposed"),
        gettext("Edited"),
        compare(approval.content, canonical.loads(edit.document)),
    )


def _author(revision: Revision) -> str:
    return str(revision.author or gettext("somebody who has left"))


def _arguments(document: Mapping[str, Any]) -> list[Any]:
    return [action["args"] for action in document["actions"]]


def _arguments_by_name(document: Mapping[str, Any]) -> dict[str, Any]:
    actions = document["actions"]
    args = actions[0]["args"] if len(actions) == 1 else {action["key"]: action["args"] for action in actions}
    return args if isinstance(args, dict) else {"arguments": args}


def _short_facts(document: Mapping[str, Any]) -> dict[str, Any]:
    drawn = [(fact_of(fact), fact) for fact in document.get("facts") or []]
    return {made.label: fact["value"] for made, fact in drawn if not made.table and not made.lines}
