"""What is done to runs: time travel, retries, control, versions, keeping. Parse, one operation, render."""

from __future__ import annotations

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from runs import operations, queries, sights
from runs.api import answers, bodies, documents, parameters, previews
from runs.api.endpoint import Endpoint, actor_of, rendered
from runs.api.schema import (
    CONTROLLING,
    FORKING,
    ID_PARAMETER,
    IDEMPOTENCY_KEY,
    IF_MATCH,
    KEEPING,
    MIGRATING,
    OF_SUBMISSION,
    STEERING,
    answering_run,
    described,
)
from runs.engine.redaction import Sight
from runs.operations import Order
from runs.runlists import RunFilter


class RewindPreview(Endpoint):
    reads = frozenset({"POST"})

    @described(
        operation_id="preview_rewind",
        summary="Look at what a rewind would do",
        body=bodies.PreviewBody,
        headers=[ID_PARAMETER],
        answers={200: previews.PreviewDocument},
        errors=[*STEERING, "unknown_call"],
    )
    def post(self, request: Request, id: UUID, body: bodies.PreviewBody) -> Response:
        preview = operations.preview_rewind(
            actor=actor_of(request),
            run_id=id,
            checkpoint=body.checkpoint,
            calls=body.calls,
            exceptions=[call.place for call in body.exceptions],
        )
        return rendered(previews.preview_document(preview, sight=_sight(request, id)))


class Rewind(Endpoint):
    document = "state"

    @answering_run(
        status=202,
        operation_id="rewind_run",
        summary="Rewind a run to a checkpoint",
        body=bodies.RewindBody,
        headers=[IF_MATCH],
        errors=[
            *STEERING,
            "ambiguous_target",
            "unknown_lane",
            "result_already_consumed",
            "unknown_call",
            "field_not_editable",
        ],
        examples={
            "Again with another amount": {"checkpoint": 1, "reason": "wrong amount", "state": {"amount": 10}},
            "One call again": {
                "checkpoint": 1,
                "reason": "the mail did not arrive",
                "exceptions": [
                    {"address": "5b1f0c9a7e215b1f0c9a7e215b1f0c9a", "name": "send", "occurrence": "0"}
                ],
            },
        },
    )
    def post(self, request: Request, id: UUID, body: bodies.RewindBody) -> Response:
        run = operations.rewind(
            actor=actor_of(request),
            run_id=id,
            checkpoint=body.checkpoint,
            reason=body.reason,
            changes=body.state,
            calls=body.calls,
            exceptions=[call.place for call in body.exceptions],
            version=parameters.version(request, body.version),
            lane=body.lane,
            detach=body.detach,
        )
        return answers.run(actor_of(request), run, 202)


class ForkPreview(Endpoint):
    reads = frozenset({"POST"})

    @described(
        operation_id="preview_fork",
        summary="Look at what a fork would start with",
        body=bodies.ForkPreviewBody,
        headers=[ID_PARAMETER],
        answers={200: previews.ForkPreviewDocument},
        errors=FORKING,
    )
    def post(self, request: Request, id: UUID, body: bodies.ForkPreviewBody) -> Response:
        preview = operations.preview_fork(actor=actor_of(request), run_id=id, checkpoint=body.checkpoint)
        return rendered(previews.fork_preview_document(preview, sight=_sight(request, id)))


class Fork(Endpoint):
    document = "state"

    @described(
        operation_id="fork_run",
        summary="Start a new run from a checkpoint of this one",
        description="Whatever this run is doing, also if it has ended. The new run acts for the same requester, has a "
        "history of its own and starts with the calls before the checkpoint; no decision is valid in it.",
        body=bodies.ForkBody,
        headers=[ID_PARAMETER, IDEMPOTENCY_KEY],
        answer_headers=OF_SUBMISSION,
        answers={201: documents.RunDocument, 200: documents.RunDocument},
        errors=[
            *FORKING,
            "reason_required",
            "schema_violation",
            "field_not_editable",
            "ambiguous_target",
            "unknown_lane",
            "invalid_idempotency_key",
            "key_reused",
        ],
        examples={"With another amount": {"checkpoint": 1, "reason": "what if", "state": {"amount": 10}}},
    )
    def post(self, request: Request, id: UUID, body: bodies.ForkBody) -> Response:
        forked = operations.fork(
            actor=actor_of(request),
            run_id=id,
            checkpoint=body.checkpoint,
            reason=body.reason,
            changes=body.state,
            lane=body.lane,
            idempotency=parameters.idempotency(request, "fork", {"run": str(id), **body.model_dump()}),
        )
        return answers.started(actor_of(request), forked)


