"""What a card is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from runs.engine.workflow import Workflow
from runs.models import Approval, JournalEntry, Revision, Run, Step, Vote
from runs.queries import CallPlace, Spent


@dataclass(frozen=True, slots=True)
class Material:
    """Everything a card is made of, as `runs.queries` reads it."""

    approval: Approval
    run: Run
    workflow: Workflow | None = None
    votes: Sequence[Vote] = ()
    revisions: Sequence[Revision] = ()
    steps: Sequence[Step] = ()
    journal: Sequence[JournalEntry] = ()
    previous: Approval | None = None
    edit: Revision | None = None  # that `previous` was asked again for
    newer: Approval | None = None
    seen: int | None = None
    spent: Mapping[CallPlace, Spent] = field(default_factory=dict)
    hidden: Mapping[str, Sequence[str]] = field(default_factory=dict)  # pointers of arguments, by action
