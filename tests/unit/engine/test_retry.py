"""Retry policies: the wait before an attempt is bounded whatever the numbers are, and only wanted errors are retried."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.engine import Retry
from runs.engine.failures import delay_of
from runs.engine.retry import LONGEST_DELAY, ONCE
from runs.errors import CallTimeout, StateNotStorable, StepError, StepTimeout, WorkflowError

NUMBERS = st.floats(0, allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, 5e-324, 1.0, 1e308])
SHARES = st.floats(0, 1) | st.sampled_from([0.0, 0.1, 0.7, 1.0])
FAILURES = st.integers(1, 50) | st.integers(1, 10**15) | st.sampled_from([10**308, 10**309, 10**5_000])
POLICIES = st.builds(Retry, initial=NUMBERS, multiplier=NUMBERS, max=NUMBERS, jitter=SHARES)


@given(POLICIES, FAILURES, SHARES)
def test_a_wait_never_overflows_and_stays_within_its_bounds(
    policy: Retry, failures: int, draw: float
) -> None:
    delay = policy.delay(failures=failures, draw=draw)
    assert 0 <= delay <= min(policy.max, LONGEST_DELAY)


@given(POLICIES, st.integers(1, 10**9), st.integers(1, 10**9), st.integers(0, 10**9), SHARES)
def test_an_attempt_is_followed_by_another_only_within_the_budget(
    policy: Retry, attempts: int, failures: int, crashes: int, draw: float
) -> None:
    """Crashes use the budget up as failures do, and the wait is that of the failures alone."""
    allowed = replace(policy, attempts=attempts)
    delay = delay_of(allowed, OSError(), attempt=failures + crashes, failures=failures, draw=draw)
    assert (delay is None) == (failures + crashes >= attempts)
    assert delay is None or delay == policy.delay(failures=failures, draw=draw)


TIMEOUTS = st.sampled_from([StepTimeout(), CallTimeout()])


@given(TIMEOUTS)
def test_a_timeout_follows_retry_on_and_give_up_on_like_any_error(late: StepError) -> None:
    assert Retry().wants(late)
    assert not Retry(give_up_on=(StepError,)).wants(late)
    assert not Retry(retry_on=(OSError,)).wants(late)
    assert Retry(retry_on=(OSError, StepTimeout, CallTimeout)).wants(late)


@given(POLICIES, FAILURES, SHARES)
def test_jitter_takes_away_at_most_its_part(policy: Retry, failures: int, draw: float) -> None:
    longest, shortest = policy.delay(failures=failures, draw=1), policy.delay(failures=failures, draw=0)
    assert shortest <= policy.delay(failures=failures, draw=draw) <= longest
    assert shortest == pytest.approx(longest * (1 - policy.jitter), abs=1e-300)


@given(st.floats(0.001, 1000), st.floats(1, 10), st.floats(0.001, 1e6), st.integers(1, 60))
def test_the_wait_is_initial_times_multiplier_to_the_power_of_the_failures_before(
    initial: float, multiplier: float, longest: float, failures: int
) -> None:
    policy = Retry(initial=initial, multiplier=multiplier, max=longest, jitter=0)
    expected = min(initial * multiplier ** (failures - 1), longest, LONGEST_DELAY)
    assert policy.delay(failures=failures, draw=0.5) == pytest.approx(expected)


@given(st.floats(0.001, 1000), st.floats(1, 10), FAILURES)
def test_waits_never_become_shorter(initial: float, multiplier: float, failures: int) -> None:
    policy = Retry(initial=initial, multiplier=multiplier, jitter=0)
    now, later = (policy.delay(failures=n, draw=0) for n in (failures, failures + 1))
    assert later >= now * (1 - 1e-9)


@pytest.mark.parametrize("failures", [1, 2, 100])
def test_nothing_times_anything_is_no_wait(failures: int) -> None:
    assert Retry(initial=0).delay(failures=failures, draw=1) == 0
    assert Retry(max=0).delay(failures=failures, draw=1) == 0


def test_a_multiplier_of_nothing_waits_once() -> None:
    policy = Retry(initial=7, multiplier=0, jitter=0)
    assert [policy.delay(failures=n, draw=0) for n in (1, 2, 3)] == [7, 0, 0]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"initial": -1}, "initial"),
        ({"initial": float("nan")}, "initial"),
        ({"multiplier": float("inf")}, "multiplier"),
        ({"multiplier": -0.5}, "multiplier"),
        ({"max": float("inf")}, "max"),
        ({"jitter": 1.5}, "jitter"),
        ({"jitter": -0.1}, "jitter"),
        ({"attempts": 0}, "attempts"),
        ({"attempts": -3}, "attempts"),
        ({"attempts": float("nan")}, "attempts"),
        ({"attempts": 2.5}, "attempts"),
        ({"attempts": "3"}, "attempts"),
        ({"attempts": True}, "attempts"),
        ({"initial": "1s"}, "initial"),
        ({"retry_on": (ValueError("x"),)}, "retry_on"),
        ({"retry_on": "ValueError"}, "retry_on"),
        ({"give_up_on": [int]}, "give_up_on"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_naming_the_option(
    options: dict[str, Any], word: str
) -> None:
    """C02: no number that is none."""
    with pytest.raises(WorkflowError, match=rf"Retry\({word}="):
        Retry(**options)


@pytest.mark.parametrize("told", [OSError, [OSError], {OSError}, (OSError,)])
def test_classes_are_taken_as_authors_write_them(told: Any) -> None:
    """What `isinstance` does not take would end the worker when something fails."""
    assert Retry(retry_on=told).wants(PermissionError())
    assert not Retry(give_up_on=told).wants(PermissionError())
    assert Retry(retry_on=told) == Retry(retry_on=(OSError,))


def test_give_up_on_wins_over_retry_on() -> None:
    policy = Retry(retry_on=(OSError,), give_up_on=(PermissionError,))
    assert policy.wants(ConnectionError())
    assert not policy.wants(PermissionError())
    assert not policy.wants(ValueError())


def test_what_a_new_attempt_cannot_help_is_not_retried() -> None:
    """C01, C07: a result that cannot be stored would come again."""
    assert not Retry().wants(StateNotStorable())
    assert Retry().wants(StepTimeout())
    assert not Retry().wants(SystemExit())


@given(st.integers(1, 10), st.integers(1, 12))
def test_there_are_as_many_attempts_as_were_allowed(attempts: int, attempt: int) -> None:
    policy = Retry(attempts=attempts)
    delay = delay_of(policy, ValueError(), attempt=attempt, failures=attempt, draw=0.5)
    assert (delay is not None) == (attempt < attempts)


def test_once_is_once() -> None:
    assert delay_of(ONCE, ValueError(), attempt=1, failures=1, draw=0) is None


def test_a_crash_uses_up_an_attempt_but_lengthens_no_wait() -> None:
    policy = Retry(attempts=3, initial=2, jitter=0)
    assert delay_of(policy, ValueError(), attempt=2, failures=1, draw=0) == pytest.approx(2)
    assert delay_of(policy, ValueError(), attempt=3, failures=1, draw=0) is None
