"""May this user do this to this run now. `check_*` raises, `can_*` answers; one place for pages, API and commands.

viewer reads. submitter submits and cancels own runs. reviewer decides and revises, edits state and rewinds where they
may decide. operator does every run verb, and decides only as a candidate. An outsider cannot tell a run that is
forbidden from one that does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Exists, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Now

from runs.engine import canonical, redaction
from runs.engine.canonical import Json
from runs.engine.state import StateSchema
from runs.errors import (
    FieldNotEditable,
    Forbidden,
    HitlError,
    MissingScope,
    NotACandidate,
    NotFound,
    Problem,
    SelfApproval,
    Told,
)
from runs.models import Absence, ApiToken, Approval, Member, Project, Run, SavedView, User
from runs.store import Given, Part, answers, instances

_PERSON = Part(User)
SUBMITTERS = frozenset({"submitter", "operator"})
DECIDERS = frozenset({"reviewer", "operator"})
OPERATORS = frozenset({"operator"})
KEEPERS = frozenset({"operator", "admin"})
ADMINS = frozenset({"admin"})
FOR_MANY = {  # who could do a verb to any run at all
    "retry": OPERATORS,
    "rewind": DECIDERS,
    "pause": OPERATORS,
    "resume": OPERATORS,
    "cancel": SUBMITTERS,
}


@dataclass(frozen=True, slots=True)
class Seat:
    """In whose name somebody may answer: their own, or that of a person who is away and has named them as substitute."""

    user: User
    teams: frozenset[str]
    reviewer: bool
    own: bool

    def is_asked(self, approval: Approval) -> bool:
        """Whether an approval asks this person now: by name, by team, or as any reviewer if it names nobody."""
        if not approval.teams and not approval.users:
            return self.reviewer
        return self.user.username in approval.users or bool(self.teams & set(approval.teams))


@dataclass(frozen=True)
class Actor:
    """Who acts, in which project, and how they came in (session, token, command, system)."""

    user: User
    project: Project
    method: str
    address: str = ""
    token: ApiToken | None = field(default=None, compare=False)
    member: Member | None = field(default=None, compare=False)  # if whoever made the actor has read it

    @cached_property
    def roles(self) -> frozenset[str]:
        """What this person may do in the project; nothing without a seat there. One query, none with a `member`."""
        member = self.member or Member.objects.filter(project=self.project, user=self.user).first()
        return frozenset(member.roles) if member and self.user.is_active else frozenset()

    @cached_property
    def seats(self) -> tuple[Seat, ...]:
        """The actor's own seat, then those of people who are away now and have named the actor. One query."""
        seats = []
        for row in answers("seats", _seats, user=self.user.pk, project=self.project.pk):
            [user], (teams, reviews) = instances(row, _PERSON), row[len(_PERSON.names) :]
            seats.append(Seat(user, frozenset(teams), reviews, user.pk == self.user.pk))
        return tuple(sorted(seats, key=lambda seat: (not seat.own, seat.user.username)))

    def as_dict(self) -> dict[str, Json]:
        """As it stands in history and decisions."""
        return {"type": "user", "id": self.user.pk, "name": str(self.user)}


def _seats() -> QuerySet[User, Any]:
    """Each with the names of their teams, and whether they are reviewers."""
    me, project = Given("user"), Given("project")
    away = Absence.objects.filter(
        project=project, substitute=me, ended_at=None, starts_at__lte=Now(), ends_at__gt=Now()
    )
    deciding = Member.objects.filter(project=project, roles__overlap=sorted(DECIDERS))
    absent = Q(pk__in=away.values("user"), is_active=True) & Q(pk__in=deciding.values("user"))
    found = User.objects.filter(Q(pk=me) | absent).annotate(
        names=ArrayAgg("teams__name", filter=Q(teams__project=project), default=Value([])),
        reviews=Exists(
            Member.objects.filter(project=project, user=OuterRef("pk"), roles__contains=["reviewer"])
        ),
    )
    return found.values_list(*_PERSON.names, "names", "reviews")


SYSTEM: dict[str, Json] = {"type": "system", "id": None, "name": "system"}


def check_scope(actor: Actor, scope: str) -> None:
    if actor.token is not None and scope not in actor.token.scopes:
        raise MissingScope(
            Told("The API token lacks the scope {scope}.", scope=scope),
            scope=scope,
            scopes=list(actor.token.scopes),
        )


