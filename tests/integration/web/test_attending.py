"""Who works on what, several decided together, who is away: on pages, by plain forms without script."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from runs import workflows
from runs.engine import Action, Workflow
from runs.models import Absence, Approval
from runs.policies import Actor
from tests.integration.core.conftest import House, define, kinds_of, pay_flow

__all__ = ["define"]

Define = Callable[..., Workflow]
ClientOf = Callable[[Actor], Client]


@pytest.fixture
def parked(house: House, define: Define) -> Approval:
    pay_flow(define("pays"), due="1h")
    return house.parked("pays", x=1)[1]


def text(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, answer
    return str(answer.content.decode())


def test_a_card_is_claimed_and_others_are_told_who_works_on_it(
    house: House, parked: Approval, client_of: ClientOf
) -> None:
    frida, felix = client_of(house.frida), client_of(house.felix)
    card, attend = f"/inbox/{parked.pk}/", f"/inbox/{parked.pk}/attend/"
    assert 'data-key="c"' in text(frida, card)
    assert frida.post(attend, {"do": "assign"}).status_code == 303
    assert "Release" in text(frida, card)
    assert "frida works on this; take it over to answer." in text(felix, card)
    assert "data-decide" not in text(felix, card)
    assert felix.post(attend, {"do": "assign"}).status_code == 409
    assert felix.post(attend, {"do": "assign", "reason": "she left"}).status_code == 303
    assert felix.post(attend, {"do": "unassign"}).status_code == 303
    parked.refresh_from_db()
    assert parked.assignee is None


def test_the_page_of_its_work_gives_snoozes_and_extends(
    house: House, parked: Approval, client_of: ClientOf
) -> None:
    olga, frida, attend = client_of(house.olga), client_of(house.frida), f"/inbox/{parked.pk}/attend/"
    assert "<option>felix</option>" in text(frida, attend)
    assert olga.post(attend, {"do": "give", "to": "frida", "reason": "yours"}).status_code == 303
    assert frida.post(attend, {"do": "snooze", "hours": "4"}).status_code == 303
    assert str(parked.pk) not in text(frida, "/inbox/")
    assert str(parked.pk) in text(frida, "/inbox/?view=open")
    assert frida.post(attend, {"do": "snooze", "hours": "0"}).status_code == 303
    assert (
        frida.post(attend, {"do": "extend", "due_at": "2031-01-01T10:00", "reason": "so"}).status_code == 303
    )
    assert frida.post(attend, {"do": "extend", "due_at": "soon", "reason": "so"}).status_code == 422
    assert frida.post(attend, {"do": "nothing"}).status_code == 400
    assert client_of(house.vera).get(attend).status_code == 403
    kinds = kinds_of(parked.run)
    assert [kinds.count(f"approval_{kind}") for kind in ("assigned", "snoozed", "extended")] == [1, 2, 1]


@pytest.mark.parametrize(
    ("do", "field"),
    [("give", 'id="note" name="reason"'), ("extend", 'id="why-extend" name="reason"')],
)
def test_the_reason_of_a_refusal_stays_in_its_form_and_in_no_other(
    house: House, parked: Approval, client_of: ClientOf, do: str, field: str
) -> None:
    sent = {"do": do, "to": "nobody", "due_at": "soon", "reason": "as agreed"}
    refused = client_of(house.frida).post(f"/inbox/{parked.pk}/attend/", sent)
    assert refused.status_code == 422
    [kept] = re.findall(r'<input [^>]*value="as agreed"', refused.content.decode())
    assert field in kept


def test_operators_see_what_nobody_can_answer(house: House, define: Define, client_of: ClientOf) -> None:
    pay_flow(define("pays"), reviewers=["nowhere"])
    _, approval = house.parked("pays", x=1)
    olga = client_of(house.olga)
    assert str(approval.pk) in text(olga, "/inbox/?view=stuck")
    assert "There is no team nowhere." in text(olga, f"/inbox/{approval.pk}/")
    frida = client_of(house.frida)
    assert "Nobody can answer" not in text(frida, "/inbox/?view=stuck")


def test_several_are_looked_at_and_then_decided(house: House, define: Define, client_of: ClientOf) -> None:
    workflow = define("tags")

    @workflow.approval(reviewers=["finance"])
    def ask(state: Any, ctx: Any) -> Action:
        return Action("tag", {"x": state.x}, effect="reversible", risk="low")

    workflows.register(workflow)
    rows = [house.parked("tags", x=n)[1] for n in range(2)]
    frida = client_of(house.frida)
    page = text(frida, "/inbox/together/")
    sent = [f"{row.pk} {row.version} {row.digest}" for row in rows]
    assert all(one in page for one in sent)
    form = {"approval": sent, "word": "approve", "reason": "fine"}
    looked = frida.post("/inbox/together/", form)
    assert b"Approve 2 approvals?" in looked.content
    assert {row.status for row in Approval.objects.all()} == {"open"}
    stale = frida.post(
        "/inbox/together/", {**form, "approval": [sent[0], f"{rows[1].pk} 9 x"], "sure": "yes"}
    )
    assert stale.status_code == 409
    done = frida.post("/inbox/together/", {**form, "sure": "yes"})
    assert b"2 done, 0 refused" in done.content
    assert {row.outcome for row in Approval.objects.all()} == {"approve"}


def test_several_of_the_list_are_claimed_snoozed_and_released(
    house: House, define: Define, client_of: ClientOf
) -> None:
    pay_flow(define("pays"))
    rows = [house.parked("pays", x=n)[1] for n in range(3)]
    ids = [str(row.pk) for row in rows]
    frida, felix, several = client_of(house.frida), client_of(house.felix), "/inbox/several/?view=open"
    boxes = text(frida, f"/inbox/{ids[2]}/?view=open&choose=yes")
    assert boxes.count("data-pick") == 3
    assert f'name="open" value="{ids[2]}"' in boxes
    claimed = frida.post(several, {"only": ids[:2], "do": "assign", "open": ids[2]})
    assert (claimed.status_code, claimed["Location"]) == (303, f"/inbox/{ids[2]}/?view=open")
    assert {str(row.pk) for row in Approval.objects.filter(assignee=house.frida.user)} == set(ids[:2])
    partly = felix.post(several, {"only": ids[1:], "do": "assign"}).content.decode()
    assert "1 done, 1 refused" in partly
    assert "frida works on this" in partly
    assert Approval.objects.get(pk=ids[2]).assignee == house.felix.user
    assert frida.post(several, {"only": ids[:2], "do": "unassign"}).status_code == 303
    assert frida.post(several, {"only": ids, "snooze": "4"})["Location"] == "/inbox/?view=open"
    assert not any(one in text(frida, "/inbox/") for one in ids)
    assert frida.post(several, {"only": ids[:1], "snooze": "0"}).status_code == 303
    assert ids[0] in text(frida, "/inbox/")
    nothing = frida.post(several, {"do": "assign"})
    assert (nothing.status_code, b"Choose approvals first." in nothing.content) == (400, True)
    assert frida.post(several, {"only": ids, "do": "decide"})["Location"].startswith("/inbox/together/?only=")
    assert frida.get(several)["Location"] == "/inbox/?view=open"


def test_who_can_answer_nothing_is_offered_no_boxes(
    house: House, parked: Approval, client_of: ClientOf
) -> None:
    seen = text(client_of(house.vera), "/inbox/?view=open&choose=yes")
    assert str(parked.pk) in seen
    assert "data-pick" not in seen
    assert "data-chosen" not in seen
    refused = client_of(house.vera).post("/inbox/several/", {"only": [str(parked.pk)], "do": "assign"})
    assert "0 done, 1 refused" in refused.content.decode()


@pytest.mark.parametrize(
    ("name", "offered"),
    [
        ("olga", {"retry", "rewind", "pause", "resume", "cancel"}),
        ("frida", {"rewind"}),
        ("shop", {"cancel"}),
        ("vera", set()),
    ],
)
def test_the_list_of_runs_offers_the_verbs_that_somebody_has(
    house: House, parked: Approval, client_of: ClientOf, name: str, offered: set[str]
) -> None:
    seen = text(client_of(getattr(house, name)), "/runs/")
    assert set(re.findall(r'name="verb" value="(\w+)"', seen)) == offered
    assert ("data-pick" in seen) == bool(offered)


def test_somebody_says_that_they_are_away(house: House, client_of: ClientOf) -> None:
    frida = client_of(house.frida)
    form = {"substitute": "felix", "starts_at": "2031-01-01T08:00", "ends_at": "2031-01-08T08:00"}
    assert frida.post("/away/", form).status_code == 303
    assert frida.post("/away/", form).status_code == 422
    assert "felix" in text(client_of(house.vera), "/away/")
    absence = Absence.objects.get()
    assert client_of(house.felix).post("/away/", {"back": str(absence.pk)}).status_code == 403
    assert frida.post("/away/", {"back": str(absence.pk)}).status_code == 303
    assert "Nobody is away." in text(frida, "/away/")
