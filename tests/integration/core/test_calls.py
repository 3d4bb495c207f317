"""Journalled calls over retries, takeovers and rewinds: made once, reused, or made again because a person said so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runs import operations, workflows
from runs.engine import Action, Retry, Workflow
from runs.models import JournalEntry, Run, Step
from tests.integration.core.conftest import House, Killed, by_sql, history_is_whole, kinds_of, state_of

Define = Callable[..., Workflow]
Ledger = list[tuple[str, Any]]


@pytest.fixture(autouse=True)
def short_lease(settings: Any) -> None:
    settings.HITL_LEASE_SECONDS = 3


@pytest.fixture
def ledger() -> Ledger:
    """What really ran: (what, with what)."""
    return []


def due(house: House, run: Run) -> Run:
    """The wait for a retry is over."""
    assert by_sql("UPDATE runs_wait SET due_at = now() WHERE run_id = %s AND closed_at IS NULL", run.pk)
    house.sweep()
    return house.work(run)


def noted(ledger: Ledger, what: str) -> Callable[..., int]:
    """A call that notes that it was made, with its key; answers how many there are."""

    def made(idempotency_key: str = "") -> int:
        ledger.append((what, idempotency_key))
        return len(ledger)

    return made


# ---- retries


def test_a_retried_node_repeats_no_committed_call(house: House, define: Define, ledger: Ledger) -> None:
    workflow = define("retried")

    @workflow.node(retry=Retry(attempts=3, initial=60))
    def work(state: Any, ctx: Any) -> dict[str, Any]:
        first = ctx.call(noted(ledger, "first"), name="first")
        ledger.append(("body", ctx.attempt))
        if ctx.attempt < 3:
            raise OSError("not yet")
        return {"x": first}

    workflows.register(workflow)
    run = house.work(house.submit("retried"))
    run = due(house, due(house, run))
    assert (run.status, state_of(run)["x"]) == ("completed", 1)
    assert [what for what, _ in ledger] == ["first", "body", "body", "body"]
    assert Step.objects.get(run=run).failures == 2
    assert history_is_whole(run)


def test_a_calls_own_policy_counts_for_its_failures(house: House, define: Define, ledger: Ledger) -> None:
    """The node has no retries; the call has three attempts, and its key stays the same."""
    workflow = define("own")

    def flaky(*, idempotency_key: str) -> int:
        ledger.append(("flaky", idempotency_key))
        if len(ledger) < 3:
            raise ConnectionError("reset")
        return len(ledger)

    @workflow.node
    def work(state: Any, ctx: Any) -> dict[str, Any]:
        return {"x": ctx.call(flaky, retry=Retry(attempts=3, initial=60), idempotency_key=True)}

    workflows.register(workflow)
    run = house.work(house.submit("own"))
    assert (run.status, run.waiting_for[0]["kind"]) == ("waiting", "retry")
    run = due(house, due(house, run))
    assert (run.status, state_of(run)["x"]) == ("completed", 3)
    assert len({key for _, key in ledger}) == 1


def test_used_up_attempts_fail_the_run_with_the_last_error(
    house: House, define: Define, ledger: Ledger
) -> None:
    workflow = define("hopeless")

    @workflow.node(retry=Retry(attempts=2, initial=60))
    def work(state: Any, ctx: Any) -> None:
        ledger.append(("work", ctx.attempt))
        raise ValueError(f"attempt {ctx.attempt}")

    workflows.register(workflow)
    run = due(house, house.work(house.submit("hopeless")))
    assert run.error is not None
    assert (run.status, run.error["message"], run.error["step"]) == ("failed", "attempt 2", "work")
    assert run.error["type"] == "ValueError"
    assert "attempt 2" in run.error["traceback"]
    assert ledger == [("work", 1), ("work", 2)]
    assert kinds_of(run)[-2:] == ["step_failed", "run_failed"]


@pytest.mark.parametrize(
    "policy",
    [
        Retry(attempts=5, initial=60, give_up_on=(LookupError,)),
        Retry(attempts=5, initial=60, retry_on=(OSError,)),
        Retry(attempts=1),
    ],
)
def test_what_the_policy_does_not_retry_fails_at_once(
    house: House, define: Define, ledger: Ledger, policy: Retry
) -> None:
    workflow = define("given_up")

    @workflow.node(retry=policy)
    def work(state: Any, ctx: Any) -> None:
        ledger.append(("work", ctx.attempt))
        raise KeyError("gone")

    workflows.register(workflow)
    assert house.work(house.submit("given_up")).status == "failed"
    assert ledger == [("work", 1)]


def test_crashes_and_failures_share_one_budget(house: House, define: Define, ledger: Ledger) -> None:
    workflow = define("shared")

    @workflow.node(retry=Retry(attempts=2, initial=60))
    def work(state: Any, ctx: Any) -> None:
        ledger.append(("work", ctx.attempt))
        if len(ledger) == 1:
            raise Killed
        raise OSError("and then it fails")

    workflows.register(workflow)
    run = house.submit("shared")
    with pytest.raises(Killed):
        house.work(run)
    house.sweep()
    assert house.work(run).status == "failed"
    assert ledger == [("work", 1), ("work", 2)]
    step = Step.objects.get(run=run)
    assert (step.crashes, step.failures) == (1, 1)


def test_an_author_may_catch_a_failed_call_and_go_on(house: House, define: Define, ledger: Ledger) -> None:
    workflow = define("caught")

    def refuse() -> None:
        ledger.append(("refuse", None))
        raise PermissionError("no")

    @workflow.node
    def work(state: Any, ctx: Any) -> dict[str, Any]:
        try:
            ctx.call(refuse)
        except PermissionError as error:
            return {"x": str(error)}
        return {}

    workflows.register(workflow)
    run = house.work(house.submit("caught"))
    assert (run.status, state_of(run)["x"], len(ledger)) == ("completed", "no", 1)
    assert not JournalEntry.objects.filter(run=run).exists()


def test_a_node_that_asks_for_something_else_than_before_fails_showing_both(
    house: House, define: Define, ledger: Ledger
) -> None:
    workflow = define("unsteady")

    @workflow.node(retry=Retry(attempts=3, initial=60))
    def work(state: Any, ctx: Any) -> None:
        ctx.call(lambda n: ledger.append(("call", n)), ctx.attempt, name="call")
        raise OSError("again")

    workflows.register(workflow)
    run = due(house, house.work(house.submit("unsteady")))
    assert run.error is not None
    assert (run.status, run.error["code"], run.error["call"]) == ("failed", "journal_mismatch", "call")
    sides = run.error["recorded"], run.error["asked"]
    assert sides == ('{"args":[1],"kwargs":{}}', '{"args":[2],"kwargs":{}}')
    assert ledger == [("call", 1)]


# ---- rewinds


def shopping(define: Define, ledger: Ledger) -> None:
    """look (call) -> buy (call with a key) -> done."""
    workflow = define("shopping")

    def look(item: Any) -> str:
        ledger.append(("look", item))
        return f"price of {item}, look {len(ledger)}"

    def buy(price: str, *, idempotency_key: str) -> str:
        ledger.append(("buy", idempotency_key))
        return f"receipt {len(ledger)}"

    @workflow.node
    def start(state: Any, ctx: Any) -> None:
        return None

    @workflow.node(name="look")
    def _look(state: Any, ctx: Any) -> dict[str, Any]:
        return {"log": [ctx.call(look, state.x)]}

    @workflow.node(name="buy")
    def _buy(state: Any, ctx: Any) -> dict[str, Any]:
        receipt = ctx.call(buy, state.log[0], effect="irreversible", idempotency_key=True)
        return {"log": [*state.log, receipt]}

    @workflow.node
    def done(state: Any, ctx: Any) -> None:
        return None

    for source, target in (("start", "look"), ("look", "buy"), ("buy", "done")):
        workflow.edge(source, target)
    workflows.register(workflow)


def names(ledger: Ledger) -> list[str]:
    return [what for what, _ in ledger]


def test_a_rewind_reuses_what_the_left_branch_did(house: House, define: Define, ledger: Ledger) -> None:
    shopping(define, ledger)
    run = house.work(house.submit("shopping", x="tea"))
    before = state_of(run)["log"]
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=1, reason="check")
    house.work(run)
    assert (state_of(run)["log"], names(ledger)) == (before, ["look", "buy"])
    reused = JournalEntry.objects.filter(run=run, branch=2)
    assert [(row.name, row.reused_from) for row in reused.order_by("ended_at")] == [("look", 1), ("buy", 1)]
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=1, reason="a third time")
    house.work(run)
    assert names(ledger) == ["look", "buy"]
    assert history_is_whole(run)


def test_a_rewind_with_again_makes_the_calls_again_under_new_keys(
    house: House, define: Define, ledger: Ledger
) -> None:
    shopping(define, ledger)
    run = house.work(house.submit("shopping", x="tea"))
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=1, reason="again", calls="again")
    house.work(run)
    assert names(ledger) == ["look", "buy", "look", "buy"]
    keys = [key for what, key in ledger if what == "buy"]
    assert keys[0] != keys[1]
    assert state_of(run)["log"][-1] == "receipt 4"


def test_reuse_after_again_takes_the_newest_answer(house: House, define: Define, ledger: Ledger) -> None:
    shopping(define, ledger)
    run = house.work(house.submit("shopping", x="tea"))
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=1, reason="again", calls="again")
    second = state_of(house.work(run))["log"]
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=1, reason="look")
    house.work(run)
    assert (state_of(run)["log"], len(ledger)) == (second, 4)


def test_other_arguments_are_no_reuse(house: House, define: Define, ledger: Ledger) -> None:
    shopping(define, ledger)
    run = house.work(house.submit("shopping", x="tea"))
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=1, reason="coffee", changes={"x": "coffee"})
    house.work(run)
    assert ledger[2][:2] == ("look", "coffee")
    assert names(ledger) == ["look", "buy", "look", "buy"]
    keys = [key for what, key in ledger if what == "buy"]
    assert keys[0] == keys[1], "the same place in the same generation: whoever sells may know it"


def test_calls_before_the_checkpoint_stay_calls_of_the_journal(
    house: House, define: Define, ledger: Ledger
) -> None:
    """Rewound to after the look: it is neither made nor copied, whatever is said about calls."""
    shopping(define, ledger)
    run = house.work(house.submit("shopping", x="tea"))
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=2, reason="pay again", calls="again")
    house.work(run)
    assert names(ledger) == ["look", "buy", "buy"]
    assert list(JournalEntry.objects.filter(run=run, branch=2).values_list("name", flat=True)) == ["buy"]


def test_a_rewind_in_the_middle_of_a_step_reuses_its_committed_calls(
    house: House, define: Define, ledger: Ledger
) -> None:
    """The calls of the step that stood at the checkpoint were committed after it: they are reused, not visible."""
    workflow = define("stuck")

    @workflow.node
    def work(state: Any, ctx: Any) -> dict[str, Any]:
        got = ctx.call(noted(ledger, "paid"), name="paid", idempotency_key=True)
        if state.x is None:
            raise OSError("stuck")
        return {"log": [got]}

    workflows.register(workflow)
    run = house.work(house.submit("stuck"))
    assert run.status == "failed"
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="mended", changes={"x": 1})
    house.work(run)
    assert (run.status, state_of(run)["log"], len(ledger)) == ("completed", [1], 1)
    operations.rewind(
        actor=house.olga, run_id=run.pk, checkpoint=0, reason="again", changes={"x": 1}, calls="again"
    )
    house.work(run)
    assert (state_of(run)["log"], len({key for _, key in ledger})) == ([2], 2)


def test_the_preview_tells_what_will_be_done_again(house: House, define: Define, ledger: Ledger) -> None:
    shopping(define, ledger)
    run = house.work(house.submit("shopping", x="tea"))
    preview = operations.preview_rewind(actor=house.olga, run_id=run.pk, checkpoint=2)
    assert (preview.next, preview.state["log"]) == (["buy"], [state_of(run)["log"][0]])
    assert [step.node for step in preview.steps] == ["buy", "done"]
    assert [(call.name, call.effect, call.reused) for call in preview.effects] == [
        ("buy", "irreversible", True)
    ]
    again = operations.preview_rewind(actor=house.olga, run_id=run.pk, checkpoint=2, calls="again")
    assert [call.reused for call in again.effects] == [False]
    seq = Run.objects.get(pk=run.pk).seq
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=2, reason="so")
    assert Run.objects.get(pk=run.pk).seq == seq + 1
    house.work(run)
    later = operations.preview_rewind(actor=house.olga, run_id=run.pk, checkpoint=1)
    assert [step.node for step in later.steps] == ["look", "buy", "done"]


def test_the_preview_leaves_out_what_a_left_branch_never_finished(
    house: House, define: Define, ledger: Ledger
) -> None:
    workflow = define("mended")
    workflow.node(name="first")(lambda state, ctx: None)

    @workflow.node
    def second(state: Any, ctx: Any) -> None:
        if state.x is None:
            raise OSError("stuck")

    workflow.edge("first", "second")
    workflows.register(workflow)
    run = house.work(house.submit("mended"))
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=1, reason="mended", changes={"x": 1})
    assert house.work(run).status == "completed"
    preview = operations.preview_rewind(actor=house.olga, run_id=run.pk, checkpoint=2)
    assert [(step.node, step.status) for step in preview.steps] == [("second", "completed")]


# ---- loops


def test_a_loop_counts_over_pauses_crashes_and_comes_out_at_its_limit(
    house: House, define: Define, ledger: Ledger
) -> None:
    """C79, first part."""
    workflow = define("rounds")

    @workflow.node(loop_limit=4)
    def draft(state: Any, ctx: Any) -> dict[str, Any]:
        ledger.append(("draft", len(state.log)))
        if ledger == [("draft", 0), ("draft", 1)]:
            raise Killed
        return {"log": [*state.log, len(state.log)]}

    @workflow.approval(reviewers=["finance"])
    def ask(state: Any, ctx: Any) -> Action:
        return Action("publish", {"round": len(state.log)})

    workflow.node(name="publish")(lambda state, ctx: {"x": "published"})
    workflow.node(name="enough")(lambda state, ctx: {"x": "enough"})
    workflow.choose("ask", approve="publish", reject="draft", limit="enough")
    workflow.edge("draft", "ask")
    workflows.register(workflow)
    run = house.submit("rounds")
    house.work(run)
    for number in range(1, 5):
        approval = run.approvals.get(status="open")
        assert approval.content["actions"][0]["args"] == {"round": number}
        house.answer(approval, "reject", comment="again")
        if number == 1:
            with pytest.raises(Killed):
                house.work(run)
            house.sweep()
        house.work(run)
    assert (run.status, state_of(run)) == ("completed", {"x": "enough", "log": [0, 1, 2, 3]})
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=3, reason="from the second round")
    house.work(run)
    for _ in range(3):
        house.answer(run.approvals.get(status="open"), "reject", comment="again")
        house.work(run)
    assert (run.status, state_of(run)) == ("completed", {"x": "enough", "log": [0, 1, 2, 3]})


def test_a_run_has_a_limit_of_steps_and_keeps_the_last_one(house: House, define: Define) -> None:
    """C79, second part, without the Retry."""
    workflow = define("endless", max_steps=5)
    workflow.node(name="again")(lambda state, ctx: {"log": [*state.log, 1]})
    workflow.node(name="never")(lambda state, ctx: None)
    workflow.choose("again", lambda state: "again", to=["again", "never"])
    workflows.register(workflow)
    run = house.work(house.submit("endless"))
    assert run.error is not None
    assert (run.status, run.error["code"], run.head) == ("failed", "step_limit", 5)
    assert state_of(run, 5)["log"] == [1] * 5
