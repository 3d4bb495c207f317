"""The inbox as a page: views, search, filters, what opens next, who looks, what is chosen; all without script."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any
from uuid import UUID

import pytest
from django.test import Client
from pydantic import BaseModel

from runs import operations, workflows
from runs.engine import Action, Ask, Sensitive, Workflow
from runs.live import onlooking
from runs.models import Approval, SavedView, Team
from runs.policies import Actor
from tests.integration.core.conftest import House, define, person

__all__ = ["define"]

Define = Callable[..., Workflow]
ClientOf = Callable[[Actor], Client]
HOSTILE = '<b>"Pay\u202e</b> & \u200bgo'


@pytest.fixture
def asks(house: House, define: Define) -> Callable[..., Approval]:
    """An approval of finance with this title and risk."""
    flow = define("asks")

    @flow.approval(reviewers=["finance"])
    def ask(state: Any, ctx: Any) -> Ask:
        title, risk = state.x
        return Ask(Action("tag", {"x": title}, effect="reversible", risk=risk), title=title)

    workflows.register(flow)
    return lambda title, risk="low": house.parked("asks", x=[title, risk])[1]


def text(client: Client, path: str, **headers: str) -> str:
    answer = client.get(path, headers=headers)
    assert answer.status_code == 200, answer
    return str(answer.content.decode())


def rows(page: str) -> list[UUID]:
    return [UUID(found) for found in re.findall(r'<li id="row-([0-9a-f-]{36})"', page)]


def counts(page: str) -> dict[str, str]:
    """What stands beside each view."""
    return dict(re.findall(r"</svg>([A-Z][a-z ]+)<span class=\"count\">([0-9+]+)</span>", page))


def test_each_view_has_its_rows_and_its_count(
    house: House, asks: Callable[..., Approval], client_of: ClientOf
) -> None:
    made = [asks(f"Ask {n}") for n in range(4)]
    operations.assign(actor=house.felix, approval_id=made[0].pk)
    house.answer(made[1], "approve", by=house.felix)
    Team.objects.create(project=house.project, name="legal").people.add(house.frida.user)
    client = client_of(house.frida)
    found = {
        view: len(rows(text(client, f"/inbox/?view={view}")))
        for view in ("mine", "teams", "unclaimed", "open")
    }
    assert found == {"mine": 3, "teams": 3, "unclaimed": 2, "open": 3}
    told = counts(text(client, "/inbox/"))
    assert told == {"For me": "3", "My teams": "3", "Unclaimed": "2", "All open": "3"}
    assert rows(text(client, "/inbox/?view=decided")) == [made[1].pk]


def test_filters_are_chips_that_can_be_taken_off(
    house: House, asks: Callable[..., Approval], client_of: ClientOf
) -> None:
    high, low = asks("Big", "high"), asks("Small")
    client = client_of(house.frida)
    page = text(client, "/inbox/?risk=high&tool=tag&q=big")
    assert rows(page) == [high.pk]
    assert "1 open" in page
    assert 'href="/inbox/?q=big&amp;tool=tag" aria-label="Take off: Risk high or more"' in page
    assert 'href="/inbox/?q=big&amp;risk=high" aria-label="Take off: Tool tag"' in page
    assert f'/inbox/{high.pk}/?q=big&amp;tool=tag&amp;risk=high"' in page  # the card keeps the list
    assert rows(text(client, "/inbox/?sort=age")) == [high.pk, low.pk]
    assert "Nothing is like this" in text(client, "/inbox/?q=nowhere")


@pytest.mark.parametrize(
    "query", ["view=x", "risk=huge", "due=", "sort=%00", "q=" + "x" * 300, "after=zzz", "label=%27%5C"]
)
def test_an_address_that_makes_no_sense_is_still_the_inbox(
    house: House, asks: Callable[..., Approval], client_of: ClientOf, query: str
) -> None:
    asks("Ask")
    assert text(client_of(house.frida), f"/inbox/?{query}")


def test_pages_follow_each_other_without_a_gap(
    house: House, asks: Callable[..., Approval], client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runs.web.inbox.ROWS", 2)
    made = [asks(f"Ask {n}") for n in range(5)]
    client, address, found = client_of(house.frida), "/inbox/?view=open&sort=age", []
    for _ in range(3):
        page = text(client, address)
        found += rows(page)
        more = re.search(r'href="([^"]+)" rel="next"', page)
        address = more[1].replace("&amp;", "&") if more else ""
    assert (found, address) == ([one.pk for one in made], "")
    assert "5 open" in page


def test_after_an_answer_the_next_of_the_same_list_opens_and_says_what_was_decided(
    house: House, asks: Callable[..., Approval], client_of: ClientOf
) -> None:
    low, high, other = asks("Low one"), asks("High one", "high"), asks("Low other")
    client, query = client_of(house.frida), "?view=open&sort=risk"

    def answer(approval: Approval) -> Any:
        form = {"action": "tag", "decision": "approve", "version": "1", "digest": approval.digest}
        return client.post(f"/inbox/{approval.pk}/decide/{query}", form)

    first = answer(high)
    assert (first.status_code, first["Location"]) == (303, f"/inbox/{low.pk}/{query}")
    page = text(client, first["Location"])
    assert (
        f'Approved A-{high.pk.hex[:8]}; the run goes on. <a href="/inbox/{high.pk}/">Look at it</a>' in page
    )
    assert answer(low)["Location"] == f"/inbox/{other.pk}/{query}"
    assert answer(other)["Location"] == f"/inbox/{query}"


def test_hostile_titles_and_names_are_text(
    house: House, asks: Callable[..., Approval], client_of: ClientOf
) -> None:
    approval = asks(HOSTILE)
    client = client_of(house.frida)
    operations.save_view(actor=house.frida, page="inbox", name="<i>x</i>", query={"q": '"><b>'})
    eve = person(house.project, "eve", "reviewer")
    eve.user.name = "<u>Eve</u>"
    eve.user.save()
    client_of(eve).post(f"/inbox/{approval.pk}/looking/")
    page = text(client, "/inbox/?q=pay&tool=<s>&view=open") + text(client, "/inbox/")
    for tag in ("<b>", "<i>x", "<u>", "<s>", "\u202e", "\u200b"):
        assert tag not in page.replace("<b>&lt;s&gt;</b>", ""), tag
    assert "&lt;i&gt;x&lt;/i&gt;" in page


# ---- saved views


def test_a_search_is_saved_shared_and_opened_again(
    house: House, asks: Callable[..., Approval], client_of: ClientOf
) -> None:
    high = asks("Big", "high")
    asks("Small")
    frida, felix = client_of(house.frida), client_of(house.felix)
    assert 'href="/views/?risk=high&amp;page=inbox"' in text(frida, "/inbox/?risk=high")
    form = {"page": "inbox", "name": "Risky", "team": "finance"}
    saved = frida.post("/views/?risk=high&page=inbox", form)
    assert (saved.status_code, saved["Location"]) == (303, "/inbox/?risk=high")
    assert frida.post("/views/?risk=high&page=inbox", form).status_code == 409
    page = text(felix, "/inbox/")
    assert 'href="/inbox/?risk=high"' in page
    assert "Risky" in page
    assert rows(text(felix, "/inbox/?risk=high")) == [high.pk]
    assert "<h1>Risky</h1>" in text(felix, "/inbox/?risk=high")
    [view] = SavedView.objects.all()
    assert felix.post(f"/views/{view.pk}/", {"name": "Mine"}).status_code == 403
    assert client_of(house.vera).get(f"/views/{view.pk}/").status_code == 404
    assert frida.post(f"/views/{view.pk}/", {"name": "Riskier", "team": ""}).status_code == 303
    assert "Riskier" not in text(felix, "/inbox/")
    assert frida.post(f"/views/{view.pk}/", {"do": "delete"}).status_code == 303
    assert not SavedView.objects.exists()


# ---- who looks


@pytest.fixture
def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onlooking, "_patience", onlooking._Patience())


def test_others_see_who_looks_at_an_approval_until_they_leave(
    house: House, asks: Callable[..., Approval], client_of: ClientOf, no_rest: None
) -> None:
    approval = asks("Ask")
    frida, felix, card = client_of(house.frida), client_of(house.felix), f"/inbox/{approval.pk}/"
    before = felix.get("/live/state/inbox").json()["mark"]
    assert frida.post(f"{card}looking/").status_code == 204
    assert felix.get("/live/state/inbox").json()["mark"] != before
    assert "frida looks at this, since" in text(felix, card)
    assert "frida looks at this" in text(felix, "/inbox/")
    assert "looks at this" not in text(frida, card).replace('aria-label="Choose', "")
    heard = {"HX-Request": "true", "HX-Target": "live"}
    assert "frida looks at this, since" in text(felix, f"{card}?seen=x", **heard)
    assert frida.post(f"{card}looking/", {"leave": "yes"}).status_code == 204
    assert "looks at this" not in text(felix, "/inbox/")
    assert felix.get("/live/state/inbox").json()["mark"] == before
    stranger = client_of(person(house.project, "vic", "viewer"))
    assert stranger.post(f"/inbox/{UUID(int=7)}/looking/").status_code == 404


def test_without_redis_nobody_is_seen_and_nothing_fails(
    house: House,
    asks: Callable[..., Approval],
    client_of: ClientOf,
    no_rest: None,
    settings: Any,
) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    approval = asks("Ask")
    assert client_of(house.frida).post(f"/inbox/{approval.pk}/looking/").status_code == 204
    assert "looks at this" not in text(client_of(house.felix), f"/inbox/{approval.pk}/")
    assert onlooking._patience.is_resting


# ---- several


def test_several_are_chosen_from_the_list_and_looked_at_together(
    house: House, asks: Callable[..., Approval], client_of: ClientOf
) -> None:
    low = [asks(f"Ask {n}") for n in range(3)]
    high = asks("Big", "high")
    client = client_of(house.frida)
    page = text(client, "/inbox/?choose=yes")
    assert page.count('name="only"') == 4
    assert 'class="queue-rows choosing"' in page
    chosen = text(client, f"/inbox/together/?only={low[0].pk}&only={low[2].pk}&only={high.pk}")
    assert [str(one.pk) in chosen for one in (*low, high)] == [True, False, True, True]
    assert chosen.count('name="approval"') == 2
    assert "is not said to be of low risk, or cannot be undone" in chosen


class Payee(BaseModel):
    iban: Annotated[str, Sensitive("operator")]


def test_what_is_hidden_stays_so_where_several_are_decided(
    house: House, define: Define, client_of: ClientOf
) -> None:
    flow = define("payees", state=Payee)

    @flow.approval(reviewers=["finance"])
    def ask(state: Payee, ctx: Any) -> Ask:
        action = Action("tag", {"iban": state.iban}, schema=Payee, effect="reversible", risk="low")
        return Ask(action, title=f"Tag {state.iban}")

    workflows.register(flow)
    made = [house.parked("payees", iban=f"DE0212030000{n}")[1] for n in range(2)]
    client = client_of(house.felix)
    page = text(client, "/inbox/together/")
    sent = [f"{one.pk} {one.version} {one.digest}" for one in made]
    assert all(one in page for one in sent)
    looked = client.post("/inbox/together/", {"approval": sent, "word": "approve"}).content.decode()
    assert "Approve 2 approvals?" in looked
    assert "DE0212030000" not in page + looked
