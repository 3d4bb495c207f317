"""Pages of pausing and cancelling, without script: what is said before, and what is shown after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from runs import operations, workflows
from runs.engine import Retry, Workflow
from runs.models import OperationalNote, Run
from runs.policies import Actor
from tests.integration.core.conftest import House, define, error_of
from tests.integration.web.test_travel import seen, text_of
from tests.kit.run_pages import everything

__all__ = ["define"]

ClientOf = Callable[[Actor], Client]
TROUBLE: list[Exception] = []


def give_back(receipt: Any, amount: int) -> None:
    """What takes a payment back."""
    if TROUBLE:
        raise TROUBLE.pop()


def in_all(client: Client, run: Run) -> str:
    """What a reader sees on the page of a run, all parts of it."""
    return seen(everything(client, run))


@pytest.fixture
def paid(house: House, define: Callable[..., Workflow]) -> Run:
    """A run that has paid, which can be taken back, and written, which cannot; now it waits for a signal."""
    flow = define("sale", undo_retry=Retry(attempts=1))

    @flow.node
    def pay(state: Any, ctx: Any) -> None:
        ctx.call(str, 5, name="charge", effect="reversible", undo=give_back)
        ctx.call(str, 6, name="write", effect="irreversible")
        ctx.wait_signal("go")

    workflows.register(flow)
    return house.work(house.submit("sale"))


def test_a_run_is_paused_from_its_page_and_says_so_everywhere(
    house: House, paid: Run, client_of: ClientOf
) -> None:
    olga, address = client_of(house.olga), f"/runs/{paid.pk}/"
    assert f"{address}pause/" in olga.get(address).content.decode()
    assert "no approval is open" in text_of(olga.get(f"{address}pause/"))
    told = olga.post(f"{address}pause/", {"reason": "the <bank> is closed"}, follow=True)
    assert "by olga: the &lt;bank&gt; is closed" in text_of(told)
    page = olga.get(address).content.decode()
    assert f"{address}resume/" in page
    assert f"{address}pause/" not in page
    assert "paused" in text_of(olga.get(f"{address}history/?before=9"))
    assert "Paused" in text_of(olga.get("/runs/?status=paused"))
    assert str(paid.pk) in olga.get("/runs/?status=paused").content.decode()
    assert "no step is ready" in text_of(olga.get(f"{address}resume/"))
    olga.post(f"{address}resume/", {"reason": "open"})
    paid.refresh_from_db()
    assert paid.status == "waiting"


def test_who_may_not_pause_sees_why(house: House, paid: Run, client_of: ClientOf) -> None:
    vera = client_of(house.vera)
    assert "Your roles do not allow it" in vera.get(f"/runs/{paid.pk}/").content.decode()
    for verb in ("pause", "resume"):
        assert vera.post(f"/runs/{paid.pk}/{verb}/").status_code == 403


def test_cancelling_says_what_is_taken_back_and_the_ledger_what_was(
    house: House, paid: Run, client_of: ClientOf
) -> None:
    olga, address = client_of(house.olga), f"/runs/{paid.pk}/"
    page = text_of(olga.get(f"{address}cancel/"))
    assert "Taken back" in page
    assert page.index("charge") < page.index("Stays") < page.index("write")
    olga.post(f"{address}cancel/", {"reason": "no", "compensate": "yes"})
    paid.refresh_from_db()
    assert paid.status == "cancelling"
    page = in_all(olga, paid)
    assert "Cancelling, takes back charge of pay first" in page
    assert "to be taken back" in page
    assert "takes back charge" in page, "the timeline shows it"
    house.work(paid)
    page = in_all(olga, paid)
    assert "taken back" in page
    assert "done once" in page
    assert "call taken back" in page


def test_what_could_not_be_taken_back_is_to_be_done_by_hand(
    house: House, paid: Run, client_of: ClientOf
) -> None:
    TROUBLE.append(OSError("the bank is closed"))
    operations.cancel(actor=house.olga, run_id=paid.pk)
    house.work(paid)
    assert error_of(paid)["code"] == "compensation_failed"
    page = in_all(client_of(house.olga), paid)
    assert "not taken back: do it by hand (the bank is closed)" in page


def test_a_person_ends_the_taking_back_or_leaves_it_out(house: House, paid: Run, client_of: ClientOf) -> None:
    olga = client_of(house.olga)
    operations.cancel(actor=house.olga, run_id=paid.pk)
    assert "End taking back" in text_of(olga.get(f"/runs/{paid.pk}/cancel/"))
    olga.post(f"/runs/{paid.pk}/cancel/", {"reason": "enough"})
    paid.refresh_from_db()
    assert paid.status == "cancelled"
    assert "not taken back: a person left it" in in_all(olga, paid)
    other = house.work(house.submit("sale"))
    olga.post(f"/runs/{other.pk}/cancel/", {"reason": "as it is"})
    other.refresh_from_db()
    assert (other.status, other.error) == ("cancelled", None)


def test_a_call_that_came_too_late_is_in_the_ledger(house: House, paid: Run, client_of: ClientOf) -> None:
    operations.cancel(actor=house.olga, run_id=paid.pk, compensate=False)
    OperationalNote.objects.create(
        run=paid,
        kind="late_result_discarded",
        facts={"what": "call result", "call": "refuel", "undo": "{}", "result": '"late"', "node": "pay"},
    )
    page = in_all(client_of(house.olga), paid)
    assert "made while the run was stopped, not taken back" in page


def test_many_are_paused_from_the_list(house: House, paid: Run, client_of: ClientOf) -> None:
    olga = client_of(house.olga)
    assert 'name="verb" value="pause"' in olga.get("/runs/").content.decode()
    assert "Pause 1 run" in text_of(olga.get("/runs/bulk/?verb=pause"))
    olga.post("/runs/bulk/", {"verb": "pause", "run": [str(paid.pk)], "reason": "closed"})
    paid.refresh_from_db()
    assert paid.status == "paused"


def test_an_erased_run_still_says_what_was_taken_back(house: House, paid: Run, client_of: ClientOf) -> None:
    operations.cancel(actor=house.olga, run_id=paid.pk)
    house.work(paid)
    operations.erase(actor=house.olga, run_id=paid.pk, reason="asked for", version=paid.version)
    page = in_all(client_of(house.olga), paid)
    assert "charge Reversible" in page
    assert " taken back " in page
