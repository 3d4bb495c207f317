"""Members, teams, invitations, service accounts, tokens and the audit over REST (C86, C87, C89)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from runs.models import ApiToken, AuditEntry, Member, Project, User
from runs.models.people import SCOPES
from runs.policies import Actor
from tests.integration.api.conftest import Api, House, api_of, checked, denials, make_house, pages, person

ADDRESSES: list[tuple[str, str, Any]] = [
    ("PATCH", "project", {"name": "New"}),
    ("GET", "members", None),
    ("GET", "members/vera", None),
    ("PATCH", "members/vera", {"roles": ["reviewer"]}),
    ("DELETE", "members/vera", None),
    ("POST", "members/vera/deactivate", None),
    ("POST", "members/vera/reactivate", None),
    ("POST", "service-accounts", {"username": "bot", "roles": ["submitter"]}),
    ("GET", "invitations", None),
    ("POST", "invitations", {"roles": ["viewer"]}),
    ("GET", "teams", None),
    ("GET", "teams/finance", None),
    ("POST", "teams", {"name": "law", "people": ["frida"]}),
    ("PATCH", "teams/finance", {"people": ["frida"]}),
    ("DELETE", "teams/finance", None),
    ("GET", "audit", None),
]


@pytest.mark.parametrize(("method", "path", "body"), ADDRESSES)
def test_it_takes_the_role_and_the_scope(
    house: House, ada: Api, admin: Actor, olga: Api, method: str, path: str, body: Any
) -> None:
    assert Api().ask(method, path, body).status == 401
    assert olga.ask(method, path, body).code == "forbidden"
    [denied] = denials()
    assert (denied[0], denied[2]) == ("olga", "denied: forbidden")
    assert denied[1].startswith("read ") == (method == "GET")
    without = api_of(admin, ["runs:read", "runs:operate", "approvals:read"])
    assert without.ask(method, path, body).code == "missing_scope"
    assert ada.ask(method, path, body).status in (200, 201)


@pytest.mark.parametrize(
    ("method", "path", "body"), [row for row in ADDRESSES if "vera" in row[1] or "finance" in row[1]]
)
def test_what_is_in_another_project_is_as_what_is_nowhere(
    house: House, method: str, path: str, body: Any
) -> None:
    """C86, K11"""
    other = make_house("other")
    eve = api_of(person(other.project, "eve", "admin"))
    other.project.teams.all().delete()
    foreign = eve.ask(method, path, body)
    missing = eve.ask(method, path.replace("vera", "nobody").replace("finance", "nothing"), body)
    assert (foreign.status, foreign.code) == (404, "not_found")
    assert foreign.text == missing.text
    assert Member.objects.get(user=house.vera.user).roles == ["viewer"]
    assert len(denials()) == 2


def test_members_are_listed_page_by_page(house: House, ada: Api) -> None:
    found = pages(ada, "members?limit=2", parameter="after")
    assert [len(page) for page in found] == [2, 2, 2]
    told = {one["user"]["username"]: one for page in found for one in page}
    assert list(told) == ["ada", "felix", "frida", "olga", "shop", "vera"]
    assert (told["frida"]["teams"], told["frida"]["roles"], told["frida"]["active"]) == (
        ["finance"],
        ["reviewer"],
        True,
    )


def test_a_member_is_changed_and_removed(house: House, ada: Api) -> None:
    assert ada.patch("members/vera", {"roles": ["operator"]}).body["roles"] == ["operator"]
    assert ada.ask("DELETE", "members/vera").body == {"done": True}
    assert ada.get("members/vera").code == "not_found"
    assert ada.ask("DELETE", "members/ada").code == "last_admin"
    assert ada.patch("members/ada", {"roles": ["viewer"]}).code == "last_admin"
    assert ada.patch("members/frida", {"roles": ["king"]}).code == "bad_request"
    assert ada.patch("members/frida", {"roles": []}).code == "bad_request"


def test_the_token_of_a_deactivated_person_ends_at_once_and_comes_back(
    house: House, ada: Api, vera: Api
) -> None:
    """C89"""
    assert vera.get("runs").status == 200
    assert ada.post("members/vera/deactivate").body["active"] is False
    refused = vera.get("runs")
    assert (refused.status, refused.code) == (401, "not_authenticated")
    assert ada.post("members/vera/reactivate").body["active"] is True
    assert vera.get("runs").status == 200
    assert ada.post("members/ada/deactivate").code == "conflict"


def test_a_member_who_was_removed_is_outside_with_every_credential(house: House, ada: Api, vera: Api) -> None:
    """C89: the token does not come back when they do."""
    browser = Client()
    browser.force_login(house.vera.user)
    ada.ask("DELETE", "members/vera")
    assert vera.get("runs").status == 401
    assert checked("GET", "/api/v1/runs", browser.get("/api/v1/runs")).code == "forbidden"
    assert browser.get("/runs/").status_code == 404
    Member.objects.create(project=house.project, user=house.vera.user, roles=["viewer"])
    assert vera.get("runs").status == 401
    assert browser.get("/runs/").status_code == 200


def test_an_account_of_other_projects_is_not_closed_from_here(house: House, ada: Api) -> None:
    other = make_house("other")
    Member.objects.create(project=other.project, user=house.vera.user, roles=["viewer"])
    assert ada.post("members/vera/deactivate").code == "works_elsewhere"
    assert User.objects.get(username="vera").is_active


def test_a_service_account_gets_its_tokens(house: House, ada: Api) -> None:
    made = ada.post("service-accounts", {"username": "bot", "name": "Bot", "roles": ["submitter"]})
    assert (made.status, made.body["user"]["is_service"]) == (201, True)
    assert ada.post("service-accounts", {"username": "bot", "roles": ["viewer"]}).code == "name_taken"
    token = ada.post("tokens", {"name": "bot", "username": "bot", "scopes": ["runs:submit", "runs:read"]})
    assert token.status == 201
    bot = Api(token.body["secret"])
    assert bot.get("runs").status == 200
    assert bot.get("project").body["roles"] == ["submitter"]
    listed = ada.get("tokens").body["items"]
    assert token.body["secret"] not in str(listed)
    assert ada.ask("DELETE", f"tokens/{token.body['id']}").body["revoked_at"] is not None
    assert bot.get("runs").status == 401
    assert ada.post("tokens", {"name": "t", "username": "vera", "scopes": ["runs:read"]}).code == "forbidden"
    assert (
        ada.post("tokens", {"name": "t", "username": "nobody", "scopes": ["runs:read"]}).code == "not_found"
    )


def test_everybody_lists_and_ends_their_own_tokens(house: House, ada: Api, vera: Api) -> None:
    listed = vera.get("tokens").body["items"]
    assert [one["user"]["username"] for one in listed] == ["vera"]
    of_ada = ApiToken.objects.get(user__username="ada")
    assert vera.ask("DELETE", f"tokens/{of_ada.pk}").code == "not_found"
    assert vera.ask("DELETE", f"tokens/{listed[0]['id']}").status == 200
    assert vera.get("tokens").status == 401


def test_a_token_may_have_every_scope_and_an_end(house: House, ada: Api) -> None:
    until = timezone.now().replace(microsecond=0) + timedelta(days=2)
    made = ada.post("tokens", {"name": "all", "scopes": list(SCOPES), "expires_at": until.isoformat()})
    assert (made.status, made.body["scopes"]) == (201, list(SCOPES))
    assert ApiToken.objects.get(pk=made.body["id"]).expires_at == until
    assert Api(made.body["secret"]).get("project").status == 200
    bad = ada.post("tokens", {"name": "bad", "scopes": ["runs:read", "everything"], "expires_at": "soon"})
    assert (bad.status, bad.paths) == (400, ["/scopes/1", "/expires_at"])


@pytest.mark.parametrize("verb", ["deactivate", "reactivate"])
def test_what_nothing_reads_is_refused_where_nothing_is_to_be_said(house: House, ada: Api, verb: str) -> None:
    """K10"""
    assert ada.post(f"members/vera/{verb}", {"reason": "gone"}).code == "unknown_field"
    assert User.objects.get(username="vera").is_active
    assert not AuditEntry.objects.filter(verb=verb).exists()


def test_an_invitation_is_made_listed_and_withdrawn(house: House, ada: Api) -> None:
    made = ada.post("invitations", {"roles": ["reviewer"], "email": "Nina@example.com", "days": 3})
    assert (made.status, made.body["email"]) == (201, "nina@example.com")
    assert made.body["link"].startswith("http://testserver/join/")
    listed = ada.get("invitations").body["items"]
    assert [one["id"] for one in listed] == [made.body["id"]]
    assert "link" not in listed[0]
    assert ada.ask("DELETE", f"invitations/{made.body['id']}").body["withdrawn_at"] is not None
    assert ada.get("invitations").body["items"] == []
    assert Client().get(made.body["link"]).status_code == 410
    assert ada.post("invitations", {"roles": ["viewer"], "email": "nowhere"}).code == "schema_violation"


def test_teams_are_made_changed_and_dissolved(house: House, ada: Api) -> None:
    made = ada.post("teams", {"name": "law", "people": ["vera"]})
    assert (made.status, [one["username"] for one in made.body["people"]]) == (201, ["vera"])
    assert ada.post("teams", {"name": "law"}).code == "name_taken"
    assert ada.patch("teams/law", {"people": []}).body["people"] == []
    assert ada.patch("teams/law", {"people": ["nobody"]}).code == "schema_violation"
    assert [page[0]["name"] for page in pages(ada, "teams?limit=1", parameter="after")] == ["finance", "law"]
    assert ada.ask("DELETE", "teams/law").body == {"done": True}
    assert ada.get("teams/law").code == "not_found"


def test_the_audit_says_who_did_what_from_where(house: House, ada: Api) -> None:
    ada.patch("members/vera", {"roles": ["operator"]})
    ada.patch("project", {"name": "New name"})
    first, second = (page[0] for page in pages(ada, "audit?limit=1", parameter="before"))
    assert (first["verb"], first["said"], first["username"]) == ("rename_project", "name: New name", "ada")
    assert (second["verb"], second["target"], second["said"]) == ("set_roles", "vera", "roles: operator")
    assert (first["method"], first["address"], first["outcome"]) == ("token", "127.0.0.1", "done")
    assert AuditEntry.objects.filter(verb="set_roles", project=house.project).count() == 1


def test_a_session_asks_in_the_project_that_its_pages_are_in(house: House) -> None:
    """A person in two projects: the API beside the pages shows what the pages show."""
    second = Project.objects.create(slug="zebra", name="Zebra")
    Member.objects.create(project=second, user=house.vera.user, roles=["operator"])
    client = Client()
    client.force_login(house.vera.user)

    def slug(**headers: str) -> str:
        return str(
            checked("GET", "/api/v1/project", client.get("/api/v1/project", headers=headers)).body["slug"]
        )

    assert slug() == "demo"
    client.post(reverse("switch"), {"project": "zebra"})
    assert slug() == "zebra"
    assert slug(**{"Hitl-Project": "demo"}) == "demo"
    Member.objects.filter(project=second).delete()
    assert slug() == "demo"
