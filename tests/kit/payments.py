"""The payment service of the refund example in this process, spoken to over real HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.refund import shop
from examples.refund.payments.book import Book
from examples.refund.payments.server import Server


@pytest.fixture
def payments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Book(tmp_path / "payments.sqlite3"), quiet=True)
    monkeypatch.setenv(shop.URL_VARIABLE, server.url)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    with server:
        yield server
        server.stop()
    thread.join(timeout=5)
    assert not thread.is_alive()
