"""Fields, constraints, indexes and cheap properties. Verbs are in `runs.operations`, SQL in `runs.store`."""

from runs.models.approvals import Approval, Revision, Vote
from runs.models.keeping import LegalHold, Removed, RetentionPolicy
from runs.models.people import ApiToken, Invitation, Member, Project, Team, User
from runs.models.records import AuditEntry, IdempotencyRecord, OperationalNote, ServiceBeat, WorkerChild
from runs.models.runs import (
    Branch,
    Checkpoint,
    Child,
    Event,
    JournalEntry,
    LogLine,
    Migrated,
    Run,
    Signal,
    Slot,
    Step,
    Stop,
    Usage,
    Wait,
    WorkflowVersion,
)

__all__ = [
    "ApiToken",
    "Approval",
    "AuditEntry",
    "Branch",
    "Checkpoint",
    "Child",
    "Event",
    "IdempotencyRecord",
    "Invitation",
    "JournalEntry",
    "LegalHold",
    "LogLine",
    "Member",
    "Migrated",
    "OperationalNote",
    "Project",
    "Removed",
    "RetentionPolicy",
    "Revision",
    "Run",
    "ServiceBeat",
    "Signal",
    "Slot",
    "Step",
    "Stop",
    "Team",
    "Usage",
    "User",
    "Vote",
    "Wait",
    "WorkerChild",
    "WorkflowVersion",
]
