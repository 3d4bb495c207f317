"""A person's own pages: their zone, their password, where they are signed in (C89)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from html import unescape
from typing import Any

import pytest
from django.test import Client

from runs.engine import Workflow
from runs.models import Absence, Approval, AuditEntry, Session, User
from runs.policies import Actor
from runs.web.account import browser_of
from tests.integration.core.conftest import House, define, pay_flow

__all__ = ["define"]

ClientOf = Callable[[Actor], Client]
OLD, NEW = "the old one 1", "a much newer one"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1 Version/18.0 Safari/604.1"


def text(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, answer
    return unescape(answer.content.decode())


# ---- the zone


@pytest.fixture
def noon(house: House, define: Callable[..., Workflow]) -> Approval:
    """An approval that was opened and is due at noon in UTC, of days long past and to come."""
    pay_flow(define("pays"), due="1h")
    _, approval = house.parked("pays", x=1)
    Approval.objects.update(due_at=datetime(2031, 7, 1, 12, tzinfo=UTC))
    approval.refresh_from_db()
    return approval


def test_times_are_those_of_the_reader_with_the_exact_instant_beside(
    house: House, noon: Approval, client_of: ClientOf
) -> None:
    frida, page = client_of(house.frida), f"/inbox/{noon.pk}/attend/"
    assert "1 Jul 2031 12:00</time>" in text(frida, page)
    assert "Times are UTC" in text(frida, page)
    saved = frida.post("/account/", {"zone": "Asia/Kathmandu", "theme": "dark"})
    assert (saved.status_code, saved.cookies["hitl_theme"].value) == (303, "dark")
    there = text(frida, page)
    assert "1 Jul 2031 17:45</time>" in there
    assert 'datetime="2031-07-01T12:00:00.000Z"' in there
    assert 'title="2031-07-01 17:45:00.000+05:45 (Asia/Kathmandu), 2031-07-01T12:00:00.000Z"' in there
    assert "Times are Asia/Kathmandu" in there
    assert 'data-theme="dark"' in there
    assert "1 Jul 2031 12:00</time>" in text(client_of(house.felix), page)  # nobody else's


def test_what_is_typed_means_the_clock_of_who_typed_it(
    house: House, noon: Approval, client_of: ClientOf
) -> None:
    User.objects.filter(username="frida").update(zone="America/New_York")
    frida = client_of(house.frida)
    form = {"substitute": "felix", "starts_at": "2031-01-01T08:00", "ends_at": "2031-07-01T08:00"}
    assert frida.post("/away/", form).status_code == 303
    absence = Absence.objects.get()
    assert absence.starts_at == datetime(2031, 1, 1, 13, tzinfo=UTC)
    assert absence.ends_at == datetime(2031, 7, 1, 12, tzinfo=UTC)  # in summer time
    longer = {"do": "extend", "due_at": "2031-07-01T09:00", "reason": "so"}
    said = frida.post(f"/inbox/{noon.pk}/attend/", longer, follow=True)
    assert "is due 1 Jul 2031 09:00." in said.content.decode()
    noon.refresh_from_db()
    assert noon.due_at == datetime(2031, 7, 1, 13, tzinfo=UTC)
    for odd in ("0001-01-01T00:00", "9999-12-31T23:59", "soon"):
        assert frida.post(f"/inbox/{noon.pk}/attend/", {**longer, "due_at": odd}).status_code == 422


def test_a_zone_that_is_none_is_refused_and_one_that_is_gone_reads_as_utc(
    house: House, client_of: ClientOf
) -> None:
    frida = client_of(house.frida)
    for zone in ("Mars/Olympus", "", "../etc/passwd", "x" * 500):
        refused = frida.post("/account/", {"zone": zone})
        assert (refused.status_code, b'id="zone-wrong"' in refused.content) == (422, True)
    User.objects.filter(username="frida").update(zone="Mars/Olympus")
    assert "Times are UTC" in text(frida, "/runs/")


# ---- the password


@pytest.fixture
def browsers(house: House, settings: Any) -> list[Client]:
    """Two browsers of frida's: she has signed in with both. Her password is hashed quickly, for it is hashed often."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    house.frida.user.set_password(OLD)
    house.frida.user.save()
    found = [Client(headers={"user-agent": agent}) for agent in (FIREFOX, IPHONE)]
    for browser in found:
        assert browser.post("/sign-in/", {"username": "frida", "password": OLD}).status_code == 302
    return found


