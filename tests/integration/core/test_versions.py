"""Change of code under parked runs (C80, C82, C84; K7): pinned, migrated once, or waiting for code."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from django.db import connection
from pydantic import BaseModel

from runs import dispatch, operations, store, workflows
from runs.engine import Action, Workflow
from runs.engine.limits import DEFAULT_QUEUE
from runs.errors import (
    Forbidden,
    GraphChanged,
    MigrationFailed,
    MigrationMissing,
    NotFound,
    SchemaNewerThanCode,
    StaleVersion,
    StepExecuting,
    UnknownVersion,
    VersionElsewhere,
)
from runs.models import (
    Approval,
    Checkpoint,
    Event,
    Migrated,
    Run,
    Step,
    Vote,
    Wait,
    WorkerChild,
    WorkflowVersion,
)
from tests.integration.core.conftest import (
    House,
    by_sql,
    history_is_whole,
    kinds_of,
    open_approval,
    state_of,
)
from tests.kit.racing import in_order

NAME = "letters"
Seen = list[tuple[str, str]]


class First(BaseModel):
    log: list[str] = []
    note: str = ""


class Second(BaseModel):
    log: list[str] = []
    remark: str
    risk: str


class Third(Second):
    sent: bool = False


@pytest.fixture(autouse=True)
def forgotten(house: House) -> Any:
    yield
    workflows.unregister(NAME)


def letters(
    version: int, state: type[BaseModel], seen: Seen, *, ask: str = "ask", last: str = "last"
) -> Workflow:
    """begin -> ask -> last, each stamped with the version of the code that ran it."""
    flow = Workflow(NAME, version=version, state=state)

    @flow.node
    def begin(state: Any, ctx: Any) -> dict[str, Any]:
        seen.append(("begin", str(version)))
        return {"log": [*state.log, f"begin {version}"]}

    @flow.approval(name=ask, reviewers=["finance"])
    def asks(state: Any, ctx: Any) -> Action:
        return Action("send", {"to": "all"}, effect="irreversible", editable=["to"])

    @flow.node(name=last)
    def sends(state: Any, ctx: Any) -> dict[str, Any]:
        seen.append(("last", str(version)))
        return {"log": [*state.log, f"last {version} {ctx.approved(ask).args['to']}"]}

    flow.edge("begin", ask)
    flow.edge(ask, last)
    return flow


def to_second(document: dict[str, Any]) -> dict[str, Any]:
    return {"log": document["log"], "remark": document["note"] or "none", "risk": "low"}


def deploy(*flows: Workflow) -> None:
    """From now on this is all the code there is."""
    workflows.unregister(NAME)
    for flow in flows:
        workflows.register(flow)


def a_worker_with(*flows: Workflow) -> WorkerChild:
    code = {"has": [[flow.name, flow.version, flow.fingerprint] for flow in flows], "takes": []}
    return WorkerChild.objects.create(host="elsewhere", pid=1, code=code)


def parked(house: House, seen: Seen) -> tuple[Run, Approval]:
    deploy(letters(1, First, seen))
    run, approval = house.parked(NAME, note="hello")
    operations.leave()  # the worker of the old deployment is gone
    by_sql("DELETE FROM runs_workerchild")
    return run, approval


def rows_of(run: Run) -> str:
    """A digest of every row of a run."""
    tables = [
        "runs_checkpoint",
        "runs_event",
        "runs_step",
        "runs_wait",
        "runs_approval",
        "runs_vote",
        "runs_migrated",
    ]
    digest = hashlib.sha256()
    with connection.cursor() as cursor:
        cursor.execute("SELECT run::text FROM runs_run run WHERE id = %s", [run.pk])
        digest.update(repr(cursor.fetchall()).encode())
        for table in tables:
            of = (
                "approval_id IN (SELECT id FROM runs_approval WHERE run_id = %s)"
                if table == "runs_vote"
                else "run_id = %s"
            )
            cursor.execute(f"SELECT t::text FROM {table} t WHERE {of} ORDER BY 1", [run.pk])
            digest.update(repr(cursor.fetchall()).encode())
    return digest.hexdigest()


def checkpoints_of(run: Run) -> list[tuple[Any, ...]]:
    rows = Checkpoint.objects.filter(run=run).order_by("no")
    return list(rows.values_list("no", "kind", "patch", "snapshot"))


# ---- C80


def test_c80_a_run_finishes_on_the_code_it_began_with_as_long_as_that_is_installed(house: House) -> None:
    seen: Seen = []
    run, approval = parked(house, seen)
    first, second = letters(1, First, seen), letters(2, Second, seen)
    second.migrate(from_version=1)(to_second)
    deploy(first, second)
    house.answer(approval, "approve")
    assert house.work(run).status == "completed"
    assert run.workflow_version == "1"
    assert seen == [("begin", "1"), ("last", "1")]
    assert "state_migrated" not in kinds_of(run)
    newer = house.submit(NAME, remark="x", risk="low")
    assert newer.workflow_version == "2"


def test_c80_without_the_code_it_is_migrated_once_and_the_approval_keeps_its_id(house: House) -> None:
    seen: Seen = []
    run, approval = parked(house, seen)
    before = checkpoints_of(run)
    second = letters(2, Second, seen)
    second.migrate(from_version=1)(to_second)
    deploy(second)
    house.answer(approval, "approve")
    assert house.work(run).status == "completed"
    assert (run.workflow_version, run.fingerprint) == ("2", second.fingerprint)
    assert state_of(run) == {"log": ["begin 1", "last 2 all"], "remark": "hello", "risk": "low"}
    assert seen == [("begin", "1"), ("last", "2")]
    assert list(Approval.objects.filter(run=run).values_list("pk", "status")) == [(approval.pk, "decided")]
    assert kinds_of(run).count("state_migrated") == 1
    assert kinds_of(run).index("state_migrated") < kinds_of(run).index("approval_decided")
    assert checkpoints_of(run)[: len(before)] == before
    assert Checkpoint.objects.get(run=run, kind="migration").no == len(before)
    assert history_is_whole(run)


def test_c80_without_a_migration_the_decision_is_refused_and_nothing_is_asked_again(house: House) -> None:
    seen: Seen = []
    run, approval = parked(house, seen)
    deploy(letters(2, Second, seen))
    for _ in range(3):
        with pytest.raises(MigrationMissing) as caught:
            house.answer(approval, "approve")
        house.sweep()
        house.work(run)
    assert caught.value.facts["version"] == "1"
    approval.refresh_from_db()
    assert approval.status == "open"
    assert not Vote.objects.filter(approval=approval).exists()
    assert Approval.objects.filter(run=run).count() == 1
    assert run.status == "waiting"
    assert [reason["kind"] for reason in run.waiting_for] == ["approval", "needs_migration"]
    assert run.waiting_for[1]["code"] == "migration_missing"
    assert kinds_of(run).count("migration_needed") == 1
    assert history_is_whole(run)


def test_c80_a_new_required_field_without_a_value_is_refused_by_its_pointer(house: House) -> None:
    seen: Seen = []
    run, approval = parked(house, seen)
    second = letters(2, Second, seen)
    second.migrate(from_version=1)(lambda document: {"log": document["log"], "remark": document["note"]})
    deploy(second)
    with pytest.raises(MigrationFailed) as caught:
        house.answer(approval, "approve")
    assert [problem.path for problem in caught.value.errors] == ["/risk"]
    run.refresh_from_db()
    assert (run.workflow_version, run.status) == ("1", "waiting")
    assert run.waiting_for[-1]["code"] == "migration_failed"
    assert open_approval(run).pk == approval.pk


def test_c80_a_key_that_is_gone_is_refused_if_the_migration_leaves_it(house: House) -> None:
    seen: Seen = []
    _, approval = parked(house, seen)
    second = letters(2, Second, seen)
    second.migrate(from_version=1)(lambda document: {**document, **to_second(document)})
    deploy(second)
    with pytest.raises(MigrationFailed) as caught:
        house.answer(approval, "approve")
    assert [(problem.path, problem.code) for problem in caught.value.errors] == [("/note", "extra_forbidden")]


def test_a_renamed_approval_goes_on_under_its_new_name(house: House) -> None:
    seen: Seen = []
    run, approval = parked(house, seen)
    second = letters(2, Second, seen, ask="confirm", last="send")
    second.migrate(from_version=1, nodes={"ask": "confirm", "last": "send"})(to_second)
    deploy(second)
    decided = house.answer(approval, "edit", args={"to": "me"})
    assert decided.approval is not None
    assert decided.approval.status == "open", "an irreversible action is not approved by its editor alone"
    assert run.workflow_version == "1", "what decides nothing needs no code"
    decided = house.answer(Approval.objects.get(pk=approval.pk), "approve", by=house.felix)
    assert decided.approval is not None
    assert (decided.approval.node, decided.approval.pk) == ("confirm", approval.pk)
    assert house.work(run).status == "completed"
    assert state_of(run)["log"][-1] == "last 2 me"


def test_an_approval_whose_node_is_gone_is_refused_by_name(house: House) -> None:
    seen: Seen = []
    run, approval = parked(house, seen)
    second = letters(2, Second, seen, ask="confirm")
    second.migrate(from_version=1)(to_second)
    deploy(second)
    with pytest.raises(MigrationFailed, match="stands at 'ask'") as caught:
        house.answer(approval, "approve")
    assert caught.value.facts["node"] == "ask"
    run.refresh_from_db()
    assert run.waiting_for[-1]["step"] == "ask"


def test_an_approval_cannot_become_a_node_that_asks_nobody(house: House) -> None:
    seen: Seen = []
    _, approval = parked(house, seen)
    second = letters(2, Second, seen, ask="confirm", last="send")
    second.migrate(from_version=1, nodes={"ask": "send"})(to_second)
    deploy(second)
    with pytest.raises(MigrationFailed, match="waits for people, and 'send' is no approval"):
        house.answer(approval, "approve")


# ---- who has the code


def test_a_version_that_a_worker_has_is_neither_migrated_nor_missing(house: House) -> None:
    """A rolling deploy: the web process is new, a worker is old."""
    seen: Seen = []
    run, approval = parked(house, seen)
    a_worker_with(letters(1, First, seen))
    second = letters(2, Second, seen)
    second.migrate(from_version=1)(to_second)
    deploy(second)
    with pytest.raises(VersionElsewhere):
        house.answer(approval, "approve")
    by_sql("UPDATE runs_run SET updated_at = now() - interval '1 hour'")
    house.sweep()
    run.refresh_from_db()
    assert (run.workflow_version, [reason["kind"] for reason in run.waiting_for]) == ("1", ["approval"])
    by_sql("UPDATE runs_workerchild SET gone_at = now()")
    with pytest.raises(VersionElsewhere):
        house.answer(approval, "approve")  # it has gone a moment ago: it may only be restarting
    by_sql("UPDATE runs_workerchild SET gone_at = now() - interval '1 min'")
    house.answer(approval, "approve")
    assert house.work(run).status == "completed"
    assert run.workflow_version == "2"


def test_c82_a_worker_without_the_version_leaves_the_run_and_no_attempt_is_consumed(house: House) -> None:
    """The hint goes on to those who have it: whoever took one listens longest when the next is given, and would take that too."""
    seen: Seen = []
    deploy(letters(1, First, seen))
    run = house.submit(NAME)
    old = a_worker_with(letters(1, First, seen))
    deploy(letters(2, Second, seen))
    step, hints = Step.objects.get(run=run), dispatch.length(run.queue)
    for _ in range(2):  # where nobody else listens it comes back, and is let be
        operations.advance(run_id=run.pk, branch=1, address=step.address)
    assert dispatch.length(run.queue) == hints + 1
    step.refresh_from_db()
    assert (step.status, step.entries, step.attempt) == ("ready", 0, 1)
    assert kinds_of(run) == ["run_submitted"]
    old.delete()
    operations.advance(run_id=run.pk, branch=1, address=step.address)
    run.refresh_from_db()
    assert (run.status, run.waiting_for[0]["code"]) == ("queued", "migration_missing")
    deploy(letters(1, First, seen), letters(2, Second, seen))
    house.work(run)
    assert seen == [("begin", "1")]
    assert Step.objects.get(run=run, node="begin").attempt == 1


def test_the_sweeper_finds_runs_without_code_and_those_whose_code_is_back(house: House) -> None:
    seen: Seen = []
    run, approval = parked(house, seen)
    touched = parked(house, seen)[0]
    first, second = letters(1, First, seen), letters(2, Second, seen)
    deploy(second)
    house.sweep()
    run.refresh_from_db()
    assert len(run.waiting_for) == 1, "without any worker, workers are what is missing"
    a_worker_with(second)
    by_sql("UPDATE runs_run SET updated_at = now() - interval '1 hour' WHERE id = %s", run.pk)
    house.sweep()
    run.refresh_from_db()
    assert run.waiting_for[1]["kind"] == "needs_migration"
    touched.refresh_from_db()
    assert len(touched.waiting_for) == 1, "something has just touched it"
    house.sweep()
    assert kinds_of(run).count("migration_needed") == 1
    a_worker_with(first, second)
    house.sweep()
    run.refresh_from_db()
    assert [reason["kind"] for reason in run.waiting_for] == ["approval"]
    assert kinds_of(run)[-1] == "code_is_back"
    deploy(first, second)
    house.answer(approval, "approve")
    assert house.work(run).status == "completed"
    assert history_is_whole(run)


def test_steps_of_a_run_without_code_are_told_to_nobody(house: House) -> None:
    seen: Seen = []
    deploy(letters(1, First, seen))
    run = house.submit(NAME)
    by_sql("DELETE FROM runs_workerchild")
    deploy(letters(2, Second, seen))
    by_sql("UPDATE runs_step SET hinted_at = now() - interval '1 hour'")
    assert len(store.unhinted_steps(DEFAULT_QUEUE, limit=10)) == 1
    operations.advance(run_id=run.pk, branch=1, address=Step.objects.get(run=run).address)
    by_sql("UPDATE runs_step SET hinted_at = now() - interval '1 hour'")
    assert store.unhinted_steps(DEFAULT_QUEUE, limit=10) == []


def test_due_times_of_a_run_without_code_hold_up_no_other(house: House) -> None:
    seen: Seen = []
    run, approval = parked(house, seen)
    by_sql("UPDATE runs_wait SET due_at = now() - interval '1 min'")
    by_sql("UPDATE runs_approval SET due_at = now() - interval '1 min'")
    deploy(letters(2, Second, seen))
    assert house.sweep().failed == 0
    run.refresh_from_db()
    assert run.waiting_for[-1]["kind"] == "needs_migration"
    assert store.due_waits() == []
    second = letters(2, Second, seen)
    second.migrate(from_version=1)(to_second)
    deploy(second)
    operations.leave()
    operations.worker()
    house.sweep()
    house.sweep()
    approval.refresh_from_db()
    run.refresh_from_db()
    assert (approval.status, approval.outcome, run.workflow_version) == ("expired", "timeout", "2")


# ---- C82


def test_c82_the_same_version_with_another_graph_does_not_register(house: House) -> None:
    seen: Seen = []
    deploy(letters(1, First, seen))
    run = house.submit(NAME)
    by_sql("DELETE FROM runs_workerchild")
    changed = letters(1, First, seen, last="final")
    deploy(changed)
    with pytest.raises(GraphChanged, match="node last is now final") as caught:
        operations.register_workflows()
    assert "edge ask -> final is new" in caught.value.facts["changes"]
    with pytest.raises(SystemExit, match="raise version="):
        operations.register_or_stop()
    with pytest.raises(GraphChanged):
        house.submit(NAME)
    operations.advance(run_id=run.pk, branch=1, address=Step.objects.get(run=run).address)
    by_sql("UPDATE runs_run SET updated_at = now() - interval '1 hour'")
    house.sweep()
    run.refresh_from_db()
    assert (run.status, run.waiting_for[0]["code"]) == ("queued", "graph_changed_without_version")
    assert seen == []
    second = letters(2, First, seen, last="final")
    deploy(letters(1, First, seen), second)
    operations.register_workflows()
    assert not WorkflowVersion.objects.filter(refused__isnull=False).exists()
    operations.worker()
    house.sweep()
    house.work(run)
    other = house.work(house.submit(NAME))
    assert (run.workflow_version, other.workflow_version) == ("1", "2")
    assert seen == [("begin", "1"), ("begin", "2")]


def test_in_development_a_changed_graph_is_a_version_of_its_own(house: House, settings: Any) -> None:
    seen: Seen = []
    deploy(letters(1, First, seen))
    house.submit(NAME)
    settings.DEBUG = True
    changed = letters(1, First, seen, last="final")
    deploy(changed)
    operations.register_workflows()
    run = house.submit(NAME)
    assert run.workflow_version == f"1+dev.{changed.fingerprint}"
    assert house.work(run).status == "waiting"


# ---- C84


def chain(version: int, seen: Seen) -> Workflow:
    flow = letters(version, Third, seen)

    @flow.migrate(from_version=1, to=2)
    def second(document: dict[str, Any]) -> dict[str, Any]:
        return to_second(document)

    @flow.migrate(from_version=2, to=3)
    def third(document: dict[str, Any]) -> dict[str, Any]:
        if document["remark"] == "bad":
            raise ValueError("cannot be read")
        return {**document, "log": [*document["log"], "to 3"]}

    @flow.migrate(from_version=3)
    def fourth(document: dict[str, Any]) -> dict[str, Any]:
        return {**document, "log": [*document["log"], "to 4"], "sent": False}

    return flow


def test_c84_a_chain_is_applied_in_order_once_and_old_checkpoints_stay(house: House) -> None:
    seen: Seen = []
    run, approval = parked(house, seen)
    before = checkpoints_of(run)
    deploy(chain(4, seen))
    house.answer(approval, "approve")
    house.work(run)
    assert state_of(run)["log"] == ["begin 1", "to 3", "to 4", "last 4 all"]
    assert checkpoints_of(run)[: len(before)] == before
    event = Event.objects.get(run=run, kind="state_migrated")
    assert event.payload is not None
    assert '"way":["1","2","3","4"]' in event.payload
    assert Migrated.objects.get(run=run).to_version == "4"


def test_c84_a_migration_that_raises_stops_its_run_alone(house: House) -> None:
    seen: Seen = []
    deploy(letters(1, First, seen))
    bad, asked = house.parked(NAME, note="bad")
    good, other = house.parked(NAME, note="good")
    operations.leave()
    by_sql("DELETE FROM runs_workerchild")
    deploy(chain(4, seen))
    with pytest.raises(MigrationFailed, match="from 2 to 3: ValueError: cannot be read") as caught:
        house.answer(asked, "approve")
    assert [problem.path for problem in caught.value.errors] == [""]
    house.answer(other, "approve")
    assert house.work(good).status == "completed"
    bad.refresh_from_db()
    assert (bad.status, bad.workflow_version, open_approval(bad).pk) == ("waiting", "1", asked.pk)


def test_c84_a_version_newer_than_the_code_is_never_read_as_something_else(house: House) -> None:
    seen: Seen = []
    run, approval = parked(house, seen)
    by_sql("UPDATE runs_run SET workflow_version = '9'")
    deploy(chain(4, seen))
    with pytest.raises(SchemaNewerThanCode, match="version 9"):
        house.answer(approval, "approve")
    run.refresh_from_db()
    assert run.waiting_for[-1]["code"] == "schema_newer_than_code"


def test_c84_two_workers_migrate_a_run_once(house: House) -> None:
    seen: Seen = []
    deploy(letters(1, First, seen))
    run = house.submit(NAME)
    by_sql("DELETE FROM runs_workerchild")
    deploy(chain(4, seen))
    address = Step.objects.get(run=run).address

    def advance() -> None:
        operations.advance(run_id=run.pk, branch=1, address=address)

    in_order(run.pk, advance, advance)
    assert kinds_of(run).count("state_migrated") == 1
    assert Migrated.objects.filter(run=run).count() == 1
    assert seen == [("begin", "4")]
    assert history_is_whole(run)


def test_c84_a_rewind_to_a_checkpoint_of_version_1_migrates_it_again(house: House) -> None:
    seen: Seen = []
    run, approval = parked(house, seen)
    deploy(chain(4, seen))
    house.answer(approval, "approve")
    house.work(run)
    before = checkpoints_of(run)
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="again")
    run.refresh_from_db()
    assert state_of(run)["log"] == ["to 3", "to 4"]
    assert kinds_of(run).count("state_migrated") == 2
    assert store.version_at(run, 0) == store.version_at(run, 1) == "1"
    assert store.version_at(run, run.head) == "4"
    assert checkpoints_of(run)[: len(before)] == before
    house.work(run)
    house.answer(open_approval(run), "approve")
    assert house.work(run).status == "completed"
    assert seen[-2:] == [("begin", "4"), ("last", "4")]
    assert history_is_whole(run)


def test_c84_a_rewind_with_an_edit_edits_what_was_migrated(house: House) -> None:
    seen: Seen = []
    run, _ = parked(house, seen)
    deploy(chain(4, seen))
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="x", changes={"remark": "edited"})
    run.refresh_from_db()
    assert run.workflow_version == "4"
    assert state_of(run)["remark"] == "edited"
    kinds = list(Checkpoint.objects.filter(run=run, branch=2).order_by("no").values_list("kind", flat=True))
    assert kinds == ["migration", "edit"]
    assert house.work(run).status == "waiting"


def test_c84_a_fork_of_an_old_checkpoint_starts_at_the_code_that_is_there(house: House) -> None:
    seen: Seen = []
    run, _ = parked(house, seen)
    before = rows_of(run)
    deploy(chain(4, seen))
    fork = operations.fork(actor=house.olga, run_id=run.pk, checkpoint=1, reason="what if").run
    assert (fork.workflow_version, run.workflow_version) == ("4", "1")
    assert state_of(fork)["log"] == ["begin 1", "to 3", "to 4"]
    house.work(fork)
    house.answer(open_approval(fork), "approve")
    assert house.work(fork).status == "completed"
    assert rows_of(run) == before


def test_a_run_whose_head_cannot_be_migrated_can_be_rewound_to_where_it_can(house: House) -> None:
    """The third choice: the approval's node is gone, what was before it is not."""
    seen: Seen = []
    run, approval = parked(house, seen)
    second = letters(2, Second, seen, ask="confirm")
    second.migrate(from_version=1)(to_second)
    deploy(second)
    with pytest.raises(MigrationFailed):
        house.answer(approval, "approve")
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="the node is gone")
    house.work(run)
    assert [reason["kind"] for reason in run.waiting_for] == ["approval"]
    assert open_approval(run).node == "confirm"
    assert run.workflow_version == "2"


