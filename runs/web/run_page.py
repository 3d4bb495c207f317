"""What the page of a run shows. Pure: rows in, values for the template out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.utils.safestring import SafeString
from django.utils.translation import gettext

from runs.engine import canonical
from runs.engine.lineage import Line, is_left
from runs.engine.merging import Conflict
from runs.engine.position import ARRIVED, ENDED, is_nesting, lane_at, lanes
from runs.errors import HitlError
from runs.models import (
    Approval,
    Checkpoint,
    JournalEntry,
    LogLine,
    OperationalNote,
    Run,
    Step,
)
from runs.operations import CallPreview, RewindPreview, StepPreview
from runs.queries import CallPlace
from runs.store import CallAt, Header
from runs.templatetags import codes, hidden, pretty, words
from runs.tongue import number
from runs.web import sentence, signs

SHORT: Final = 60


@dataclass(frozen=True, slots=True)
class Link:
    word: str
    url: str
    current: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """What went wrong in a step: in a line, and where in its code."""

    node: str
    attempt: int
    sign: signs.Sign
    message: str
    kind: str
    traceback: str


@dataclass(frozen=True, slots=True)
class CheckpointRow:
    no: int
    sign: signs.Sign
    node: str
    note: str
    at: datetime
    can_rewind: bool


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


# ---- what went wrong


TOLD_APART: Final = ("journal_mismatch", "merge_conflict")  # with both sides


def faults(steps: Iterable[Step]) -> list[Fault]:
    """What is wrong with steps that have failed or are tried again."""
    return [
        Fault(
            step.node,
            max(step.attempt - 1, 1),  # the one that ended so; the step's own number is that of the next
            signs.STEP["failed"] if step.status == "failed" else signs.RUN["retrying"],
            str(step.error.get("message", "")),
            str(step.error.get("type") or step.error.get("code", "")),
            str(step.error.get("traceback", "")),
        )
        for step in steps
        if step.error and step.error.get("code") not in TOLD_APART
    ]


# ---- rows


def checkpoint_row(point: Checkpoint | Header, *, run: Run, line: Line, may_steer: bool) -> CheckpointRow:
    sign = signs.CHECKPOINT[point.kind]
    notes = [sign.word] if sign.word and point.kind != "input" else []
    if point.author and point.kind in ("edit", "migration"):
        notes.append(gettext("by {name}").format(name=point.author.get("name", gettext("somebody"))))
    if is_left(line, point.branch, point.no):
        notes.append(gettext("left behind, branch {branch}").format(branch=point.branch))
    first = "input" if run.forked_checkpoint is None else "fork"
    kind = {"input": first, "edit": "state", "migration": "version"}.get(point.kind, point.kind)
    node = point.node or codes.word(kind)
    ended = run.status == "completed" and point.no == run.head
    return CheckpointRow(point.no, sign, node, ", ".join(notes), point.created_at, may_steer and not ended)


def effect_row(entry: JournalEntry, undone: Mapping[CallPlace, Step]) -> EffectRow:
    """undone: by call, the steps that take calls back."""
    taking = undone.get((entry.branch, entry.address, entry.name, entry.occurrence))
    sign = signs.DONE if taking is None else signs.TAKEN_BACK[taking.status]
    state = sign.word
    if taking is not None and taking.status == "failed":
        state = f"{state} ({(taking.error or {}).get('message')})"
    if entry.reused_from is not None and taking is None:
        state = (
            gettext("reused from branch {reused_from}").format(reused_from=entry.reused_from)
            if entry.reused_from
            else gettext("done by its origin")
        )
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
    if len(text) <= SHORT:
        return hidden.draw(text)
    return hidden.draw(
        gettext("{start}… ({count} characters)").format(start=text[:SHORT], count=number(len(text)))
    )


def approval_row(approval: Approval) -> ApprovalRow:
    votes = [vote for vote in approval.votes.all() if vote.decisive] or list(approval.votes.all())[-1:]
    vote = votes[0] if votes else None
    edited = bool(vote and vote.edited)
    who = str(vote.user or gettext("system")) if vote else sentence.whom(approval)
    return ApprovalRow(
        approval, signs.of_approval(approval, edited=edited), who, vote.comment if vote else ""
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
            gettext("has arrived at {waits_at}").format(waits_at=lane["waits_at"])
            if lane["status"] == ARRIVED
            else "",
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
            gettext("attempt {attempt}").format(attempt=step.attempt) if step.attempt > 1 else "",
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
        return (
            gettext("{span} left").format(span=words.span(left)) if left > 0 else gettext("its time is over")
        )
    if run.time_left is not None:
        return gettext("{span} left, the clock stands").format(span=words.span(run.time_left))
    return ""


# ---- rewind


def again(preview: RewindPreview) -> list[AgainStep]:
    """The steps that a rewind runs again, each with the calls it made; the one it starts with comes first if it is new."""
    made: dict[str, list[str]] = {}
    for call in preview.made:
        made.setdefault(call.node, []).append(call.name)
    known = {step.node for step in preview.steps}
    fresh = [
        AgainStep(node, gettext("goes on here"), signs.STEP["ready"])
        for node in preview.next
        if node not in known
    ]
    return fresh + [
        _again_step(step.node, step.visit, made.get(step.node, []), preview) for step in preview.steps
    ]


def said_again(preview: RewindPreview) -> str:
    calls = len(preview.made)
    steps = words.some(len(preview.steps), "{count} step", "{count} steps")
    if not calls:
        return gettext("{steps}, no recorded call").format(steps=steps)
    if preview.calls == "again":
        return gettext("{steps}; {calls} made again").format(
            steps=steps, calls=words.some(calls, "{count} call", "{count} calls")
        )
    return gettext("{steps}; of {calls} those with equal arguments are answered from the journal").format(
        steps=steps, calls=words.some(calls, "{count} call", "{count} calls")
    )


def preview_effects(preview: RewindPreview) -> list[EffectRow]:
    state = gettext("made again") if preview.calls == "again" else gettext("answered from the journal")
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


def _again_step(node: str, visit: int, calls: Sequence[str], preview: RewindPreview) -> AgainStep:
    name = f"{node} #{visit}" if visit > 1 else node
    if any(approval.node == node for approval in preview.approvals):
        return AgainStep(name, gettext("asks people, see below"), signs.STEP["waiting"], gettext("waits"))
    how = (
        gettext("made again")
        if preview.calls == "again"
        else gettext("from the journal if its arguments are equal")
    )
    note = f"{words.listing(list(dict.fromkeys(calls)))}: {how}" if calls else gettext("no recorded call")
    return AgainStep(name, note, signs.RUN["retrying"])
