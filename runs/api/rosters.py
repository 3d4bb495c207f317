"""What the API answers about people: the shape of every document, and how it is made from rows."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from runs.api.bodies import Role, Scope
from runs.api.shapes import Id, PersonDocument, Time, exact, maybe_time, person, time_text
from runs.models import ApiToken, AuditEntry, Invitation, Member, Project, SavedView, Team

Next = Annotated[str | None, Field(description="`after` of the next page; null on the last one.")]


@exact
class ProjectDocument(TypedDict):
    """The project that one is in, and as what."""

    slug: str
    name: str
    created_at: Time
    roles: list[Role]


@exact
class MemberDocument(TypedDict):
    """A member of the project."""

    user: PersonDocument
    email: Annotated[str, Field(description="Empty if there is none.")]
    active: Annotated[bool, Field(description="Whether the account comes in at all.")]
    roles: list[Role]
    teams: list[str]
    joined_at: Time


@exact
class MemberPage(TypedDict):
    items: list[MemberDocument]
    next: Next


@exact
class InvitationDocument(TypedDict):
    """An invitation. Its link is told once, when it is made."""

    id: Id
    roles: list[Role]
    email: Annotated[str, Field(description="Whom it is for; empty: whoever has the link.")]
    author: PersonDocument | None
    created_at: Time
    expires_at: Time
    withdrawn_at: Time | None


@exact
class NewInvitation(InvitationDocument):
    """An invitation, with its link."""

    link: Annotated[str, Field(description="Told this once.")]


@exact
class InvitationList(TypedDict):
    items: list[InvitationDocument]


@exact
class TeamDocument(TypedDict):
    """A team."""

    name: str
    people: list[PersonDocument]


@exact
class TeamPage(TypedDict):
    items: list[TeamDocument]
    next: Next


@exact
class TokenDocument(TypedDict):
    """An API token, without its secret."""

    id: Id
    user: PersonDocument
    name: str
    prefix: str
    scopes: list[Scope]
    created_at: Time
    expires_at: Time | None
    revoked_at: Time | None


@exact
class NewToken(TokenDocument):
    """An API token, with its secret."""

    secret: Annotated[str, Field(description="Told this once; only its hash is kept.")]


@exact
class TokenList(TypedDict):
    items: list[TokenDocument]


@exact
class AuditDocument(TypedDict):
    """Who did what, from where, and what came of it."""

    id: int
    at: Time
    username: Annotated[str, Field(description="Empty for the command line.")]
    method: Annotated[str, Field(examples=["session", "token", "command"])]
    address: str
    verb: str
    target: str
    said: Annotated[str, Field(description="What changed, in words.")]
    outcome: Annotated[str, Field(examples=["done", "denied: forbidden"])]


@exact
class AuditPage(TypedDict):
    items: list[AuditDocument]
    next: Annotated[int | None, Field(description="`before` of the next page; null on the last one.")]


@exact
class ViewDocument(TypedDict):
    """A saved view."""

    id: Id
    page: Annotated[str, Field(examples=["inbox"])]
    name: str
    query: Annotated[dict[str, str], Field(description="What the address of the list says.")]
    owner: PersonDocument
    team: Annotated[str | None, Field(description="Whose people have it too.")]
    created_at: Time
    changed_at: Time


@exact
class ViewList(TypedDict):
    items: list[ViewDocument]


@exact
class Ended(TypedDict):
    """It is done; nothing is left of it to tell."""

    done: Literal[True]


def project_document(project: Project, roles: list[Role]) -> ProjectDocument:
    return {
        "slug": project.slug,
        "name": project.name,
        "created_at": time_text(project.created_at),
        "roles": roles,
    }


def member_document(member: Member) -> MemberDocument:
    """The teams are those of its project, as `roster` reads them."""
    return {
        "user": person(member.user),
        "email": member.user.email,
        "active": member.user.is_active,
        "roles": member.roles,
        "teams": [team.name for team in member.user.teams.all()],
        "joined_at": time_text(member.joined_at),
    }


def invitation_document(invitation: Invitation) -> InvitationDocument:
    return {
        "id": str(invitation.pk),
        "roles": invitation.roles,
        "email": invitation.email,
        "author": person(invitation.author) if invitation.author else None,
        "created_at": time_text(invitation.created_at),
        "expires_at": time_text(invitation.expires_at),
        "withdrawn_at": maybe_time(invitation.withdrawn_at),
    }


def team_document(team: Team) -> TeamDocument:
    return {"name": team.name, "people": [person(user) for user in team.people.all()]}


def token_document(token: ApiToken) -> TokenDocument:
    return {
        "id": str(token.pk),
        "user": person(token.user),
        "name": token.name,
        "prefix": token.prefix,
        "scopes": token.scopes,
        "created_at": time_text(token.created_at),
        "expires_at": maybe_time(token.expires_at),
        "revoked_at": maybe_time(token.revoked_at),
    }


def view_document(view: SavedView) -> ViewDocument:
    return {
        "id": str(view.pk),
        "page": view.page,
        "name": view.name,
        "query": view.query,
        "owner": person(view.owner),
        "team": view.team.name if view.team else None,
        "created_at": time_text(view.created_at),
        "changed_at": time_text(view.changed_at),
    }


def audit_document(entry: AuditEntry) -> AuditDocument:
    return {
        "id": entry.pk,
        "at": time_text(entry.at),
        "username": entry.user_name,
        "method": entry.method,
        "address": entry.ip,
        "verb": entry.verb,
        "target": entry.target,
        "said": entry.reason,
        "outcome": entry.outcome,
    }
