"""Tables as they are declared: they hold what the engine may say, exactly, and every row belongs to a project."""

from __future__ import annotations

import ast
import itertools
import re
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import models as django_models

from runs import engine, models
from runs.driver import context
from runs.engine import canonical, position, workflow
from runs.engine.status import TERMINAL, ApprovalStatus, RunStatus, StepStatus
from runs.engine.waits import ENTRY_OF
from runs.models import Approval, Branch, Checkpoint, JournalEntry, Run, Step, User, Wait, WorkflowVersion
from runs.models.people import ROLES, SCOPES
from runs.models.runs import CHECKPOINT_KINDS, ENTRY_KINDS, WAIT_KINDS
from runs.sql import statement
from runs.store import NEEDS_MIGRATION
from tests.unit.engine.documents import nested
from tests.unit.engine.graphs import Empty

TABLES = [model for model in apps.get_app_config("runs").get_models() if not model._meta.auto_created]
ENGINE = Path(engine.__file__).parent


def room(model: Any, field: str) -> int:
    """How many characters a column takes."""
    length = model._meta.get_field(field).max_length
    assert isinstance(length, int)
    return length


def said_in_engine(function: str, place: int) -> set[str]:
    """Every literal text that the engine passes at this place to this function or class."""
    calls = (
        node
        for path in ENGINE.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == function
    )
    said = [call.args[place] for call in calls if len(call.args) > place]
    return {str(argument.value) for argument in said if isinstance(argument, ast.Constant)}


# ---- what the engine says fits


@pytest.mark.parametrize(
    ("model", "statuses"), [(Run, RunStatus), (Step, StepStatus), (Approval, ApprovalStatus)]
)
def test_every_status_of_the_engine_is_a_choice_that_fits(model: Any, statuses: type[StrEnum]) -> None:
    field = model._meta.get_field("status")
    assert [value for value, _ in field.choices] == [status.value for status in statuses]
    assert max(map(len, statuses)) <= room(model, "status")


def test_every_kind_of_checkpoint_and_wait_of_the_engine_is_known_and_fits() -> None:
    checkpoints, waits = said_in_engine("Checkpoint", 0), said_in_engine("Wait", 2)
    assert {"input", "step", "edit"} <= checkpoints <= set(CHECKPOINT_KINDS)
    wanted = said_in_engine("Wanted", 0)
    assert waits | wanted | {NEEDS_MIGRATION} == set(WAIT_KINDS)
    assert {*ENTRY_OF.values(), "call", "first"} == set(ENTRY_KINDS)
    assert max(map(len, ENTRY_KINDS)) <= room(JournalEntry, "kind")
    assert max(map(len, CHECKPOINT_KINDS)) <= room(Checkpoint, "kind")
    assert max(map(len, WAIT_KINDS)) <= room(Wait, "kind")


def test_every_kind_of_event_of_the_engine_fits() -> None:
    kinds = said_in_engine("Event", 0)
    assert len(kinds) > 10
    assert max(map(len, kinds)) <= room(models.Event, "kind")


@pytest.mark.parametrize(
    "column",
    [
        (Step, "node"),
        (Checkpoint, "node"),
        (models.Event, "node"),
        (JournalEntry, "node"),
        (Wait, "node"),
        (Approval, "node"),
        (Run, "workflow"),
        (WorkflowVersion, "name"),
    ],
    ids=lambda column: f"{column[0].__name__}.{column[1]}",
)
def test_the_longest_name_that_may_be_declared_fits(column: tuple[Any, str]) -> None:
    longest = "x" * room(*column)
    assert workflow._NAME.match(longest)
    assert not workflow._NAME.match(longest + "x")


def test_the_longest_version_fits_with_its_fingerprint() -> None:
    declared = workflow.Workflow("shop", version="x" * 39, state=Empty)
    declared.node(name="a")(lambda state, ctx: None)
    declared.validate()
    assert len(declared.fingerprint) == room(Run, "fingerprint") == room(WorkflowVersion, "fingerprint")
    longest = (
        f"{declared.version}+dev.{declared.fingerprint}"  # as a changed graph is registered in development
    )
    assert len(longest) == room(Run, "workflow_version") == room(WorkflowVersion, "version")


@pytest.mark.parametrize("model", [Step, Checkpoint, models.Event, JournalEntry, Wait, Approval])
def test_an_address_fits(model: Any) -> None:
    assert len(position.address_of("x" * 100, ["y"] * 9)) == room(model, "address")


def test_what_a_call_may_be_named_fits_the_journal() -> None:
    assert (room(JournalEntry, "name"), room(JournalEntry, "occurrence")) == (
        context.MAX_NAME,
        context.MAX_KEY,
    )
    assert max(map(len, context.EFFECTS)) <= room(JournalEntry, "effect")
    assert room(JournalEntry, "args_digest") == len(canonical.digest({}))


def test_every_outcome_and_risk_fits_an_approval() -> None:
    assert max(map(len, (*workflow.OUTCOMES, *workflow.DECISIONS))) <= room(Approval, "outcome")
    assert max(map(len, workflow.RISKS)) <= room(Approval, "risk")
    assert room(Approval, "digest") == len(canonical.digest({}))


@pytest.mark.parametrize(
    ("model", "field"),
    [
        (Run, "input"),
        (Run, "output"),
        (Checkpoint, "patch"),
        (Checkpoint, "snapshot"),
        (JournalEntry, "result"),
        (Approval, "document"),
        (models.Revision, "document"),
        (models.Event, "payload"),
        (models.Vote, "decisions"),
    ],
)
def test_what_must_come_back_exactly_is_kept_as_text(model: Any, field: str) -> None:
    """K2: jsonb makes 1e22 an integer and loses -0.0."""
    column = model._meta.get_field(field)
    assert isinstance(column, django_models.TextField)
    assert column.max_length is None


