from __future__ import annotations

import logging
import signal
import threading
import time
from typing import Any

import psycopg
from django.core.management.base import BaseCommand, CommandParser
from django.db import DatabaseError, connection

from runs import operations, store
from runs.management.base import seconds
from runs.trouble import Trouble

logger = logging.getLogger("runs.sweeper")


class Command(BaseCommand):
    help = "Looks once a second for what time and death have made due: takeovers, retries, approvals, lost hints."

    requires_system_checks = ()  # they load all of the API and the pages; `migrate`, before any start, makes them

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--every", type=seconds, default=1.0, help="seconds from one round to the next (default 1)"
        )
        parser.add_argument("--once", action="store_true", help="one round, then end")

    def handle(self, *args: Any, every: float, once: bool, **options: Any) -> None:
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        lock: psycopg.Connection[Any] | None = None
        trouble = Trouble(logger, "the sweeper waits for the database")
        while not stop.is_set():
            begun = time.monotonic()
            try:
                lock = lock if lock and not lock.closed else store.own_connection()
                operations.sweep(lock)
                trouble.end()
            except (psycopg.Error, DatabaseError) as error:
                # The database is away: nothing can be swept, and nothing is lost by waiting for it.
                trouble.note(error)
                if lock is not None:
                    lock.close()
                lock = None
                connection.close()
            if once:
                break
            # From beginning to beginning: who is suspected in one round is known to be dead in the next, however long it took.
            stop.wait(max(every / 4, every - (time.monotonic() - begun)))
