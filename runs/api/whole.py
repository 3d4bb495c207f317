"""One run as a file: all that is kept of it, as its reader may see it, piece by piece as it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Final, Literal, TypeVar
from uuid import UUID

from django.http import StreamingHttpResponse
from pydantic import Field
from rest_framework.request import Request
from typing_extensions import TypedDict

from runs import attached, policies, queries, sights, store
from runs.api import documents, parameters, previews
from runs.api.documents import CheckpointSummary
from runs.api.endpoint import Endpoint, actor_of
from runs.api.schema import ID_PARAMETER, described
from runs.api.shapes import Object, Time, exact, time_text
from runs.engine import canonical
from runs.engine.redaction import Sight
from runs.errors import HitlError
from runs.models import Run
from runs.policies import Actor
from runs.queries import Page
from runs.templatetags import words

FORMAT: Final = 1
AT_A_TIME: Final = 200  # rows that are held at once
Row = TypeVar("Row")
Texts = Iterator[str]


@exact
class CheckpointInFile(CheckpointSummary):
    """A checkpoint with the state at it."""

    state: Annotated[Object | None, Field(description="Null if it was left out.")]
    fault: Annotated[str, Field(description="Why there is no state: erased, compacted, unreadable.")]


@exact
class RunFile(TypedDict):
    """Everything about a run. `hidden` of files: there are some that you may not see."""

    format: Annotated[Literal[1], Field(description="Of this document; another number reads otherwise.")]
    exported_at: Time
    run: documents.RunDocument
    branches: list[previews.BranchDocument]
    approvals: Annotated[
        list[documents.ApprovalDocument], Field(description="With every vote and decision, the newest first.")
    ]
    signals: list[documents.SignalDocument]
    attachments: documents.AttachmentPage
    steps: Annotated[
        list[documents.StepDocument],
        Field(description="With calls, effects and usage, in the order they began."),
    ]
    checkpoints: list[CheckpointInFile]
    history: Annotated[list[documents.EventDocument], Field(description="Every event, hash-chained.")]


class RunWhole(Endpoint):
    read_scope = "runs:read"

    @described(
        operation_id="export_run",
        summary="Export a run: steps, calls, states, decisions, history, as one file",
        description="As you may see it: what is hidden from your roles is left out as everywhere. Also takes the scope "
        "`approvals:read`. Sent as it is read; the states at all checkpoints are most of it, `states=none` leaves them out.",
        query=parameters.RunWhole,
        headers=[ID_PARAMETER],
        answers={200: RunFile},
        errors=["missing_scope", "not_found"],
    )
    def get(self, request: Request, id: UUID, wanted: parameters.RunWhole) -> StreamingHttpResponse:
        actor = actor_of(request)
        policies.check_scope(actor, "approvals:read")
        run = queries.run(actor.project.pk, id)
        return StreamingHttpResponse(
            _written(actor, run, states=wanted.states == "all"),
            content_type="application/json",
            headers={
                "Content-Disposition": f'attachment; filename="{words.short_id(run.pk, "R-")}.json"',
                "X-Content-Type-Options": "nosniff",
            },
        )


def _written(actor: Actor, run: Run, *, states: bool) -> Texts:
    """The members in the order of the schema; of long ones only some rows are held at a time."""
    sight = sights.of(actor, run)
    taken = queries.taken_signals(run)
    members: dict[str, Any] = {
        "format": FORMAT,
        "exported_at": time_text(store.now()),
        "run": documents.run_document(queries.run(actor.project.pk, run.pk), actor=actor),
        "branches": previews.branch_list(run)["items"],
        "approvals": (documents.approval_document(one, actor=actor) for one in queries.approvals_of(run.pk)),
        "signals": (
            documents.signal_document(one, taken=taken, sight=sight)
            for one in _every(
                lambda last: queries.signals(run.pk, after=last.no if last else 0, limit=AT_A_TIME)
            )
        ),
        "attachments": _files(actor, run),
        "steps": _steps(run, sight),
        "checkpoints": _checkpoints(run, sight, states=states),
        "history": (
            documents.event_document(one, sight=sight)
            for one in _every(
                lambda last: queries.events(run.pk, after=last.seq if last else 0, limit=AT_A_TIME)
            )
        ),
    }
    for place, (name, value) in enumerate(members.items()):
        yield f"{',' if place else '{'}\n{canonical.dumps(name)}: "
        yield from _list(value) if isinstance(value, Iterator) else [canonical.dumps(value)]
    yield "\n}\n"


def _list(rows: Iterable[Any]) -> Texts:
    yield "["
    for place, row in enumerate(rows):
        yield f"{',' if place else ''}\n{canonical.dumps(row)}"
    yield "\n]"


def _every(page: Callable[[Row | None], Page[Row]]) -> Iterator[Row]:
    """All rows of a list. page(last) reads those after a row; None: from the first one."""
    last: Row | None = None
    while True:
        found = page(last)
        yield from found.rows
        if not found.more:
            return
        last = found.rows[-1]


def _files(actor: Actor, run: Run) -> documents.AttachmentPage:
    found = attached.of_run(actor, run)
    return {"items": [documents.attachment_document(row) for row in found.rows], "hidden": found.hidden}


def _steps(run: Run, sight: Sight) -> Iterator[documents.StepDocument]:
    after, more = None, True
    while more:
        page = queries.visits(run.pk, branch=None, after=after, limit=AT_A_TIME)
        spent = queries.spent_in(run.pk, [step.address for step in page.rows])
        visits = queries.calls_of(page.rows)
        undone = queries.undone_in(run.pk, [call for visit in visits for call in visit.calls])
        for visit in visits:
            yield documents.step_document(visit, spent, undone, sight=sight)
        more = page.more
        if more:
            after = (page.rows[-1].created_at, page.rows[-1].branch, page.rows[-1].address)


def _checkpoints(run: Run, sight: Sight, *, states: bool) -> Iterator[CheckpointInFile]:
    heads = _every(
        lambda last: queries.checkpoints(run.pk, branch=None, after=last.no if last else -1, limit=AT_A_TIME)
    )
    for head in heads:
        state, fault = _state(run, head.no, sight) if states else (None, "")
        yield {**documents.checkpoint_summary(head), "state": state, "fault": fault}


def _state(run: Run, no: int, sight: Sight) -> tuple[dict[str, Any] | None, str]:
    """A state that cannot be read does not keep anybody from the rest."""
    try:
        return sight.of_state(queries.checkpoint(run, no).state), ""
    except HitlError as error:
        return None, sight.text(error.detail)
