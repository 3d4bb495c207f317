"""How Postgres finds what the named queries ask for: by which index, in whose order.

On tables of a few rows the planner would read them whole, whatever there is to find them by. So that way is closed to it here:
what it still reads whole, or sorts, no index serves.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import psycopg
import pytest
from django.apps import apps
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from runs import inboxes, queries, runlists, stats, store, tracing
from runs.errors import UnknownCheckpoint
from runs.inboxes import Wanted
from runs.models import Approval, Run, User
from runs.runlists import RunFilter
from runs.sql import statement
from runs.store.due import UNHINTED
from runs.tracing import EventFilter
from tests.integration.store.conftest import House

ID: Final = uuid.UUID(int=1)
BIG: Final = (
    "run",
    "branch",
    "checkpoint",
    "event",
    "step",
    "journalentry",
    "wait",
    "approval",
    "vote",
    "signal",
    "child",
    "statistic",
    "usage",
    "runterm",
    "slot",
)


@dataclass(frozen=True)
class Named:
    """A query that is asked often, or of many rows. by: the index that leads it there. sorts: it puts a few rows in order
    that no index has in it."""

    ask: Callable[[], list[dict[str, Any]]]
    by: str
    sorts: bool = False


def explained(text: str, parameters: Any = None) -> list[dict[str, Any]]:
    connection.ensure_connection()
    with psycopg.ClientCursor(connection.connection) as cursor:
        cursor.execute("EXPLAIN (FORMAT JSON) " + text, parameters)
        row = cursor.fetchone()
    assert row is not None
    return list(nodes(row[0][0]["Plan"]))


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


def shape_of(plan: list[dict[str, Any]]) -> frozenset[str]:
    """Which index, or which table where there is none; where rows are put in order."""
    found = set()
    for node in plan:
        if "Index Name" in node:
            found.add(node["Index Name"])
        elif node["Node Type"] == "Seq Scan":
            found.add(f"all of {node['Relation Name']}")
        elif "Sort" in node["Node Type"]:
            found.add("sorted")
    return frozenset(found)


def sql(name: str) -> Callable[[], list[dict[str, Any]]]:
    """A statement of runs/sql with some parameters: those that it does not name are not looked at."""
    return lambda: explained(statement(name), PARAMETERS)


PARAMETERS: Final[dict[str, Any]] = {
    **dict.fromkeys(("run", "token", "next_token"), ID),
    **dict.fromkeys(
        ("branch", "epoch", "worker", "lease", "parent", "patch_weight", "snapshot_size", "next_visit"), 1
    ),
    **dict.fromkeys(("ordinal", "reused_from", "took", "attempt", "no", "room", "limit"), 1),
    **dict.fromkeys(
        ("address", "node", "lane", "payload", "next_address", "next_node", "name", "occurrence"), "x"
    ),
    **dict.fromkeys(("args_digest", "result", "effect", "key", "arguments", "undo", "message", "facts"), "x"),
    **dict.fromkeys(("patch", "snapshot", "body", "salt", "payload_hash"), b"x"),
    **dict.fromkeys(("checkpoint", "calls", "reason", "author"), "1"),
    "exceptions": "[]",
    "places": [],
    "branches": [1],
    "addresses": ["x"],
    "used": "[]",
    "guard": None,
    "progress": "{}",
    "runs": None,
}


def orm(ask: Callable[[], Any]) -> Callable[[], list[dict[str, Any]]]:
    """What an ORM query comes to, all its statements together."""

    def plan() -> list[dict[str, Any]]:
        with CaptureQueriesContext(connection) as captured:
            found = ask()
            if hasattr(found, "__iter__") and not isinstance(found, (list, dict, tuple)):
                list(found)
        texts = [query["sql"] for query in captured if query["sql"].startswith(("SELECT", "WITH"))]
        return [node for text in texts for node in explained(text)]

    return plan


def listed(**which: Any) -> Callable[[], list[dict[str, Any]]]:
    return orm(lambda: runlists.page(ID, RunFilter(**which), limit=50))


MOMENT: Final = datetime(2026, 1, 1, tzinfo=UTC)
RUN: Final = Run(pk=ID, branch=1, project_id=ID)
PERSON: Final = User(pk=1, username="x")
ASKED: Final = inboxes.Asked(PERSON, [inboxes.AskedSeat(PERSON, frozenset({"a"}), reviewer=True)])


def inbox(*, after: str = "", **wanted: str) -> Callable[[], list[dict[str, Any]]]:
    """A page of approvals, and of their lines in the inbox: the first or one behind some row of this order."""
    row = Approval(pk=ID, opened_at=MOMENT, closed_at=MOMENT, due_key=MOMENT, risk_key=1)
    place = inboxes.cursor(row, after) if after else ""
    told: dict[str, Any] = {"after": place, "limit": 50}
    return orm(
        lambda: [
            inboxes.page(ID, Wanted(**wanted), ASKED, **told),
            inboxes.items(ID, Wanted(**wanted), ASKED, **told),
        ]
    )


NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)

NAMED: Final = {
    "commit_step": Named(sql("commit_step"), "runs_step_pkey"),
    "commit_call": Named(sql("commit_call"), "runs_step_pkey"),
    "note_usage": Named(sql("note_usage"), "runs_step_pkey"),
    "note_log": Named(sql("note_log"), "runs_logline_pkey"),
    "note_progress": Named(sql("note_progress"), "runs_step_pkey"),
    "due_timers": Named(sql("due_timers"), "wait_due", sorts=True),
    "unhinted": Named(
        lambda: explained(UNHINTED, {"after": 1, "limit": 1, "queues": ["runs"]}), "step_ready"
    ),
    "lapsed_steps": Named(orm(store.lapsed_steps), "step_leased", sorts=True),
    "overdue_runs": Named(orm(store.overdue_runs), "run_deadline"),
    "due_waits": Named(orm(store.due_waits), "wait_due", sorts=True),
    "open_waits": Named(orm(lambda: store.open_waits(RUN, "x")), "wait_open_once"),
    "children_at": Named(orm(lambda: store.children_at(RUN, "x", ("x", "0"))), "child_by_place", sorts=True),
    "size_of_tree": Named(orm(lambda: store.size_of_tree(RUN, limit=10)), "run_of_root"),
    "position": Named(orm(lambda: read(1)), "runs_checkpoint_pkey", sorts=True),
    "past": Named(sql("past"), "step_undoing"),
    "surroundings": Named(sql("surroundings"), "wait_open_once"),
    "line_at": Named(sql("line_at"), "runs_branch_pkey"),
    "begun": Named(sql("begun"), "runs_journalentry_pkey"),
    "start_branch": Named(sql("start_branch"), "runs_checkpoint_pkey"),
    "runs": Named(listed(), "run_list"),
    "newer runs": Named(
        orm(lambda: runlists.page(ID, RunFilter(), after=(store.now(), ID), limit=50)), "run_list"
    ),
    "runs of a status": Named(listed(status="waiting"), "run_list_by_status"),
    "runs of a workflow": Named(listed(workflow="x"), "run_list_by_workflow"),
    "runs of a requester": Named(listed(requester="x"), "run_list_by_requester"),
    "runs that failed alike": Named(listed(error="x"), "run_list_by_error"),
    "runs that retry": Named(listed(status="retrying"), "wait_open_by_kind", sorts=True),
    "runs that stall": Named(listed(status="stalled"), "step_leased", sorts=True),
    "runs with a label": Named(listed(label="shop=berlin"), "term_by_value", sorts=True),
    "runs with a value in their state": Named(listed(state="order_id=1"), "term_by_value", sorts=True),
    "runs by a word": Named(listed(q="berlin"), "term_by_value", sorts=True),
    "runs under a key": Named(listed(limit_key="berlin"), "slot_of_key", sorts=True),
    "inbox": Named(inbox(), "approval_inbox"),
    "inbox, a later page": Named(inbox(after="due"), "approval_inbox"),
    "inbox by risk": Named(inbox(sort="risk", view="open"), "approval_by_risk"),
    "inbox by age": Named(inbox(sort="age", view="open"), "approval_open"),
    "closed approvals": Named(inbox(view="decided"), "approval_closed"),
    "closed approvals, a later page": Named(inbox(view="decided", after="closed"), "approval_closed"),
    "events": Named(orm(lambda: queries.events(ID, after=0, limit=50)), "runs_event_pkey"),
    "newest events": Named(
        orm(lambda: tracing.events(ID, EventFilter(), before=None, limit=50)), "runs_event_pkey"
    ),
    "steps of a window": Named(orm(lambda: tracing.steps_from(ID, 1)), "runs_step_pkey", sorts=True),
    "checkpoints": Named(
        orm(lambda: queries.checkpoints(ID, branch=None, after=0, limit=50)), "runs_checkpoint_pkey"
    ),
    "newest checkpoints": Named(
        orm(lambda: queries.newest_checkpoints(ID, before=None, limit=50)), "runs_checkpoint_pkey"
    ),
    "signals": Named(orm(lambda: queries.signals(ID, after=0, limit=50)), "signal_number_once"),
    "forks": Named(orm(lambda: queries.forks_of(ID)), "run_of_origin", sorts=True),
    "statistics": Named(
        orm(lambda: stats.overview(ID, stats.RANGES["30d"], now=NOW)), "statistic_once", sorts=True
    ),
    "open by age": Named(orm(lambda: stats.open_now(ID, NOW)), "approval_open"),
    "children": Named(orm(lambda: queries.children_of(ID)), "child_by_place", sorts=True),
}

# Not led to by a query above, and why they are there.
OTHERS: Final = {
    "slot_taken": "how many slots of a limit are taken, by every run that is let in",
    "wait_for_child": "the wait of a parent, by the child that has ended",
    "run_in_line": "who is at the front of a line",
    "run_paused": "trees that are paused, at every look of the sweeper",
    "run_live_by_version": "how many live runs there are of each version",
    "approval_to_remind": "whom to remind, at every look of the sweeper",
    "runs_vote_in_place_of_id_": "a person in whose place somebody has voted cannot be deleted",
    "approval_words": "a search; see what is asked of many approvals",
    "approval_without_words": "what was stored before it could be searched",
    "journal_guarded": "calls that needed an approval, which are few, for the rule that each had one",
    "event_by_time": "what has happened since the last time, for the statistics",
    "runs_approval_run_id_": "a run's approvals, also those that are closed",
    "runs_approval_previous_id_": "what was asked since, from the card of an earlier approval",
    "run_ended": "retention, oldest first",
    "run_of_parent": "children of a run that goes",
    "runs_wait_run_id_": "a run's waits, also those that are closed",
    "wait_closed": "retention",
    "statistic_by_age": "retention",
    "usage_by_time": "what was used since the last time, for the statistics",
    "runs_usage_run_id_": "what a run used",
    "signal_by_name": "free signals of one name, of runs that get many of others",
    "runs_vote_user_id_": "a person who has voted cannot be deleted",
}


def read(no: int) -> None:
    with suppress(UnknownCheckpoint):
        store.read_position(ID, no)


# Waits as they come to be: nearly all are over, few are open, fewer are due by a clock. In an empty table every index of open
# waits would do as well as the other.
WAITS: Final = """
    INSERT INTO runs_wait (run_id, branch, address, node, kind, closed_at, due_at)
    SELECT gen_random_uuid(), 1, n, 'n', 'timer', CASE WHEN n % 10 > 0 THEN now() END,
      CASE WHEN n % 100 = 0 THEN now() + interval '1 day' END
    FROM generate_series(1, 4000) n
