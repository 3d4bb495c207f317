"""The endpoints of people and settings: parse, one operation or query, render."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from runs import operations, policies, roster
from runs.api import bodies, parameters, rosters
from runs.api.endpoint import Endpoint, actor_of, paged, rendered
from runs.api.schema import ADMINISTERING, ID_PARAMETER, NAME_PARAMETER, USERNAME_PARAMETER, described
from runs.models.people import ROLES


class Administration(Endpoint):
    """An address for admins, reading too: it takes the role and, of a token, the scope `admin`.

    Operations check that themselves, and write down who was refused.
    """

    read_scope = "admin"

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if request.method in self.reads:
            policies.check_administer(actor_of(request))


class ProjectDetail(Endpoint):
    @described(
        operation_id="get_project",
        summary="Get the project that one is in",
        answers={200: rosters.ProjectDocument},
    )
    def get(self, request: Request) -> Response:
        return _project(request)

    @described(
        operation_id="rename_project",
        summary="Give the project another name",
        body=bodies.ProjectBody,
        answers={200: rosters.ProjectDocument},
        errors=ADMINISTERING,
        examples={"A name": {"name": "Refunds of the north"}},
    )
    def patch(self, request: Request, body: bodies.ProjectBody) -> Response:
        operations.rename_project(actor=actor_of(request), name=body.name)
        return _project(request)


class Members(Administration):
    @described(
        operation_id="list_members",
        summary="List the members by account name",
        query=parameters.RosterList,
        answers={200: rosters.MemberPage},
        errors=["missing_scope"],
    )
    def get(self, request: Request, wanted: parameters.RosterList) -> Response:
        page = roster.members(actor_of(request).project.pk, after=wanted.after, limit=wanted.limit)
        items = [rosters.member_document(member) for member in page.rows]
        return paged(items, page, lambda member: member.user.username)


class MemberDetail(Administration):
    @described(
        operation_id="get_member",
        summary="Get a member",
        headers=[USERNAME_PARAMETER],
        answers={200: rosters.MemberDocument},
        errors=["not_found", "missing_scope"],
    )
    def get(self, request: Request, username: str) -> Response:
        return _member(request, username)

    @described(
        operation_id="set_roles",
        summary="Say what a member may do",
        body=bodies.RolesBody,
        headers=[USERNAME_PARAMETER],
        answers={200: rosters.MemberDocument},
        errors=[*ADMINISTERING, "last_admin"],
        examples={"A reviewer": {"roles": ["reviewer"]}},
    )
    def patch(self, request: Request, username: str, body: bodies.RolesBody) -> Response:
        operations.set_roles(actor=actor_of(request), username=username, roles=body.roles)
        return _member(request, username)

    @described(
        operation_id="remove_member",
        summary="Take a member out of the project",
        description="Their teams and tokens in it end; the account and its other projects stay.",
        headers=[USERNAME_PARAMETER],
        answers={200: rosters.Ended},
        errors=[*ADMINISTERING, "last_admin"],
    )
    def delete(self, request: Request, username: str) -> Response:
        operations.remove_member(actor=actor_of(request), username=username)
        return rendered({"done": True})


class Deactivate(Administration):
    @described(
        operation_id="deactivate_member",
        summary="Close an account, at once and everywhere",
        description="Its sessions, tokens and open pages end, and no approval counts it as a candidate. Runs that it "
        "started go on.",
        body=bodies.Nothing,
        headers=[USERNAME_PARAMETER],
        answers={200: rosters.MemberDocument},
        errors=[*ADMINISTERING, "last_admin", "works_elsewhere", "conflict"],
    )
    def post(self, request: Request, username: str) -> Response:
        operations.deactivate(actor=actor_of(request), username=username)
        return _member(request, username)


class Reactivate(Administration):
    @described(
        operation_id="reactivate_member",
        summary="Open an account again",
        description="Its tokens work as before, unless they were revoked.",
        body=bodies.Nothing,
        headers=[USERNAME_PARAMETER],
        answers={200: rosters.MemberDocument},
        errors=[*ADMINISTERING, "works_elsewhere"],
    )
    def post(self, request: Request, username: str) -> Response:
        operations.reactivate(actor=actor_of(request), username=username)
        return _member(request, username)


class ServiceAccounts(Administration):
    @described(
        operation_id="create_service_account",
        summary="Make an account for a program",
        body=bodies.ServiceAccountBody,
        answers={201: rosters.MemberDocument},
        errors=[*ADMINISTERING, "name_taken"],
        examples={"A shop": {"username": "shop", "name": "Shop", "roles": ["submitter"]}},
    )
    def post(self, request: Request, body: bodies.ServiceAccountBody) -> Response:
        made = operations.create_service_account(
            actor=actor_of(request), username=body.username, name=body.name, roles=body.roles
        )
        return _member(request, made.user.username, status=201)


class Invitations(Administration):
    @described(
        operation_id="list_invitations",
        summary="List the invitations that can still be used",
        answers={200: rosters.InvitationList},
        errors=["missing_scope"],
    )
    def get(self, request: Request) -> Response:
        found = roster.invitations(actor_of(request).project.pk)
        return rendered({"items": [rosters.invitation_document(one) for one in found]})

    @described(
        operation_id="invite",
        summary="Invite somebody",
        description="The link is told this once. With an address the invitation is sent there too, and is for that "
        "address alone.",
        body=bodies.InvitationBody,
        answers={201: rosters.NewInvitation},
        errors=ADMINISTERING,
        examples={
            "By mail": {"roles": ["reviewer"], "email": "nina@example.com"},
            "By link": {"roles": ["viewer"], "days": 2},
        },
    )
    def post(self, request: Request, body: bodies.InvitationBody) -> Response:
        made, link = operations.invite(
            actor=actor_of(request),
            roles=body.roles,
            email=body.email,
            days=body.days,
            link=lambda secret: request.build_absolute_uri(reverse("join", args=[secret])),
        )
        return rendered({**rosters.invitation_document(made), "link": link}, 201)


class InvitationDetail(Administration):
    @described(
        operation_id="withdraw_invitation",
        summary="End an invitation that nobody has used",
        description="Again changes nothing.",
        headers=[ID_PARAMETER],
        answers={200: rosters.InvitationDocument},
        errors=[*ADMINISTERING, "conflict"],
    )
    def delete(self, request: Request, id: UUID) -> Response:
        found = operations.withdraw_invitation(actor=actor_of(request), invitation_id=id)
        return rendered(rosters.invitation_document(found))


class Teams(Administration):
    @described(
        operation_id="list_teams",
        summary="List the teams by name",
        query=parameters.RosterList,
        answers={200: rosters.TeamPage},
        errors=["missing_scope"],
    )
    def get(self, request: Request, wanted: parameters.RosterList) -> Response:
        page = roster.teams(actor_of(request).project.pk, after=wanted.after, limit=wanted.limit)
        items = [rosters.team_document(team) for team in page.rows]
        return paged(items, page, lambda team: team.name)

    @described(
        operation_id="create_team",
        summary="Make a team",
        body=bodies.TeamBody,
        answers={201: rosters.TeamDocument},
        errors=[*ADMINISTERING, "name_taken"],
        examples={"A team": {"name": "finance", "people": ["frida", "felix"]}},
    )
    def post(self, request: Request, body: bodies.TeamBody) -> Response:
        operations.create_team(actor=actor_of(request), name=body.name, people=body.people)
        return _team(request, body.name, status=201)


class TeamDetail(Administration):
    @described(
        operation_id="get_team",
        summary="Get a team",
        headers=[NAME_PARAMETER],
        answers={200: rosters.TeamDocument},
        errors=["not_found", "missing_scope"],
    )
    def get(self, request: Request, name: str) -> Response:
        return _team(request, name)

    @described(
        operation_id="set_people",
        summary="Say who is in a team",
        description="These members, nobody else; open approvals ask whoever is in it from now on.",
        body=bodies.PeopleBody,
        headers=[NAME_PARAMETER],
        answers={200: rosters.TeamDocument},
        errors=ADMINISTERING,
        examples={"Two": {"people": ["frida", "felix"]}},
    )
    def patch(self, request: Request, name: str, body: bodies.PeopleBody) -> Response:
        operations.set_people(actor=actor_of(request), team=name, people=body.people)
        return _team(request, name)

    @described(
        operation_id="delete_team",
        summary="Dissolve a team",
        headers=[NAME_PARAMETER],
        answers={200: rosters.Ended},
        errors=[*ADMINISTERING, "team_in_use"],
    )
    def delete(self, request: Request, name: str) -> Response:
        operations.delete_team(actor=actor_of(request), team=name)
        return rendered({"done": True})


class Tokens(Endpoint):
    read_scope = "admin"

    @described(
        operation_id="list_tokens",
        summary="List API tokens, newest first",
        description="One's own; for an admin those of the project.",
        answers={200: rosters.TokenList},
        errors=["missing_scope"],
    )
    def get(self, request: Request) -> Response:
        actor = actor_of(request)
        mine = None if policies.can_administer(actor) else actor.user
        found = roster.tokens(actor.project.pk, user=mine)
        return rendered({"items": [rosters.token_document(token) for token in found]})

    @described(
        operation_id="create_token",
        summary="Make an API token",
        description="For oneself, or as an admin for a service account. A token makes none that may do more than itself.",
        body=bodies.TokenBody,
        answers={201: rosters.NewToken},
        errors=["not_found", "missing_scope", "busy"],
        examples={
            "To submit": {"name": "shop backend", "scopes": ["runs:submit", "runs:read"], "username": "shop"}
        },
    )
    def post(self, request: Request, body: bodies.TokenBody) -> Response:
        actor = actor_of(request)
        token, secret = operations.create_token(
            actor=actor,
            name=body.name,
            scopes=body.scopes,
            expires_at=body.expires_at,
            user=None if body.username is None else roster.member(actor.project.pk, body.username).user,
        )
        return rendered({**rosters.token_document(token), "secret": secret}, 201)


class TokenDetail(Endpoint):
    @described(
        operation_id="revoke_token",
        summary="End an API token",
        description="One's own, or as an admin any of the project. Again changes nothing.",
        headers=[ID_PARAMETER],
        answers={200: rosters.TokenDocument},
        errors=["not_found", "missing_scope", "busy"],
    )
    def delete(self, request: Request, id: UUID) -> Response:
        return rendered(rosters.token_document(operations.revoke_token(actor=actor_of(request), token_id=id)))


class Audit(Administration):
    @described(
        operation_id="list_audit",
        summary="List who administered what, newest first",
        query=parameters.AuditList,
        answers={200: rosters.AuditPage},
        errors=["missing_scope"],
    )
    def get(self, request: Request, wanted: parameters.AuditList) -> Response:
        page = roster.administered(actor_of(request).project.pk, before=wanted.before, limit=wanted.limit)
        items = [rosters.audit_document(entry) for entry in page.rows]
        return paged(items, page, lambda entry: entry.pk)


# ---- rendering


def _project(request: Request) -> Response:
    actor = actor_of(request)
    return rendered(rosters.project_document(actor.project, [role for role in ROLES if role in actor.roles]))


def _member(request: Request, username: str, status: int = 200) -> Response:
    return rendered(rosters.member_document(roster.member(actor_of(request).project.pk, username)), status)


def _team(request: Request, name: str, status: int = 200) -> Response:
    return rendered(rosters.team_document(roster.team(actor_of(request).project.pk, name)), status)
