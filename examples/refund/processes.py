"""What must run beside web and workers for this example. Whoever starts the product reads this; nothing else does.

name: in logs and messages. module, arguments: run as `python -m module arguments`; `{port}` is a free port,
`{data}` the data folder. address: the variable that web and workers find it by, set to `http://127.0.0.1:{port}`
unless it is set already: then the service runs elsewhere and none is started. health: answers 200 once it serves.
"""

from __future__ import annotations

from typing import Final, TypedDict

from examples.refund.shop import URL_VARIABLE


class Process(TypedDict):
    name: str
    module: str
    arguments: list[str]
    address: str
    health: str


PROCESSES: Final[list[Process]] = [
    {
        "name": "payments",
        "module": "examples.refund.payments",
        "arguments": ["--port", "{port}", "--data", "{data}/payments.sqlite3"],
        "address": URL_VARIABLE,
        "health": "/healthz",
    }
]
