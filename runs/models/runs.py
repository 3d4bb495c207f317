from __future__ import annotations

import uuid

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import F, Q, Value
from django.db.models.fields.json import KT
from django.db.models.functions import Now

from runs.engine import canonical
from runs.engine.limits import DEFAULT_QUEUE, PRIORITIES
from runs.engine.status import TERMINAL, RunStatus, StepStatus
from runs.models.guards import CheckedByFunction, CheckedWhenWritten
from runs.models.packed import PackedText
from runs.models.people import ApiToken, Project, User

RUN_STATUSES = [(status.value, status.value) for status in RunStatus]
ENDED = sorted(status.value for status in TERMINAL)  # a set has no order that a migration could keep
STEP_STATUSES = [(status.value, status.value) for status in StepStatus]
WAIT_KINDS = ("approval", "retry", "timer", "signal", "child", "needs_migration")
ENTRY_KINDS = ("call", "sleep", "signal", "answer", "child", "first")
CHECKPOINT_KINDS = ("input", "step", "answer", "edit", "signal", "migration")
IN_LINE = Q(status="queued", admitted_at__isnull=True)


class WorkflowVersion(models.Model):
    """A workflow as it was first registered under a name and version: graph and schemas, for pictures and for checks.

    refused: the newest attempt to register it with another graph (fingerprint, changes, at); gone once its own is back.
    """

    name = models.CharField(max_length=100)
    version = models.CharField(max_length=60)
    fingerprint = models.CharField(max_length=16)
    shape = models.TextField()
    registered_at = models.DateTimeField(db_default=Now())
    refused = models.JSONField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["name", "version"], name="workflow_version_once")]

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class Run(models.Model):
    """One execution of a workflow. The row carries the fences and counters that every commit moves.

    version: raised by run-wide transitions and decisions; people's requests name the one they saw.
    epoch: the run's fence, raised by rewind and cancel. head: the checkpoint the run stands at; checkpoint_no: the last
    number given. seq, head_hash, prev_hash: end of the history. snapshot_no, patch_weight, snapshot_size: when the next
    snapshot is due (0: the next checkpoint is one). parent, root: the run that started this one, and the first of the tree.
    forked_from, forked_checkpoint: the run and the checkpoint of it at which this one began, if it is a fork.
    deadline: how many seconds the run may take, people's time not counted; deadline_at: when they are over if nothing stops
    the clock; time_left: seconds left while it stands.
    paused: while it is paused, who did it and why, whether its children are paused with it, or with which run it is.
    ending: while it takes back its calls, as what it then ends, why, and how many they are.
    erasure: by whom and why its content was erased.
    queue, priority: which workers do it, and who goes first among the runs that stand in `line`. limited: it has slots.
    admitted_at: when it was let in; none while it stands in line, or has nothing to do and will stand in line after that.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="runs", db_index=False)
    workflow = models.CharField(max_length=100)
    workflow_version = models.CharField(max_length=60)
    fingerprint = models.CharField(max_length=16)
    status = models.CharField(max_length=12, choices=RUN_STATUSES, default=RunStatus.QUEUED.value)
    waiting_for = models.JSONField(default=list)
    parent = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, related_name="children", db_index=False
    )
    root = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, related_name="+", db_index=False)
    forked_from = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, related_name="forks", db_index=False
    )
    forked_checkpoint = models.IntegerField(null=True)
    requester = models.ForeignKey(
        User, on_delete=models.PROTECT, related_name="requested_runs", db_index=False
    )
    submitted_by = models.ForeignKey(
        User, on_delete=models.PROTECT, null=True, related_name="+", db_index=False
    )
    token = models.ForeignKey(
        ApiToken, on_delete=models.SET_NULL, null=True, related_name="runs", db_index=False
    )
    labels = models.JSONField(default=dict)
    input = models.TextField()
    output = PackedText(null=True)
    error = models.JSONField(null=True)

    version = models.IntegerField(default=1)
    epoch = models.IntegerField(default=1)
    branch = models.IntegerField(default=1)
    head = models.IntegerField(default=0)
    checkpoint_no = models.IntegerField(default=0)
    seq = models.BigIntegerField(default=0)
    head_hash = models.BinaryField(max_length=32)
    prev_hash = models.BinaryField(max_length=32)
    snapshot_no = models.IntegerField(default=0)
    patch_weight = models.BigIntegerField(default=0)
    snapshot_size = models.BigIntegerField(default=0)

    created_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True)
    updated_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True)
    compacted_at = models.DateTimeField(null=True)
    erased_at = models.DateTimeField(null=True)
    erasure = models.JSONField(null=True)

    paused = models.JSONField(null=True)
    ending = models.JSONField(null=True)
    queue = models.CharField(max_length=60, db_default=DEFAULT_QUEUE, default=DEFAULT_QUEUE)
    priority = models.SmallIntegerField(db_default=0, default=0)
    line = models.CharField(max_length=32, db_default="", default="")
    limited = models.BooleanField(db_default=False, default=False)
    admitted_at = models.DateTimeField(db_default=Now(), null=True)

    deadline = models.FloatField(null=True)
    deadline_at = models.DateTimeField(null=True)
    time_left = models.FloatField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["deadline_at"], condition=Q(deadline_at__isnull=False), name="run_deadline"),
            models.Index(
                fields=["finished_at", "id"], condition=Q(finished_at__isnull=False), name="run_ended"
            ),
            models.Index(fields=["project", "-created_at", "-id"], name="run_list"),
            models.Index(fields=["project", "status", "-created_at", "-id"], name="run_list_by_status"),
            models.Index(fields=["project", "workflow", "-created_at", "-id"], name="run_list_by_workflow"),
            models.Index(fields=["requester", "-created_at", "-id"], name="run_list_by_requester"),
            models.Index(
                "project",
                KT("error__code"),
                F("created_at").desc(),
                F("id").desc(),
                condition=Q(status="failed"),
                name="run_list_by_error",
            ),
            models.Index(fields=["id"], condition=Q(status="paused"), name="run_paused"),
            models.Index(
                fields=["workflow", "workflow_version", "fingerprint"],
                condition=Q(finished_at__isnull=True),
                name="run_live_by_version",
            ),
            models.Index(fields=["parent"], condition=Q(parent__isnull=False), name="run_of_parent"),
            models.Index(fields=["root"], condition=Q(root__isnull=False), name="run_of_root"),
            models.Index(
                fields=["forked_from"], condition=Q(forked_from__isnull=False), name="run_of_origin"
            ),
            models.Index(
                "queue",
                "line",
                F("priority").desc(),
                "created_at",
                "id",
                condition=IN_LINE,
                name="run_in_line",
            ),
        ]
        constraints = [
            CheckedWhenWritten(condition=Q(status__in=[s.value for s in RunStatus]), name="run_status_known"),
            CheckedWhenWritten(
                condition=Q(status__in=ENDED, finished_at__isnull=False)
                | (~Q(status__in=ENDED) & Q(finished_at__isnull=True)),
                name="run_finished_iff_terminal",
            ),
            CheckedWhenWritten(
                condition=Q(status="failed", error__isnull=False) | ~Q(status="failed"),
                name="run_failed_has_error",
            ),
            CheckedWhenWritten(
                condition=Q(status="paused", paused__isnull=False)
                | (~Q(status="paused") & Q(paused__isnull=True)),
                name="run_paused_is_told",
            ),
            CheckedWhenWritten(
                condition=(Q(ending__isnull=True) & ~Q(status="cancelling"))
                | Q(ending__isnull=False, status__in=["cancelling", "running", "paused"]),
                name="run_ending_is_live",
            ),
            CheckedWhenWritten(
                condition=Q(erased_at__isnull=True, erasure__isnull=True)
                | Q(erased_at__isnull=False, erasure__isnull=False, finished_at__isnull=False),
                name="run_erased_is_told",
            ),
            models.CheckConstraint(condition=Q(head__lte=models.F("checkpoint_no")), name="run_head_exists"),
            CheckedWhenWritten(
                condition=~Q(status="running") | Q(admitted_at__isnull=False), name="run_at_work_is_admitted"
            ),
            CheckedWhenWritten(
                condition=Q(limited=False) | ~Q(status__in=["waiting", *ENDED]) | Q(admitted_at__isnull=True),
                name="run_at_rest_stands_in_line",
            ),
            CheckedWhenWritten(
                condition=Q(priority__gte=PRIORITIES[0], priority__lte=PRIORITIES[-1]),
                name="run_priority_in_bounds",
            ),
            CheckedWhenWritten(
                condition=Q(forked_from__isnull=True) | Q(forked_checkpoint__isnull=False),
                name="run_fork_has_checkpoint",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.workflow} {self.id}"

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL

    @property
    def is_in_line(self) -> bool:
        """Whether it has something to do and was not let in yet."""
        return self.status == RunStatus.QUEUED and self.admitted_at is None


class Slot(models.Model):
    """A run's place under one limit: taken while it may be at work (of a concurrency limit), or since it started (of a rate).

    workflow: whose limit it is; empty for the project's own. most: what the limit lets in; per: within how many seconds, of a
    rate. whole: kept until the run ends, also while it waits. Who takes slots of a limit holds its lock (`store.slots`).
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="slots", db_index=False)
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="+", db_index=False)
    workflow = models.CharField(max_length=100)
    name = models.CharField(max_length=60)
    key = models.CharField(max_length=200)
    most = models.IntegerField()
    per = models.FloatField(null=True)
    whole = models.BooleanField(default=False)
    taken_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "workflow", "name"], name="slot_once"),
            models.CheckConstraint(condition=Q(most__gte=1), name="slot_limit_is_positive"),
        ]
        indexes = [
            models.Index(
                fields=["project", "workflow", "name", "key", "taken_at"],
                condition=Q(taken_at__isnull=False),
                name="slot_taken",
            ),
            models.Index(fields=["project", "key"], name="slot_of_key"),
        ]


