"""Limits as authors declare them, and the order in which runs that stand in line are let in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from pydantic import BaseModel

from runs.engine import Concurrency, Rate, Workflow
from runs.engine.limits import Head, Place, places, room, turns
from runs.errors import InvalidLimitKey, Unprocessable, WorkflowError

T0 = datetime(2026, 1, 1, tzinfo=UTC)


class Order(BaseModel):
    customer: str
    rush: bool = False


def workflow(**options: Any) -> Workflow:
    flow = Workflow("order", state=Order, **options)
    flow.node(name="a")(lambda state, ctx: None)
    return flow


# ---- what authors declare


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"queue": "two words"}, "queue="),
        ({"priority": 101}, "-100 to 100"),
        ({"priority": True}, "-100 to 100"),
        ({"max_concurrent_runs": 0}, "'max_concurrent_runs' is no whole number"),
        ({"limits": [Concurrency(1), Concurrency(2)]}, "two limits are named 'concurrency'"),
        ({"limits": [Concurrency(1, name="project")]}, "cannot name a limit"),
        ({"limits": [Concurrency(1, key="customer")]}, "no function of the input"),  # type: ignore[arg-type]
        ({"limits": [Concurrency(1, holds="ever")]}, "is work or run"),  # type: ignore[arg-type]
        ({"limits": [Rate(10, per="soon")]}, "is no duration"),
        ({"limits": [Rate(10, per="2d")]}, "is a day at most"),
        ({"limits": [5]}, "takes Concurrency and Rate"),
    ],
)
def test_what_cannot_be_is_refused_at_registration(options: dict[str, Any], says: str) -> None:
    with pytest.raises(WorkflowError, match=says):
        workflow(**options).validate()


def test_a_key_sees_the_input_with_its_defaults_and_may_leave_a_run_out() -> None:
    flow = workflow(
        max_concurrent_runs=9,
        limits=[
            Concurrency(2, key=lambda order: order.customer, holds="run"),
            Rate(5, per="30s", key=lambda order: "rush" if order.rush else None),
        ],
    )
    flow.validate()
    assert flow.places({"customer": "acme"}) == [
        Place("max_concurrent_runs", "", 9),
        Place("concurrency", "acme", 2, whole=True),
    ]
    assert flow.places({"customer": "acme", "rush": True})[2] == Place("rate", "rush", 5, per=30.0)
    with pytest.raises(Unprocessable):
        flow.places({})


@pytest.mark.parametrize(
    "key", [lambda order: 5, lambda order: "", lambda order: "x" * 201, lambda order: order.no]
)
def test_a_key_that_is_no_text_is_refused(key: Any) -> None:
    with pytest.raises(InvalidLimitKey):
        places([Concurrency(1, key=key)], Order(customer="acme"))


def test_limits_are_no_part_of_the_graph() -> None:
    """They may be changed without a new version."""
    assert workflow().fingerprint == workflow(max_concurrent_runs=3, priority=5, queue="gpu").fingerprint


# ---- room


@given(some.integers(1, 50), some.integers(0, 100))
def test_a_limit_that_was_lowered_lets_nobody_in(most: int, taken: int) -> None:
    assert 0 <= room(most, taken) <= most
    assert (room(most, taken) > 0) == (taken < most)


# ---- the order


def head(number: int, **told: Any) -> Head:
    line = told.pop("line", "")
    project = told.pop("project", "p")
    return Head(
        number, project, line or project, told.pop("priority", 0), T0 + timedelta(seconds=number), **told
    )


def order(heads: Sequence[Head], room: int = 100, **told: Any) -> list[int]:
    told.setdefault("busy", {})
    told.setdefault("draw", hash)
    return [chosen.run for chosen in turns(heads, room=room, **told)]


def test_the_higher_priority_first_then_the_older() -> None:
    heads = [head(1), head(2, priority=5), head(3), head(4, priority=5), head(5, priority=-1)]
    assert order(heads) == [2, 4, 1, 3, 5]


def test_a_projects_priorities_take_nothing_from_another() -> None:
    """Ten thousand old and urgent runs of one project, one new run of another: that is among the first two."""
    many = [head(number, project="many", priority=100, nth=number) for number in range(32)]
    chosen = order([*many, head(99_999, project="few")], room=16)
    assert 99_999 in chosen[:2]


def test_who_has_least_at_work_is_next() -> None:
    heads = [
        head(1, project="a", nth=0),
        head(2, project="a", nth=1),
        head(3, project="b"),
        head(4, project="c"),
    ]
    assert order(heads, room=1, busy={"a": 1, "b": 1}) == [4]
    assert order(heads, room=2, busy={"a": 3, "b": 1, "c": 2}) == [3, 4]


def test_nothing_at_work_gets_in_without_room() -> None:
    """Others' long runs fill the room again and again; one run of a project is let in nevertheless, and no more."""
    heads = [head(1, project="a"), head(2, project="b", nth=0), head(3, project="b", nth=1)]
    assert order(heads, room=-3, busy={"a": 20}) == [2]


def test_urgent_runs_have_some_places_of_their_own() -> None:
    heads = [head(1), head(2, priority=1), head(3, priority=1)]
    assert order(heads, room=0, spare=1, busy={"p": 20}) == [2]


def test_keys_take_turns_within_a_priority() -> None:
    acme = [head(number, line="acme", nth=number) for number in range(4)]
    zeta = [head(10 + number, line="zeta", nth=number) for number in range(2)]
    assert order([*acme, *zeta]) == [0, 10, 1, 11, 2, 3]
    busy = [Head(h.run, h.project, h.line, 0, h.since, h.nth, used=3) for h in acme]
    assert order([*busy, *zeta])[:2] == [10, 11]


def test_a_line_gets_no_more_than_is_free_for_it() -> None:
    heads = [head(number, line="acme", nth=number, free=2) for number in range(5)]
    assert order([*heads, head(9)]) == [0, 9, 1]


@given(some.data())
def test_the_order_is_fair_whatever_stands_in_line(data: some.DataObject) -> None:
    projects = ["a", "b", "c", "d"]
    heads = [
        head(
            number,
            project=(project := data.draw(some.sampled_from(projects))),
            line=f"{project}{data.draw(some.integers(0, 2))}",
            priority=data.draw(some.integers(-2, 2)),
            free=3,
        )
        for number in range(data.draw(some.integers(0, 40)))
    ]
    busy = {project: data.draw(some.integers(0, 5)) for project in projects}
    places = data.draw(some.integers(-2, 12))
    chosen = turns(heads, busy=busy, room=places, draw=lambda project: projects.index(str(project)))
    assert len({one.run for one in chosen}) == len(chosen)
    assert max(Counter(one.line for one in chosen).values(), default=0) <= 3
    given_to = Counter(one.project for one in chosen)
    assert len(chosen) <= max(places, 0) + sum(1 for project in projects if busy[project] == 0)
    load = {project: busy[project] + given_to[project] for project in projects}
    for project in projects:
        # Who could have had one more is behind nobody that was given something.
        left = Counter(one.line for one in heads if one.project == project)
        could = sum(min(3, count) for count in left.values()) > given_to[project]
        if could:
            assert all(load[str(other)] <= load[project] + 1 for other in given_to)
