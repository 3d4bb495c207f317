"""The state of a run as a sentence: who, since when, until when, what then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from runs.models import Approval, Run, Step, Wait
from runs.queries import DIED, VOTES, Standing
from runs.store import Use
from runs.web import sentence

NOW = datetime(2025, 6, 11, 14, 20, tzinfo=UTC)


def ago(**length: float) -> datetime:
    return NOW - timedelta(**length)


def run(status: str, **facts: Any) -> Run:
    return Run(
        workflow="w", status=status, **{"created_at": ago(hours=5), "updated_at": ago(seconds=4), **facts}
    )


def asking(**facts: Any) -> Approval:
    told = {
        "teams": ["finance"],
        "opened_at": ago(hours=3),
        "due_at": NOW + timedelta(hours=21),
        "options": {"on_timeout": "reject"},
    }
    return Approval(**{**told, **facts})


def say(run: Run, **live: Any) -> str:
    return sentence.of_run(run, now=NOW, **live).whole


def test_waiting_names_the_people_the_time_and_what_follows() -> None:
    assert (
        say(run("waiting"), approvals=[asking()])
        == "Waiting for finance since 3 h, due in 21 h, then rejected"
    )


def test_waiting_without_a_due_time_or_a_team() -> None:
    assert (
        say(run("waiting"), approvals=[asking(due_at=None, teams=[], options={})])
        == "Waiting for any reviewer since 3 h"
    )


def test_more_than_one_question_names_the_first_due() -> None:
    other = asking(teams=["security"], due_at=NOW + timedelta(minutes=38))
    assert say(run("waiting"), approvals=[asking(), other]) == (
        "Waiting for security since 3 h, due in 38 min, then rejected; 1 more approval open"
    )


def test_a_retry_says_when_which_attempt_and_why() -> None:
    step = Step(node="pay", address="a", status="waiting", failures=2, error={"message": "503 from shop"})
    wait = Wait(node="pay", address="a", kind="retry", due_at=NOW + timedelta(seconds=40))
    assert say(run("waiting"), steps=[step], waits=[wait]) == "Tries pay in 40 s, attempt 3: 503 from shop"


def test_a_run_that_works_in_several_lanes_says_how_many_and_names_the_silent_one() -> None:
    steps = [
        Step(
            node=node, status="executing", entered_at=ago(seconds=3), lease_until=NOW + timedelta(seconds=20)
        )
        for node in ("search", "read", "draft")
    ]
    assert say(run("running"), steps=steps) == "Working on search since 3 s; 2 more steps beside it"
    steps[1].lease_until = ago(seconds=30)
    assert say(run("running"), steps=steps).startswith("Stalled at read:")


def test_running_says_at_what() -> None:
    step = Step(
        node="pay",
        status="executing",
        entered_at=ago(seconds=3),
        lease_until=NOW + timedelta(seconds=20),
    )
    assert say(run("running"), steps=[step]) == "Working on pay since 3 s"


def test_a_dead_worker_is_told_with_when_another_takes_over() -> None:
    step = Step(
        node="pay", status="executing", created_at=ago(minutes=2), lease_until=NOW + timedelta(seconds=12)
    )
    setattr(step, DIED, ago(seconds=40).isoformat())
    assert (
        say(run("running"), steps=[step])
        == "Stalled at pay for 40 s: its worker died, another takes over within 12 s"
    )


def test_of_several_votes_that_are_needed_it_says_how_many_are_in() -> None:
    asked = asking(quorum=2)
    setattr(asked, VOTES, 1)
    assert say(run("waiting"), approvals=[asked]).startswith("Waiting for finance (1 of 2) since 3 h")


def test_a_silent_worker_is_a_stall() -> None:
    step = Step(node="pay", status="executing", entered_at=ago(minutes=2), lease_until=ago(seconds=40))
    found = sentence.of_run(run("running"), now=NOW, steps=[step])
    assert (found.sign.word, found.text) == (
        "Stalled",
        "pay: its worker is silent since 40 s, another takes over",
    )


def test_ends_say_how() -> None:
    assert say(run("completed", finished_at=ago(minutes=5))) == "Completed after 4 h 55 min, 5 min ago"
    failed = run("failed", finished_at=ago(minutes=5), error={"step": "pay", "message": "amount differs"})
    assert say(failed) == "Failed at pay: amount differs"
    assert say(run("cancelled", finished_at=ago(minutes=6))) == "Cancelled 6 min ago"
    assert say(run("queued")) == "Queued since 4 s, a worker takes it next"


def test_the_share_of_the_time_that_is_over() -> None:
    assert sentence.share(asking(), NOW) == 12
    assert sentence.share(asking(due_at=ago(hours=1)), NOW) == 100
    assert sentence.share(asking(due_at=None), NOW) is None


# ---- in line


def in_line() -> Run:
    return run("queued", admitted_at=None)


def standing(before: int, *uses: Use) -> dict[str, Any]:
    return {"standing": Standing(before, list(uses))}


def test_a_run_in_line_names_the_limit_that_is_full_and_who_comes_before_it() -> None:
    free = Use("w", "max_concurrent_runs", "", 9, None, 3)
    full = Use("w", "concurrency", "acme", 5, None, 5)
    assert say(in_line(), **standing(12, free, full)) == (
        "In line for a slot of the limit concurrency for acme: 5 of 5 in use, since 4 s; 12 before it"
    )
    project = Use("", "project", "", 2, None, 2)
    assert say(in_line(), **standing(0, project)) == (
        "In line for a slot of the project: 2 of 2 in use, since 4 s; 0 before it"
    )


def test_a_rate_says_when_the_next_one_starts() -> None:
    rate = Use("w", "rate", "", 100, 60.0, 100, NOW + timedelta(seconds=20))
    assert say(in_line(), **standing(3, rate)) == (
        "In line for the limit rate: 100 of 100 started within 1 min, the next in 20 s, since 4 s; 3 before it"
    )


def test_a_run_without_a_full_limit_waits_for_its_turn() -> None:
    assert say(in_line(), **standing(1_000)) == "In line for its turn, since 4 s; 1,000+ before it"
    assert say(in_line()) == "In line since 4 s"
