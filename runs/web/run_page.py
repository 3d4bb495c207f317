"""What the page of a run shows. Pure: rows in, values for the template out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.safestring import SafeString

from runs.engine import canonical
from runs.engine.lineage import Line, is_left
from runs.engine.merging import Conflict
from runs.engine.position import ARRIVED, ENDED, is_nesting, lane_at, lanes, live_steps
from runs.engine.position import state as state_of
from runs.engine.redaction import Sight
from runs.errors import HitlError
from runs.models import (
    Approval,
    Checkpoint,
    Event,
    JournalEntry,
    LogLine,
    OperationalNote,
    Run,
    Step,
)
from runs.operations import CallPreview, RewindPreview, StepPreview
from runs.queries import CallPlace, Moment
from runs.store import CallAt, Header
from runs.templatetags import hidden, pretty, words
from runs.web import sentence, signs

SHOWN: Final = {"difference": "Difference", "state": "State", "update": "Position"}
SHORT: Final = 60

EVENTS: Final = {
    "run_submitted": "submitted",
    "run_forked": "forked",
    "run_completed": "completed",
    "run_failed": "failed",
    "run_cancelled": "cancelled",
    "run_paused": "paused",
    "run_resumed": "goes on",
    "run_cancelling": "cancelled, once its calls are taken back",
    "run_failing": "fails, once its calls are taken back",
    "call_undone": "call taken back",
    "undo_failed": "call not taken back",
    "undo_retry_scheduled": "taking back will be tried again",
    "undo_given_up": "taking back ended by a person",
    "run_rewound": "rewound",
    "run_retried": "retried",
    "step_completed": "step done",
    "step_failed": "step failed",
    "step_retry_scheduled": "will be tried again",
    "step_taken_over": "taken over from a dead worker",
    "step_handed_over": "handed over by a worker that left",
    "approval_opened": "people asked",
    "approval_decided": "decided",
    "approval_revised": "arguments edited",
    "approval_superseded": "to be asked again",
    "vote_recorded": "vote recorded",
    "approval_assigned": "somebody works on it",
    "approval_unassigned": "released",
    "approval_snoozed": "snoozed",
    "approval_extended": "due later",
    "approval_reminded": "people reminded",
    "approval_escalated": "others asked too",
    "approval_passed_on": "next stage asked",
    "approval_unanswerable": "nobody can answer",
    "state_edited": "state edited",
    "priority_changed": "priority changed",
    "state_migrated": "migrated",
    "migration_needed": "waits for code",
    "code_is_back": "code is back",
    "wait_opened": "waits",
    "timer_fired": "time has passed",
    "wait_timed_out": "waited in vain",
    "signal_received": "signal came",
    "signal_taken": "signal taken",
    "child_ended": "child run ended",
}


@dataclass(frozen=True, slots=True)
class Link:
    word: str
    url: str
    current: bool = False


@dataclass(frozen=True, slots=True)
class ActionLink:
    """A verb of the run's head; `refusal` says why it is not offered now."""

    word: str
    icon: str
    url: str
    refusal: str = ""
    danger: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointRow:
    no: int
    sign: signs.Sign
    node: str
    note: str
    at: datetime
    can_rewind: bool


@dataclass(frozen=True, slots=True)
class Selected:
    no: int
    parent: int | None
    title: str
    at: datetime
    author: str
    reason: str
    can_rewind: bool
    can_fork: bool
    views: list[Link]
    lines: list[pretty.Line]
    label: str
    nothing: str
    said: str
    state_size: int
    own_size: int
    stored_as: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class EffectRow:
    node: str
    name: str
    effect: str
    receipt: SafeString
    key: str
    state: str
    at: datetime | None = None
    sign: signs.Sign = signs.DONE


@dataclass(frozen=True, slots=True)
class ApprovalRow:
    approval: Approval
    sign: signs.Sign
    who: str
    said: str


@dataclass(frozen=True, slots=True)
class EventRow:
    seq: int
    words: str
    node: str
    actor: str
    branch: int
    at: datetime
    brief: str
    payload: list[pretty.Line]


@dataclass(frozen=True, slots=True)
class Side:
    node: str
    lines: list[pretty.Line]


@dataclass(frozen=True, slots=True)
class ConflictRow:
    key: str
    sides: list[Side]


@dataclass(frozen=True, slots=True)
class LaneRow:
    """A lane to choose from."""

    name: str
    node: str
    says: str
    url: str
    current: bool


@dataclass(frozen=True, slots=True)
class AgainStep:
    node: str
    note: str
    sign: signs.Sign
    took: str = ""


