"""What a body has besides calls, on the database: time, usage, log, progress, secrets, threads, an event loop, undo."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.apps import apps
from django.db import connection, transaction

from runs import operations, queries, store, tracing, workflows
from runs.driver import secrets
from runs.engine import Action, Retry, Workflow, canonical
from runs.models import JournalEntry, LogLine, OperationalNote, Run, Step, Usage
from runs.store import stepping
from tests.integration.core.conftest import House, Killed, by_sql, history_is_whole, open_approval, state_of

Define = Callable[..., Workflow]
pytestmark = pytest.mark.usefixtures("short_lease")


def due(house: House, run: Run) -> Run:
    assert by_sql("UPDATE runs_wait SET due_at = now() WHERE run_id = %s AND closed_at IS NULL", run.pk)
    house.sweep()
    return house.work(run)


def only(workflow: Workflow, body: Callable[[Any, Any], Any], **options: Any) -> None:
    """A workflow of one node."""
    workflow.node(name="only", **options)(body)
    workflows.register(workflow)


# ---- time


def test_now_is_the_databases_time_of_the_first_attempt(house: House, define: Define) -> None:
    """C74 (c): no clock of a worker counts. One journal entry each."""
    seen: list[datetime] = []

    def body(state: Any, ctx: Any) -> None:
        seen.extend([ctx.now(), ctx.now()])
        if ctx.attempt == 1:
            raise OSError

    only(define("clocks"), body, retry=Retry(attempts=2, initial=60))
    before = store.now()
    run = due(house, house.work(house.submit("clocks")))
    assert run.status == "completed"
    assert seen[:2] == seen[2:]
    assert before - timedelta(seconds=1) < seen[0] < seen[1]
    assert seen[0].tzinfo == UTC
    assert JournalEntry.objects.filter(run=run, name="ctx.now").count() == 2


def test_chance_stays_under_a_rewind_and_is_new_if_calls_are_made_again(house: House, define: Define) -> None:
    seen: list[Any] = []

    def body(state: Any, ctx: Any) -> None:
        seen.append((ctx.random(), ctx.uuid()))

    only(define("dice"), body)
    run = house.work(house.submit("dice"))
    for calls in ("reuse", "again"):
        operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="once more", calls=calls)
        house.work(run)
    assert seen[0] == seen[1]
    assert seen[2] != seen[0]
    assert not JournalEntry.objects.filter(run=run).exists()


# ---- usage


def test_usage_is_summed_for_call_run_and_workflow_once_however_often_the_body_runs(
    house: House, define: Define
) -> None:
    def ask(ctx: Any) -> str:
        ctx.usage(model_tokens_in=1_000, model_tokens_out=20, cost="0.0042", model="large")
        ctx.usage(model_tokens_in=5, cost=Decimal("0.10"), currency="EUR", model="other")
        return "answer"

    def body(state: Any, ctx: Any) -> dict[str, Any]:
        said = ctx.call(lambda: ask(ctx), name="ask")
        ctx.usage(model_tokens_out=1, cost="0.000000000001")
        if ctx.attempt < 3:
            raise OSError
        return {"x": said}

    only(define("paid"), body, retry=Retry(attempts=3, initial=60))
    run = due(house, due(house, house.work(house.submit("paid"))))
    assert (run.status, state_of(run)["x"]) == ("completed", "answer")
    spent = queries.spent_by(run.pk)
    assert (spent.model_tokens_in, spent.model_tokens_out) == (1_005, 21)
    assert spent.cost == {"USD": Decimal("0.004200000001"), "EUR": Decimal("0.10")}
    by_call = {place[2]: found for place, found in queries.spent_in(run.pk).items()}
    assert by_call["ask"].model_tokens_in == 1_005
    assert by_call["ctx.usage"].cost == {"USD": Decimal("0.000000000001")}
    house.work(house.submit("paid"))  # waits for its first retry, and has paid
    assert queries.spent_by_workflow(house.project.pk)["paid"].model_tokens_in == 2_010


def test_what_a_failed_call_used_counts_and_a_reused_one_does_not(house: House, define: Define) -> None:
    def ask(ctx: Any, attempt: int) -> int:
        ctx.usage(model_tokens_in=10)
        if attempt == 1:
            raise ConnectionError("half an answer")
        return 1

    def body(state: Any, ctx: Any) -> None:
        ctx.call(lambda: ask(ctx, ctx.attempt), name="ask")

    only(define("half"), body, retry=Retry(attempts=2, initial=60))
    run = due(house, house.work(house.submit("half")))
    assert list(Usage.objects.filter(run=run).order_by("id").values_list("call", "failed")) == [
        ("ask", True),
        ("ask", False),
    ]
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="once more")
    house.work(run)
    assert queries.spent_by(run.pk).model_tokens_in == 20


# ---- log and progress


def test_lines_of_a_log_are_kept_once_an_attempt(house: House, define: Define) -> None:
    def body(state: Any, ctx: Any) -> None:
        ctx.log("begins", attempt=ctx.attempt)
        ctx.call(dict, name="work")
        if ctx.attempt == 1:
            raise OSError
        ctx.log("ends")

    only(define("talks"), body, retry=Retry(attempts=2, initial=60))
    run = due(house, house.work(house.submit("talks")))
    said = [
        (line.attempt, line.no, line.message, canonical.loads(line.facts))
        for line in reversed(tracing.lines(run.pk, limit=9))
    ]
    assert said == [(1, 1, "begins", {"attempt": 1}), (2, 1, "begins", {"attempt": 2}), (2, 2, "ends", {})]
    assert history_is_whole(run)


def test_a_replay_in_the_same_attempt_keeps_no_line_twice(house: House, define: Define) -> None:
    """A worker that was asked to end handed the step over: the attempt is the same."""
    killed: list[int] = []

    def body(state: Any, ctx: Any) -> None:
        ctx.log("begins")
        if not killed:
            killed.append(1)
            by_sql("UPDATE runs_workerchild SET leaving_at = now()")
            raise Killed

    only(define("again"), body)
    run = house.submit("again")
    with pytest.raises(Killed):
        house.work(run)
    house.sweep()
    assert house.work(run).status == "completed"
    assert LogLine.objects.filter(run=run).count() == 1


def test_a_run_keeps_only_so_many_lines(
    house: House, define: Define, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stepping, "LOG_LINES", 3)

    def body(state: Any, ctx: Any) -> None:
        for number in range(9):
            ctx.log(number)

    only(define("chatty"), body)
    run = house.work(house.submit("chatty"))
    assert run.status == "completed"
    assert LogLine.objects.filter(run=run).count() == 3


def test_progress_is_on_the_step_while_it_executes(house: House, define: Define) -> None:
    seen: list[Any] = []

    def body(state: Any, ctx: Any) -> None:
        ctx.progress(3, 12, note="pages")
        seen.append((Step.objects.get().progress, queries.stir_of(run.pk)))

    only(define("slow"), body)
    run = house.submit("slow")
    calm = queries.stir_of(run.pk)
    house.work(run)
    progress, stirred = seen[0]
    at = progress.pop("at")
    assert progress == {"done": 3, "total": 12, "note": "pages"}
    assert datetime.fromisoformat(at).tzinfo is not None
    assert stirred != calm


@pytest.mark.parametrize("said", ["log", "progress", "usage", "now"])
def test_a_worker_that_lost_its_step_writes_nothing_and_stops_there(
    house: House, define: Define, said: str
) -> None:
    """C33: every write of a worker names its token."""
    after: list[str] = []

    def body(state: Any, ctx: Any) -> None:
        by_sql("UPDATE runs_step SET token = gen_random_uuid()")
        {
            "log": lambda: ctx.log("late"),
            "progress": lambda: ctx.progress(1),
            "usage": lambda: ctx.usage(model_tokens_in=1),
            "now": ctx.now,
        }[said]()
        after.append("went on")

    only(define("late"), body)
    run = house.submit("late")
    step = Step.objects.get(run=run)
    operations.advance(run_id=run.pk, branch=1, address=step.address)
    assert after == []
    assert OperationalNote.objects.filter(run=run, kind="late_result_discarded").count() == 1
    assert not any(model.objects.filter(run=run).exists() for model in (LogLine, Usage, JournalEntry))
    assert Step.objects.get(run=run).progress is None


# ---- secrets


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    value = "sk-live-4242-0123456789-abcdefghij"
    monkeypatch.setenv("HITL_SECRET_SHOP", value)
    yield value
    secrets.forget()


def everything_stored() -> str:
    """Every value of every column of every table of ours."""
    found = []
    with connection.cursor() as cursor:
        for model in apps.get_app_config("runs").get_models(include_auto_created=True):
            cursor.execute(f'SELECT to_jsonb(t)::text FROM "{model._meta.db_table}" t')
            found += [row[0] for row in cursor.fetchall()]
    return "\n".join(found)


def test_a_secret_is_nowhere_in_the_database(house: House, define: Define, secret: str) -> None:
    """Neither as an argument, nor a result, a state, a question, a log line, progress, usage, nor in an error's text."""
    workflow = define("discreet")

    @workflow.node(retry=Retry(attempts=2, initial=60))
    def work(state: Any, ctx: Any) -> dict[str, Any]:
        token = ctx.secret("shop")
        ctx.log(f"using {token}", token=token)
        ctx.progress(1, note=token)
        ctx.usage(model=token)
        ctx.call(lambda given: {"echo": given}, token, name="echo", undo=None)
        if ctx.attempt == 1:
            raise ValueError(f"401 for {token}")
        return {"x": {"kept": [token]}}

    @workflow.approval
    def ask(state: Any, ctx: Any) -> Action:
        return Action("pay", {"token": ctx.secret("shop")}, editable=["token"])

    workflow.edge(work, ask)
    workflows.register(workflow)
    run = due(house, house.work(house.submit("discreet")))
    assert run.status == "waiting"
    assert state_of(run)["x"] == {"kept": ["[secret shop]"]}
    assert open_approval(run).content["actions"][0]["args"] == {"token": "[secret shop]"}
    stored = everything_stored()
    assert secret not in stored
    assert secret[:16] not in stored