# ---- every row belongs to a project

OF_THE_INSTALLATION = {
    "User",
    "Session",
    "Project",
    "WorkflowVersion",
    "WorkerChild",
    "ServiceBeat",
    "Counted",
}


def leads_to_project(model: Any, seen: frozenset[str] = frozenset()) -> bool:
    if model.__name__ == "Project":
        return True
    targets = [f.related_model for f in model._meta.fields if f.is_relation and f.related_model is not None]
    return any(leads_to_project(t, seen | {t.__name__}) for t in targets if t.__name__ not in seen | {"User"})


@pytest.mark.parametrize("model", TABLES, ids=lambda model: model.__name__)
def test_every_row_belongs_to_a_project_but_those_of_the_installation(model: Any) -> None:
    assert leads_to_project(model) == (
        model.__name__ == "Project" or model.__name__ not in OF_THE_INSTALLATION
    )


def test_the_models_on_offer_are_all_there_are() -> None:
    assert {model.__name__ for model in TABLES} == set(models.__all__)


def test_constraints_and_indexes_have_names_of_their_own() -> None:
    """Each is mapped to an error by its name."""
    names = [c.name for model in TABLES for c in (*model._meta.constraints, *model._meta.indexes)]
    assert len(names) == len(set(names))
    assert all(len(name) <= 30 for name in names)


@pytest.mark.parametrize(
    ("model", "field", "words"), [(models.Member, "roles", ROLES), (models.ApiToken, "scopes", SCOPES)]
)
def test_roles_and_scopes_are_told_once_and_fit(model: Any, field: str, words: tuple[str, ...]) -> None:
    assert len(set(words)) == len(words)
    assert max(map(len, words)) <= model._meta.get_field(field).base_field.max_length


# ---- cheap properties


@pytest.mark.parametrize("status", RunStatus)
def test_a_run_is_terminal_exactly_in_the_terminal_statuses(status: RunStatus) -> None:
    assert Run(status=status.value).is_terminal == (status in TERMINAL)


@pytest.mark.parametrize(("failures", "crashes"), list(itertools.product(range(3), repeat=2)))
def test_failures_and_crashes_count_as_attempts_and_entries_do_not(failures: int, crashes: int) -> None:
    assert Step(failures=failures, crashes=crashes, entries=9).attempt == failures + crashes + 1


def approval(document: str) -> Approval:
    return Approval(document=document, digest=canonical.digest({"amount": 100, "x": 1.0}))


def test_an_approval_is_intact_as_long_as_it_says_what_was_digested() -> None:
    """C62."""
    assert approval('{"amount":100,"x":1.0}').is_intact
    assert approval('{ "x": 1.0, "amount": 100 }').is_intact
    assert approval('{"amount":100,"x":1.0}').content == {"amount": 100, "x": 1.0}


DAMAGED = {
    "another amount": '{"amount":900,"x":1.0}',
    "an integer for a float": '{"amount":100,"x":1}',
    "a key less": '{"amount":100}',
    "an empty object": "{}",
    "null": "null",
    "a text": '"oops"',
    "no JSON": "oops",
    "nothing": "",
    "half of it": "{",
    "too deep to read": "[" * 100_000,
    "no number": '{"amount":NaN}',
    "no text": '{"amount":"\\ud800"}',
}


@pytest.mark.parametrize("document", DAMAGED.values(), ids=list(DAMAGED))
def test_an_approval_that_was_changed_or_damaged_is_not_intact_and_no_crash(document: str) -> None:
    """C07, C62."""
    assert not approval(document).is_intact


def test_an_approval_of_a_hundred_levels_is_intact() -> None:
    """C11."""
    document = {"actions": [{"args": nested(100)}]}
    assert Approval(document=canonical.dumps(document), digest=canonical.digest(document)).is_intact


def test_rows_name_themselves() -> None:
    """The admin shows these."""
    user = User(username="frida", name="Frida")
    assert (str(user), str(User(username="frida"))) == ("Frida", "frida")
    assert str(models.Project(slug="demo", name="Demo")) == "Demo"
    assert str(WorkflowVersion(name="refund", version="2")) == "refund 2"
    assert str(models.ApiToken(name="shop", prefix="hitl_abc")) == "shop (hitl_abc…)"
    assert str(Run(workflow="refund")).startswith("refund ")
    # No title: it may quote what is hidden from who reads the admin.
    assert str(Approval(title="Pay 100?", node="confirm")).startswith("confirm ")
    assert str(models.Team(name="finance")) == "finance"
    member = models.Member(user=user, project=models.Project(name="Demo"), roles=["viewer", "reviewer"])
    assert str(member) == "Frida in Demo: viewer, reviewer"


@pytest.mark.parametrize(
    ("name", "table", "model", "without"),
    [("lock_run", "run", Run, ("output",)), ("claim_step", "branch", Branch, ())],
)
def test_a_statement_that_gives_whole_rows_names_all_columns_in_the_order_of_the_fields(
    name: str, table: str, model: type[django_models.Model], without: tuple[str, ...]
) -> None:
    """An instance is made of them by their places. Not by `*`: a column that a deploy adds would change what was prepared."""
    text = statement(name)
    selected = text[text.rindex("SELECT ") : text.rindex("FROM ")]
    assert re.findall(rf"\b{table}\.(\w+)", selected) == [
        field.column for field in model._meta.concrete_fields if field.column not in without
    ]
