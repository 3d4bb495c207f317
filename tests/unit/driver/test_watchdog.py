"""The watchdog: what takes too long is ended by an exception in its thread; what holds out ends with its process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from runs.driver import Completed, Failed, watchdog
from runs.driver.watchdog import StepLost, TimeIsUp, Watch, Watchdog
from runs.engine import Retry
from runs.errors import CallTimeout, LateResult, StepTimeout
from tests.unit.driver.journal import Journal, run

SHORT = 0.05
LONG = 60.0  # what a test would take if nothing ended it


@pytest.fixture
def dog(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watchdog]:
    """A watchdog whose process goes on."""
    ended: list[int] = []
    made = Watchdog(grace=0.2, end=ended.append)
    made.ended = ended  # type: ignore[attr-defined]
    monkeypatch.setattr(watchdog, "_current", made)
    yield made
    assert made._guards == [], "every guard was left"


def spin() -> None:
    while True:
        pass


def deaf() -> None:
    while True:
        with contextlib.suppress(Exception):
            time.sleep(0.001)


def sleep() -> None:
    time.sleep(LONG)


@pytest.mark.parametrize("work", [spin, deaf, sleep, threading.Event().wait])
def test_a_body_that_takes_too_long_fails_as_timed_out(dog: Watchdog, work: Callable[[], Any]) -> None:
    """Python, a loop that catches every Exception, a blocking system call, a lock."""
    failed = run(lambda state, ctx: work(), Journal(), timeout=SHORT)
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, StepTimeout)
    assert (failed.facts["code"], failed.facts["timeout"]) == ("step_timeout", SHORT)
    assert "test_watchdog.py" in str(failed.facts["traceback"]), "where it was"


@pytest.mark.parametrize("work", [spin, deaf])
def test_it_holds_in_a_thread_that_is_not_the_main_one(dog: Watchdog, work: Callable[[], Any]) -> None:
    """A step that nobody was told about runs in one."""
    found: list[Any] = []
    thread = threading.Thread(
        target=lambda: found.append(run(lambda state, ctx: work(), Journal(), timeout=SHORT))
    )
    thread.start()
    thread.join(LONG)
    assert isinstance(found[0].error, StepTimeout)


def test_a_body_that_ends_in_time_is_left_alone(dog: Watchdog) -> None:
    assert run(lambda state, ctx: {"n": 1}, Journal(), timeout=LONG) == Completed({"n": 1})
    assert run(lambda state, ctx: {"n": 2}, Journal()) == Completed({"n": 2})


def test_a_result_that_comes_after_the_exception_was_swallowed_is_too_late(dog: Watchdog) -> None:
    def body(state: Any, ctx: Any) -> dict[str, int]:
        with contextlib.suppress(BaseException):
            time.sleep(LONG)
        return {"n": 1}

    failed = run(body, Journal(), timeout=SHORT)
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, StepTimeout)


def test_an_error_while_it_cleans_up_is_still_a_timeout(dog: Watchdog) -> None:
    def body(state: Any, ctx: Any) -> None:
        try:
            time.sleep(LONG)
        finally:
            raise ValueError("closing failed")

    failed = run(body, Journal(), timeout=SHORT)
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, StepTimeout)


def test_a_call_has_its_own_limit_and_the_body_may_catch_it(dog: Watchdog) -> None:
    def body(state: Any, ctx: Any) -> dict[str, str]:
        try:
            ctx.call(sleep, timeout=SHORT)
        except CallTimeout as late:
            return {"said": str(late)}
        return {}

    assert run(body, Journal()) == Completed({"said": "The call 'sleep' took longer than 0.05 s."})
    policy = Retry(attempts=5)
    failed = run(lambda state, ctx: ctx.call(sleep, timeout=SHORT, retry=policy), Journal())
    assert isinstance(failed, Failed)
    assert (failed.policy, failed.facts["call"]) == (policy, "sleep")


def test_the_steps_limit_ends_a_call_that_had_more_time(dog: Watchdog) -> None:
    failed = run(lambda state, ctx: ctx.call(sleep, timeout=LONG), Journal(), timeout=SHORT)
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, StepTimeout)


def test_the_steps_limit_ends_calls_in_threads_too(dog: Watchdog) -> None:
    failed = run(lambda state, ctx: ctx.gather(spin, spin), Journal(), timeout=SHORT)
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, StepTimeout)


def test_a_concurrent_call_has_its_own_limit(dog: Watchdog) -> None:
    failed = run(lambda state, ctx: ctx.gather(dict, ctx.later(spin, timeout=SHORT)), Journal())
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, CallTimeout)


def test_an_async_body_has_a_limit(dog: Watchdog) -> None:
    import asyncio

    async def body(state: Any, ctx: Any) -> None:
        await asyncio.Event().wait()

    failed = run(body, Journal(), timeout=SHORT)
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, StepTimeout)


def test_a_write_that_is_under_way_is_finished_first(dog: Watchdog) -> None:
    """The exception comes after it, and what was written counts at the replay."""

    class Slow(Journal):
        def commit_call(self, call: Any) -> None:
            until = time.monotonic() + 4 * SHORT  # the limit passes meanwhile
            while time.monotonic() < until:
                pass
            super().commit_call(call)

    journal = Slow()

    def body(state: Any, ctx: Any) -> None:
        ctx.call(dict)
        sleep()

    failed = run(body, journal, timeout=SHORT)
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, StepTimeout)
    assert [call.name for call in journal.committed] == ["dict"]


def test_what_holds_out_ends_with_its_process_after_it_was_written_down(dog: Watchdog) -> None:
    ended: list[int] = dog.ended  # type: ignore[attr-defined]
    journal = Journal()

    def body(state: Any, ctx: Any) -> None:
        while not ended:
            with contextlib.suppress(BaseException):
                time.sleep(0.001)

    run(body, journal, timeout=SHORT)
    assert ended == [watchdog.EXIT_STATUS]
    assert journal.overdue == [{"timeout": SHORT}]


def test_guards_in_one_thread_nest_and_the_inner_one_does_not_outlive_the_outer(dog: Watchdog) -> None:
    outer = Watch(LONG, dog=dog)
    inner = Watch(LONG, dog=dog)
    with outer:
        inner.__enter__()
    assert dog._guards == []
    with pytest.raises(TimeIsUp), Watch(LONG, dog=dog) as far, Watch(SHORT, dog=dog) as near:
        spin()
    assert (far.fired, near.fired) == (False, True)


def test_many_guards_that_end_just_in_time_leave_nothing_behind(dog: Watchdog) -> None:
    """The exception may strike at any instruction, also in the very end of the guard."""
    for number in range(300):
        seconds = number / 300 * 0.002
        watch = Watch(seconds, dog=dog)
        try:
            try:
                with watch:
                    until = time.monotonic() + 0.001
                    while time.monotonic() < until:
                        pass
            finally:
                watch.leave()
        except TimeIsUp:
            assert watch.fired
        assert dog._guards == []
        assert not dog._shields.get(threading.get_ident())


def test_code_that_never_lets_go_of_the_interpreter_ends_with_its_process() -> None:
    """A regular expression that runs for hours: no thread of Python can run beside it."""
    code = """
        import re
        from runs.driver.watchdog import Watch, Watchdog
        import runs.driver.watchdog as watchdog
        watchdog.LAST_WORDS = 0.1
        with Watch(0.1, dog=Watchdog(grace=0.1)):
            re.match(r"(a+)+b", "a" * 60)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode != 0
    assert "Timeout" in done.stderr


