"""Ends what takes too long: by an exception in its thread, and if that does not help, by ending the process.

Theory. One thread a process sleeps until the next guard is due. Then it raises `TimeIsUp` in the guarded thread: in the main
thread from a signal handler, which interrupts a blocking system call too; in others as CPython's asynchronous exception,
which waits until the thread executes Python again. `TimeIsUp` is no Exception, so `except Exception: pass` does not stop
it; it is raised again and again. What holds out for the grace (a bare `except` in a loop, a C function that never
returns) ends with its process. A C function that even keeps the interpreter's lock keeps this thread from running; then
faulthandler's own timer, which needs no lock, ends the process a little later.

The port is shielded: a write that is under way is finished, and the exception is raised after it.
"""

from __future__ import annotations

import ctypes
import faulthandler
import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final

GRACE: Final = 5.0  # seconds that a body has for its own `finally` before the process ends
AGAIN: Final = 0.5  # seconds after which the exception is raised once more
LAST_WORDS: Final = 3.0  # seconds to write down why, before the process ends
SIGNAL: Final = signal.SIGURG  # ignored by default and used by nobody: a stray one does no harm
EXIT_STATUS: Final = 70
logger = logging.getLogger(__name__)


class TimeIsUp(BaseException):
    """The guarded code is out of time."""


class StepLost(TimeIsUp):
    """The run was cancelled or rewound, or another worker has the step: nothing that its body does counts any more."""


@dataclass(slots=True, eq=False)
class Guard:
    """`fired` says whether `TimeIsUp` was raised because of this one. at_end: the last thing before the process ends.

    seconds: infinite for code that is watched only so that it can be told that it is `lost`.
    """

    seconds: float
    at_end: Callable[[], None] = lambda: None
    thread: int = field(default_factory=threading.get_ident)
    in_main: bool = field(default_factory=lambda: _is_main(threading.get_ident()))
    next_at: float = math.inf
    ends_at: float = math.inf
    fired: bool = False
    lost: bool = False

    @property
    def reason(self) -> type[TimeIsUp]:
        return StepLost if self.lost else TimeIsUp


