"""Who hears of what: the statement that tells asks the same rule as the door that lets people answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from runs import operations, policies, store
from runs.engine.transition import Event, Transition
from runs.models import Approval, Member, Message, Notice, Run, Team, User
from runs.policies import Actor
from tests.integration.core.conftest import House, make_house, pay_flow
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