# ---- told that it is lost


def told(context: Any) -> None:
    """As the keeper of the leases does it, from its own thread."""
    threading.Thread(target=context.expel).start()


@pytest.mark.parametrize("work", [spin, deaf, sleep, "receive", threading.Event().wait])
def test_a_body_that_is_lost_is_told_whatever_it_does(dog: Watchdog, work: Any) -> None:
    """C76 (c): also one without a limit, in a system call, on a socket."""
    seen: list[bool] = []
    ours, theirs = socket.socketpair()

    def body(state: Any, ctx: Any) -> None:
        try:
            told(ctx)  # from here on it may strike anywhere
            ours.recv(1) if work == "receive" else work()
        except StepLost:
            seen.append(ctx.cancelled)
            raise

    with ours, theirs, pytest.raises(LateResult):
        run(body, Journal())
    assert seen == [True]
    assert dog.ended == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("work", [spin, deaf])
def test_it_is_told_in_a_thread_that_is_not_the_main_one(dog: Watchdog, work: Callable[[], Any]) -> None:
    found: list[Any] = []

    def body(state: Any, ctx: Any) -> None:
        told(ctx)
        work()

    def works() -> None:
        with contextlib.suppress(LateResult):
            found.append(run(body, Journal()))
        found.append("late")

    thread = threading.Thread(target=works)
    thread.start()
    thread.join(LONG)
    assert found == ["late"]


def test_an_async_body_is_told(dog: Watchdog) -> None:
    async def body(state: Any, ctx: Any) -> None:
        told(ctx)
        await asyncio.sleep(LONG)

    with pytest.raises(LateResult):
        run(body, Journal())


def test_calls_that_are_made_at_once_are_told_too(dog: Watchdog) -> None:
    ended: list[str] = []
    begun = threading.Barrier(3)

    def call(name: str) -> None:
        try:
            begun.wait()  # it may be told as soon as the others are here
            deaf()
        finally:
            ended.append(name)

    def body(state: Any, ctx: Any) -> None:
        def tell() -> None:
            begun.wait()
            ctx.expel()

        threading.Thread(target=tell).start()
        ctx.gather(ctx.later(call, "a"), ctx.later(call, "b"))

    with pytest.raises(LateResult):
        run(body, Journal())
    for thread in threading.enumerate():
        if thread.name == "call":
            thread.join(LONG)
    assert sorted(ended) == ["a", "b"]


def test_a_lost_body_that_goes_on_all_the_same_is_told_again_and_its_process_stays(dog: Watchdog) -> None:
    heard: list[int] = []

    def body(state: Any, ctx: Any) -> dict[str, int]:
        for turn in range(3):
            try:
                if turn == 0:
                    told(ctx)
                sleep()
            except StepLost:
                heard.append(1)
        return {"n": 1}

    with pytest.raises(LateResult):
        run(body, Journal())
    assert (heard, dog.ended) == ([1, 1, 1], [])  # type: ignore[attr-defined]


def test_a_lost_body_keeps_its_limit(dog: Watchdog) -> None:
    def body(state: Any, ctx: Any) -> None:
        with contextlib.suppress(BaseException):
            told(ctx)
        while not dog.ended:  # type: ignore[attr-defined]
            with contextlib.suppress(BaseException):
                time.sleep(0.05)  # nearly always in here when it is told

    with pytest.raises(LateResult):
        run(body, Journal(), timeout=SHORT)
    assert set(dog.ended) == {70}  # type: ignore[attr-defined]


def test_who_is_told_after_the_end_hears_nothing(dog: Watchdog) -> None:
    kept: list[Any] = []
    assert run(lambda state, ctx: kept.append(ctx), Journal()) == Completed(None)
    kept[0].expel()
    assert not kept[0].cancelled
