"""`manage.py demo_data`: what a newcomer finds after `make up`. Running it again adds only what is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.db import transaction

from runs import operations
from runs.errors import UnknownWorkflow
from runs.management.base import DataCommand
from runs.models import ApiToken, Member, Project, Run, Team, User
from runs.policies import Actor

PASSWORD: Final = "demo"  # noqa: S105 (known to everybody: only made where HITL_DEBUG is on)
SERVICE: Final = "shop"
SERVICE_SCOPES: Final = ("runs:read", "runs:submit", "approvals:read")


@dataclass(frozen=True, slots=True)
class Person:
    username: str
    name: str
    roles: tuple[str, ...]
    team: str = ""


PEOPLE: Final = (
    Person("frida", "Frida Holm", ("reviewer",), team="finance"),
    Person("felix", "Felix Brandt", ("reviewer",), team="finance"),
    Person("olga", "Olga Marin", ("operator", "admin")),
    Person("vera", "Vera Lind", ("viewer",)),
    Person("ada", "Ada Vos", ("admin",)),
)

REFUNDS: Final[tuple[dict[str, str], ...]] = (
    {
        "order_id": "88-4121",
        "message": "The table arrived with a crack through the top, and the chairs do not match it. Everything back.",
        "agent_note": "Photos show the crack. The customer orders often and threatens to leave: approve soon.",
    },
    {
        "order_id": "88-4125",
        "message": "The mirror is fine, but it is smaller than the page says.",
        "agent_note": "The page says 80 cm, the customer measured 78. I suggest paying everything back.",
    },
    {
        "order_id": "88-4126",
        "amount": "119.00",
        "message": "The slats were missing from the parcel.",
        "agent_note": "The warehouse confirms that one parcel of two was sent.",
    },
)

CHANGES: Final[tuple[dict[str, str], ...]] = (
    {
        "statement": "UPDATE airports SET elevation = NULL WHERE elevation = 0 AND country = 'SE' -- 0 means unknown",
        "why": "Swedish airports do not lie at sea level: 0 was entered where nobody knew. Unknown is NULL everywhere else.",
        "agent_note": "I compared some of them with the chart: none is at 0 ft. It is safe to approve.",
    },
)


@dataclass(frozen=True, slots=True)
class Demo:
    """Runs of one workflow, if an app brings it. told: what they do next; label: which input names them."""

    workflow: str
    inputs: tuple[dict[str, str], ...]
    told: str
    label: str = ""

    def labels(self, given: dict[str, str]) -> dict[str, str]:
        return {self.label.partition("_")[0]: given[self.label]} if self.label else {}


DEMOS: Final = (
    Demo("refund", REFUNDS, "3 refunds; each looks its order up and then waits for finance", "order_id"),
    Demo(
        "sql_change", CHANGES, "1 change of a database; it is tried, rolled back, and then waits for finance"
    ),
)


class Command(DataCommand):
    help = "Make the demo project with its people, a service account and runs that wait for a decision."

    def run(self, *args: Any, **options: Any) -> None:
        if not settings.DEBUG:
            self.stdout.write("no demo data: everybody knows its passwords, so it takes HITL_DEBUG=true")
            return
        project = found_project()
        service = found_service(project)
        for line in [*self._people(), *self._token(project, service), *self._runs(project, service)]:
            self.stdout.write(line)

    def _people(self) -> list[str]:
        names = ", ".join(f"{person.username} ({person.team or person.roles[0]})" for person in PEOPLE)
        return [f"sign in as  {names}; the password is {PASSWORD}"]

    def _token(self, project: Project, service: User) -> list[str]:
        if ApiToken.objects.filter(project=project, user=service, revoked_at__isnull=True).exists():
            return [f"API token   made at the first start; another: manage.py create_token {SERVICE}"]
        actor = Actor(service, project, "command")
        _, secret = operations.create_token(actor=actor, name="demo", scopes=SERVICE_SCOPES)
        return [f"API token   {secret}  (of the service account {SERVICE}; shown this once)"]

    def _runs(self, project: Project, service: User) -> list[str]:
        actor = Actor(service, project, "command")
        return [line for demo in DEMOS if (line := _submitted(actor, demo))]


def _submitted(actor: Actor, demo: Demo) -> str:
    """What to say about the runs of a workflow; nothing where there are runs of it already."""
    if Run.objects.filter(project=actor.project, workflow=demo.workflow).exists():
        return ""
    try:
        for given in demo.inputs:
            operations.submit(actor=actor, workflow=demo.workflow, input=given, labels=demo.labels(given))
    except UnknownWorkflow as error:
        return f"no demo run {error.detail}"
    return f"submitted   {demo.told}"


@transaction.atomic
def found_project() -> Project:
    """The project with its people. What somebody changed since stays as it is."""
    project, _ = Project.objects.get_or_create(slug="demo", defaults={"name": "Demo"})
    for person in PEOPLE:
        user, new = User.objects.get_or_create(username=person.username, defaults={"name": person.name})
        if new:
            user.set_password(PASSWORD)
            user.save(update_fields=["password"])
        _join(project, user, person.roles)
        if person.team:
            team, _ = Team.objects.get_or_create(project=project, name=person.team)
            if new:
                team.people.add(user)
    return project


@transaction.atomic
def found_service(project: Project) -> User:
    user, new = User.objects.get_or_create(username=SERVICE, defaults={"name": "Shop", "is_service": True})
    if new:
        user.set_unusable_password()
        user.save(update_fields=["password"])
    _join(project, user, ("submitter",))
    return user


def _join(project: Project, user: User, roles: tuple[str, ...]) -> None:
    Member.objects.get_or_create(project=project, user=user, defaults={"roles": list(roles)})
