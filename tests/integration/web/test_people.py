"""The pages of people and settings, and the way between projects (C86, C87, C89)."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from runs.engine import Workflow
from runs.models import Invitation, Member, Project, User
from runs.policies import Actor
from tests.integration.core.conftest import House, define, make_house, pay_flow, person

__all__ = ["define"]

ClientOf = Callable[[Actor], Client]
Define = Callable[..., Workflow]


@pytest.fixture
def ada(house: House) -> Actor:
    return person(house.project, "ada", "admin")


@pytest.fixture
def page(ada: Actor, client_of: ClientOf) -> Client:
    return client_of(ada)


def text_of(answer: object) -> str:
    content: bytes = answer.content  # type: ignore[attr-defined]
    return content.decode()


def link_of(page: Client, **fields: object) -> str:
    """Makes an invitation on the page; the path of its link."""
    answer = page.post(
        "/members/", {"verb": "invite", "roles": ["viewer"], "days": "7", **fields}, follow=True
    )
    found = re.search(r'id="new-link">https?://testserver([^<]+)<', text_of(answer))
    assert found, text_of(answer)
    return found[1]


# ---- members


def test_everybody_sees_who_is_here_and_only_admins_change_it(
    house: House, page: Client, client_of: ClientOf
) -> None:
    reader = client_of(house.vera)
    for address in ("/members/", "/members/frida/", "/teams/", "/teams/finance/", "/settings/"):
        assert reader.get(address).status_code == 200
        assert '<form method="post" action="/members' not in text_of(reader.get(address))
        assert page.get(address).status_code == 200
    assert reader.get("/settings/audit/").status_code == 403
    assert reader.post("/members/frida/", {"verb": "roles", "roles": ["admin"]}).status_code == 403
    assert reader.post("/members/", {"verb": "invite", "roles": ["admin"], "days": "7"}).status_code == 403
    assert reader.post("/teams/finance/", {"verb": "delete"}).status_code == 403
    assert Member.objects.get(user=house.frida.user).roles == ["reviewer"]


def test_roles_are_changed_on_the_page_of_a_member(house: House, page: Client) -> None:
    answer = page.post("/members/vera/", {"verb": "roles", "roles": ["reviewer", "operator"]})
    assert (answer.status_code, answer["Location"]) == (303, "/members/vera/")
    assert Member.objects.get(user=house.vera.user).roles == ["reviewer", "operator"]
    refused = page.post("/members/ada/", {"verb": "roles", "roles": ["viewer"]})
    assert refused.status_code == 409
    assert "A project keeps at least one person who administers it" in text_of(refused)
    nothing = page.post("/members/vera/", {"verb": "roles"})
    assert (nothing.status_code, "Choose at least one role" in text_of(nothing)) == (422, True)


def test_a_deactivated_person_is_out_at_their_next_request(
    house: House, page: Client, client_of: ClientOf
) -> None:
    """C89"""
    browser = client_of(house.vera)
    assert browser.get("/runs/").status_code == 200
    assert page.post("/members/vera/", {"verb": "deactivate"}).status_code == 303
    assert browser.get("/runs/")["Location"].startswith("/sign-in/")
    assert browser.get("/live/state/runs").status_code == 401
    assert "deactivated" in text_of(page.get("/members/vera/"))
    page.post("/members/vera/", {"verb": "reactivate"})
    assert browser.get("/runs/").status_code == 200


def test_an_approval_that_nobody_can_answer_is_shown_to_operators(
    house: House, page: Client, client_of: ClientOf, define: Define
) -> None:
    pay_flow(define("pays"), reviewers=["felix"])
    _, approval = house.parked("pays", x=1)
    page.post("/members/felix/", {"verb": "deactivate"})
    for sees, actor in ((True, house.olga), (False, house.vera)):
        told = text_of(client_of(actor).get("/members/"))
        assert ("Nobody can answer 1 open approval" in told) == sees
        assert (f"/inbox/{approval.pk}/" in told) == sees


def test_a_service_account_gets_a_token_that_is_shown_once(house: House, page: Client) -> None:
    made = page.post(
        "/members/", {"verb": "service", "username": "bot", "name": "Bot", "roles": ["submitter"]}
    )
    assert made["Location"] == "/members/bot/"
    told = page.post("/members/bot/", {"verb": "token", "name": "x", "scopes": ["runs:read"]}, follow=True)
    secret = re.search(r'id="new-token">(hitl_[^<]+)<', text_of(told))
    assert secret
    assert secret[1] not in text_of(page.get("/members/bot/"))
    again = page.post("/members/", {"verb": "service", "username": "bot", "roles": ["viewer"]})
    assert (again.status_code, "already" in text_of(again)) == (409, True)
    assert "Of others in this project" in text_of(page.get("/tokens/"))


# ---- teams, settings, audit


def test_teams_are_made_filled_and_dissolved(house: House, page: Client, define: Define) -> None:
    assert page.post("/teams/", {"name": "law"})["Location"] == "/teams/law/"
    page.post("/teams/law/", {"verb": "people", "people": ["vera"]})
    assert [user.username for user in house.project.teams.get(name="law").people.all()] == ["vera"]
    assert page.post("/teams/", {"name": "law"}).status_code == 409
    pay_flow(define("pays"))
    house.parked("pays", x=1)
    refused = page.post("/teams/finance/", {"verb": "delete"})
    assert (refused.status_code, "1 open approval asks" in text_of(refused)) == (409, True)
    assert page.post("/teams/law/", {"verb": "delete"})["Location"] == "/teams/"


def test_a_name_with_what_no_name_has_is_refused_on_its_form(house: House, page: Client) -> None:
    """C01: U+0000 in a field of a form."""
    answer = page.post("/teams/finance/", {"verb": "people", "people": ["frida", "fel\0ix"]})
    assert answer.status_code == 400
    assert "U+0000" in text_of(answer)
    assert "frida" in text_of(page.get("/teams/finance/"))


def test_the_project_is_renamed_and_the_audit_tells_it(house: House, page: Client) -> None:
    page.post("/settings/", {"name": "Refunds of the north"})
    assert Project.objects.get(pk=house.project.pk).name == "Refunds of the north"
    assert page.post("/settings/", {"name": " "}).status_code == 422
    told = text_of(page.get("/settings/audit/"))
    assert "rename_project" in told
    assert "name: Refunds of the north" in told


# ---- invitations


def test_a_copied_link_makes_an_account_and_brings_it_in(house: House, page: Client) -> None:
    link = link_of(page)
    stranger = Client()
    assert "Come into demo" in text_of(stranger.get(link))
    assert stranger.get(link).status_code == 200  # looking uses nothing up
    told = {"username": "nina", "name": "Nina <b>", "email": "", "password": "short"}
    refused = stranger.post(link, told)
    assert (refused.status_code, 'aria-describedby="join-password-wrong"' in text_of(refused)) == (422, True)
    assert 'value="nina"' in text_of(refused)
    taken = stranger.post(link, {**told, "username": "frida", "password": "a long password"})
    assert (taken.status_code, "is taken" in text_of(taken)) == (409, True)
    done = stranger.post(link, {**told, "password": "a long password"})
    assert (done.status_code, done["Location"]) == (303, "/inbox/")
    assert stranger.get("/runs/").status_code == 200
    assert Client().get(link).status_code == 410
    assert Client().post(link, {**told, "username": "nils", "password": "a long password"}).status_code == 410


def test_who_is_signed_in_comes_in_with_their_account_and_is_in_that_project(
    house: House, page: Client, client_of: ClientOf
) -> None:
    link = link_of(page)
    other = make_house("other")
    browser = client_of(other.vera)
    assert browser.get("/members/frida/").status_code == 404
    assert browser.post(link)["Location"] == "/inbox/"
    assert browser.get("/members/frida/").status_code == 200
    assert Member.objects.get(project=house.project, user=other.vera.user).roles == ["viewer"]


def test_an_invitation_for_another_address_is_refused(
    house: House, page: Client, client_of: ClientOf
) -> None:
    link = link_of(page, email="nina@example.com")
    assert "not the address" in text_of(client_of(house.vera).get(link))
    refused = client_of(house.vera).post(link)
    assert (refused.status_code, "This invitation is for nina@example.com" in text_of(refused)) == (403, True)
    browser = client_of(house.vera)
    assert browser.post("/sign-out/", {"next": link})["Location"] == link  # the way on that the page offers
    assert "Make the account and come in" in text_of(browser.get(link))
    assert Invitation.objects.get().used_at is None


def test_a_withdrawn_invitation_leads_nowhere(house: House, page: Client) -> None:
    link = link_of(page)
    made = Invitation.objects.get()
    assert page.post(f"/members/invitations/{made.pk}/withdraw/").status_code == 303
    assert "was withdrawn" in text_of(Client().get(link))


# ---- between projects


@pytest.fixture
def both(house: House) -> tuple[House, House]:
    """vera reads in two projects, each with its own."""
    other = make_house("zebra")
    Member.objects.create(project=other.project, user=house.vera.user, roles=["viewer"])
    return house, other


def test_pages_and_lists_show_the_project_that_one_is_in(
    both: tuple[House, House], define: Define, client_of: ClientOf
) -> None:
    pay_flow(define("pays"))
    (run, _), (there, _) = (place.parked("pays", x=1) for place in both)
    browser = client_of(both[0].vera)
    mine, theirs = str(run.pk), str(there.pk)
    for address in ("/runs/", "/inbox/?view=all"):
        assert theirs not in text_of(browser.get(address))
    assert mine in text_of(browser.get("/runs/"))
    said = browser.get(f"/runs/{theirs}/")
    assert (said.status_code, "This is in zebra" in text_of(said)) == (404, True)
    moved = browser.post("/switch/", {"project": "zebra", "next": f"/runs/{theirs}/"})
    assert moved["Location"] == f"/runs/{theirs}/"
    assert browser.get(f"/runs/{theirs}/").status_code == 200
    assert mine not in text_of(browser.get("/runs/"))
    assert "frida-zebra" in text_of(browser.get("/members/"))
    assert browser.get(f"/live/state/runs/{mine}").status_code == 404


def test_nobody_is_told_of_a_project_that_they_are_not_in(
    house: House, define: Define, client_of: ClientOf
) -> None:
    """C86, K11: a run elsewhere looks as one that is nowhere; there is no way to switch there."""
    pay_flow(define("pays"))
    run, approval = house.parked("pays", x=1)
    other = make_house("zebra")
    browser = client_of(other.olga)
    for address in (f"/runs/{run.pk}/", f"/inbox/{approval.pk}/", f"/runs/{run.pk}/cancel/"):
        answer = text_of(browser.get(address))
        missing = address.replace(str(run.pk), str(other.project.pk)).replace(
            str(approval.pk), str(other.project.pk)
        )
        nowhere = text_of(browser.get(missing))
        assert "This is in" not in answer
        assert answer.count("There is nothing here that you may see") == nowhere.count(
            "There is nothing here that you may see"
        )
    refused = browser.post("/switch/", {"project": "demo"})
    no_such = browser.post("/switch/", {"project": "no-such-project"})
    assert (refused.status_code, no_such.status_code) == (404, 404)
    assert browser.get("/runs/").status_code == 200


def test_a_switch_leads_to_no_other_site(both: tuple[House, House], client_of: ClientOf) -> None:
    browser = client_of(both[0].vera)
    for target in ("https://evil.example/", "//evil.example/", "javascript:alert(1)"):
        assert browser.post("/switch/", {"project": "zebra", "next": target})["Location"] == reverse("inbox")


def test_who_is_taken_out_of_the_project_they_are_in_goes_on_in_another(
    both: tuple[House, House], client_of: ClientOf
) -> None:
    browser = client_of(both[0].vera)
    browser.post("/switch/", {"project": "zebra"})
    Member.objects.filter(project=both[1].project, user=both[0].vera.user).delete()
    assert browser.get("/runs/").status_code == 200
    Member.objects.filter(user=both[0].vera.user).delete()
    assert "You are in no project yet" in text_of(browser.get("/runs/"))
    assert User.objects.filter(username="vera").exists()
