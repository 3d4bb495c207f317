"""`/styleguide`, in development only: every part of the pages once, in its states, drawn by the fragments that the pages use.

All values are invented. They go through the same pure functions as real ones, so a part that changes changes here too.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from runs.engine import canonical
from runs.engine.redaction import Sight
from runs.errors import Problem
from runs.models import (
    Approval,
    Branch,
    Checkpoint,
    Event,
    JournalEntry,
    Revision,
    Run,
    Step,
    User,
    Vote,
    Wait,
)
from runs.queries import Moment
from runs.templatetags import pretty
from runs.tracing import EventFilter, Stretch
from runs.web import (
    branches,
    card,
    fields,
    history,
    payload,
    run_page,
    sentence,
    signs,
    timeline,
    viewer,
    windows,
)
from runs.web.banner import Banner
from runs.web.door import Request
from runs.web.facts import fact_of
from runs.web.keeping import KeptRow
from runs.web.material import Material
from runs.web.queue import Row
from runs.web.since import Since, since

NOW: Final = datetime(2026, 3, 9, 14, 21, 45, tzinfo=UTC)
A_2044: Final = uuid.UUID("2044a1c0-0000-7000-8000-000000000000")
A_2045: Final = uuid.UUID("2045b7d2-0000-7000-8000-000000000000")
R_2041: Final = uuid.UUID("2041c3e4-0000-7000-8000-000000000000")
STATEMENT: Final = "UPDATE demo.orders\nSET total = total - 10\nWHERE customer = 4121"
ARGS: Final = {
    "statement": STATEMENT,
    "note": "pay\u200bpal \u202efdp.exe",
    "amount": 9007199254740993,
    "to": "finance@example.com",
}
LONG: Final = (
    "A title that does not fit on one line, because whoever wrote the workflow put the whole reason into it"
)
BANNERS: Final = (
    Banner(
        "red", "octagon", "Decided before you", ["felix rejected version 2 at 14:21:07, 38 s before you."]
    ),
    Banner("amber", "warn", "This changed while you were writing", ["Version 3 is open. Your text is kept."]),
    Banner(
        "blue", "info", "Workflow version 8 is live; this run stays on 7", ["Go on with 7, or rewind it."]
    ),
    Banner("green", "s-completed", "Approved, 2 of 2: the run goes on", ["apply started 0.3 s ago."]),
)
SCHEMA: Final = {
    "properties": {
        "amount": {"type": "integer", "description": "Exact to the last digit"},
        "due": {"type": "string", "format": "date"},
        "team": {"enum": ["finance", "shipping"]},
        "text": {"type": "string"},
        "to": {"type": "string"},
    }
}


@require_safe
def styleguide(request: Request) -> HttpResponse:
    if not settings.DEBUG:
        raise Http404
    return render(request, "styleguide.html", {"guide": guide(), "now": NOW})


def guide() -> dict[str, Any]:
    return {
        "banners": BANNERS,
        "hidden": payload.action_view(
            _action("pay", {"name": "Nina", "iban": {"$redacted": ["operator"]}}), ["/iban"]
        ),
        "single": asked(ARGS, quorum=2, options={"reason_required": True}),
        "several": _several(),
        "refused": asked({"n": 1}, refusal="You asked for this run. Whoever asks does not decide."),
        "closed": asked({"n": 1}, status="decided", outcome="reject"),
        "again": _asked_again(),
        "runs": list(signs.RUN.values()),
        "approvals": [*signs.ANSWERS.values(), *_approval_signs()],
        "sentences": _sentences(),
        "rows": _rows(),
        "fields": _fields(),
        "problems": [
            Problem("/amount", "type", "is not a whole number"),
            Problem("", "json", "line 3: a comma"),
        ],
        "changes": pretty.changes({"a": 1, "b": "x", "s": "one\ntwo"}, {"b": "y", "c": None, "s": "one\n2"}),
        "lines": pretty.difference({"total": "12.00", "kept": 1}, {"total": "10.00", "kept": 1}),
        "facts": [fact_of({"label": name, "value": value}) for name, value in _FACTS.items()],
        "timeline": _timeline(),
        "legend": list(timeline.WORDS.items()),
        "window": windows.window(
            [
                Stretch(
                    1 + 200 * place, 200 * (place + 1), NOW, NOW, failed=int(place == 3), live=int(place == 8)
                )
                for place in range(9)
            ],
            first=1601,
            shown=200,
            size=200,
            url="",
            true_to_time=False,
        ),
        "forest": branches.picture(_branches()),
        "branches": _branches(),
        "views": [
            run_page.Link("Difference", "#", True),
            run_page.Link("State", "#"),
            run_page.Link("Position", "#"),
        ],
        **_run_parts(),
    }


# ---- approvals


def asked(
    args: dict[str, Any], *, refusal: str = "", actions: list[dict[str, Any]] | None = None, **more: Any
) -> card.Card:
    """A card of an approval that is nowhere stored."""
    approval = _approval(actions or [_action("only", args)], **more)
    votes = []
    if approval.quorum > 1:
        votes = [_vote(approval, "felix", "approve")]
    if approval.status != "open":
        votes = [_vote(approval, "felix", approval.outcome, decisive=True)]
    material = Material(approval=approval, run=approval.run, votes=votes, steps=_steps(), journal=_calls())
    return card.build(material, now=NOW, refusal=refusal)


def _approval(actions: list[dict[str, Any]], **more: Any) -> Approval:
    document = {
        "title": "Update 12 of 84,000 orders",
        "reason": "More than ten rows are changed.",
        "agent_note": "I checked **three** of them, see https://xn--pypal-4ve.example/login.\n\n- all were wrong",
        "facts": [{"label": name, "value": value} for name, value in _FACTS.items()],
        "actions": actions,
    }
    given: dict[str, Any] = {
        "id": A_2044,
        "run": _run("waiting"),
        "node": "confirm",
        "title": document["title"],
        "document": canonical.dumps(document),
        "digest": canonical.digest(document),
        "risk": "high",
        "teams": ["finance"],
        "opened_at": NOW - timedelta(hours=3),
        "due_at": NOW + timedelta(hours=21),
        "closed_at": None if more.get("status", "open") == "open" else NOW,
        "options": {},
    }
    return Approval(**{**given, **more})


def _action(key: str, args: Any, **more: Any) -> dict[str, Any]:
    return {
        "key": key,
        "tool": "apply_change",
        "args": args,
        "schema": {"properties": {"amount": {"description": "In cents."}}},
        "allowed": ["approve", "edit", "reject", "respond"],
        "editable": ["/statement", "/amount"],
        "effect": "irreversible",
        "risk": "high",
        **more,
    }


def _several() -> card.Card:
    answers = ["approve", "edit", "reject"]
    return asked(
        {},
        id=A_2045,
        actions=[
            _action("Refund 2,310.00", {"amount": 231000}, allowed=answers, risk="medium"),
            _action("Tell the customer", {"text": "Paid."}, allowed=answers, risk="low"),
            _action(
                "Block the voucher", {"no": "V-1"}, allowed=answers, effect="reversible", risk="critical"
            ),
        ],
    )


def _vote(approval: Approval, name: str, outcome: str, *, decisive: bool = False) -> Vote:
    return Vote(
        approval=approval,
        version=1,
        user=User(username=name),
        outcome=outcome,
        comment="Wrong customer",
        decisive=decisive,
        at=NOW - timedelta(minutes=4),
    )


def _asked_again() -> Since | None:
    before = _approval([_action("only", {**ARGS, "statement": STATEMENT.replace("10", "100")})])
    before.closed_reason = "edited"
    approval = _approval([_action("only", ARGS)], id=A_2045, previous=before)
    edit = Revision(
        document=approval.document,
        author=User(username="frida"),
        comment="Ten is enough",
        created_at=NOW - timedelta(minutes=9),
    )
    return since(Material(approval=approval, run=approval.run, previous=before, edit=edit))


def _approval_signs() -> list[signs.Sign]:
    states = [
        ("open", "", ""),
        ("expired", "reject", ""),
        ("cancelled", "", ""),
        ("cancelled", "", "rewound"),
    ]
    states += [("superseded", "", "")]
    made = [Approval(status=status, outcome=out, closed_reason=why) for status, out, why in states]
    return [signs.of_approval(approval) for approval in made]


def _rows() -> list[Row]:
    shown = [
        ("critical", "38 min", True, 1, "Refund 2,310.00 EUR to order 88-4121"),
        ("medium", "21 h", False, 0, LONG),
        ("", "", False, 0, "No risk told, no due time"),
    ]
    return [
        Row(
            id=str(uuid.UUID(int=number)),
            url=reverse("approval", args=[uuid.UUID(int=number)]),
            title=title,
            node="confirm",
            workflow="refund",
            risk=risk,
            due=due,
            late=late,
            says="finance",
            have=have,
            quorum=2 if have else 0,
            current=number == 2,
        )
        for number, (risk, due, late, have, title) in enumerate(shown, 1)
    ]


# ---- runs


def _run(status: str, **more: Any) -> Run:
    given = {
        "workflow": "refund",
        "workflow_version": "1",
        "requester": User(username="shop", is_service=True),
    }
    times = {"created_at": NOW - timedelta(hours=4), "updated_at": NOW - timedelta(minutes=6)}
    return Run(id=R_2041, status=status, **{**given, **times, **more})


def _sentences() -> list[sentence.Sentence]:
    waiting = _approval([_action("only", {})])
    return [
        sentence.of_run(_run("waiting"), now=NOW, approvals=[waiting]),
        sentence.of_run(_run("completed", finished_at=NOW - timedelta(hours=1)), now=NOW),
        sentence.of_run(
            _run(
                "failed",
                finished_at=NOW - timedelta(minutes=8),
                error={"step": "pay", "message": "Card refused"},
            ),
            now=NOW,
        ),
        sentence.of_run(_run("cancelled", finished_at=NOW - timedelta(hours=1)), now=NOW),
        sentence.of_run(_run("paused", paused=_paused()), now=NOW),
    ]


def _paused() -> dict[str, Any]:
    since = (NOW - timedelta(minutes=12)).isoformat()
    return {"by": "olga", "reason": "the bank is closed", "since": since, "children": False}


def _steps() -> list[Step]:
    def step(node: str, begun: int, ended: int | None, status: str, failures: int = 0) -> Step:
        return Step(
            address=f"1/{begun}",
            branch=1,
            node=node,
            visit=1,
            status=status,
            failures=failures,
            created_at=NOW - timedelta(minutes=30 - begun),
            started_at=NOW - timedelta(minutes=30 - begun),
            ended_at=None if ended is None else NOW - timedelta(minutes=30 - ended),
        )

    return [
        step("look_up", 0, 2, "completed"),
        step("rate", 2, 9, "completed", failures=2),
        step("tell", 9, 10, "failed"),
        step("confirm", 10, None, "waiting"),
    ]


def _calls() -> list[JournalEntry]:
    return [
        JournalEntry(
            branch=1,
            address="1/0",
            node="look_up",
            name="order_of",
            effect="none",
            result='{"total":"2310.00"}',
            started_at=NOW - timedelta(minutes=30),
            ended_at=NOW - timedelta(minutes=29),
        )
    ]


def _timeline() -> timeline.Timeline:
    waits = [
        Wait(
            branch=1,
            address="1/10",
            kind="approval",
            opened_at=NOW - timedelta(minutes=20),
        )
    ]
    return timeline.build(_steps(), waits, _calls(), now=NOW, line={1: None}, running=True)


def _branches() -> list[branches.BranchLine]:
    return branches.build(
        [
            Branch(no=1, created_at=NOW),
            Branch(
                no=2,
                parent_branch=1,
                parent_checkpoint=4,
                author={"name": "olga"},
                reason="Wrong price",
                created_at=NOW,
            ),
        ],
        {1: (9, 10), 2: (12, 8)},
        current=2,
    )


def _run_parts() -> dict[str, Any]:
    """What the page of a run has beside its timeline, by the names that its fragments read."""
    run = _run("waiting", head=2, checkpoint_no=2, branch=1, seq=3, input='{"order_id":"88-4121"}')
    events = [history.event_row(event) for event in _events()]
    return {
        "run": run,
        "checkpoints": _checkpoints(run),
        "selected": _selected(run),
        "effects": [run_page.effect_row(call, {}) for call in _paid()],
        "approvals_of_run": {"approvals": _approval_rows()},
        "events": events,
        "shown_events": len(events),
        "which": EventFilter(),
        "kinds": [history.Choice("step_failed", "step failed", False, 1)],
        "nodes": [history.Choice("pay", "pay", True)],
        "first_error": "#",
        "kept": KeptRow(None, None, "", "", may_keep=False, may_erase=False),
        "input": pretty.lines({"order_id": "88-4121"}),
        "error": pretty.lines({"step": "pay", "message": "Card refused"}),
        "rewind": [
            run_page.AgainStep(
                "look_up", "order_of: from the journal if its arguments are equal", signs.RUN["retrying"]
            ),
            run_page.AgainStep("confirm", "asks people, see below", signs.STEP["waiting"], "waits"),
        ],
    }


def _checkpoints(run: Run) -> list[run_page.CheckpointRow]:
    """Newest first: an edit of the state by a person, a step, the input."""
    given = {"branch": 1, "created_at": NOW}
    made = [
        Checkpoint(no=2, kind="edit", author={"name": "olga"}, **given),
        Checkpoint(no=1, kind="step", node="rate", **given),
        Checkpoint(no=0, kind="input", **given),
    ]
    return [run_page.checkpoint_row(each, run=run, line={1: None}, may_steer=True) for each in made]


def _selected(run: Run) -> viewer.Selected:
    before = {"risk": "low", "total": "2310.00"}
    made = Checkpoint(
        no=2, kind="edit", branch=1, author={"name": "olga"}, reason="Half of it, as agreed", created_at=NOW
    )
    moment = Moment(made, _position({**before, "total": "1155.00"}), _position(before), 1)
    return viewer.selected(
        moment,
        run=run,
        line={1: None},
        look=viewer.Look(),
        may_steer=True,
        may_fork=True,
        sight=Sight(frozenset()),
    )


def _position(state: dict[str, Any]) -> dict[str, Any]:
    lane = {"node": "confirm", "step": "1/10", "visit": 1, "loops": {}, "answers": {}}
    root = {"base": state, "lanes": {"0": lane}, "order": ["0"]}
    return {"root": root, "visits": {}, "commits": 2}


def _paid() -> list[JournalEntry]:
    given = {"branch": 1, "address": "1/10", "started_at": NOW, "ended_at": NOW}
    return [
        JournalEntry(
            node="pay",
            name="pay_refund",
            effect="irreversible",
            call_key="9f3a4c1e7b20",
            result='{"id":"re_8813"}',
            **given,
        ),
        JournalEntry(
            node="tell",
            name="send_mail",
            effect="reversible",
            call_key="0b77aa12c3d4",
            reused_from=1,
            result='{"queued":true}',
            **given,
        ),
    ]


def _approval_rows() -> list[run_page.ApprovalRow]:
    waits, said = (
        _approval([_action("only", {})]),
        _approval([_action("only", {})], status="decided", outcome="reject"),
    )
    return [
        run_page.ApprovalRow(waits, signs.of_approval(waits), "finance", ""),
        run_page.ApprovalRow(said, signs.of_approval(said), "felix", "Wrong customer"),
    ]


def _events() -> list[Event]:
    told = [
        ("run_completed", "", {}, {}),
        ("approval_decided", "confirm", {"name": "felix"}, {"outcome": "approve", "comment": "As agreed"}),
        ("run_submitted", "", {"name": "shop"}, {}),
    ]
    return [
        Event(
            seq=seq,
            kind=kind,
            node=node,
            branch=1,
            at=NOW,
            actor=canonical.dumps(actor) if actor else "",
            payload=canonical.dumps(payload) if payload else "",
        )
        for seq, (kind, node, actor, payload) in zip((3, 2, 1), told, strict=True)
    ]


# ---- fields and facts


def _fields() -> tuple[fields.Field, ...]:
    args = {
        "amount": 9007199254740993,
        "due": "31 June",
        "team": "finance",
        "text": "two\nlines",
        "to": "a@b",
    }
    wrong = [Problem("/due", "format", "There is no 31 June.")]
    return fields.draw(args, SCHEMA, ["/amount", "/due", "/team", "/text"], problems=wrong)


_FACTS: Final[dict[str, Any]] = {
    "Rows": "12 of 84,000",
    "Table": "demo.orders",
    "Lock": "rows, 40 ms",
    "Host": "https://user@xn--pypal-4ve.example/login",
    "Sample": [
        {"id": number, "total before": "12.00", "total after": "12.00" if number == 3 else None}
        for number in range(1, 11)
    ],
    "Plan": "Update on orders\n  ->  Index Scan using orders_pkey\n        Filter: (total > 10)",
}
