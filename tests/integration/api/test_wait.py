"""GET /api/v1/runs/{id}?wait=seconds, on the ASGI server that really serves it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import httpx
import pytest
import uvicorn
from django.db import connection, connections

from hitl import asgi
from runs.engine import Workflow
from runs.live.waiting import Waiting
from runs.models import Run
from tests.integration.api.conftest import Api, House, pay_flow
from tests.kit.waiting import until


@contextmanager
def served() -> Iterator[tuple[str, uvicorn.Server]]:
    """The whole product behind uvicorn, in a thread of this process: it sees the test's database."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    config = uvicorn.Config(asgi.application, lifespan="off", log_config=None, timeout_graceful_shutdown=10)
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [bound]})
    thread.start()
    until(lambda: running.started, what="uvicorn started")
    yield f"http://127.0.0.1:{bound.getsockname()[1]}", running
    running.should_exit = True
    thread.join(timeout=30)
    bound.close()
    assert not thread.is_alive()


@pytest.fixture
def server(committed: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    # The threads of the server outlive a test; a connection that one of them kept would keep the database.
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 0)
    with served() as (address, _):
        yield address


@pytest.fixture
def ask(server: str, shop: Api) -> Iterator[Callable[..., httpx.Response]]:
    with httpx.Client(
        base_url=server, headers={"Authorization": f"Bearer {shop.secret}"}, timeout=30, trust_env=False
    ) as client:
        yield client.get


@dataclass
class Inside:
    """What goes on behind the waiting: how often the pages were asked, and how many requests are being waited for."""

    asked: int = 0
    open: int = 0


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> Inside:
    seen = Inside()
    streams = cast(Any, asgi.application).app
    waiting, pages = streams.app, streams.app.app
    assert isinstance(waiting, Waiting)

    async def counted(*arguments: Any) -> None:
        seen.asked += 1
        await pages(*arguments)

    async def held(*arguments: Any) -> None:
        seen.open += 1
        try:
            await waiting(*arguments)
        finally:
            seen.open -= 1

    monkeypatch.setattr(waiting, "app", counted)
    monkeypatch.setattr(streams, "app", held)
    return seen


def took(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.monotonic()
    answer = call()
    return time.monotonic() - began, answer


def test_a_run_that_waits_for_people_is_answered_at_once(
    house: House, ask: Callable[..., httpx.Response], define: Callable[..., Workflow]
) -> None:
    pay_flow(define("pays"))
    run, _ = house.parked("pays", x=1)
    seconds, answer = took(lambda: ask(f"/api/v1/runs/{run.pk}?wait=20"))
    assert seconds < 5
    assert answer.json()["status"] == "waiting"


def test_the_answer_comes_when_the_run_has_ended(
    house: House, ask: Callable[..., httpx.Response], inside: Inside
) -> None:
    run = house.submit("echo")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ask, f"/api/v1/runs/{run.pk}?wait=25")
        until(lambda: inside.asked >= 2, what="the run is waited for")
        assert not waiting.done()
        house.work(run)
        answer = waiting.result(timeout=10)
    assert answer.status_code == 200
    assert answer.json()["status"] == "completed"
    assert answer.json()["output"] == {"name": "x", "value": None, "done": ["only"]}


def test_at_the_end_of_the_time_the_answer_is_what_is_known(
    house: House, ask: Callable[..., httpx.Response]
) -> None:
    run = house.submit("echo")
    seconds, answer = took(lambda: ask(f"/api/v1/runs/{run.pk.hex.upper()}/?wait=1.2"))
    assert 1.1 < seconds < 6
    assert (answer.status_code, answer.json()["status"]) == (200, "queued")


def test_what_cannot_be_waited_for_is_refused_at_once(
    house: House, ask: Callable[..., httpx.Response]
) -> None:
    run = house.submit("echo")
    for wait in ("nan", "inf", "-1", "61", "x", "1&wait=2", "1&unknown=1"):
        seconds, answer = took(partial(ask, f"/api/v1/runs/{run.pk}?wait={wait}"))
        assert (answer.status_code, answer.headers["Content-Type"]) == (400, "application/problem+json")
        assert seconds < 3
    assert ask("/api/v1/runs/00000000-0000-0000-0000-000000000000?wait=30").status_code == 404
    assert httpx.get(str(answer.url.copy_with(query=b"wait=30")), trust_env=False).status_code == 401


def test_many_who_wait_hold_no_thread_and_no_connection(
    house: House, server: str, shop: Api, inside: Inside
) -> None:
    """Three times as many as there are threads, and another request is still answered at once."""
    run = house.submit("echo")
    headers = {"Authorization": f"Bearer {shop.secret}"}
    limits = httpx.Limits(max_connections=None)
    many = 3 * asgi.THREADS
    with (
        httpx.Client(base_url=server, headers=headers, timeout=60, trust_env=False, limits=limits) as client,
        ThreadPoolExecutor(many) as pool,
    ):
        waiting = [pool.submit(client.get, f"/api/v1/runs/{run.pk}?wait=30") for _ in range(many)]
        until(lambda: inside.open == many and inside.asked > 2 * many, what="all of them wait")
        seconds, answer = took(lambda: client.get("/api/v1/runs"))
        assert (answer.status_code, seconds < 3) == (200, True)
        assert not any(one.done() for one in waiting)
        assert _connections() <= asgi.THREADS + 5
        house.work(run)
        assert {one.result(timeout=30).json()["status"] for one in waiting} == {"completed"}


def _connections() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


def test_a_client_that_goes_is_waited_for_no_longer(
    house: House, server: str, shop: Api, inside: Inside
) -> None:
    run = house.submit("echo")
    with pytest.raises(httpx.ReadTimeout):
        httpx.get(
            f"{server}/api/v1/runs/{run.pk}?wait=60",
            headers={"Authorization": f"Bearer {shop.secret}"},
            timeout=1,
            trust_env=False,
        )
    until(lambda: inside.asked, what="the run was asked for")
    until(lambda: inside.open == 0, seconds=20, what="nobody waits any more")


def test_a_server_that_stops_answers_what_is_known(
    house: House, server: str, shop: Api, inside: Inside
) -> None:
    run = house.submit("echo")
    headers = {"Authorization": f"Bearer {shop.secret}"}
    with served() as (address, running), ThreadPoolExecutor(1) as pool:
        url = f"{address}/api/v1/runs/{run.pk}?wait=30"
        waiting = pool.submit(httpx.get, url, headers=headers, timeout=40, trust_env=False)
        until(lambda: inside.asked >= 2, what="the run is waited for")
        running.should_exit = True
        seconds, answer = took(lambda: waiting.result(timeout=20))
    assert seconds < 20  # it would have waited 30
    assert (answer.status_code, answer.json()["status"]) == (200, "queued")


def test_a_body_in_chunks_is_taken(house: House, server: str, shop: Api) -> None:
    def parts() -> Iterator[bytes]:
        yield b'{"workflow": "echo", '
        yield b'"input": {"name": "parts"}}'

    headers = {"Authorization": f"Bearer {shop.secret}", "Content-Type": "application/json"}
    answer = httpx.post(f"{server}/api/v1/runs", content=parts(), headers=headers, trust_env=False)
    assert answer.status_code == 201
    assert Run.objects.get().input == '{"name":"parts"}'

    def far_too_many() -> Iterator[bytes]:
        for _ in range(13):
            yield b" " * 2**20

    answer = httpx.post(
        f"{server}/api/v1/runs", content=far_too_many(), headers=headers, trust_env=False, timeout=30
    )
    assert answer.status_code == 413
