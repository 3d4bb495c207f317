"""Who hears of what: the statement that tells asks the same rule as the door that lets people answer."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from runs import operations, policies, store
from runs.engine.transition import Event, Transition
from runs.models import Absence, Approval, Member, Message, Notice, Run, Team, User
from runs.policies import Actor
from tests.integration.core.conftest import House, make_house, pay_flow, person
from tests.integration.delivery.conftest import Hook, parked

Define = Callable[..., Any]

CASES: list[dict[str, Any]] = [
    {"reviewers": []},
    {"reviewers": ["finance"]},
    {"reviewers": ["nobody-is-in-it"]},
    {"reviewers": ["user:olga"]},
    {"reviewers": ["user:vera"]},
    {"reviewers": ["user:nobody"]},
    {"reviewers": ["finance", "user:olga", "user:wanda"]},
    {"reviewers": ["user:pia"]},
    {"reviewers": ["user:pia"], "requester_may_decide": True},
    {"reviewers": [], "requester_may_decide": True},
    {"reviewers": ["user:ivan", "finance"]},
]


@pytest.fixture
def crowd(house: House) -> list[Actor]:
    """People of every role, in teams and out of them; some inactive, in another project, or a service."""
    project = house.project
    people: list[tuple[str, list[str], dict[str, Any]]] = [
        ("pia", ["reviewer", "submitter"], {}),
        ("wanda", ["operator", "admin"], {}),
        ("ivan", ["reviewer"], {"is_active": False}),
        ("adam", ["admin"], {}),
        ("robot", ["reviewer"], {"is_service": True}),
        ("subo", ["submitter"], {}),
    ]
    for name, roles, more in people:
        user = User.objects.create_user(name, **more)
        Member.objects.create(project=project, user=user, roles=roles)
    Team.objects.get(name="finance").people.add(*User.objects.filter(username__in=["subo", "ivan", "robot"]))
    User.objects.create_user("stranger")
    return [Actor(user, project, "session") for user in User.objects.all()]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_those_who_may_decide_are_told_and_nobody_else(
    case: int, house: House, define: Define, crowd: list[Actor]
) -> None:
    pay_flow(define("pay"), **CASES[case])
    pia = next(actor for actor in crowd if actor.user.username == "pia")
    run = house.work(operations.submit(actor=pia, workflow="pay", input={"x": 1}).run)
    approval = Approval.objects.get(run=run)
    may = {
        actor.user.username
        for actor in crowd
        if policies.can_decide(actor, run, approval) and not actor.user.is_service
    }
    told = set(
        Notice.objects.filter(message__type="approval.opened").values_list("user__username", flat=True)
    )
    assert told == may


def test_substitutes_are_told_and_who_submitted_for_somebody_else_is_not(
    house: House, define: Define, crowd: list[Actor]
) -> None:
    """By the rule of the door, with people away in every way: now, later, taken back, without the role, barred."""
    now = store.now()
    people = {actor.user.username: actor for actor in crowd}
    away: list[tuple[str, str, int, int]] = [
        ("frida", "olga", -1, 1),  # an operator answers for frida
        ("felix", "adam", -1, 1),  # an admin decides nothing
        ("ivan", "wanda", -1, 1),  # who is deactivated has no substitute
        ("pia", "olga", -1, 1),  # pia asked for the run
        ("frida", "wanda", 2, 3),  # later
    ]
    for user, substitute, starts, ends in away:
        Absence.objects.create(
            project=house.project,
            user=people[user].user,
            substitute=people[substitute].user,
            starts_at=now + timedelta(days=starts),
            ends_at=now + timedelta(days=ends),
        )
    pay_flow(define("pay"), reviewers=["finance", "user:pia", "user:wanda"])
    run = house.submit("pay", x=1)
    Run.objects.filter(pk=run.pk).update(requester=people["pia"].user, submitted_by=people["wanda"].user)
    run = house.work(run)
    approval = Approval.objects.get(run=run)
    may = {
        name
        for name, actor in people.items()
        if not actor.user.is_service
        and policies.can_decide(Actor(actor.user, house.project, "session"), approval.run, approval)
    }
    told = set(
        Notice.objects.filter(message__type="approval.opened").values_list("user__username", flat=True)
    )
    assert told == may == {"felix", "frida", "olga"}


def test_who_has_said_nothing_hears_what_the_project_says(house: House, define: Define) -> None:
    ada = person(house.project, "ada", "admin")
    operations.set_preference(actor=house.felix, app=["asked"], mail=[], digest=False)
    operations.set_project_preference(actor=ada, app=["ended"], mail=[], digest=True)
    parked(house, define)
    assert set(Notice.objects.filter(shown=True).values_list("user__username", flat=True)) == {"felix"}


def say(run: Run, kind: str, **payload: Any) -> None:
    with transaction.atomic():
        store.commit(store.lock_run(run.pk), Transition(events=[Event(kind, payload, "ask", "1")]))


@pytest.mark.parametrize(
    ("kind", "type", "topic"),
    [
        ("approval_reminded", "approval.reminded", "asked"),
        ("approval_escalated", "approval.escalated", "asked"),
        ("approval_passed_on", "approval.opened", "asked"),
        ("migration_needed", "run.needs_attention", "failed"),
    ],
)
def test_an_event_is_told_by_its_kind_whoever_writes_it(
    kind: str, type: str, topic: str, house: House, define: Define, hook: Hook
) -> None:
    run, approval = parked(house, define)
    hook.endpoint.events = [type]
    hook.endpoint.save()
    say(run, kind, **({"approval": str(approval.pk)} if topic == "asked" else {"error": {"code": "x"}}))
    message = Message.objects.filter(type=type).latest("seq")
    assert message.deliveries.get().endpoint_id == hook.endpoint.pk
    told = set(message.notices.values_list("user__username", "topic"))
    assert told == ({("frida", topic), ("felix", topic)} if topic == "asked" else {("olga", topic)})


def test_people_of_another_project_hear_nothing(house: House, define: Define) -> None:
    make_house("other")
    parked(house, define)
    assert set(Notice.objects.values_list("user__username", flat=True)) == {"frida", "felix"}


def test_the_end_of_a_run_inside_another_is_told_to_endpoints_alone(
    house: House, define: Define, hook: Hook
) -> None:
    run, _ = parked(house, define)
    parent = house.submit("pay", x=2)
    Run.objects.filter(pk=run.pk).update(parent=parent, requester=house.olga.user)
    say(run, "run_completed")
    message = Message.objects.get(type="run.completed")
    assert (message.deliveries.count(), message.notices.count()) == (1, 0)
