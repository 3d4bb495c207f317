"""Files that people and programs from outside give to a run. What a node attaches is journalled (`runs.driver`)."""

from __future__ import annotations

import uuid

from django.conf import settings

from runs import policies, store
from runs.engine.canonical import Json
from runs.engine.files import File
from runs.engine.transition import Event, Transition
from runs.errors import AlreadyTerminal, Busy, Told, TooLarge
from runs.models import Attachment, Content, Run
from runs.operations.door import as_uuid, commit, locked_run, verb
from runs.policies import Actor


def attach(
    *, actor: Actor, run_id: uuid.UUID | str, name: str, body: bytes, type: str | None = None
) -> Attachment:
    """Give a file to a run that has not ended.

    name: a label; what could not be seen in it becomes `_`. type: a media type, which images have by their bytes. Raises
    `TooLarge`, `AlreadyTerminal`, `TooManyAttachments`, `AttachmentNotStored`.
    """
    if len(body) > settings.HITL_ATTACHMENT_BYTES:
        limit = settings.HITL_ATTACHMENT_BYTES
        raise TooLarge(Told("The file has more than {limit:,} bytes.", limit=limit), limit=limit)
    file = File.of(name, body, type)
    content = _kept(actor, run_id, file)
    with verb(actor, "attach", run_id):
        run = locked_run(run_id)
        _check(actor, run)
        if content is None:  # it would have been refused a moment ago
            raise Busy()
        attachment_id = uuid.uuid4()
        store.add_attachment(run.pk, attachment_id, file, content=content, author=actor.as_dict())
        told: dict[str, Json] = file.reference(str(attachment_id))
        commit(run, Transition(events=[Event("file_attached", told)]), actor=actor.as_dict())
    return Attachment.objects.select_related("content", "run").get(pk=attachment_id)


def _kept(actor: Actor, run_id: uuid.UUID | str, file: File) -> Content | None:
    """The bytes, stored before there is a transaction; nothing is of what will be refused."""
    run = Run.objects.filter(pk=as_uuid(run_id)).first()
    if run is None or not policies.can(_check, actor, run):
        return None
    return store.keep_content(run.project_id, file)


def _check(actor: Actor, run: Run) -> None:
    policies.check_attach(actor, run)
    if run.is_terminal:
        raise AlreadyTerminal(
            Told("The run is {status}; it takes no files.", status=run.status), status=run.status
        )
