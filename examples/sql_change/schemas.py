"""What a change is made of: the request, the state of the run, the arguments that people approve, the result."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from examples.sql_change.lexis import MOST_CHARACTERS

Kind = Literal["insert", "update", "delete"]
Outcome = Literal["applied", "rejected", "refused", "given_up"]
Value = str | float | bool | None


class ChangeRequest(BaseModel):
    """What whoever submits the run sends."""

    statement: str = Field(
        max_length=MOST_CHARACTERS, description="One INSERT, UPDATE or DELETE of a table of the schema demo."
    )
    why: str = Field("", max_length=2_000, description="What the change is for, in the requester's words.")
    agent_note: str = Field(
        "", max_length=4_000, description="The words of the agent that submits; shown as such."
    )


class Proposal(BaseModel):
    """A statement that was let through. `text` is written anew from what was understood, and is what is executed."""

    text: str
    kind: Kind
    table: str
    columns: list[str]
    has_where: bool
    removed: list[str]
    """Comments that stood in the statement as it was sent."""


class Sample(BaseModel):
    """Some of the rows. A list of columns beside lists of values: the keys of an object would lose their order."""

    columns: list[str]
    rows: list[list[Value]]


class DryRun(BaseModel):
    """What the statement did in a transaction that was rolled back."""

    rows: int
    table_rows: int
    keys: list[str]
    before_digest: str
    after_digest: str
    sample: Sample
    plan: str
    estimate: int
    """Rows that the planner expected."""
    held_ms: int
    """How long its rows were locked."""


class Receipt(BaseModel):
    """What the database says once the change is committed."""

    key: str
    rows: int
    applied_at: str
    repeated: bool
    """A later attempt found it made already, by its key."""


class Checked(BaseModel):
    """What the rows looked like when they were read again."""

    rows: int
    as_promised: bool


class SqlChange(ChangeRequest):
    """The state: the request, then what each node adds."""

    proposal: Proposal | None = None
    asked: Proposal | None = None
    """The last statement that people were asked about."""
    dry_run: DryRun | None = None
    refusal: str = ""
    """Why the statement is not let through, or why the database would not do it."""
    again: str = ""
    """Why people are asked once more."""
    risk: str = "low"
    risk_reasons: list[str] = []
    receipt: Receipt | None = None
    checked: Checked | None = None
    outcome: Outcome | None = None
    report: str | None = None


class ApplyChange(BaseModel):
    """The arguments that a person approves. Only the statement may be edited; then everything is measured anew."""

    statement: str = Field(max_length=MOST_CHARACTERS, description="Executed exactly as it stands here.")
    rows: int = Field(description="How many rows it changes; with any other number it is rolled back.")
    before_digest: str = Field(
        description="SHA-256 of the statement, the keys and the rows before the change."
    )
    after_digest: str = Field(description="SHA-256 of the keys and the rows after the change.")


class ChangeResult(BaseModel):
    """The output of the run."""

    outcome: Outcome
    statement: str
    receipt: Receipt | None
    checked: Checked | None
    report: str


Images = list[list[Any]]
"""Rows in the order of their keys, each a list of its columns' values."""
