"""Files of runs: their bytes in Django's storage "attachments", and the rows that say whose they are.

A file is written before anything refers to it, under a name that nobody had before; nothing is ever written over. What a crash or
a refusal leaves behind has a row by which it is found and cleared.
"""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any, Final

from django.core.files.base import ContentFile
from django.core.files.storage import storages
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now

from runs.engine.files import MOST, File
from runs.errors import AttachmentNotStored, Told, TooManyAttachments
from runs.models import Attachment, Content

STORAGE: Final = "attachments"
GRACE: Final = timedelta(hours=1)  # in which whoever has kept a content comes to refer to it


def keep_content(project_id: uuid.UUID, file: File) -> Content:
    """Store the bytes of a file, outside any transaction, if the project does not have them. Raises `AttachmentNotStored`."""
    known = _known(project_id, file.digest)
    if known is not None:
        return known
    content = Content.objects.create(project_id=project_id, digest=file.digest, size=file.size)
    try:
        storages[STORAGE].save(content.path, ContentFile(file.body))
    except Exception as error:  # each storage has errors of its own
        raise AttachmentNotStored(
            Told("The storage did not take the file: {name}.", name=type(error).__name__)
        ) from error
    try:
        with transaction.atomic():
            Content.objects.filter(pk=content.pk).update(stored=True, touched_at=Now())
    except IntegrityError:  # somebody else stored the same meanwhile; ours is cleared
        return keep_content(project_id, file)
    return content


def _known(project_id: uuid.UUID, digest: str) -> Content | None:
    """Touched, so that it stays until somebody refers to it; waits for whoever is just clearing it, and then it is gone."""
    rows = Content.objects.filter(project=project_id, digest=digest, stored=True)
    return rows.first() if rows.update(touched_at=Now()) else None


def add_attachment(
    run_id: uuid.UUID,
    attachment_id: uuid.UUID | str,
    file: File,
    *,
    content: Content,
    node: str = "",
    author: dict[str, Any] | None = None,
) -> None:
    """Say that a file is a run's, in the caller's transaction. Again changes nothing. Raises `TooManyAttachments`."""
    if Attachment.objects.filter(run=run_id).exclude(pk=attachment_id).count() >= MOST:
        raise TooManyAttachments(
            Told("The run has {most} attachments, and a run has no more.", most=MOST), limit=MOST
        )
    row = Attachment(
        id=attachment_id,
        run_id=run_id,
        content=content,
        name=file.name,
        type=file.type,
        node=node,
        author=author,
    )
    Attachment.objects.bulk_create([row], ignore_conflicts=True)


def open_content(content: Content) -> Any:
    """The file, to be read in pieces and closed. Raises `AttachmentNotStored` where the storage does not give it."""
    try:
        opened = storages[STORAGE].open(content.path)
        # A bucket is asked for the bytes now, while there still is an answer to put the failure in.
        opened.seek(0)
    except Exception as error:  # each storage has errors of its own
        raise AttachmentNotStored(
            Told("The storage does not give the file: {name}.", name=type(error).__name__)
        ) from error
    return opened


def unused_contents() -> QuerySet[Content]:
    """What nobody refers to, and nobody is about to."""
    used = Attachment.objects.filter(content=OuterRef("pk"))
    return Content.objects.filter(~Exists(used), touched_at__lt=Now() - GRACE)


def clear_content() -> bool:
    """Delete one file that nobody refers to, and its row; whether there was one.

    The storage is asked under the row's lock: whoever would refer to the same bytes waits, and stores them anew.
    """
    with transaction.atomic(durable=True):
        found = unused_contents().select_for_update(skip_locked=True, of=("self",)).first()
        if found is None:
            return False
        storages[STORAGE].delete(found.path)
        found.delete()
    return True
