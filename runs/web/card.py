"""What the card of an approval shows, in the order a reviewer asks. Pure: rows in, values for the template out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.utils.translation import gettext

from runs.models import Approval, Run, Vote
from runs.templatetags import hidden, links, words
from runs.web import payload, sentence, signs
from runs.web.evidence import EvidenceStep, evidence
from runs.web.facts import Fact, fact_of
from runs.web.leads import Lead, leads
from runs.web.material import Material
from runs.web.payload import ActionView, Finding, Rest
from runs.web.sentence import whom
from runs.web.since import Since, since

NOTE_SHOWN: Final = 20_000  # characters of the agent's own words
RESTS_ON: Final = 3  # steps that are named beside the card
MAX_PLACE: Final = 40  # characters of the name of a place, in the sentence beside the tick


@dataclass(frozen=True, slots=True)
class Card:
    """One approval as `_card.html` reads it. `refusal` says why this reader may not answer ("" if they may)."""

    approval: Approval
    run: Run
    sign: signs.Sign
    title: str
    risk: str | None
    effect: str
    actions: list[ActionView]
    facts: list[Fact]
    reason: str
    agent_note: str
    whom: str
    due: str
    share: int | None
    late: bool
    after_due: str
    votes: list[Vote]
    have: int
    leads: list[Lead]
    since: Since | None
    evidence: list[EvidenceStep]
    findings: list[Finding]
    refusal: str
    decisive: Vote | None
    requester_may_decide: bool
    reason_required: bool
    note_findings: int = 0
    note_links: int = 0
    newer: Approval | None = None
    worked_by: str = ""
    works_self: bool = False
    may_direct: bool = False
    lack: str = ""
    whole: bool = False
    note_rest: Rest | None = None

    @property
    def rests_on(self) -> str:
        """What ran before it, in a line."""
        if not self.evidence:
            return gettext("Nothing ran before this")
        calls = sum(len(step.calls) for step in self.evidence)
        said = [
            words.some(len(self.evidence), "{count} step", "{count} steps"),
            words.some(calls, "{count} call", "{count} calls") if calls else "",
        ]
        nodes = " → ".join(dict.fromkeys(step.node for step in self.evidence[-RESTS_ON:]))
        return f"{nodes}: {', '.join(part for part in said if part)}"

    @property
    def is_cut(self) -> bool:
        """Whether something of what would be done is not on this page."""
        return any(action.is_cut for action in self.actions)

    @property
    def may_approve_here(self) -> bool:
        """A card that has no room for all of it leads to the page that has."""
        return self.whole or not self.is_cut

    @property
    def clock_answers(self) -> bool:
        """Nobody else is asked once the time is over: it decides itself."""
        chain = self.approval.options.get("escalate_to", [])
        return self.approval.level >= len(chain) and self.approval.options.get("on_timeout") in (
            "approve",
            "reject",
        )

    @property
    def unread(self) -> str:
        """How much is not on this page, in a few words."""
        more = sum(action.more for action in self.actions)
        said = [
            words.size(self.rest) if self.rest else "",
            words.some(more, "{count} argument", "{count} arguments") if more else "",
        ]
        return gettext("{listing} not shown").format(listing=words.listing([part for part in said if part]))

    @property
    def rest(self) -> int:
        """Bytes of what would be done that are not on this page."""
        return sum(rest.size for action in self.actions for rest in action.rests)

    @property
    def reasons(self) -> list[str]:
        """Which the workflow offers to choose from."""
        return [str(reason) for reason in self.approval.options.get("reasons") or ()]

    @property
    def unchecked(self) -> list[ActionView]:
        return [action for action in self.actions if action.unchecked]

    @property
    def mark(self) -> str:
        return mark_of(self.approval, self.votes)

    @property
    def stage(self) -> int:
        return self.approval.stage + 1

    @property
    def stages(self) -> int:
        return max(len(self.approval.options.get("stages", ())), 1)

    @property
    def is_open(self) -> bool:
        return self.approval.status == "open"

    @property
    def offered(self) -> list[str]:
        return [lead.answer for lead in self.leads]

    @property
    def single(self) -> bool:
        return len(self.actions) == 1

    @property
    def has_blocks(self) -> bool:
        return any(action.blocks for action in self.actions)

    @property
    def recheck(self) -> str:
        """The node that an edit goes through before people are asked anew; nothing where an edit is a version."""
        return str(self.approval.options.get("recheck") or "")

    @property
    def editable(self) -> bool:
        return any("edit" in action.allowed for action in self.actions)

    @property
    def missing(self) -> int:
        return max(self.approval.quorum - self.have, 0)

    @property
    def hidden_count(self) -> int:
        return sum(finding.count for finding in self.findings)

    @property
    def hidden_where(self) -> str:
        places = [words.cut(finding.path, MAX_PLACE) for finding in self.findings[:3]]
        return words.listing(places) + (
            gettext(" and {count} more places").format(count=len(self.findings) - 3)
            if len(self.findings) > 3
            else ""
        )

    @property
    def digest(self) -> str:
        return f"{self.approval.digest[:4]} {self.approval.digest[4:8]}"

    @property
    def tiles(self) -> list[Fact]:
        return [fact for fact in self.facts if fact.short]

    @property
    def long_facts(self) -> list[Fact]:
        return [fact for fact in self.facts if not fact.short and not fact.table and not fact.lines]

    @property
    def tables(self) -> list[Fact]:
        return [fact for fact in self.facts if fact.table]

    @property
    def texts(self) -> list[Fact]:
        """Of several lines, each a section of its own."""
        return [fact for fact in self.facts if fact.lines]


def build(
    material: Material,
    *,
    now: datetime,
    refusal: str = "",
    reader: int | None = None,
    may_direct: bool = False,
    lack: str = "",
    whole: bool = False,
) -> Card:
    """reader: the id of who reads it. may_direct: whether they may give it to somebody. lack: why nobody can answer it.
    whole: on a page of its own, for what a card has no room for.
    """
    approval = material.approval
    document = approval.content
    space = payload.room(whole=whole)
    actions = [
        payload.action_view(action, material.hidden.get(action["key"], ()), space=space)
        for action in document["actions"]
    ]
    votes = [vote for vote in material.votes if vote.version == approval.version]
    have = sum(1 for vote in votes if vote.outcome == "approve" and vote.stage == approval.stage)
    decisive = next((vote for vote in material.votes if vote.decisive), None)
    offered = [answer for answer in ("approve", "edit", "reject", "respond") if _offers(actions, answer)]
    note = str(document.get("agent_note") or "")
    return Card(
        approval=approval,
        run=material.run,
        sign=signs.of_approval(approval, edited=bool(decisive and decisive.edited)),
        title=approval.title,
        risk=_worst_risk(document["actions"]),
        effect=_worst_effect(document["actions"]),
        actions=actions,
        facts=[fact_of(fact) for fact in document.get("facts") or []],
        reason=str(document.get("reason") or ""),
        agent_note=note[:NOTE_SHOWN],
        whom=whom(approval),
        due=_left(approval, now),
        share=sentence.share(approval, now),
        late=approval.due_at is not None and approval.due_at - now < timedelta(hours=1),
        after_due=sentence.after_due(approval),
        votes=votes,
        have=have,
        leads=leads(
            material.workflow,
            approval.node,
            offered=offered,
            version=approval.version,
            have=have,
            quorum=approval.quorum,
            reason_required=bool(approval.options.get("reason_required")),
            recheck=str(approval.options.get("recheck") or ""),
        ),
        since=since(material),
        evidence=evidence(material.steps, material.journal, material.spent),
        findings=payload.hidden_in(approval),
        refusal=refusal,
        decisive=decisive,
        requester_may_decide=bool(approval.options.get("requester_may_decide")),
        reason_required=bool(approval.options.get("reason_required")),
        note_findings=sum(hidden.count(note).values()),
        note_links=links.count(note),
        newer=material.newer,
        worked_by=str(approval.assignee) if approval.is_worked_on(now) else "",
        works_self=approval.is_worked_on(now) and approval.assignee_id == reader,
        may_direct=may_direct,
        lack=lack,
        whole=whole,
        note_rest=payload.rest_of(note, NOTE_SHOWN),
    )


def mark_of(approval: Approval, votes: Sequence[Vote]) -> str:
    """Changes whenever somebody does something to an approval that whoever has it open should hear of."""
    if approval.status != "open":
        return str(approval.status)
    return f"{approval.version}-{len(votes)}-{approval.assignee_id or ''}"


def news(approval: Approval, *, votes: Sequence[Vote], author: str, now: datetime) -> str:
    """What happened to an approval that somebody has open, in a sentence."""
    decisive = next((vote for vote in approval.votes.all() if vote.decisive), None)
    if approval.status == "decided" and decisive:
        return gettext("{user} has decided this: {sign}.").format(
            user=decisive.user or gettext("The system"), sign=signs.of_approval(approval).word.lower()
        )
    if approval.closed_reason == "edited":
        return gettext("{author} has edited this; the edit is checked and then asked anew.").format(
            author=author or gettext("Somebody")
        )
    if approval.status != "open":
        return gettext("This approval is closed: {sign}.").format(
            sign=signs.of_approval(approval).word.lower()
        )
    if approval.version > 1 and not votes:
        return gettext("{author} has edited this; version {version} is open now.").format(
            author=author or gettext("Somebody"), version=approval.version
        )
    if approval.is_worked_on(now):
        return gettext("{assignee} works on this now; take it over to answer.").format(
            assignee=approval.assignee
        )
    if not votes:
        return gettext("Nobody works on this any more.")
    who = words.listing([str(vote.user) for vote in votes])
    return gettext("{who} has voted on version {version}.").format(who=who, version=approval.version)


# ---- inside


def _offers(actions: Sequence[ActionView], answer: str) -> bool:
    return any(answer in action.allowed for action in actions)


def _worst_risk(actions: Sequence[Mapping[str, Any]]) -> str | None:
    order = ["low", "medium", "high", "critical"]
    told = [action["risk"] for action in actions if action.get("risk") in order]
    return max(told, key=order.index) if told else None


def _worst_effect(actions: Sequence[Mapping[str, Any]]) -> str:
    order = ["none", "reversible", "irreversible"]
    return max((str(action["effect"]) for action in actions), key=order.index, default="none")


def _left(approval: Approval, now: datetime) -> str:
    if approval.due_at is None:
        return ""
    left = approval.due_at - now
    return (
        gettext("{span} left").format(span=words.span(left, parts=2))
        if left.total_seconds() > 0
        else gettext("over since {span}").format(span=words.span(-left))
    )