class Branch(models.Model):
    """A line of checkpoints. A rewind starts a new one; `generation` is the branch of the last rewind with calls=again.

    exceptions: calls that were set apart from `calls`, each as [address, name, occurrence]. generations: by the text of such a
    place, the generation of a call where it is not that of the branch; handed on to branches that start here.
    draws: of a fork, by address of a step that was under way, the run and the generation from which it goes on drawing chance.
    """

    pk = models.CompositePrimaryKey("run_id", "no")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="branches", db_index=False)
    no = models.IntegerField()
    parent_branch = models.IntegerField(null=True)
    parent_checkpoint = models.IntegerField(null=True)
    epoch = models.IntegerField()
    calls = models.CharField(max_length=8, default="reuse")
    exceptions = models.JSONField(db_default=Value([], models.JSONField()), default=list)
    generation = models.IntegerField(default=0)
    generations = models.JSONField(db_default=Value({}, models.JSONField()), default=dict)
    draws = models.JSONField(null=True)
    label = models.CharField(max_length=100, db_default="", default="")
    author = models.JSONField(null=True)
    reason = models.TextField(default="")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(calls__in=["reuse", "again"]), name="branch_calls_known"),
            models.CheckConstraint(
                condition=Q(no=1, parent_branch__isnull=True, parent_checkpoint__isnull=True)
                | Q(no__gt=1, parent_branch__isnull=False, parent_checkpoint__isnull=False),
                name="branch_has_parent_but_first",
            ),
        ]

    def reuses(self, address: str, name: str, occurrence: str) -> bool:
        """Whether this branch takes the result of a call from one that was left behind."""
        return (self.calls == "reuse") != ([address, name, occurrence] in self.exceptions)

    def generation_of(self, address: str, name: str, occurrence: str) -> int:
        """The branch of the last rewind that had this call made again."""
        found: int = self.generations.get(place_of(address, name, occurrence), self.generation)
        return found


