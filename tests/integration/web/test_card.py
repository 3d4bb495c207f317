"""The card copes with any payload, and whoever edits one loses nothing: asked as a browser without script would."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any

import pytest
from django.test import Client

from runs import workflows
from runs.engine import Action, Workflow
from runs.models import Approval
from runs.policies import Actor
from runs.templatetags import words
from tests.browser.flows.workflows import Asking, asking
from tests.browser.test_hostile import ALL
from tests.integration.api.conftest import api_of
from tests.integration.core.conftest import House, open_approval, state_of
from tests.kit.forms import form_of

ClientOf = Callable[[Actor], Client]
Asks = Callable[..., Approval]


@pytest.fixture
def flow() -> Iterator[Workflow]:
    made = asking("asked", reasons=["Already paid", "Wrong amount"])
    workflows.register(made)
    yield made
    workflows.unregister("asked")


@pytest.fixture
def asks(house: House, flow: Workflow) -> Asks:
    return lambda **given: open_approval(house.parked("asked", **given)[0])


@pytest.fixture
def frida(house: House, client_of: ClientOf) -> Client:
    return client_of(house.frida)


def page(client: Client, approval: Approval, more: str = "") -> str:
    answer = client.get(f"/inbox/{approval.pk}/{more}")
    assert answer.status_code == 200, answer
    return answer.content.decode()


def send(client: Client, approval: Approval, where: str, sent: dict[str, str], **headers: str) -> Any:
    return client.post(f"/inbox/{approval.pk}/{where}/", sent, headers=headers)


def answered(client: Client, approval: Approval, said: str, *, page_of: str = "", **more: str) -> Any:
    sent = form_of(page(client, approval, page_of), "/decide/")
    return send(client, approval, "decide", {**sent, "decision": said, **more})


def status(approval: Approval) -> tuple[str, str]:
    approval.refresh_from_db()
    return approval.status, approval.outcome


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


SHAPES: list[Any] = [None, "", 42, True, [], {}, nested(30), nested(95)]
PAYLOADS: list[Any] = [
    *({"payload": shape} for shape in SHAPES),
    {"config": {}, "action": "x", "allow_edit": False, "description": {}, "args": [], "schema": None},
    {"__proto__": {"admin": True}, "constructor": 1, ALL: ALL, "svg": "<svg onload=alert(1)>"},
    {f"argument {n}": n for n in range(400)},
    {"text": "x" * 60_000},
    {"lines": "a line\n" * 5_000},
]


@pytest.mark.parametrize("args", PAYLOADS)
def test_any_payload_is_shown_and_decided(asks: Asks, frida: Client, args: Any) -> None:
    """C98."""
    approval = asks(args=args)
    html = page(frida, approval)
    whole = "whole/" if f"/inbox/{approval.pk}/whole/" in html else ""
    hidden = {"seen": "yes"} if 'name="seen"' in html else {}
    answer = answered(frida, approval, "approve", page_of=whole, **hidden)
    assert (answer.status_code, status(approval)) == (303, ("decided", "approve"))


SCHEMAS: list[Any] = [
    None,
    {},
    {"$ref": "#"},
    {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
    {"properties": {"note": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}},
    {"properties": {"note": {"type": "string", "format": "unheard-of"}}},
    {"properties": {"note": True, "other": False}},
]


HUGE = 5_000_000


@pytest.fixture
def huge(house: House) -> Iterator[Approval]:
    """What a node has made: no input may be so large."""
    flow = Workflow("huge", state=Asking)

    @flow.approval(reviewers=["finance"], editor_may_approve=True)
    def confirm(state: Asking, ctx: Any) -> Action:
        return Action("write", {"text": "x" * HUGE, "tail": "the end"}, editable=["text"])

    @flow.node(name="apply")
    def apply_(state: Asking, ctx: Any) -> dict[str, Any]:
        args = ctx.approved("confirm").args
        return {"seen": [len(args["text"]), args["text"][:1], args["tail"]]}

    flow.edge(confirm, "apply")
    workflows.register(flow)
    yield house.parked("huge")[1]
    workflows.unregister("huge")


def test_five_megabytes_are_edited_over_the_api_and_on_the_page(
    house: House, huge: Approval, frida: Client
) -> None:
    larger = {"text": "y" * (HUGE + 1), "tail": "the end"}
    revised = api_of(house.frida).post(
        f"approvals/{huge.pk}/revise", {"version": 1, "args": {"write": larger}}
    )
    assert revised.status == 200, revised.body
    typed = {"mode": "json", "version": "2", "json:write": json.dumps({**larger, "text": "z" * HUGE})}
    assert send(frida, huge, "edit", {**typed, "save": "revise"}).status_code == 303
    huge.refresh_from_db()
    assert (huge.version, huge.content["actions"][0]["args"]["text"]) == (3, "z" * HUGE)


def test_five_megabytes_are_read_in_the_file_and_then_decided(
    house: House, huge: Approval, frida: Client
) -> None:
    """A card shows a little and says how much is left; nobody approves what they could not have seen."""
    approval = huge
    html = page(frida, approval)
    assert len(html) < 200_000
    assert "not shown" in html
    assert hashlib.sha256(b"x" * HUGE).hexdigest() in html
    assert words.size(HUGE) in html or f"{HUGE:,}" in html
    assert 'value="approve"' not in html
    sent = form_of(html, "/decide/")
    refused = send(frida, approval, "decide", {**sent, "decision": "approve", "reason": "typed"})
    assert refused.status_code == 422
    assert "Open all of it" in refused.content.decode()
    assert "typed" in refused.content.decode()
    assert len(page(frida, approval, "whole/")) < 1_500_000
    refused = answered(frida, approval, "approve", page_of="whole/")
    assert refused.status_code == 422
    assert "data-whole" in refused.content.decode()  # back where it was, with what was typed
    file = frida.get(f"/inbox/{approval.pk}/arguments.json")
    assert json.loads(file.content)["write"]["text"] == "x" * HUGE
    assert file["Content-Disposition"].startswith("attachment")
    assert "sandbox" in file["Content-Security-Policy"]
    assert file["X-Content-Type-Options"] == "nosniff"
    assert answered(frida, approval, "approve", page_of="whole/", read="yes").status_code == 303
    assert status(approval) == ("decided", "approve")
    assert state_of(house.work(approval.run))["seen"] == [HUGE, "x", "the end"]


def test_what_a_card_has_no_room_for_is_not_approved_by_an_edit_either(asks: Asks, frida: Client) -> None:
    approval = asks(args={"text": "x" * 50_000, "n": 1}, editable=["n"])
    html = page(frida, approval, "edit/")
    assert 'value="vote"' not in html
    sent = form_of(html, "/edit/") | {"arg:0:/n": "2"}
    assert send(frida, approval, "edit", {**sent, "save": "vote"}).status_code == 422
    assert send(frida, approval, "edit", {**sent, "save": "revise"}).status_code == 303
    approval.refresh_from_db()
    assert (approval.version, approval.content["actions"][0]["args"]["n"]) == (2, 2)


def test_what_a_card_has_no_room_for_may_be_rejected_at_once(asks: Asks, frida: Client) -> None:
    approval = asks(args={f"argument {n}": "x" * 100 for n in range(400)})
    html = page(frida, approval)
    assert "300 arguments not shown" in html.replace("&nbsp;", " ")
    assert answered(frida, approval, "reject", reason="too much").status_code == 303
    assert status(approval) == ("decided", "reject")


LINES = {
    "type": "object",
    "properties": {
        "order": {"type": "string"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}, "minItems": 1},
        "pay": {"oneOf": [{"$ref": "#/$defs/Card"}, {"$ref": "#/$defs/Bank"}]},
        "due": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
    },
    "$defs": {
        "Line": {
            "type": "object",
            "required": ["sku", "count"],
            "properties": {"sku": {"type": "string"}, "count": {"type": "integer", "maximum": 10**30}},
        },
        "Card": {"type": "object", "required": ["card"], "properties": {"card": {"type": "string"}}},
        "Bank": {"type": "object", "required": ["iban"], "properties": {"iban": {"type": "string"}}},
    },
}
ORDER = {
    "order": "88",
    "lines": [{"sku": "chair", "count": 9007199254740993}, {"sku": "table", "count": 1}],
    "pay": {"card": "4242"},
    "due": None,
}


@pytest.fixture
def ordered(house: House) -> Iterator[Callable[[], Approval]]:
    made = asking("ordered")
    workflows.register(made)
    given = {"args": ORDER, "schema": LINES, "editable": ["lines", "pay", "due"]}
    yield lambda: open_approval(house.parked("ordered", **given)[0])
    workflows.unregister("ordered")


def test_a_form_without_script_gets_and_loses_rows_and_takes_another_way(
    ordered: Callable[[], Approval], frida: Client
) -> None:
    approval = ordered()

    def press(html: str, name: str, value: str, **typed: str) -> str:
        sent = {**form_of(html, "/edit/"), **typed, name: value}
        answer = send(frida, approval, "edit", sent)
        assert answer.status_code in (200, 400), answer
        return str(answer.content.decode())

    html = page(frida, approval, "edit/")
    html = press(html, "grow", "0:/lines")
    html = press(html, "drop", "0:/lines/0", **{"arg:0:/lines/2/sku": "lamp"})
    html = press(html, "draw", "0:/pay", **{"arg:0:/pay:as": "1"})
    html = press(html, "draw", "0:/due")
    assert "fill them in" not in html
    html = press(html, "save", "vote", **{"arg:0:/lines/2/count": "two", "arg:0:/pay//iban": "DE1"})
    assert "&#x27;two&#x27; is not a whole number" in html
    assert form_of(html, "/edit/")["arg:0:/lines/2/count"] == "two"
    sent = form_of(html, "/edit/") | {"arg:0:/lines/2/count": "2", "save": "vote"}
    del sent["arg:0:/due:null"]
    refused = send(frida, approval, "edit", {**sent, "arg:0:/due": "soon"})
    assert refused.status_code == 422
    assert "is not a &#x27;date&#x27;" in refused.content.decode()
    assert send(frida, approval, "edit", {**sent, "arg:0:/due": "2026-12-24"}).status_code == 303
    approval.refresh_from_db()
    assert approval.content["actions"][0]["args"] == {
        "order": "88",
        "lines": [{"sku": "table", "count": 1}, {"sku": "lamp", "count": 2}],
        "pay": {"iban": "DE1"},
        "due": "2026-12-24",
    }


def test_an_untouched_form_is_no_edit(ordered: Callable[[], Approval], frida: Client) -> None:
    """C10"""
    approval = ordered()
    sent = form_of(page(frida, approval, "edit/"), "/edit/") | {"save": "vote"}
    answer = send(frida, approval, "edit", sent)
    assert "Nothing differs from the proposal" in answer.content.decode()
    assert status(approval) == ("open", "")


def test_while_somebody_types_the_difference_and_what_is_wrong_come_back(
    ordered: Callable[[], Approval], frida: Client
) -> None:
    approval = ordered()
    live = {"HX-Request": "true", "HX-Target": "_difference"}
    sent = form_of(page(frida, approval, "edit/"), "/edit/")
    html = send(frida, approval, "edit", {**sent, "arg:0:/lines/0/count": "5"}, **live).content.decode()
    assert html.lstrip().startswith('<section class="section" id="_difference"')
    assert "9007199254740993" in html
    assert "lines.0.count" in html
    text = {**sent, "mode": "json", "json:write": json.dumps(ORDER | {"lines": []}, indent=1)}
    html = unescape(send(frida, approval, "edit", text, **live).content.decode())
    assert "should be non-empty" in html
    assert "line 3, column 11" in html
    assert status(approval) == ("open", "")


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_schema_that_cannot_be_used_takes_the_edit_away_and_says_why(
    asks: Asks, frida: Client, schema: Any
) -> None:
    """C98."""
    approval = asks(args={"note": "x"}, schema=schema, editable=["note"])
    html = page(frida, approval)
    can_edit = f"/inbox/{approval.pk}/edit/" in html
    assert can_edit != ("Edit is off" in html)
    assert frida.get(f"/inbox/{approval.pk}/edit/").status_code == (200 if can_edit else 404)
    assert answered(frida, approval, "approve").status_code == 303


def test_a_reason_is_chosen_and_added_to(asks: Asks, frida: Client) -> None:
    approval = asks()
    html = page(frida, approval)
    assert 'value="Already paid"' in html
    refused = answered(frida, approval, "reject", preset="Because", reason="see 7731")
    assert (refused.status_code, "not offered here" in refused.text) == (422, True)
    assert answered(frida, approval, "reject", preset="Already paid", reason="see 7731").status_code == 303
    vote = approval.votes.get()
    assert vote.comment == "Already paid. see 7731"
    assert json.loads(vote.decisions)[0]["message"] == "Already paid. see 7731"


def test_a_reason_is_chosen_over_the_api(house: House, asks: Asks) -> None:
    approval = asks()
    frida, told = api_of(house.frida), {"version": 1, "type": "reject", "comment": "see 7731"}
    refused = frida.post(f"approvals/{approval.pk}/decide", {**told, "reasons": ["Because"]})
    assert (refused.status, refused.paths, refused.codes) == (422, ["/reasons/0"], ["unknown_reason"])
    for _ in range(2):  # the same once more is the same answer
        answer = frida.post(f"approvals/{approval.pk}/decide", {**told, "reasons": ["Already paid"]})
        assert answer.status == 200
    assert approval.votes.get().comment == "Already paid. see 7731"


def test_a_stale_answer_keeps_the_reason_that_was_chosen(asks: Asks, frida: Client) -> None:
    approval = asks(args={"note": "x"}, editable=["note"])
    sent = form_of(page(frida, approval), "/decide/") | {"decision": "reject", "preset": "Wrong amount"}
    refused = send(frida, approval, "decide", {**sent, "version": "7"})
    assert refused.status_code == 409
    assert form_of(refused.content.decode(), "/decide/")["preset"] == "Wrong amount"
