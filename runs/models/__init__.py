"""Fields, constraints, indexes and cheap properties. Verbs are in `runs.operations`, SQL in `runs.store`."""

from runs.models.approvals import Absence, Approval, Revision, Snooze, TeamHours, Vote
from runs.models.attachments import Attachment, Content
from runs.models.delivery import Attempt, Delivery, Endpoint, Link, Message, Notice, Preference
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
from runs.models.sessions import Session
from runs.models.statistics import Counted, Statistic
from runs.models.terms import RunTerm
from runs.models.views import SavedView

__all__ = [
    "Absence",
    "ApiToken",
    "Approval",
    "Attachment",
    "Attempt",
    "AuditEntry",
    "Branch",
    "Checkpoint",
    "Child",
    "Content",
    "Counted",
    "Delivery",
    "Endpoint",
    "Event",
    "IdempotencyRecord",
    "Invitation",
    "JournalEntry",
    "LegalHold",
    "Link",
    "LogLine",
    "Member",
    "Message",
    "Migrated",
    "Notice",
    "OperationalNote",
    "Preference",
    "Project",
    "Removed",
    "RetentionPolicy",
    "Revision",
    "Run",
    "RunTerm",
    "SavedView",
    "ServiceBeat",
    "Session",
    "Signal",
    "Slot",
    "Snooze",
    "Statistic",
    "Step",
    "Stop",
    "Team",
    "TeamHours",
    "Usage",
    "User",
    "Vote",
    "Wait",
    "WorkerChild",
    "WorkflowVersion",
]
