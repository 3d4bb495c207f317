"""The health page: for operators and admins, with links to what is stuck."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from runs.engine import Workflow
from runs.policies import Actor
from tests.integration.core.conftest import House, by_sql, define, pay_flow

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