def place_of(address: str, name: str, occurrence: str) -> str:
    """A call's place as one text, as `Branch.generations` has it."""
    return canonical.dumps([address, name, occurrence])


class Checkpoint(models.Model):
    """The run's position after a committed transition: a patch against the one before, or a full snapshot. Never rewritten."""

    pk = models.CompositePrimaryKey("run_id", "no")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="checkpoints", db_index=False)
    no = models.IntegerField()
    branch = models.IntegerField()
    parent = models.IntegerField(null=True)
    kind = models.CharField(max_length=10)
    node = models.CharField(max_length=100, default="")
    address = models.CharField(max_length=32, default="")
    epoch = models.IntegerField()
    snapshot_no = models.IntegerField()
    patch = PackedText(null=True)
    snapshot = PackedText(null=True)
    author = models.JSONField(null=True)
    reason = models.TextField(default="")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            CheckedByFunction(condition=Q(kind__in=CHECKPOINT_KINDS), name="checkpoint_kind_known"),
            CheckedByFunction(
                condition=Q(snapshot__isnull=False, patch__isnull=True, snapshot_no=models.F("no"))
                | Q(snapshot__isnull=True, patch__isnull=False, snapshot_no__lt=models.F("no")),
                name="checkpoint_patch_or_snapshot",
            ),
        ]


