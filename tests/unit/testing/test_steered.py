"""A played run that is steered, and whose worker ends in the middle."""

from __future__ import annotations

from typing import Any

import pytest

from runs.engine import START, Workflow
from runs.errors import AlreadyTerminal, AmbiguousTarget, UnknownCheckpoint
from runs.testing import Crash, PlayError, edit, play
from runs.testing.crashing import BOUNDARIES
from tests.unit.testing.flows import State, paying, single

# ---- rewind, edit, retry, cancel


def test_a_rewind_reuses_calls_or_makes_them_again() -> None:
    done: list[Any] = []
    played = play(paying(done)).decide("confirm")
    assert played.rewind(0).waiting_for[0]["node"] == "confirm"
    assert done[1:].count("order") == 0
    played.decide("confirm")
    assert [one for one in done if one != "order"] == done[1:2]
    assert [call.reused for call in played.calls] == [False, False, True, True]
    played.rewind(0, calls="again").decide("confirm", edit(amount=4))
    assert [one if one == "order" else one[0] for one in done] == ["order", 5, "order", 4]
    assert len({one[1] for one in done if one != "order"}) == 2
    assert {step.branch for step in played.steps} == {1, 2, 3}
    played.verify()


def test_a_rewind_may_change_the_state_and_goes_to_a_checkpoint_that_is_there() -> None:
    played = play(paying([]), {"x": 1})
    assert played.rewind(0, {"x": 2}, "again").state["log"] == [{"total": 5, "number": 2}]
    for unknown in (played.rewind, played.checkpoint):
        with pytest.raises(UnknownCheckpoint):
            unknown(99)
    assert played.checkpoint(0).state == {"x": 1, "log": []}


def test_a_rewind_in_lanes_asks_all_of_them_again() -> None:
    flow = Workflow("two", state=State)
    for name in ("a", "b"):
        flow.node(name=name)(lambda state, ctx: {"log": [ctx.wait_signal(ctx.node).payload]})
        flow.edge(START, name)
    played = play(flow).signal("a", 1)
    taken = played.checkpoints[-1].no - 1
    assert played.signal("b", 2).output["log"] == [1, 2]
    assert played.rewind(0).output["log"] == [1, 2], "a rewind gives back what was taken"
    assert played.rewind(taken).status == "completed"


def test_an_edit_of_the_state_asks_anew_and_names_its_lane() -> None:
    played = play(paying([])).edit_state({"log": [{"total": 9}]})
    assert [(one.args["amount"], one.status) for one in played.approvals] == [(5, "superseded"), (9, "open")]
    flow = Workflow("two", state=State)
    for name in ("a", "b"):
        flow.node(name=name)(lambda state, ctx: {"log": [ctx.wait_signal("go").payload]})
        flow.edge(START, name)
    lanes = play(flow)
    with pytest.raises(AmbiguousTarget):
        lanes.edit_state({"x": 1})
    lanes.edit_state({"x": 1}, lane=lanes.lanes[0]["lane"])
    assert lanes.state["x"] == 1


def test_a_failed_run_is_retried_and_only_what_failed_runs() -> None:
    broken = [True]

    def body(state: Any, ctx: Any) -> dict[str, Any]:
        ctx.call(ran.append, 1, name="once")
        if broken:
            raise RuntimeError("broken")
        return {"x": ctx.attempt}

    ran: list[int] = []
    played = play(single(body))
    assert played.status == "failed"
    broken.clear()
    assert (played.retry().output["x"], ran) == (2, [1])


def test_a_cancelled_run_owns_nothing_any_more() -> None:
    played = play(paying([])).cancel(reason="enough")
    assert (played.status, played.waiting_for, played.approvals[0].status) == ("cancelled", [], "cancelled")
    with pytest.raises(AlreadyTerminal):
        play(paying([]), decisions={"confirm": "approve"}).cancel()


def test_a_body_that_steers_its_own_run_is_late() -> None:
    held: list[Any] = []

    def body(state: Any, ctx: Any) -> dict[str, Any]:
        held[0].cancel()
        return {"x": 1}

    held.append(play(single(body), max_steps=0))
    assert held[0].step().status == "cancelled"
    assert held[0].state["x"] is None


def test_one_step_after_the_other() -> None:
    played = play(paying([]), decisions={"confirm": "approve"}, max_steps=0)
    seen = []
    while played.status not in ("completed", "failed"):
        seen.append([step.node for step in played.step().steps if step.status == "completed"])
    assert seen == [["fetch"], ["fetch"], ["fetch", "confirm", "pay"]]


# ---- crashes


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("node", ["fetch", "pay"])
def test_wherever_the_worker_ends_the_run_comes_to_the_same(boundary: Any, node: str) -> None:
    """A call may be made twice only if the worker ends before its result is committed, and then with the same key."""
    done: list[Any] = []
    played = play(paying(done), decisions={"confirm": "approve"}, crash=Crash(boundary, node=node))
    assert played.output["log"][1:] == ["paid 5"]
    assert len(played.effects) == 1
    again = boundary == "after_call"
    assert done.count("order") == 1 + (again and node == "fetch")
    keys = [one[1] for one in done if one != "order"]
    assert (len(keys), len(set(keys))) == (1 + (again and node == "pay"), 1)
    assert ("step_taken_over" in played.kinds) == (boundary != "after_commit")
    played.verify()


def test_a_crash_by_hand_goes_on_and_says_if_nothing_came_to_it() -> None:
    done: list[Any] = []
    played = play(paying(done), max_steps=1).crash("before_commit", node="pay")
    played.run().decide("confirm").run()
    assert (played.status, played.kinds.count("step_taken_over")) == ("completed", 1)
    with pytest.raises(PlayError, match="nothing came to Crash"):
        played.crash("after_call")
    with pytest.raises(PlayError, match="A crash happens at one of"):
        play(paying([]), crash="somewhere")  # type: ignore[arg-type]


def test_a_step_that_ends_its_worker_too_often_is_set_aside() -> None:
    played = play(paying([]), crash=Crash("before_body", times=3))
    assert (played.status, played.error["code"]) == ("failed", "poisoned")
    assert played.retry().status == "waiting"


async def asking(state: Any, ctx: Any) -> dict[str, Any]:
    return {"log": [await ctx.acall(str, 1)]}


@pytest.mark.parametrize("body", [asking, lambda state, ctx: {"log": ctx.map(str, [1])}])
@pytest.mark.parametrize("boundary", ["before_call", "after_call", "after_call_commit"])
def test_async_bodies_and_calls_made_at_once_crash_and_go_on(body: Any, boundary: Any) -> None:
    played = play(single(body), crash=boundary, replay_check=True)
    assert (played.output["log"], played.kinds.count("step_taken_over")) == (["1"], 1)