# ---- rows


def checkpoint_row(point: Checkpoint | Header, *, run: Run, line: Line, may_steer: bool) -> CheckpointRow:
    sign = signs.CHECKPOINT[point.kind]
    notes = [sign.word] if sign.word and point.kind != "input" else []
    if point.author and point.kind in ("edit", "migration"):
        notes.append(f"by {point.author.get('name', 'somebody')}")
    if is_left(line, point.branch, point.no):
        notes.append(f"left behind, branch {point.branch}")
    first = "input" if run.forked_checkpoint is None else "fork"
    node = point.node or {"input": first, "edit": "state", "migration": "version"}.get(point.kind, point.kind)
    ended = run.status == "completed" and point.no == run.head
    return CheckpointRow(point.no, sign, node, ", ".join(notes), point.created_at, may_steer and not ended)


def selected(
    moment: Moment, *, run: Run, line: Line, show: str, may_steer: bool, may_fork: bool, sight: Sight
) -> Selected:
    """One checkpoint: the difference to the one before, its state, or the whole position."""
    point = moment.checkpoint
    row = checkpoint_row(point, run=run, line=line, may_steer=may_steer)
    state = sight.of_state(moment.state)
    before = {} if moment.before is None else sight.of_state(state_of(moment.before), against=moment.state)
    show = show if show in SHOWN else ("difference" if moment.before is not None else "state")
    lines = _lines_of(show, before, state, sight.free(moment.position))
    changes = pretty.changes(before, state) if moment.before is not None else []
    base = reverse("run-checkpoint", args=[run.pk, point.no])
    return Selected(
        no=point.no,
        parent=point.parent,
        title=f"{row.node} {row.note}".strip(),
        at=point.created_at,
        author=str((point.author or {}).get("name", "")),
        reason=point.reason,
        can_rewind=row.can_rewind and bool(live_steps(moment.position)),
        can_fork=may_fork and bool(live_steps(moment.position)),
        views=[Link(word, f"{base}?{urlencode({'show': key})}", key == show) for key, word in SHOWN.items()],
        lines=lines,
        label={"difference": "Difference of state", "state": "State", "update": "Position"}[show],
        nothing="The state is as before; only the run's position moved on.",
        said=_said(changes) if moment.before is not None else f"{words.some(len(state), 'key')}",
        state_size=len(canonical.dumps(state).encode()),
        own_size=_own_size(before, state),
        stored_as=moment.stored_as,
        fault=moment.fault,
    )


def effect_row(entry: JournalEntry, undone: Mapping[CallPlace, Step]) -> EffectRow:
    """undone: by call, the steps that take calls back."""
    taking = undone.get((entry.branch, entry.address, entry.name, entry.occurrence))
    sign = signs.DONE if taking is None else signs.TAKEN_BACK[taking.status]
    state = sign.word
    if taking is not None and taking.status == "failed":
        state = f"{state} ({(taking.error or {}).get('message')})"
    if entry.reused_from is not None and taking is None:
        state = f"reused from branch {entry.reused_from}" if entry.reused_from else "done by its origin"
    return EffectRow(
        entry.node,
        entry.name,
        entry.effect,
        receipt(canonical.loads(entry.result)),
        entry.call_key,
        state,
        entry.ended_at,
        sign,
    )


def late_effect(note: OperationalNote) -> EffectRow:
    """A call whose result was refused, for its run had been stopped meanwhile; it has happened all the same."""
    told = note.facts
    result = receipt(canonical.loads(told["result"]))
    return EffectRow(
        told["node"], told["call"], "reversible", result, "", signs.TOO_LATE.word, note.at, signs.TOO_LATE
    )


def receipt(result: Any) -> SafeString:
    """What proves an effect: the id in a result, or the result itself, short."""
    named = result.get("id") or result.get("receipt") if isinstance(result, dict) else None
    if isinstance(named, str):
        return hidden.draw(named)
    text = canonical.dumps(result)
    return hidden.draw(text if len(text) <= SHORT else f"{text[:SHORT]}… ({len(text):,} characters)")


def approval_row(approval: Approval) -> ApprovalRow:
    votes = [vote for vote in approval.votes.all() if vote.decisive] or list(approval.votes.all())[-1:]
    vote = votes[0] if votes else None
    edited = bool(vote and vote.edited)
    who = str(vote.user or "system") if vote else sentence.whom(approval)
    return ApprovalRow(
        approval, signs.of_approval(approval, edited=edited), who, vote.comment if vote else ""
    )


