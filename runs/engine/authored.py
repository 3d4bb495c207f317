"""Where the engine itself calls an author's code: routers, validators, output functions, keys, migrations.

It runs in workers, in the sweeper and in web requests, where an exception that is no `Exception` ends the process or passes by
whoever books the failure. So it is made an error like any other, that says what it was.
"""

from __future__ import annotations

from types import TracebackType


class Escaped(Exception):
    """An author's code raised what is no `Exception`: SystemExit, asyncio.CancelledError, or one of a library's own."""

    def __init__(self, raised: BaseException) -> None:
        super().__init__(str(raised))
        self.raised = raised


class _Contained:
    """Lets Ctrl-C through, and every `Exception` as it is. It keeps nothing, so one serves all."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, (Exception, KeyboardInterrupt)):
            raise Escaped(error) from error


contained = _Contained()


def origin(error: BaseException) -> BaseException:
    """What the author's code raised."""
    return error.raised if isinstance(error, Escaped) else error
