"""Files of a run as its readers get them.

What is in a file no schema describes, so it is kept whole: who may not see everything of a run sees none of its files, neither
how they are called nor what they hold. That is also so where only the arguments of an approval hide something.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.http import FileResponse

from runs import sights, store
from runs.engine.files import ANYTHING
from runs.errors import Forbidden, NotFound
from runs.models import Approval, Attachment, Run
from runs.policies import Actor

MARKED = '"visible_to"'  # in the documents of approvals whose schemas mark something
POLICY = "sandbox; default-src 'none'; frame-ancestors 'none'"


@dataclass(frozen=True, slots=True)
class Files:
    """Those of a run, the oldest first. hidden: whether there are some that the reader may not see."""

    rows: list[Attachment]
    hidden: bool = False

    def __bool__(self) -> bool:
        return bool(self.rows) or self.hidden


def of_run(actor: Actor, run: Run) -> Files:
    """One query, or two for a run that has files; those of a version of a workflow that is not here beside."""
    rows = list(Attachment.objects.filter(run=run).select_related("content").order_by("created_at", "id"))
    return Files(rows) if not rows or _sees_all(actor, run) else Files([], hidden=True)


def one(actor: Actor, attachment_id: UUID) -> Attachment:
    """Raises `NotFound`, and `Forbidden` to who may not see everything of its run."""
    rows = Attachment.objects.select_related("content", "run")
    found = rows.filter(pk=attachment_id, run__project=actor.project).first()
    if found is None:
        raise NotFound()
    if not _sees_all(actor, found.run):
        raise Forbidden("Something in this run is hidden from you, and with it all files of the run.")
    return found


def _sees_all(actor: Actor, run: Run) -> bool:
    sight = sights.of(actor, run)
    if sight.narrow:
        return False
    marked = Approval.objects.filter(run=run, document__contains=MARKED)
    return not any(sight.hides_in(asked.content) for asked in marked)


def served(attachment: Attachment) -> FileResponse:
    """The file. Images are drawn; whatever else it claims to be, a browser only saves it. Raises `AttachmentNotStored`."""
    is_image = attachment.is_image
    return FileResponse(
        store.open_content(attachment.content),
        as_attachment=not is_image,
        filename=attachment.name,
        content_type=attachment.type if is_image else ANYTHING,
        headers={
            "Content-Security-Policy": POLICY,
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
        },
    )
