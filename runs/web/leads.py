"""Where each answer leads, read from the workflow's graph. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
        text = "goes through it again, then people are asked anew; an edit is no vote"
        return Lead("edit", f"Through {recheck} again, no vote", (recheck,), text)
    return Lead(
        "edit", f"Version {version + 1}, new votes", (), "a new version with new votes; yours counts for it"
    )


def _approve(nodes: tuple[str, ...] | None, *, have: int, quorum: int) -> Lead:
    if have + 1 < quorum:
        missing = words.some(quorum - have - 1, "more vote")
        return Lead(
            "approve", f"{have + 1} of {quorum}: waits for {missing}", (), f"your vote counts; then {missing}"
        )
    brief = f"{have + 1} of {quorum}: runs at once" if quorum > 1 else "Runs at once"
    return Lead("approve", brief, nodes or (), "runs at once" if nodes else "the run goes on at once")


def _reject(nodes: tuple[str, ...] | None, *, reason_required: bool) -> Lead:
    reason = "with your reason" if reason_required else "with your reason, if you give one"
    if nodes == ():
        return Lead("reject", "The run ends as failed", (), f"the run ends as failed, {reason}")
    return Lead("reject", f"On to {nodes[0]}" if nodes else "Runs nothing of this", nodes or (), reason)


def _respond(nodes: tuple[str, ...] | None) -> Lead:
    return Lead("respond", "Answer, run nothing", nodes or (), "with your answer; nothing of this is run")
