"""The head of the page of one run: what can be done to it, and its parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from django.urls import reverse
from django.utils.translation import gettext

from runs import policies
from runs.models import Run
from runs.policies import Actor
from runs.web import signs, versions


@dataclass(frozen=True, slots=True)
class ActionLink:
    """A verb of the run's head; `refusal` says why it is not offered now."""

    word: str
    icon: str
    url: str
    refusal: str = ""
    danger: bool = False


@dataclass(frozen=True, slots=True)
class Tab:
    """A part of the page of a run. count: how much is in it, None if that is not told."""

    name: str
    word: str
    url: str
    count: int | None = None
    current: bool = False


def tabs(run: Run, *, approvals: int, branches: int, others: int) -> list[Tab]:
    """The parts that this run has, the one that says where it stands first."""
    told = [
        ("", gettext("Overview"), "run", None),
        ("timeline", gettext("Timeline"), "run-timeline", None),
        ("checkpoints", gettext("Checkpoints"), "run-checkpoints", None),
        ("branches", gettext("Branches"), "run-branches", branches),
        ("approvals", gettext("Approvals"), "run-approvals", approvals),
        ("effects", gettext("Effects"), "run-effects", None),
        *([("others", gettext("Other runs"), "run-others", others)] if others else []),
        ("data", gettext("Input and output"), "run-data", None),
        ("log", gettext("Log"), "run-log", None),
        ("history", gettext("History"), "run-history", run.seq),
        ("evidence", gettext("Evidence"), "run-evidence", None),
    ]
    return [Tab(name, word, reverse(address, args=[run.pk]), count) for name, word, address, count in told]


def marked(found: Sequence[Tab], current: str) -> list[Tab]:
    return [replace(tab, current=tab.name == current) for tab in found]


def actions(actor: Actor, run: Run) -> list[ActionLink]:
    """Every verb that this run takes, with why it is not offered."""
    found = [
        *(["retry"] if run.status == "failed" else []),
        *(["migrate"] if _moves(run) else []),
        *([] if run.is_terminal or run.status == "cancelling" else ["resume" if run.paused else "pause"]),
        *("rewind", "fork", "edit-state"),
        *(["priority"] if run.is_in_line else []),
        "cancel",
    ]
    return [_action(verb, actor, run) for verb in found]


def _moves(run: Run) -> bool:
    """Whether it can be taken to another version now."""
    return versions.can_move(run) and run.status not in ("completed", "cancelled", "cancelling")


@dataclass(frozen=True, slots=True)
class Verb:
    """may: who does it. keeps: also possible once the content was erased."""

    says: str
    icon: str
    may: Callable[[Actor, Run], bool]
    address: str
    keeps: bool = False

    @property
    def word(self) -> str:
        return gettext(self.says)


VERBS: Final = {
    "retry": Verb("Retry", "s-retry", policies.can_retry, "run-retry"),
    "migrate": Verb("Migrate", "s-migration", policies.can_migrate, "run-migrate", keeps=True),
    "resume": Verb("Resume", "right", policies.can_pause, "run-resume", keeps=True),
    "pause": Verb("Pause", "s-paused", policies.can_pause, "run-pause", keeps=True),
    "rewind": Verb("Rewind", "rewind", policies.can_steer, "run-checkpoints"),
    "fork": Verb("Fork", "fork", policies.can_fork, "run-checkpoints", keeps=True),
    "edit-state": Verb("Edit state", "pencil", policies.can_steer, "run-edit-state"),
    "priority": Verb("Priority", "swap", policies.can_prioritise, "run-priority", keeps=True),
    "cancel": Verb("Cancel run", "stop", policies.can_cancel, "run-cancel", keeps=True),
}
EDITED_IN: Final = ("waiting", "queued", "paused", "failed")


def _action(name: str, actor: Actor, run: Run) -> ActionLink:
    verb = VERBS[name]
    refusal = ""
    if not verb.may(actor, run) or (run.erased_at and not verb.keeps):
        refusal = (
            gettext("Its content was erased") if run.erased_at else gettext("Your roles do not allow it")
        )
    elif (name == "edit-state" and run.status not in EDITED_IN) or (name == "cancel" and run.is_terminal):
        refusal = gettext("The run is {status}").format(status=signs.RUN[run.status].word.lower())
    return ActionLink(
        verb.word, verb.icon, reverse(verb.address, args=[run.pk]), refusal, danger=name == "cancel"
    )
