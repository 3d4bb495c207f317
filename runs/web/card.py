"""What the card of an approval shows, in the order a reviewer asks. Pure: rows in, values for the template out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.utils.safestring import SafeString

from runs.engine import canonical
from runs.engine.workflow import Workflow
from runs.models import Approval, JournalEntry, Revision, Run, Step, Vote
from runs.templatetags import hidden, links, pretty, words
from runs.web import sentence, signs
from runs.web.facts import Fact, fact_of
from runs.web.leads import Lead, leads
from runs.web.sentence import whom

__all__ = ["Card", "Material", "build", "compare", "hidden_in", "whom"]

LONG_TEXT = 120  # characters above which an argument is shown as a block of its own
MAX_STEPS = 40
MAX_PLACE = 40  # characters of the name of a place, in the sentence beside the tick


@dataclass(frozen=True, slots=True)
class Finding:
    """Hidden characters in one place: how many of which name."""

    path: str
    counted: Counter[str]

    @property
    def count(self) -> int:
        return self.counted.total()

    @property
    def kinds(self) -> str:
        return words.listing([f"{count} {name}" for name, count in self.counted.most_common()])


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    html: SafeString
    editable: bool
    note: str = ""
    finding: Finding | None = None
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """A long text of the arguments, shown exactly, with line numbers."""

    name: str
    lines: list[pretty.Line]
    size: int
    finding: Finding | None


@dataclass(frozen=True, slots=True)
class ActionView:
    key: str
    tool: str
    effect: str
    risk: str | None
    allowed: list[str]
    args: list[Argument]
    blocks: list[Block]
    document: Any
    size: int
    findings: list[Finding]
    hidden: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Since:
    """What changed since the last version or the last time it was asked."""

    title: str
    who: str
    verb: str
    at: datetime | None
    quote: str
    before: str
    after: str
    changes: list[pretty.Change]
    previous: Approval | None = None


@dataclass(frozen=True, slots=True)
class EvidenceCall:
    name: str
    took: timedelta
    reused: bool
    effect: str
    result: Any


@dataclass(frozen=True, slots=True)
class EvidenceStep:
    node: str
    visit: int
    sign: signs.Sign
    took: timedelta | None
    calls: list[EvidenceCall]
    note: str


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
            f" and {len(self.findings) - 3} more places" if len(self.findings) > 3 else ""
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
    hidden: Mapping[str, Sequence[str]] = field(default_factory=dict)  # pointers of arguments, by action


def build(
    material: Material,
    *,
    now: datetime,
    refusal: str = "",
    reader: int | None = None,
    may_direct: bool = False,
    lack: str = "",
) -> Card:
    """reader: the id of who reads it. may_direct: whether they may give it to somebody. lack: why nobody can answer it."""
    approval = material.approval
    document = approval.content
    actions = [action_view(action, material.hidden.get(action["key"], ())) for action in document["actions"]]
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
        agent_note=note,
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
        evidence=evidence(material.steps, material.journal),
        findings=hidden_in(approval),
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
        return (
            f"{decisive.user or 'The system'} has decided this: {signs.of_approval(approval).word.lower()}."
        )
    if approval.closed_reason == "edited":
        return f"{author or 'Somebody'} has edited this; the edit is checked and then asked anew."
    if approval.status != "open":
        return f"This approval is closed: {signs.of_approval(approval).word.lower()}."
    if approval.version > 1 and not votes:
        return f"{author or 'Somebody'} has edited this; version {approval.version} is open now."
    if approval.is_worked_on(now):
        return f"{approval.assignee} works on this now; take it over to answer."
    if not votes:
        return "Nobody works on this any more."
    who = words.listing([str(vote.user) for vote in votes])
    return f"{who} has voted on version {approval.version}."


def hidden_in(approval: Approval) -> list[Finding]:
    """Hidden characters in what would be done and in what is told about it."""
    document = approval.content
    found = [
        _finding(path, kinds)
        for action in document["actions"]
        for path, kinds in pretty.findings(action["args"])
    ]
    return found + _other_findings(document)


def action_view(action: Mapping[str, Any], hidden: Sequence[str] = ()) -> ActionView:
    args = action["args"]
    found = [_finding(path, kinds) for path, kinds in pretty.findings(args)]
    members = sorted(args.items()) if isinstance(args, dict) else [("", args)]
    long = {name for name, value in members if isinstance(value, str) and _is_long(value)}
    described = _descriptions(action.get("schema"))
    return ActionView(
        key=action["key"],
        tool=action["tool"],
        effect=action["effect"],
        risk=action.get("risk"),
        allowed=list(action["allowed"]),
        args=[
            Argument(
                name,
                pretty.inline(value),
                _may_edit(name, action["editable"]),
                described.get(name, ""),
                _under(found, name),
                _under_pointer(hidden, name),
            )
            for name, value in members
            if name not in long
        ],
        blocks=[
            Block(name, pretty.text_lines(value, json=False), len(value.encode()), _under(found, name))
            for name, value in members
            if name in long
        ],
        document=args,
        size=len(canonical.dumps(args).encode()),
        findings=found,
        hidden=[pretty.pointer_words(path) for path in hidden],
    )


def since(material: Material) -> Since | None:
    """The latest edit of this approval, or what it asks again after."""
    approval = material.approval
    if approval.version > 1:
        return _since_edit(material)
    if approval.closed_reason == "edited" and material.revisions[-1:]:
        return _since_sent(approval, material.revisions[-1])
    if material.previous is not None:
        return _since_asked(material, material.previous)
    return None


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[pretty.Change]:
    """Differences of two approval documents, in the order in which a card shows them: texts among the arguments,
    then facts, then the other arguments; without such a text the arguments come first.
    """
    arguments = pretty.changes(_arguments_by_name(before), _arguments_by_name(after))
    facts = pretty.changes(_short_facts(before), _short_facts(after))
    texts = [change for change in arguments if change.lines]
    others = [change for change in arguments if not change.lines]
    return [*texts, *facts, *others] if texts else [*others, *facts]


def evidence(steps: Sequence[Step], journal: Sequence[JournalEntry]) -> list[EvidenceStep]:
    """What ran before, newest last; more than forty steps keep the last forty."""
    calls: dict[tuple[int, str], list[EvidenceCall]] = {}
    for entry in journal:
        calls.setdefault((entry.branch, entry.address), []).append(
            EvidenceCall(
                entry.name,
                entry.ended_at - entry.started_at,
                entry.reused_from is not None,
                entry.effect,
                canonical.loads(entry.result),
            )
        )
    return [
        _evidence_step(step, calls.get((step.branch, step.address), [])) for step in list(steps)[-MAX_STEPS:]
    ]


# ---- inside


def _evidence_step(step: Step, calls: list[EvidenceCall]) -> EvidenceStep:
    took = step.ended_at - step.started_at if step.ended_at and step.started_at else None
    made = words.some(len(calls), "call") if calls else ""
    tries = f"attempt {step.attempt}" if step.attempt > 1 else ""
    said = ", ".join(part for part in (words.listing([call.name for call in calls[:3]]), made, tries) if part)
    return EvidenceStep(step.node, step.visit, signs.STEP[step.status], took, calls, said or "no calls")


def _offers(actions: Sequence[ActionView], answer: str) -> bool:
    return any(answer in action.allowed for action in actions)


def _worst_risk(actions: Sequence[Mapping[str, Any]]) -> str | None:
    order = ["low", "medium", "high", "critical"]
    told = [action["risk"] for action in actions if action.get("risk") in order]
    return max(told, key=order.index) if told else None


def _worst_effect(actions: Sequence[Mapping[str, Any]]) -> str:
    order = ["none", "reversible", "irreversible"]
    return max((str(action["effect"]) for action in actions), key=order.index, default="none")


def _is_long(text: str) -> bool:
    return "\n" in text or len(text) > LONG_TEXT


def _under_pointer(paths: Sequence[str], name: str) -> bool:
    path = f"/{canonical.escape(name)}"
    return any(place == path or place.startswith(f"{path}/") for place in paths)


def _may_edit(name: str, editable: Sequence[str]) -> bool:
    path = f"/{canonical.escape(name)}"
    return any(path == place or place.startswith(f"{path}/") for place in editable)


def _descriptions(schema: Any) -> dict[str, str]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return {}
    return {
        name: str(part["description"]) for name, part in properties.items() if "description" in (part or {})
    }


def _finding(path: str, kinds: Mapping[str, int]) -> Finding:
    return Finding(pretty.pointer_words(path), Counter(kinds))


def _under(found: Sequence[Finding], name: str) -> Finding | None:
    inside = [finding for finding in found if finding.path == name or finding.path.startswith(f"{name}.")]
    if not inside:
        return None
    return Finding(name, sum((finding.counted for finding in inside), Counter[str]()))


def _other_findings(document: Mapping[str, Any]) -> list[Finding]:
    places = [("the title", document.get("title"))]
    places += [(str(fact["label"]), [fact["label"], fact["value"]]) for fact in document.get("facts") or []]
    return [Finding(name, Counter(kinds)) for name, value in places for _, kinds in pretty.findings(value)]


def _left(approval: Approval, now: datetime) -> str:
    if approval.due_at is None:
        return ""
    left = approval.due_at - now
    return (
        f"{words.span(left, parts=2)} left" if left.total_seconds() > 0 else f"over since {words.span(-left)}"
    )


def _since_edit(material: Material) -> Since | None:
    approval = material.approval
    by_version = {revision.version: revision for revision in material.revisions}
    base = (
        material.seen
        if material.seen in by_version and material.seen != approval.version
        else approval.version - 1
    )
    before, made = by_version.get(base), by_version.get(approval.version)
    if before is None or made is None:
        return None
    return Since(
        "Edited.",
        _author(made),
        f"made version {made.version}",
        made.created_at,
        made.comment,
        f"Version {before.version}",
        f"Version {made.version}",
        compare(canonical.loads(before.document), approval.content),
    )


def _since_asked(material: Material, previous: Approval) -> Since:
    """Asked again after an edit that was checked, or after a decision: by whom, why, and what differs."""
    if material.edit is not None:
        return _since_checked(material, previous, material.edit)
    vote = next((vote for vote in previous.votes.all() if vote.decisive), None)
    verb = {"approve": "approved", "reject": "rejected", "respond": "answered"}.get(
        previous.outcome, "closed"
    )
    closed = "the action had changed" if previous.closed_reason == "payload_changed" else ""
    name = words.short_id(previous.id, "A-")
    return Since(
        "Asked again.",
        str(vote.user or "the system") if vote else "",
        f"{verb} {name}" if vote else f"{name} closed",
        vote.at if vote else previous.closed_at,
        (vote.comment if vote else "") or closed,
        verb.capitalize() if vote else "Before",
        "This one",
        compare(previous.content, material.approval.content),
        previous,
    )


def _since_checked(material: Material, previous: Approval, edit: Revision) -> Since:
    edited, asked = canonical.loads(edit.document), material.approval.content
    taken = canonical.same(_arguments(edited), _arguments(asked)) or not canonical.same(
        _arguments(previous.content), _arguments(asked)
    )
    return Since(
        "Asked again after an edit." if taken else "Asked again as it was: the edit did not pass the check.",
        _author(edit),
        f"edited {words.short_id(previous.id, 'A-')}",
        edit.created_at,
        edit.comment,
        "Proposed" if taken else "Asked",
        "This one" if taken else "The edit, not asked",
        compare(previous.content, asked if taken else edited),
        previous,
    )


def _since_sent(approval: Approval, edit: Revision) -> Since:
    """An approval that somebody edited, while the edit is checked or after it."""
    return Since(
        "Edited, to be asked anew.",
        _author(edit),
        "edited this",
        edit.created_at,
        edit.comment,
        "Proposed",
        "Edited",
        compare(approval.content, canonical.loads(edit.document)),
    )


def _author(revision: Revision) -> str:
    return str(revision.author or "somebody who has left")


def _arguments(document: Mapping[str, Any]) -> list[Any]:
    return [action["args"] for action in document["actions"]]


def _arguments_by_name(document: Mapping[str, Any]) -> dict[str, Any]:
    actions = document["actions"]
    args = actions[0]["args"] if len(actions) == 1 else {action["key"]: action["args"] for action in actions}
    return args if isinstance(args, dict) else {"arguments": args}


def _short_facts(document: Mapping[str, Any]) -> dict[str, Any]:
    drawn = [(fact_of(fact), fact) for fact in document.get("facts") or []]
    return {made.label: fact["value"] for made, fact in drawn if not made.table and not made.lines}