class Bulk(Endpoint):
    @described(
        operation_id="bulk",
        summary="Rewind, retry, cancel, pause or resume the runs that match a filter",
        description="Look first: `dry_run` (the default) says how many runs match, and which would be refused and why. "
        "Then each run is done in a transaction of its own, in the order of ids, at most 200 a request; what is refused "
        "holds up no other run.",
        body=bodies.BulkBody,
        answers={200: previews.BulkDocument},
        errors=["selection_changed", "reason_required", "missing_scope", "not_found"],
        examples={
            "Which would go on": {"verb": "retry", "filter": {"status": "failed", "workflow": "refund"}},
            "Cancel what a shop had started": {
                "verb": "cancel",
                "filter": {"labels": {"shop": "berlin"}},
                "reason": "the shop has closed",
                "dry_run": False,
            },
        },
    )
    def post(self, request: Request, body: bodies.BulkBody) -> Response:
        done = operations.bulk(
            actor=actor_of(request),
            order=Order(body.verb, body.reason, body.checkpoint, body.node, body.calls),
            which=_filter(body.filter),
            dry=body.dry_run,
            expect=body.expect,
            after=body.after,
        )
        return rendered(previews.bulk_document(done))


class RunState(Endpoint):
    document = "changes"

    @answering_run(
        operation_id="edit_state",
        summary="Replace fields of the state of a parked or failed run",
        body=bodies.StateBody,
        headers=[IF_MATCH],
        errors=[
            *STEERING,
            "version_required",
            "step_executing",
            "already_terminal",
            "ambiguous_target",
            "unknown_lane",
            "event_not_allowed",
            "field_not_editable",
        ],
        examples={
            "Another note": {"version": 7, "changes": {"note": "y"}, "reason": "the customer called"},
            "In one of several lanes": {
                "lane": "5b1f0c9a7e21",
                "lane_version": 3,
                "changes": {"note": "y"},
                "reason": "the customer called",
            },
        },
    )
    def patch(self, request: Request, id: UUID, body: bodies.StateBody) -> Response:
        run = operations.edit_state(
            actor=actor_of(request),
            run_id=id,
            version=parameters.version(request, body.version),
            changes=body.changes,
            reason=body.reason,
            lane=body.lane,
            lane_version=body.lane_version,
        )
        return answers.run(actor_of(request), run)


class Retry(Endpoint):
    @answering_run(
        status=202,
        operation_id="retry_run",
        summary="Let a failed run go on",
        description="Only what failed or had not run is run, each step with its attempts allowed anew; results of other "
        "lanes stay. What people had not answered is asked again.",
        body=bodies.RetryBody,
        headers=[IF_MATCH],
        errors=[
            "not_found",
            "missing_scope",
            "busy",
            "checkpoint_unreadable",
            "erased",
            "stale_version",
            "nothing_to_run",
            "already_terminal",
            "event_not_allowed",
            "compensated",
        ],
        examples={"The bank answers again": {"reason": "the bank answers again"}},
    )
    def post(self, request: Request, id: UUID, body: bodies.RetryBody) -> Response:
        run = operations.retry(
            actor=actor_of(request),
            run_id=id,
            reason=body.reason,
            version=parameters.version(request, body.version),
        )
        return answers.run(actor_of(request), run, 202)


class MigrationPreview(Endpoint):
    reads = frozenset({"POST"})

    @described(
        operation_id="preview_migration",
        summary="Look at what a migration would come to",
        body=bodies.MigratePreviewBody,
        headers=[ID_PARAMETER],
        answers={200: previews.MigrationPreviewDocument},
        errors=MIGRATING,
        examples={"To the nearest version that is here": {}},
    )
    def post(self, request: Request, id: UUID, body: bodies.MigratePreviewBody) -> Response:
        actor = actor_of(request)
        preview = operations.preview_migration(actor=actor, run_id=id, to=body.to)
        return rendered(previews.migration_preview_document(preview, sight=sights.of(actor, preview.run)))


class Migrate(Endpoint):
    @answering_run(
        status=202,
        operation_id="migrate_run",
        summary="Take a run to another version of its workflow",
        description="By the migrations that lead there. What is parked, asked or waited for stays so; approvals keep their "
        "ids and votes. A failed run can be retried afterwards.",
        body=bodies.MigrateBody,
        headers=[IF_MATCH],
        errors=[*MIGRATING, "busy", "stale_version", "reason_required"],
        examples={"To the version that mends it": {"to": "2", "reason": "version 2 reads these orders"}},
    )
    def post(self, request: Request, id: UUID, body: bodies.MigrateBody) -> Response:
        run = operations.migrate(
            actor=actor_of(request),
            run_id=id,
            to=body.to,
            reason=body.reason,
            version=parameters.version(request, body.version),
        )
        return answers.run(actor_of(request), run, 202)


class CancelPreview(Endpoint):
    read_scope = "runs:read"

    @described(
        operation_id="preview_cancel",
        summary="Look at what cancelling a run would take back",
        headers=[ID_PARAMETER],
        answers={200: previews.CancelPreviewDocument},
        errors=["not_found", "missing_scope"],
    )
    def get(self, request: Request, id: UUID) -> Response:
        preview = operations.preview_cancel(actor=actor_of(request), run_id=id)
        return rendered(previews.cancel_preview_document(preview, sight=_sight(request, id)))


