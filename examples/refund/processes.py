"""What runs beside web and workers for this example: `make up` starts it, and hitl/processes.py says how it is read."""

from __future__ import annotations

from typing import Any, Final

from examples.refund.shop import URL_VARIABLE

PROCESSES: Final[list[dict[str, Any]]] = [
    {
        "name": "payments",
        "args": ["-m", "examples.refund.payments", "--port", "{port}", "--data", "{data}/book.sqlite3"],
        "env": {URL_VARIABLE: "http://127.0.0.1:{port}"},
    }
]
