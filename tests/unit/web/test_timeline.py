"""The waterfall: bars where they belong, long waits drawn short, nothing outside the picture."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from runs.models import JournalEntry, Step, Wait
from runs.tracing import Stretch
from runs.web import timeline, windows
from runs.web.timeline import Scale, Span

T = datetime(2025, 6, 11, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T + timedelta(seconds=seconds)


def step(
    node: str, start: float | None, end: float | None, status: str = "completed", **more: object
) -> Step:
    facts: dict[str, object] = {"branch": 1, "address": node, "visit": 1, **more}
    return Step(
        node=node,
        status=status,
        created_at=at(start or 0),
        started_at=None if start is None else at(start),
        ended_at=None if end is None else at(end),
        **facts,
    )


def wait(node: str, kind: str, start: float, end: float | None) -> Wait:
    closed = None if end is None else at(end)
    return Wait(branch=1, address=node, node=node, kind=kind, opened_at=at(start), closed_at=closed)


def spans(step: Step, *waits: Wait, now: float = 100) -> list[tuple[str, float, float]]:
    found = timeline.step_spans(step, waits, now=at(now))
    return [(span.kind, (span.start - T).total_seconds(), (span.end - T).total_seconds()) for span in found]


def build(
    *steps: Step, waits: list[Wait] | None = None, journal: list[JournalEntry] | None = None
) -> timeline.Timeline:
    return timeline.build(steps, waits or [], journal or [], now=at(100_000), line={1: None}, running=True)


def test_a_step_that_worked_is_one_bar() -> None:
    assert spans(step("a", 0, 5)) == [("work", 0, 5)]


def test_an_approval_is_work_then_people() -> None:
    assert spans(step("a", 0, None, "waiting"), wait("a", "approval", 1, None)) == [
        ("work", 0, 1),
        ("people", 1, 100),
    ]


def test_retries_are_failed_attempts_with_waits_between() -> None:
    found = spans(step("a", 0, 9), wait("a", "retry", 1, 3), wait("a", "retry", 4, 8))
    assert found == [("failed", 0, 1), ("retry", 1, 3), ("failed", 3, 4), ("retry", 4, 8), ("work", 8, 9)]


def test_a_step_that_nobody_took_yet_is_ready() -> None:
    assert spans(step("a", None, None, "ready"), now=7) == [("ready", 0, 7)]


def test_a_wait_of_a_day_does_not_flatten_the_work() -> None:
    scale = Scale(
        [
            Span("work", at(0), at(10)),
            Span("people", at(10), at(86_400)),
            Span("work", at(86_400), at(86_410)),
        ]
    )
    assert scale.percent(at(10)) > 20
    assert scale.percent(at(86_410)) == timeline.ROOM
    assert len(scale.short) == 1


def test_order_is_kept_whatever_is_drawn_short() -> None:
    scale = Scale(
        [Span("work", at(0), at(1)), Span("people", at(1), at(9_999)), Span("work", at(9_999), at(10_000))]
    )
    found = [scale.percent(at(second)) for second in (0, 0.5, 1, 5_000, 9_999, 10_000)]
    assert found == sorted(found)


def test_every_bar_lies_inside_the_picture() -> None:
    made = build(
        step("a", 0, 0.001), step("b", 0.001, None, "waiting"), waits=[wait("b", "approval", 0.002, None)]
    )
    for row in made.rows:
        for bar in row.bars:
            assert float(bar.x[:-1]) >= 0
            assert float(bar.x[:-1]) + float(bar.width[:-1]) <= 100.001


def test_the_row_that_waits_for_people_is_here() -> None:
    made = build(step("a", 0, 1), step("b", 1, None, "waiting"), waits=[wait("b", "approval", 2, None)])
    assert [row.here for row in made.rows] == [False, True]


def test_calls_stand_under_their_step_and_a_reused_one_says_so() -> None:
    entry = JournalEntry(
        branch=1,
        address="a",
        name="get",
        started_at=at(0.2),
        ended_at=at(0.8),
        reused_from=1,
        effect="none",
        result="1",
    )
    made = build(step("a", 0, 1), step("b", 1, 2), journal=[entry])
    assert [(row.name, row.kind, row.took) for row in made.rows] == [
        ("a", "step", "1.0 s"),
        ("get", "call", "from the journal"),
        ("b", "step", "1.0 s"),
    ]


def test_steps_of_a_branch_that_was_left_are_marked() -> None:
    made = timeline.build(
        [step("a", 0, 1), step("a", 5, 6, branch=2, address="x")],
        [],
        [],
        now=at(9),
        line={2: None, 1: 0},
        running=False,
    )
    assert [(row.void, row.note) for row in made.rows] == [(True, "left behind, branch 1"), (False, "")]


def test_no_step_makes_an_empty_picture() -> None:
    made = build()
    assert (made.rows, made.marks, made.now) == ([], [], None)


def strip(*tones: str, size: int = 200) -> list[Stretch]:
    """Stretches of a window each, of which some hold a step that failed or goes on."""
    return [
        Stretch(
            place * size + 1, (place + 1) * size, at(place), at(place + 1), tone == "failed", tone == "live"
        )
        for place, tone in enumerate(tones)
    ]


def windowed(first: int, *tones: str, true: bool = False) -> windows.Window:
    return windows.window(strip(*tones), first=first, shown=200, size=200, url="/t/", true_to_time=true)


def test_a_window_in_the_middle_leads_both_ways_and_to_the_newest() -> None:
    made = windowed(401, "done", "failed", "done", "done", "live")
    assert (made.first, made.last, made.every) == (401, 600, 1000)
    assert (made.earlier, made.later, made.newest) == ("/t/?from=201", "/t/?from=601", "/t/")
    assert [column.tone for column in made.columns] == ["done", "failed", "done", "done", "live"]
    assert [column.here for column in made.columns] == [False, False, True, False, False]
    assert made.columns[1].title == "steps 201 to 400, 1.0 s, 1 failed"


def test_the_newest_window_has_nothing_later_and_a_run_that_fits_has_no_strip() -> None:
    made = windowed(801, "done", "done", "done", "done", "done")
    assert (made.later, made.newest) == ("", "")
    assert windowed(1, "done").columns == []
    assert windows.window([], first=1, shown=0, size=200, url="/t/", true_to_time=False).every == 0


def test_a_scale_that_was_chosen_is_kept_on_the_way() -> None:
    made = windowed(401, "done", "done", "done", "done", true=True)
    assert made.earlier == "/t/?from=201&scale=true"
    assert made.scales == [
        ("Waits drawn short", "/t/?from=401", False),
        ("True to time", "/t/?from=401&scale=true", True),
    ]


def test_true_to_time_draws_a_long_wait_as_long_as_it_was() -> None:
    spans = [Span("work", at(0), at(10)), Span("people", at(10), at(990)), Span("work", at(990), at(1000))]
    scale = Scale(spans, true=True)
    assert scale.short == []
    assert scale.percent(at(500)) == timeline.ROOM / 2


def test_of_very_many_calls_of_one_step_the_rest_is_one_row() -> None:
    entries = [
        JournalEntry(branch=1, address="a", name=f"c{n}", started_at=at(n), ended_at=at(n + 1), result="1")
        for n in range(timeline.MOST_CALLS + 7)
    ]
    made = build(step("a", 0, 100), journal=entries)
    assert len(made.rows) == timeline.MOST_CALLS + 2
    assert (made.rows[-1].name, made.rows[-1].took) == ("7 more calls", "7.0 s")


# ---- lanes


def placed(*steps: Step, **order: int) -> list[tuple[str, int, int]]:
    """Node and, for an item, its number; lane mark; depth."""
    return [
        (place.step.node + place.step.lane.partition("#")[2], place.lane, place.depth)
        for place in timeline.arrange(steps, order)
    ]


def test_steps_of_one_lane_stand_together_in_the_order_of_the_split() -> None:
    steps = [
        step("start", 0, 1, lane="0"),
        step("x", 1, 2, lane="bb"),
        step("a", 1, 2, lane="aa"),
        step("a2", 3, 4, lane="aa"),
        step("x2", 2, 3, lane="bb"),
        step("J", 4, 5, lane="cc"),
    ]
    assert placed(*steps, a=1, x=2) == [
        ("start", 0, 0),
        ("a", 1, 0),
        ("a2", 1, 0),
        ("x", 2, 0),
        ("x2", 2, 0),
        ("J", 0, 0),
    ]


def test_items_and_nested_steps_stand_below_the_step_that_waits_for_them() -> None:
    steps = [
        step("fan", 0, 9, lane="0"),
        step("fan", 1, 2, lane="0#1", address="1"),
        step("fan", 1, 3, lane="0#0", address="0"),
        step("sub", 9, None, "waiting", lane="0"),
        step("sub/in", 9, 10, lane="0/0"),
        step("sub/deep/in", 10, 11, lane="0/0/0", address="d"),
        step("sub/deep", 10, None, "waiting", lane="0/0"),
    ]
    found = placed(*steps)
    assert found[:3] == [("fan", 0, 0), ("fan0", 0, 1), ("fan1", 0, 1)]
    assert found[3:] == [("sub", 0, 0), ("sub/in", 0, 1), ("sub/deep", 0, 1), ("sub/deep/in", 0, 2)]
    rows = build(*steps).rows
    assert [(row.name, row.depth) for row in rows[:4]] == [
        ("fan", 0),
        ("fan[0]", 1),
        ("fan[1]", 1),
        ("sub", 0),
    ]
    assert [row.name for row in rows[4:]] == ["in", "deep", "in"]
    assert rows[0].bars[0].kind == rows[3].bars[0].kind == "inside"
    assert not rows[3].here  # it does not ask anybody itself


def test_a_second_round_is_below_its_own_visit() -> None:
    steps = [
        step("fan", 0, 3, lane="0", address="f1"),
        step("fan", 1, 2, lane="0#0", address="i1"),
        step("fan", 3, 6, lane="0", address="f2", visit=2),
        step("fan", 4, 5, lane="0#0", address="i2", visit=2),
    ]
    found = [place.step.address for place in timeline.arrange(steps, {})]
    assert found == ["f1", "i1", "f2", "i2"]


def test_lanes_of_another_branch_are_lanes_of_their_own() -> None:
    steps = [step(node, 1, 2, lane=node, address=node) for node in "ab"]
    again = [step(node, 5, 6, lane=node, address=node, branch=2) for node in "ab"]
    assert [(p.step.branch, p.lane) for p in timeline.arrange([*steps, *again], {})] == [
        (1, 1),
        (1, 2),
        (2, 1),
        (2, 2),
    ]


def test_what_is_inside_a_step_that_is_not_drawn_stands_by_itself() -> None:
    assert placed(step("fan", 1, 2, lane="0#4")) == [("fan4", 0, 0)]
