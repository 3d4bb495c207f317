"""Who works on what, several decided together, who is away: on pages, by plain forms without script."""

from __future__ import annotations

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
