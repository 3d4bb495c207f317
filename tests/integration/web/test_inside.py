"""What happened inside a step, on the page of the run: progress, usage, log, both sides of a mismatch, the time that is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from runs import workflows
from runs.engine import Retry, Workflow
from runs.models import Run
from tests.integration.core.conftest import House, by_sql, define
from tests.kit.run_pages import everything

__all__ = ["define"]
Define = Callable[..., Workflow]
Pages = Callable[[Run], str]


@pytest.fixture
def page(house: House, client_of: Callable[..., Client]) -> Pages:
    client = client_of(house.olga)

    def read(run: Run) -> str:
        return everything(client, run)

    return read


def test_progress_and_log_are_shown_while_the_step_executes(
    house: House, define: Define, page: Pages, client_of: Callable[..., Client]
) -> None:
    """And an open page hears of them: its mark changes without an event in the history."""
    workflow, client = define("slow"), client_of(house.olga)
    shown: list[str] = []
    marks: list[str] = []

    @workflow.node
    def work(state: Any, ctx: Any) -> None:
        def mark() -> None:
            marks.append(client.get(f"/live/state/runs/{ctx.run_id}").json()["mark"])

        mark()
        ctx.progress(1_200, 4_000, note="pages <b>")
        mark()
        ctx.log("found <i>it</i>", where="shelf")
        mark()
        shown.append(page(Run.objects.get()))

    workflows.register(workflow)
    run = house.work(house.submit("slow"))
    assert "1,200 of 4,000 pages &lt;b&gt;" in shown[0]
    assert f'data-after="{marks[-1]}"' in shown[0]
    assert len(set(marks)) == 3
    assert "found &lt;i&gt;it&lt;/i&gt;" in shown[0]
    assert "shelf" in shown[0]
    after = page(run)
    assert "1,200 of 4,000" not in after
    assert "shelf" in after


def test_usage_stands_with_call_step_and_run(house: House, define: Define, page: Pages) -> None:
    workflow = define("paid")

    @workflow.node
    def work(state: Any, ctx: Any) -> None:
        ctx.call(lambda: ctx.usage(model_tokens_in=1_200, model_tokens_out=30, cost="0.00420"), name="ask")
        ctx.usage(cost="1")

    workflows.register(workflow)
    text = page(house.work(house.submit("paid")))
    assert text.count("1,200 tokens in, 30 out, 0.0042 USD") == 1, "the call"
    assert text.count("1,200 tokens in, 30 out, 1.0042 USD") == 2, "the step and the run"


def test_both_sides_of_a_mismatch_are_shown(house: House, define: Define, page: Pages) -> None:
    workflow = define("unsteady")

    @workflow.node(retry=Retry(attempts=2, initial=60))
    def work(state: Any, ctx: Any) -> None:
        ctx.call(len, [ctx.attempt * 111, "<same>"], name="count")
        raise OSError

    workflows.register(workflow)
    run = house.work(house.submit("unsteady"))
    by_sql("UPDATE runs_wait SET due_at = now() WHERE closed_at IS NULL")
    house.sweep()
    text = page(house.work(run))
    assert "What was recorded, and what was asked for" in text
    section = text[text.index('id="mismatch"') : text.index('id="_timeline"')]
    assert "111" in section
    assert "222" in section
    assert "<same>" not in section
    assert "asked for something else than recorded" in text


def test_a_step_that_took_too_long_says_so(house: House, define: Define, page: Pages) -> None:
    workflow = define("hasty")
    workflow.node(name="work", timeout=0.05)(lambda state, ctx: [None for _ in iter(int, 1)])
    workflows.register(workflow)
    text = page(house.work(house.submit("hasty")))
    assert "took too long" in text
    assert "The step worked longer than 0.05 s." in text


def test_the_time_that_is_left_stands_in_the_head(house: House, define: Define, page: Pages) -> None:
    workflow = define("limited", deadline="2h")
    workflow.node(name="work")(lambda state, ctx: None)
    workflows.register(workflow)
    run = house.submit("limited")
    assert "left</span>" in page(run)
    by_sql("UPDATE runs_run SET deadline_at = NULL, time_left = 600")
    assert "10 min left, the clock stands" in page(run)
    by_sql("UPDATE runs_run SET deadline_at = now() - interval '1 second', time_left = NULL")
    assert "its time is over" in page(run)
