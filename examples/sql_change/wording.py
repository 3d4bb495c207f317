"""What people read about a change: how risky it is, the facts a reviewer sees, why they are asked, the report.

Plain functions of plain values, so they are tested without any engine or database.
"""

from __future__ import annotations

import difflib
from typing import Any, Final

from examples.sql_change.schemas import Checked, DryRun, Proposal, Receipt, SqlChange
from examples.sql_change.setup import LIMITS
from examples.sql_change.tables import TABLES, Table

LEVELS: Final = ("low", "medium", "high", "critical")
MANY_ROWS: Final = ((1_000, "high"), (100, "medium"))
MUCH_OF_A_TABLE: Final = ((0.5, "critical"), (0.1, "high"))
DONE: Final = {"insert": "Insert", "update": "Update", "delete": "Delete"}


# ---- risk


def risk_of(proposal: Proposal, measured: DryRun) -> tuple[str, list[str]]:
    """The highest risk of all that speaks for one, and what that is."""
    found = _risks(proposal, measured)
    level = max((level for level, _ in found), key=LEVELS.index, default="low")
    return level, [why for _, why in found]


def _risks(proposal: Proposal, measured: DryRun) -> list[tuple[str, str]]:
    table, share = table_of(proposal), measured.rows / max(measured.table_rows, 1)
    found = []
    for least, level in MANY_ROWS:
        if measured.rows >= least:
            found.append((level, f"{table.rows(measured.rows)} at once"))
            break
    if proposal.kind != "insert":
        for part, level in MUCH_OF_A_TABLE:
            if share >= part:
                found.append((level, f"{share:.0%} of the table"))
                break
    if proposal.kind == "delete":
        found.append(("high" if measured.rows > 1 else "medium", "rows are deleted"))
    if proposal.kind != "insert" and not proposal.has_where:
        found.append(("critical", "there is no WHERE: every row of the table is meant"))
    if measured.rows >= 10 * max(measured.estimate, 1):
        found.append(("medium", f"the planner expected {measured.estimate:,} rows"))
    return found


def table_of(proposal: Proposal) -> Table:
    return TABLES[proposal.table]


# ---- asking


def title_of(proposal: Proposal, measured: DryRun) -> str:
    table = table_of(proposal)
    what = f"{DONE[proposal.kind]} {table.rows(measured.rows)}"
    return f"{what}: {', '.join(proposal.columns)}" if proposal.kind == "update" else what


def facts_of(state: SqlChange, proposal: Proposal, measured: DryRun) -> dict[str, Any]:
    """From the dry run and the parsed statement; nothing here is the agent's word."""
    table = table_of(proposal)
    share = f"{measured.rows:,} of {measured.table_rows:,}"
    facts: dict[str, Any] = {
        "Rows": share if proposal.kind != "insert" else f"{measured.rows:,} new",
        "Table": table.place,
        "Columns written": ", ".join(proposal.columns) or "none, rows go",
        "Rows locked for": f"{measured.held_ms:,} ms",
        "Stops after": f"{LIMITS['statement_timeout'].replace('s', ' s')}, rolled back",
        "Planner expected": f"{measured.estimate:,} rows",
        "Risk": "; ".join(state.risk_reasons) or "few rows of one table, each by its condition",
        _sample_label(measured): measured.sample.model_dump(),
        "Query plan": measured.plan,
        "What for": state.why or "nothing said",
    }
    if proposal.removed:
        facts["Comments, not executed"] = "\n".join(proposal.removed)
    if state.asked and state.asked.text != proposal.text:
        facts["Difference to the last statement"] = difference(state.asked.text, proposal.text)
    return facts


def _sample_label(measured: DryRun) -> str:
    if len(measured.sample.rows) == measured.rows:
        return "Before and after, every row"
    return f"Before and after, {len(measured.sample.rows)} of {measured.rows:,} rows"


def difference(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
    return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


def reason_of(state: SqlChange) -> str:
    """Why a person is asked, and why again."""
    return (
        state.again
        or "What is written to this database is written for everybody, so finance decides about every change."
    )


def edited(before: Proposal) -> str:
    return f"Asked again, the statement was edited; it went through all checks and was tried anew. Before: {_line(before.text)}"


def edit_refused(why: str) -> str:
    return f"Asked again with the statement as it was: the edited one is not let through, {why}."


def data_changed(why: str) -> str:
    return f"Asked again, nothing was done: the data has changed since the approval, {why}. The numbers here are new."


# ---- reporting


def applied(proposal: Proposal, receipt: Receipt, checked: Checked | None) -> str:
    table = table_of(proposal)
    done = f"{DONE[proposal.kind].removesuffix('e')}ed {table.rows(receipt.rows)} of {table.place} at {receipt.applied_at}."
    if receipt.repeated:
        done += " A second attempt found it done, and did nothing."
    if checked is None or checked.as_promised:
        return f"{done} Read again, the rows are as they were promised."
    return f"{done} Read again, some rows are not as promised: somebody has changed them since."


def rejected(message: str) -> str:
    because = f": {message.rstrip('.')}" if message else ""
    return f"Nothing was changed; the change was rejected{because}."


def nobody_decided() -> str:
    return "Nothing was changed: nobody decided in time."


def refused(why: str) -> str:
    return f"Nothing was changed, and nobody was asked: the statement is not let through, {why}."


def given_up(why: str) -> str:
    return f"Nothing was changed, and nobody is asked again: {why.rstrip('.')}."


def _line(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 160 else f"{flat[:159]}…"