class Cancel(Endpoint):
    @answering_run(
        operation_id="cancel_run",
        summary="Cancel a run",
        description="Its calls that say how are taken back first, the newest first: until then the run is `cancelling`. What "
        "cannot be taken back is listed under `error`. Children are cancelled with it, each in the same way.",
        body=bodies.CancelBody,
        errors=[*CONTROLLING, "compensating"],
        examples={
            "And leave everything as it is": {"reason": "settled by phone", "compensate": False},
        },
    )
    def post(self, request: Request, id: UUID, body: bodies.CancelBody) -> Response:
        run = operations.cancel(
            actor=actor_of(request), run_id=id, reason=body.reason, compensate=body.compensate
        )
        return answers.run(actor_of(request), run)


class Priority(Endpoint):
    @answering_run(
        operation_id="prioritise_run",
        summary="Say how soon a run is let in",
        description="It counts while the run stands in line, among the runs of its project; a run that is at work goes on.",
        body=bodies.PriorityBody,
        errors=CONTROLLING,
    )
    def post(self, request: Request, id: UUID, body: bodies.PriorityBody) -> Response:
        actor = actor_of(request)
        run = operations.prioritise(actor=actor, run_id=id, priority=body.priority, reason=body.reason)
        return answers.run(actor, run)


class Pause(Endpoint):
    @answering_run(
        operation_id="pause_run",
        summary="Pause a run",
        description="Steps that execute are finished and committed; nothing new begins. People may decide and signals arrive "
        "meanwhile, what falls due becomes ready, and the run's deadline does not run.",
        body=bodies.PauseBody,
        errors=[*CONTROLLING, "compensating"],
        examples={"With its children": {"reason": "the bank is closed", "children": True}},
    )
    def post(self, request: Request, id: UUID, body: bodies.PauseBody) -> Response:
        run = operations.pause(actor=actor_of(request), run_id=id, reason=body.reason, children=body.children)
        return answers.run(actor_of(request), run)


class Resume(Endpoint):
    @answering_run(
        status=202,
        operation_id="resume_run",
        summary="Let a paused run go on",
        description="From where it stands; what was paused with it goes on too.",
        body=bodies.ResumeBody,
        errors=[*CONTROLLING, "paused_above"],
        examples={"The bank has opened": {"reason": "the bank has opened"}},
    )
    def post(self, request: Request, id: UUID, body: bodies.ResumeBody) -> Response:
        run = operations.resume(actor=actor_of(request), run_id=id, reason=body.reason)
        return answers.run(actor_of(request), run, 202)


class Hold(Endpoint):
    @answering_run(
        operation_id="hold_run",
        summary="Put a run under a legal hold",
        description="While it stands nothing of the run is removed, compacted or erased. Again, it gets the new reason.",
        body=bodies.HoldBody,
        errors=KEEPING,
        examples={"A lawsuit": {"reason": "case 4 O 211/26: nothing is to be removed"}},
    )
    def post(self, request: Request, id: UUID, body: bodies.HoldBody) -> Response:
        run = operations.hold(actor=actor_of(request), run_id=id, reason=body.reason)
        return answers.run(actor_of(request), run)

    @answering_run(
        operation_id="release_run",
        summary="Lift the legal hold of a run",
        description="Where there is none, nothing changes.",
        query=parameters.Reason,
        errors=KEEPING,
    )
    def delete(self, request: Request, id: UUID, wanted: parameters.Reason) -> Response:
        run = operations.release(actor=actor_of(request), run_id=id, reason=wanted.reason)
        return answers.run(actor_of(request), run)


class Erase(Endpoint):
    @answering_run(
        operation_id="erase_run",
        summary="Erase what an ended run says, for good",
        description="Input, state, output, questions, answers and recorded results go; that the run was, its steps, people and "
        "times stay, and its history still verifies. Its checkpoints then answer 410 `erased`. Again changes nothing.",
        body=bodies.EraseBody,
        headers=[IF_MATCH],
        errors=[*KEEPING, "run_not_ended", "on_hold", "still_needed", "stale_version"],
        examples={"Asked by the person": {"reason": "request 1182 of 3 May"}},
    )
    def post(self, request: Request, id: UUID, body: bodies.EraseBody) -> Response:
        run = operations.erase(
            actor=actor_of(request),
            run_id=id,
            reason=body.reason,
            version=parameters.version(request, body.version),
        )
        return answers.run(actor_of(request), run)


# ---- rendering


def _sight(request: Request, run_id: UUID) -> Sight:
    actor = actor_of(request)
    return sights.of(actor, queries.run(actor.project.pk, run_id))


def _filter(told: bodies.BulkFilter) -> RunFilter:
    return RunFilter(**{name: value for name, value in told.model_dump().items() if value is not None})
