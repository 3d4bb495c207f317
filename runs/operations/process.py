"""This process as a worker: what the database knows of it, from its first step to its end."""

from __future__ import annotations

import logging
import math
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import psycopg
from django.conf import settings
from django.db import DatabaseError

from runs import store, workflows
from runs.errors import LateResult
from runs.store import Held
from runs.trouble import Trouble

CHECK_EVERY: Final = 0.5  # seconds between two looks whether what runs here is still ours
KEEPER_TICK: Final = 0.25  # seconds after which the keeper sees that it is to stop
FAMILY: Final = uuid.uuid4()  # made before the fork: all processes of a worker have it in common
LOOK_EVERY: Final = 3.0  # seconds between two looks for forgotten steps
Tell = Callable[[], None]
Take = Callable[[uuid.UUID, int, str], None]  # advances a step, by run, branch and address
logger = logging.getLogger(__name__)


class Worker:
    """This process as the database knows it: a row, an advisory lock, and the leases it renews.

    A thread renews with a connection of its own, so a body that computes for minutes keeps its lease. Only tokens that are
    in hand are renewed: what this process has let go of, however that came, lapses and is taken over.

    A body whose token is gone from the database is told so: its run was cancelled or rewound, or another worker has it.

    stopping: the process is to end; a step that runs is finished, the next one of its lane is left to others.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.keeper = store.Keeper(
            socket.gethostname(), self.pid, FAMILY, workflows.code(), queues=workflows.queues_served()
        )
        self.id = self.keeper.id
        self.stopping = False
        self._in_hand: dict[uuid.UUID, Tell] = {}  # by token; the keeper's thread reads a copy
        self._lost: frozenset[uuid.UUID] = frozenset()
        self._were_held: frozenset[uuid.UUID] = frozenset()
        self._sure_until = -math.inf
        self._writing = threading.Lock()
        self._stop = threading.Event()
        self._alone: threading.Thread | None = None
        self._take: Take | None = None
        self._look_at = math.inf
        self._beat()
        self._thread = threading.Thread(target=self._keep, name="lease-keeper", daemon=True)
        self._thread.start()

    @contextmanager
    def holding(self, held: Held) -> Iterator[None]:
        """Renew the lease of a step while it is in hand. If it is left by an exception, nobody runs it any more: the sweeper
        books the attempt as crashed, and another worker has it at once."""
        self._take_up(held.token, _nobody)
        try:
            yield
        except LateResult:
            raise
        except BaseException:
            self._let_go(held.token)
            with suppress(DatabaseError, *store.LOST):  # then the lease runs out by itself
                store.lapse(held)
            raise
        finally:
            self._let_go(held.token)

    def watch_over(self, held: Held, tell: Tell) -> None:
        """tell: called from the keeper's thread if the step is not this worker's any more while its body runs."""
        self._take_up(held.token, tell)

    def _take_up(self, token: uuid.UUID, tell: Tell) -> None:
        with self._writing:
            self._in_hand[token] = tell

    def _let_go(self, token: uuid.UUID) -> None:
        with self._writing:
            self._in_hand.pop(token, None)

    def _now_in_hand(self) -> dict[uuid.UUID, Tell]:
        with self._writing:
            return dict(self._in_hand)

    def is_sure_of(self, token: uuid.UUID) -> bool:
        """Whether the lease cannot have run out since it was last renewed, nor been found to be gone."""
        return token not in self._lost and time.monotonic() < self._sure_until

    def look_out(self, take: Take) -> None:
        """From now on, look for steps that nobody was told about: the broker may be away, and the sweeper too."""
        self._take = take
        self._look_at = time.monotonic() + LOOK_EVERY

    def leave(self) -> None:
        """Say that this process ends, once a step that it found by itself is done."""
        self.stopping = True
        if self._alone is not None:
            self._alone.join()
        self._stop.set()
        self._thread.join(timeout=5)
        with suppress(psycopg.Error):  # the free lock says it too
            self.keeper.leave()

    def _keep(self) -> None:
        every = settings.HITL_LEASE_SECONDS / 3
        next_beat = next_check = 0.0
        trouble = Trouble(logger, "the lease keeper waits for the database")
        while not self._stop.is_set():
            try:
                if time.monotonic() >= next_check:
                    self._check()
                    next_check = time.monotonic() + CHECK_EVERY
                if time.monotonic() >= next_beat:
                    self._beat()
                    next_beat = time.monotonic() + every
                if time.monotonic() >= self._look_at:
                    self._look()
                self.keeper.listen(KEEPER_TICK)
                trouble.end()
            except (psycopg.Error, OSError) as error:
                trouble.note(error)
                self._start_over()
                next_beat = 0.0
            except Exception:
                # Without this thread every step of the process would be taken over: it goes on whatever happens.
                logger.exception("the lease keeper failed; it tries again")
                self._start_over()
                next_beat = 0.0

    def _start_over(self) -> None:
        self.keeper.drop()
        self._stop.wait(KEEPER_TICK)

    def _beat(self) -> None:
        tokens, begun = frozenset(self._now_in_hand()), time.monotonic()
        self._lost = tokens - self.keeper.beat(tuple(tokens))
        self._sure_until = begun + settings.HITL_LEASE_SECONDS

    def _check(self) -> None:
        """Ask for the steps that have been in hand since the last time; one that is soon done is not worth a question."""
        in_hand = self._now_in_hand()
        long_held, self._were_held = in_hand.keys() & self._were_held, frozenset(in_hand)
        if long_held:
            for token in long_held - self.keeper.held(tuple(long_held)):
                self._in_hand.get(token, _nobody)()

    def _look(self) -> None:
        """Take a forgotten step if there is nothing else to do. In a thread of its own: the leases go on being renewed."""
        self._look_at = time.monotonic() + LOOK_EVERY
        if self._in_hand or self.stopping or (self._alone is not None and self._alone.is_alive()):
            return
        found = self.keeper.forgotten_step()
        if found is not None:
            self._alone = threading.Thread(target=self._take, args=found, name="lookout", daemon=True)
            self._alone.start()


def _nobody() -> None:
    """No body runs that could be told."""


_worker: Worker | None = None


def worker() -> Worker:
    """This process's worker; made when first needed, and anew after a fork."""
    global _worker
    if _worker is None or _worker.pid != os.getpid():
        _worker = Worker()
    return _worker


def stop_soon() -> None:
    """Finish the step that runs, and leave what comes after it to other workers. Safe in a signal handler."""
    if _worker is not None:
        _worker.stopping = True


def say_leaving() -> None:
    """The worker that started these processes was asked to end, as a deploy does it: a step that they do not finish counts as
    handed over and not as a crash, or three deploys within one long step would poison it. In a thread, for a signal handler:
    whoever is asked to end waits for no database."""

    def say() -> None:
        try:
            store.say_leaving(FAMILY)
        except (psycopg.Error, OSError) as error:
            logger.warning("could not say that this worker leaves: %s", error)

    threading.Thread(target=say, name="leaving", daemon=True).start()


def leave() -> None:
    """Say that this process runs no more steps."""
    global _worker
    if _worker is not None and _worker.pid == os.getpid():
        _worker.leave()
    _worker = None
