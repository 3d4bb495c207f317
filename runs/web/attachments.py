"""Files of a run: given on its page, and each at an address of its own, where a browser draws it as an image, or saves it, and
runs nothing of it.
"""

from __future__ import annotations

from uuid import UUID

from django.http import FileResponse
from django.urls import reverse
from django.utils.translation import gettext

from runs import attached, operations, uploads
from runs.errors import Problem, Unprocessable
from runs.web import run_parts
from runs.web.door import Request, page
from runs.web.sheet import Done, forms


@page()
def show(request: Request, attachment_id: UUID) -> FileResponse:
    return attached.served(attached.one(request.actor, attachment_id))


@forms(run_parts.data_page)
def attach(request: Request, run_id: UUID) -> Done:
    file = uploads.files_of(request).get("file")
    if file is None:
        raise Unprocessable(
            "Choose a file first.", errors=[Problem("/file", "missing", "Choose a file first.")]
        )
    made = operations.attach(
        actor=request.actor,
        run_id=run_id,
        name=file.name or "",
        body=file.read(),
        type=file.content_type,
    )
    told = gettext("{name} is a file of this run.").format(name=made.name)
    return Done(told, reverse("run-data", args=[run_id]) + "#attachments")
