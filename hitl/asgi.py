"""One origin, one port: raw ASGI routes for waiting and streams, Django's WSGI app in a thread pool beside
them.
"""

from __future__ import annotations

from typing import Any, cast

from a2wsgi import WSGIMiddleware

from hitl.wsgi import application as pages
from runs.live.lengths import Measured
from runs.live.waiting import Waiting

THREADS = 16

application = Measured(Waiting(cast(Any, WSGIMiddleware(cast(Any, pages), workers=THREADS))))
