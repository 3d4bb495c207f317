"""The journal of one step, as the driver sees it."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import psycopg
from django.conf import settings

from runs import dispatch, store
from runs.driver import Call, Entry, LogLine, Used
from runs.engine.canonical import Json
from runs.engine.files import File
from runs.errors import LateResult
from runs.models import Branch
from runs.operations.process import Worker
from runs.store import Held

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class StepPort:
    """Of a step that a worker has in hand, on its run's branch."""

    held: Held
    branch: Branch
    worker: Worker
    project_id: uuid.UUID
    ordinal: int = 0

    def entries(self) -> list[Entry]:
        held, branch = self.held, self.branch
        if held.is_fresh and branch.no == 1:
            return []  # nobody has been here, and there is no other branch to reuse from
        return store.persistently(partial(store.journal, held.run_id, branch, held.step.address))

    def before_call(self) -> None:
        # An effect of a step that somebody else has by now would happen twice. Looked up only where there is doubt.
        if not self.worker.is_sure_of(self.held.token):
            store.persistently(partial(store.check_held, self.held))

    def commit_call(self, call: Call) -> None:
        self._commit(call)

    def commit_time(self, call: Call) -> str:
        return self._commit(replace(call, result=""))

    def _commit(self, call: Call) -> str:
        try:
            result = store.commit_call(self.held, call, ordinal=self.ordinal)
        except LateResult:
            # It was made, and the run is over or somewhere else by now: whoever undoes things still has to know.
            if call.undo:
                store.note_late_result(
                    self.held, "call result", call=call.name, undo=call.undo, result=call.result
                )
            raise
        self.ordinal += 1
        return result

    def commit_file(self, call: Call, file: File) -> None:
        content = store.persistently(partial(store.keep_content, self.project_id, file))
        store.commit_file(self.held, call, file, content=content, ordinal=self.ordinal)
        self.ordinal += 1

    def file_limit(self) -> int:
        limit: int = settings.HITL_ATTACHMENT_BYTES
        return limit

    def note_usage(self, call: str, occurrence: str, used: Sequence[Used]) -> None:
        store.note_usage(self.held, call, occurrence, used)

    def note_log(self, line: LogLine) -> None:
        store.note_log(self.held, line)

    def note_progress(self, progress: Json) -> None:
        store.note_progress(self.held, progress)
        dispatch.announce_step(self.project_id, self.held.run_id)

    def note_overdue(self, facts: Json) -> None:
        try:
            store.note_overdue(self.held, facts)
        except (psycopg.Error, OSError) as error:  # then it will look like a crash
            logger.warning("could not write down that a step is out of time: %s", error)

    def disconnect(self) -> None:
        store.disconnect()

    def approved_digest(self, approval_id: str) -> str:
        return store.persistently(partial(store.approved_digest, approval_id))
