"""The refund with real processes: worker, sweeper, payment service; from the terminal, and with a worker killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from examples.refund.shop import URL_VARIABLE
from hitl.env import root
from tests.kit.servers import Servers
from tests.kit.stack import Stack
from tests.kit.waiting import until

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def opened(servers: Servers) -> Iterator[Stack]:
    """Two workers, a sweeper, the payment service and the demo's people; no web."""
    stack = Stack(servers, env={"HITL_DEBUG": "true"})
    try:
        stack.start_services("examples.refund")
        stack.manage("demo_data")
        yield stack.start(web=False)
    finally:
        stack.stop()


@pytest.fixture
def shop(opened: Stack) -> Stack:
    """With both workers, whatever an earlier test did to them."""
    for name in sorted({"w1", "w2"} - set(opened.children)):
        opened.start_worker(name)
    return opened


def payments(stack: Stack, path: str, **body: Any) -> Any:
    client = httpx.Client(base_url=stack.env[URL_VARIABLE], trust_env=False)
    with client:
        answer = client.post(path, json=body) if body else client.get(path)
        return answer.raise_for_status().json()


def refunds(stack: Stack, order: str) -> list[dict[str, Any]]:
    return [refund for refund in payments(stack, "/refunds") if refund["order_id"] == order]


def test_the_demo_tells_a_refund_and_asks_the_person_there(shop: Stack) -> None:
    # A pipe is no terminal: the command is told that somebody is there.
    script = (
        "import sys, django; django.setup(); sys.stdin.isatty = lambda: True;"
        "from django.core.management import call_command; call_command('demo', '--order', '88-4126')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=root(),
        env={**shop.env, "DJANGO_SETTINGS_MODULE": "hitl.settings"},
        input="approvee\nedit\nfive\n5.00\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = done.stdout
    assert "pay failed, attempt 1" in told
    assert "Left to refund    868.00 EUR" in told
    assert "the first letters are enough" in told
    assert "/amount: " in told
    assert "confirm: approve by Frida Holm, edited" in told
    result = json.loads(told.partition("Output\n")[2])
    assert (result["outcome"], result["receipt"]["amount"]) == ("refunded", "5.00")


def test_a_worker_killed_while_money_moves_pays_once(shop: Stack) -> None:
    """C32: killed between the effect and the journal; the next attempt asks with the same key."""
    payments(shop, "/faults", operation="refund", kind="stall", seconds=60)
    demo = subprocess.Popen(
        [sys.executable, "manage.py", "demo", "--order", "88-4120", "--yes"],
        cwd=root(),
        env={**os.environ, **shop.env},
        stdout=subprocess.PIPE,
        text=True,
    )
    with demo:
        until(
            lambda: refunds(shop, "88-4120"),
            seconds=90,
            what="the money has moved, the answer has not come",
        )
        shop.kill("w1")
        shop.kill("w2")
        shop.start_worker("w1")
        told, _ = demo.communicate(timeout=90)
    assert demo.returncode == 0, told
    assert "pay taken over: its worker is gone" in told
    (paid,) = refunds(shop, "88-4120")
    assert paid["asked"] == 2
    assert "hold" in shop.manage("verify_history").stdout


def test_a_database_that_is_away_is_said_in_a_sentence(shop: Stack) -> None:
    nowhere = {"DATABASE_URL": "postgresql://hitl@127.0.0.1:1/hitl"}
    done = shop.manage("demo", "--yes", check=False, env=nowhere)
    assert done.returncode == 1
    assert "The database does not answer; `make up` starts one." in done.stderr
    assert "Traceback" not in done.stderr