# ---- by an operator


def test_an_operator_migrates_a_run_whose_code_is_still_there(house: House) -> None:
    seen: Seen = []
    run, approval = parked(house, seen)
    second = letters(2, Second, seen)
    second.migrate(from_version=1)(to_second)
    deploy(letters(1, First, seen), second)
    before = rows_of(run)
    preview = operations.preview_migration(actor=house.olga, run_id=run.pk, to="2")
    assert (preview.way, preview.next, preview.nodes) == (["1", "2"], ["ask"], [])
    assert (preview.before["note"], preview.state["remark"]) == ("hello", "hello")
    assert rows_of(run) == before
    operations.migrate(actor=house.olga, run_id=run.pk, to="2", reason="fixed", version=run.version)
    run.refresh_from_db()
    assert (run.workflow_version, run.status, open_approval(run).pk) == ("2", "waiting", approval.pk)
    checkpoint = Checkpoint.objects.get(run=run, no=run.head)
    assert checkpoint.author is not None
    assert (checkpoint.kind, checkpoint.author["name"], checkpoint.reason) == ("migration", "olga", "fixed")
    with pytest.raises(StaleVersion):
        operations.migrate(actor=house.olga, run_id=run.pk, to="1", reason="x", version=run.version - 1)
    with pytest.raises(UnknownVersion):
        operations.migrate(actor=house.olga, run_id=run.pk, to="2", reason="x")
    with pytest.raises(MigrationMissing):
        operations.migrate(actor=house.olga, run_id=run.pk, to="1", reason="back")


