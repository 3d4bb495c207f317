"""The list of runs as a file: all that match, the newest first, row by row as they are read."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from typing import Any, Final

from django.http import StreamingHttpResponse
from rest_framework.request import Request

from runs import runlists, sights
from runs.api import documents, parameters
from runs.api.endpoint import Endpoint, actor_of
from runs.api.parameters import cursor_of
from runs.api.schema import described
from runs.engine import canonical
from runs.engine.redaction import Sight
from runs.models import Run
from runs.runlists import EXPORTED

Rows = Iterator[list[Run]]
SightOf = Callable[[Run], Sight]

COLUMNS: Final[dict[str, Callable[[dict[str, Any]], object]]] = {
    "id": lambda run: run["id"],
    "workflow": lambda run: run["workflow"],
    "workflow_version": lambda run: run["workflow_version"],
    "status": lambda run: run["status"].value,
    "waiting_for": lambda run: "; ".join(wait["kind"] for wait in run["waiting_for"]),
    "error_code": lambda run: (run["error"] or {}).get("code", ""),
    "error_message": lambda run: (run["error"] or {}).get("message", ""),
    "labels": lambda run: _pairs(run["labels"]),
    "searchable": lambda run: _pairs(run["searchable"]),
    "requester": lambda run: run["requester"]["username"],
    "queue": lambda run: run["queue"],
    "priority": lambda run: run["priority"],
    "created_at": lambda run: run["created_at"],
    "started_at": lambda run: run["started_at"],
    "finished_at": lambda run: run["finished_at"],
}
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


class RunExport(Endpoint):
    read_scope = "runs:read"

    @described(
        operation_id="export_runs",
        summary="Export the runs that match, as JSON or CSV",
        description=f"The newest {EXPORTED:,} at most, without their documents, row by row as they are read. In JSON `next` "
        "says where the next export goes on. In CSV a text that a spreadsheet would take for a formula begins with an "
        "apostrophe.",
        query=parameters.RunExport,
        answers={200: documents.RunExportPage},
        files=["text/csv"],
        errors=["missing_scope", "not_found"],
    )
    def get(self, request: Request, wanted: parameters.RunExport) -> StreamingHttpResponse:
        actor = actor_of(request)
        rows = runlists.every(
            actor.project.pk,
            parameters.runs_of(actor, wanted),
            after=parameters.moment_and_id(wanted.cursor),
            most=EXPORTED,
        )
        write, kind = _FORMATS[wanted.format]
        return StreamingHttpResponse(
            write(rows, sights.of_many(actor)),
            content_type=kind,
            headers={
                "Content-Disposition": f'attachment; filename="runs.{wanted.format}"',
                "X-Content-Type-Options": "nosniff",
            },
        )


def _documents(found: list[Run], sight_of: SightOf) -> Iterator[dict[str, Any]]:
    values = runlists.terms(found)
    for run in found:
        summary = documents.run_summary(run, sight=sight_of(run))
        yield {**summary, "searchable": values.get(run.pk, {})}


def _json(rows: Rows, sight_of: SightOf) -> Iterator[str]:
    """`{"items": [...], "next": ...}`, a line for each run."""
    count, last = 0, None
    yield '{"items": ['
    for found in rows:
        for document in _documents(found, sight_of):
            yield f"{',' if count else ''}\n{canonical.dumps(document)}"
            count += 1
        last = found[-1]
    goes_on = cursor_of(last.created_at, last.pk) if last is not None and count >= EXPORTED else None
    yield f'\n], "next": {canonical.dumps(goes_on)}}}\n'


def _csv(rows: Rows, sight_of: SightOf) -> Iterator[str]:
    line = csv.writer(_Line())
    yield "\ufeff"  # without it a spreadsheet takes UTF-8 for something else
    yield line.writerow(COLUMNS)
    for found in rows:
        for document in _documents(found, sight_of):
            yield line.writerow(_harmless(told(document)) for told in COLUMNS.values())


class _Line:
    """What `csv` writes to: each line is handed back."""

    def write(self, text: str) -> str:
        return text


def _harmless(value: object) -> object:
    """A text that a spreadsheet would compute is only text."""
    if isinstance(value, str) and value.lstrip(" ").startswith(FORMULA):
        return f"'{value}"
    return value


def _pairs(told: dict[str, str]) -> str:
    return "; ".join(f"{name}={value}" for name, value in told.items())


_FORMATS: Final = {
    "json": (_json, "application/json"),
    "csv": (_csv, "text/csv; charset=utf-8"),
}