def test_an_error_about_what_was_returned_quotes_no_secret(house: House, define: Define, secret: str) -> None:
    """Validators quote what they refuse."""
    only(define("quoted"), lambda state, ctx: {"log": [ctx.secret("shop"), object()]})
    only(define("wrong"), lambda state, ctx: {ctx.secret("shop"): 1, "log": ctx.secret("shop")})
    for name in ("quoted", "wrong"):
        run = house.work(house.submit(name))
        assert run.status == "failed"
    assert secret[:16] not in everything_stored()


def test_a_missing_secret_fails_the_step_saying_where_it_was_looked_for(house: House, define: Define) -> None:
    only(define("careless"), lambda state, ctx: ctx.secret("nowhere"))
    run = house.work(house.submit("careless"))
    assert run.error is not None
    assert run.error["code"] == "missing_secret"
    assert "HITL_SECRET_NOWHERE" in run.error["message"]
    assert "HITL_SECRETS_DIR" in run.error["message"]


# ---- threads and an event loop


def test_concurrent_calls_are_journalled_and_recovered_by_another_worker(
    house: House, define: Define
) -> None:
    """C25: two of three are journalled when the worker ends; each result is found again by its place."""
    made: list[str] = []
    killed: list[int] = []

    def work(name: str) -> str:
        made.append(name)
        return name.upper()

    def body(state: Any, ctx: Any) -> dict[str, Any]:
        found = ctx.map(work, ["a", "b", "c"])
        if not killed:
            killed.append(1)
            by_sql("DELETE FROM runs_journalentry WHERE occurrence = '1'")
            raise Killed
        return {"x": found}

    only(define("trio"), body)
    run = house.submit("trio")
    with pytest.raises(Killed):
        house.work(run)
    by_sql("UPDATE runs_step SET lease_until = now() - interval '1 second' WHERE status = 'executing'")
    house.sweep()
    run = house.work(run)
    assert (run.status, state_of(run)["x"]) == ("completed", ["A", "B", "C"])
    assert sorted(made) == ["a", "b", "b", "c"]