class Watchdog:
    """grace: seconds between the exception and the end of the process. end: ends the process.

    `TimeIsUp` may be raised at any instruction of a guarded thread, in here too. So the lock is the plain one in C (`with`
    takes and releases it without a gap), shields are counted before anything else, and `leave` may be repeated.
    """

    def __init__(self, *, grace: float = GRACE, end: Callable[[int], Any] = os._exit) -> None:
        self.grace, self.end, self.pid = grace, end, os.getpid()
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._guards: list[Guard] = []
        self._shields: dict[int, int] = {}
        self._listens = False
        self._thread: threading.Thread | None = None

    def watch(self, guard: Guard) -> None:
        """From now on its thread has so many seconds; `leave` ends it."""
        has_limit = math.isfinite(guard.seconds)  # the others cost a step next to nothing
        if guard.in_main and (has_limit or not self._listens):
            self._listen()
        guard.next_at = time.monotonic() + guard.seconds
        with self._lock:
            self._guards.append(guard)
            if has_limit:
                self._set_last_resort()
                self._look_again()

    def _listen(self) -> None:
        if signal.getsignal(SIGNAL) != self._on_signal:  # to ask takes longer than all the rest of `watch`
            signal.signal(SIGNAL, self._on_signal)
        self._listens = True

    def expel(self, guard: Guard) -> None:
        """Tell what a guard watches, if that is still under way, that it is of no use any more; from any thread.

        It is told again after each grace. Its process ends only if it has a limit of its own and exceeds that.
        """
        with self._lock:
            if guard in self._guards and not guard.lost:
                guard.lost, guard.ends_at = True, min(guard.ends_at, guard.next_at + self.grace)
                guard.next_at = time.monotonic()
                self._look_again()

    def _look_again(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
            self._thread.start()
        self._changed.notify()

    def leave(self, guard: Guard) -> None:
        """Watch it no more, nor what was watched inside it. What was raised and not delivered yet is taken back."""
        while True:
            try:
                with self._lock:
                    if guard in self._guards:
                        since = self._guards.index(guard)
                        inside = [g for g in self._guards[since:] if g.thread == guard.thread]
                        self._guards = [g for g in self._guards if g not in inside]
                        if any(math.isfinite(g.seconds) for g in inside):
                            self._set_last_resort()
                    if not guard.in_main:
                        _raise_in(guard.thread, None)
            except TimeIsUp:  # it was just being delivered; that of a guard around this one is raised again
                continue
            return

    @contextmanager
    def shield(self) -> Iterator[None]:
        """What is done inside is finished before `TimeIsUp` is raised in this thread."""
        thread = threading.get_ident()
        if not any(guard.thread == thread for guard in self._guards):
            yield
            return
        self._raise_shield(thread)
        try:
            yield
        finally:
            self._shields[thread] -= 1
        self._raise_if_due(thread)

    def _raise_shield(self, thread: int) -> None:
        before = self._shields.get(thread, 0)
        try:
            with self._lock:  # who raises holds it
                self._shields[thread] = before + 1
                if not _is_main(thread):
                    _raise_in(thread, None)
        except TimeIsUp:
            self._shields[thread] = before
            raise

    def interrupt(self, thread: int) -> None:
        """Raise `TimeIsUp` in a thread that is not guarded: what it does is of no use any more."""
        _raise_in(thread, TimeIsUp)

    # ---- inside

    def _raise_if_due(self, thread: int) -> None:
        now = time.monotonic()
        due = [g for g in self._guards if g.thread == thread and (g.fired or now >= g.next_at)]
        if due and not self._shields.get(thread):
            for guard in due:
                self._mark(guard, now)
            raise _reason(due)

    def _mark(self, guard: Guard, now: float) -> None:
        if guard.lost:
            guard.fired, guard.next_at = True, min(now + self.grace, guard.ends_at)
            return
        if not guard.fired:
            guard.fired, guard.ends_at = True, now + self.grace
        guard.next_at = min(now + AGAIN, guard.ends_at) if now < guard.ends_at else now

    def _on_signal(self, number: int, frame: Any) -> None:
        thread = threading.get_ident()
        fired = [guard for guard in self._guards if guard.thread == thread and guard.fired]
        if fired and not self._shields.get(thread):
            raise _reason(fired)

    def _run(self) -> None:
        while True:
            with self._changed:
                now = time.monotonic()
                guard = min(self._guards, key=lambda guard: guard.next_at, default=None)
                if guard is None or guard.next_at > now:
                    self._changed.wait(None if guard is None else min(guard.next_at - now, 3600.0))
                    continue
                ends = self._act(guard, now)
            if ends:
                self._end(guard)

    def _act(self, guard: Guard, now: float) -> bool:
        """Raise in the guarded thread; True if that has been tried for long enough."""
        if self._shields.get(guard.thread):
            # A write is under way; it has all the time it needs, even that of a database which is away.
            guard.next_at = now + 2 * AGAIN
            if guard.fired and not guard.lost:
                guard.ends_at = now + self.grace
            self._set_last_resort()
            return False
        if guard.fired and now >= guard.ends_at:
            return True
        self._mark(guard, now)
        if guard.in_main:
            signal.pthread_kill(guard.thread, SIGNAL)
        else:
            _raise_in(guard.thread, guard.reason)
        return False

    def _end(self, guard: Guard) -> None:
        logger.critical("a node does not stop although its time is up: the process ends")
        words = threading.Thread(target=guard.at_end, name="last-words", daemon=True)
        words.start()
        words.join(LAST_WORDS)
        self.end(EXIT_STATUS)
        self.leave(guard)  # where `end` does not end anything

    def _set_last_resort(self) -> None:
        """faulthandler's timer: a thread in C that waits for no lock. There is one a process, for the last guard to end."""
        if self.end is not os._exit or sys.__stderr__ is None:
            return
        faulthandler.cancel_dump_traceback_later()
        limits = [guard.next_at for guard in self._guards if math.isfinite(guard.next_at)]
        if limits:
            last = max(limits) - time.monotonic()
            late = max(last, 0.0) + 2 * self.grace + LAST_WORDS
            with suppress(ValueError, OSError, OverflowError):
                faulthandler.dump_traceback_later(late, exit=True, file=sys.__stderr__)


class Watch:
    """`with` a guard around it, or without one if there is no limit; `fired` tells whose `TimeIsUp` it was.

    always: also without a limit, so that it can be told by `expel`, from another thread, that it is `lost`.
    """

    def __init__(
        self,
        seconds: float | None,
        *,
        at_end: Callable[[], None] = lambda: None,
        dog: Watchdog | None = None,
        always: bool = False,
    ) -> None:
        limit = math.inf if seconds is None and always else seconds
        self._guard = None if limit is None else Guard(limit, at_end)
        self._dog = dog or current()

    @property
    def fired(self) -> bool:
        return self._guard is not None and self._guard.fired

    @property
    def timed_out(self) -> bool:
        return self.fired and not self.lost

    @property
    def lost(self) -> bool:
        return self._guard is not None and self._guard.lost

    def expel(self) -> None:
        if self._guard is not None:
            self._dog.expel(self._guard)

    def __enter__(self) -> Watch:
        if self._guard is not None:
            try:
                self._dog.watch(self._guard)
            except TimeIsUp:
                self.leave()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def leave(self) -> None:
        if self._guard is not None:
            self._dog.leave(self._guard)


def _reason(guards: list[Guard]) -> type[TimeIsUp]:
    return StepLost if any(guard.lost for guard in guards) else TimeIsUp


def _is_main(thread: int) -> bool:
    return thread == threading.main_thread().ident


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    value = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), value)


_current: Watchdog | None = None


def current() -> Watchdog:
    """This process's watchdog; a new one after a fork, which takes no threads along."""
    global _current
    if _current is None or _current.pid != os.getpid():
        _current = Watchdog()
    return _current
