"""A call that raises: the body may catch what the function raised; uncaught, the call's own retry policy counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from runs.driver import Completed, Context, Failed, Outcome, StepScope, run_body
from runs.engine import Retry, Workflow
from runs.engine.position import LiveStep
from tests.unit.driver.journal import Journal


class State(BaseModel):
    said: str = ""


class Refusal(Exception):
    """No."""


def refuse() -> None:
    raise Refusal("not today")


def outcome(body: Callable[[Any, Context], Any], port: Journal) -> Outcome:
    workflow = Workflow("test", state=State)
    workflow.node(name="only", retry=Retry(attempts=2))(body)
    step = LiveStep(lane="0", address="a", node="only", visit=1)
    context = Context("run", "only", 1, "a", 0, 1, {}, port)
    return run_body(StepScope(workflow, step, State(), context))


def test_the_body_catches_what_the_function_raised_and_nothing_is_committed() -> None:
    def body(state: Any, ctx: Context) -> Any:
        try:
            ctx.call(refuse)
        except Refusal as refusal:
            return {"said": str(refusal)}

    port = Journal()
    assert outcome(body, port) == Completed({"said": "not today"})
    assert port.committed == []


def test_an_uncaught_error_fails_the_attempt_by_the_policy_of_its_call() -> None:
    def body(state: Any, ctx: Context) -> Any:
        ctx.call(refuse, name="asking", retry=Retry(attempts=7))

    failed = outcome(body, Journal())
    assert isinstance(failed, Failed)
    assert (failed.policy.attempts, failed.facts["call"]) == (7, "asking")


def test_another_error_after_a_caught_one_fails_by_the_policy_of_the_node() -> None:
    def body(state: Any, ctx: Context) -> Any:
        try:
            ctx.call(refuse, retry=Retry(attempts=7))
        except Refusal as refusal:
            raise LookupError("other") from refusal

    failed = outcome(body, Journal())
    assert isinstance(failed, Failed)
    assert failed.policy.attempts == 2
    assert "call" not in failed.facts
