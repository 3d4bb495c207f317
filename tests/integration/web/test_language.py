"""Pages in the language of who reads: whose it is, that nothing is left in English, and that nothing but words differs."""

from __future__ import annotations

import pickle
import re
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import translation

from runs.engine import Workflow
from runs.errors import Told
from runs.models import Approval, AuditEntry, Team, User
from runs.policies import Actor
from runs.templatetags import words
from runs.tongue import said
from tests.integration.core.conftest import House, person
from tests.integration.web.test_door import addresses, flow
from tests.kit.reading import CLOSES, OPENS, WORD, Reader

__all__ = ["flow"]

ClientOf = Callable[[Actor], Client]
BY_THE_CLOCK = ("health",)  # says more the longer a test takes
NO_PAGES = ("styleguide", "sign-out", "export-runs", "switch")


@pytest.fixture
def approval(house: House, flow: Workflow) -> Approval:
    """The open one of three: another was answered, and a third belongs to a run that has failed."""
    house.answer(house.parked("asked", args={"n": 1})[1], "approve", comment="fine")
    house.answer(house.parked("asked", args={"n": 2})[1], "reject", comment="no")
    return house.parked("asked", args={"n": 3}, editable=["n"])[1]


def mark_what_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every text that is looked up says so."""
    real = getattr(translation, "_trans")  # noqa: B009 (what Django's own functions ask; its types leave it out)

    def marked(told: str) -> str:
        return f"{OPENS}{told}{CLOSES}" if told else ""

    monkeypatch.setattr(real, "gettext", marked, raising=False)
    monkeypatch.setattr(real, "pgettext", lambda context, told: marked(told), raising=False)
    monkeypatch.setattr(real, "ngettext", lambda one, many, n: marked(one if n == 1 else many), raising=False)
    monkeypatch.setattr(
        real, "npgettext", lambda context, one, many, n: marked(one if n == 1 else many), raising=False
    )


def pages(client: Client, approval: Approval) -> Iterator[tuple[str, str, int]]:
    """Every page that answers with one: its name, what it says, and how many questions it asked."""
    for name, address in addresses(approval).items():
        if name in NO_PAGES:
            continue
        with CaptureQueriesContext(connection) as asked:
            answer = client.get(address)
        if answer.status_code not in (301, 302, 303, 405) and "html" in answer.get("Content-Type", ""):
            yield name, answer.content.decode(), len(asked)


# What people, workflows and the house have named, units, and codes.
NAMED = """
hitl demo olga frida felix vera ada shop finance runs gpu celery asked draft confirm apply refuse hear measure write
args note Do it told seen title facts reason properties editable allowed null schema UTC AD ms min JSON Postgres Redis
English Deutsch https example org hooks
not found forbidden link refused candidate bad request unknown workflow event allowed
"""
HEX = re.compile(r"\b[0-9a-f-]{4,}\b|\b[RA]-[0-9a-f]{8}\b|\b\w+/\w[\w/-]*")  # ids, digests, time zones


def test_every_page_is_told_in_german_as_in_english(
    house: House, approval: Approval, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left in English but what somebody has named, and only words differ: addresses, numbers of pictures, values
    of forms, digests and what else programs read are exact, and no page asks more."""
    ada = person(house.project, "ada", "admin", "operator", "reviewer")
    Team.objects.get(project=house.project).people.add(ada.user)
    client = client_of(ada)
    english = {name: (Reader(html), asked) for name, html, asked in pages(client, approval)}
    User.objects.filter(pk=ada.user.pk).update(language="de")
    mark_what_is_looked_up(monkeypatch)
    data = set(NAMED.split()) | set(re.findall(r"\w+", socket.gethostname()))
    seen: set[str] = set()
    wrong: list[str] = []
    for name, html, asked in pages(client, approval):
        there, (page, before) = Reader(html), english[name]
        left = [piece for piece in there.texts if not set(WORD.findall(HEX.sub("", piece))) <= data]
        wrong += [f"{name}: {piece}" for piece in left]
        wrong += [f"{name}: {mark} differs" for mark in there.other_marks(page) if name not in BY_THE_CLOCK]
        wrong += [] if asked == before else [f"{name} asks {asked}, not {before}"]
        seen.add(name)
    assert (wrong, seen) == ([], set(english))


# ---- whose language


def language_of(answer: Any) -> str:
    found = re.search(r'<html lang="([^"]*)"', answer.content.decode())
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("asked", "spoken"), [("de-AT,de;q=0.9,en;q=0.5", "de"), ("fr,en;q=0.5", "en"), ("", "en"), ("tlh", "en")]
)
def test_who_has_not_signed_in_is_answered_as_their_browser_asks(db: None, asked: str, spoken: str) -> None:
    answer = Client().get("/sign-in/", headers={"Accept-Language": asked})
    assert language_of(answer) == spoken
    assert "Accept-Language" in answer["Vary"]