def check_view(actor: Actor, project_id: Any) -> None:
    """Raises `NotFound` to outsiders: they learn nothing."""
    if actor.project.pk != project_id or not actor.roles:
        raise NotFound()


def check_submit(actor: Actor) -> None:
    check_scope(actor, "runs:submit")
    _check_role(actor, SUBMITTERS, "submit runs")


def can_submit(actor: Actor) -> bool:
    return can(check_submit, actor)


def check_submit_for(actor: Actor) -> None:
    """Submit a run for somebody else, who counts as its requester: API tokens with a scope of its own."""
    if actor.token is None:
        raise Forbidden("Only an API token with the scope runs:submit_for_others submits for others.")
    check_scope(actor, "runs:submit_for_others")


def is_requester(user: User, run: Run) -> bool:
    """Whether somebody asked for a run: it acts for them, or they submitted it for somebody else."""
    return user.pk in (run.requester_id, run.submitted_by_id)


def check_cancel(actor: Actor, run: Run) -> None:
    _check_own_or_operate(actor, run, "cancel this run")


def check_prioritise(actor: Actor, run: Run) -> None:
    """Say who goes first among the project's runs: operators."""
    check_view(actor, run.project_id)
    check_scope(actor, "runs:operate")
    _check_role(actor, OPERATORS, "change the priority of this run")


def check_signal(actor: Actor, run: Run) -> None:
    """Send a signal to a run: whoever may cancel it may."""
    _check_own_or_operate(actor, run, "send signals to this run")


def check_attach(actor: Actor, run: Run) -> None:
    """Give a file to a run: whoever may cancel it may."""
    _check_own_or_operate(actor, run, "attach files to this run")


def _check_own_or_operate(actor: Actor, run: Run, what: str) -> None:
    """Who asked for a run, and operators."""
    check_view(actor, run.project_id)
    own = is_requester(actor.user, run)
    check_scope(actor, "runs:submit" if own else "runs:operate")
    _check_role(actor, SUBMITTERS if own else OPERATORS, what)


def check_steer(actor: Actor, run: Run) -> None:
    """Rewind or edit the state: operators, and reviewers where they may decide."""
    check_view(actor, run.project_id)
    check_scope(actor, "runs:operate")
    if "operator" in actor.roles:
        return
    _check_role(actor, DECIDERS, "rewind or edit this run")
    if is_requester(actor.user, run):
        raise SelfApproval("Whoever requested the run may not rewind or edit it.")
    if not any(seat_of(actor, run, approval) for approval in Approval.objects.filter(run=run)):
        raise NotACandidate("Only people who are asked about this run may rewind or edit it.")


def check_fork(actor: Actor, run: Run) -> None:
    """Start a new run from a checkpoint of this one: operators. It acts for whoever requested this one."""
    check_view(actor, run.project_id)
    check_scope(actor, "runs:operate")
    _check_role(actor, OPERATORS, "fork runs")


def check_edit(actor: Actor, schema: StateSchema, changes: Iterable[str]) -> None:
    """Replace these fields of a state, wherever they are edited. Names every field that is refused, and who may.

    Whom a run acts for, what it may spend and what people decided are no fields of a state: no edit reaches them.
    """
    changes = list(changes)
    refused = [
        Problem(f"/{canonical.escape(key)}", "not_editable", _editors(schema.editors[key]))
        for key in changes
        if key in schema.editors and not actor.roles & set(schema.editors[key])
    ]
    blind = set(redaction.blind_keys(changes, schema.json_schema, actor.roles))
    refused += [
        Problem(f"/{canonical.escape(key)}", "hidden", "it is hidden from you")
        for key in changes
        if key in blind
    ]
    if refused:
        first = refused[0]
        raise FieldNotEditable(
            Told("You may not edit {path}: {message}.", path=first.path[1:], message=first.message),
            errors=refused,
        )


def may_edit(actor: Actor, schema: StateSchema) -> list[str]:
    """The fields of a state that somebody who may edit it at all may replace."""
    mine = [name for name, roles in schema.editors.items() if actor.roles & set(roles)]
    blind = redaction.blind_keys(mine, schema.json_schema, actor.roles)
    return [name for name in mine if name not in blind]


def _editors(roles: Sequence[str]) -> str:
    if not roles:
        return Told("nobody may edit it")
    return Told("it takes the role {choices}", choices=" or ".join(roles))


def check_migrate(actor: Actor, run: Run) -> None:
    """Take a run to another version of its workflow: operators."""
    check_view(actor, run.project_id)
    check_scope(actor, "runs:operate")
    _check_role(actor, OPERATORS, "migrate runs")


