"""A played run that is paused and goes on, and that takes back its calls before it is cancelled or has failed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from runs.engine import Action, Retry, Workflow
from runs.errors import AlreadyTerminal, Compensated, Compensating, InvalidCall, PausedAbove
from runs.testing import Crash, play
from runs.testing.crashing import BOUNDARIES
from tests.unit.testing.flows import State

DONE: list[tuple[str, str, str]] = []
TROUBLE: list[Exception] = []


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    yield
    DONE.clear()
    TROUBLE.clear()


def book(what: str, *, idempotency_key: str) -> dict[str, str]:
    DONE.append(("book", what, idempotency_key))
    return {"receipt": what}


def unbook(receipt: dict[str, str], what: str, *, idempotency_key: str, ctx: Any) -> None:
    ctx.log("taken back", what=what)
    if TROUBLE:
        raise TROUBLE.pop()
    DONE.append(("unbook", what, idempotency_key))


def done() -> list[tuple[str, str]]:
    return [(verb, what) for verb, what, _ in DONE]


def trip(*, fails: bool = False, attempts: int = 2, **options: Any) -> Workflow:
    flow = Workflow(
        "trip", state=State, undo_retry=Retry(attempts=attempts, initial=60.0, jitter=0), **options
    )

    def booking(what: str) -> Any:
        return lambda state, ctx: ctx.call(book, what, undo=unbook, idempotency_key=True) and None

    flow.node(name="flight")(booking("flight"))
    flow.node(name="hotel")(booking("hotel"))
    flow.approval(name="sure")(lambda state, ctx: Action("pay"))

    @flow.node
    def pay(state: Any, ctx: Any) -> None:
        if fails:
            raise ValueError("out of stock")

    for before, after in (("flight", "hotel"), ("hotel", "sure"), ("sure", pay)):
        flow.edge(before, after)
    return flow


def test_a_cancelled_play_takes_back_its_calls_the_newest_first() -> None:
    played = play(trip()).cancel(reason="too dear")
    assert done() == [("book", "flight"), ("book", "hotel"), ("unbook", "hotel"), ("unbook", "flight")]
    assert (played.status, played.error) == ("cancelled", None)
    assert played.kinds[-4:] == ["run_cancelling", "call_undone", "call_undone", "run_cancelled"]
    assert [call.taken_back for call in played.calls] == ["completed", "completed"]
    assert [line.facts for line in played.log] == [{"what": "hotel"}, {"what": "flight"}]
    played.verify()
    with pytest.raises(Compensated):
        played.rewind(1)
    played.rewind(0)
    assert len({key for verb, _, key in DONE if verb == "book"}) == 4
    assert played.status == "waiting"


@pytest.mark.parametrize("at", BOUNDARIES)
@pytest.mark.parametrize("node", ["hotel", "flight"])
def test_a_crash_while_it_takes_back_takes_back_once(at: Any, node: str) -> None:
    """What was made and not committed is made again with the same key; the rest once."""
    played = play(trip())
    played.worker.crashes.append(Crash(at, node))
    played.cancel()
    assert played.status == "cancelled"
    assert len({key for _, _, key in DONE}) == 4
    assert len(DONE) == 5 if at == "after_call" else 4
    played.verify()


def test_what_cannot_be_taken_back_is_listed_and_the_rest_is_done() -> None:
    TROUBLE.extend([OSError("down"), OSError("down")])
    played = play(trip()).cancel()
    assert done()[2:] == [("unbook", "flight")]
    assert played.error["compensation_failed"] == [
        {"step": "hotel", "call": "book", "code": "node_error", "message": "down"}
    ]
    assert [call.taken_back for call in played.calls] == ["completed", "failed"]


def test_a_play_that_fails_takes_back_if_its_workflow_says_so() -> None:
    played = play(trip(fails=True, compensate=True), decisions={"sure": "approve"})
    assert (played.status, played.error["message"]) == ("failed", "out of stock")
    assert done()[2:] == [("unbook", "hotel"), ("unbook", "flight")]
    with pytest.raises(Compensated):
        played.retry()
    DONE.clear()
    assert play(trip(fails=True), decisions={"sure": "approve"}).status == "failed"
    assert [verb for verb, _ in done()] == ["book", "book"]


def test_while_it_takes_back_nothing_else_is_done_and_a_person_may_end_it() -> None:
    TROUBLE.append(OSError("down"))
    played = play(trip(), jumps=False).cancel()
    assert played.status == "cancelling"
    with pytest.raises(Compensating):
        played.pause()
    with pytest.raises(Compensating):
        played.rewind(0)
    with pytest.raises(Compensating):
        played.edit_state({"x": 1})
    assert played.cancel(compensate=False).status == "cancelled"
    assert len(played.error["compensation_failed"]) == 2


def test_a_play_that_is_paused_stands_still_and_goes_on() -> None:
    flow = Workflow("line", state=State)
    flow.node(name="one")(lambda state, ctx: ctx.sleep(60))
    flow.approval(name="sure")(lambda state, ctx: Action("pay"))
    flow.edge("one", "sure")
    played = play(flow, jumps=False).pause(reason="look")
    assert played.advance_time("2m").status == "paused"
    assert [step.status for step in played.steps] == ["ready"]
    assert played.resume().status == "waiting"
    assert played.pause().decide("sure").status == "completed", "nothing was left to run"
    assert [kind for kind in played.kinds if kind.startswith("run_")][1:3] == ["run_paused", "run_resumed"]
    with pytest.raises(AlreadyTerminal):
        played.pause()


def test_a_tree_is_paused_and_goes_on_together() -> None:
    inner = Workflow("inner", state=State)
    inner.approval(name="sure")(lambda state, ctx: Action("pay"))
    outer = Workflow("outer", state=State)
    outer.node(name="only")(lambda state, ctx: ctx.run_child("inner", {}) and None)
    played = play(outer, children=[inner]).pause(children=True)
    child = played.children[0]
    assert child.status == "paused"
    with pytest.raises(PausedAbove):
        child.resume()
    played.resume()
    assert child.status == "waiting"


def test_an_undo_that_another_process_would_not_find_is_refused() -> None:
    flow = Workflow("odd", state=State)
    flow.node(name="only")(lambda state, ctx: ctx.call(str, 1, undo=lambda receipt: None))
    played = play(flow)
    assert played.error["code"] == InvalidCall.code
    assert "top level of a module" in played.error["message"]


def test_a_file_that_is_opened_again_goes_on_taking_back(tmp_path: Any) -> None:
    TROUBLE.append(OSError("down"))
    flow = trip()
    with play(flow, path=tmp_path / "run.db", jumps=False) as played:
        assert played.cancel().status == "cancelling"
    with play.open(tmp_path / "run.db", flow) as again:
        assert again.status == "cancelled"
    assert done()[2:] == [("unbook", "hotel"), ("unbook", "flight")]