def test_a_chosen_language_holds_whatever_the_browser_asks(house: House, client_of: ClientOf) -> None:
    frida, english = client_of(house.frida), {"Accept-Language": "en"}
    saved = frida.post("/account/", {"zone": "UTC", "language": "de"}, headers=english, follow=True)
    assert (language_of(saved), "Gespeichert." in saved.content.decode()) == ("de", True)
    answer = frida.get("/inbox/", headers=english)
    assert (language_of(answer), "Accept-Language" in answer["Vary"]) == ("de", False)
    assert language_of(client_of(house.felix).get("/inbox/", headers=english)) == "en"  # nobody else's
    assert AuditEntry.objects.filter(verb="set_language", reason="de").exists()
    frida.post("/account/", {"zone": "UTC", "language": ""}, headers=english)
    assert language_of(frida.get("/inbox/", headers=english)) == "en"


def test_a_language_that_is_none_is_refused_in_the_one_there_is(house: House, client_of: ClientOf) -> None:
    User.objects.filter(pk=house.frida.user.pk).update(language="de")
    for odd in ("tlh", "../de", "x" * 500):
        refused = client_of(house.frida).post("/account/", {"zone": "UTC", "language": odd})
        assert (refused.status_code, b'id="language-wrong"' in refused.content) == (422, True)
        assert "gibt es keine" in refused.content.decode()


def test_why_one_of_many_is_refused_is_told_in_the_language_too(
    house: House, approval: Approval, client_of: ClientOf
) -> None:
    User.objects.filter(pk=house.olga.user.pk).update(language="de")
    page = client_of(house.olga).get("/runs/bulk/?verb=rewind&node=nowhere").content.decode()
    assert "Der Lauf ist auf seinem Zweig nicht bis" in page
    assert "has not come" not in page


def test_why_one_of_several_was_not_claimed_is_told_in_the_language_too(
    house: House, approval: Approval, client_of: ClientOf
) -> None:
    User.objects.filter(pk=house.felix.user.pk).update(language="de")
    claim = {"only": [str(approval.pk)], "do": "assign"}
    assert client_of(house.frida).post("/inbox/several/", claim).status_code == 303
    page = client_of(house.felix).post("/inbox/several/", claim).content.decode()
    assert "frida arbeitet daran; mit einem Grund übernehmen." in page


def test_programs_are_answered_in_english_whoever_asks(house: House, client_of: ClientOf) -> None:
    client, german = client_of(house.frida), {"Accept-Language": "de"}
    before = client.get("/api/v1/runs/00000000-0000-4000-8000-000000000000").content
    User.objects.filter(pk=house.frida.user.pk).update(language="de")
    after = client.get("/api/v1/runs/00000000-0000-4000-8000-000000000000", headers=german).content
    assert after == before


def test_german_counts_and_tells_times_and_numbers_its_own_way() -> None:
    now = datetime(2026, 12, 10, 12, tzinfo=UTC)
    with translation.override("de"):
        assert [words.some(n, "{count} step", "{count} steps") for n in (1, 2, 1284)] == [
            "1 Schritt",
            "2 Schritte",
            "1.284 Schritte",
        ]
        assert words.moment(datetime(2026, 12, 1, 9, 5, tzinfo=UTC), now) == "1. Dezember 09:05"
        assert words.moment(datetime(2025, 3, 2, 9, 5, tzinfo=UTC), now) == "2. März 2025 09:05"
        assert (words.span(0.42), words.percent(0.125), words.size(2_140)) == ("0,4 s", "12,5 %", "2,1 kB")
        assert words.listing(["a", "b", "c"], "or") == "a, b oder c"
    assert words.exact(now) == "2026-12-10T12:00:00.000Z"


def test_what_an_error_tells_is_filled_in_after_it_was_translated() -> None:
    told = Told("The document has {size:,} bytes; the limit is {limit:,}.", size=12_345, limit=1_000)
    assert told == "The document has 12,345 bytes; the limit is 1,000."
    assert pickle.loads(pickle.dumps(told)).values == told.values
    with translation.override("de"):
        assert said(told) == "Das Dokument hat 12.345 Bytes; erlaubt sind 1.000."
        status = Told("The run is {status}.", status="completed")
        assert said(status) == "Der Lauf ist abgeschlossen."
        assert (
            said(Told("There is no account {username!r}.", username="{0}"))
            == "Ein Konto '{0}' gibt es nicht."
        )
        assert said("what nobody has translated") == "what nobody has translated"
