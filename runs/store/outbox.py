"""Messages to the world, written in the transaction of what they tell of. One statement an event that is told."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, Final

from django.conf import settings
from django.db.models import QuerySet

from runs import workflows
from runs.engine import canonical, telling
from runs.engine.canonical import Json
from runs.engine.redaction import marks
from runs.engine.telling import TOPICS, Telling
from runs.models import Approval, Event, Run
from runs.models.delivery import MAILED
from runs.store.kept import Given, Part, answers, instances
from runs.store.prepared import leave

_FACTS: Final = Part(
    Approval,
    only=(
        "id",
        "node",
        "title",
        "document",
        "version",
        "digest",
        "risk",
        "quorum",
        "teams",
        "users",
        "due_at",
    ),
)


def tell(run: Run, events: Sequence[Event], *, actor: Json = None, noticed: bool = True) -> None:
    """Put what these events of a locked run say into the outbox, in the caller's transaction.

    Endpoints, people and preferences are those of this moment. Nothing is written if nobody wants to hear it. noticed: whether
    somebody has a notice of the run that they did not read yet.
    """
    said = False
    for event in events:
        if event.kind in telling.TELLINGS:
            payload = canonical.loads(event.payload) if event.payload else {}
            _tell(run, event, telling.telling_of(event.kind, payload), payload, actor)
            said = True
    if noticed and not said and any(event.kind in telling.CLOSING for event in events):
        leave("settle_notices", {"run": run.pk})


def _tell(run: Run, event: Event, how: Telling, payload: dict[str, Json], actor: Json) -> None:
    asked = _approval(payload)
    title = telling.headline(how.type, title=_title(run, asked) if asked else "", workflow=run.workflow)
    inside = run.parent_id is not None and how.topic == telling.ENDED
    own = telling.ENDED if how.audience == telling.OPERATORS else how.topic
    told = {
        "id": uuid.uuid4(),
        "project": run.project_id,
        "run": run.pk,
        "approval": asked.pk if asked else None,
        "seq": event.seq,
        "type": how.type,
        "title": title,
        "body": canonical.dumps(body_of(run, event, how, payload, asked)),
        "moment": event.at,
        "audience": telling.NOBODY if inside else how.audience,
        "topic": how.topic,
        "own_topic": own,
        "requester": run.requester_id,
        "actor": actor.get("id") if isinstance(actor, dict) else None,
        "app": list(TOPICS),
        "mail": list(MAILED),
        "by_mail": bool(settings.HITL_MAIL),
    }
    leave("tell", told)


def _approval(payload: dict[str, Json]) -> Approval | None:
    named = payload.get("approval")
    if not named:
        return None
    [row] = answers("told approval", _told, approval=named)
    found: Approval = instances(row, _FACTS)[0]
    return found


def _told() -> QuerySet[Approval, Any]:
    return Approval.objects.filter(pk=Given("approval")).values_list(*_FACTS.names)


def _title(run: Run, asked: Approval) -> str:
    """What is asked, in the workflow's words; they may quote what some must not see, and a message goes to many."""
    workflow = workflows.find(run.workflow, run.workflow_version)
    schemas: list[Json] = [None if workflow is None else workflow.shape, asked.content["actions"]]
    if workflow is None or next(marks(schemas), None) is not None:
        return f"{asked.node} of {run.workflow}"
    return asked.title


def body_of(
    run: Run, event: Event, how: Telling, payload: dict[str, Json], asked: Approval | None
) -> dict[str, Json]:
    """What is sent, in the form of Standard Webhooks: type, timestamp and data."""
    data: dict[str, Any] = {
        "project": str(run.project_id),
        "seq": event.seq,
        "run": {
            "id": str(run.pk),
            "workflow": run.workflow,
            "version": run.workflow_version,
            "status": run.status,
            "labels": run.labels,
            "url": address("runs", run.pk),
        },
    }
    if asked is not None:
        data["approval"] = {
            "id": str(asked.pk),
            "node": asked.node,
            "title": _title(run, asked),
            "version": asked.version,
            "digest": asked.digest,
            "risk": asked.risk,
            "quorum": asked.quorum,
            "candidates": {"teams": asked.teams, "users": asked.users},
            "due_at": asked.due_at.isoformat() if asked.due_at else None,
            "url": address("inbox", asked.pk),
        }
    if how.topic == telling.DECIDED:
        data["decision"] = telling.decision_told(payload)
    if how.topic == telling.FAILED:
        data["error"] = telling.error_told(event.kind, payload)
    return {"type": how.type, "timestamp": event.at.isoformat(), "data": data}


def address(place: str, identity: uuid.UUID) -> str:
    """Where somebody outside finds a page of ours."""
    return f"{settings.HITL_BASE_URL}/{place}/{identity}/"
