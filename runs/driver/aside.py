"""A thread beside the body's own that asks the port for others: threads of an author, and an event loop.

The port belongs to the thread that runs the body (a database connection is no two threads' thing), and an event loop must
not be held up by it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

Answer = TypeVar("Answer")
_Item = tuple[Callable[[], Any], "Future[Any]"]


class Aside:
    """Started when first asked. `close` ends it; `last` is done in it then."""

    def __init__(self) -> None:
        self._questions: SimpleQueue[_Item | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._closed = False

    def ask(self, question: Callable[[], Answer]) -> Future[Answer]:
        """Raises RuntimeError once it is closed."""
        future: Future[Answer] = Future()
        with self._starting:
            if self._closed:
                raise RuntimeError("the step has ended")
            if self._thread is None:
                self._thread = threading.Thread(target=self._answer, name="port", daemon=True)
                self._thread.start()
            self._questions.put((question, future))
        return future

    def close(self, last: Callable[[], None]) -> None:
        with self._starting:
            self._closed = True
        if self._thread is not None:
            self._questions.put((last, Future()))
            self._questions.put(None)
            self._thread.join()

    def _answer(self) -> None:
        while (item := self._questions.get()) is not None:
            question, future = item
            is_wanted = (
                future.set_running_or_notify_cancel()
            )  # a cancelled task waits no longer; its write counts
            try:
                answer = question()
            except BaseException as error:  # noqa: BLE001  # whoever asked gets it
                if is_wanted:
                    future.set_exception(error)
            else:
                if is_wanted:
                    future.set_result(answer)
