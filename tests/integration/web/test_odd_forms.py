"""Every form of the pages, sent by something that is no browser: as the page has it, but for one field that is odd."""

from __future__ import annotations

import html
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.cookies import SimpleCookie
from itertools import count
from typing import Any, Final

import pytest
from django.db import connection, transaction
from django.test import Client
from django.urls import URLPattern, reverse

from runs import operations, workflows
from runs.engine import Action, Workflow
from runs.models import Team
from runs.policies import Actor
from runs.web import urls
from tests.integration.core.conftest import House, define, pay_flow, person
from tests.kit.forms import Form, forms_of

__all__ = ["define"]

ClientOf = Callable[[Actor], Client]
Define = Callable[..., Workflow]

TYPED: Final = "typed <with> care"
ODD: Final[dict[str, list[str]]] = {
    "missing": [],
    "empty": [""],
    "another": ["x"],
    "doubled": ["a", "b"],
    "control": ["\x1b[0m\x01"],
    "nul": ["a\0b"],
    "digits": ["9" * 30],
    "negative": ["-1"],
    "list": ["[[1]"],
    "nobody": [str(uuid.UUID(int=1))],
    "bidi": ["\u202eabc\ufeff"],
    "late": ["9999-12-31T23:59"],
}
HUGE: Final = "x" * 1_000_000
HAND_MADE: Final = {"version", "digest", "mode", "shape", "show", "url", "do"}  # no browser sends these oddly


@pytest.fixture
def ada(house: House) -> Actor:
    """Somebody who is offered every form."""
    made = person(house.project, "ada", "reviewer", "operator", "admin", "submitter")
    Team.objects.get(project=house.project, name="finance").people.add(made.user)
    return made


@pytest.fixture
def addresses(house: House, ada: Actor, define: Define) -> list[str]:
    """Every page, with ids of what is there: a run that waits, one that is paused, one that has failed, and so on."""
    pay_flow(define("pays"), due="24h")
    asks, approval = house.parked("pays", x=1)
    paused, _ = house.parked("pays", x=2)
    operations.pause(actor=ada, run_id=paused.pk)
    _low_risk(house, define("tags"))
    endpoint, _ = operations.create_endpoint(
        actor=ada, url="https://93.184.216.34/x", events=["run.completed"]
    )
    view = operations.save_view(actor=ada, page="runs", name="mine", query={"status": "failed"})
    _, link = operations.invite(actor=ada, roles=["viewer"], link=lambda secret: secret)
    ids: dict[str, list[Any]] = {
        "run_id": [asks.pk, paused.pk, _failed(house, define("fails"))],
        "approval_id": [approval.pk],
        "endpoint_id": [endpoint.pk],
        "view_id": [view.pk],
        "username": ["felix", "shop"],
        "name": ["pays", "finance"],
        "secret": [link],
    }
    found = [address for pattern in urls.urlpatterns for address in _addresses(pattern, ids)]
    return [*found, f"/inbox/{approval.pk}/edit/?mode=json", "/inbox/?view=open&choose=yes"]


def _addresses(pattern: Any, ids: dict[str, list[Any]]) -> Iterator[str]:
    assert isinstance(pattern, URLPattern)
    names = list(pattern.pattern.converters)
    if pattern.name == "sign-out" or not set(names) <= {*ids, "no"}:
        return
    for value in ids[names[0]] if names else [None]:
        yield reverse(str(pattern.name), kwargs={name: 1 if name == "no" else value for name in names})


def _failed(house: House, workflow: Workflow) -> uuid.UUID:
    @workflow.node
    def fails(state: Any, ctx: Any) -> None:
        raise ValueError("no")

    workflows.register(workflow)
    return house.work(house.submit("fails")).pk


def _low_risk(house: House, workflow: Workflow) -> None:
    @workflow.approval(reviewers=["finance"])
    def ask(state: Any, ctx: Any) -> Action:
        return Action("tag", {"x": state.x}, effect="reversible", risk="low")

    workflows.register(workflow)
    for number in range(2):
        house.parked("tags", x=number)


@contextmanager
def forgotten() -> Iterator[None]:
    """As in a TestCase: operations may begin their transaction in it, and nothing stays; what a commit checks is checked."""
    outer = transaction.atomic()
    outer._from_testcase = True  # type: ignore[attr-defined]
    with outer:
        yield
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        transaction.set_rollback(True)


def buttons(client: Client, addresses: list[str]) -> Iterator[tuple[str, Form, dict[str, str]]]:
    """Every button of every form that changes something: where it leads, its form, and what a person would send with it."""
    seen = set()
    for address in addresses:
        answer = client.get(address, follow=True)
        if answer.status_code != 200 or "html" not in answer["Content-Type"]:
            continue
        for form in forms_of(answer.content.decode()):
            for name, value, leads in form.buttons if form.method == "post" else ():
                sent = form.boxes | form.sent | ({name: value} if name else {})
                sent |= {field: sent[field] or TYPED for field in form.written}
                action = leads or form.action or address
                kind = (
                    re.sub(r"[0-9a-f-]{36}|\d+", "", action),
                    sent.get("do"),
                    sent.get("verb"),
                    *sorted(sent),
                )
                if kind not in seen and "sign-out" not in action:
                    seen.add(kind)
                    yield action, form, sent


def oddly(form: Form, sent: dict[str, str], turn: Iterator[int]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Each field in one odd way, the next one in the next: all ways in all fields would take minutes."""
    for field in sorted(sent.keys() - {"csrfmiddlewaretoken"}):
        odd = list(ODD)[next(turn) % len(ODD)]
        yield field, odd, {**sent, field: ODD[odd]}
    if form.written:
        yield "", "huge", sent | dict.fromkeys(form.written, HUGE)


def faults(answer: Any, form: Form, field: str, sent: dict[str, Any]) -> Iterator[str]:
    """What is wrong with an answer: it is a fault of the server, says nothing, or has lost what was typed in other fields."""
    if answer.status_code >= 500:
        yield f"{answer.status_code} {getattr(answer, 'exc_info', '')}"
    if not 400 <= answer.status_code < 500:
        return
    text = answer.content.decode()
    if 'role="alert"' not in text and "wrong" not in text:
        yield f"{answer.status_code} says nothing"
    if answer.status_code != 404 and field not in HAND_MADE:
        for other in form.written - {field}:
            if sent[other] == TYPED and html.escape(TYPED) not in text:
                yield f"{answer.status_code} has lost {other}"


def test_no_odd_form_is_a_fault_or_costs_what_was_typed(
    ada: Actor, addresses: list[str], client_of: ClientOf
) -> None:
    client, turn, found, kinds = client_of(ada), count(), [], 0
    client.raise_request_exception = False
    cookies = client.cookies.output(header="", sep=";")
    for action, form, sent in list(buttons(client, addresses)):
        kinds += 1
        for field, odd, fields in oddly(form, sent, turn):
            with forgotten():
                client.cookies = SimpleCookie(cookies)
                answer = client.post(action, fields)
                found += [(action, field, odd, fault) for fault in faults(answer, form, field, fields)]
    assert not found, "\n".join(map(str, found[:20]))
    assert kinds > 60
