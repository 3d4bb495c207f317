"""`play`: a run in memory, with people, time, signals and children that are told beforehand or by hand."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from runs.engine import Action, Question, Retry, Signal, Timer, Workflow
from runs.errors import AlreadyTerminal, DecisionNotAllowed, TimedOut, Unprocessable
from runs.testing import (
    DecisionMissing,
    NotDeterministic,
    PlayError,
    Sent,
    Unused,
    approve,
    edit,
    per_action,
    play,
    reject,
    respond,
)
from tests.unit.testing.flows import State, paying, single


def test_it_needs_no_django() -> None:
    words = "import sys, runs.testing; sys.exit('django' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", words], check=False).returncode == 0


# ---- people


def test_a_run_is_played_to_its_end() -> None:
    done: list[Any] = []
    played = play(paying(done), {"x": 7}, decisions={"confirm": "approve"})
    assert (played.status, played.error, played.waiting_for) == ("completed", None, [])
    assert played.output["log"] == [{"total": 5, "number": 7}, "paid 5"]
    assert [call if call == "order" else call[0] for call in done] == ["order", 5]
    assert [(call.name, call.effect, call.result) for call in played.effects] == [
        ("transfer", "irreversible", "paid 5")
    ]
    assert [(step.node, step.status, step.attempts) for step in played.steps] == [
        ("fetch", "completed", 1),
        ("confirm", "completed", 1),
        ("pay", "completed", 1),
    ]
    assert [point.kind for point in played.checkpoints] == ["input", "step", "answer", "step"]
    assert [len(point.state["log"]) for point in played.checkpoints] == [0, 1, 1, 2]
    played.verify()


def test_without_decisions_it_stops_and_people_decide_by_hand() -> None:
    played = play(paying([]))
    (reason,) = played.waiting_for
    assert (played.status, reason["kind"], reason["node"], reason["who"]) == (
        "waiting",
        "approval",
        "confirm",
        ["finance"],
    )
    assert played.approvals[0].args == {"amount": 5}
    with pytest.raises(PlayError, match="open are: 'confirm'"):
        played.decide("konfirm")
    assert played.decide("confirm", edit(amount=4)).output["log"][-1] == "paid 4"
    assert (played.approvals[0].version, played.approvals[0].outcome) == (2, "approve")


@pytest.mark.parametrize(
    ("said", "last"),
    [
        ("approve", "paid 5"),
        (approve(args={"amount": 3}), "paid 3"),
        (edit({"amount": 2}), "paid 2"),
        (reject("no"), "no"),
        (lambda document: "reject" if document["actions"][0]["args"]["amount"] > 4 else "approve", "sorry"),
        ([reject("first")], "first"),
    ],
)
def test_what_can_be_told_of_an_approval(said: Any, last: str) -> None:
    assert play(paying([]), decisions={"confirm": said}).output["log"][-1] == last


def test_a_decision_that_is_missing_says_of_what_and_what_could_be_said() -> None:
    with pytest.raises(DecisionMissing) as caught:
        play(paying([], due="24h"), decisions={"other": "approve"})
    for words in ("'confirm'", "'transfer'", 'transfer({"amount":5})', "approve, edit, reject", "timeout"):
        assert words in caught.value.detail
    assert caught.value.facts["played"].decide("confirm").status == "completed"


def test_a_list_is_for_one_visit_after_the_other_and_says_when_it_is_used_up() -> None:
    flow = single(lambda state, ctx: {"log": [ctx.ask(Action("use", {"n": n})).outcome for n in range(3)]})
    said = ["approve", respond("later"), "reject"]
    assert play(flow, decisions={"only": said}).output["log"] == ["approve", "respond", "reject"]
    with pytest.raises(DecisionMissing, match="All 1 that were told for it have been used"):
        play(flow, decisions={"only": ["approve"]})


def test_a_question_with_a_key_has_a_decision_of_its_own() -> None:
    flow = single(
        lambda state, ctx: {"log": [ctx.ask(Action("use"), key=key).outcome for key in ("tea", "milk")]}
    )
    played = play(flow, decisions={"only.milk": "reject", "only": "approve"})
    assert played.output["log"] == ["approve", "reject"]


def test_several_actions_are_decided_each() -> None:
    flow = Workflow("both", state=State)
    flow.approval(name="ask")(lambda state, ctx: [Action("a"), Action("b")])
    flow.node(name="end")(lambda state, ctx: {"log": [ctx.decision("ask").outcome]})
    flow.choose("ask", approve="end", mixed="end")
    played = play(flow, decisions={"ask": per_action(a="approve", b=reject("no"))})
    assert played.output["log"] == ["mixed"]


def test_a_quorum_is_made_of_different_people() -> None:
    played = play(paying([], quorum=2), decisions={"confirm": "approve"})
    assert [event.by for event in played.history if event.kind in ("vote_recorded", "approval_decided")] == [
        "reviewer",
        "reviewer 2",
    ]
    told = [approve(by="ada"), reject("no", by="bob"), approve(by="eve")]
    assert play(paying([], quorum=2), decisions={"confirm": told[:1] + told[2:]}).status == "completed"


def test_an_edit_is_looked_at_again() -> None:
    flow = Workflow("looked-at", state=State)

    @flow.node
    def look(state: State, ctx: Any) -> dict[str, Any]:
        edited = ctx.edited("confirm")
        return {"x": edited["n"] * 10 if edited else state.x}

    flow.approval(name="confirm", recheck="look")(
        lambda state, ctx: Action("use", {"n": state.x}, editable=["n"])
    )
    flow.edge(look, "confirm")
    played = play(flow, {"x": 1}, decisions={"confirm": [edit(n=2), "approve"]})
    assert [(one.args, one.status) for one in played.approvals] == [
        ({"n": 1}, "superseded"),
        ({"n": 20}, "decided"),
    ]


def test_what_may_not_be_said_is_refused_as_by_the_real_thing() -> None:
    played = play(paying([]))
    with pytest.raises(DecisionNotAllowed):
        played.decide("confirm", respond("hm"))
    with pytest.raises(Unprocessable):
        played.decide("confirm", edit(other=1))
    with pytest.raises(PlayError, match="'yes' is no decision for 'confirm'"):
        played.decide("confirm", "yes")
    assert played.approvals[0].version == 1


def test_what_was_told_and_is_not_asked_for_is_reported() -> None:
    with pytest.warns(Unused, match="confirm\\[1:\\], other, signal nobody"):
        played = play(
            paying([]), decisions={"confirm": ["approve", "reject"], "other": "approve"}, signals=["nobody"]
        )
    assert played.unused == ["confirm[1:]", "other", "signal nobody"]
    assert "told and not asked for: confirm[1:], other, signal nobody" in repr(played)


# ---- time


def test_the_clock_jumps_to_what_is_due() -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)

    def body(state: Any, ctx: Any) -> dict[str, Any]:
        before = ctx.now()
        ctx.sleep("36h")
        return {"log": [before.isoformat(), ctx.now().isoformat()]}

    played = play(single(body), now=start)
    assert played.output["log"] == ["2026-03-01T00:00:00+00:00", "2026-03-02T12:00:00+00:00"]
    assert played.now == start + timedelta(hours=36)
    with pytest.raises(PlayError, match="aware datetime"):
        play(single(body), now=datetime(2026, 3, 1))  # noqa: DTZ001


def test_a_clock_that_does_not_jump_is_moved_by_hand() -> None:
    played = play(single(lambda state, ctx: ctx.sleep("2d")), jumps=False)
    assert played.advance_time("47h").status == "waiting"
    assert played.advance_time("1h").status == "completed"


def test_time_that_people_have_does_not_jump_away() -> None:
    played = play(paying([], due="24h"))
    assert played.advance_time("23h").status == "waiting"
    assert played.advance_time("2h").output["log"][-1].startswith("no answer before")
    told = play(paying([], due="24h"), decisions={"confirm": "timeout"})
    assert (told.status, told.approvals[0].status) == ("completed", "expired")
    assert told.now - told.history[0].at == timedelta(hours=24)
    with pytest.raises(PlayError, match="no due="):
        play(paying([]), decisions={"confirm": "timeout"})


def test_an_answer_after_its_time_is_refused() -> None:
    played = play(paying([], due="1h"), jumps=False, max_steps=5)
    row = played.world.row
    row.now += timedelta(hours=2)
    played.world.book.save(row)
    with pytest.raises(TimedOut):
        played.decide("confirm")


def test_retries_wait_on_the_plays_clock() -> None:
    tries: list[int] = []

    def shaky(state: Any, ctx: Any) -> dict[str, Any]:
        tries.append(ctx.attempt)
        if ctx.attempt < 3:
            raise RuntimeError("not yet")
        return {"x": ctx.attempt}

    played = play(single(shaky, retry=Retry(attempts=3, initial=60, multiplier=2, jitter=0)))
    assert (played.output["x"], tries, played.now - played.history[0].at) == (
        3,
        [1, 2, 3],
        timedelta(seconds=180),
    )
    assert (played.steps[0].attempts, played.steps[0].failures) == (3, 2)


def test_a_deadline_ends_a_run_and_stands_while_people_decide() -> None:
    flow = Workflow("slow", state=State, deadline="1h")
    flow.approval(name="ask", due="7d")(lambda state, ctx: Action("go"))
    flow.node(name="wait")(lambda state, ctx: ctx.sleep("2h"))
    flow.edge("ask", "wait")
    played = play(flow, jumps=False).advance_time("5d")
    assert played.status == "waiting"
    assert played.decide("ask").advance_time("59m").status == "waiting"
    assert played.advance_time("1m").error["code"] == "deadline_exceeded"


# ---- signals and children


def test_signals_are_sent_when_something_waits_for_them_or_at_their_time() -> None:
    def body(state: Any, ctx: Any) -> dict[str, Any]:
        first = ctx.first_of(paid=Signal("paid"), late=Timer("2d"))
        second = ctx.wait_signal("paid", timeout="1d")
        return {"log": [first.winner, second.payload]}

    flow = single(body)
    assert play(flow, signals=["paid", ("paid", {"n": 1})]).output["log"] == ["paid", {"n": 1}]
    assert play(flow, signals=[Sent("paid", 5, after="1d")]).output["log"] == ["paid", None]
    assert play(flow, signals=[Sent("paid", 5, after="50h")]).output["log"] == ["late", 5]
    assert play(flow).output["log"] == ["late", None]


def test_a_signal_by_hand_is_checked_and_counted_once() -> None:
    flow = single(lambda state, ctx: {"x": ctx.wait_signal("go", schema={"type": "integer"}).payload})
    played = play(flow)
    with pytest.raises(Unprocessable):
        played.signal("go", "no number")
    played.signal("go", 3, id="a")
    assert played.output["x"] == 3
    with pytest.raises(AlreadyTerminal):
        played.signal("go", 4)


def test_a_workflow_that_starts_itself_comes_to_an_end() -> None:
    flow = single(lambda state, ctx: ctx.run_child("matryoshka", {"x": state.x}))
    flow.name = "matryoshka"
    played = play(flow, {"x": 1}, children=[flow])
    assert played.status == "failed"
    assert played.error["code"] == "child_failed"
    assert "does a workflow start itself?" in played.error["message"]


def test_children_are_played_in_the_same_memory() -> None:
    inner = single(lambda state, ctx: {"x": state.x * 2})
    inner.name = "double"
    flow = Workflow("outer", state=State)
    flow.node(name="both")(
        lambda state, ctx: {"log": [ctx.run_child("double", {"x": n}, key=str(n))["x"] for n in (1, 2)]}
    )
    played = play(flow, children=[inner])
    assert played.output["log"] == [2, 4]
    assert [child.output["x"] for child in played.children] == [2, 4]
    with pytest.raises(PlayError, match="No workflow 'double' is known here"):
        play(flow)


# ---- what a body says


def test_usage_log_progress_and_calls_are_kept() -> None:
    def body(state: Any, ctx: Any) -> dict[str, Any]:
        ctx.log("starts", n=1)
        ctx.progress(1, 2, note="half")
        ctx.usage(model_tokens_in=3, cost=Decimal("0.10"))
        ctx.call(lambda: ctx.usage(model_tokens_in=4, cost="0.20"), name="model")
        return {"x": ctx.map(str, [1, 2])}

    played = play(single(body))
    assert [(line.message, line.facts) for line in played.log] == [("starts", {"n": 1})]
    assert (played.usage.model_tokens_in, played.usage.cost) == (7, {"USD": Decimal("0.30")})
    assert played.steps[0].progress == {"done": 1, "total": 2, "note": "half"}
    assert [call.name for call in played.calls] == ["model", "str", "str"]


def test_one_seed_gives_one_play_and_shuffles_lanes_without_changing_what_comes_out() -> None:
    def flow() -> Workflow:
        made = Workflow("lanes", state=State)
        made.node(name="split")(lambda state, ctx: None)
        for name in "abcd":
            made.node(name=name)(lambda state, ctx: {"log": [ctx.node]})
            made.edge("split", name)
            made.edge(name, "join")
        made.node(name="join")(lambda state, ctx: {"x": len(state.log)})
        return made

    orders = {tuple(event.node for event in play(flow(), seed=seed).history) for seed in range(8)}
    assert len(orders) > 1
    outputs = [play(flow(), seed=seed).output for seed in (None, 1, 2, 3)]
    assert outputs == [{"x": 4, "log": ["a", "b", "c", "d"]}] * 4

    def drawn(seed: int) -> Any:
        return play(single(lambda state, ctx: {"x": ctx.random()}), seed=seed).output["x"]

    assert drawn(1) == drawn(1) != drawn(2)


def test_a_run_fails_as_it_would() -> None:
    played = play(single(lambda state, ctx: {"unknown": 1}))
    assert (played.status, played.error["step"]) == ("failed", "only")
    assert "error" in repr(played)


def test_it_draws_its_timeline() -> None:
    played = play(paying([], due="24h"), {"x": "<b>"})
    text = repr(played)
    assert text.splitlines()[0] == "paying 1: waiting"
    assert "approval opened confirm" in text
    assert "waits for approval transfer at confirm, due 2026-01-02T00:00:00+00:00" in text
    assert "<b>" not in played.decide("confirm", reject("<b>"))._repr_html_().replace("<p><b>", "")


# ---- does a body do the same again?


def test_a_body_that_does_something_else_when_it_runs_again_is_found() -> None:
    count = iter(range(100))
    flow = single(lambda state, ctx: {"x": next(count)})
    assert play(flow).status == "completed"
    with pytest.raises(NotDeterministic, match="only \\(visit 1\\): it comes to something else"):
        play(flow, replay_check=True)


def test_a_body_that_calls_something_else_when_it_runs_again_is_found() -> None:
    count = iter(range(100))
    flow = single(lambda state, ctx: ctx.call(str, name=f"call{next(count)}") and None)
    with pytest.raises(NotDeterministic, match="it asks for a call that is not in the journal"):
        play(flow, replay_check=True)
    questions = single(
        lambda state, ctx: ctx.first_of(a=Question(Action("a", {"n": next(count)})), b=Timer("1h")) and None
    )
    with pytest.raises(NotDeterministic, match="waits for"):
        play(questions, replay_check=True)


def test_a_good_body_passes_whatever_it_does() -> None:
    def body(state: Any, ctx: Any) -> dict[str, Any]:
        with suppress(ZeroDivisionError):
            ctx.call(lambda: 1 / 0, name="fails")
        ctx.usage(model_tokens_in=1)
        ctx.sleep("1h")
        return {"log": [ctx.random(), str(ctx.uuid()), ctx.now().isoformat(), ctx.call(str, 5)]}

    played = play(single(body), replay_check=True)
    assert (played.status, played.mismatches, played.usage.model_tokens_in) == ("completed", [], 1)
    play(paying([]), decisions={"confirm": "approve"}, replay_check=True)


# ---- files


@pytest.mark.parametrize("boundary", [None, "after_call", "after_call_commit", "before_commit"])
def test_a_played_node_attaches_once_whatever_happens(boundary: Any) -> None:
    def body(state: State, ctx: Any) -> dict[str, Any]:
        return {"log": [ctx.attach("../plan.png", b"\xff\xd8\xff", "text/html")]}

    played = play(single(body), {}, crash=boundary, replay_check=boundary is None)
    [file] = played.attachments
    assert (file.name, file.type, file.body, file.node) == ("plan.png", "image/jpeg", b"\xff\xd8\xff", "only")
    assert played.state["log"][0]["$attachment"] == file.id
    assert played.mismatches == []
