"""C86, K11: what belongs to another project is answered as what does not exist, on every path."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import Model
from django.test import Client

from runs import operations, store
from runs.engine import Workflow
from runs.models import Approval, AuditEntry, Delivery
from tests.integration.api.conftest import (
    Api,
    House,
    api_of,
    checked,
    description,
    every_row,
    make_house,
    pay_flow,
    person,
)

ON_RUN: list[tuple[str, str, Any]] = [
    ("GET", "runs/{id}", None),
    ("GET", "runs/{id}?wait=0", None),
    ("GET", "runs/{id}/history", None),
    ("GET", "runs/{id}/export", None),
    ("GET", "runs/{id}/checkpoints", None),
    ("GET", "runs/{id}/checkpoints/0", None),
    ("GET", "runs/{id}/checkpoints/99", None),
    ("GET", "runs/{id}/steps", None),
    ("POST", "runs/{id}/rewind", {"checkpoint": 0, "reason": "x"}),
    ("POST", "runs/{id}/rewind/preview", {"checkpoint": 0}),
    ("POST", "runs/{id}/retry", {"reason": "x"}),
    ("POST", "runs/{id}/decide", {"version": 1, "type": "approve"}),
    ("GET", "runs/{id}/signals", None),
    ("GET", "runs/{id}/attachments", None),
    ("POST", "runs/{id}/signals", {"name": "paid"}),
    ("PATCH", "runs/{id}/state", {"version": 1, "changes": {"x": 1}, "reason": "x"}),
    ("PATCH", "runs/{id}/state", {"changes": {"x": 1}, "reason": "x"}),
    ("POST", "runs/{id}/fork", {"checkpoint": 0, "reason": "x"}),
    ("POST", "runs/{id}/fork/preview", {"checkpoint": 0}),
    ("GET", "runs/{id}/branches", None),
    ("PATCH", "runs/{id}/branches/1", {"label": "x"}),
    ("GET", "runs/{id}/compare", None),
    ("POST", "runs/{id}/migrate", {"reason": "x"}),
    ("POST", "runs/{id}/migrate/preview", {}),
    ("POST", "runs/{id}/cancel", None),
    ("POST", "runs/{id}/priority", {"priority": 1}),
    ("GET", "runs/{id}/cancel/preview", None),
    ("POST", "runs/{id}/pause", None),
    ("POST", "runs/{id}/resume", None),
    ("POST", "runs/{id}/hold", {"reason": "x"}),
    ("DELETE", "runs/{id}/hold", None),
    ("POST", "runs/{id}/erase", {"reason": "x"}),
]
ON_APPROVAL: list[tuple[str, str, Any]] = [
    ("GET", "approvals/{id}", None),
    ("POST", "approvals/{id}/decide", {"version": 1, "type": "approve"}),
    ("POST", "approvals/{id}/decide", {"version": 1, "decisions": [{"key": "pay", "type": "approve"}]}),
    ("POST", "approvals/{id}/decide", {"type": "approve"}),
    ("POST", "approvals/{id}/assign", {}),
    ("POST", "approvals/{id}/unassign", {}),
    ("POST", "approvals/{id}/snooze", {"until": None}),
    ("POST", "approvals/{id}/extend", {"due_at": "2030-01-01T00:00:00Z", "reason": "so"}),
    ("POST", "approvals/{id}/revise", {"version": 1, "args": {"pay": {"amount": 2}}}),
]
OF_FILES: set[tuple[str, str]] = {  # bytes, no JSON: test_attachments tries them
    ("post", "runs/{id}/attachments"),
    ("get", "attachments/{id}"),
}
OF_ADMINS: list[tuple[str, str, Any]] = [
    ("GET", "webhooks/{id}", None),
    ("PATCH", "webhooks/{id}", {"enabled": False}),
    ("DELETE", "webhooks/{id}", None),
    ("POST", "webhooks/{id}/rotate", None),
    ("POST", "webhooks/{id}/test", None),
    ("GET", "deliveries/{id}", None),
    ("POST", "deliveries/{id}/redeliver", None),
    ("POST", "absences/{id}/end", None),
    ("DELETE", "invitations/{id}", None),
    ("DELETE", "tokens/{id}", None),
    ("PATCH", "views/{id}", {"name": "x"}),
    ("DELETE", "views/{id}", None),
]


def test_every_address_of_a_thing_is_tried() -> None:
    """By name, as people and teams are addressed: see test_people."""
    tried = {
        (method.lower(), re.sub(r"(branches|checkpoints)/\d+", r"\1/{no}", path.partition("?")[0]))
        for method, path, _ in [*ON_RUN, *ON_APPROVAL, *OF_ADMINS]
    }
    there = {
        (method, path.removeprefix("/api/v1/"))
        for path, methods in description()["paths"].items()
        for method in methods
        if "{id}" in path
    }
    assert tried | OF_FILES == there


@pytest.fixture
def parked(house: House, define: Callable[..., Workflow]) -> Approval:
    pay_flow(define("pays"))
    _, approval = house.parked("pays", x=1)
    return approval


@pytest.mark.parametrize(("method", "path", "body"), [*ON_RUN, *ON_APPROVAL])
def test_a_foreign_thing_is_answered_as_one_that_does_not_exist(
    parked: Approval, outsider: Api, method: str, path: str, body: Any
) -> None:
    target = parked.pk if path.startswith("approvals") else parked.run_id
    before, audited = every_row(), AuditEntry.objects.count()
    foreign = outsider.ask(method, path.format(id=target), body)
    missing = outsider.ask(method, path.format(id=uuid.uuid4()), body)
    assert (foreign.status, foreign.code) == (404, "not_found")
    assert foreign.text == missing.text
    assert dict(foreign.headers).keys() == dict(missing.headers).keys()
    assert every_row() == before
    entries = AuditEntry.objects.order_by("id")[audited:]
    assert [(one.user_name, one.outcome) for one in entries] == [("olga-other", "denied: not_found")] * 2
    assert entries[0].target == str(target)


@pytest.fixture
def kept(house: House, define: Callable[..., Workflow]) -> dict[str, Model]:
    """One of each thing that admins of a project keep, by its address."""
    ada = person(house.project, "ada", "admin", "operator", "reviewer")
    endpoint, _ = operations.create_endpoint(
        actor=ada, url="https://93.184.216.34/hooks", events=["approval.opened"]
    )
    pay_flow(define("pays"))
    house.parked("pays", x=1)
    until = store.now() + timedelta(days=1)
    return {
        "webhooks": endpoint,
        "deliveries": Delivery.objects.get(),
        "absences": operations.be_away(
            actor=ada, substitute="felix", starts_at=store.now(), ends_at=until, note="", user="frida"
        ),
        "invitations": operations.invite(
            actor=ada, roles=["viewer"], email="", days=1, link=lambda secret: secret
        )[0],
        "tokens": operations.create_token(actor=ada, name="mine", scopes=["runs:read"])[0],
        "views": operations.save_view(actor=ada, page="inbox", name="mine", query={"risk": "high"}),
    }


@pytest.mark.parametrize(("method", "path", "body"), OF_ADMINS)
def test_a_foreign_thing_of_admins_is_answered_as_one_that_does_not_exist(
    kept: dict[str, Model], method: str, path: str, body: Any
) -> None:
    eve = api_of(person(make_house("other").project, "eve", "admin", "operator", "reviewer"))
    row = kept[path.partition("/")[0]]
    before, audited = type(row).objects.values().get(pk=row.pk), AuditEntry.objects.count()  # type: ignore[attr-defined]
    foreign = eve.ask(method, path.format(id=row.pk), body)
    missing = eve.ask(method, path.format(id=uuid.uuid4()), body)
    assert (foreign.status, foreign.code) == (404, "not_found")
    assert foreign.text == missing.text
    assert type(row).objects.values().get(pk=row.pk) == before  # type: ignore[attr-defined]
    entries = AuditEntry.objects.order_by("id")[audited:]
    assert [(one.user_name, one.outcome) for one in entries] == [("eve", "denied: not_found")] * 2
    assert entries[0].target == str(row.pk)


def test_a_session_of_another_project_finds_nothing_either(parked: Approval) -> None:
    other = make_house("other")
    client = Client(raise_request_exception=False)
    client.force_login(other.olga.user)
    for path in (f"/api/v1/runs/{parked.run_id}", f"/api/v1/approvals/{parked.pk}"):
        assert checked("GET", path, client.get(path)).code == "not_found"
    decide = f"/api/v1/approvals/{parked.pk}/decide"
    body = '{"version": 1, "type": "approve"}'
    response = client.post(decide, body, content_type="application/json")
    assert checked("POST", decide, response).code == "not_found"
    parked.refresh_from_db()
    assert parked.status == "open"


def test_lists_hold_nothing_of_another_project(parked: Approval, outsider: Api) -> None:
    assert outsider.get("runs").body["items"] == []
    assert outsider.get("approvals").body["items"] == []