def test_only_operators_migrate(house: House) -> None:
    seen: Seen = []
    run, _ = parked(house, seen)
    for actor in (house.frida, house.shop, house.vera):
        with pytest.raises(Forbidden):
            operations.migrate(actor=actor, run_id=run.pk, reason="x")
        with pytest.raises(Forbidden):
            operations.preview_migration(actor=actor, run_id=run.pk)
    with pytest.raises(NotFound):
        operations.migrate(actor=house.olga, run_id="nonsense", reason="x")


def test_a_run_whose_step_executes_is_not_migrated(house: House) -> None:
    seen: Seen = []
    flow = letters(1, First, seen)
    deploy(flow)
    run = house.submit(NAME)
    second = letters(2, Second, seen)
    second.migrate(from_version=1)(to_second)
    deploy(flow, second)
    claimed = store.claim(
        run_id=run.pk, branch=1, address=Step.objects.get(run=run).address, worker=operations.worker().id
    )
    assert claimed is not None
    with pytest.raises(StepExecuting):
        operations.migrate(actor=house.olga, run_id=run.pk, reason="x")


def test_a_failed_run_is_migrated_to_where_it_is_mended_and_retried(house: House) -> None:
    flow = Workflow(NAME, version=1, state=First)

    @flow.node
    def breaks(state: Any, ctx: Any) -> None:
        raise ValueError("a bug")

    deploy(flow)
    run = house.work(house.submit(NAME, note="x"))
    assert run.status == "failed"
    second = Workflow(NAME, version=2, state=Second)

    @second.node
    def mended(state: Any, ctx: Any) -> dict[str, Any]:
        return {"log": [f"mended {state.remark}"]}

    second.migrate(from_version=1, nodes={"breaks": mended})(to_second)
    deploy(second)
    operations.migrate(actor=house.olga, run_id=run.pk, reason="fixed")
    run.refresh_from_db()
    assert run.status == "failed"
    operations.retry(actor=house.olga, run_id=run.pk)
    assert house.work(run).status == "completed"
    assert state_of(run)["log"] == ["mended x"]


def test_what_died_while_the_code_went_is_handed_over_and_migrated(house: House) -> None:
    seen: Seen = []
    flow = letters(1, First, seen)
    deploy(flow)
    run = house.submit(NAME)
    step = Step.objects.get(run=run)
    assert store.claim(run_id=run.pk, branch=1, address=step.address, worker=operations.worker().id)
    operations.leave()
    by_sql("UPDATE runs_workerchild SET gone_at = now() - interval '1 hour'")
    second = letters(2, Second, seen)
    second.migrate(from_version=1)(to_second)
    deploy(second)
    assert house.sweep().taken_over == 1
    house.work(run)
    assert (run.status, run.workflow_version) == ("waiting", "2")
    assert seen == [("begin", "2")]
    assert Wait.objects.filter(run=run, kind="needs_migration").count() == 0
