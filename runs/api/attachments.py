"""Files of runs: given, listed, fetched."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.http import FileResponse
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from runs import attached, operations, queries, uploads
from runs.api import documents
from runs.api.endpoint import Endpoint, actor_of, rendered
from runs.api.media import ENVELOPE
from runs.api.schema import ID_PARAMETER, described
from runs.engine.files import ANYTHING, IMAGES
from runs.errors import BadRequest, Problem, TooLarge, UnknownField

FORM: Final = {
    "type": "object",
    "required": ["file"],
    "additionalProperties": False,
    "properties": {
        "file": {"type": "string", "format": "binary", "description": "One file, with its name."},
        "type": {
            "type": "string",
            "description": "Its media type, instead of the one its part of the form says.",
        },
    },
}


class RunAttachments(Endpoint):
    read_scope = "runs:read"
    parser_classes = [MultiPartParser]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        # Before anybody reads the body, the check of the session's forms included.
        limit = settings.HITL_ATTACHMENT_BYTES
        if int(request.META.get("CONTENT_LENGTH") or 0) > limit + ENVELOPE:
            raise TooLarge(f"The file has more than {limit:,} bytes.", limit=limit)
        super().initial(request, *args, **kwargs)

    @described(
        operation_id="attach_file",
        summary="Give a file to a run",
        description="A form with one field `file`. Images (PNG, JPEG, GIF, WebP) are known by their bytes, whatever is said. "
        "What could not be seen in the name becomes `_`. The answer has the reference that arguments and signals may hold.",
        form=FORM,
        headers=[ID_PARAMETER],
        answers={201: documents.AttachmentDocument},
        errors=[
            "not_found",
            "already_terminal",
            "too_many_attachments",
            "attachment_not_stored",
            "busy",
            "missing_scope",
        ],
    )
    def post(self, request: Request, id: UUID) -> Response:
        file, told = _sent(request)
        made = operations.attach(
            actor=actor_of(request), run_id=id, name=file.name or "", body=file.read(), type=told
        )
        document = documents.attachment_document(made)
        return rendered(document, 201, Location=f"/api/v1/attachments/{made.pk}")

    @described(
        operation_id="list_attachments",
        summary="List the files of a run",
        description="The oldest first; 500 are the most that a run has. `hidden`: there are some, and something in the run is "
        "hidden from you, and with it all its files.",
        headers=[ID_PARAMETER],
        answers={200: documents.AttachmentPage},
        errors=["not_found", "missing_scope"],
    )
    def get(self, request: Request, id: UUID) -> Response:
        actor = actor_of(request)
        found = attached.of_run(actor, queries.run(actor.project.pk, id))
        items = [documents.attachment_document(row) for row in found.rows]
        return rendered({"items": items, "hidden": found.hidden})


class AttachmentContent(Endpoint):
    read_scope = "runs:read"

    @described(
        operation_id="get_attachment",
        summary="Fetch a file",
        description="The bytes as they were given. Only images have their type; all else is to be saved, and says nothing.",
        headers=[ID_PARAMETER],
        answers={},
        files=[ANYTHING, *IMAGES],
        errors=["not_found", "attachment_not_stored", "missing_scope"],
    )
    def get(self, request: Request, id: UUID) -> FileResponse:
        return attached.served(attached.one(actor_of(request), id))


def _sent(request: Request) -> tuple[Any, str | None]:
    """The only file of a form, and its type."""
    form: Any = request.data
    sent = uploads.files_of(request)
    odd = sorted({*form, *sent} - {"file", "type", "csrfmiddlewaretoken"})
    if odd:
        problems = [Problem(f"/{name}", "unknown_field", "known here: file, type") for name in odd]
        raise UnknownField(f"The form has a field {odd[0]!r:.100} that nothing here reads.", errors=problems)
    files = sent.getlist("file")
    if len(files) != 1:
        raise BadRequest(
            "Send one file, in the field `file`.", errors=[Problem("/file", "missing", "one file")]
        )
    return files[0], form.get("type") or files[0].content_type
