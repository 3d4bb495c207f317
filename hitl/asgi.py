"""One origin, one port: raw ASGI routes for waiting and streams, Django's WSGI app in a thread pool beside
them.
"""

from __future__ import annotations

from typing import Any, cast

from a2wsgi import WSGIMiddleware
from django.conf import settings

from hitl.wsgi import application as pages
from runs.dispatch import CHANGES
from runs.live.hub import Hub
from runs.live.lengths import Measured
from runs.live.streams import Streams
from runs.live.waiting import Waiting

THREADS = 16

_pages = cast(Any, WSGIMiddleware(cast(Any, pages), workers=THREADS))
application = Measured(Streams(Waiting(_pages), Hub(settings.REDIS_URL, CHANGES)))