class Migrated(models.Model):
    """A checkpoint at which a run came to another version of its workflow; those before it are stored as the version before."""

    pk = models.CompositePrimaryKey("run_id", "checkpoint")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="migrations", db_index=False)
    checkpoint = models.IntegerField()
    branch = models.IntegerField()
    from_version = models.CharField(max_length=60)
    to_version = models.CharField(max_length=60)
    at = models.DateTimeField()


class Event(models.Model):
    """One row of a run's append-only history. The hash covers the row before, the number, the time and the payload's hash."""

    pk = models.CompositePrimaryKey("run_id", "seq")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events", db_index=False)
    seq = models.BigIntegerField()
    kind = models.CharField(max_length=40)
    branch = models.IntegerField()
    epoch = models.IntegerField()
    checkpoint = models.IntegerField(null=True)
    node = models.CharField(max_length=100, default="")
    address = models.CharField(max_length=32, default="")
    actor = models.TextField(default="")
    at = models.DateTimeField()
    payload = models.TextField(null=True)
    salt = models.BinaryField(max_length=16, null=True)
    payload_hash = models.BinaryField(max_length=32)
    hash = models.BinaryField(max_length=32)

    class Meta:
        # By ranges of pages, which hold what was written together: no entry for each event.
        indexes = [BrinIndex(fields=["at"], name="event_by_time")]


class Step(models.Model):
    """One visit of one node on one branch, with its attempts and, while a worker has it, its lease.

    token: the attempt's fence, new with every claim. failures and crashes count attempts since the last Retry, `earlier`
    those before it; entries counts every claim.
    hinted_at: when a worker was last told about it. worked: seconds of this attempt in earlier entries. progress: what the
    body last said of itself. overdue: why the watchdog was about to end its process.
    undoes: of a step that takes a call back, that call: branch, address, name, occurrence.
    """

    pk = models.CompositePrimaryKey("run_id", "branch", "address")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="steps", db_index=False)
    branch = models.IntegerField()
    address = models.CharField(max_length=32)
    lane = models.CharField(max_length=100)
    node = models.CharField(max_length=100)
    visit = models.IntegerField()
    status = models.CharField(max_length=10, choices=STEP_STATUSES, default=StepStatus.READY.value)
    epoch = models.IntegerField()
    token = models.UUIDField(null=True)
    worker = models.BigIntegerField(null=True)
    lease_until = models.DateTimeField(null=True)
    failures = models.IntegerField(default=0)
    crashes = models.IntegerField(default=0)
    earlier = models.IntegerField(db_default=0, default=0)
    entries = models.IntegerField(default=0)
    error = models.JSONField(null=True)
    checkpoint = models.IntegerField(null=True)
    created_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True)
    entered_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    hinted_at = models.DateTimeField(db_default=Now())
    worked = models.FloatField(db_default=0.0, default=0.0)
    progress = models.JSONField(null=True)
    overdue = models.JSONField(null=True)
    undoes = models.JSONField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["hinted_at"], condition=Q(status="ready"), name="step_ready"),
            models.Index(fields=["run"], condition=Q(undoes__isnull=False), name="step_undoing"),
            models.Index(
                fields=["worker", "lease_until"], condition=Q(status="executing"), name="step_leased"
            ),
        ]
        constraints = [
            CheckedByFunction(
                condition=Q(status__in=[s.value for s in StepStatus]), name="step_status_known"
            ),
            CheckedByFunction(
                condition=Q(
                    status="executing", token__isnull=False, worker__isnull=False, lease_until__isnull=False
                )
                | (~Q(status="executing") & Q(token__isnull=True)),
                name="step_token_iff_executing",
            ),
        ]

    @property
    def attempt(self) -> int:
        """The number of the attempt that is, or would be, under way. A resume after a wait is no new attempt."""
        return self.earlier + self.failures + self.crashes + 1


