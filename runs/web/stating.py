"""A state as a form shows it and as it comes back: which lane's, which keys were changed, by whom they may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from runs import policies, queries, sights, workflows
from runs.engine import Workflow, canonical
from runs.engine import position as at
from runs.errors import HitlError, InvalidJson, Problem, UnknownLane, Unprocessable
from runs.models import Run
from runs.templatetags import words
from runs.web import run_page
from runs.web.door import Request


def chosen_lane(request: Request) -> str:
    """The lane whose state is edited, as the form or the address says; nothing where there is only one."""
    return request.POST.get("lane") or request.GET.get("lane", "")


def known_lane(position: dict[str, Any], lane: str) -> str:
    """The lane, or nothing if it is gone: then the page asks again which one."""
    return lane if lane in at.lane_names(position) else ""


def state_of(request: Request, run: Run, position: dict[str, Any], lane: str) -> dict[str, Any]:
    """The state as a lane sees it, or that of all lanes together, without what is hidden from the reader.

    Raises `UnknownLane` for one that is gone.
    """
    sight = sights.of(request.actor, run)
    if not lane:
        return dict(sight.of_state(at.state(position)))
    if lane not in at.lane_names(position):
        raise UnknownLane(lane=lane)
    workflow = workflows.find(run.workflow, run.workflow_version)
    schema = at.workflow_of(workflow, position, lane).schema.json_schema if workflow else sight.state
    return dict(replace(sight, state=schema).of_state(at.lane_view(position, lane).state))


def changes_of(text: str | None, state: Mapping[str, Any]) -> dict[str, Any]:
    """The keys whose values differ in the text of an edited state. Raises with pointers; a key cannot be taken away."""
    if text is None:
        return {}
    wanted = canonical.parse(text, limit=canonical.STATE_LIMIT)
    if not isinstance(wanted, dict):
        raise InvalidJson(
            "The state is a JSON object.", errors=[Problem("", "object_type", "must be an object")]
        )
    gone = [
        Problem(f"/{canonical.escape(key)}", "missing_key", "is missing; use null for no value")
        for key in state
        if key not in wanted
    ]
    if gone:
        raise Unprocessable("A key of the state is missing.", errors=gone)
    return {
        key: value
        for key, value in wanted.items()
        if key not in state or not canonical.same(value, state[key])
    }


def form_of(
    request: Request, run: Run, moment: queries.Moment, *, address: str, error: HitlError | None
) -> dict[str, Any]:
    """What a form shows that goes on from a checkpoint, with the state to edit first. address: the form's own."""
    position, no = moment.position, moment.checkpoint.no
    row = run_page.checkpoint_row(moment.checkpoint, run=run, line={}, may_steer=True)
    lane, typed = known_lane(position, chosen_lane(request)), request.POST.get("state")
    proposed = canonical.dumps(state_of(request, run, position, lane), indent=2)
    return {
        "run": run,
        "checkpoint": no,
        "after": row.node if moment.checkpoint.kind != "input" else "",
        "state": proposed if typed is None else typed,
        "state_errors": state_errors(error),
        "state_open": bool(lane) or (typed is not None and typed.replace("\r\n", "\n") != proposed),
        "editors": editors(request, workflows.find(run.workflow, run.workflow_version), position, lane),
        "lanes": run_page.lane_rows(position, url=address, chosen=lane),
        "lane": lane,
        "reason": request.POST.get("reason", ""),
    }


def state_errors(error: HitlError | None) -> list[Problem]:
    return list(error.errors) if error else []


@dataclass(frozen=True, slots=True)
class Editors:
    """Which fields of a state its reader may replace, in words; nothing if all of them."""

    mine: str
    others: str


def editors(
    request: Request, workflow: Workflow | None, position: dict[str, Any], lane: str
) -> Editors | None:
    if workflow is None:
        return None
    schema = at.workflow_of(workflow, position, lane or at.ROOT_LANE).schema
    mine = policies.may_edit(request.actor, schema)
    others = [name for name in schema.editors if name not in mine]
    return Editors(words.listing(mine), words.listing(others)) if others else None
