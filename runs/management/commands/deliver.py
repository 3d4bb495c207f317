from __future__ import annotations

import logging
import signal
import threading
from typing import Any

import psycopg
from django.core.management.base import BaseCommand, CommandParser
from django.db import DatabaseError

from runs import store
from runs.delivery import Sender
from runs.management.base import seconds
from runs.trouble import Trouble

logger = logging.getLogger("runs.deliver")


class Command(BaseCommand):
    help = "Sends what is in the outbox: webhooks and mails. Several may run at once."

    requires_system_checks = ()  # they load all of the API and the pages; `migrate`, before any start, makes them

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--every", type=seconds, default=1.0, help="seconds between two looks (default 1)"
        )
        parser.add_argument("--once", action="store_true", help="send what is due now, then end")

    def handle(self, *args: Any, every: float, once: bool, **options: Any) -> None:
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        sender, trouble = Sender(), Trouble(logger, "the sender waits for the database")
        while not stop.is_set():
            try:
                if once:
                    sender.round()
                    stop.set()
                sender.run(stop, every=every, done=trouble.end)
            except (psycopg.Error, DatabaseError) as error:
                # The database is away. What is under way goes on; what came of it is written down when it is back.
                trouble.note(error)
                store.disconnect()
                stop.wait(every)
        sender.close()
