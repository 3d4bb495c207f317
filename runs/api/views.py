"""The endpoints: parse, one operation or query, render. What has a file of its own is in `urls`."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from runs import inboxes, operations, policies, queries, runlists, saved, sights, store, workflows
from runs.api import answers, bodies, catalogue, documents, parameters, previews, problems
from runs.api.endpoint import Endpoint, Public, actor_of, etag, paged, rendered
from runs.api.parameters import cursor_of
from runs.api.schema import (
    ANSWERING,
    ID_PARAMETER,
    IDEMPOTENCY_KEY,
    IF_MATCH,
    OF_RUN,
    OF_SIGNAL,
    OF_SUBMISSION,
    SUBMITTING,
    answering_approval,
    described,
)
from runs.errors import NotFound
from runs.operations import ActionDecision, Answer, At
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
        submitted = operations.submit(
            actor=actor,
            workflow=body.workflow,
            input=body.input,
            version=None if body.version is None else str(body.version),
            labels=body.labels,
            deadline=body.deadline,
            priority=body.priority,
            on_behalf_of=body.on_behalf_of,
            idempotency=parameters.idempotency(request, "runs", body.model_dump()),
        )
        return answers.started(actor, submitted)

    @described(
        operation_id="list_runs",
        summary="List runs, newest first",
        query=parameters.RunList,
        answers={200: documents.RunPage},
        errors=["missing_scope", "not_found"],
    )
    def get(self, request: Request, wanted: parameters.RunList) -> Response:
        actor = actor_of(request)
        page = runlists.newest_first(
            actor.project.pk,
            parameters.runs_of(actor, wanted),
            after=parameters.moment_and_id(wanted.cursor),
            limit=wanted.limit,
        )
        sight_of = sights.of_many(actor, page.rows)
        items = [documents.run_summary(run, sight=sight_of(run)) for run in page.rows]
        return paged(items, page, lambda run: cursor_of(run.created_at, run.pk))


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
        return answers.run(actor, queries.run(actor.project.pk, id))


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
        return paged(items, page, lambda event: event.seq)


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
        return paged(items, page, lambda checkpoint: checkpoint.no)


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
        return paged(items, page, lambda step: cursor_of(step.created_at, step.branch, step.address))


class RunBranches(Endpoint):
    read_scope = "runs:read"

    @described(
        operation_id="list_branches",
        summary="List the branches of a run: where each left, who rewound and why",
        headers=[ID_PARAMETER],
        answers={200: previews.BranchList},
        errors=["not_found", "missing_scope"],
    )
    def get(self, request: Request, id: UUID) -> Response:
        return rendered(previews.branch_list(queries.run(actor_of(request).project.pk, id)))


class RunBranch(Endpoint):
    @described(
        operation_id="label_branch",
        summary="Give a branch a name",
        body=bodies.BranchBody,
        headers=[ID_PARAMETER],
        answers={200: previews.BranchDocument},
        errors=["not_found", "unknown_branch", "missing_scope", "not_a_candidate", "self_approval", "busy"],
        examples={"A name": {"label": "with the old prices"}},
    )
    def patch(self, request: Request, id: UUID, no: int, body: bodies.BranchBody) -> Response:
        branch = operations.label_branch(actor=actor_of(request), run_id=id, branch=no, label=body.label)
        run = queries.run(actor_of(request).project.pk, id)
        _, heads = queries.branches_of(run.pk)
        return rendered(previews.branch_document(branch, heads, current=run.branch))


class Compare(Endpoint):
    read_scope = "runs:read"

    @described(
        operation_id="compare_checkpoints",
        summary="Hold two checkpoints side by side: of one branch, of two, or of two runs",
        query=parameters.Compare,
        headers=[ID_PARAMETER],
        answers={200: previews.ComparisonDocument},
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
        return rendered(previews.comparison_document(found, actor=actor))


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
        page = queries.signals(run.pk, after=wanted.after, limit=wanted.limit)
        taken = queries.taken_signals(run)
        sight = sights.of(actor_of(request), run)
        items = [documents.signal_document(signal, taken=taken, sight=sight) for signal in page.rows]
        return paged(items, page, lambda signal: signal.no)


class Approvals(Endpoint):
    read_scope = "approvals:read"

    @described(
        operation_id="list_approvals",
        summary="List approvals",
        description="The same lists as on the page of the inbox, and in the same order.",
        query=parameters.ApprovalList,
        answers={200: documents.ApprovalPage},
        errors=["missing_scope", "not_found"],
    )
    def get(self, request: Request, wanted: parameters.ApprovalList) -> Response:
        actor = actor_of(request)
        kept = saved.view(actor, wanted.saved, page="inbox").query if wanted.saved else {}
        which = parameters.wanted_of(wanted, kept)
        place = parameters.place_in(wanted.cursor, which.order)
        page = inboxes.page(actor.project.pk, which, inboxes.asked(actor), after=place, limit=wanted.limit)
        items = [documents.approval_document(approval, actor=actor) for approval in page.rows]
        return rendered({"items": items, "next": page.next or None})


class ApprovalDetail(Endpoint):
    read_scope = "approvals:read"

    @answering_approval(
        operation_id="get_approval",
        summary="Get an approval",
        errors=["not_found", "missing_scope"],
    )
    def get(self, request: Request, id: UUID) -> Response:
        return answers.approval(actor_of(request), id)


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
        with self.looking(request):
            asked = operations.only_approval(
                actor=actor_of(request), run_id=id, approval_id=body.approval, lane=body.lane
            )
        return _answered(request, asked.pk, body)


class Revise(Endpoint):
    document = "args"

    @answering_approval(
        operation_id="revise_approval",
        summary="Change the arguments of an open approval, without a vote",
        body=bodies.RevisionBody,
        headers=[IF_MATCH],
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
        return answers.approval(actor, id)


class Workflows(Endpoint):
    @described(
        operation_id="list_workflows",
        summary="List the workflows that can be started",
        query=parameters.WorkflowList,
        answers={200: catalogue.WorkflowList},
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
            catalogue.workflow_document(flow, spent, actor=actor, taken=taken, versions=versions)
            for flow in workflows.every()
        ]
        return rendered({"items": items, "project": catalogue.project_limit(actor.project, taken)})


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


def _answered(request: Request, approval_id: UUID, body: bodies.DecisionBody) -> Response:
    actor = actor_of(request)
    decisions = body.spelled_out(queries.action_keys(actor.project.pk, approval_id))
    answer = Answer(
        approval_id=approval_id,
        version=parameters.version(request, body.version),
        digest=body.digest,
        decisions=[_decision(decision) for decision in decisions],
        comment=body.comment,
        reasons=body.reasons,
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
