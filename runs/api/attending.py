"""Who works on an approval, several decided together, who is away, when people work, and what they are told."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from runs import operations, queries
from runs.api import answers, attendance, bodies
from runs.api.endpoint import Endpoint, actor_of, rendered
from runs.api.schema import ADMINISTERING, ATTENDING, ID_PARAMETER, answering_approval, described
from runs.operations import Chosen

BERLIN: Final = {
    "zone": "Europe/Berlin",
    "week": {"mon": ["09:00", "17:30"], "fri": ["09:00", "14:00"]},
    "holidays": ["2026-12-25"],
}
ONCE_A_DAY: Final = {"app": ["asked", "failed"], "mail": ["asked"], "digest": True, "hour": 8}


class Assign(Endpoint):
    @answering_approval(
        operation_id="assign_approval",
        summary="Work on an approval, or give it to somebody",
        description="Others cannot answer it meanwhile: for an hour if you take it on, for a day if you give it to somebody. "
        "What somebody else works on is taken over with a `reason`.",
        body=bodies.AssignmentBody,
        errors=[*ATTENDING, "already_assigned", "schema_violation"],
        examples={
            "Claim": {},
            "Take over": {"reason": "Felix has gone home"},
            "Give to Felix": {"to": "felix", "reason": "you know this customer"},
        },
    )
    def post(self, request: Request, id: UUID, body: bodies.AssignmentBody) -> Response:
        actor = actor_of(request)
        operations.assign(actor=actor, approval_id=id, to=body.to, reason=body.reason)
        return answers.approval(actor, id)


class Unassign(Endpoint):
    @answering_approval(
        operation_id="unassign_approval",
        summary="Work on an approval no longer",
        description="Operators may also release what somebody else works on, with a `reason`.",
        body=bodies.WhyBody,
        errors=[*ATTENDING, "already_assigned", "reason_required"],
        examples={"Release": {}},
    )
    def post(self, request: Request, id: UUID, body: bodies.WhyBody) -> Response:
        actor = actor_of(request)
        operations.unassign(actor=actor, approval_id=id, reason=body.reason)
        return answers.approval(actor, id)


class Snooze(Endpoint):
    @answering_approval(
        operation_id="snooze_approval",
        summary="Not to see an approval in your inbox for a while",
        description="Its time goes on running. `until: null` shows it again.",
        body=bodies.SnoozeBody,
        errors=[*ATTENDING, "schema_violation"],
        examples={"Until Monday": {"until": "2026-12-07T08:00:00+00:00"}, "Now": {"until": None}},
    )
    def post(self, request: Request, id: UUID, body: bodies.SnoozeBody) -> Response:
        actor = actor_of(request)
        operations.snooze(actor=actor, approval_id=id, until=body.until)
        return answers.approval(actor, id)


class Extend(Endpoint):
    @answering_approval(
        operation_id="extend_approval",
        summary="Give people more time for an approval",
        description="For who may decide it, and operators; to a later instant only.",
        body=bodies.ExtensionBody,
        errors=[*ATTENDING, "schema_violation", "reason_required"],
        examples={"A day more": {"due_at": "2026-12-02T17:00:00+00:00", "reason": "we wait for the bank"}},
    )
    def post(self, request: Request, id: UUID, body: bodies.ExtensionBody) -> Response:
        actor = actor_of(request)
        operations.extend(actor=actor, approval_id=id, due_at=body.due_at, reason=body.reason)
        return answers.approval(actor, id)


class AttendTogether(Endpoint):
    @described(
        operation_id="attend_together",
        summary="Claim, release or snooze several approvals",
        description="Each by itself: what is refused holds up no other, and its item says why.",
        body=bodies.SeveralBody,
        answers={200: attendance.SeveralDocument},
        errors=["missing_scope"],
        examples={
            "Claim two": {
                "do": "assign",
                "approvals": ["0d7a4c1e-6a51-4b53-9a06-1f1b0a3f8a11", "7b1c2f70-27a2-4f0e-8f0a-2b9f53d0c2aa"],
            }
        },
    )
    def post(self, request: Request, body: bodies.SeveralBody) -> Response:
        done = operations.attend_together(
            actor=actor_of(request), approval_ids=body.approvals, do=body.do, until=body.until
        )
        return rendered(attendance.several_document(done))


class DecideTogether(Endpoint):
    @described(
        operation_id="decide_together",
        summary="Decide several approvals with one word",
        description="They ask the same (node, actions, people), every action is of low risk and can be undone. All are looked "
        "at before one is stored: 409 `nothing_decided` lists in `items` what stands in the way. `dry` only says what would "
        "come of it. A result may still be an error: somebody was faster.",
        body=bodies.TogetherBody,
        answers={200: attendance.TogetherDocument},
        errors=["missing_scope", "nothing_decided"],
        examples={
            "Two at once": {
                "word": "approve",
                "approvals": [
                    {"id": "0d7a4c1e-6a51-4b53-9a06-1f1b0a3f8a11", "version": 1},
                    {"id": "7b1c2f70-27a2-4f0e-8f0a-2b9f53d0c2aa", "version": 1},
                ],
            }
        },
    )
    def post(self, request: Request, body: bodies.TogetherBody) -> Response:
        done = operations.decide_together(
            actor=actor_of(request),
            chosen=[Chosen(one.id, one.version, one.digest) for one in body.approvals],
            word=body.word,
            comment=body.comment,
            dry=body.dry,
        )
        return rendered(attendance.together_document(done))


class Absences(Endpoint):
    read_scope = "approvals:read"

    @described(
        operation_id="list_absences",
        summary="List who is away, or will be",
        answers={200: attendance.AbsenceList},
        errors=["missing_scope"],
    )
    def get(self, request: Request) -> Response:
        rows = queries.absences(actor_of(request).project.pk)
        return rendered({"items": [attendance.absence_document(row) for row in rows]})

    @described(
        operation_id="be_away",
        summary="Name who answers while you are away",
        description="Admins may do so for others (`user`). The substitute answers in your place: one of you counts.",
        body=bodies.AbsenceBody,
        answers={201: attendance.AbsenceDocument},
        errors=["missing_scope", "schema_violation"],
        examples={
            "A week": {
                "substitute": "felix",
                "starts_at": "2026-12-07T00:00:00+01:00",
                "ends_at": "2026-12-14T00:00:00+01:00",
            }
        },
    )
    def post(self, request: Request, body: bodies.AbsenceBody) -> Response:
        made = operations.be_away(
            actor=actor_of(request),
            substitute=body.substitute,
            starts_at=body.starts_at,
            ends_at=body.ends_at,
            note=body.note,
            user=body.user,
        )
        return rendered(attendance.absence_document(made), 201)


class AbsenceEnd(Endpoint):
    @described(
        operation_id="be_back",
        summary="Take an absence back, or end it now",
        body=bodies.Nothing,
        headers=[ID_PARAMETER],
        answers={200: attendance.AbsenceDocument},
        errors=["missing_scope", "not_found"],
        examples={"Back": {}},
    )
    def post(self, request: Request, id: UUID) -> Response:
        ended = operations.be_back(actor=actor_of(request), absence_id=id)
        return rendered(attendance.absence_document(ended))


class TeamHours(Endpoint):
    read_scope = "approvals:read"

    @described(
        operation_id="get_team_hours",
        summary="When the people of a team work",
        answers={200: attendance.HoursDocument},
        errors=["missing_scope", "not_found"],
    )
    def get(self, request: Request, team: str) -> Response:
        return _team_hours(request, team)

    @described(
        operation_id="set_team_hours",
        summary="Say when the people of a team work",
        description="Counts for what is asked from now on, where a node says `due` in business hours or days.",
        body=bodies.HoursBody,
        answers={200: attendance.HoursDocument},
        errors=["missing_scope", "not_found", "schema_violation"],
        examples={"Berlin": BERLIN},
    )
    def put(self, request: Request, team: str, body: bodies.HoursBody) -> Response:
        operations.set_hours(actor=actor_of(request), team=team, hours=body.model_dump())
        return _team_hours(request, team)

    @described(
        operation_id="drop_team_hours",
        summary="Let a team work as the project says",
        description="Again changes nothing.",
        answers={200: attendance.HoursDocument},
        errors=["missing_scope", "not_found"],
    )
    def delete(self, request: Request, team: str) -> Response:
        operations.set_hours(actor=actor_of(request), team=team, hours=None)
        return _team_hours(request, team)


class ProjectHours(Endpoint):
    read_scope = "approvals:read"

    @described(
        operation_id="get_project_hours",
        summary="When people work whose team says nothing",
        answers={200: attendance.ProjectHoursDocument},
        errors=["missing_scope"],
    )
    def get(self, request: Request) -> Response:
        return _project_hours(request)

    @described(
        operation_id="set_project_hours",
        summary="Say when people work whose team says nothing",
        description="And whoever is asked without a team. Counts for what is asked from now on.",
        body=bodies.HoursBody,
        answers={200: attendance.ProjectHoursDocument},
        errors=["missing_scope", "schema_violation"],
        examples={"Berlin": BERLIN},
    )
    def put(self, request: Request, body: bodies.HoursBody) -> Response:
        operations.set_hours(actor=actor_of(request), team="", hours=body.model_dump())
        return _project_hours(request)

    @described(
        operation_id="drop_project_hours",
        summary="Go back to the standard week",
        description="Monday to Friday, nine to five, UTC. Again changes nothing.",
        answers={200: attendance.ProjectHoursDocument},
        errors=["missing_scope"],
    )
    def delete(self, request: Request) -> Response:
        operations.set_hours(actor=actor_of(request), team="", hours=None)
        return _project_hours(request)


class Preferences(Endpoint):
    read_scope = "approvals:read"

    @described(
        operation_id="get_preference",
        summary="What you are told in this project, and how",
        answers={200: attendance.PreferenceDocument},
        errors=["missing_scope"],
    )
    def get(self, request: Request) -> Response:
        return _preference(request)

    @described(
        operation_id="set_preference",
        summary="Say what you want to be told",
        description="It holds for what happens from now on. For the account of the token; service accounts are told nothing.",
        body=bodies.PreferenceBody,
        answers={200: attendance.PreferenceDocument},
        errors=["missing_scope", "not_found"],
        examples={"Once a day": ONCE_A_DAY},
    )
    def put(self, request: Request, body: bodies.PreferenceBody) -> Response:
        operations.set_preference(
            actor=actor_of(request), app=body.app, mail=body.mail, digest=body.digest, hour=body.hour
        )
        return _preference(request)

    @described(
        operation_id="drop_preference",
        summary="Be told what the project says",
        description="Again changes nothing.",
        answers={200: attendance.PreferenceDocument},
        errors=["missing_scope", "not_found"],
    )
    def delete(self, request: Request) -> Response:
        operations.drop_preference(actor=actor_of(request))
        return _preference(request)


class ProjectPreferences(Endpoint):
    read_scope = "approvals:read"

    @described(
        operation_id="get_project_preference",
        summary="What people are told who have said nothing",
        answers={200: attendance.PreferenceDocument},
        errors=["missing_scope"],
    )
    def get(self, request: Request) -> Response:
        return _project_preference(request)

    @described(
        operation_id="set_project_preference",
        summary="Say what people are told who have said nothing",
        body=bodies.PreferenceBody,
        answers={200: attendance.PreferenceDocument},
        errors=ADMINISTERING,
        examples={"Once a day": ONCE_A_DAY},
    )
    def put(self, request: Request, body: bodies.PreferenceBody) -> Response:
        operations.set_project_preference(
            actor=actor_of(request), app=body.app, mail=body.mail, digest=body.digest, hour=body.hour
        )
        return _project_preference(request)


# ---- rendering


def _team_hours(request: Request, team: str) -> Response:
    hours, told = queries.team_hours(actor_of(request).project.pk, team)
    return rendered(attendance.hours_document(team, hours, told=told))


def _project_hours(request: Request) -> Response:
    hours, told = queries.project_hours(actor_of(request).project.pk)
    return rendered(attendance.project_hours_document(hours, told=told))


def _preference(request: Request) -> Response:
    actor = actor_of(request)
    told = queries.preference(actor.project.pk, actor.user)
    return rendered(attendance.preference_document(told, standard=told.user_id is None))


def _project_preference(request: Request) -> Response:
    told = queries.project_preference(actor_of(request).project.pk)
    return rendered(attendance.preference_document(told, standard=told.pk is None))
