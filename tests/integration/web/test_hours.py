"""Working hours of a team and of the project, and what people hear of who say nothing: on pages, by plain forms."""

from __future__ import annotations

from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.test import Client

from runs import queries
from runs.models import AuditEntry, Project, TeamHours
from runs.policies import Actor
from tests.integration.core.conftest import House, person

ClientOf = Callable[[Actor], Client]
WEEK = {f"{end}-{day}": clock for day in ("mon", "tue", "wed", "thu", "fri")
        for end, clock in (("from", "9:00"), ("until", "17:00"))}  # fmt: skip
FORM = {"zone": "Europe/Berlin", "holidays": "2026-12-25\r\n2026-12-07", **WEEK}
TRIED = {"length": "4 business hours", "asked": "2026-12-04T16:00"}


@pytest.fixture
def ada(house: House, client_of: ClientOf) -> Client:
    return client_of(person(house.project, "ada", "admin"))


def text(answer: Any) -> str:
    return unescape(answer.content.decode())


@pytest.mark.parametrize("page", ["/teams/finance/hours/", "/settings/hours/"])
def test_hours_are_tried_out_saved_and_given_back(
    house: House, ada: Client, client_of: ClientOf, page: str
) -> None:
    assert "Mon to Fri 09:00 to 17:00, UTC" in text(ada.get(page))
    tried = ada.post(page, {**FORM, **TRIED, "verb": "try"})
    assert "4 business hours, asked Friday 4 Dec 16:00: due Tuesday 8 Dec 12:00." in text(tried)
    assert 'value="9:00"' in text(tried)
    assert queries.hours_of(house.project.pk, "finance").zone == "UTC"  # nothing was saved
    assert ada.post(page, {**FORM, "verb": "save"})["Location"] == page
    there = text(client_of(house.vera).get(page))
    assert "Mon to Fri 09:00 to 17:00, Europe/Berlin, 2 holidays" in there
    assert "2026-12-07" in there
    assert 'name="zone"' not in there
    assert queries.hours_of(house.project.pk, "finance").zone == "Europe/Berlin"
    assert ada.post(page, {"verb": "drop"})["Location"] == page
    assert queries.hours_of(house.project.pk, "finance").zone == "UTC"
    assert not TeamHours.objects.exists()
    told = list(AuditEntry.objects.filter(verb="set_hours").values_list("reason", flat=True))
    assert told == ["Mon to Fri 09:00 to 17:00, Europe/Berlin, 2 holidays", "as is usual"]
    assert "as is usual" in text(ada.get("/settings/audit/"))


def test_a_team_that_says_nothing_works_as_the_project(house: House, ada: Client) -> None:
    ada.post("/settings/hours/", {**FORM, "verb": "save"})
    assert "so the hours of the project count: Mon to Fri" in text(ada.get("/teams/finance/hours/"))
    assert "Europe/Berlin, 2 holidays" in text(ada.get("/teams/finance/"))
    ada.post("/teams/finance/hours/", {**FORM, "zone": "Asia/Tokyo", "verb": "save"})
    found = [queries.hours_of(house.project.pk, team).zone for team in ("finance", "", "nowhere")]
    assert found == ["Asia/Tokyo", "Europe/Berlin", "Europe/Berlin"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"zone": "Mars"}, 'id="zone-wrong"'),
        ({"until-mon": "8:00"}, 'id="day-mon-wrong"'),
        ({"until-mon": ""}, 'id="day-mon-wrong"'),
        ({"from-mon": "25:00"}, 'id="day-mon-wrong"'),
        ({"holidays": "2026-12-25 soon"}, 'id="holidays-wrong"'),
        (dict.fromkeys(WEEK, ""), "somebody must work on some day"),
    ],
)
def test_what_cannot_be_is_said_at_its_field_and_kept(
    house: House, ada: Client, wrong: dict[str, str], said: str
) -> None:
    for verb in ("save", "try"):
        refused = ada.post("/settings/hours/", {**FORM, **wrong, "verb": verb})
        assert (refused.status_code, said in text(refused)) == (422, True)
        assert wrong.get("holidays", "2026-12-07") in text(refused)
    assert Project.objects.get(pk=house.project.pk).hours is None


@pytest.mark.parametrize(
    ("tried", "said"),
    [
        ({"length": "soon"}, "such as 4 business hours"),
        ({"length": "9" * 400 + " business hours"}, "such as 4 business hours"),
        ({"length": "10000 business days"}, "does not pass within ten years"),
        ({"asked": "9999-12-31T23:59"}, "a date and a time"),
        ({"length": "2 business days", "asked": "2026-12-05T12:00"}, ": due Thursday 10 Dec 09:00"),
    ],
)
def test_odd_lengths_are_answered_in_words(
    house: House, ada: Client, tried: dict[str, str], said: str
) -> None:
    answer = ada.post("/settings/hours/", {**FORM, **TRIED, **tried, "verb": "try"})
    assert (answer.status_code, said in text(answer)) == (200, True), text(answer)


def test_only_admins_say_when_people_work(house: House, client_of: ClientOf) -> None:
    for page in ("/teams/finance/hours/", "/settings/hours/"):
        for verb in ("save", "try", "drop"):
            assert client_of(house.olga).post(page, {**FORM, "verb": verb}).status_code == 403
    assert client_of(house.olga).get("/teams/nowhere/hours/").status_code == 404
    assert not AuditEntry.objects.filter(verb="set_hours", outcome="done").exists()


# ---- what people hear of


def test_the_project_says_what_people_hear_of_who_have_said_nothing(
    house: House, ada: Client, client_of: ClientOf
) -> None:
    frida = client_of(house.frida)
    assert "Hear what the project says" not in text(frida.get("/notifications/settings/"))
    form = {"app": ["asked"], "mail": ["failed"], "when": "daily", "hour": "18"}
    assert ada.post("/settings/hearing/", form).status_code == 303
    told = queries.preference(house.project.pk, house.frida.user)
    assert (told.app, told.mail, told.digest, told.hour) == (["asked"], ["failed"], True, 18)
    assert frida.post("/notifications/settings/", {"app": ["ended"], "when": "now"}).status_code == 303
    assert "Hear what the project says" in text(frida.get("/notifications/settings/"))
    assert queries.preference(house.project.pk, house.frida.user).app == ["ended"]
    assert frida.post("/notifications/settings/", {"verb": "drop"}).status_code == 303
    assert queries.preference(house.project.pk, house.frida.user).app == ["asked"]
    shown = text(frida.get("/settings/hearing/"))
    assert '<fieldset class="field" disabled>' in shown
    assert frida.post("/settings/hearing/", form).status_code == 403
    assert "in the app: asked; by mail: failed, once a day" in text(ada.get("/settings/audit/"))
