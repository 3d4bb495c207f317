"""A project with people, and short ways to the states a test starts from: all of them through operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connection
from pydantic import BaseModel

from runs import operations, store, workflows
from runs.driver.port import Halted
from runs.engine import Action, Workflow, chain
from runs.engine import position as at
from runs.models import Approval, Event, Member, Project, Run, Step, Team, User
from runs.operations import ActionDecision, Answer, Decided, Swept
from runs.policies import Actor
from tests.integration.conftest import database, without_flush

__all__ = ["database", "without_flush"]


class Killed(Halted):
    """The worker's process ends here: nothing may catch it."""


@dataclass
class House:
    """A project, its people as actors, and the verbs a test needs most."""

    project: Project
    frida: Actor
    felix: Actor
    olga: Actor
    shop: Actor
    vera: Actor

    def submit(self, workflow: str, **input: Any) -> Run:
        return operations.submit(actor=self.shop, workflow=workflow, input=input).run

    def work(self, run: Run) -> Run:
        """Advance everything that is ready, as a worker that got every hint would."""
        ready = Step.objects.filter(run=run, status="ready").exclude(run__status="paused")
        while step := ready.first():
            operations.advance(run_id=run.pk, branch=step.branch, address=step.address)
        run.refresh_from_db()
        return run

    def advance(self, run: Run, node: str) -> None:
        """Advance the one ready step of a node, and no other: what it leads to is left to somebody else."""
        step = Step.objects.get(run=run, node=node, status="ready")
        worker = operations.worker()
        worker.stopping = True
        operations.advance(run_id=run.pk, branch=step.branch, address=step.address)
        worker.stopping = False

    def parked(self, workflow: str, **input: Any) -> tuple[Run, Approval]:
        run = self.work(self.submit(workflow, **input))
        return run, open_approval(run)

    def answer(self, approval: Approval, kind: str, *, by: Actor | None = None, **more: Any) -> Decided:
        decisions = [
            ActionDecision(action["key"], kind, more.get("args"), more.get("message", ""))
            for action in approval.content["actions"]
        ]
        answer = Answer(
            approval.pk,
            more.get("version", approval.version),
            more.get("digest", approval.digest),
            decisions,
            more.get("comment", ""),
        )
        return operations.decide(actor=by or self.frida, answers=[answer])[0]

    def sweep(self) -> Swept:
        """One round of the sweeper."""
        with store.own_connection() as lock:
            swept = operations.sweep(lock)
        assert swept is not None
        return swept


def by_sql(statement: str, *parameters: Any) -> int:
    """What only time or damage brings about; returns how many rows it hit."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        hit: int = cursor.rowcount
    return hit


def history_is_whole(run: Run) -> bool:
    """I2: events 1 to n, and the chain holds."""
    run.refresh_from_db()
    events = Event.objects.filter(run=run).order_by("seq")
    return chain.check(events, head=bytes(run.head_hash), seq=run.seq) is None


def state_of(run: Run, no: int | None = None) -> Any:
    """The state at a checkpoint; default the head."""
    return at.state(store.read_position(run.pk, run.head if no is None else no))


def error_of(row: Run | Step) -> dict[str, Any]:
    """Why a run or a step failed."""
    assert row.error is not None
    return dict(row.error)


def kinds_of(run: Run) -> list[str]:
    """What the history tells, in order."""
    return list(Event.objects.filter(run=run).order_by("seq").values_list("kind", flat=True))


def open_approval(run: Run) -> Approval:
    return Approval.objects.get(run=run, status="open")


def person(project: Project, name: str, *roles: str, service: bool = False) -> Actor:
    user = User.objects.create_user(name, is_service=service)
    Member.objects.create(project=project, user=user, roles=list(roles))
    return Actor(user, project, "session", "127.0.0.1")


def make_house(slug: str = "demo") -> House:
    project = Project.objects.create(slug=slug, name=slug)
    mark = "" if slug == "demo" else f"-{slug}"
    frida, felix = (person(project, f"{name}{mark}", "reviewer") for name in ("frida", "felix"))
    team = Team.objects.create(project=project, name="finance")
    team.people.add(frida.user, felix.user)
    return House(
        project,
        frida,
        felix,
        person(project, f"olga{mark}", "operator"),
        person(project, f"shop{mark}", "submitter", service=True),
        person(project, f"vera{mark}", "viewer"),
    )


@pytest.fixture
def house(database: None) -> Iterator[House]:
    yield make_house()
    operations.leave()


class Anything(BaseModel):
    """A state that takes whatever a test puts in."""

    x: Any = None
    log: list[Any] = []


@pytest.fixture
def short_lease(settings: Any) -> None:
    """A lease of three seconds: after a start of Postgres leases count again once a third of one has passed."""
    settings.HITL_LEASE_SECONDS = 3


@pytest.fixture
def define() -> Iterator[Callable[..., Workflow]]:
    """Make a workflow for one test; it is forgotten afterwards."""
    made: list[str] = []

    def make(name: str, **options: Any) -> Workflow:
        made.append(name)
        return Workflow(name, **{"state": Anything, **options})

    yield make
    for name in made:
        workflows.unregister(name)


def pay_flow(workflow: Workflow, body: Callable[[Any, Any], Any] | None = None, **approval: Any) -> Workflow:
    """before -> ask -> after, with an approval that may be edited."""

    @workflow.node
    def before(state: Any, ctx: Any) -> dict[str, Any]:
        return {"log": [*state.log, "before"]}

    @workflow.approval(**{"reviewers": ["finance"], "editor_may_approve": True, **approval})
    def ask(state: Any, ctx: Any) -> Action:
        return Action("pay", {"amount": state.x}, editable=["amount"], effect="irreversible")

    @workflow.node
    def after(state: Any, ctx: Any) -> Any:
        if body:
            return body(state, ctx)
        return {"log": [*state.log, ctx.approved("ask").args]}

    workflow.edge(before, ask)
    workflow.edge(ask, after)
    workflows.register(workflow)
    return workflow
