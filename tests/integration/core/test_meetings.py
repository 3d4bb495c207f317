"""Where lanes, waits and what is inside a step meet: in items, in nested workflows, in loops, under failing and steering."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runs import operations, workflows
from runs.engine import END, START, Action, Child, Question, Retry, Signal, Timer, Workflow
from runs.errors import NothingToRun
from runs.models import Approval, Event, Run, Step, Usage, Wait
from runs.operations import parking
from tests.integration.core.conftest import (
    House,
    by_sql,
    error_of,
    history_is_whole,
    open_approval,
    state_of,
)
from tests.integration.core.test_children import inner, parked_child, work
from tests.integration.core.test_signalling import send
from tests.integration.core.test_sleeping import pass_time

Define = Callable[..., Workflow]
FINANCE = {"reviewers": ["finance"]}
pytestmark = pytest.mark.usefixtures("short_lease")


@pytest.fixture(autouse=True)
def nothing_left_over(house: House) -> Any:
    """I2 and I7 at the end of every test here."""
    yield
    for run in Run.objects.all():
        assert history_is_whole(run), run.workflow
        seqs = list(Event.objects.filter(run=run).order_by("seq").values_list("seq", flat=True))
        assert seqs == list(range(1, run.seq + 1))
        if run.is_terminal:
            assert not Approval.objects.filter(run=run, status="open").exists(), run.workflow
            assert not Wait.objects.filter(run=run, closed_at=None).exists(), run.workflow
            live = Step.objects.filter(run=run, status__in=("ready", "executing", "waiting"))
            assert not live.exists(), (run.workflow, run.status, list(live.values("node", "status")))
            assert not Step.objects.filter(run=run).exclude(token=None).exists()


def test_items_that_wait_hold_no_slot(house: House, define: Define) -> None:
    flow = define("many")

    def item(state: Any, ctx: Any, item: Any) -> Any:
        ctx.sleep("1h")
        got = ctx.wait_signal(f"s{item}", timeout="1h")
        return [item, got.payload]

    flow.fan_out("log", item, items=lambda state: [0, 1, 2], concurrency=1)
    workflows.register(flow)
    run = house.work(house.submit("many"))
    assert [w["kind"] for w in run.waiting_for] == ["timer"] * 3
    pass_time(run)
    house.sweep()
    run = house.work(run)
    assert [w["kind"] for w in run.waiting_for] == ["signal"] * 3
    for n in (2, 0):
        send(house, run, f"s{n}", payload=n)
    house.work(run)
    pass_time(run)
    house.sweep()
    run = house.work(run)
    assert (run.status, state_of(run)["log"]) == ("completed", [[0, 0], [1, None], [2, 2]])


def test_max_open_bounds_items_that_sleep(house: House, define: Define) -> None:
    flow = define("many")

    def nap(state: Any, ctx: Any, item: Any) -> None:
        ctx.sleep("1h")

    flow.fan_out("log", nap, items=lambda state: [0, 1, 2, 3], concurrency=4, max_open=3)
    workflows.register(flow)
    run = house.work(house.submit("many"))
    assert len(run.waiting_for) == 3
    pass_time(run)
    house.sweep()
    run = house.work(run)
    assert len(run.waiting_for) == 1
    pass_time(run)
    house.sweep()
    run = house.work(run)
    assert run.status == "completed"


def test_a_loop_that_asks_counts_its_passes_over_waits(house: House, define: Define) -> None:
    """C79."""
    flow = define("loop")

    @flow.node(loop_limit=3)
    def again(state: Any, ctx: Any) -> dict[str, Any]:
        ctx.sleep("1h")
        answer = ctx.ask(Action("more", {"n": len(state.log)}), **FINANCE)
        return {"log": [*state.log, answer.outcome]}

    flow.choose("again", lambda state: "again", to=["again", END], limit=END)
    workflows.register(flow)
    run = house.work(house.submit("loop"))
    for _ in range(3):
        pass_time(run)
        house.sweep()
        house.work(run)
        house.answer(open_approval(run), "approve")
        run = house.work(run)
    assert (run.status, state_of(run)["log"]) == ("completed", ["approve"] * 3)


def lanes(define: Define, left: Any, right: Any, **how: Any) -> Workflow:
    flow = define("lanes", **how)
    flow.node(name="left", retry=Retry(attempts=1))(left)
    flow.node(name="right", retry=Retry(attempts=1))(right)
    flow.edge(START, "left")
    flow.edge(START, "right")
    workflows.register(flow)
    return flow


WAITS: dict[str, Callable[[Any], Any]] = {
    "sleep": lambda ctx: ctx.sleep("1h"),
    "signal": lambda ctx: ctx.wait_signal("paid", timeout="1h"),
    "ask": lambda ctx: ctx.ask(Action("pay"), **FINANCE),
    "child": lambda ctx: ctx.run_child("inner"),
    "first": lambda ctx: ctx.first_of(
        sure=Question(Action("pay"), ["finance"]), child=Child("inner"), paid=Signal("paid"), late=Timer("1h")
    ),
}


@pytest.mark.parametrize("kind", WAITS)
def test_a_lane_that_fails_closes_what_its_sibling_waits_for_and_a_retry_waits_again(
    house: House, define: Define, kind: str
) -> None:
    broken = [True]
    made: list[int] = []
    parked_child(define)

    def left(state: Any, ctx: Any) -> Any:
        ctx.call(made.append, 1, name="once")
        WAITS[kind](ctx)
        return {"log": ["left"]}

    def right(state: Any, ctx: Any) -> Any:
        ctx.wait_signal("go")
        if broken:
            raise RuntimeError("out of tea")
        return {"x": "right"}

    lanes(define, left, right)
    run = house.work(house.submit("lanes"))
    before = {wait.kind: wait.due_at for wait in Wait.objects.filter(run=run, node="left")}
    send(house, run, "go")
    run = house.work(run)
    assert (run.status, error_of(run)["step"]) == ("failed", "right")
    assert not Wait.objects.filter(run=run, closed_at=None).exists()
    broken.clear()
    operations.retry(actor=house.olga, run_id=run.pk)
    run = house.work(run)
    assert run.status == "waiting", run.error
    assert {
        wait.kind: wait.due_at for wait in Wait.objects.filter(run=run, node="left", closed_at=None)
    } == before | {kind: None for kind in before if before[kind] is None}
    if kind == "ask":
        house.answer(open_approval(run), "approve")
    elif kind == "child":
        work(house)
        house.answer(Approval.objects.get(status="open"), "approve")
    else:
        pass_time(run)
    work(house, run)
    assert (run.status, state_of(run)["log"], state_of(run)["x"]) == ("completed", ["left"], "right"), (
        run.error
    )
    assert made == [1]
    work(house)
    assert not Run.objects.filter(parent=run, finished_at=None).exists()


@pytest.mark.parametrize("kind", WAITS)
def test_a_rewind_to_any_checkpoint_waits_again_in_both_lanes(
    house: House, define: Define, kind: str
) -> None:
    parked_child(define)

    def left(state: Any, ctx: Any) -> Any:
        WAITS[kind](ctx)
        return {"log": ["left"]}

    def right(state: Any, ctx: Any) -> Any:
        return {"x": ctx.wait_signal("go").payload}

    lanes(define, left, right)
    run = house.work(house.submit("lanes"))

    def finish() -> None:
        run.refresh_from_db()
        if kind == "ask":
            if approval := Approval.objects.filter(run=run, status="open").first():
                house.answer(approval, "approve")
        elif kind == "child":
            work(house)
            if approval := Approval.objects.filter(status="open").first():
                house.answer(approval, "approve")
        elif Wait.objects.filter(run=run, node="left", closed_at=None).exists():
            pass_time(run)
        work(house, run)

    finish()
    send(house, run, "go", payload=1)
    work(house, run)
    assert run.status == "completed"
    last = run.head
    for checkpoint in range(last):
        try:
            operations.preview_rewind(actor=house.olga, run_id=run.pk, checkpoint=checkpoint)
        except NothingToRun:
            continue
        operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=checkpoint, reason="again")
        run = house.work(run)
        finish()
        assert (run.status, state_of(run)["log"], state_of(run)["x"]) == ("completed", ["left"], 1), (
            checkpoint,
            run.waiting_for,
        )


@pytest.mark.parametrize("kind", WAITS)
def test_an_edit_of_one_lane_leaves_what_the_other_waits_for(house: House, define: Define, kind: str) -> None:
    parked_child(define)
    lanes(
        define,
        lambda state, ctx: [WAITS[kind](ctx), {"log": ["left"]}][1],
        lambda state, ctx: {"x": [state.x, ctx.wait_signal("go").payload]},
    )
    run = house.work(house.submit("lanes", x=1))
    before = list(
        Wait.objects.filter(run=run, node="left", closed_at=None).order_by("id").values_list("pk", flat=True)
    )
    lane = Step.objects.get(run=run, node="right").lane
    operations.edit_state(
        actor=house.olga, run_id=run.pk, version=run.version, changes={"x": 2}, reason="other", lane=lane
    )
    run = house.work(run)
    assert before == list(
        Wait.objects.filter(run=run, node="left", closed_at=None).order_by("id").values_list("pk", flat=True)
    )
    send(house, run, "go", payload=3)
    run = house.work(run)
    assert state_of(run)["x"] == [2, 3]
    operations.cancel(actor=house.olga, run_id=run.pk)
    work(house)
    assert not Run.objects.filter(finished_at=None).exists()


@pytest.mark.parametrize("kind", WAITS)
def test_what_a_nested_workflow_waits_for_ends_when_its_failure_is_caught(
    house: House, define: Define, kind: str
) -> None:
    parked_child(define)
    nested = define("nested")
    nested.node(name="waits")(lambda state, ctx: [WAITS[kind](ctx), None][1])

    def fails(state: Any, ctx: Any) -> None:
        ctx.wait_signal("go")
        raise RuntimeError("out of tea")

    nested.node(name="fails", retry=Retry(attempts=1))(fails)
    nested.edge(START, "waits")
    nested.edge(START, "fails")
    flow = define("around")
    flow.subflow("sub", nested)
    flow.node(name="console")(lambda state, ctx: {"log": [ctx.failure("sub")["message"]]})
    flow.edge(START, "sub")
    flow.on_error("sub", "console")
    workflows.register(flow)
    run = house.work(house.submit("around"))
    send(house, run, "go")
    work(house, run)
    assert (run.status, state_of(run)["log"]) == ("completed", ["out of tea"]), run.error
    work(house)
    assert not Run.objects.filter(parent=run, finished_at=None).exists()


@pytest.mark.parametrize("end", ["cancelled", "rewound", "failed", "deadline"])
def test_a_child_that_sleeps_while_its_parent_ends(house: House, define: Define, end: str) -> None:
    inner(define, lambda state, ctx: [ctx.sleep("1h"), {"x": 5}][1])
    broken = [True]

    def right(state: Any, ctx: Any) -> Any:
        ctx.wait_signal("go")
        if broken:
            raise RuntimeError("out of tea")
        return {}

    lanes(define, lambda state, ctx: {"log": [ctx.run_child("inner")["x"]]}, right, deadline="1h")
    run = house.submit("lanes")
    work(house, run)
    child = Run.objects.get(parent=run)
    assert (run.status, child.status) == ("waiting", "waiting")
    if end == "cancelled":
        operations.cancel(actor=house.olga, run_id=run.pk)
    elif end == "rewound":
        operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="again")
    elif end == "failed":
        send(house, run, "go")
    else:
        by_sql("UPDATE runs_run SET deadline_at = now() WHERE id = %s", run.pk)
    work(house, run)
    child.refresh_from_db()
    expected = {
        "cancelled": ("cancelled", "cancelled"),
        "rewound": ("waiting", "cancelled"),
        "failed": ("failed", "waiting"),
        "deadline": ("failed", "waiting"),
    }
    assert (run.status, child.status) == expected[end]
    if end == "cancelled":
        return
    broken.clear()
    if run.status == "failed":
        operations.retry(actor=house.olga, run_id=run.pk)
        work(house, run)
    for one in Run.objects.filter(parent=run, status="waiting"):
        pass_time(one)
    if end != "failed":
        send(house, run, "go")
    work(house, run)
    assert (run.status, state_of(run)["log"]) == ("completed", [5]), run.waiting_for
    assert Run.objects.filter(parent=run).count() == (2 if end == "rewound" else 1)


@pytest.mark.parametrize(
    ("kind", "runs"), [("sleep", True), ("signal", True), ("ask", False), ("first", False), ("child", True)]
)
def test_the_clock_of_a_run_by_what_its_body_waits_for(
    house: House, define: Define, kind: str, runs: bool
) -> None:
    parked_child(define)
    flow = define("timed", deadline="2h")
    flow.node(name="only")(lambda state, ctx: [WAITS[kind](ctx), None][1])
    workflows.register(flow)
    run = house.work(house.submit("timed"))
    assert (run.deadline_at is not None) is runs
    assert (run.time_left is not None) is not runs
    operations.cancel(actor=house.olga, run_id=run.pk)
    work(house)


def test_a_timer_beside_a_decision_is_fired_without_losing_the_clock(house: House, define: Define) -> None:
    """The batch that fires timers does not see people; a lane that asks keeps the clock standing, one that sleeps does not."""
    lanes(
        define,
        lambda state, ctx: [ctx.sleep("1h"), None][1],
        lambda state, ctx: [ctx.ask(Action("pay"), **FINANCE), ctx.sleep("1h"), None][2],
        deadline="5h",
    )
    run = house.work(house.submit("lanes"))
    assert run.deadline_at is None
    house.answer(open_approval(run), "approve")
    run = house.work(run)
    assert (run.status, run.time_left) == ("waiting", None)
    assert run.deadline_at is not None
    pass_time(run)
    house.sweep()
    run = house.work(run)
    assert run.status == "completed"


def test_usage_of_calls_made_at_once_counts_once_though_one_fails(house: House, define: Define) -> None:
    flow = define("paid")

    def ask_model(n: int, ctx: Any, attempt: int) -> int:
        ctx.usage(model_tokens_in=10**n, cost="0.01")
        if n == 1 and attempt == 1:
            raise OSError
        return n

    @flow.node(retry=Retry(attempts=2, initial=60))
    def only(state: Any, ctx: Any) -> Any:
        calls = [
            ctx.later(lambda n=n: ask_model(n, ctx, ctx.attempt), name="model", key=str(n)) for n in range(3)
        ]
        found = ctx.gather(*calls)
        ctx.wait_signal("go")
        return {"log": found}

    workflows.register(flow)
    run = house.work(house.submit("paid"))
    pass_time(run)
    house.sweep()
    run = house.work(run)
    send(house, run, "go")
    run = house.work(run)
    assert (run.status, state_of(run)["log"]) == ("completed", [0, 1, 2])
    assert sum(Usage.objects.filter(run=run).values_list("model_tokens_in", flat=True)) == 1 + 10 + 10 + 100


def test_a_run_that_starts_itself_is_stopped_with_a_clear_error(
    house: House, define: Define, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parking, "MAX_DEPTH", 3)
    flow = define("self")
    flow.node(name="only", retry=Retry(attempts=1))(lambda state, ctx: ctx.run_child("self"))
    workflows.register(flow)
    run = house.submit("self")
    for _ in range(3):  # one level a round
        for step in Step.objects.filter(status="ready"):
            operations.advance(run_id=step.run_id, branch=step.branch, address=step.address)
    assert not Step.objects.filter(status="ready", run__parent__parent__isnull=False).exists()
    work(house, run)
    deepest = Run.objects.get(parent__parent=run)
    assert (error_of(deepest)["code"], error_of(deepest)["limit"]) == ("too_many_children", 3)
    assert (run.status, error_of(run)["code"]) == ("failed", "child_failed")
    assert Run.objects.count() == 3


def test_a_tree_of_runs_is_bounded_in_breadth(
    house: House, define: Define, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parking, "MAX_TREE", 2)
    inner(define, lambda state, ctx: {"x": state.x})
    flow = define("wide")

    def item(state: Any, ctx: Any, item: Any) -> Any:
        return ctx.run_child("inner", {"x": item})["x"]

    flow.fan_out("log", item, items=lambda state: [0, 1, 2], on_item_error="collect", retry=Retry(attempts=1))
    workflows.register(flow)
    run = house.submit("wide")
    work(house, run)
    assert [one if isinstance(one, int) else one["error"]["code"] for one in state_of(run)["log"]] == [
        0,
        1,
        "too_many_children",
    ]


def test_draining_opens_nothing(house: House, define: Define) -> None:
    """A step that comes to its wait while the run fails already asks nobody and starts no child."""
    parked_child(define)
    run: Any = None

    def left(state: Any, ctx: Any) -> Any:
        if not ctx.call(lambda: 1, name="x"):
            return None
        step = Step.objects.get(run=run, node="right")
        operations.advance(run_id=run.pk, branch=1, address=step.address)
        return WAITS["first"](ctx)

    def right(state: Any, ctx: Any) -> Any:
        raise RuntimeError("out of tea")

    lanes(define, left, right)
    run = house.submit("lanes")
    left_step = Step.objects.get(run=run, node="left")
    operations.advance(run_id=run.pk, branch=1, address=left_step.address)
    run = house.work(run)
    assert run.status == "failed"
    assert not Approval.objects.filter(run=run).exists()
    assert not Run.objects.filter(parent=run).exists()