def event_row(event: Event) -> EventRow:
    payload = canonical.loads(event.payload) if event.payload else None
    actor = canonical.loads(event.actor) if event.actor else None
    return EventRow(
        seq=event.seq,
        words=EVENTS.get(event.kind, event.kind.replace("_", " ")),
        node=event.node,
        actor=str(actor.get("name", "")) if isinstance(actor, dict) else "",
        branch=event.branch,
        at=event.at,
        brief=_brief(payload),
        payload=pretty.lines(payload) if payload else [],
    )


# ---- lanes


def conflict_rows(conflicts: Sequence[Conflict]) -> list[ConflictRow]:
    return [
        ConflictRow(
            found.key, [Side(side.node, pretty.lines(side.value)) for side in (found.one, found.other)]
        )
        for found in conflicts
    ]


def lane_rows(position: Mapping[str, Any], *, url: str, chosen: str) -> list[LaneRow]:
    """The lanes whose state a person can edit; none if there is only one. A nested workflow is edited inside."""
    found = [
        lane
        for lane in lanes(dict(position))
        if lane["status"] != ENDED and not is_nesting(lane_at(dict(position), str(lane["lane"])))
    ]
    if len(found) < 2:
        return []
    return [
        LaneRow(
            str(lane["lane"]),
            str(lane["node"]),
            f"has arrived at {lane['waits_at']}" if lane["status"] == ARRIVED else "",
            f"{url}?{urlencode({'lane': str(lane['lane'])})}",
            lane["lane"] == chosen,
        )
        for lane in found
    ]


# ---- retry


def failed_steps(failed: Sequence[StepPreview]) -> list[AgainStep]:
    """The steps that failed, with why, and the attempt that comes next."""
    return [
        AgainStep(
            step.node if step.item is None else f"{step.node}[{step.item}]",
            words.cut(str((step.error or {}).get("message", "no reason was recorded")), 2 * SHORT),
            signs.STEP["failed"],
            f"attempt {step.attempt}" if step.attempt > 1 else "",
        )
        for step in failed
    ]


