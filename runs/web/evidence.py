"""What an approval rests on: the steps before it, their calls, what those used. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.utils.translation import gettext

from runs.engine import canonical
from runs.models import JournalEntry, Step
from runs.queries import CallPlace, Spent
from runs.templatetags import pretty, words
from runs.web import signs
from runs.web.payload import Rest, rest_of
from runs.web.timeline import spent_text

MAX_STEPS: Final = 40
RESULT_SHOWN: Final = 20_000  # characters


@dataclass(frozen=True, slots=True)
class EvidenceCall:
    """spent: what it used of paid models. rest: what of its result is not shown."""

    name: str
    took: timedelta
    reused: bool
    effect: str
    lines: list[pretty.Line]
    spent: str
    rest: Rest | None


@dataclass(frozen=True, slots=True)
class EvidenceStep:
    node: str
    visit: int
    sign: signs.Sign
    took: timedelta | None
    calls: list[EvidenceCall]
    note: str


def evidence(
    steps: Sequence[Step], journal: Sequence[JournalEntry], spent: Mapping[CallPlace, Spent]
) -> list[EvidenceStep]:
    """What ran before, newest last; more than forty steps keep the last forty."""
    calls: dict[tuple[int, str], list[EvidenceCall]] = {}
    used: dict[tuple[int, str], Spent] = {}
    for place, amount in spent.items():
        used.setdefault(place[:2], Spent()).add(amount)
    for entry in journal:
        calls.setdefault((entry.branch, entry.address), []).append(_call(entry, spent))
    return [
        _step(step, calls.get(place, []), used.get(place))
        for step in list(steps)[-MAX_STEPS:]
        for place in [(step.branch, step.address)]
    ]


# ---- inside


def _call(entry: JournalEntry, spent: Mapping[CallPlace, Spent]) -> EvidenceCall:
    text = canonical.dumps(canonical.loads(entry.result), indent=2)
    used = spent.get((entry.branch, entry.address, entry.name, entry.occurrence))
    return EvidenceCall(
        entry.name,
        entry.ended_at - entry.started_at,
        entry.reused_from is not None,
        entry.effect,
        pretty.text_lines(text[:RESULT_SHOWN], json=True),
        spent_text(used) if used else "",
        rest_of(text, RESULT_SHOWN),
    )


def _step(step: Step, calls: list[EvidenceCall], used: Spent | None) -> EvidenceStep:
    took = step.ended_at - step.started_at if step.ended_at and step.started_at else None
    said = [
        words.listing([call.name for call in calls[:3]]),
        words.some(len(calls), "{count} call", "{count} calls") if calls else gettext("no calls"),
        gettext("attempt {attempt}").format(attempt=step.attempt) if step.attempt > 1 else "",
        spent_text(used) if used else "",
    ]
    return EvidenceStep(
        step.node, step.visit, signs.STEP[step.status], took, calls, ", ".join(filter(None, said))
    )