"""


@pytest.fixture
def untouched(house: House) -> Iterator[None]:
    """Tables and statistics that no test before this one has left: they would choose the plan. In a transaction, which is
    taken back: nobody else gets at these tables meanwhile, nor the server's own ANALYZE, which had the plan made anew."""
    tables = [
        model._meta.db_table for model in apps.get_app_config("runs").get_models(include_auto_created=True)
    ]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")  # the history lets nobody else empty it
        cursor.execute(f"TRUNCATE {', '.join(tables)} CASCADE")
        cursor.execute("DELETE FROM pg_statistic WHERE starelid = ANY(%s::regclass[])", [tables])
        cursor.execute(WAITS)
        cursor.execute("RESET session_replication_role")
        cursor.execute("ANALYZE runs_wait")
        yield
        transaction.set_rollback(True)


@pytest.fixture
def only_by_index(untouched: None, name: str) -> Iterator[None]:
    """In empty tables any plan is as cheap as the other: what must not be is made dear."""
    settings = ["enable_seqscan", "enable_bitmapscan"]
    if not NAMED[name].sorts:
        settings.append("enable_sort")
    with connection.cursor() as cursor:
        for name in settings:
            cursor.execute(f"SET {name} = off")
    yield
    with connection.cursor() as cursor:
        for name in settings:
            cursor.execute(f"RESET {name}")


