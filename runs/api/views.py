"""The endpoints: parse, one operation or query, render."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from runs import operations, policies, queries, sights, store, workflows
from runs.api import bodies, documents, parameters, problems
from runs.api.endpoint import Endpoint, Public, actor_of, etag, rendered
from runs.api.parameters import cursor_of
from runs.api.schema import (
    ANSWERING,
    FORKING,
    ID_PARAMETER,
    IDEMPOTENCY_KEY,
    IF_MATCH,
    KEEPING,
    MIGRATING,
    OF_RUN,
    OF_SIGNAL,
    OF_SUBMISSION,
    STEERING,
    SUBMITTING,
    described,
)
from runs.engine import canonical
from runs.engine.redaction import Sight
from runs.errors import NotFound
from runs.models import Approval, Run
from runs.models import Endpoint as WebhookEndpoint
from runs.operations import ActionDecision, Answer, At, Idempotency, Order
from runs.policies import Actor


class Runs(Endpoint):
    read_scope = "runs:read"
    document = "input"

    @described(
        operation_id="submit_run",
        summary="Start a run",
        body=bodies.Submission,
        headers=[IDEMPOTENCY_KEY],
        answer_headers=OF_SUBMISSION,
        answers={201: documents.RunDocument, 200: documents.RunDocument},
        errors=SUBMITTING,
        examples={
            "A refund": {"workflow": "refund", "input": {"order_id": "88-4121"}},
            "Of one version, with labels": {
                "workflow": "refund",
                "version": "1",
                "input": {"order_id": "88-4121"},
                "labels": {"shop": "berlin"},
            },
        },
    )
    def post(self, request: Request, body: bodies.Submission) -> Response:
        actor = actor_of(request)
        key = parameters.idempotency_key(request)
        submitted = operations.submit(
            actor=actor,
            workflow=body.workflow,
            input=body.input,
            version=None if body.version is None else str(body.version),
            labels=body.labels,
            deadline=body.deadline,
            priority=body.priority,
            on_behalf_of=body.on_behalf_of,
            idempotency=_idempotency(key, body),
        )
        headers = {"Location": f"/api/v1/runs/{submitted.run.pk}"}
        if submitted.replayed:
            headers["Idempotent_Replayed"] = "true"
        return _run(actor, submitted.run, status=200 if submitted.replayed else 201, **headers)

    @described(
        operation_id="list_runs",
        summary="List runs, newest first",
        query=parameters.RunList,
        answers={200: documents.RunPage},
        errors=["missing_scope"],
    )
    def get(self, request: Request, wanted: parameters.RunList) -> Response:
        page = queries.runs(
            actor_of(request).project.pk,
            status=wanted.status,
            workflow=wanted.workflow,
            version=wanted.workflow_version,
            without_code=wanted.waiting_for is not None,
            after=parameters.moment_and_id(wanted.cursor),
            limit=wanted.limit,
        )
        items = [documents.run_summary(run, actor=actor_of(request)) for run in page.rows]
        last = page.rows[-1] if page.more else None
        return rendered({"items": items, "next": last and cursor_of(last.created_at, last.pk)})


class RunDetail(Endpoint):
    read_scope = "runs:read"

    @described(
        operation_id="get_run",
        summary="Get a run, or wait for it",
        query=parameters.Wait,
        headers=[ID_PARAMETER],
        answer_headers=OF_RUN,
        answers={200: documents.RunDocument},
        errors=["not_found", "missing_scope"],
    )
    def get(self, request: Request, id: UUID) -> Response:
        # The waiting itself is done before Django is asked (runs.live.waiting).
        actor = actor_of(request)
        known = request.META.get("HTTP_IF_NONE_MATCH")
        if known:
            mark = queries.run_mark(actor.project.pk, id)
            if known == etag(mark):
                return Response(status=304, headers={"ETag": known, "Hitl-Run-Status": mark.status})
        return _run(actor, queries.run(actor.project.pk, id))


class RunHistory(Endpoint):
    read_scope = "runs:read"

    @described(
        operation_id="get_history",
        summary="Read the history of a run",
        query=parameters.History,
        headers=[ID_PARAMETER],
        answers={200: documents.EventPage},
        errors=["not_found", "missing_scope"],
    )
    def get(self, request: Request, id: UUID, wanted: parameters.History) -> Response:
        run = queries.run_mark(actor_of(request).project.pk, id)
        sight = sights.of(actor_of(request), run)
        page = queries.events(run.pk, after=wanted.after, limit=wanted.limit)
        items = [documents.event_document(event, sight=sight) for event in page.rows]
        return rendered({"items": items, "next": page.rows[-1].seq if page.more else None})


class RunCheckpoints(Endpoint):
    read_scope = "runs:read"

    @described(
        operation_id="list_checkpoints",
        summary="List the checkpoints of a run by number",
        query=parameters.CheckpointList,
        headers=[ID_PARAMETER],
        answers={200: documents.CheckpointPage},
        errors=["not_found", "missing_scope"],
    )
    def get(self, request: Request, id: UUID, wanted: parameters.CheckpointList) -> Response:
        run = queries.run_mark(actor_of(request).project.pk, id)
        page = queries.checkpoints(run.pk, branch=wanted.branch, after=wanted.after, limit=wanted.limit)
        items = [documents.checkpoint_summary(checkpoint) for checkpoint in page.rows]
        return rendered({"items": items, "next": page.rows[-1].no if page.more else None})


class RunCheckpoint(Endpoint):
    read_scope = "runs:read"

    @described(
        operation_id="get_checkpoint",
        summary="Get a checkpoint: the state at it, and what it changed",
        headers=[ID_PARAMETER],
        answers={200: documents.CheckpointDocument},
        errors=[
            "not_found",
            "unknown_checkpoint",
            "checkpoint_removed",
            "missing_scope",
            "checkpoint_unreadable",
            "erased",
        ],
    )
    def get(self, request: Request, id: UUID, no: int) -> Response:
        run = queries.run_mark(actor_of(request).project.pk, id)
        return rendered(
            documents.checkpoint_document(
                queries.checkpoint(run, no), sight=sights.of(actor_of(request), run)
            )
        )


class RunSteps(Endpoint):
    read_scope = "runs:read"

    @described(
        operation_id="list_steps",
        summary="List the steps of a run with attempts, calls and effects",
        query=parameters.StepList,
        headers=[ID_PARAMETER],
        answers={200: documents.StepPage},
        errors=["not_found", "missing_scope"],
    )
    def get(self, request: Request, id: UUID, wanted: parameters.StepList) -> Response:
        run = queries.run_mark(actor_of(request).project.pk, id)
        after = parameters.moment_branch_address(wanted.cursor)
        page = queries.visits(run.pk, branch=wanted.branch, after=after, limit=wanted.limit)
        spent = queries.spent_in(run.pk, [step.address for step in page.rows])
        sight = sights.of(actor_of(request), run)
        visits = queries.calls_of(page.rows)
        undone = queries.undone_in(run.pk, [call for visit in visits for call in visit.calls])
        items = [documents.step_document(visit, spent, undone, sight=sight) for visit in visits]
        last = page.rows[-1] if page.more else None
        return rendered(
            {"items": items, "next": last and cursor_of(last.created_at, last.branch, last.address)}
        )


class RewindPreview(Endpoint):
    reads = frozenset({"POST"})

    @described(
        operation_id="preview_rewind",
        summary="Look at what a rewind would do",
        body=bodies.PreviewBody,
        headers=[ID_PARAMETER],
        answers={200: documents.PreviewDocument},
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
        return rendered(documents.preview_document(preview, sight=_sight(request, id)))


class Rewind(Endpoint):
    document = "state"

    @described(
        operation_id="rewind_run",
        summary="Rewind a run to a checkpoint",
        body=bodies.RewindBody,
        headers=[ID_PARAMETER, IF_MATCH],
        answer_headers=OF_RUN,
        answers={202: documents.RunDocument},
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
        return _run(actor_of(request), run, status=202)


class ForkPreview(Endpoint):
    reads = frozenset({"POST"})

    @described(
        operation_id="preview_fork",
        summary="Look at what a fork would start with",
        body=bodies.ForkPreviewBody,
        headers=[ID_PARAMETER],
        answers={200: documents.ForkPreviewDocument},
        errors=FORKING,
    )
    def post(self, request: Request, id: UUID, body: bodies.ForkPreviewBody) -> Response:
        preview = operations.preview_fork(actor=actor_of(request), run_id=id, checkpoint=body.checkpoint)
        return rendered(documents.fork_preview_document(preview, sight=_sight(request, id)))


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
        key = parameters.idempotency_key(request)
        forked = operations.fork(
            actor=actor_of(request),
            run_id=id,
            checkpoint=body.checkpoint,
            reason=body.reason,
            changes=body.state,
            lane=body.lane,
            idempotency=None
            if key is None
            else Idempotency("fork", key, canonical.digest({"run": str(id), **body.model_dump()})),
        )
        headers = {"Location": f"/api/v1/runs/{forked.run.pk}"}
        if forked.replayed:
            headers["Idempotent_Replayed"] = "true"
        return _run(actor_of(request), forked.run, status=200 if forked.replayed else 201, **headers)


class RunBranches(Endpoint):
    read_scope = "runs:read"

    @described(
        operation_id="list_branches",
        summary="List the branches of a run: where each left, who rewound and why",
        headers=[ID_PARAMETER],
        answers={200: documents.BranchList},
        errors=["not_found", "missing_scope"],
    )
    def get(self, request: Request, id: UUID) -> Response:
        return rendered(documents.branch_list(queries.run(actor_of(request).project.pk, id)))


class RunBranch(Endpoint):
    @described(
        operation_id="label_branch",
        summary="Give a branch a name",
        body=bodies.BranchBody,
        headers=[ID_PARAMETER],
        answers={200: documents.BranchDocument},
        errors=["not_found", "unknown_branch", "missing_scope", "not_a_candidate", "self_approval", "busy"],
        examples={"A name": {"label": "with the old prices"}},
    )
    def patch(self, request: Request, id: UUID, no: int, body: bodies.BranchBody) -> Response:
        branch = operations.label_branch(actor=actor_of(request), run_id=id, branch=no, label=body.label)
        run = queries.run(actor_of(request).project.pk, id)
        _, heads = queries.branches_of(run.pk)
        return rendered(documents.branch_document(branch, heads, current=run.branch))


class Compare(Endpoint):
    read_scope = "runs:read"

    @described(
        operation_id="compare_checkpoints",
        summary="Hold two checkpoints side by side: of one branch, of two, or of two runs",
        query=parameters.Compare,
        headers=[ID_PARAMETER],
        answers={200: documents.ComparisonDocument},
        errors=[
            "not_found",
            "unknown_checkpoint",
            "unknown_branch",
            "checkpoint_unreadable",
            "missing_scope",
        ],
    )
    def get(self, request: Request, id: UUID, wanted: parameters.Compare) -> Response:
        actor = actor_of(request)
        left = At(checkpoint=wanted.checkpoint, branch=wanted.branch)
        right = At(wanted.other_run, wanted.other_checkpoint, wanted.other_branch)
        if right == At():
            left, right = operations.compared_with(actor=actor, run_id=id, left=left), left
        found = operations.compare(actor=actor, run_id=id, left=left, right=right)
        return rendered(documents.comparison_document(found, actor=actor))


class Bulk(Endpoint):
    @described(
        operation_id="bulk",
        summary="Rewind, retry, cancel, pause or resume the runs that match a filter",
        description="Look first: `dry_run` (the default) says how many runs match, and which would be refused and why. "
        "Then each run is done in a transaction of its own, in the order of ids, at most 200 a request; what is refused "
        "holds up no other run.",
        body=bodies.BulkBody,
        answers={200: documents.BulkDocument},
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
        return rendered(documents.bulk_document(done))


class RunState(Endpoint):
    document = "changes"

    @described(
        operation_id="edit_state",
        summary="Replace fields of the state of a parked or failed run",
        body=bodies.StateBody,
        headers=[ID_PARAMETER, IF_MATCH],
        answer_headers=OF_RUN,
        answers={200: documents.RunDocument},
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
        return _run(actor_of(request), run)


class Retry(Endpoint):
    @described(
        operation_id="retry_run",
        summary="Let a failed run go on",
        description="Only what failed or had not run is run, each step with its attempts allowed anew; results of other "
        "lanes stay. What people had not answered is asked again.",
        body=bodies.RetryBody,
        headers=[ID_PARAMETER, IF_MATCH],
        answer_headers=OF_RUN,
        answers={202: documents.RunDocument},
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
        return _run(actor_of(request), run, status=202)


class MigrationPreview(Endpoint):
    reads = frozenset({"POST"})

    @described(
        operation_id="preview_migration",
        summary="Look at what a migration would come to",
        body=bodies.MigratePreviewBody,
        headers=[ID_PARAMETER],
        answers={200: documents.MigrationPreviewDocument},
        errors=MIGRATING,
        examples={"To the nearest version that is here": {}},
    )
    def post(self, request: Request, id: UUID, body: bodies.MigratePreviewBody) -> Response:
        actor = actor_of(request)
        preview = operations.preview_migration(actor=actor, run_id=id, to=body.to)
        return rendered(documents.migration_preview_document(preview, sight=sights.of(actor, preview.run)))


class Migrate(Endpoint):
    @described(
        operation_id="migrate_run",
        summary="Take a run to another version of its workflow",
        description="By the migrations that lead there. What is parked, asked or waited for stays so; approvals keep their "
        "ids and votes. A failed run can be retried afterwards.",
        body=bodies.MigrateBody,
        headers=[ID_PARAMETER, IF_MATCH],
        answer_headers=OF_RUN,
        answers={202: documents.RunDocument},
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
        return _run(actor_of(request), run, status=202)


class Cancel(Endpoint):
    @described(
        operation_id="cancel_run",
        summary="Cancel a run",
        description="Its calls that say how are taken back first, the newest first: until then the run is `cancelling`. What "
        "cannot be taken back is listed under `error`. Children are cancelled with it, each in the same way.",
        body=bodies.CancelBody,
        headers=[ID_PARAMETER],
        answer_headers=OF_RUN,
        answers={200: documents.RunDocument},
        errors=["not_found", "already_terminal", "busy", "missing_scope", "compensating"],
        examples={
            "And leave everything as it is": {"reason": "settled by phone", "compensate": False},
        },
    )
    def post(self, request: Request, id: UUID, body: bodies.CancelBody) -> Response:
        run = operations.cancel(
            actor=actor_of(request), run_id=id, reason=body.reason, compensate=body.compensate
        )
        return _run(actor_of(request), run)


class Priority(Endpoint):
    @described(
        operation_id="prioritise_run",
        summary="Say how soon a run is let in",
        description="It counts while the run stands in line, among the runs of its project; a run that is at work goes on.",
        body=bodies.PriorityBody,
        headers=[ID_PARAMETER],
        answer_headers=OF_RUN,
        answers={200: documents.RunDocument},
        errors=["not_found", "already_terminal", "busy", "missing_scope"],
    )
    def post(self, request: Request, id: UUID, body: bodies.PriorityBody) -> Response:
        actor = actor_of(request)
        run = operations.prioritise(actor=actor, run_id=id, priority=body.priority, reason=body.reason)
        return _run(actor, run)


class CancelPreview(Endpoint):
    read_scope = "runs:read"

    @described(
        operation_id="preview_cancel",
        summary="Look at what cancelling a run would take back",
        headers=[ID_PARAMETER],
        answers={200: documents.CancelPreviewDocument},
        errors=["not_found", "missing_scope"],
    )
    def get(self, request: Request, id: UUID) -> Response:
        preview = operations.preview_cancel(actor=actor_of(request), run_id=id)
        return rendered(documents.cancel_preview_document(preview, sight=_sight(request, id)))


class Pause(Endpoint):
    @described(
        operation_id="pause_run",
        summary="Pause a run",
        description="Steps that execute are finished and committed; nothing new begins. People may decide and signals arrive "
        "meanwhile, what falls due becomes ready, and the run's deadline does not run.",
        body=bodies.PauseBody,
        headers=[ID_PARAMETER],
        answer_headers=OF_RUN,
        answers={200: documents.RunDocument},
        errors=["not_found", "already_terminal", "busy", "missing_scope", "compensating"],
        examples={"With its children": {"reason": "the bank is closed", "children": True}},
    )
    def post(self, request: Request, id: UUID, body: bodies.PauseBody) -> Response:
        run = operations.pause(actor=actor_of(request), run_id=id, reason=body.reason, children=body.children)
        return _run(actor_of(request), run)


class Resume(Endpoint):
    @described(
        operation_id="resume_run",
        summary="Let a paused run go on",
        description="From where it stands; what was paused with it goes on too.",
        body=bodies.ResumeBody,
        headers=[ID_PARAMETER],
        answer_headers=OF_RUN,
        answers={202: documents.RunDocument},
        errors=["not_found", "already_terminal", "busy", "missing_scope", "paused_above"],
        examples={"The bank has opened": {"reason": "the bank has opened"}},
    )
    def post(self, request: Request, id: UUID, body: bodies.ResumeBody) -> Response:
        run = operations.resume(actor=actor_of(request), run_id=id, reason=body.reason)
        return _run(actor_of(request), run, status=202)


class RunSignals(Endpoint):
    read_scope = "runs:read"
    document = "payload"

    @described(
        operation_id="send_signal",
        summary="Send a signal to a run",
        description="202: it lies in the mailbox, and what waits for it goes on; what came before the wait is kept. 200: it "
        "was there already, by its `id`.",
        body=bodies.SignalBody,
        headers=[ID_PARAMETER],
        answer_headers=OF_SIGNAL,
        answers={202: documents.SignalDocument, 200: documents.SignalDocument},
        errors=[
            "not_found",
            "already_terminal",
            "signal_reused",
            "schema_violation",
            "busy",
            "missing_scope",
        ],
        examples={"Paid": {"name": "paid", "id": "payment-4711", "payload": {"amount": "10.00"}}},
    )
    def post(self, request: Request, id: UUID, body: bodies.SignalBody) -> Response:
        sent = operations.signal(
            actor=actor_of(request), run_id=id, name=body.name, payload=body.payload, signal_id=body.id
        )
        document = documents.signal_document(
            sent.signal, taken=queries.taken_signals(sent.run), sight=sights.of(actor_of(request), sent.run)
        )
        if sent.replayed:
            return rendered(document, 200, Idempotent_Replayed="true")
        return rendered(document, 202)

    @described(
        operation_id="list_signals",
        summary="List the signals that a run was sent",
        query=parameters.SignalList,
        headers=[ID_PARAMETER],
        answers={200: documents.SignalPage},
        errors=["not_found", "missing_scope"],
    )
    def get(self, request: Request, id: UUID, wanted: parameters.SignalList) -> Response:
        run = queries.run(actor_of(request).project.pk, id)
        page, taken = (
            queries.signals(run.pk, after=wanted.after, limit=wanted.limit),
            queries.taken_signals(run),
        )
        sight = sights.of(actor_of(request), run)
        items = [documents.signal_document(signal, taken=taken, sight=sight) for signal in page.rows]
        return rendered({"items": items, "next": page.rows[-1].no if page.more else None})


class Hold(Endpoint):
    @described(
        operation_id="hold_run",
        summary="Put a run under a legal hold",
        description="While it stands nothing of the run is removed, compacted or erased. Again, it gets the new reason.",
        body=bodies.HoldBody,
        headers=[ID_PARAMETER],
        answer_headers=OF_RUN,
        answers={200: documents.RunDocument},
        errors=KEEPING,
        examples={"A lawsuit": {"reason": "case 4 O 211/26: nothing is to be removed"}},
    )
    def post(self, request: Request, id: UUID, body: bodies.HoldBody) -> Response:
        run = operations.hold(actor=actor_of(request), run_id=id, reason=body.reason)
        return _run(actor_of(request), run)

    @described(
        operation_id="release_run",
        summary="Lift the legal hold of a run",
        description="Where there is none, nothing changes.",
        query=parameters.Reason,
        headers=[ID_PARAMETER],
        answer_headers=OF_RUN,
        answers={200: documents.RunDocument},
        errors=KEEPING,
    )
    def delete(self, request: Request, id: UUID, wanted: parameters.Reason) -> Response:
        run = operations.release(actor=actor_of(request), run_id=id, reason=wanted.reason)
        return _run(actor_of(request), run)


class Erase(Endpoint):
    @described(
        operation_id="erase_run",
        summary="Erase what an ended run says, for good",
        description="Input, state, output, questions, answers and recorded results go; that the run was, its steps, people and "
        "times stay, and its history still verifies. Its checkpoints then answer 410 `erased`. Again changes nothing.",
        body=bodies.EraseBody,
        headers=[ID_PARAMETER, IF_MATCH],
        answer_headers=OF_RUN,
        answers={200: documents.RunDocument},
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
        return _run(actor_of(request), run)


class Approvals(Endpoint):
    read_scope = "approvals:read"

    @described(
        operation_id="list_approvals",
        summary="List approvals",
        query=parameters.ApprovalList,
        answers={200: documents.ApprovalPage},
        errors=["missing_scope"],
    )
    def get(self, request: Request, wanted: parameters.ApprovalList) -> Response:
        actor = actor_of(request)
        page = queries.approvals(
            actor.project.pk,
            status=wanted.status,
            after=parameters.moment_and_id(wanted.cursor),
            limit=wanted.limit,
        )
        items = [documents.approval_document(approval, actor=actor) for approval in page.rows]
        last = page.rows[-1] if page.more else None
        return rendered(
            {"items": items, "next": last and cursor_of(last.closed_at or last.opened_at, last.pk)}
        )


class ApprovalDetail(Endpoint):
    read_scope = "approvals:read"

    @described(
        operation_id="get_approval",
        summary="Get an approval",
        headers=[ID_PARAMETER],
        answers={200: documents.ApprovalDocument},
        errors=["not_found", "missing_scope"],
    )
    def get(self, request: Request, id: UUID) -> Response:
        actor = actor_of(request)
        return _approval(actor, queries.approval(actor.project.pk, id))


class Decide(Endpoint):
    document = "args"

    @described(
        operation_id="decide",
        summary="Decide an approval",
        description="200: decided, and the run goes on. 202: recorded, and more people have to agree. The same answer "
        "again gets the same response; another one is refused with who was first.",
        body=bodies.DecisionBody,
        headers=[ID_PARAMETER, IF_MATCH],
        answers={200: documents.Decided, 202: documents.Decided},
        errors=[*ANSWERING, "reason_required", "editor_may_not_approve", "decision_not_allowed"],
        examples={
            "Approve the only action": {"version": 1, "type": "approve", "comment": "fine"},
            "Each action": {
                "version": 1,
                "decisions": [
                    {"key": "pay_refund", "type": "edit", "args": {"order_id": "88-4121", "amount": "10.00"}},
                    {"key": "write_mail", "type": "reject", "message": "I call them myself"},
                ],
            },
        },
    )
    def post(self, request: Request, id: UUID, body: bodies.DecisionBody) -> Response:
        return _answered(request, id, body)


class DecideRun(Endpoint):
    document = "args"

    @described(
        operation_id="decide_run",
        summary="Decide what a run asks",
        description="Like deciding an approval, for who knows the run alone. If it asks several things at once, 409 "
        "`ambiguous_target` lists `approvals` and the `lanes` that ask them; name one.",
        body=bodies.RunDecisionBody,
        headers=[ID_PARAMETER, IF_MATCH],
        answers={200: documents.Decided, 202: documents.Decided},
        errors=[
            *ANSWERING,
            "reason_required",
            "editor_may_not_approve",
            "decision_not_allowed",
            "ambiguous_target",
        ],
        examples={
            "Approve the only question": {"version": 1, "type": "approve"},
            "Of one lane": {"lane": "5b1f0c9a7e21", "version": 1, "type": "reject", "message": "too much"},
        },
    )
    def post(self, request: Request, id: UUID, body: bodies.RunDecisionBody) -> Response:
        asked = operations.only_approval(
            actor=actor_of(request), run_id=id, approval_id=body.approval, lane=body.lane
        )
        return _answered(request, asked.pk, body)


class Revise(Endpoint):
    document = "args"

    @described(
        operation_id="revise_approval",
        summary="Change the arguments of an open approval, without a vote",
        body=bodies.RevisionBody,
        headers=[ID_PARAMETER, IF_MATCH],
        answers={200: documents.ApprovalDocument},
        errors=ANSWERING,
        examples={
            "Another amount": {
                "version": 1,
                "args": {"pay_refund": {"order_id": "88-4121", "amount": "10.00"}},
            }
        },
    )
    def post(self, request: Request, id: UUID, body: bodies.RevisionBody) -> Response:
        actor = actor_of(request)
        operations.revise(
            actor=actor,
            approval_id=id,
            version=parameters.version(request, body.version),
            args=body.args,
            comment=body.comment,
        )
        return _approval(actor, queries.approval(actor.project.pk, id))


class Workflows(Endpoint):
    @described(
        operation_id="list_workflows",
        summary="List the workflows that can be started",
        query=parameters.WorkflowList,
        answers={200: documents.WorkflowList},
        errors=["missing_scope"],
    )
    def get(self, request: Request, wanted: parameters.WorkflowList) -> Response:
        actor = actor_of(request)
        if wanted.usage or wanted.versions:
            policies.check_scope(actor, "runs:read")
        spent = queries.spent_by_workflow(actor.project.pk) if wanted.usage else None
        taken = store.taken(actor.project.pk) if wanted.usage else None
        versions = queries.versions(actor.project.pk) if wanted.versions else None
        items = [
            documents.workflow_document(flow, spent, actor=actor, taken=taken, versions=versions)
            for flow in workflows.every()
        ]
        return rendered({"items": items, "project": documents.project_limit(actor.project, taken)})


class Webhooks(Endpoint):
    read_scope = "runs:read"

    @described(
        operation_id="create_endpoint",
        summary="Have events sent to an address",
        body=bodies.EndpointBody,
        answers={201: documents.EndpointSecret},
        errors=["missing_scope", "forbidden_target"],
        examples={"Of decisions": {"url": "https://example.org/hooks", "events": ["approval.decided"]}},
    )
    def post(self, request: Request, body: bodies.EndpointBody) -> Response:
        endpoint, secret = operations.create_endpoint(
            actor=actor_of(request), url=body.url, events=body.events, description=body.description
        )
        return _with_secret(endpoint, secret, 201)

    @described(
        operation_id="list_endpoints",
        summary="List where webhooks go",
        answers={200: documents.EndpointList},
        errors=["missing_scope"],
    )
    def get(self, request: Request) -> Response:
        actor = actor_of(request)
        policies.check_deliveries(actor)
        found = queries.endpoints(actor.project.pk)
        return rendered({"items": [documents.endpoint_document(endpoint) for endpoint in found]})


class WebhookDetail(Endpoint):
    read_scope = "runs:read"

    @described(
        operation_id="get_endpoint",
        summary="Get one endpoint",
        headers=[ID_PARAMETER],
        answers={200: documents.EndpointDocument},
        errors=["not_found", "missing_scope"],
    )
    def get(self, request: Request, id: UUID) -> Response:
        actor = actor_of(request)
        policies.check_deliveries(actor)
        return rendered(documents.endpoint_document(queries.endpoint(actor.project.pk, id)))

    @described(
        operation_id="change_endpoint",
        summary="Change an endpoint, or switch it off or on",
        headers=[ID_PARAMETER],
        body=bodies.EndpointChange,
        answers={200: documents.EndpointDocument},
        errors=["not_found", "missing_scope", "forbidden_target"],
    )
    def patch(self, request: Request, id: UUID, body: bodies.EndpointChange) -> Response:
        changed = operations.change_endpoint(
            actor=actor_of(request),
            endpoint_id=id,
            url=body.url,
            events=body.events,
            description=body.description,
            enabled=body.enabled,
        )
        return rendered(documents.endpoint_document(changed))

    @described(
        operation_id="delete_endpoint",
        summary="Delete an endpoint; what stands in line for it is cancelled",
        headers=[ID_PARAMETER],
        answers={200: documents.EndpointDocument},
        errors=["not_found", "missing_scope"],
    )
    def delete(self, request: Request, id: UUID) -> Response:
        gone = operations.delete_endpoint(actor=actor_of(request), endpoint_id=id)
        return rendered(documents.endpoint_document(gone))


class WebhookRotate(Endpoint):
    @described(
        operation_id="rotate_secret",
        summary="Make a new secret; the one before signs as well for a day",
        headers=[ID_PARAMETER],
        body=bodies.Nothing,
        answers={200: documents.EndpointSecret},
        errors=["not_found", "missing_scope"],
    )
    def post(self, request: Request, id: UUID) -> Response:
        return _with_secret(*operations.rotate_secret(actor=actor_of(request), endpoint_id=id), 200)


class WebhookTest(Endpoint):
    @described(
        operation_id="test_endpoint",
        summary="Send a message that says nothing",
        headers=[ID_PARAMETER],
        body=bodies.Nothing,
        answers={202: documents.DeliverySummary},
        errors=["not_found", "missing_scope", "endpoint_off"],
    )
    def post(self, request: Request, id: UUID) -> Response:
        sent = operations.test_endpoint(actor=actor_of(request), endpoint_id=id)
        return rendered(documents.delivery_summary(sent), 202)


class Deliveries(Endpoint):
    read_scope = "runs:read"

    @described(
        operation_id="list_deliveries",
        summary="List what was sent, or is to be sent, newest first",
        query=parameters.DeliveryList,
        answers={200: documents.DeliveryPage},
        errors=["missing_scope"],
    )
    def get(self, request: Request, wanted: parameters.DeliveryList) -> Response:
        actor = actor_of(request)
        policies.check_deliveries(actor)
        page = queries.deliveries(
            actor.project.pk,
            status=wanted.status,
            endpoint=wanted.endpoint,
            run=wanted.run,
            after=parameters.moment_and_id(wanted.cursor),
            limit=wanted.limit,
        )
        items = [documents.delivery_summary(delivery) for delivery in page.rows]
        last = page.rows[-1] if page.more else None
        return rendered({"items": items, "next": last and cursor_of(last.created_at, last.pk)})


class DeliveryDetail(Endpoint):
    read_scope = "runs:read"

    @described(
        operation_id="get_delivery",
        summary="Get a delivery with its attempts",
        headers=[ID_PARAMETER],
        answers={200: documents.DeliveryDocument},
        errors=["not_found", "missing_scope"],
    )
    def get(self, request: Request, id: UUID) -> Response:
        actor = actor_of(request)
        policies.check_deliveries(actor)
        found = queries.delivery(actor.project.pk, id)
        return rendered(documents.delivery_document(found, actor=actor))


class Redeliver(Endpoint):
    @described(
        operation_id="redeliver",
        summary="Send a delivery once more, under the same id",
        headers=[ID_PARAMETER],
        body=bodies.Nothing,
        answers={202: documents.DeliverySummary},
        errors=["not_found", "missing_scope", "still_pending", "endpoint_off"],
    )
    def post(self, request: Request, id: UUID) -> Response:
        again = operations.redeliver(actor=actor_of(request), delivery_id=id)
        return rendered(documents.delivery_summary(again), 202)


class Problems(Public):
    @described(
        operation_id="list_problems",
        summary="List the codes of all errors",
        answers={200: documents.ProblemKinds},
        public=True,
    )
    def get(self, request: Request) -> Response:
        return rendered({"items": [_kind(code) for code in problems.kinds()]})


class ProblemDetail(Public):
    @described(
        operation_id="get_problem",
        summary="What an error code means",
        answers={200: documents.ProblemKind},
        errors=["not_found"],
        public=True,
    )
    def get(self, request: Request, code: str) -> Response:
        return rendered(_kind(code))


class Nothing(Public):
    """Every other address under the API."""

    schema: Any = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        raise NotFound("The API has no such address; its addresses are described at /api/v1/docs.")


# ---- rendering


def _sight(request: Request, run_id: UUID) -> Sight:
    actor = actor_of(request)
    return sights.of(actor, queries.run(actor.project.pk, run_id))


def _run(actor: Actor, run: Run, *, status: int = 200, **headers: str) -> Response:
    return rendered(
        documents.run_document(run, actor=actor),
        status,
        ETag=etag(run),
        Hitl_Run_Status=run.status,
        **headers,
    )


def _with_secret(endpoint: WebhookEndpoint, secret: str, status: int) -> Response:
    return rendered({"endpoint": documents.endpoint_document(endpoint), "secret": secret}, status)


def _approval(actor: Actor, approval: Approval) -> Response:
    return rendered(documents.approval_document(approval, actor=actor), ETag=f'"{approval.version}"')


def _answered(request: Request, approval_id: UUID, body: bodies.DecisionBody) -> Response:
    actor = actor_of(request)
    decisions = body.spelled_out(queries.action_keys(actor.project.pk, approval_id))
    answer = Answer(
        approval_id=approval_id,
        version=parameters.version(request, body.version),
        digest=body.digest,
        decisions=[_decision(decision) for decision in decisions],
        comment=body.comment,
    )
    operations.decide(actor=actor, answers=[answer])
    return _decided(actor, approval_id)


def _decided(actor: Actor, approval_id: UUID) -> Response:
    approval = queries.approval(actor.project.pk, approval_id)
    run = queries.run(actor.project.pk, approval.run_id)
    document: documents.Decided = {
        "approval": documents.approval_document(approval, actor=actor),
        "run": documents.run_document(run, actor=actor),
    }
    return rendered(document, 202 if approval.status == "open" else 200, Hitl_Run_Status=run.status)


def _decision(decision: bodies.Decision) -> ActionDecision:
    return ActionDecision(key=decision.key, type=decision.type, args=decision.args, message=decision.message)


def _idempotency(key: str | None, body: bodies.Submission) -> Idempotency | None:
    if key is None:
        return None
    return Idempotency("runs", key, canonical.digest(body.model_dump()))


def _filter(told: bodies.BulkFilter) -> queries.RunFilter:
    return queries.RunFilter(
        status=told.status or "",
        workflow=told.workflow or "",
        labels=told.labels,
        created_from=told.created_from,
        created_until=told.created_until,
        ids=told.ids,
    )


def _kind(code: str) -> documents.ProblemKind:
    kind = problems.kinds().get(code)
    if kind is None:
        raise NotFound(f"There is no error with the code {code!r}.")
    return {
        "code": code,
        "status": kind.http_status,
        "title": problems.title(kind),
        "type": problems.TYPES + code,
    }
