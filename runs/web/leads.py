"""Where each answer leads, read from the workflow's graph. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext

from runs.engine.workflow import END, Workflow
from runs.templatetags import words

LONGEST = 4


@dataclass(frozen=True, slots=True)
class Lead:
    """`brief` stands on the button, `nodes` and `text` in the list beside the card."""

    answer: str
    brief: str
    nodes: tuple[str, ...]
    text: str


def leads(
    workflow: Workflow | None,
    node: str,
    *,
    offered: Sequence[str],
    version: int,
    have: int,
    quorum: int,
    reason_required: bool,
    recheck: str = "",
) -> list[Lead]:
    """One lead for each answer that is offered, in the order of the buttons."""
    made = {
        "approve": _approve(path(workflow, node, "approve"), have=have, quorum=quorum),
        "edit": _edit(version, recheck),
        "reject": _reject(path(workflow, node, "reject"), reason_required=reason_required),
        "respond": _respond(path(workflow, node, "respond")),
    }
    return [made[answer] for answer in ("approve", "edit", "reject", "respond") if answer in offered]


def path(workflow: Workflow | None, node: str, outcome: str) -> tuple[str, ...] | None:
    """The nodes that follow an outcome for as long as there is one way only; None if nothing is known: of a question in the
    middle of code only the code knows."""
    if workflow is None or node not in workflow.nodes or workflow.nodes[node].approval is None:
        return None
    way = workflow.way(node)
    targets = {"approve": way.plain, **way.outcomes}
    target = targets.get(outcome) or (way.plain if outcome == "respond" else None)
    if way.router or target is None:
        return None if way.router else ()
    found: list[str] = []
    while target and target != END and target not in found and len(found) < LONGEST:
        found.append(target)
        target = workflow.way(target).plain
    return tuple(found)


def _edit(version: int, recheck: str) -> Lead:
    if recheck:
        text = gettext("goes through it again, then people are asked anew; an edit is no vote")
        return Lead(
            "edit", gettext("Through {recheck} again, no vote").format(recheck=recheck), (recheck,), text
        )
    return Lead(
        "edit",
        gettext("Version {version}, new votes").format(version=version + 1),
        (),
        gettext("a new version with new votes; yours counts for it"),
    )


def _approve(nodes: tuple[str, ...] | None, *, have: int, quorum: int) -> Lead:
    if have + 1 < quorum:
        missing = words.some(quorum - have - 1, "{count} more vote", "{count} more votes")
        return Lead(
            "approve",
            gettext("{have} of {quorum}: waits for {missing}").format(
                have=have + 1, quorum=quorum, missing=missing
            ),
            (),
            gettext("your vote counts; then {missing}").format(missing=missing),
        )
    brief = (
        gettext("{have} of {quorum}: runs at once").format(have=have + 1, quorum=quorum)
        if quorum > 1
        else gettext("Runs at once")
    )
    return Lead(
        "approve",
        brief,
        nodes or (),
        gettext("runs at once") if nodes else gettext("the run goes on at once"),
    )


def _reject(nodes: tuple[str, ...] | None, *, reason_required: bool) -> Lead:
    reason = gettext("with your reason") if reason_required else gettext("with your reason, if you give one")
    if nodes == ():
        return Lead(
            "reject",
            gettext("The run ends as failed"),
            (),
            gettext("the run ends as failed, {reason}").format(reason=reason),
        )
    return Lead(
        "reject",
        gettext("On to {nodes}").format(nodes=nodes[0]) if nodes else gettext("Runs nothing of this"),
        nodes or (),
        reason,
    )


def _respond(nodes: tuple[str, ...] | None) -> Lead:
    return Lead(
        "respond",
        gettext("Answer, run nothing"),
        nodes or (),
        gettext("with your answer; nothing of this is run"),
    )
