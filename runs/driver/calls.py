"""A call on its way: as it is asked for, as it is made, and several of them made at once."""

from __future__ import annotations

import contextvars
import importlib
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeVar

from runs.driver import secrets, watchdog
from runs.driver.port import Call
from runs.driver.usage import Used
from runs.engine import canonical
from runs.engine.canonical import Json
from runs.engine.retry import Retry
from runs.errors import InvalidCall, UndoNotFound

if TYPE_CHECKING:
    from runs.driver.decisions import Approved

MAX_ARGUMENTS: Final = 4_000  # characters of a call's arguments that the journal shows
MAX_CONCURRENCY: Final = 64
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Options:
    """How a call is made; see `Context.call`."""

    name: str | None = None
    key: str | None = None
    effect: str = "none"
    retry: Retry | None = None
    timeout: float | None = None
    undo: Callable[..., Any] | None = None
    guarded_by: Approved | None = None
    idempotency_key: bool = False


@dataclass(frozen=True, slots=True)
class Later:
    """A call that is described and not yet asked for: what `ctx.gather` takes."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    options: Options

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InvalidCall(
                f"A call is of a function, not of {self.function!r:.100}: ctx.call(f, x), where f(x) would be run at once."
            )
        if not isinstance(self.kwargs, Mapping):
            raise InvalidCall(f"kwargs= of a call is a dict of names and values, not {self.kwargs!r:.100}.")

    @classmethod
    def of(cls, what: Later | Callable[..., Any]) -> Later:
        """A function or a `functools.partial` is a call without options."""
        if isinstance(what, Later):
            return what
        if isinstance(what, partial):
            return cls(what.func, what.args, what.keywords, Options())
        if callable(what):
            return cls(what, (), {}, Options())
        raise InvalidCall(f"gather takes ctx.later(…), a function or a partial, not {what!r:.200}.")


@dataclass(frozen=True, slots=True)
class Request:
    """A call that is asked for: its place in the journal is taken."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    options: Options
    label: str
    occurrence: str
    given: Json
    digest: str
    key: str
    undo: str

    @property
    def arguments(self) -> str:
        return shown(self.given)

    def run(self) -> Any:
        extra = {"idempotency_key": self.key} if self.options.idempotency_key else {}
        return self.function(*self.args, **self.kwargs, **extra)

    def call(self, result: Json, *, took: float, used: Sequence[Used]) -> Call:
        return Call(
            self.label,
            self.occurrence,
            self.digest,
            canonical.dumps(result),
            self.options.effect,
            self.key,
            took,
            arguments=self.arguments,
            used=tuple(used),
            undo=self.undo,
            guard=self.options.guarded_by.approval_id if self.options.guarded_by else "",
        )


@dataclass(slots=True)
class Making:
    """A call that is being made; `ctx.key` and `ctx.usage` belong to it."""

    context: object
    key: str
    used: list[Used] = field(default_factory=list)


making: ContextVar[Making | None] = ContextVar("hitl_call", default=None)


@dataclass(slots=True)
class Made:
    """What came of a call: a result to commit, or an error. used: what it used of paid models either way."""

    request: Request
    call: Call | None = None
    error: Exception | None = None
    used: Sequence[Used] = ()


def shown(given: Json) -> str:
    """Arguments as the journal shows them: canonical JSON text, cut where it is long. No secret is left in `given`."""
    text = canonical.dumps(given)
    return text if len(text) <= MAX_ARGUMENTS else f"{text[:MAX_ARGUMENTS]}…"


def undo_of(function: Callable[..., Any] | None, given: Json, label: str) -> str:
    """How a call is taken back, as JSON text: a function that any process finds by its name, and the call's arguments.

    It is called with the call's result first, then with the same arguments. Raises `InvalidCall` for what another process,
    weeks later, would not find.
    """
    if function is None:
        return ""
    name = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"
    try:
        found = function_named(name)
    except UndoNotFound:
        found = None
    if found is not function:
        raise InvalidCall(
            f"undo= of the call {label!r} is {name!r:.200}; another process, weeks later, finds a function at the top "
            "level of a module, and nothing else."
        )
    assert isinstance(given, dict)
    return canonical.dumps({"function": name, **given})


def function_named(name: str) -> Callable[..., Any]:
    """The function that `undo_of` wrote down as "module:name". Raises `UndoNotFound`."""
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise UndoNotFound(f"{name!r:.200} is not there: {error}.", function=name) from None
    if not callable(found):
        raise UndoNotFound(f"{name!r:.200} is no function.", function=name)
    function: Callable[..., Any] = found
    return function


def redacted_arguments(given: Json) -> Json:
    """What is written down of arguments, and what is compared: a secret that was exchanged is no other call."""
    redacted: Json = secrets.redacted(given)
    return redacted


# ---- in threads


def in_thread(function: Callable[[], Answer], *, name: str) -> tuple[threading.Thread, Future[Answer]]:
    """Run it in a thread of its own, which holds up no end of the process."""
    future: Future[Answer] = Future()
    context = contextvars.copy_context()

    future.set_running_or_notify_cancel()  # whoever is cancelled waits no longer, and the thread ends by itself

    def work() -> None:
        try:
            future.set_result(context.run(function))
        except BaseException as error:  # noqa: BLE001  # whoever asked gets it
            future.set_exception(error)

    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread, future


def check_concurrency(concurrency: int) -> None:
    """Also where nothing is left to do: a replay refuses what the first time would."""
    if type(concurrency) is not int or not 1 <= concurrency <= MAX_CONCURRENCY:
        raise InvalidCall(f"concurrency={concurrency!r:.100} is not a number from 1 to {MAX_CONCURRENCY}.")


def together(
    requests: Sequence[Request], make: Callable[[Request], Made], *, concurrency: int
) -> Iterator[Made]:
    """Make the calls, so many at a time, the first ones first; they come as they are done.

    Whoever stops early leaves threads behind; these are told that it is over.
    """
    to_do: SimpleQueue[Request | None] = SimpleQueue()
    done: SimpleQueue[Made | BaseException] = SimpleQueue()
    for request in requests:
        to_do.put(request)

    def work() -> None:
        while (request := to_do.get()) is not None:
            try:
                done.put(make(request))
            except BaseException as error:  # noqa: BLE001  # the body's thread raises it
                done.put(error)

    crew = [in_thread(work, name="call")[0] for _ in range(min(concurrency, len(requests)))]
    for _ in crew:
        to_do.put(None)
    try:
        for _ in requests:
            made = done.get()
            if isinstance(made, BaseException):
                raise made  # noqa: TRY301  # what ended a thread ends the body
            yield made
    except BaseException:
        for thread in crew:
            if thread.is_alive() and thread.ident:
                watchdog.current().interrupt(thread.ident)
        raise


def is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004  # an object whose call is async
    )
