"""Answers that several endpoints give."""

from __future__ import annotations

from uuid import UUID

from rest_framework.response import Response

from runs import queries
from runs.api import documents
from runs.api.endpoint import etag, rendered
from runs.models import Run
from runs.operations import Forked, Submitted
from runs.policies import Actor


def run(actor: Actor, row: Run, status: int = 200, **headers: str) -> Response:
    """A run, whole; `headers` with underscores for dashes."""
    document = documents.run_document(row, actor=actor)
    return rendered(document, status, ETag=etag(row), Hitl_Run_Status=row.status, **headers)


def started(actor: Actor, made: Submitted | Forked) -> Response:
    """A run that this request has begun, or an earlier one with the same key."""
    place = {"Location": f"/api/v1/runs/{made.run.pk}"}
    if made.replayed:
        return run(actor, made.run, 200, Idempotent_Replayed="true", **place)
    return run(actor, made.run, 201, **place)


def approval(actor: Actor, approval_id: UUID) -> Response:
    """An approval as it is now."""
    found = queries.approval(actor.project.pk, approval_id)
    return rendered(documents.approval_document(found, actor=actor), ETag=f'"{found.version}"')