class JournalEntry(models.Model):
    """The committed result of a call inside a step, or an answer to what it waited for. `after` is the head of that moment.

    kind: call, or what was waited for; `first` is which of several, with its answer. An answer that makes a checkpoint is kept
    by a rewind to it: its `after` is the head before. reused_from: the branch whose entry answered it instead of the call
    being made again; 0 in a fork, for what its origin did. arguments: as canonical JSON text, cut where it is long. undo:
    how it could be taken back, as canonical JSON text: function, args, kwargs. guard: the approval that it needed.
    """

    pk = models.CompositePrimaryKey("run_id", "branch", "address", "name", "occurrence")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="journal", db_index=False)
    branch = models.IntegerField()
    address = models.CharField(max_length=32)
    name = models.CharField(max_length=200)
    occurrence = models.CharField(max_length=100)
    kind = models.CharField(max_length=8, db_default="call", default="call")
    node = models.CharField(max_length=100)
    ordinal = models.IntegerField()
    after = models.IntegerField()
    attempt = models.IntegerField()
    args_digest = models.CharField(max_length=64)
    result = models.TextField()
    effect = models.CharField(max_length=12)
    call_key = models.CharField(max_length=64)
    reused_from = models.IntegerField(null=True)
    arguments = models.TextField(db_default="", default="")
    undo = models.TextField(null=True)
    guard = models.UUIDField(null=True)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [
            models.Index(fields=["ended_at"], condition=Q(guard__isnull=False), name="journal_guarded")
        ]
        constraints = [
            CheckedByFunction(
                condition=Q(effect__in=["none", "reversible", "irreversible"]), name="journal_effect_known"
            ),
            CheckedByFunction(condition=Q(kind__in=ENTRY_KINDS), name="journal_kind_known"),
        ]


class Usage(models.Model):
    """What a call or a step used of a paid model, once. Rows outlive the branch that wrote them: what is paid is paid.

    call: the name of the call, or of the journal's own entry if it was said outside one. failed: the call came to nothing.
    """

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="usage")
    branch = models.IntegerField()
    address = models.CharField(max_length=32)
    node = models.CharField(max_length=100)
    call = models.CharField(max_length=200)
    occurrence = models.CharField(max_length=100)
    failed = models.BooleanField(db_default=False, default=False)
    model = models.CharField(max_length=200)
    model_tokens_in = models.BigIntegerField()
    model_tokens_out = models.BigIntegerField()
    cost = models.DecimalField(max_digits=30, decimal_places=12, null=True)
    currency = models.CharField(max_length=3)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [BrinIndex(fields=["at"], name="usage_by_time")]


class LogLine(models.Model):
    """A line that a node said by `ctx.log`: operational, outside the chain. facts is canonical JSON text."""

    pk = models.CompositePrimaryKey("run_id", "branch", "address", "attempt", "no")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="lines", db_index=False)
    branch = models.IntegerField()
    address = models.CharField(max_length=32)
    attempt = models.IntegerField()
    no = models.IntegerField()
    node = models.CharField(max_length=100)
    message = models.TextField()
    facts = models.TextField()
    at = models.DateTimeField(db_default=Now())


