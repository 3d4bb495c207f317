"""The change: parse, try and roll back, rate, ask, apply once, verify, report.

    parse --> dry_run --> rate --> confirm --> apply --> verify --> report
     ^ |       ^  |                 |  |        |                    ^
     | +-------|--+-----------------|--+--------|--------------------+   refused; rejected, nobody decided
     +---------|--------------------+           |                        a person edits: parse, try, ask again
               +--------------------------------+                        the rows have changed: try, ask again

What is let through stands in statement.py, what the database is asked in target.py, what people read in wording.py.
"""

from __future__ import annotations

from typing import Any, Final

from examples.sql_change import statement, target, wording
from examples.sql_change.schemas import ApplyChange, ChangeRequest, ChangeResult, DryRun, Proposal, SqlChange
from runs.driver import Context
from runs.engine import Action, Ask, Retry, Workflow

# A database that is down, or rows that somebody holds, cost patience and not the run. Other errors would only come again.
PATIENT: Final = Retry(attempts=8, initial=1, multiplier=2, max=60, retry_on=(target.Unavailable,))

sql_change = Workflow(
    "sql_change", version=1, title="SQL change", state=SqlChange, input=ChangeRequest, output=ChangeResult
)


@sql_change.node(loop_limit=10)
def parse(state: SqlChange, ctx: Context) -> dict[str, Any]:
    """A first statement that is refused ends the run; an edited one leaves the one before it standing, with the reason."""
    edited = ctx.edited("confirm")
    try:
        proposal = proposal_of(str(edited["statement"]) if edited else state.statement)
    except statement.Refused as refusal:
        if state.proposal is None:
            return {"refusal": str(refusal)}
        return {"again": wording.edit_refused(str(refusal)), "asked": state.proposal}
    again = wording.edited(state.proposal) if state.proposal else ""
    return {"proposal": proposal, "asked": state.proposal, "again": again}


def proposal_of(text: str) -> Proposal:
    change = statement.read(text)
    return Proposal(
        text=change.text,
        kind=change.kind,
        table=change.table.name,
        columns=list(change.columns),
        has_where=bool(change.where),
        removed=list(change.comments),
    )


def let_through(state: SqlChange) -> str:
    return "report" if state.refusal else "dry_run"


@sql_change.node(retry=PATIENT, loop_limit=5)
def dry_run(state: SqlChange, ctx: Context) -> dict[str, Any]:
    """What the database will not do is refused as well. An edited statement falls back to the one before it."""
    proposal = proposed(state)
    try:
        return {"dry_run": ctx.call(target.dry_run, kwargs={"text": proposal.text})}
    except target.Unfit as refusal:
        if state.asked is None or state.asked == proposal:
            return {"refusal": str(refusal)}
        again = wording.edit_refused(str(refusal))
    try:
        tried = ctx.call(target.dry_run, kwargs={"text": state.asked.text})
    except target.Unfit as refusal:
        return {"refusal": str(refusal)}
    return {"dry_run": tried, "proposal": state.asked, "again": again}


def tried(state: SqlChange) -> str:
    return "report" if state.refusal else "rate"


@sql_change.node
def rate(state: SqlChange, ctx: Context) -> dict[str, Any]:
    risk, reasons = wording.risk_of(proposed(state), measured(state))
    return {"risk": risk, "risk_reasons": reasons}


@sql_change.approval(
    reviewers=["finance"],
    quorum=1,
    due="24h",
    on_timeout="reject",
    editor_may_approve=True,
    reason_required=True,
    recheck="parse",
)
def confirm(state: SqlChange, ctx: Context) -> Ask:
    proposal, dry = proposed(state), measured(state)
    action = Action(
        "apply_change",
        {
            "statement": proposal.text,
            "rows": dry.rows,
            "before_digest": dry.before_digest,
            "after_digest": dry.after_digest,
        },
        schema=ApplyChange,
        effect="irreversible",
        editable=["statement"],
        risk=state.risk,
    )
    return Ask(
        action,
        title=wording.title_of(proposal, dry),
        facts=wording.facts_of(state, proposal, dry),
        reason=wording.reason_of(state),
        agent_note=state.agent_note,
    )


@sql_change.node(retry=PATIENT)
def apply(state: SqlChange, ctx: Context) -> dict[str, Any]:
    # The arguments that were approved; the key makes a second attempt find what a first one has done.
    action = ctx.approved("confirm")
    try:
        receipt = ctx.call(
            target.apply, kwargs=action.args, guarded_by=action, effect="irreversible", idempotency_key=True
        )
    except (target.DataChanged, target.Unfit) as change:
        return {"again": wording.data_changed(str(change)), "asked": state.proposal}
    return {"receipt": receipt, "again": ""}


def applied(state: SqlChange) -> str:
    return "verify" if state.receipt else "dry_run"


@sql_change.node(retry=PATIENT)
def verify(state: SqlChange, ctx: Context) -> dict[str, Any]:
    dry = measured(state)
    asked = {"table": proposed(state).table, "keys": dry.keys, "after_digest": dry.after_digest}
    return {"checked": ctx.call(target.look, kwargs=asked)}


@sql_change.node
def report(state: SqlChange, ctx: Context) -> dict[str, Any]:
    outcome, text = ending(state, ctx)
    sent = state.proposal.text if state.proposal else state.statement
    return {"outcome": outcome, "report": text, "statement": sent}


sql_change.choose("parse", let_through, to=["dry_run", "report"])
sql_change.choose("dry_run", tried, to=["rate", "report"])
sql_change.edge("rate", "confirm")
sql_change.choose("confirm", approve="apply", reject="report")
sql_change.choose("apply", applied, to=["verify", "dry_run"], limit="report")
sql_change.edge("verify", "report")


def proposed(state: SqlChange) -> Proposal:
    """The statement as it was let through; `parse` comes before everything else."""
    if state.proposal is None:
        raise LookupError("No statement was let through.")
    return state.proposal


def measured(state: SqlChange) -> DryRun:
    if state.dry_run is None:
        raise LookupError("The statement was not tried.")
    return state.dry_run


def ending(state: SqlChange, ctx: Context) -> tuple[str, str]:
    """How it ended, and the words for whoever asked."""
    if state.receipt:
        return "applied", wording.applied(proposed(state), state.receipt, state.checked)
    if state.refusal and state.asked is None:
        return "refused", wording.refused(state.refusal)
    if state.refusal:
        return "given_up", wording.given_up(state.refusal)
    decision = ctx.decision("confirm")
    if decision.outcome == "approve":  # approved again and again, and each time the rows had changed
        return "given_up", wording.given_up(state.again)
    if decision.reason == "timeout":
        return "rejected", wording.nobody_decided()
    return "rejected", wording.rejected(decision.message)
