"""The health page: for operators and admins, with links to what is stuck."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from runs.engine import Workflow
from runs.policies import Actor
from tests.integration.core.conftest import House, by_sql, define, make_house, pay_flow, person

__all__ = ["define"]

ClientOf = Callable[[Actor], Client]


@pytest.fixture
def flow(define: Callable[..., Workflow]) -> Workflow:
    return pay_flow(define("pay"))


def test_all_is_well(house: House, flow: Workflow, client_of: ClientOf) -> None:
    house.sweep()
    house.parked("pay", x=1)
    page = client_of(house.olga).get("/health/").content.decode()
    assert "None: every run works" in page
    assert "A live run has a step to do" in page
    assert "nothing just now" in page


def test_what_is_wrong_is_named_with_its_repair(house: House, flow: Workflow, client_of: ClientOf) -> None:
    run, _ = house.parked("pay", x=1)
    by_sql("UPDATE runs_wait SET closed_at = now() WHERE run_id = %s", run.pk)
    page = client_of(house.olga).get("/health/").content.decode()
    assert f"/runs/{run.pk}/" in page
    assert "Rewind it to its head" in page


def test_only_operators_and_admins_see_it(house: House, client_of: ClientOf) -> None:
    assert client_of(house.vera).get("/health/").status_code == 403
    assert client_of(house.frida).get("/health/").status_code == 403
    assert "/health/" not in client_of(house.vera).get("/runs/").content.decode()
    assert "/health/" in client_of(house.olga).get("/runs/").content.decode()


ENDED = "UPDATE runs_run SET status = 'cancelled', finished_at = now(), waiting_for = '[]' WHERE id = %s"


def test_a_button_leads_to_what_it_comes_to_and_puts_it_right(
    house: House, flow: Workflow, client_of: ClientOf
) -> None:
    run, _ = house.parked("pay", x=1)
    by_sql(ENDED, run.pk)
    client = client_of(house.olga)
    address = f"/health/repair/ended/{run.pk}/"
    assert f'href="{address}"' in client.get("/health/").content.decode()
    look = client.get(address).content.decode()
    assert "A run that has ended owns nothing." in look
    assert "Here: 1 step, 1 wait and 1 open approval." in look
    assert client.post(address, {"reason": ""}).status_code == 422
    done = client.post(address, {"reason": "left over"}, follow=True)
    assert done.redirect_chain == [("/health/", 303)]
    assert "Put right" in done.content.decode()
    again = client.post(address, {"reason": "left over"})
    assert (again.status_code, "nothing to put right" in again.content.decode()) == (409, True)


def test_who_may_look_but_not_steer_gets_no_button(house: House, flow: Workflow, client_of: ClientOf) -> None:
    run, _ = house.parked("pay", x=1)
    by_sql(ENDED, run.pk)
    admin = person(house.project, "ada", "admin")
    page = client_of(admin).get("/health/").content.decode()
    assert "A run that has ended owns nothing" in page
    assert "/health/repair/" not in page
    assert client_of(admin).get(f"/health/repair/ended/{run.pk}/").status_code == 403
    assert client_of(house.olga).get(f"/health/repair/decided/{run.pk}/").status_code == 400
    assert client_of(make_house("other").olga).get(f"/health/repair/ended/{run.pk}/").status_code == 404


def test_what_is_broken_leads_to_the_rewind_that_puts_it_right(
    house: House, flow: Workflow, client_of: ClientOf
) -> None:
    run, _ = house.parked("pay", x=1)
    by_sql("UPDATE runs_wait SET closed_at = now() WHERE run_id = %s", run.pk)
    assert (
        f'href="/runs/{run.pk}/rewind/{run.head}/"' in client_of(house.olga).get("/health/").content.decode()
    )