@pytest.mark.parametrize("name", NAMED)
def test_a_named_query_is_led_by_its_index(only_by_index: None, name: str) -> None:
    named, shape = NAMED[name], shape_of(NAMED[name].ask())
    assert named.by in shape
    assert not shape & {f"all of runs_{table}" for table in BIG}
    assert named.sorts or "sorted" not in shape


# Approvals of a project that is at work: half are closed, few have a word in common. In an empty table the planner has
# no reason to go by words.
APPROVALS: Final = """
    INSERT INTO runs_approval (id, project_id, run_id, branch, address, node, epoch, status, version, title, document, digest,
      teams, users, quorum, options, outcome, closed_reason, risk, closed_at, due_at, words)
    SELECT gen_random_uuid(), %s, gen_random_uuid(), 1, n, 'ask', 1, CASE WHEN n %% 2 > 0 THEN 'decided' ELSE 'open' END, 1,
      't', '{}', '', ARRAY['a'], '{}', 1, '{}', '', '', 'low', CASE WHEN n %% 2 > 0 THEN now() END,
      now() + n * interval '1 second', array_to_tsvector(ARRAY['refund', 'order' || n, 'tool:pay' || n %% 100])
    FROM generate_series(1, 10000) n
"""
SEARCHES: Final = [
    {"q": "order77", "view": "open"},
    {"q": "order77", "view": "decided"},
    {"tool": "pay7", "view": "decided"},
    {"label": "shop=berlin", "view": "open"},
]


