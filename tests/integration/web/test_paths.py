"""Every rule of who may decide, on every path on which somebody can (C59, C89): one verdict everywhere.

A path is a function outside the operations that calls one of the verbs that answer an approval. It is found in the source: one
that has no row in PATHS fails the test, and so does a row without such a function.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from runs import operations, store, workflows
from runs.engine import Action, Ask, Stage, Workflow, canonical
from runs.engine import workflow as engine
from runs.management.commands.demo import Gate
from runs.management.terminal import Script
from runs.models import Approval, Member, Team, User, Vote
from runs.operations.tokens import issue_token
from runs.policies import Actor, can_decide
from tests.integration.core.conftest import House, define, open_approval, person

__all__ = ["define"]

ANSWERING = ("decide", "decide_together", "revise")  # the verbs, and no others, that make votes and versions
RUNS = Path(engine.__file__).parents[1]


@dataclass(frozen=True)
class Tried:
    """Somebody with one approval in front of them, in a browser and with a token."""

    client: Client
    token: str
    approval: Approval
    user: User

    def page(self, address: str, **form: str) -> int:
        told = {"version": str(self.approval.version), "digest": self.approval.digest, **form}
        return self.client.post(f"/inbox/{address}", told).status_code

    def api(self, address: str, **body: Any) -> int:
        headers = {"Authorization": f"Bearer {self.token}"}
        sent = canonical.dumps(body)
        reply = Client().post(f"/api/v1/{address}", sent, content_type="application/json", headers=headers)
        return int(reply.status_code)


def _card(tried: Tried) -> int:
    return tried.page(f"{tried.approval.pk}/decide/", action="tag", decision="approve")


def _edit_with_vote(tried: Tried) -> int:
    return tried.page(f"{tried.approval.pk}/edit/", mode="json", save="vote", **{"json:tag": '{"x": 5}'})


def _edit_without(tried: Tried) -> int:
    return tried.page(f"{tried.approval.pk}/edit/", mode="json", save="revise", **{"json:tag": '{"x": 5}'})


def _together(tried: Tried) -> int:
    one = tried.approval
    form: dict[str, Any] = {
        "approval": f"{one.pk} {one.version} {one.digest}",
        "word": "approve",
        "sure": "yes",
    }
    return tried.client.post("/inbox/together/", form).status_code


def _api(tried: Tried) -> int:
    return tried.api(f"approvals/{tried.approval.pk}/decide", version=tried.approval.version, type="approve")


def _api_of_run(tried: Tried) -> int:
    return tried.api(f"runs/{tried.approval.run_id}/decide", version=tried.approval.version, type="approve")


def _api_revise(tried: Tried) -> int:
    return tried.api(
        f"approvals/{tried.approval.pk}/revise", version=tried.approval.version, args={"tag": {"x": 5}}
    )


def _api_together(tried: Tried) -> int:
    one = {"id": str(tried.approval.pk), "version": tried.approval.version}
    return tried.api("approvals/decide", word="approve", approvals=[one])


def _at_a_terminal(tried: Tried) -> int:
    actor = Actor(User.objects.get(pk=tried.user.pk), tried.approval.project, "command")
    gate = Gate(Script("approve"), actor, say=lambda text: None, asks=True)
    return 200 if gate.decide(tried.approval.run) else 409


Path_ = Callable[[Tried], int]

#  the function that calls a verb: what a person does there
PATHS: dict[str, list[Path_]] = {
    "web.deciding._send": [_card, _edit_with_vote],
    "web.deciding._revise": [_edit_without],
    "web.attending.together": [_together],
    "api.views._answered": [_api, _api_of_run],
    "api.views.Revise.post": [_api_revise],
    "api.attending.DecideTogether.post": [_api_together],
    "management.commands.demo.Gate._answer": [_at_a_terminal],
}

#   who they are: whether they may decide
RULES: dict[str, bool] = {
    "candidate": True,
    "asked by name": True,
    "asked operator": True,
    "substitute": True,
    "reviewer who is not asked": False,
    "operator who is not asked": False,
    "viewer in the team": False,
    "admin in the team": False,
    "requester in the team": False,
    "for whom it was requested": False,
    "substitute of the requester": False,
    "another works on it": False,
    "left the team": False,
    "deactivated": False,
    "of another stage": False,
    "superuser": False,
}


def callers() -> Iterator[str]:
    """Every function outside the operations that calls a verb which answers."""
    for file in sorted(RUNS.rglob("*.py")):
        module = ".".join(file.relative_to(RUNS).with_suffix("").parts)
        if module.partition(".")[0] in ("operations", "migrations", "testing", "engine"):
            continue
        for name, function in _functions(ast.parse(file.read_text())):
            if any(_is_verb(node) for node in ast.walk(function)):
                yield f"{module}.{name}"


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from (
                (f"{node.name}.{inner.name}", inner)
                for inner in node.body
                if isinstance(inner, ast.FunctionDef)
            )
        elif isinstance(node, ast.FunctionDef):
            yield node.name, node


def _is_verb(node: ast.AST) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    return (
        isinstance(called, ast.Attribute)
        and called.attr in ANSWERING
        and _owner(called)
        in (
            "operations",
            "deciding",
            "together",
        )
    )


def _owner(called: ast.Attribute) -> str:
    return called.value.id if isinstance(called.value, ast.Name) else ""


def test_every_path_on_which_somebody_decides_has_its_row() -> None:
    assert sorted(callers()) == sorted(PATHS)


def test_only_one_module_makes_votes_and_versions() -> None:
    """Nothing goes round the verbs: no command, no admin, no page writes them."""
    made = re.compile(r"\binsert\(\s*(Vote|Revision)\(|\b(Vote|Revision)\.objects\.\w*create\(")
    makers = {str(file.relative_to(RUNS)) for file in RUNS.rglob("*.py") if made.search(file.read_text())}
    assert makers == {"operations/deciding.py", "store/committing.py"}


@pytest.mark.parametrize(
    "path", [path for paths in PATHS.values() for path in paths], ids=lambda p: p.__name__
)
def test_one_rule_on_every_path(house: House, define: Callable[..., Workflow], path: Path_) -> None:
    _asks(define("tag"))
    wrong = []
    for rule, may in RULES.items():
        actor, approval = _set_up(house, rule)
        client = Client()
        client.force_login(actor.user)
        _, secret = issue_token(
            user=actor.user, project=house.project, name="t", scopes=["approvals:read", "approvals:decide"]
        )
        if rule == "deactivated":
            User.objects.filter(pk=actor.user.pk).update(is_active=False)
        status = path(Tried(client, secret, approval, actor.user))
        approval.refresh_from_db()
        touched = approval.version > 1 or Vote.objects.filter(approval=approval).exists()
        if touched != may or status >= 500:
            wrong.append((rule, status, touched))
    assert wrong == []


def _asks(workflow: Workflow) -> None:

    @workflow.approval
    def ask(state: Any, ctx: Any) -> Any:
        action = Action("tag", {"x": state.x}, editable=["x"], effect="reversible", risk="low")
        stages = [Stage("finance"), Stage("legal")] if state.x == 2 else None
        return Ask(action, reviewers=None if stages else ["finance", "user:otto"], stages=stages)

    workflows.register(workflow)


def _set_up(house: House, rule: str) -> tuple[Actor, Approval]:
    """A fresh person for a rule, and an approval for them."""
    name = rule.replace(" ", "-")
    project, finance = house.project, Team.objects.get(project=house.project, name="finance")
    roles = {
        "viewer in the team": ["viewer"],
        "admin in the team": ["admin"],
        "asked operator": ["operator"],
        "operator who is not asked": ["operator"],
        "requester in the team": ["submitter", "reviewer"],
        "superuser": [],
    }.get(rule, ["reviewer"])
    username = "otto" if rule == "asked by name" else name
    if rule == "superuser":
        actor = Actor(User.objects.create_superuser(username), project, "session")
        Member.objects.create(project=project, user=actor.user, roles=["viewer"])
    else:
        actor = person(project, username, *roles)
    if rule in (
        "candidate", "asked operator", "viewer in the team", "admin in the team", "requester in the team",
        "for whom it was requested", "another works on it", "left the team", "deactivated",
    ):  # fmt: skip
        finance.people.add(actor.user)
    if rule == "of another stage":
        legal, _ = Team.objects.get_or_create(project=project, name="legal")
        legal.people.add(actor.user)
    submitter = actor if rule == "requester in the team" else house.shop
    if rule == "substitute of the requester":
        submitter = person(project, "robin", "submitter", "reviewer")
        finance.people.add(submitter.user)
    run = operations.submit(
        actor=submitter, workflow="tag", input={"x": 2 if rule == "of another stage" else 1}
    ).run
    if rule == "for whom it was requested":
        type(run).objects.filter(pk=run.pk).update(requester=actor.user, submitted_by=house.shop.user)
    house.work(run)
    approval = open_approval(run)
    _arrange(house, rule, actor, approval, submitter)
    assert can_decide(Actor(actor.user, project, "session"), run, approval) == (
        RULES[rule] or rule in ("another works on it", "deactivated")
    )
    return actor, approval


def _arrange(house: House, rule: str, actor: Actor, approval: Approval, submitter: Actor) -> None:
    now = store.now()
    if rule in ("substitute", "substitute of the requester"):
        operations.be_away(
            actor=house.felix if rule == "substitute" else submitter,
            substitute=actor.user.username,
            starts_at=now - timedelta(hours=1),
            ends_at=now + timedelta(hours=1),
        )
    if rule == "another works on it":
        operations.assign(actor=house.frida, approval_id=approval.pk)
    if rule == "left the team":
        Team.objects.get(project=house.project, name="finance").people.remove(actor.user)