def test_another_password_ends_every_session_but_this_one(browsers: list[Client]) -> None:
    here, there = browsers
    form = {"old": OLD, "new": NEW, "again": NEW}
    assert here.post("/account/password/", form).status_code == 303
    assert here.get("/inbox/").status_code == 200
    assert there.get("/inbox/")["Location"].startswith("/sign-in/")
    assert Session.objects.filter(user__username="frida").count() == 1
    assert not Client().login(username="frida", password=OLD)
    assert Client().login(username="frida", password=NEW)
    assert NEW not in str(list(AuditEntry.objects.values()))


@pytest.mark.parametrize(
    ("form", "status", "field"),
    [
        ({"old": "a guess", "new": NEW, "again": NEW}, 403, "old"),
        ({"old": OLD, "new": "brief one", "again": "brief one"}, 422, "new"),
        ({"old": OLD, "new": "1234567890", "again": "1234567890"}, 422, "new"),
        ({"old": OLD, "new": NEW, "again": "another new one"}, 422, "again"),
    ],
)
def test_a_password_that_is_not_taken_says_why_at_its_field(
    browsers: list[Client], form: dict[str, str], status: int, field: str
) -> None:
    refused = browsers[0].post("/account/password/", form)
    assert (refused.status_code, f'id="{field}-wrong"' in refused.content.decode()) == (status, True)
    assert not any(word in refused.content.decode() for word in form.values())
    assert browsers[1].get("/inbox/").status_code == 200
    assert Client().login(username="frida", password=OLD)
    denied = AuditEntry.objects.filter(verb="change_password", outcome="denied: forbidden").count()
    assert denied == (status == 403)


# ---- sessions


def test_sessions_say_where_they_came_from_and_one_is_ended(
    house: House, browsers: list[Client], client_of: ClientOf
) -> None:
    here, there = browsers
    client_of(house.felix)  # somebody else's: in no list of hers
    page = text(here, "/account/sessions/")
    assert page.count("<tr>") == 3
    assert "Firefox on Linux" in page
    assert "Safari on an iPhone" in page
    assert not any(one.session_key in page for one in Session.objects.all())
    other = Session.objects.get(session_key=there.session.session_key)
    assert here.post("/account/sessions/", {"session": str(other.handle)}).status_code == 303
    assert there.get("/inbox/")["Location"].startswith("/sign-in/")
    assert here.get("/inbox/").status_code == 200


def test_all_other_sessions_are_ended_and_nobody_elses(
    house: House, browsers: list[Client], client_of: ClientOf
) -> None:
    felix = client_of(house.felix)
    [mine] = Session.objects.filter(user=house.felix.user)
    for odd in (str(mine.handle), mine.session_key, "nonsense"):
        assert browsers[0].post("/account/sessions/", {"session": odd}).status_code == 404
    assert browsers[0].post("/account/sessions/", {}).status_code == 303
    assert browsers[1].get("/inbox/")["Location"].startswith("/sign-in/")
    assert felix.get("/inbox/").status_code == 200
    assert "End all others" not in text(browsers[0], "/account/sessions/")


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        (FIREFOX, "Firefox on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit Chrome/140.0 Safari/537.36 Edg/140.0", "Edge on Windows"),
        (
            "Mozilla/5.0 (Linux; Android 15) AppleWebKit Chrome/140.0 Mobile Safari/537.36",
            "Chrome on Android",
        ),
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) AppleWebKit Version/18 Safari/605",
            "Safari on a Mac",
        ),
        ("curl/8.5.0", "Another browser"),
        ("", "Another browser"),
    ],
)
def test_a_browser_is_called_as_people_call_it(agent: str, said: str) -> None:
    assert browser_of(agent) == said