def found_by(told: dict[str, str]) -> list[Any]:
    return list(inboxes.rows(ID, Wanted(**told), ASKED).values("pk"))


@pytest.fixture
def many(untouched: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(APPROVALS, [ID])
        cursor.execute("RESET session_replication_role")
        cursor.execute("SELECT gin_clean_pending_list('approval_words')")  # as autovacuum does
        cursor.execute("ANALYZE runs_approval")


def test_what_is_searched_for_in_many_approvals_is_led_there_by_its_words(many: None) -> None:
    """C104."""
    for told in SEARCHES:
        assert "approval_words" in shape_of(orm(partial(found_by, told))())


# Runs as there are after years: nearly all have ended, a few have not, and hardly any has what is searched for.
RUNS: Final = """
    INSERT INTO runs_run (id, project_id, workflow, workflow_version, fingerprint, status, waiting_for, requester_id, labels,
      input, error, version, epoch, branch, head, checkpoint_no, seq, head_hash, prev_hash, snapshot_no, patch_weight,
      snapshot_size, created_at, finished_at)
    SELECT md5('run' || n)::uuid, %(project)s, 'flow' || n %% 5, '1', '',
      CASE WHEN n %% 1000 = 0 THEN 'waiting' WHEN n %% 100 = 1 THEN 'failed' ELSE 'completed' END, '[]', n %% 50, '{}', '{}',
      CASE WHEN n %% 100 = 1 THEN jsonb_build_object('code', 'code' || n %% 7) END, 1, 1, 1, 0, 0, 1, '', '', 0, 0, 0,
      now() - n * interval '1 minute', CASE WHEN n %% 1000 > 0 THEN now() END
    FROM generate_series(1, 20000) n;
    INSERT INTO runs_runterm (run_id, project_id, kind, name, value)
    SELECT md5('run' || n)::uuid, %(project)s, 'label', 'order', 'order-' || n FROM generate_series(1, 20000) n;
    INSERT INTO runs_slot (run_id, project_id, workflow, name, key, most, whole)
    SELECT md5('run' || n)::uuid, %(project)s, '', 'shop', 'shop-' || n, 1, false FROM generate_series(1, 20000) n;
    INSERT INTO runs_wait (run_id, branch, address, node, kind)
    SELECT md5('run' || n)::uuid, 1, 'x', 'n', CASE WHEN n %% 10000 = 0 THEN 'retry' ELSE 'approval' END
    FROM generate_series(1000, 20000, 1000) n
"""
RARE: Final = {
    "label": {"label": "order=order-77"},
    "word": {"q": "ORDER-77"},
    "short id": {"q": "R-0a1b2c3d"},
    "id": {"q": str(ID)},
    "retrying": {"status": "retrying"},
    "error": {"error": "code3"},
    "error and label": {"error": "code3", "label": "order=order-77"},
    "limit key": {"limit_key": "shop-77"},
    "waiting of one workflow": {"status": "waiting", "workflow": "flow1"},
}


@pytest.fixture
def years(untouched: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(RUNS, {"project": ID})
        cursor.execute("RESET session_replication_role")
        for table in ("run", "runterm", "slot", "wait"):
            cursor.execute(f"ANALYZE runs_{table}")


def test_few_runs_among_many_are_found_without_looking_at_all(years: None) -> None:
    """C104."""
    for name, told in RARE.items():
        shape = shape_of(listed(**told)())
        assert not {part for part in shape if part.startswith("all of") and part != "all of runs_user"}, name


def test_a_page_of_a_list_counts_nothing(house: House) -> None:
    with CaptureQueriesContext(connection) as captured:
        runlists.page(ID, RunFilter(), limit=50)
        inboxes.page(ID, Wanted(), ASKED, limit=50)
        inboxes.page(ID, Wanted(view="decided"), ASKED, limit=50)
    assert not [query["sql"] for query in captured if "COUNT(" in query["sql"]]


def test_every_index_of_a_big_table_is_there_for_a_query(house: House) -> None:
    """What nobody asks by costs at each write all the same."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT index.relname FROM pg_index JOIN pg_class index ON index.oid = indexrelid"
            " WHERE indrelid = ANY(%s::regclass[]) AND NOT indisunique",
            [[f"runs_{table}" for table in BIG]],
        )
        there = {row[0] for row in cursor.fetchall()}
    led = {named.by for named in NAMED.values()}
    unexplained = {name for name in there - led if not any(name.startswith(other) for other in OTHERS)}
    assert unexplained == set()
    gone = {other for other in OTHERS if not any(name.startswith(other) for name in there)}
    assert gone == set()


# Years of history in the order in which it was written; the last minute of it is a page or two.
HISTORY: Final = """
    INSERT INTO runs_event (run_id, seq, kind, branch, epoch, node, address, actor, at, payload_hash, hash)
    SELECT gen_random_uuid(), 1, 'step_completed', 1, 1, '', '', '', now() - (100000 - n) * interval '1 minute', '', ''
    FROM generate_series(1, 100000) n
"""


def test_what_has_happened_since_is_found_without_reading_the_history(untouched: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")  # events of runs that are not there
        cursor.execute(HISTORY)
        cursor.execute("RESET session_replication_role")
        cursor.execute("SELECT brin_summarize_new_values('event_by_time')")
        cursor.execute("ANALYZE runs_event")
    plan = explained(
        statement("count_slice"),
        {"since": datetime.now(UTC) - timedelta(minutes=1), "until": datetime.now(UTC)},
    )
    assert "event_by_time" in shape_of(plan)
    assert "all of runs_event" not in shape_of(plan)
