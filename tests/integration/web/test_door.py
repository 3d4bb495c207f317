"""The door of the pages: who gets in, what a GET may not do, what a refusal says and keeps."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from django.test import Client
from django.urls import URLPattern

from runs import workflows
from runs.engine import Workflow
from runs.models import Approval, AuditEntry, Event, Run, Step, User, Vote
from runs.policies import Actor
from runs.web.urls import urlpatterns
from tests.browser.flows.workflows import asking
from tests.integration.core.conftest import House, make_house, open_approval

ClientOf = Callable[[Actor], Client]
OPEN = {"sign-in", "join"}  # what nobody needs to sign in for


@pytest.fixture
def flow() -> Iterator[Workflow]:
    made = asking("asked")
    workflows.register(made)
    yield made
    workflows.unregister("asked")


@pytest.fixture
def approval(house: House, flow: Workflow) -> Approval:
    return house.parked("asked", args={"n": 1}, editable=["n"])[1]


def addresses(approval: Approval) -> dict[str, str]:
    """Every page by name, with ids that exist."""
    ids = {
        "approval_id": str(approval.pk),
        "run_id": str(approval.run_id),
        "no": "0",
        "seq": "1",
        "token_id": str(approval.pk),
        "invitation_id": "00000000-0000-4000-8000-000000000000",
        "username": "frida",
        "name": "finance",
        "rule": "ended",
        "target": str(approval.run_id),
        "secret": "nobody-has-this-link",
        "endpoint_id": str(approval.pk),
        "delivery_id": str(approval.pk),
        "view_id": str(approval.pk),
        "attachment_id": str(approval.pk),
        "token": "nonsense",
    }
    found = {}
    for pattern in urlpatterns:
        assert isinstance(pattern, URLPattern)
        route = str(pattern.pattern)
        for name, value in ids.items():
            route = re.sub(rf"<\w+:{name}>", value, route)
        found[str(pattern.name)] = f"/{route}"
    return found


def rows() -> list[int]:
    return [model.objects.count() for model in (Run, Step, Event, Vote, Approval)] + [
        hash(tuple(Approval.objects.values_list("version", "status", "digest"))),
        hash(tuple(Run.objects.values_list("version", "status", "seq"))),
    ]


def test_nobody_sees_a_page_without_signing_in(approval: Approval) -> None:
    """C87: every address, whatever is added."""
    for name, address in addresses(approval).items():
        answer = Client().get(address)
        if name in OPEN:
            assert answer.status_code == (404 if name == "join" else 200)  # nobody has such a link
            continue
        if name == "styleguide":
            assert answer.status_code == 404  # there is one in development only
            continue
        if name == "link":
            assert (
                answer.status_code == 403
            )  # whose link it is must be known before somebody is asked to sign in
            continue
        if name.startswith("live-"):
            assert answer.status_code == 401  # read by streams, which cannot follow to a page
            continue
        assert answer.status_code in (302, 303, 405), (name, answer.status_code)
        if name not in ("home", "sign-out"):
            assert answer.get("Location", "/sign-in/").startswith("/sign-in/"), name


def test_a_fragment_is_sent_to_sign_in_as_a_whole_page(approval: Approval) -> None:
    """C96"""
    headers = {"HX-Request": "true", "HX-Current-URL": "http://testserver/inbox/"}
    answer = Client().get(f"/inbox/{approval.pk}/", headers=headers)
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer["HX-Redirect"] == "/sign-in/?next=%2Finbox%2F"


def test_get_and_head_change_nothing(house: House, approval: Approval, client_of: ClientOf) -> None:
    """K9"""
    client = client_of(house.olga)
    before = rows()
    for address in addresses(approval).values():
        if address == "/sign-out/":
            continue
        for ask in (client.get, client.head, client.options):
            ask(address)
    assert rows() == before


def test_a_project_of_others_is_not_there(house: House, approval: Approval, client_of: ClientOf) -> None:
    """C86, K11"""
    other = make_house("other")
    for actor in (other.frida, other.olga):
        client = client_of(actor)
        for name, address in addresses(approval).items():
            if str(approval.pk) not in address and str(approval.run_id) not in address:
                continue
            for answer in (
                client.get(address, follow=True),
                client.post(address, {"reason": "x", "decision": "approve", "version": "1"}),
            ):
                assert answer.status_code in (404, 405), (name, answer.status_code)
                assert approval.title.encode() not in answer.content
    assert Vote.objects.count() == 0


def test_people_without_a_project_are_told_so(database: None) -> None:
    client = Client()
    client.force_login(User.objects.create_user("nobody"))
    answer = client.get("/inbox/")
    assert answer.status_code == 404
    assert b"You are in no project yet" in answer.content


def send(client: Client, approval: Approval, **fields: str) -> object:
    told = {
        "version": str(approval.version),
        "digest": approval.digest,
        "action": "write",
        "decision": "approve",
    }
    return client.post(f"/inbox/{approval.pk}/decide/", {**told, **fields})


@pytest.mark.parametrize(
    ("fields", "status", "says"),
    [
        ({"version": "7"}, 409, "This changed while you were writing"),
        ({"version": ""}, 428, "Send the version of the approval that you saw"),
        ({"digest": "0" * 64}, 409, "This changed while you were writing"),
        ({"decision": "shrug"}, 400, "is no answer"),
        ({"action": "other"}, 400, "has no action"),
        ({"reason": "a\x00b"}, 400, "U+0000"),
        ({"reason": "x" * 10_001}, 422, "at most 10,000 characters"),
    ],
)
def test_a_bad_answer_is_refused_with_words_and_keeps_the_reason(
    house: House, approval: Approval, client_of: ClientOf, fields: dict[str, str], status: int, says: str
) -> None:
    answer = send(client_of(house.frida), approval, **{"reason": "kept & sound", **fields})
    assert answer.status_code == status  # type: ignore[attr-defined]
    text = answer.content.decode()  # type: ignore[attr-defined]
    assert says in text
    assert "kept &amp; sound" in text or "reason" in fields
    assert Vote.objects.count() == 0


def test_a_refusal_for_want_of_a_right_is_in_the_audit(
    house: House, approval: Approval, client_of: ClientOf
) -> None:
    """C59"""
    answer = send(client_of(house.vera), approval)
    assert answer.status_code == 403  # type: ignore[attr-defined]
    assert AuditEntry.objects.filter(user_name="vera", verb="decide", outcome__startswith="denied").exists()
    assert Vote.objects.count() == 0


def test_a_post_that_works_answers_303_and_htmx_gets_the_place(
    house: House, approval: Approval, client_of: ClientOf
) -> None:
    client = client_of(house.frida)
    answer = send(client, approval)
    assert (answer.status_code, answer["Location"]) == (303, "/inbox/")  # type: ignore[attr-defined,index]
    _, second = house.parked("asked", title="Second")
    fields = {"version": "1", "digest": second.digest, "action": "write", "decision": "approve"}
    answer = client.post(f"/inbox/{second.pk}/decide/", fields, headers={"HX-Request": "true"})
    assert (answer.status_code, answer["HX-Push-Url"]) == (200, "/inbox/")
    assert b'id="_inbox_count"' in answer.content
    assert b"<html" not in answer.content


def test_the_same_answer_twice_is_one_vote(house: House, approval: Approval, client_of: ClientOf) -> None:
    """K12"""
    client = client_of(house.frida)
    for _ in range(2):
        assert send(client, approval).status_code == 303  # type: ignore[attr-defined]
    assert send(client, approval, decision="reject").status_code == 409  # type: ignore[attr-defined]
    assert [vote.outcome for vote in Vote.objects.all()] == ["approve"]


def test_a_form_from_elsewhere_is_refused_in_words(house: House, approval: Approval) -> None:
    """T10: no CSRF token, no decision."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(house.frida.user)
    answer = send(client, approval, reason="typed")
    assert answer.status_code == 403  # type: ignore[attr-defined]
    text = answer.content.decode()  # type: ignore[attr-defined]
    assert "Your session was renewed" in text
    assert ">\ntyped</textarea>" in text
    assert Vote.objects.count() == 0


def test_the_count_is_the_list_is_the_database(house: House, flow: Workflow, client_of: ClientOf) -> None:
    """Acceptance check 7: what a person may not decide is not counted for them."""
    for _ in range(3):
        house.parked("asked")
    own = house.work(house.submit("asked"))
    Run.objects.filter(pk=own.pk).update(requester=house.frida.user)
    for actor, expected in ((house.frida, 3), (house.felix, 4), (house.olga, 0), (house.vera, 0)):
        text = client_of(actor).get("/inbox/").content.decode()
        assert text.count("data-row>") == expected
        assert (f'>{expected}<span class="unseen"> open' in text) == bool(expected)
    assert open_approval(own).status == "open"
