"""A file of a run, at an address of its own: a browser draws it as an image, or saves it, and runs nothing of it."""

from __future__ import annotations

from uuid import UUID

from django.http import FileResponse

from runs import attached
from runs.web.door import Request, page


@page()
def show(request: Request, attachment_id: UUID) -> FileResponse:
    return attached.served(attached.one(request.actor, attachment_id))