class Wait(models.Model):
    """Something a parked step waits for. Open while `closed_at` is null; due times fire by the database's clock.

    name, occurrence: the place of its answer in the journal; empty for an approval node and a retry. label, race, position:
    as which of several, in which `first_of`, in which order. after: the head when it was asked for. digest: of what was asked.
    Of kind needs_migration it is the run that waits, for the code of its version: no address; facts say why.
    """

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="waits")
    branch = models.IntegerField()
    address = models.CharField(max_length=32)
    node = models.CharField(max_length=100)
    kind = models.CharField(max_length=16)
    name = models.CharField(max_length=200, db_default="", default="")
    occurrence = models.CharField(max_length=100, db_default="", default="")
    label = models.CharField(max_length=100, db_default="", default="")
    race = models.CharField(max_length=100, db_default="", default="")
    position = models.IntegerField(db_default=0, default=0)
    after = models.IntegerField(db_default=0, default=0)
    digest = models.CharField(max_length=64, db_default="", default="")
    schema = models.JSONField(null=True)
    facts = models.JSONField(null=True)
    child = models.ForeignKey(
        Run, on_delete=models.SET_NULL, null=True, related_name="awaited_by", db_index=False
    )
    opened_at = models.DateTimeField(db_default=Now())
    due_at = models.DateTimeField(null=True)
    closed_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(fields=["closed_at"], condition=Q(closed_at__isnull=False), name="wait_closed"),
            models.Index(
                fields=["due_at"], condition=Q(closed_at__isnull=True, due_at__isnull=False), name="wait_due"
            ),
            models.Index(
                fields=["child"],
                condition=Q(closed_at__isnull=True, child__isnull=False),
                name="wait_for_child",
            ),
            models.Index(
                fields=["kind", "run"], condition=Q(closed_at__isnull=True), name="wait_open_by_kind"
            ),
        ]
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=WAIT_KINDS), name="wait_kind_known"),
            models.UniqueConstraint(
                fields=["run", "branch", "address", "kind", "name", "occurrence"],
                condition=Q(closed_at__isnull=True),
                name="wait_open_once",
            ),
        ]


class Signal(models.Model):
    """A message from outside to a run, kept until something waits for it. Append-only: what was taken stands in the position.

    no: its number in the run. sent_id: the sender's id, which makes sending it again harmless; digest: of name and payload.
    """

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="signals", db_index=False)
    no = models.IntegerField()
    name = models.CharField(max_length=200)
    sent_id = models.CharField(max_length=200)
    payload = models.TextField()
    digest = models.CharField(max_length=64)
    sender = models.JSONField()
    received_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [models.Index(fields=["run", "name", "no"], name="signal_by_name")]
        constraints = [
            models.UniqueConstraint(fields=["run", "no"], name="signal_number_once"),
            models.UniqueConstraint(fields=["run", "sent_id"], name="signal_id_once"),
        ]


class Child(models.Model):
    """Where a child run was started: the place in its parent's journal, and the parent's head at that moment."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, primary_key=True, related_name="as_child")
    parent = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="+", db_index=False)
    branch = models.IntegerField()
    address = models.CharField(max_length=32)
    name = models.CharField(max_length=200)
    occurrence = models.CharField(max_length=100)
    after = models.IntegerField()
    digest = models.CharField(max_length=64)
    on_parent_cancel = models.CharField(max_length=8)

    class Meta:
        indexes = [models.Index(fields=["parent", "address"], name="child_by_place")]
        constraints = [
            models.CheckConstraint(
                condition=Q(on_parent_cancel__in=["cancel", "abandon"]), name="child_policy_known"
            )
        ]


class Stop(models.Model):
    """A child run that is to be cancelled, and why. Written with what made it so; the sweeper does it and takes the row away.

    A row of its own, because a child's row may be held by whatever works on it, and its parent must not wait for that.
    compensate: whether its calls are taken back first.
    """

    run = models.OneToOneField(Run, on_delete=models.CASCADE, primary_key=True, related_name="stop")
    reason = models.CharField(max_length=40)
    compensate = models.BooleanField(db_default=True, default=True)
    since = models.DateTimeField(db_default=Now())
