"""A body that gives `ctx` something of a wrong type is told which argument, what came, and what is wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runs.engine import Action
from runs.testing import play
from tests.unit.testing.flows import single


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        (lambda ctx: ctx.call(5), "invalid_call", "A call is of a function, not of 5"),
        (lambda ctx: ctx.call(print, kwargs=5), "invalid_call", "kwargs= of a call is a dict"),
        (lambda ctx: ctx.call(print, guarded_by=5), "invalid_call", "guarded_by= is what ctx.approved"),
        (lambda ctx: ctx.ask_all(5), "invalid_call", "ask_all takes a list of actions or questions, not 5"),
        (lambda ctx: ctx.ask(Action("t"), reviewers=5), "invalid_call", "reviewers is a list, not 5"),
        (lambda ctx: ctx.ask(Action("t"), stages=[5]), "invalid_call", "stages are Stage"),
        (
            lambda ctx: ctx.wait_signal("s", schema=5),
            "schema_violation",
            "schema of the signal 's': a pydantic",
        ),
        (lambda ctx: ctx.secret(5), "invalid_secret", "5 cannot name a secret"),
    ],
)
def test_the_step_fails_in_words(body: Callable[[Any], Any], code: str, words: str) -> None:
    played = play(single(lambda state, ctx: body(ctx)))
    assert (played.status, played.error["code"]) == ("failed", code)
    assert words in played.error["message"]
