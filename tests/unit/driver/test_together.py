"""Several calls at once, calls from threads and from an event loop: each finds its own result again, in any order (C25)."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.driver import Completed, Context, Failed
from runs.engine import Retry, canonical
from runs.errors import CallTimeout, ConcurrentCallNeedsKey, InvalidCall
from tests.unit.driver.journal import Journal, run


def update(outcome: Any) -> Any:
    assert isinstance(outcome, Completed), outcome
    return outcome.update


def error(outcome: Any) -> Failed:
    assert isinstance(outcome, Failed), outcome
    return outcome


class Started:
    """Functions that all start before any of them ends, and then end in a given order."""

    def __init__(self, order: list[int]) -> None:
        self.barrier = threading.Barrier(len(order))
        self.turns = {who: threading.Event() for who in order}
        self.order = order
        self.made: list[int] = []
        self.turns[order[0]].set()

    def work(self, who: int) -> str:
        self.barrier.wait(10)
        self.turns[who].wait(10)
        self.made.append(who)
        after = self.order.index(who) + 1
        if after < len(self.order):
            self.turns[self.order[after]].set()
        return f"of {who}"


@given(st.permutations(range(4)))
def test_results_stand_in_the_order_of_the_calls_whatever_ends_first(order: list[int]) -> None:
    """C25, variation: one function, other arguments."""
    journal, started = Journal(), Started(order)

    def body(state: Any, ctx: Context) -> Any:
        return ctx.map(started.work, range(4), name="work")

    assert update(run(body, journal)) == [f"of {who}" for who in range(4)]
    assert update(run(body, journal)) == [f"of {who}" for who in range(4)]
    assert sorted(started.made) == [0, 1, 2, 3], "none was made again"
    assert {call.occurrence: canonical.loads(call.result) for call in journal.committed} == {
        str(who): f"of {who}" for who in range(4)
    }


@given(st.sets(st.sampled_from("abc")))
def test_calls_recover_whichever_of_them_were_journalled(done: set[str]) -> None:
    """C25: a, b and c were started together; the worker ended when some of them were in the journal."""
    journal, made = Journal(), []

    def work(name: str) -> str:
        made.append(name)
        return name.upper()

    def body(state: Any, ctx: Context) -> Any:
        return ctx.gather(*(ctx.later(work, name, name=name) for name in "abc"))

    update(run(body, journal))
    journal.calls = [(branch, call) for branch, call in journal.calls if call.name in done]
    made.clear()
    assert update(run(body, journal)) == ["A", "B", "C"]
    assert sorted(made) == sorted(set("abc") - done)


def test_gather_takes_functions_partials_and_described_calls() -> None:
    journal = Journal()

    def double(n: int) -> int:
        return 2 * n

    def keyed(*, idempotency_key: str) -> str:
        return idempotency_key

    def body(state: Any, ctx: Context) -> Any:
        return ctx.gather(functools.partial(double, 4), dict, ctx.later(keyed, idempotency_key=True))

    doubled, empty, key = update(run(body, journal))
    assert (doubled, empty, key) == (8, {}, journal.committed[2].key)
    assert [call.name for call in sorted(journal.committed, key=lambda call: call.name)] == [
        "dict",
        "double",
        "keyed",
    ]
    odd: Any = "no"
    assert isinstance(error(run(lambda state, ctx: ctx.gather(odd), Journal())).error, InvalidCall)
    assert update(run(lambda state, ctx: ctx.gather(), Journal())) == []


def test_if_some_fail_the_others_are_recorded_and_the_first_in_order_is_raised() -> None:
    journal = Journal()

    def work(n: int) -> int:
        if n % 2:
            raise ValueError(f"number {n}")
        return n

    failed = error(run(lambda state, ctx: ctx.map(work, [3, 0, 1, 2], retry=Retry(attempts=9)), journal))
    assert (str(failed.error), failed.facts["call"], failed.policy.attempts) == ("number 3", "work", 9)
    assert [call.result for call in sorted(journal.committed, key=lambda call: call.occurrence)] == ["0", "2"]


def test_continue_on_error_records_failures_in_their_place() -> None:
    """A replay gets the same, or it would take another way."""
    journal, made = Journal(), []

    def work(n: int) -> int:
        made.append(n)
        if n == 1:
            raise ValueError("one")
        return n

    def body(state: Any, ctx: Context) -> Any:
        return ctx.map(work, range(3), continue_on_error=True)

    expected = [0, {"error": {"code": "node_error", "message": "one", "type": "ValueError"}}, 2]
    assert update(run(body, journal)) == expected
    assert update(run(body, journal)) == expected
    assert sorted(made) == [0, 1, 2]


def test_continue_on_error_uses_up_the_calls_own_attempts_first() -> None:
    journal = Journal()

    def work() -> None:
        raise OSError("reset")

    def body(state: Any, ctx: Context) -> Any:
        return ctx.gather(ctx.later(work, retry=Retry(attempts=2)), continue_on_error=True)

    assert isinstance(error(run(body, journal)).error, OSError)
    assert update(run(body, journal, attempt=2))[0]["error"]["message"] == "reset"


def test_concurrency_bounds_how_many_are_made_at_once() -> None:
    journal, lock, now, most = Journal(), threading.Lock(), [0], [0]

    def work(n: int) -> int:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        with lock:
            now[0] -= 1
        return n

    assert update(run(lambda state, ctx: ctx.map(work, range(30), concurrency=2), journal)) == list(range(30))
    assert most[0] <= 2
    for odd in (0, 65, True):
        outcome = run(functools.partial(_map, work, odd), Journal())
        assert isinstance(error(outcome).error, InvalidCall)


def _map(work: Callable[[int], int], concurrency: int, state: Any, ctx: Context) -> Any:
    return ctx.map(work, [1], concurrency=concurrency)


def test_the_key_inside_a_concurrent_call_is_its_own() -> None:
    journal = Journal()

    def body(state: Any, ctx: Context) -> Any:
        return ctx.gather(*(ctx.later(lambda: ctx.key, name="key") for _ in range(3)))

    assert update(run(body, journal)) == [
        call.key for call in sorted(journal.committed, key=lambda c: c.occurrence)
    ]


# ---- threads of the author's own


def in_thread(work: Callable[[], Any]) -> Any:
    found: SimpleQueue[Any] = SimpleQueue()

    def run_it() -> None:
        try:
            found.put(work())
        except Exception as error:  # noqa: BLE001
            found.put(error)

    thread = threading.Thread(target=run_it)
    thread.start()
    thread.join()
    return found.get()


def test_a_call_from_another_thread_needs_a_key() -> None:
    outcome = error(run(lambda state, ctx: _raised(in_thread(lambda: ctx.call(dict))), Journal()))
    assert isinstance(outcome.error, ConcurrentCallNeedsKey)
    assert outcome.facts["code"] == "concurrent_call_needs_key"


def test_calls_with_keys_work_from_threads_and_are_found_again() -> None:
    journal = Journal()

    def body(state: Any, ctx: Context) -> Any:
        return [in_thread(lambda key=key: ctx.call(str, key, key=key)) for key in ("a", "b")]  # type: ignore[misc]

    assert update(run(body, journal)) == ["a", "b"]
    assert update(run(body, journal)) == ["a", "b"]
    assert [call.occurrence for call in journal.committed] == ["a", "b"]


def test_a_thread_left_behind_reaches_nothing_any_more() -> None:
    journal, go, found = Journal(), threading.Event(), SimpleQueue[BaseException]()

    def late(ctx: Context) -> None:
        go.wait(10)
        try:
            ctx.call(dict, key="late")
        except BaseException as error:  # noqa: BLE001
            found.put(error)

    def body(state: Any, ctx: Context) -> None:
        threading.Thread(target=late, args=[ctx], daemon=True).start()

    run(body, journal)
    go.set()
    assert "ended" in str(found.get(timeout=10))
    assert journal.committed == []


def _raised(found: Any) -> Any:
    if isinstance(found, Exception):
        raise found
    return found


# ---- async


def test_an_async_node_awaits_its_calls() -> None:
    journal, made = Journal(), []

    async def fetch(name: str) -> str:
        await asyncio.sleep(0)
        made.append(name)
        return name.upper()

    def plain(name: str) -> str:
        made.append(name)
        return name * 2

    async def body(state: Any, ctx: Context) -> dict[str, Any]:
        first = await ctx.acall(fetch, "a")
        second, third = await asyncio.gather(ctx.acall(fetch, "b"), ctx.acall(plain, "c"))
        return {"said": [first, second, third, ctx.call(len, "four"), ctx.now().year]}

    assert update(run(body, journal)) == {"said": ["A", "B", "cc", 4, 2026]}
    assert update(run(body, journal)) == {"said": ["A", "B", "cc", 4, 2026]}
    assert sorted(made) == ["a", "b", "c"]


def test_async_calls_are_told_apart_by_where_they_are_written_not_by_what_ends_first() -> None:
    """C25: the second one ends before the first."""
    journal = Journal()

    async def body(state: Any, ctx: Context) -> Any:
        first_may_end = asyncio.Event()

        async def work(n: int) -> int:
            if n == 1:
                await first_may_end.wait()
            else:
                first_may_end.set()
            return n

        return await asyncio.gather(ctx.acall(work, 1), ctx.acall(work, 2))

    assert update(run(body, journal)) == [1, 2]
    assert {call.occurrence: call.result for call in journal.committed} == {"0": "1", "1": "2"}


def test_another_task_needs_a_key() -> None:
    async def fetch() -> int:
        return 1

    async def body(state: Any, ctx: Context) -> Any:
        async def helper() -> Any:
            return await ctx.acall(fetch)

        return await asyncio.create_task(helper())

    assert isinstance(error(run(body, Journal())).error, ConcurrentCallNeedsKey)


def test_an_async_call_that_takes_too_long_fails_by_its_own_policy() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    async def body(state: Any, ctx: Context) -> Any:
        await ctx.acall(forever, timeout=0.01, retry=Retry(attempts=4))

    failed = error(run(body, Journal()))
    assert isinstance(failed.error, CallTimeout)
    assert failed.policy.attempts == 4


def test_an_async_function_in_a_plain_call_is_refused_with_what_to_write() -> None:
    async def fetch() -> int:
        return 1

    failed = error(run(lambda state, ctx: ctx.call(fetch), Journal()))
    assert isinstance(failed.error, InvalidCall)
    assert "acall" in str(failed.error)


def test_an_error_in_an_async_call_can_be_caught() -> None:
    async def fetch() -> int:
        raise LookupError("no such page")

    async def body(state: Any, ctx: Context) -> Any:
        try:
            await ctx.acall(fetch)
        except LookupError as missing:
            return {"said": str(missing)}

    assert update(run(body, Journal())) == {"said": "no such page"}


# ---- undo


def give_back(receipt: str, amount: int) -> None:
    """What would undo a charge."""


def test_how_a_call_is_undone_is_recorded_with_it() -> None:
    journal = Journal()
    run(lambda state, ctx: ctx.call(str, 5, name="charge", undo=give_back), journal)
    assert canonical.loads(journal.committed[0].undo) == {
        "function": f"{__name__}:give_back",
        "args": [5],
        "kwargs": {},
    }


def test_an_undo_that_no_other_process_could_find_is_refused_before_anything_happens() -> None:
    made: list[int] = []
    for odd in (lambda result: None, functools.partial(give_back, amount=1)):
        failed = error(
            run(lambda state, ctx, odd=odd: ctx.call(made.append, 1, undo=odd), Journal())  # type: ignore[misc]
        )
        assert isinstance(failed.error, InvalidCall)
    assert made == []


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
def test_an_odd_timeout_is_refused(timeout: float) -> None:
    failed = error(run(lambda state, ctx: ctx.call(dict, timeout=timeout), Journal()))
    assert isinstance(failed.error, InvalidCall)


def test_two_calls_of_one_key_at_once_are_refused_before_either_is_made() -> None:
    """One would be recorded, and the other made for nothing; after one another they are one call."""
    made: list[int] = []

    def body(state: Any, ctx: Context) -> Any:
        return ctx.map(made.append, [1, 1], key=lambda item: f"item {item}", name="pay")

    def in_turn(state: Any, ctx: Context) -> Any:
        return [ctx.call(lambda: made.append(1), name="pay", key="k") for _ in range(2)]

    journal = Journal()
    for _ in range(2):
        failed = error(run(body, journal))
        assert isinstance(failed.error, InvalidCall)
        assert "item 1" in failed.facts["message"]
    assert made == []
    assert update(run(in_turn, journal)) == [None, None]
    assert made == [1]


def test_two_tasks_with_one_key_are_refused() -> None:
    async def body(state: Any, ctx: Context) -> Any:
        return await asyncio.gather(*(ctx.acall(lambda: 1, name="pay", key="k") for _ in range(2)))

    assert isinstance(error(run(body, Journal())).error, InvalidCall)


@pytest.mark.parametrize("concurrency", [0, 65, True, "4", 2.0])
def test_a_replay_refuses_what_the_first_time_would(concurrency: Any) -> None:
    journal = Journal()
    run(lambda state, ctx: ctx.gather(lambda: 1), journal)
    assert isinstance(
        error(run(lambda state, ctx: ctx.gather(lambda: 1, concurrency=concurrency), journal)).error,
        InvalidCall,
    )


def test_a_task_that_is_cancelled_while_it_writes_holds_up_no_other() -> None:
    """An author's own timeout: what was being written is written and known, and the next call is answered."""
    journal = Journal()
    writing, cancelled = threading.Event(), threading.Event()
    commit = journal.commit_call

    def slowly(call: Any) -> None:
        writing.set()
        cancelled.wait(10)
        commit(call)

    async def body(state: Any, ctx: Context) -> Any:
        journal.commit_call = slowly  # type: ignore[method-assign]
        task = asyncio.create_task(ctx.acall(lambda: "once", name="one", key="k"))
        await asyncio.to_thread(writing.wait, 10)
        task.cancel()
        asyncio.get_running_loop().call_soon(cancelled.set)
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return [await ctx.acall(lambda: "twice", name="one", key="k"), await ctx.acall(lambda: 2, name="two")]

    assert update(run(body, journal)) == ["once", 2]
    assert [call.name for call in journal.committed] == ["one", "two"]


def test_a_call_in_a_thread_that_nobody_waits_for_any_more_ends_quietly() -> None:
    """A warning about an exception in the thread would fail this test."""
    started, ended = threading.Event(), threading.Event()

    def slow() -> None:
        started.set()
        ended.wait(10)

    async def body(state: Any, ctx: Context) -> Any:
        task = asyncio.create_task(ctx.acall(slow, key="k"))
        await asyncio.to_thread(started.wait, 10)
        task.cancel()
        ended.set()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return await ctx.acall(lambda: "after", name="after")

    assert update(run(body, Journal())) == "after"