def check_retry(actor: Actor, run: Run) -> None:
    """Let a failed run go on: operators."""
    check_view(actor, run.project_id)
    check_scope(actor, "runs:operate")
    _check_role(actor, OPERATORS, "retry runs")


def check_pause(actor: Actor, run: Run) -> None:
    """Hold a run, and let it go on: operators."""
    check_view(actor, run.project_id)
    check_scope(actor, "runs:operate")
    _check_role(actor, OPERATORS, "pause or resume runs")


def check_keep(actor: Actor, run: Run) -> None:
    """Put a run under a legal hold, lift it, erase its content: operators and admins."""
    check_view(actor, run.project_id)
    check_scope(actor, "runs:operate")
    _check_role(actor, KEEPERS, "hold or erase runs")


def check_watch(actor: Actor) -> None:
    """See how the house does: workers, what is stuck, what does not hold. Operators and admins."""
    check_scope(actor, "runs:read")
    _check_role(actor, KEEPERS, "see how the house does")


def check_repair(actor: Actor, run: Run) -> None:
    """Put right what must hold of a run and does not: operators."""
    check_view(actor, run.project_id)
    check_scope(actor, "runs:operate")
    _check_role(actor, OPERATORS, "repair runs")


def check_stats(actor: Actor) -> None:
    """See what is counted of the project: everybody in it. It names workflows, nodes, teams and codes, never what a run holds."""
    check_view(actor, actor.project.pk)
    check_scope(actor, "runs:read")


def check_policy(actor: Actor, project: Project) -> None:
    """Say how long things are kept: admins."""
    check_view(actor, project.pk)
    _check_role(actor, ADMINS, "change how long things are kept")


def check_administer(actor: Actor, what: str = "administer this project") -> None:
    """Members, teams, tokens of others, invitations, settings, the audit: admins."""
    check_scope(actor, "admin")
    _check_role(actor, ADMINS, what)


def can_administer(actor: Actor) -> bool:
    return can(check_administer, actor)


def check_webhooks(actor: Actor) -> None:
    """Say where a project's webhooks go: admins."""
    check_view(actor, actor.project.pk)
    check_scope(actor, "runs:operate")
    _check_role(actor, ADMINS, "manage webhooks")


def check_deliveries(actor: Actor) -> None:
    """See what was sent to whom, and how that went: operators and admins."""
    check_view(actor, actor.project.pk)
    check_scope(actor, "runs:read")
    _check_role(actor, KEEPERS, "see deliveries")


def check_redeliver(actor: Actor) -> None:
    """Send something once more: operators and admins."""
    check_view(actor, actor.project.pk)
    check_scope(actor, "runs:operate")
    _check_role(actor, KEEPERS, "send a delivery again")


def check_decide(actor: Actor, run: Run, approval: Approval) -> Seat:
    """Answer or revise an approval. The one rule of who may decide, for every path; returns in whose name."""
    check_view(actor, run.project_id)
    check_scope(actor, "approvals:decide")
    if actor.user.pk in barred(run, approval):
        raise SelfApproval()
    _check_role(actor, DECIDERS, "decide")
    seat = seat_of(actor, run, approval)
    if seat is None:
        asked = ", ".join([*approval.teams, *approval.users])
        raise NotACandidate(
            Told("Only {asked} may decide this.", asked=asked or "a reviewer"), candidates=asked
        )
    return seat


def check_answer(actor: Actor) -> None:
    """Answer approvals at all: reviewers and operators. Which ones, `check_decide` says."""
    check_view(actor, actor.project.pk)
    check_scope(actor, "approvals:decide")
    _check_role(actor, DECIDERS, "answer approvals")


def barred(run: Run, approval: Approval) -> frozenset[int]:
    """The ids of those who asked for a run, and so may not decide about it."""
    if approval.options.get("requester_may_decide"):
        return frozenset()
    return frozenset(pk for pk in (run.requester_id, run.submitted_by_id) if pk is not None)


def seat_of(actor: Actor, run: Run, approval: Approval) -> Seat | None:
    """In whose name an approval asks this person: their own if it can be; never that of who asked for the run."""
    nobody = barred(run, approval)
    return next(
        (seat for seat in actor.seats if seat.user.pk not in nobody and seat.is_asked(approval)), None
    )


