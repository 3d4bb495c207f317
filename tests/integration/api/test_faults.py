"""Faults that nobody expects: still a problem, never a page, and nothing of the inside in it."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError, InterfaceError, OperationalError

from runs import runlists, store
from tests.integration.api.conftest import Api, House


def fail_with(error: Exception) -> Any:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize(
    "error", [OperationalError("secret host"), InterfaceError("closed"), DatabaseError("x")]
)
def test_a_database_that_is_down_is_a_503_that_may_be_tried_again(
    house: House, shop: Api, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(runlists, "newest_first", fail_with(error))
    reply = shop.get("runs")
    assert (reply.status, reply.code, reply.headers["Retry-After"]) == (503, "database_error", "1")
    assert "secret host" not in reply.text


def test_a_database_that_is_down_before_anybody_is_known_is_a_503_too(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "answers", fail_with(OperationalError("down")))
    assert Api("hitl_x").get("runs").code == "database_error"


def test_a_fault_of_our_own_is_logged_and_tells_nothing(
    house: House, shop: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(runlists, "newest_first", fail_with(ZeroDivisionError("the inside")))
    response = shop.client.get("/api/v1/runs", headers={"Authorization": f"Bearer {shop.secret}"})
    assert (response.status_code, response.headers["Content-Type"]) == (500, "application/problem+json")
    assert b"the inside" not in response.content
    assert b'"code":"internal_error"' in response.content
    assert any("ZeroDivisionError" in (record.exc_text or "") or record.exc_info for record in caplog.records)
    assert response.headers["X-Request-Id"]
