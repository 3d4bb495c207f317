"""What of a position a fork may keep.

Theory. A fork is another run: what people allowed in its origin they have not allowed here, and what was sent to the origin
was not sent to it. So decisions stay readable in the document and are void: a node that asks for one sends its lane back to
the approval. A lane that stands directly behind an approval goes back at once, since its node may act on nothing but the
edge it came by. Signals that were taken are forgotten; the fork has a mailbox of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from runs.engine import position as at
from runs.engine.lanes import Lanes
from runs.engine.patch import Recorder
from runs.engine.position import LIVE, Document
from runs.engine.workflow import Workflow

FORKED: Final = "forked"


def detach(workflow: Workflow, position: Document, asked: Mapping[str, str]) -> list[str]:
    """Make a position the first of a fork, in place; returns the approvals that lanes went back to.

    asked: the address of the step that asked, by approval id, for every decision that the position holds.
    """
    position.pop("taken", None)
    recorder = Recorder(position)
    again = []
    for lane in _every(position):
        _void(position, lane)
    for lane in at.lane_names(position):
        if lane not in _every(position):
            continue  # it was inside of one that went back
        behind = _behind(position, lane, asked)
        if behind is not None:
            node, visible = behind
            Lanes(workflow, recorder, lane).go_back(lane.rpartition("/")[2], node)
            again.append(visible)
    return again


def decisions(position: Document) -> list[str]:
    """The approvals whose decisions a position holds, by id."""
    found = [answer for lane in _every(position) for answer in at.answers(position, lane).values()]
    return [str(answer["approval"]) for answer in found if isinstance(answer, dict) and "approval" in answer]


def _void(position: Document, lane: str) -> None:
    here = at.lane_at(position, lane)
    here["answers"] = {
        node: answer if answer.get("outcome") == "edit" else {**answer, "void": FORKED}
        for node, answer in here["answers"].items()
    }


def _behind(position: Document, lane: str, asked: Mapping[str, str]) -> tuple[str, str] | None:
    """The approval that a lane's present step follows directly, in its own workflow and as it is shown."""
    here, outer = at.lane_at(position, lane), at.outer_step(position, lane)
    if here.get("status", LIVE) != LIVE:
        return None
    prefix = f"{outer.node}/" if outer else ""
    for node, answer in here["answers"].items():
        address = asked.get(str(answer.get("approval")))
        named = here.get("made_as", prefix + here["node"])
        if address and here["step"] == at.address_of(named, [address]):
            return node, prefix + node
    return None


def _every(position: Document) -> list[str]:
    """Every lane, also those that have ended."""
    return [str(lane["lane"]) for lane in at.lanes(position)]
