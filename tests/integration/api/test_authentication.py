"""Who may come in: API tokens, sessions with CSRF, and nobody else."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from runs.live import presence
from runs.models import ApiToken, Member, Project
from tests.integration.api.conftest import (
    Api,
    House,
    api_of,
    checked,
    every_row,
    make_house,
    person,
    token_of,
)


def test_without_a_token_or_session_nothing_is_told(house: House) -> None:
    reply = Api().get("runs")
    assert (reply.status, reply.code) == (401, "not_authenticated")
    assert reply.headers["WWW-Authenticate"].startswith("Bearer ")


def test_a_token_opens_its_project(shop: Api) -> None:
    assert shop.get("runs").body == {"items": [], "next": None}


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic c2hvcDp4", "Token abc", "Bearer \x00", "Bearer ü"]
)
def test_another_header_than_bearer_and_a_token_is_refused(house: House, header: str) -> None:
    reply = Api().get("runs", Authorization=header)
    assert (reply.status, reply.code) == (401, "not_authenticated")


def test_unknown_expired_and_revoked_tokens_are_refused_alike(house: House) -> None:
    expired = token_of(house.shop, expires_at=timezone.now() - timedelta(seconds=1))
    revoked = token_of(house.shop)
    ApiToken.objects.filter(expires_at=None).update(revoked_at=timezone.now())
    replies = [Api(secret).get("runs") for secret in (expired, revoked, "hitl_unknown")]
    assert {(reply.status, reply.text) for reply in replies} == {(401, replies[0].text)}
    assert 'error="invalid_token"' in replies[0].headers["WWW-Authenticate"]


def test_a_token_that_expires_later_is_good(house: House) -> None:
    assert (
        Api(token_of(house.shop, expires_at=timezone.now() + timedelta(minutes=1))).get("runs").status == 200
    )


def test_the_token_of_an_inactive_user_is_refused(house: House) -> None:
    api = api_of(house.shop)
    house.shop.user.is_active = False
    house.shop.user.save()
    assert api.get("runs").status == 401


def test_the_token_of_a_former_member_opens_nothing(house: House) -> None:
    api = api_of(house.shop)
    Member.objects.filter(user=house.shop.user).delete()
    assert (api.get("runs").status, api.get("runs").code) == (403, "forbidden")


@pytest.mark.parametrize("name", ["token", "access_token", "api_token", "api_key"])
def test_a_token_in_the_address_is_refused_even_beside_a_good_one(house: House, name: str) -> None:
    secret = token_of(house.shop)
    assert Api().get(f"runs?{name}={secret}").status == 401
    assert Api(secret).get(f"runs?{name}={secret}").status == 401


@pytest.mark.parametrize(
    ("path", "scope"),
    [("runs", "runs:read"), ("approvals", "approvals:read")],
)
def test_reading_takes_its_scope(house: House, path: str, scope: str) -> None:
    every = ["runs:read", "runs:submit", "runs:operate", "approvals:read", "approvals:decide"]
    without = Api(token_of(house.olga, [other for other in every if other != scope])).get(path)
    assert (without.status, without.code, without.body["scope"]) == (403, "missing_scope", scope)
    assert Api(token_of(house.olga, [scope])).get(path).status == 200


def test_the_secret_of_a_token_is_kept_nowhere(house: House) -> None:
    secret = token_of(house.shop)
    row = ApiToken.objects.get()
    assert secret not in str(row.__dict__)
    assert len(bytes(row.digest)) == 32


def test_the_last_use_of_a_token_is_noted_without_changing_a_row(house: House) -> None:
    """K9."""
    secret = token_of(house.shop)
    before = list(ApiToken.objects.values())
    Api(secret).get("runs")
    assert list(ApiToken.objects.values()) == before
    token = ApiToken.objects.get()
    assert timezone.now() - presence.last_uses([token.pk])[token.pk] < timedelta(minutes=1)


def test_redis_that_is_gone_does_not_keep_a_token_out(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "REDIS_URL", "redis://127.0.0.1:1")
    monkeypatch.setattr(presence, "_notes", presence._Notes())
    assert Api(token_of(house.shop)).get("runs").status == 200
    assert presence.last_uses([house.project.pk]) == {}


# ---- sessions


def signed_in(house: House, *, csrf: bool = True) -> Client:
    client = Client(raise_request_exception=False, enforce_csrf_checks=csrf)
    client.force_login(house.olga.user)
    return client


def test_a_session_reads(house: House) -> None:
    client = signed_in(house)
    assert checked("GET", "/api/v1/runs", client.get("/api/v1/runs")).status == 200


def submit(client: Client, **headers: str) -> Any:
    body = '{"workflow": "echo", "input": {}}'
    response = client.post("/api/v1/runs", body, content_type="application/json", headers=headers)
    return checked("POST", "/api/v1/runs", response)


def test_a_session_that_writes_needs_its_csrf_token(house: House) -> None:
    client = signed_in(house)
    without = submit(client)
    assert (without.status, without.code) == (403, "csrf_failed")
    client.cookies["hitl_csrf"] = "a" * 32
    assert submit(client, X_CSRFToken="b" * 32).code == "csrf_failed"
    with_token = submit(client, **{"X-CSRFToken": "a" * 32})
    assert with_token.status == 201


@pytest.mark.parametrize(
    ("method", "path"), [("DELETE", "tokens/{id}"), ("DELETE", "members/vera"), ("DELETE", "runs/{id}/hold")]
)
def test_what_needs_the_csrf_token_without_a_body_says_so_too(house: House, method: str, path: str) -> None:
    address = f"/api/v1/{path.format(id=uuid.uuid4())}"
    reply = checked(method, address, signed_in(house).generic(method, address))
    assert (reply.status, reply.code) == (403, "csrf_failed")


@pytest.mark.parametrize("path", ["members", "tokens", "teams/finance/hours", "project", "problems"])
def test_an_address_that_knows_no_such_parameter_says_so(house: House, path: str) -> None:
    """K10"""
    reply = api_of(person(house.project, "ada", "admin")).get(f"{path}?colour=red")
    assert (reply.status, reply.code) == (400, "unknown_field")


def test_a_person_without_a_project_finds_nothing(house: House, django_user_model: Any) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(django_user_model.objects.create_user("nobody"))
    assert checked("GET", "/api/v1/workflows", client.get("/api/v1/workflows")).status == 403


def test_a_session_may_name_one_of_several_projects(house: House) -> None:
    other = make_house("zoo")
    Member.objects.create(project=other.project, user=house.olga.user, roles=["operator"])
    client = signed_in(house)
    run = submit(signed_in(house, csrf=False), **{"Hitl-Project": "zoo"})
    assert Project.objects.get(runs=run.body["id"]).slug == "zoo"
    path = f"/api/v1/runs/{run.body['id']}"
    assert client.get(path).status_code == 404
    assert client.get(path, headers={"Hitl-Project": "zoo"}).status_code == 200
    assert client.get(path, headers={"Hitl-Project": "unknown"}).status_code == 403


def test_a_bad_token_is_refused_even_with_a_session(house: House) -> None:
    client = signed_in(house)
    response = client.get("/api/v1/runs", headers={"Authorization": "Bearer nope"})
    assert checked("GET", "/api/v1/runs", response).status == 401


def test_signing_in_is_not_written_by_reading(house: House) -> None:
    client = signed_in(house)
    before = every_row()
    client.get("/api/v1/runs")
    assert every_row() == before