def test_calls_from_threads_and_async_nodes_leave_no_connection_behind(house: House, define: Define) -> None:
    workflow = define("threads")

    @workflow.node
    def threads(state: Any, ctx: Any) -> dict[str, Any]:
        found: list[Any] = []
        crew = [
            threading.Thread(target=lambda key=key: found.append(ctx.call(str, key, key=key)))
            for key in "abc"
        ]
        for thread in crew:
            thread.start()
        for thread in crew:
            thread.join()
        return {"log": sorted(found)}

    @workflow.node
    async def loop(state: Any, ctx: Any) -> dict[str, Any]:
        async def double(n: int) -> int:
            await asyncio.sleep(0)
            return 2 * n

        ctx.log("in a loop")
        ctx.usage(model_tokens_in=1)
        return {"x": await asyncio.gather(ctx.acall(double, 1), ctx.acall(len, "ab"), ctx.acall(double, 3))}

    workflow.edge(threads, loop)
    workflows.register(workflow)
    before = backends()
    run = house.work(house.submit("threads"))
    assert run.status == "completed", run.error
    assert (state_of(run)["log"], state_of(run)["x"]) == (["a", "b", "c"], [2, 2, 6])
    assert backends() <= before + 1, "the lease keeper's"


def backends() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        count: int = cursor.fetchone()[0]
    return count


# ---- undo


def give_back(receipt: str, amount: int) -> None:
    """What would undo a charge."""


def charging(define: Define, body: Callable[[], Any] = dict) -> None:
    def work(state: Any, ctx: Any) -> None:
        ctx.call(lambda amount: body() or "receipt", 5, name="charge", effect="reversible", undo=give_back)
        raise ValueError("out of stock")

    only(define("undone"), work)


def test_how_calls_are_undone_is_kept_when_the_run_fails_or_is_cancelled(
    house: House, define: Define
) -> None:
    charging(define)
    run = house.work(house.submit("undone"))
    assert run.status == "failed"
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="once more")
    operations.cancel(actor=house.olga, run_id=run.pk)
    entry = JournalEntry.objects.get(run=run, reused_from=None)
    assert canonical.loads(entry.result) == "receipt"
    assert canonical.loads(entry.undo or "") == {
        "function": f"{__name__}:give_back",
        "args": [5],
        "kwargs": {},
    }


def test_a_call_that_was_made_while_the_run_was_cancelled_is_still_known_to_be_undone(
    house: House, define: Define
) -> None:
    """Its result is refused, and its effect has happened."""

    def cancelled() -> None:
        with transaction.atomic():
            run = Run.objects.get()
        operations.cancel(actor=house.olga, run_id=run.pk)

    charging(define, cancelled)
    run = house.work(house.submit("undone"))
    assert run.status == "cancelled"
    facts = OperationalNote.objects.filter(run=run, kind="late_result_discarded").order_by("id").first()
    assert facts is not None
    assert facts.facts["result"] == '"receipt"'
    assert canonical.loads(facts.facts["undo"])["args"] == [5]
