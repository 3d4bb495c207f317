"""What an author's code raises outside of a body ends no worker, in a play as elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel

from runs.engine import END, Concurrency, Retry, Workflow
from runs.errors import InvalidLimitKey
from runs.testing import play
from tests.unit.testing.flows import State

ODD = [SystemExit("enough"), asyncio.CancelledError("enough")]


def raising(error: BaseException) -> Callable[..., Any]:
    def function(*_: Any) -> Any:
        raise error

    return function


def flow(*, state: type[BaseModel] = State, **options: Any) -> Workflow:
    made = Workflow("odd", state=state, **options)

    @made.node(retry=Retry(attempts=9))
    def only(state: Any, ctx: Any) -> dict[str, Any]:
        return {"x": 1}

    return made


def routed(error: BaseException) -> Workflow:
    made = flow()
    made.choose("only", raising(error), to=[END])
    return made


def validated(error: BaseException) -> Workflow:
    check = AfterValidator(lambda value: value and raising(error)())

    class Checked(BaseModel):
        x: Annotated[int | None, check] = None

    return flow(state=Checked)


def concluded(error: BaseException) -> Workflow:
    return flow(output=raising(error))


@pytest.mark.parametrize("error", ODD, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("make", [routed, validated, concluded])
def test_it_is_a_failure_of_the_step_at_once(
    make: Callable[[BaseException], Workflow], error: BaseException
) -> None:
    played = play(make(error))
    assert played.status == "failed"
    assert (played.error["type"], played.error["message"]) == (type(error).__name__, "enough")
    assert [step.attempts for step in played.steps] == [1]


@pytest.mark.parametrize("error", ODD, ids=lambda error: type(error).__name__)
def test_a_key_of_a_limit_says_what_it_was(error: BaseException) -> None:
    limited = flow(limits=[Concurrency(1, key=raising(error), name="each")])
    with pytest.raises(InvalidLimitKey, match=f"{type(error).__name__}: enough"):
        limited.places({})
