"""Addresses: other spellings of the same, and those that are none."""

from __future__ import annotations

import uuid

import pytest
from django.test import Client, override_settings

from tests.integration.api.conftest import Api, House, checked


def test_every_spelling_of_an_id_is_the_same_run(house: House, shop: Api) -> None:
    run = str(house.submit("echo").pk)
    told = shop.get(f"runs/{run}").body
    for spelling in (run.upper(), run.replace("-", ""), f"{run}/", f"{run.replace('-', '').upper()}/"):
        assert shop.get(f"runs/{spelling}").body == told


def test_a_slash_at_the_end_changes_nothing(shop: Api) -> None:
    assert shop.get("runs/").status == 200
    assert shop.post("runs/", {"workflow": "echo", "input": {}}).status == 201


NOBODYS = uuid.UUID("0f6b5c9e-4d0e-4f7e-9d53-6c1f1f1f7a10")


@pytest.mark.parametrize(
    "path",
    [
        "runs/1",
        "runs/not-an-id",
        f"runs/{NOBODYS}x",
        f"runs/{{{NOBODYS}}}",
        "runs/%00",
        "members/%00",
        f"runs/{NOBODYS}/nothing",
        f"runs/{NOBODYS}/checkpoints/-1",
        f"runs/{NOBODYS}/checkpoints/x",
        "approvals/7",
        "nothing",
        "",
    ],
)
def test_what_is_no_address_is_a_problem_not_a_page(shop: Api, path: str) -> None:
    reply = shop.get(path)
    assert (reply.status, reply.code) == (404, "not_found")


def test_an_unknown_id_is_not_found(shop: Api) -> None:
    for path in (f"runs/{uuid.uuid4()}", f"runs/{uuid.uuid4()}/history", f"approvals/{uuid.uuid4()}"):
        assert shop.get(path).code == "not_found"


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", "runs"), ("DELETE", "runs"), ("OPTIONS", "runs"), ("POST", "workflows")]
)
def test_another_method_is_refused_with_those_that_are_answered(shop: Api, method: str, path: str) -> None:
    reply = shop.ask(method, path)
    assert (reply.status, reply.code) == (405, "method_not_allowed")
    assert "GET" in reply.headers["Allow"]
    assert method not in reply.headers["Allow"].split(", ")


def test_outside_of_the_versions_there_are_problems_too() -> None:
    for path in ("/api/", "/api/v2/runs", "/api/v1"):
        response = Client(raise_request_exception=False).get(path, follow=True)
        assert checked("GET", path, response).code == "not_found"


@override_settings(ALLOWED_HOSTS=["hitl.example"])
def test_a_foreign_host_is_a_problem_too(shop: Api) -> None:
    reply = shop.get("runs", Host="evil.example")
    assert (reply.status, reply.code) == (400, "bad_request")


def test_thousands_of_parameters_are_refused(shop: Api) -> None:
    assert shop.get("runs?" + "&".join(f"p{n}=1" for n in range(3_000))).code in (
        "bad_request",
        "unknown_field",
    )


def test_answers_may_not_be_kept_by_caches(shop: Api) -> None:
    assert shop.get("runs").headers["Cache-Control"] == "no-store"


def test_whatever_is_accepted_json_is_answered(shop: Api) -> None:
    for wanted in ("text/html", "application/problem+json", "application/xml", "*/*"):
        assert shop.get("runs", Accept=wanted).headers["Content-Type"] == "application/json"