# ---- while it runs, and when it went wrong


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Both sides of a journal mismatch; `lines` shows the difference unless they are too long for that."""

    call: str
    occurrence: str
    recorded: list[pretty.Line]
    asked: list[pretty.Line]
    lines: list[pretty.Line] | None


@dataclass(frozen=True, slots=True)
class LogRow:
    node: str
    message: str
    facts: SafeString | str
    at: datetime


def mark(run: Run, stir: str) -> str:
    """What an open page of a run shows; it asks anew when this changes. stir: what executing steps say of themselves."""
    return f"{run.seq}-{run.status}-{stir}" if stir else f"{run.seq}-{run.status}"


def mismatch(error: Mapping[str, Any] | None) -> Mismatch | None:
    """The two sides that a `journal_mismatch` names."""
    if not error or error.get("code") != "journal_mismatch" or "recorded" not in error:
        return None
    recorded, asked = _arguments(error["recorded"]), _arguments(error.get("asked"))
    return Mismatch(
        str(error.get("call", "")),
        str(error.get("occurrence", "")),
        pretty.lines(recorded),
        pretty.lines(asked),
        pretty.difference(recorded, asked),
    )


def _arguments(text: Any) -> Any:
    """Arguments as JSON; what was cut because it is long stays the text that it is."""
    try:
        return canonical.loads(text)
    except (ValueError, TypeError, HitlError):
        return text


def log_row(line: LogLine) -> LogRow:
    facts = canonical.loads(line.facts)
    return LogRow(line.node, line.message, pretty.inline(facts) if facts else "", line.at)


def time_left(run: Run, now: datetime) -> str:
    """How long the run has until its deadline, in words."""
    if run.deadline_at is not None:
        left = (run.deadline_at - now).total_seconds()
        return f"{words.span(left)} left" if left > 0 else "its time is over"
    if run.time_left is not None:
        return f"{words.span(run.time_left)} left, the clock stands"
    return ""


# ---- rewind


def again(preview: RewindPreview) -> list[AgainStep]:
    """The steps that a rewind runs again, each with the calls it made; the one it starts with comes first if it is new."""
    made: dict[str, list[str]] = {}
    for call in preview.made:
        made.setdefault(call.node, []).append(call.name)
    known = {step.node for step in preview.steps}
    fresh = [
        AgainStep(node, "goes on here", signs.STEP["ready"]) for node in preview.next if node not in known
    ]
    return fresh + [
        _again_step(step.node, step.visit, made.get(step.node, []), preview) for step in preview.steps
    ]


def said_again(preview: RewindPreview) -> str:
    calls = len(preview.made)
    steps = words.some(len(preview.steps), "step")
    if not calls:
        return f"{steps}, no recorded call"
    if preview.calls == "again":
        return f"{steps}; {words.some(calls, 'call')} made again"
    return f"{steps}; of {words.some(calls, 'call')} those with equal arguments are answered from the journal"


def preview_effects(preview: RewindPreview) -> list[EffectRow]:
    state = "made again" if preview.calls == "again" else "answered from the journal"
    return [
        EffectRow(call.node, call.name, call.effect, receipt(call.result), "", state)
        for call in preview.effects
    ]


@dataclass(frozen=True, slots=True)
class CallRow:
    """A call that may come up again. place: as the form names it; chosen: what was said of it apart from the others."""

    node: str
    name: str
    effect: str
    receipt: SafeString
    kind: str
    place: str
    chosen: str


APART: Final = "call:"


def calls_again(made: Sequence[CallPreview], post: Mapping[str, str]) -> list[CallRow]:
    """Every call after the checkpoint; those that did something to the world first."""
    return sorted(_call_rows(made, post), key=lambda row: row.effect == "none")


def calls_in_order(made: Sequence[CallPreview]) -> list[CallRow]:
    """Calls as they are taken back, the first one first."""
    return _call_rows(made, {})


def _call_rows(made: Sequence[CallPreview], post: Mapping[str, str]) -> list[CallRow]:
    return [
        CallRow(
            call.node,
            call.name if call.occurrence == "0" else f"{call.name} ({call.occurrence})",
            call.effect,
            receipt(call.result if call.kind == "call" else call.result["run"]),
            call.kind,
            f"{APART}{canonical.dumps(list(call.place))}",
            post.get(f"{APART}{canonical.dumps(list(call.place))}", ""),
        )
        for call in made
    ]


def set_apart(post: Mapping[str, str], calls: str) -> list[CallAt]:
    """The calls of which something else was said than of all. Raises `InvalidJson` for names that we did not make."""
    named = [name for name, said in post.items() if name.startswith(APART) and said not in ("", calls)]
    places = [canonical.parse(name.removeprefix(APART)) for name in named]
    return [(str(address), str(name), str(occurrence)) for address, name, occurrence in places]


# ---- inside


def _lines_of(
    show: str, before: Mapping[str, Any], state: Mapping[str, Any], position: Any
) -> list[pretty.Line]:
    if show == "state":
        return pretty.lines(state)
    if show == "update":
        return pretty.lines(position)
    found = pretty.difference(before, state)
    if found is not None:
        return found
    return [pretty.Line(None, "", pretty.inline(change.path)) for change in pretty.changes(before, state)]


def _said(changes: Sequence[pretty.Change]) -> str:
    added = sum(1 for change in changes if change.was is None)
    removed = sum(1 for change in changes if change.now is None)
    parts = [(added, "added"), (len(changes) - added - removed, "changed"), (removed, "removed")]
    return ", ".join(f"{count} {word}" for count, word in parts if count) or "nothing changed"


def _own_size(before: Mapping[str, Any], state: Mapping[str, Any]) -> int:
    """Bytes of the keys that differ."""
    fresh = {
        key: state[key] for key in state if key not in before or not canonical.same(before[key], state[key])
    }
    return len(canonical.dumps(fresh).encode()) if fresh else 0


def _brief(payload: Any) -> str:
    if not isinstance(payload, dict):
        return ""
    for key in ("comment", "reason", "title", "outcome"):
        if isinstance(payload.get(key), str) and payload[key]:
            return words.cut(payload[key], 2 * SHORT)
    error = payload.get("error")
    if isinstance(error, dict) and error.get("message"):
        return words.cut(str(error["message"]), 2 * SHORT)
    return words.some(len(payload), "detail") if payload else ""


def _again_step(node: str, visit: int, calls: Sequence[str], preview: RewindPreview) -> AgainStep:
    name = f"{node} #{visit}" if visit > 1 else node
    if any(approval.node == node for approval in preview.approvals):
        return AgainStep(name, "asks people, see below", signs.STEP["waiting"], "waits")
    how = "made again" if preview.calls == "again" else "from the journal if its arguments are equal"
    note = f"{words.listing(list(dict.fromkeys(calls)))}: {how}" if calls else "no recorded call"
    return AgainStep(name, note, signs.RUN["retrying"])
