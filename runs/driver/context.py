"""`ctx`: what a node's body may ask for."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import inspect
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any, BinaryIO, Final, NoReturn, TypeVar, get_args

from runs.driver import clock, notes, secrets, watchdog
from runs.driver.aside import Aside
from runs.driver.calls import (
    Later,
    Made,
    Making,
    Options,
    Request,
    check_concurrency,
    in_thread,
    is_async,
    making,
    redacted_arguments,
    together,
    undo_of,
)
from runs.driver.decisions import Approved, Decision, approved_of
from runs.driver.notes import Progress
from runs.driver.port import Call, Entry, Interrupted, LogLine, Port
from runs.driver.usage import used
from runs.driver.waits import Suspend, Waits
from runs.driver.watchdog import TimeIsUp, Watch
from runs.engine import canonical
from runs.engine.approval import approved_digest
from runs.engine.canonical import Json
from runs.engine.failures import brief, error_of
from runs.engine.files import File
from runs.engine.redaction import without
from runs.engine.retry import Retry
from runs.engine.state import storable
from runs.engine.waits import LONGEST, Wanted
from runs.engine.workflow import Effect
from runs.errors import (
    ApprovalMismatch,
    AttachmentNotStored,
    CallTimeout,
    ConcurrentCallNeedsKey,
    InvalidCall,
    JournalMismatch,
    LateResult,
    NotApproved,
    StateNotStorable,
    TooManyAttachments,
)

EFFECTS: Final = get_args(Effect)
MAX_NAME: Final = 200
MAX_KEY: Final = 100
DEFAULT_CONCURRENCY: Final = 8
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A call that raised: if its error leaves the body, the call's own retry policy counts."""

    error: Exception
    name: str
    retry: Retry | None


class AskAgain(BaseException):
    """What is about to be done is not what was approved. A BaseException, so that no author's `except Exception` hides it."""

    def __init__(self, node: str, reason: str) -> None:
        super().__init__(node)
        self.node, self.reason = node, reason