def check_direct(actor: Actor, run: Run, approval: Approval) -> None:
    """Give an approval to somebody else to work on, extend its time: who may decide it, and operators."""
    check_view(actor, run.project_id)
    check_scope(actor, "approvals:decide")
    if "operator" not in actor.roles:
        check_decide(actor, run, approval)


def check_views(actor: Actor, page: str) -> None:
    """Keep lists by name: every member, for themselves and for teams that they are in."""
    check_view(actor, actor.project.pk)
    check_scope(actor, "runs:operate" if page == "runs" else "approvals:decide")


def check_own_view(actor: Actor, view: SavedView) -> None:
    """Change a saved view: whose it is."""
    if view.owner_id != actor.user.pk:
        raise Forbidden(Told("The view is {owner}'s; save one of your own.", owner=view.owner))


def check_delete_view(actor: Actor, view: SavedView) -> None:
    """Delete a saved view: whose it is, and admins."""
    if "admin" not in actor.roles:
        check_own_view(actor, view)


def check_absence(actor: Actor, user: User) -> None:
    """Say that somebody is away, and who answers in their place: they themselves, and admins."""
    check_view(actor, actor.project.pk)
    check_scope(actor, "approvals:decide")
    _check_role(actor, DECIDERS if user.pk == actor.user.pk else ADMINS, "say who is away")


def check_preference(actor: Actor) -> None:
    """Say what one hears of oneself: every member."""
    check_view(actor, actor.project.pk)
    check_scope(actor, "approvals:decide")


def check_hours(actor: Actor) -> None:
    """Say when the people of a team or of the project work: admins."""
    check_view(actor, actor.project.pk)
    check_scope(actor, "approvals:decide")
    _check_role(actor, ADMINS, "change when a team works")


def can(check: Callable[..., object], actor: Actor, *things: Any) -> bool:
    """Whether a check would pass: for showing or hiding what leads there."""
    try:
        check(actor, *things)
    except HitlError:
        return False
    return True


def can_answer(actor: Actor) -> bool:
    return can(check_answer, actor)


def verbs_for_many(actor: Actor) -> frozenset[str]:
    """The verbs that a list of runs offers somebody: for which there may be a run that they can do it to."""
    return frozenset(verb for verb, roles in FOR_MANY.items() if roles & actor.roles)


def can_decide(actor: Actor, run: Run, approval: Approval) -> bool:
    return can(check_decide, actor, run, approval)


def can_direct(actor: Actor, run: Run, approval: Approval) -> bool:
    return can(check_direct, actor, run, approval)


def can_delete_view(actor: Actor, view: SavedView) -> bool:
    return can(check_delete_view, actor, view)


def can_steer(actor: Actor, run: Run) -> bool:
    return can(check_steer, actor, run)


def can_fork(actor: Actor, run: Run) -> bool:
    return can(check_fork, actor, run)


def can_migrate(actor: Actor, run: Run) -> bool:
    return can(check_migrate, actor, run)


def can_retry(actor: Actor, run: Run) -> bool:
    return can(check_retry, actor, run)


def can_pause(actor: Actor, run: Run) -> bool:
    return can(check_pause, actor, run)


def can_signal(actor: Actor, run: Run) -> bool:
    return can(check_signal, actor, run)


def can_attach(actor: Actor, run: Run) -> bool:
    return can(check_attach, actor, run)


def can_keep(actor: Actor, run: Run) -> bool:
    return can(check_keep, actor, run)


def can_watch(actor: Actor) -> bool:
    return can(check_watch, actor)


def can_repair(actor: Actor, run: Run) -> bool:
    return can(check_repair, actor, run)


def can_prioritise(actor: Actor, run: Run) -> bool:
    return can(check_prioritise, actor, run)


def can_webhooks(actor: Actor) -> bool:
    return can(check_webhooks, actor)


def can_deliveries(actor: Actor) -> bool:
    return can(check_deliveries, actor)


def can_hours(actor: Actor) -> bool:
    return can(check_hours, actor)


def can_redeliver(actor: Actor) -> bool:
    return can(check_redeliver, actor)


def can_cancel(actor: Actor, run: Run) -> bool:
    return can(check_cancel, actor, run)


def _check_role(actor: Actor, wanted: frozenset[str], what: str) -> None:
    if not actor.roles:
        raise NotFound()
    if not wanted & actor.roles:
        raise Forbidden(
            Told("To {what} takes the role {choices}.", what=what, choices=" or ".join(sorted(wanted))),
            roles=sorted(wanted),
        )
