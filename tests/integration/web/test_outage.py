"""Pages while the database is away: said in words, with 503, and nothing typed is swapped away."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from uuid import uuid4

import psycopg
import pytest
from django.db import Error, OperationalError, connection
from django.test import Client, override_settings

from hitl.embedded import free_port
from runs import store
from runs.errors import Unavailable
from runs.policies import Actor
from tests.integration.core.conftest import House

ClientOf = Callable[[Actor], Client]


@pytest.fixture
def away(house: House, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """Somebody who was signed in when Postgres went."""
    client = client_of(house.frida)
    store.disconnect()
    with monkeypatch.context() as patch, override_settings(DEBUG=True):
        patch.setitem(connection.settings_dict, "HOST", "127.0.0.1")
        patch.setitem(connection.settings_dict, "PORT", str(free_port()))
        yield client
        store.disconnect()


@pytest.mark.parametrize("path", ["/inbox/", "/runs/", "/health/", "/sign-in/", "/admin/"])
def test_a_page_says_that_the_database_is_away(away: Client, path: str) -> None:
    answer = away.get(path)
    assert (answer.status_code, answer["Retry-After"], answer["Cache-Control"]) == (503, "1", "no-store")
    assert "The database does not answer" in answer.content.decode()
    assert "Traceback" not in answer.content.decode()


def test_a_page_says_it_in_the_language_of_the_browser(away: Client) -> None:
    answer = away.get("/inbox/", headers={"Accept-Language": "de"})
    assert "Die Datenbank antwortet nicht" in answer.content.decode()


def test_what_was_typed_stays_on_the_page_of_htmx(away: Client) -> None:
    answer = away.post(f"/inbox/{uuid4()}/decide/", {"reason": "typed"}, headers={"HX-Request": "true"})
    assert (answer.status_code, answer["HX-Reswap"], answer["HX-Trigger"]) == (503, "none", "away")
    assert answer.content == b""


@pytest.mark.parametrize("path", ["/live/state/inbox", "/inbox/", "/api/v1/runs"])
def test_an_outage_is_a_line_and_no_traceback(
    away: Client, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert away.get(path, headers={"Authorization": "Bearer hitl_x"}).status_code == 503
    assert [record.exc_info for record in caplog.records if record.exc_info] == []
    assert sum("the database does not answer" in record.getMessage() for record in caplog.records) == 1


@pytest.mark.parametrize(
    ("cause", "away"),
    [
        (psycopg.OperationalError, True),  # the server says nothing: it is not there
        (psycopg.errors.AdminShutdown, True),
        (psycopg.errors.CannotConnectNow, True),
        (psycopg.errors.TooManyConnections, True),
        (psycopg.errors.DiskFull, True),
        (psycopg.errors.ReadOnlySqlTransaction, True),
        (psycopg.errors.LockNotAvailable, False),
        (psycopg.errors.QueryCanceled, False),
        (psycopg.errors.DeadlockDetected, False),
        (psycopg.errors.UniqueViolation, False),
    ],
)
def test_a_database_that_is_away_is_told_from_one_that_refuses(
    cause: type[psycopg.Error], away: bool
) -> None:
    """As Django raises it, and as psycopg does."""
    raised = OperationalError("as Django says it") if issubclass(cause, psycopg.OperationalError) else Error()
    raised.__cause__ = cause("as Postgres says it")
    assert (store.is_away(raised), store.is_away(raised.__cause__)) == (away, away)


def test_a_fault_of_the_program_is_no_outage() -> None:
    assert not store.is_away(ValueError("x"))
    assert not store.is_away(Unavailable())


def test_an_outage_is_known_by_what_a_verb_has_made_of_it() -> None:
    refused = Unavailable()
    refused.__cause__ = psycopg.OperationalError("gone")
    assert store.is_away(refused)