@dataclass(slots=True)
class Context(Waits):
    """Given to every node as `ctx`.

    run_id, node, attempt: where this is. key: the step's idempotency key; inside a call, the call's.
    earlier: attempts before the last Retry; what a policy allows counts from there.
    generations: of single calls of this step, by name and occurrence, where it is not `generation`. draws: the run and the
    generation from which chance is drawn, for a step that a fork goes on with; else this run's. taking_back: the key of the
    call that this step takes back; the keys here are made of it.
    unsaid: texts that the process's log, which anybody may read, does not quote.
    """

    run_id: str
    node: str
    attempt: int
    address: str
    generation: int
    branch: int
    answers: Mapping[str, Any]
    port: Port
    failures: Mapping[str, Any] = field(default_factory=dict)
    unsaid: Sequence[str] = ()
    earlier: int = 0  # attempts before the last Retry
    generations: Mapping[tuple[str, str], int] = field(default_factory=dict)
    draws: tuple[str, int] | None = None
    taking_back: str = ""
    _entries: dict[tuple[str, str], Entry] | None = None
    _left: dict[tuple[str, str], Entry] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _counted: dict[tuple[str, str], bool] = field(default_factory=dict)
    _under_way: set[tuple[str, str]] = field(default_factory=set)
    failed: list[FailedCall] = field(default_factory=list)
    leaving: Suspend | None = None
    _thread: int = field(default_factory=threading.get_ident)
    _task: asyncio.Task[Any] | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _aside: Aside = field(default_factory=Aside)
    _lines: int = 0
    _progress: Progress = field(default_factory=Progress)
    _watch: Watch | None = None
    _over: bool = False

    @property
    def key(self) -> str:
        now = self._making()
        return now.key if now else self._key_of("", "0")

    # ---- calls

    def call(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        kwargs: Mapping[str, Any] | None = None,
        name: str | None = None,
        key: str | None = None,
        effect: str = "none",
        retry: Retry | None = None,
        timeout: float | None = None,
        undo: Callable[..., Any] | None = None,
        guarded_by: Approved | None = None,
        idempotency_key: bool = False,
    ) -> Any:
        """Call a function once in the life of this step: its result is committed, and a later replay gets it from there.

        args, kwargs: JSON values or pydantic models, for the function. name: default the function's.
        key: tells calls of one name apart by more than their order; a call from another thread needs one.
        effect: none, reversible or irreversible. retry: this call's own policy (default the node's).
        timeout: seconds, after which it fails as `CallTimeout`; code that does not heed this ends with its process.
        undo: a module's function that takes the call back, called with its result and then the same arguments, when the
        run is cancelled, or fails and its workflow says `compensate=True`. guarded_by: only with the arguments that
        were approved.
        idempotency_key: passes `idempotency_key=` to the function, the same for every attempt.
        Returns the result as JSON values. Raises what the function raises, `JournalMismatch` or `ApprovalMismatch`.
        """
        options = Options(name, key, effect, retry, timeout, undo, guarded_by, idempotency_key)
        request = self._request(Later(function, args, kwargs or {}, options))
        with self._alone(request):
            known = self._known(request)
            if known is None:
                self._begin()
                known = self._settle(self._make(request))
        return canonical.loads(known)

    def later(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Later:
        """A call for `gather`, with the arguments and options of `call`. Nothing happens yet."""
        return Later(function, args, kwargs or {}, Options(**options))

    def gather(
        self,
        *calls: Later | Callable[..., Any],
        concurrency: int = DEFAULT_CONCURRENCY,
        continue_on_error: bool = False,
    ) -> list[Any]:
        """Make several calls at once, in threads; their results in the order in which they stand here.

        They take their places in the journal in that order before the first one starts, so whatever finishes first,
        each finds its own result again. If some fail, the others are finished and recorded, then the first failure in
        this order is raised. continue_on_error: what has failed for good (its `retry=` is used up) is recorded as
        `{"error": {"code", "message", "type"}}` in its place, and a replay gets that too.
        """
        requests = [self._request(Later.of(call)) for call in calls]
        with self._alone(*requests):
            found = self._gathered(requests, concurrency=concurrency, collect=continue_on_error)
        return [canonical.loads(known) for known in found]

    def _gathered(self, requests: Sequence[Request], *, concurrency: int, collect: bool) -> list[str]:
        check_concurrency(concurrency)
        results = [self._known(request) for request in requests]
        places = {id(request): index for index, request in enumerate(requests)}
        to_do = [request for request, known in zip(requests, results, strict=True) if known is None]
        if to_do:
            self._begin()
        errors: dict[int, Exception] = {}
        for made in together(to_do, self._make, concurrency=concurrency):
            place = places[id(made.request)]
            try:
                results[place] = self._settle(made, collect=collect)
            except Exception as error:  # noqa: BLE001  # raised below, in the order of the calls
                errors[place] = error
        if errors:
            raise errors[min(errors)]
        return [known for known in results if known is not None]

    def map(
        self,
        function: Callable[..., Any],
        items: Iterable[Any],
        /,
        *,
        key: Callable[[Any], str] | None = None,
        concurrency: int = DEFAULT_CONCURRENCY,
        continue_on_error: bool = False,
        **options: Any,
    ) -> list[Any]:
        """`gather` of one call for each item. key: gives each its explicit key."""
        calls = [
            self.later(function, item, key=key(item) if key else None, **options) for item in list(items)
        ]
        return self.gather(*calls, concurrency=concurrency, continue_on_error=continue_on_error)

    def acall(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Coroutine[Any, Any, Any]:
        """`call` for an `async def` node: `await ctx.acall(…)`, with the arguments and options of `call`.

        function: an async function, or an ordinary one, which then runs in a thread. Its place in the journal is taken
        here, not when it is awaited, so `asyncio.gather(ctx.acall(a), ctx.acall(b))` is in order. From another task
        than the node's own it needs `key=`: whose turn it is among tasks depends on what they wait for.
        """
        return self._acall(self._request(Later(function, args, kwargs or {}, Options(**options))))

    async def _acall(self, request: Request) -> Any:
        with self._alone(request):
            known = self._known(request)
            if known is None:
                await self._wait_for(self._aside.ask(self.port.before_call))
                self._write_progress()
                made = await self._amake(request)
                if made.call is None:
                    known = self._settle(made)
                else:
                    known = await self._finish(self._aside.ask(partial(self._commit_there, made.call)))
        return canonical.loads(known)

    async def _wait_for(self, future: Future[Answer]) -> Answer:
        try:
            return await asyncio.wrap_future(future)
        except Exception as error:
            raise Interrupted(error) from error

    async def _finish(self, future: Future[Answer]) -> Answer:
        """As `_wait_for`, and a task that is cancelled meanwhile ends when it is done: what is being written is known then."""
        waiting = asyncio.ensure_future(self._wait_for(future))
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            await asyncio.wait([waiting])
            raise

    def _commit_there(self, call: Call) -> str:
        """In the thread beside."""
        self.port.commit_call(call)
        return self._keep(call)

    @contextmanager
    def _alone(self, *requests: Request) -> Iterator[None]:
        """Of one place in the journal one call is under way at a time: two of one key would be made, and one recorded."""
        places = [(request.label, request.occurrence) for request in requests]
        with self._lock:
            known = set(self._under_way)
            for label, occurrence in places:
                if (label, occurrence) in known:
                    raise InvalidCall(
                        f"Two calls {label!r} with the key {occurrence!r} are made at once; give each its own key."
                    )
                known.add((label, occurrence))
            self._under_way.update(places)
        try:
            yield
        finally:
            with self._lock:
                self._under_way.difference_update(places)

    def _begin(self) -> None:
        """Before something is done to the world."""
        self._ask(self.port.before_call)
        self._write_progress()

    def _request(self, later: Later) -> Request:
        """Give a call its place in the journal; in the order of the program."""
        options = later.options
        label = options.name or str(getattr(later.function, "__name__", type(later.function).__name__))
        with self._lock:
            _check_place(label, "0" if options.key is None else options.key, options.effect)
            occurrence = self._place(label, options.key)
        _check_timeout(label, options.timeout)
        _check_retry(label, options.retry)
        given = redacted_arguments(
            storable({"args": list(later.args), "kwargs": dict(later.kwargs)}, path=f"/{label}")
        )
        if options.guarded_by is not None:
            _check_guard(later.function, later.args, later.kwargs, options.guarded_by)
        return Request(
            later.function,
            later.args,
            later.kwargs,
            options,
            label,
            occurrence,
            given,
            canonical.digest(given),
            self._key_of(label, occurrence),
            undo_of(options.undo, given, label),
        )

    def _place(self, label: str, key: str | None) -> str:
        """Which one of its name this is: by its key, or by its turn."""
        if self.leaving is not None:
            raise self.leaving  # in a `finally`, or past a bare `except`: the body comes here again with its answer
        if self._making() is not None:
            # When the outer call's result is known, the inner one is not asked for and all that follow would be miscounted.
            raise InvalidCall(f"{label!r} is asked for inside another call; ask for one after the other.")
        if key is None and not self._is_own_turn():
            raise ConcurrentCallNeedsKey(
                f"The call {label!r} is made in a thread or task beside the node's own; give it key=, or use "
                "ctx.gather.",
                call=label,
            )
        occurrence = key if key is not None else str(self._count(label))
        self._check_order(label, occurrence, counted=key is None)
        return occurrence

    def _making(self) -> Making | None:
        now = making.get()
        return now if now is not None and now.context is self else None

    def _is_own_turn(self) -> bool:
        """Whether this is the thread, and in an async node the task, that runs the body."""
        if threading.get_ident() != self._thread:
            return False
        return self._task is None or asyncio.current_task() is self._task

    def _make(self, request: Request) -> Made:
        """Make the call, in whatever thread this is."""
        now, started = Making(self, request.key), time.monotonic()
        token = making.set(now)
        limit = request.options.timeout
        watch = Watch(limit, at_end=partial(self.port.note_overdue, _overdue(request)))
        try:
            try:
                with watch:
                    raw = request.run()
            finally:
                watch.leave()  # once more: the exception may have struck at the end of the `with` itself
            return self._made(request, now, raw, started)
        except TimeIsUp:
            if not watch.fired or (self._watch is not None and self._watch.fired):
                raise
            return Made(request, error=_timed_out(request), used=now.used)
        except Exception as error:  # noqa: BLE001  # an author's code may raise anything
            return Made(request, error=error, used=now.used)
        finally:
            making.reset(token)

    async def _amake(self, request: Request) -> Made:
        """Make the call in the event loop, or beside it if it is no async function."""
        if not is_async(request.function):
            return await asyncio.wrap_future(in_thread(partial(self._make, request), name="call")[1])
        now, started = Making(self, request.key), time.monotonic()
        token = making.set(now)
        try:
            async with asyncio.timeout(request.options.timeout) as limit:
                raw = await request.run()
            return self._made(request, now, raw, started)
        except Exception as error:  # noqa: BLE001  # an author's code may raise anything
            late = isinstance(error, TimeoutError) and limit.expired()
            return Made(request, error=_timed_out(request) if late else error, used=now.used)
        finally:
            making.reset(token)

    def _made(self, request: Request, now: Making, raw: Any, started: float) -> Made:
        if inspect.iscoroutine(raw):
            raw.close()
            raise InvalidCall(
                f"{request.label!r} is an async function; use await ctx.acall in an async node."
            )
        result = secrets.redacted(_result(raw, request.label))
        call = request.call(result, took=time.monotonic() - started, used=now.used)
        return Made(request, call=call, used=now.used)

    def _settle(self, made: Made, *, collect: bool = False) -> str:
        """Commit what came of a call; its result as JSON text. Raises the call's error."""
        if made.call is not None:
            self._commit(made.call)
            return made.call.result
        assert made.error is not None
        request, policy = made.request, made.request.options.retry
        again = policy is not None and self.attempt - self.earlier < policy.attempts
        if collect and not (again and policy is not None and policy.wants(made.error)):
            told: Json = {"error": brief(secrets.redacted(error_of(made.error)))}
            call = replace(request.call(told, took=0.0, used=made.used), undo="")
            return self._settle(Made(request, call=call))
        with self._lock:
            self.failed.append(FailedCall(made.error, request.label, policy))
        if made.used:
            self._ask(partial(self.port.note_usage, request.label, request.occurrence, made.used))
        raise made.error

    def _commit(self, call: Call) -> None:
        self._ask(partial(self.port.commit_call, call))
        self._keep(call)

    def _keep(self, call: Call) -> str:
        """Known from now on: an explicit key may be asked for twice."""
        entry = Entry(
            call.name,
            call.occurrence,
            call.args_digest,
            call.result,
            self.branch,
            True,
            call.effect,
            arguments=call.arguments,
        )
        with self._lock:
            assert self._entries is not None
            self._entries[call.name, call.occurrence] = entry
        return call.result

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        """Ask the port; what it raises is no failure of the node.

        Only the body's own thread may, and not while an event loop runs in it; for all others the thread beside does.
        """
        if self._over:
            raise Interrupted(LateResult("The step has ended."))
        try:
            if threading.get_ident() != self._thread or self._task is not None:
                return self._aside.ask(question).result()
            with watchdog.current().shield():
                return question()
        except Exception as error:
            raise Interrupted(error) from error

    def _check_order(self, label: str, occurrence: str, *, counted: bool) -> None:
        """Calls are told apart by their order or by their key, and never by both: one would be taken for the other."""
        if self._counted.setdefault((label, occurrence), counted) != counted:
            raise InvalidCall(
                f"The key {occurrence!r} of a call {label!r} is also the count of one without a key; "
                "give every call of this name a key."
            )

    def _count(self, label: str) -> int:
        self._counts[label] = self._counts.get(label, 0) + 1
        return self._counts[label] - 1

    @property
    def cancelled(self) -> bool:
        """Whether the run was cancelled or rewound since, or the step is another worker's: for code that no exception
        reaches, as a loop in C that calls back. Known within two seconds."""
        return self._watch is not None and self._watch.lost

    def expel(self) -> None:
        """Tell the body, from any thread, that the step is not this worker's any more: `StepLost` is raised in it."""
        if self._watch is not None:
            self._watch.expel()

    def _key_of(self, label: str, occurrence: str) -> str:
        if self.taking_back:
            return hashlib.sha256(f"undo\n{self.taking_back}".encode()).hexdigest()[:40]
        generation = self.generations.get((label, occurrence), self.generation)
        return self._hash(self.run_id, generation, label, occurrence)

    def _hash(self, run_id: str, generation: int, label: str, occurrence: str) -> str:
        parts = "\n".join([run_id, self.address, label, occurrence, str(generation)])
        return hashlib.sha256(parts.encode()).hexdigest()[:40]

    def _known(self, request: Request) -> str | None:
        """The result of an earlier attempt, or one of a branch left behind (which then becomes this branch's own)."""
        label, occurrence = request.label, request.occurrence
        with self._lock:
            if self._entries is None:
                self._read_journal()
            assert self._entries is not None
            entry = self._entries.get((label, occurrence))
        if entry is not None:
            if entry.kind != "call":
                raise JournalMismatch(
                    f"The journal holds {label!r} ({occurrence}) as a {entry.kind}, and a call is made there now; a node "
                    "must ask for the same things every time it runs.",
                    call=label,
                    occurrence=occurrence,
                    recorded={"kind": entry.kind, "result": canonical.loads(entry.result)},
                    asked={"kind": "call", "arguments": request.arguments},
                )
            if entry.args_digest != request.digest:
                raise JournalMismatch(
                    f"The journal holds {label!r} (call {occurrence}) with other arguments than it is asked for now; "
                    "a node must ask for the same calls every time it runs.",
                    call=label,
                    occurrence=occurrence,
                    recorded=entry.arguments or f"(digest {entry.args_digest})",
                    asked=request.arguments,
                )
            return entry.result
        left = self._left.get((label, occurrence))
        if left is None or left.kind != "call" or left.args_digest != request.digest:
            return None
        self._commit(
            Call(
                label,
                occurrence,
                request.digest,
                left.result,
                left.effect,
                request.key,
                0.0,
                reused_from=left.branch,
                arguments=request.arguments,
                undo=request.undo,
            )
        )
        return left.result

    def _read_journal(self) -> None:
        self._entries = {}
        for entry in sorted(self._ask(self.port.entries), key=lambda entry: entry.branch):
            place = self._entries if entry.visible else self._left
            place[entry.name, entry.occurrence] = entry

    # ---- files

    def attach(
        self, name: str, content: bytes | BinaryIO, type: str | None = None, *, key: str | None = None
    ) -> dict[str, Json]:
        """Make a file part of the run, once in the life of this step, and get what refers to it: a dict for state, arguments
        and results.

        name: a label, no path; what cannot be seen in it becomes `_`. content: bytes, or a binary file, which is read from
        where it stands. type: a media type; PNG, JPEG, GIF and WebP are known by their bytes. key: as of a call.
        A replay with the same name gets the same reference, whatever the content is by then. Nothing is drawn out of the
        content, secrets neither. In an `async def` node it is called without await, and holds up the event loop.
        Returns `{"$attachment": id, "name", "type", "size", "digest"}`. Raises `InvalidCall` for what is too large.
        """
        place = self._own("ctx.attach", key)
        given: Json = {"name": secrets.redact(name)}
        request = replace(place, given=given, digest=canonical.digest(given))
        with self._alone(request):
            known = self._known(request)
            if known is None:
                self._begin()
                file = File.of(secrets.redact(name), _read(name, content, self.port.file_limit()), type)
                known = self._attach(request, file)
        reference: dict[str, Json] = canonical.loads(known)
        return reference

    def _attach(self, request: Request, file: File) -> str:
        result = file.reference(str(clock.identifier(request.key)))
        call = request.call(result, took=0.0, used=())
        try:
            self._ask(partial(self.port.commit_file, call, file))
        except Interrupted as interruption:
            if isinstance(interruption.error, AttachmentNotStored | TooManyAttachments):
                raise interruption.error from None  # the node may do without
            raise
        return self._keep(call)

    # ---- time, chance, secrets

    def now(self, *, key: str | None = None) -> datetime:
        """The time, by the database's clock, in UTC: when this was first asked, at every replay. One journal write."""
        request = self._own("ctx.now", key)
        with self._alone(request):
            known = self._known(request)
            if known is None:
                call = request.call(None, took=0.0, used=())
                known = self._keep(replace(call, result=self._ask(partial(self.port.commit_time, call))))
        return datetime.fromisoformat(canonical.loads(known))

    def random(self, *, key: str | None = None) -> float:
        """A number from 0 up to 1, the same at every replay. For choices and jitter, not for secrets.

        It is drawn from the step's key and its own turn instead of being written down: that is as much the same over
        retries, takeovers and a rewind that reuses calls as a journalled number would be, and costs nothing.
        """
        return clock.number(self._drawn("ctx.random", key))

    def uuid(self, *, key: str | None = None) -> uuid.UUID:
        """An id, the same at every replay; drawn like `random`, without a write."""
        return clock.identifier(self._drawn("ctx.uuid", key))

    def secret(self, name: str) -> str:
        """A credential: the environment's HITL_SECRET_<NAME>, or the file <name> in the folder HITL_SECRETS_DIR.

        It is drawn as `[secret NAME]` wherever it would be stored or logged: results, state, errors, log lines.
        Raises `MissingSecret`, which names both places.
        """
        return secrets.find(name)

    def _own(self, label: str, key: str | None) -> Request:
        _check_place(label, "0" if key is None else key, "none")
        with self._lock:
            occurrence = self._place(label, key)
        digest, call_key = canonical.digest({}), self._key_of(label, occurrence)
        return Request(_nothing, (), {}, Options(), label, occurrence, {}, digest, call_key, "")

    def _drawn(self, label: str, key: str | None) -> str:
        _check_place(label, "0" if key is None else key, "none")
        with self._lock:
            occurrence = self._place(label, key)
        run_id, generation = self.draws or (self.run_id, self.generation)
        return self._hash(run_id, generation, label, occurrence)

    # ---- what it says while it runs

    def log(self, message: object, /, **facts: Any) -> None:
        """Say something: a line of the process's log with run, step and node, and of the run's page.

        It is no part of the history. Of one attempt the page keeps the first 200 lines; what is said again after a wait
        is not kept twice. facts: anything; what is no JSON value is drawn as its repr.
        """
        text, told = notes.message_of(message), notes.facts_of(facts)
        where = {"run": self.run_id, "step": self.address, "node": self.node}
        said = told if not self.unsaid else canonical.dumps(without(canonical.loads(told), self.unsaid))
        notes.logger.info(without(text, self.unsaid), extra={**where, "facts": said})
        with self._lock:
            self._lines += 1
            no = self._lines
        if no <= notes.MAX_LINES:
            self._ask(partial(self.port.note_log, LogLine(no, self.attempt, text, told)))

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Say how far this step is; the run's page shows it while it executes.

        Written at most four times a second, the last one (`done` has reached `total`) always, one that was held back
        before the next call. Raises nothing for a step that goes on; one that was taken over ends here.
        """
        said, now = notes.progress_of(done, total, note), time.monotonic()
        with self._lock:
            due = self._progress.say(said, now=now, last=total is not None and done >= total)
        if due:
            self._write_progress()

    def _write_progress(self) -> None:
        with self._lock:
            progress = self._progress.take(time.monotonic())
        if progress is not None:
            self._ask(partial(self.port.note_progress, progress))

    def usage(
        self,
        *,
        model_tokens_in: int = 0,
        model_tokens_out: int = 0,
        cost: Decimal | str | int | None = None,
        currency: str = "USD",
        model: str = "",
    ) -> None:
        """Record what was used of a paid model. cost: exact, a Decimal or a text.

        Inside a call it is recorded with the call's result (or with its failure: that was paid for too), outside as an
        entry of its own; either way once, however often the body replays. Summed for step, run and workflow.
        """
        amount = used(
            model_tokens_in=model_tokens_in,
            model_tokens_out=model_tokens_out,
            cost=cost,
            currency=currency,
            model=model,
        )
        now = self._making()
        if now is not None:
            now.used.append(amount)
            return
        request = self._own("ctx.usage", None)
        if self._known(request) is None:
            self._commit(request.call(None, took=0.0, used=[amount]))

    # ---- for whoever runs the body

    def _leave(self, asked: Sequence[Wanted]) -> NoReturn:
        """From here on the body is only being left: what it still asks for on its way out is not its turn yet."""
        self.leaving = Suspend(asked)
        raise self.leaving

    async def run_async(self, body: Coroutine[Any, Any, Any]) -> Any:
        """An `async def` body, in the task that may call without a key."""
        self._task = asyncio.current_task()
        try:
            return await body
        finally:
            self._task = None

    def watched_by(self, watch: Watch) -> None:
        self._watch = watch

    def close(self) -> None:
        """The body has ended: threads that it left behind reach nothing any more."""
        self._over = True
        self._aside.close(self.port.disconnect)

    # ---- decisions

    def approved(self, node: str, *, key: str | None = None) -> Approved:
        """The action that people approved at this approval; `key` if it had several. Raises `NotApproved`."""
        answer = self._answer(node)
        found = approved_of(
            node, answer["approval"], answer["outcome"], answer["actions"], edited=answer["edited"], key=key
        )
        recorded = self._ask(lambda: self.port.approved_digest(answer["approval"]))
        if approved_digest(answer["actions"]) != recorded:
            raise AskAgain(node, "payload_changed")
        return found

    def edited(self, node: str, *, key: str | None = None) -> dict[str, Json] | None:
        """The arguments a person edited at this approval, in the node that rechecks them; None on any other way here."""
        if node not in self.answers:
            return None
        answer = copy.deepcopy(self.answers[node])
        actions = {action["key"]: action for action in answer["actions"]}
        action = actions.get(key) if key is not None else next(iter(actions.values()), None)
        return dict(action["args"]) if action and answer["outcome"] == "edit" else None

    def decision(self, node: str) -> Decision:
        """What was decided at this approval, whatever it was. Raises `NotApproved` if nothing was."""
        answer = self._answer(node)
        return Decision(
            answer["approval"],
            answer["outcome"],
            answer["by"],
            answer["reason"],
            answer["comment"],
            answer["edited"],
            answer["at"],
            answer["actions"],
        )

    def failure(self, node: str) -> Mapping[str, Json] | None:
        """Why a node failed on the way here (`on_error`): `code`, `message`, `step` and more; None if it did not."""
        found: Mapping[str, Json] | None = self.failures.get(node)
        return found

    def _answer(self, node: str) -> Any:
        if node not in self.answers:
            raise NotApproved(f"Nothing was decided at {node!r} on the way here.", node=node)
        # It is part of the run's position; what a node has is its own.
        answer = copy.deepcopy(self.answers[node])
        if answer.get("void"):
            raise AskAgain(node, answer["void"])
        return answer


def _check_place(label: Any, occurrence: Any, effect: str) -> None:
    """Said before the call is made: afterwards its effect would have happened, and nothing would know of it."""
    if effect not in EFFECTS:
        raise InvalidCall(f"effect={effect!r} of the call {label!r} is not one of {', '.join(EFFECTS)}.")
    for what, text, longest in (("name", label, MAX_NAME), ("key", occurrence, MAX_KEY)):
        if not canonical.is_name(text, longest):
            raise InvalidCall(
                f"The {what} {text!r:.300} of a call is not a text of 1 to {longest} characters."
            )


def _check_timeout(label: str, timeout: float | None) -> None:
    if timeout is not None and (type(timeout) not in (int, float) or not 0 < timeout <= LONGEST):
        raise InvalidCall(
            f"timeout={timeout!r} of the call {label!r} is not a number of seconds above 0 (and up to 10 years)."
        )


def _check_retry(label: str, retry: Any) -> None:
    if retry is not None and not isinstance(retry, Retry):
        raise InvalidCall(f"retry={retry!r:.100} of the call {label!r} is not a Retry(…).")


def _timed_out(request: Request) -> CallTimeout:
    limit = request.options.timeout
    return CallTimeout(
        f"The call {request.label!r} took longer than {limit:g} s.", call=request.label, timeout=limit
    )


def _overdue(request: Request) -> dict[str, Json]:
    return {"call": request.label, "timeout": request.options.timeout}


def _read(name: str, content: bytes | BinaryIO, limit: int) -> bytes:
    body = content.read(limit + 1) if hasattr(content, "read") else content
    if not isinstance(body, bytes):
        raise InvalidCall(f"The content of {name!r:.200} is not bytes.")
    if len(body) > limit:
        raise InvalidCall(f"The attachment {name!r:.200} has more than {limit:,} bytes.", limit=limit)
    return body


def _nothing() -> None:
    return None


def _check_guard(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], approved: Approved
) -> None:
    """The arguments must be the approved ones, whether they are passed by place or by name."""
    if not isinstance(approved, Approved):
        raise InvalidCall(f"guarded_by= is what ctx.approved(…) returns, not {approved!r:.100}.")
    given = storable(_by_name(function, args, kwargs))
    if canonical.dumps(given) != approved.as_approved:
        raise ApprovalMismatch(
            f"The call has other arguments than {approved.node!r} approved.",
            approved=canonical.loads(approved.as_approved),
            given=given,
        )


def _by_name(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    if not args:
        return dict(kwargs)
    try:
        signature = inspect.signature(function)
        bound = dict(signature.bind_partial(*args, **kwargs).arguments)
    except (TypeError, ValueError):
        return {"args": list(args), **kwargs}
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            bound.update(bound.pop(name, {}))
    return bound


def _result(raw: Any, label: str) -> Json:
    try:
        return storable(raw)
    except StateNotStorable as error:
        raise StateNotStorable(
            f"{label!r} returned something that cannot be stored: {error.detail}",
            errors=error.errors,
            **error.facts,
        ) from None
