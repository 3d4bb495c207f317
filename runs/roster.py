"""Reads about people: members, teams, invitations, tokens, and who administered what. All within one project."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from django.db.models import Count, Prefetch, Q, QuerySet

from runs import queries, store
from runs.engine.status import ApprovalStatus
from runs.errors import NotFound
from runs.models import ApiToken, Approval, AuditEntry, Invitation, Member, Project, Run, Session, Team, User
from runs.policies import Actor
from runs.store import now

_SEAT: Final = store.Part(Member)
_PROJECT: Final = store.Part(Project, "project")
ADMINISTRATION: Final = (
    "set_roles",
    "remove_member",
    "create_service_account",
    "deactivate",
    "reactivate",
    "add_person",
    "invite",
    "withdraw_invitation",
    "accept_invitation",
    "join_by_invitation",
    "create_team",
    "set_people",
    "delete_team",
    "create_token",
    "revoke_token",
    "rename_project",
    "create_project",
    "set_policy",
    "set_hours",
    "set_project_preference",
    "create_endpoint",
    "change_endpoint",
    "delete_endpoint",
    "rotate_secret",
    "be_away",
    "be_back",
)


# ---- members


def members(project_id: UUID, *, after: str = "", limit: int) -> queries.Page[Member]:
    """Members by account name, with their accounts and teams. Two queries."""
    rows = _with_teams(project_id, Member.objects.filter(project=project_id))
    if after:
        rows = rows.filter(user__username__gt=after)
    return queries.Page.of(rows.order_by("user__username"), limit)


def member(project_id: UUID, username: str) -> Member:
    """One member with their account and teams. Two queries; raises `NotFound`."""
    rows = Member.objects.filter(project=project_id, user__username=username)
    found = _with_teams(project_id, rows).first()
    if found is None:
        raise NotFound()
    return found


def _with_teams(project_id: UUID, rows: QuerySet[Member]) -> QuerySet[Member]:
    teams = Team.objects.filter(project=project_id).order_by("name")
    return rows.select_related("user").prefetch_related(Prefetch("user__teams", queryset=teams))


def asked_by_name(project_id: UUID, username: str) -> int:
    """How many open approvals name this account. One query; counting stops at a thousand."""
    rows = Approval.objects.filter(project=project_id, status=ApprovalStatus.OPEN)
    return rows.filter(users__contains=[username])[:1000].count()


def memberships_of(user: User) -> list[Member]:
    """The projects that a person belongs to, with their roles there, by slug. One query."""

    def query() -> QuerySet[Member, Any]:
        mine = Member.objects.filter(user=store.Given("user")).order_by("project__slug")
        return mine.values_list(*_SEAT.names, *_PROJECT.names)

    found = []
    for row in store.answers("memberships", query, user=user.pk):
        member, member.project = store.instances(row, _SEAT, _PROJECT)
        found.append(member)
    return found


def elsewhere(actor: Actor, *, run_id: UUID | None = None, approval_id: UUID | None = None) -> Project | None:
    """Another project of this person in which that run or approval is. One query, none without ids."""
    mine = Project.objects.filter(members__user=actor.user).exclude(pk=actor.project.pk)
    if approval_id is not None:
        return mine.filter(pk__in=Approval.objects.filter(pk=approval_id).values("project")).first()
    if run_id is not None:
        return mine.filter(pk__in=Run.objects.filter(pk=run_id).values("project")).first()
    return None


# ---- invitations, teams, tokens


def invitations(project_id: UUID, *, limit: int = 200) -> list[Invitation]:
    """Invitations that can still be used, newest first. Two queries."""
    rows = Invitation.objects.filter(
        project=project_id, used_at=None, withdrawn_at=None, expires_at__gt=now()
    )
    return list(rows.select_related("author").order_by("-created_at")[:limit])


def teams(project_id: UUID, *, after: str = "", limit: int) -> queries.Page[Team]:
    """Teams by name, with their people. Two queries."""
    rows = _with_people(Team.objects.filter(project=project_id, name__gt=after))
    return queries.Page.of(rows.order_by("name"), limit)


def team(project_id: UUID, name: str) -> Team:
    """One team with its people. Two queries; raises `NotFound`."""
    found = _with_people(Team.objects.filter(project=project_id, name=name)).first()
    if found is None:
        raise NotFound()
    return found


def _with_people(rows: QuerySet[Team]) -> QuerySet[Team]:
    return rows.prefetch_related(Prefetch("people", queryset=User.objects.order_by("username")))


def asked_teams(project_id: UUID, names: Sequence[str]) -> dict[str, int]:
    """How many open approvals ask each of these teams. One query."""
    counts = {name: Count("pk", filter=Q(teams__contains=[name])) for name in names}
    rows = Approval.objects.filter(project=project_id, status=ApprovalStatus.OPEN)
    told = rows.aggregate(**{f"of_{number}": count for number, count in enumerate(counts.values())})
    return {name: told[f"of_{number}"] for number, name in enumerate(counts)}


def tokens(project_id: UUID, *, user: User | None = None, limit: int = 200) -> list[ApiToken]:
    """API tokens of a project, or of one account in it, newest first. One query."""
    rows = ApiToken.objects.filter(project=project_id).select_related("user")
    if user is not None:
        rows = rows.filter(user=user)
    return list(rows.order_by("-created_at", "-pk")[:limit])


def sessions_of(user: User) -> list[Session]:
    """Browsers in which a person is signed in, last come first. One query."""
    rows = Session.objects.filter(user=user, expire_date__gt=now())
    return list(rows.order_by("-expire_date")[:200])


# ---- the audit of administration


def administered(project_id: UUID, *, before: int | None = None, limit: int) -> queries.Page[AuditEntry]:
    """Who changed what among people and settings, or was denied it, newest first. One query."""
    rows = AuditEntry.objects.filter(project=project_id, verb__in=ADMINISTRATION)
    if before is not None:
        rows = rows.filter(pk__lt=before)
    return queries.Page.of(rows.order_by("-pk"), limit)
