"""manage.py preflight: before a deployment, with the new code against the database that it will meet."""

from __future__ import annotations

import argparse
import json
from typing import Any

from runs import operations
from runs.management.base import DataCommand
from runs.operations import Line, Preflight

COLUMNS = ("workflow", "version", "runs", "verdict", "examples")


class Command(DataCommand):
    help = (
        "Try every live run against the code of this process, without writing anything. "
        "Ends with 0 if all can go on, 1 if some would stand still, 2 if it was called wrongly or could not look."
    )
    trouble = 2

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="Print the table as one JSON document.")

    def run(self, *args: Any, **options: Any) -> None:
        found = operations.preflight(tell=self._progress)
        self.stdout.write(_as_json(found) if options["json"] else _as_table(found))
        if not found.is_fine:
            raise SystemExit(1)

    def _progress(self, looked_at: int) -> None:
        self.stderr.write(f"{looked_at:,} live runs looked at")


def _as_json(found: Preflight) -> str:
    lines = [
        {
            "workflow": line.workflow,
            "version": line.version,
            "runs": line.runs,
            "verdict": line.verdict,
            "fine": line.is_fine,
            "detail": line.detail,
            "examples": line.examples,
        }
        for line in found.lines
    ]
    return json.dumps({"fine": found.is_fine, "runs": found.looked_at, "lines": lines}, indent=2)


def _as_table(found: Preflight) -> str:
    if not found.lines:
        return "No run is live: any code will do."
    rows = [COLUMNS, *(_row(line) for line in found.lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    table = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    stuck = [f"{line.workflow} {line.version}: {line.detail}" for line in found.lines if not line.is_fine]
    last = "Something would stand still." if stuck else "Every live run can go on."
    return "\n".join([*table, "", *stuck, last])


def _row(line: Line) -> tuple[str, ...]:
    verdict = f"{line.verdict} {line.detail}" if line.verdict == "migrates" else line.verdict
    return line.workflow, line.version, f"{line.runs:,}", verdict, " ".join(line.examples)
