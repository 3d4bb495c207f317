"""What addresses may say after the question mark, and in the headers that we read. Anything else is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeVar
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails
from rest_framework.request import Request

from runs import cursors, inboxes, saved
from runs.api.bodies import Told
from runs.api.faults import InvalidParameter, Placed
from runs.engine import canonical
from runs.engine.canonical import Json
from runs.engine.status import ApprovalStatus
from runs.errors import BadRequest, InvalidIdempotencyKey, InvalidJson, UnknownField
from runs.models.approvals import RISKIEST_FIRST
from runs.models.views import PAGES
from runs.operations import Idempotency
from runs.policies import Actor
from runs.runlists import STARTED, STATUSES, WAITS, RunFilter
from runs.stats import DEFAULT, RANGES

PAGE: Final = 50
LARGEST_PAGE: Final = 200
KEY_LENGTH: Final = 255

_KEY = re.compile(rf"[\x20-\x7e]{{1,{KEY_LENGTH}}}\Z")
_IF_MATCH = re.compile(r'(?:W/)?"(\d{1,9})(?:\.\d+\.[a-z]+)?"\Z')

Limit = Annotated[int, Field(ge=1, le=LARGEST_PAGE, description="How many to give at most.")]
Cursor = Annotated[str | None, Field(description="`next` of the page before.", max_length=200)]
After = Annotated[int, Field(ge=0, le=2**53, description="Only those with a higher number.")]
Branch = Annotated[int | None, Field(ge=1, le=2**31 - 1, description="Only those of this branch.")]


class Query(BaseModel):
    """The parameters that one address knows."""

    model_config = ConfigDict(extra="forbid")


class NoQuery(Query):
    """None."""


class WorkflowList(Query):
    """What is told of the workflows."""

    usage: Annotated[
        bool, Field(description="Sum up what all their runs used of paid models; needs the scope runs:read.")
    ] = False
    versions: Annotated[
        bool,
        Field(description="Every version side by side, with its live runs; needs the scope runs:read."),
    ] = False


class StatsQuery(Query):
    """Over which time, and of what."""

    range: Annotated[
        Literal[tuple(RANGES)],  # type: ignore[valid-type]
        Field(description="In bars of an hour, of six, of a day; the last one is under way."),
    ] = DEFAULT
    workflow: Annotated[
        str | None, Field(max_length=100, description="Only of this one, and then by node, too.")
    ] = None


class Wait(Query):
    """How long a run may be waited for."""

    wait: Annotated[
        float,
        Field(
            ge=0,
            le=60,
            allow_inf_nan=False,
            description="Seconds to wait until the run is waiting, paused or ended. The answer comes then, "
            "or at the end of that time with what the run is by then.",
        ),
    ] = 0.0


class Reason(Query):
    """Why."""

    reason: Annotated[str, Field(max_length=2_000, description="Why; it stands in the audit.")] = ""


class RunsThat(Query):
    """Which runs: all that is said holds."""

    q: Annotated[
        Told,
        Field(
            description="A run's id, also its short form `R-0a1b2c3d`; else a whole value of a label or of a field of the "
            "state that is searched for, in capitals or not."
        ),
    ] = ""
    status: Annotated[
        Literal[STATUSES] | None,  # type: ignore[valid-type]
        Field(
            description="Only runs of this status. `retrying`: waiting until a step is tried again; `stalled`: the worker of "
            "a step is silent."
        ),
    ] = None
    waiting_for: Annotated[
        Literal[WAITS] | None,  # type: ignore[valid-type]
        Field(description="Only runs that wait for this; `slot`: for their turn in line."),
    ] = None
    workflow: Annotated[str | None, Field(max_length=100, description="Only runs of this workflow.")] = None
    workflow_version: Annotated[
        str | None, Field(max_length=60, description="Only runs at this version of it.")
    ] = None
    queue: Annotated[str | None, Field(max_length=60, description="Only runs of this queue.")] = None
    limit_key: Annotated[
        Told, Field(description="Only runs under a limit with this key: `name=key`, or a key.")
    ] = ""
    label: Annotated[
        Told, Field(description="Only runs with this label: `name=value`, or a value of any.")
    ] = ""
    state: Annotated[
        Told,
        Field(
            description="Only runs with this in a field of the state that is searched for: `name=value`, or a value of any; "
            "as the run last came to rest."
        ),
    ] = ""
    requester: Annotated[
        str | None, Field(max_length=150, description="Only runs that this account asked for.")
    ] = None
    error: Annotated[
        str | None, Field(max_length=100, description="Only runs that failed with this code.")
    ] = None
    created_from: Annotated[
        AwareDatetime | None, Field(description="Only runs submitted at or after this.")
    ] = None
    created_until: Annotated[AwareDatetime | None, Field(description="Only runs submitted before this.")] = (
        None
    )
    started: Annotated[
        Literal[tuple(STARTED)] | None,  # type: ignore[valid-type]
        Field(description="Only runs submitted within the last one."),
    ] = None
    saved: Annotated[
        UUID | None,
        Field(description="A saved view of the runs. What else is given takes the place of what it says."),
    ] = None


_OF_FILTER: Final = {one.name for one in fields(RunFilter)} & set(RunsThat.model_fields)


def runs_of(actor: Actor, wanted: RunsThat) -> RunFilter:
    """What is given, beside what a saved view says. One query if one is named; raises `NotFound`."""
    told = {name: value for name, value in wanted.model_dump(include=_OF_FILTER).items() if value}
    given = RunFilter(version=wanted.workflow_version or "", **told)
    if wanted.saved is None:
        return given
    return RunFilter.of({**saved.view(actor, wanted.saved, page="runs").query, **given.as_dict()})


class RunList(RunsThat):
    """Which runs."""

    limit: Limit = PAGE
    cursor: Cursor = None


class RunExport(RunsThat):
    """Which runs, as what."""

    format: Annotated[Literal["json", "csv"], Field(description="As what.")] = "json"
    cursor: Annotated[str | None, Field(description="`next` of the export before.", max_length=200)] = None


class RunWhole(Query):
    """How much of a run."""

    states: Annotated[
        Literal["all", "none"], Field(description="Whether the state at every checkpoint is in it.")
    ] = "all"


class ApprovalList(Query):
    """Which approvals. What is given holds altogether."""

    view: Annotated[
        Literal[inboxes.VIEWS] | None,  # type: ignore[valid-type]
        Field(
            description="As on the page of the inbox: those that wait for whoever asks, that ask their teams, that nobody "
            "works on of the first, all that are open, all that are closed."
        ),
    ] = None
    saved: Annotated[
        UUID | None,
        Field(description="A saved view of the inbox. What else is given takes the place of what it says."),
    ] = None
    status: Annotated[
        ApprovalStatus | None, Field(description="Only those of this status; open ones if no view is named.")
    ] = None
    q: Annotated[
        str | None,
        Field(
            max_length=inboxes.LONGEST,
            description="Words that title, arguments, facts, comments or labels have, or the beginnings of them. What is "
            "hidden from anybody is found by nobody.",
        ),
    ] = None
    workflow: Annotated[
        str | None, Field(max_length=inboxes.LONGEST, description="Only of this workflow.")
    ] = None
    tool: Annotated[
        str | None, Field(max_length=inboxes.LONGEST, description="Only with an action of this tool.")
    ] = None
    risk: Annotated[
        Literal[RISKIEST_FIRST] | None,  # type: ignore[valid-type]
        Field(description="Only of this risk or a higher one."),
    ] = None
    due: Annotated[
        Literal[tuple(inboxes.DUES)] | None,  # type: ignore[valid-type]
        Field(description="Only what is due within so long, or (none) never."),
    ] = None
    team: Annotated[
        str | None, Field(max_length=inboxes.LONGEST, description="Only what asks this team.")
    ] = None
    requester: Annotated[
        str | None,
        Field(max_length=inboxes.LONGEST, description="Only of runs that this account has requested."),
    ] = None
    label: Annotated[
        str | None,
        Field(max_length=inboxes.LONGEST, description="Only of runs with this label: `name=value`."),
    ] = None
    sort: Annotated[
        Literal[inboxes.SORTS] | None,  # type: ignore[valid-type]
        Field(
            description="Of open ones: first due, riskiest or (by default) oldest first. Closed ones come last closed first."
        ),
    ] = None
    limit: Limit = PAGE
    cursor: Cursor = None


class History(Query):
    """Which part of the history."""

    after: After = 0
    limit: Limit = PAGE


class SignalList(Query):
    """Which part of the mailbox."""

    after: After = 0
    limit: Limit = PAGE


class CheckpointList(Query):
    """Which checkpoints."""

    branch: Branch = None
    after: Annotated[int, Field(ge=-1, le=2**31 - 1, description="Only those with a higher number.")] = -1
    limit: Limit = PAGE


class DeliveryList(Query):
    """Which deliveries."""

    status: Annotated[
        Literal["pending", "delivered", "dead", "blocked", "cancelled"] | None,
        Field(description="Only those of this status; dead ones are tried no more by themselves."),
    ] = None
    endpoint: Annotated[UUID | None, Field(description="Only those to this endpoint.")] = None
    run: Annotated[UUID | None, Field(description="Only what was told of this run.")] = None
    limit: Limit = PAGE
    cursor: Cursor = None


class Compare(Query):
    """Two checkpoints. Without the second, the one before the first."""

    checkpoint: Annotated[int | None, Field(ge=0, description="Of this run; default where it stands.")] = None
    branch: Annotated[int | None, Field(ge=1, description="Instead: where this branch of it stands.")] = None
    other_run: Annotated[UUID | None, Field(description="The run of the second; default this one.")] = None
    other_checkpoint: Annotated[
        int | None, Field(ge=0, description="Of that run; default where it stands.")
    ] = None
    other_branch: Annotated[
        int | None, Field(ge=1, description="Instead: where this branch of it stands.")
    ] = None


class RosterList(Query):
    """Which part of a list by name."""

    after: Annotated[str, Field(max_length=150, description="`next` of the page before.")] = ""
    limit: Limit = PAGE


class ViewList(Query):
    """Which saved views."""

    page: Annotated[
        Literal[PAGES] | None,  # type: ignore[valid-type]
        Field(description="Only those of this list."),
    ] = None


class AuditList(Query):
    """Which part of the audit."""

    before: Annotated[int | None, Field(ge=1, le=2**63 - 1, description="`next` of the page before.")] = None
    limit: Limit = PAGE


class StepList(Query):
    """Which steps."""

    branch: Branch = None
    limit: Limit = PAGE
    cursor: Cursor = None


Parsed = TypeVar("Parsed", bound=Query)


def query(request: Request, model: type[Parsed]) -> Parsed:
    """The parameters of a request. Raises for one that is unknown, given twice, or impossible."""
    told: dict[str, str] = {}
    for name, values in request.query_params.lists():
        if len(values) > 1:
            raise _bad(str(name), "given_twice", "may stand in the address once")
        told[str(name)] = str(values[0])
    _refuse_unstorable(told)
    try:
        return model.model_validate(told)
    except ValidationError as error:
        raise _refusal(error.errors(include_url=False), model) from None


def _refuse_unstorable(told: dict[str, str]) -> None:
    try:
        canonical.check(told)
    except InvalidJson as error:
        first = error.errors[0]
        raise _bad(first.path[1:], first.code, first.message) from None


def _refusal(faults: Sequence[ErrorDetails], model: type[Query]) -> BadRequest:
    names = [str(fault["loc"][0]) for fault in faults]
    unknown = [str(fault["loc"][0]) for fault in faults if fault["type"] == "extra_forbidden"]
    if unknown:
        known = ", ".join(model.model_fields) or "none"
        errors = [Placed(f"/{name}", "unknown_field", f"known here: {known}", "query") for name in unknown]
        return UnknownField(
            f"Nothing here reads the parameter {unknown[0]!r}; known: {known}.", errors=errors
        )
    message = faults[0]["msg"]
    return _bad(names[0], "invalid_value", message[:1].lower() + message[1:])


def _bad(name: str, code: str, message: str) -> InvalidParameter:
    return InvalidParameter(f"{name}: {message}.", errors=[Placed(f"/{name}", code, message, "query")])


# ---- cursors of keyset pages: where the page before ended


def cursor_of(moment: datetime, *key: object) -> str:
    """An opaque text for "after this row"."""
    return cursors.packed("|".join([moment.isoformat(), *map(str, key)]))


def moment_and_id(cursor: str | None) -> tuple[datetime, UUID] | None:
    """What `cursor_of(moment, id)` was made of. Raises `InvalidParameter` for anything else."""
    if cursor is None:
        return None
    with _refusing_strangers():
        moment, identity = cursors.unpacked(cursor).split("|")
        return cursors.moment(moment), UUID(identity)


def moment_branch_address(cursor: str | None) -> tuple[datetime, int, str] | None:
    """What `cursor_of(moment, branch, address)` was made of. Raises `InvalidParameter` for anything else."""
    if cursor is None:
        return None
    with _refusing_strangers():
        moment, branch, address = cursors.unpacked(cursor).split("|")
        return cursors.moment(moment), int(branch[:9]), address


@contextmanager
def _refusing_strangers() -> Iterator[None]:
    try:
        yield
    except ValueError:
        raise _bad(
            "cursor", "invalid_value", "is not one of ours; take it from next of the page before"
        ) from None


def place_in(cursor: str | None, order: str) -> str:
    """What `inboxes.cursor` gave for a list in this order. Raises `InvalidParameter` for anything else."""
    if cursor and not inboxes.is_cursor(cursor, order):
        raise _bad("cursor", "invalid_value", "is not one of this list; take it from next of the page before")
    return cursor or ""


def wanted_of(told: ApprovalList, kept: Mapping[str, str]) -> inboxes.Wanted:
    """Which approvals are asked for. kept: what a saved view says. Raises `InvalidParameter` for what contradicts itself."""
    given = {
        name: str(value)
        for name in inboxes.NAMES
        if name not in ("view", "status") and (value := getattr(told, name)) is not None
    }
    view = told.view or kept.get("view")
    is_open = told.status in (None, ApprovalStatus.OPEN)
    if view is None:
        view = "mine" if kept else "open" if is_open else "decided"
    if told.status is not None and is_open == (view == "decided"):
        raise _bad("status", "contradiction", f"the view {view} has none of that status")
    status = {} if is_open or told.status is None else {"status": told.status.value}
    return inboxes.Wanted.of({"sort": "due" if kept else "age", **kept, **given, **status, "view": view})


# ---- headers


def idempotency(request: Request, endpoint: str, document: Json) -> Idempotency | None:
    """By what a request is known again, if it has a key: that, and what it says. Raises `InvalidIdempotencyKey`."""
    key: str | None = request.META.get("HTTP_IDEMPOTENCY_KEY")
    if key is None:
        return None
    if not _KEY.match(key) or not key.strip() or "%00" in key:  # U+0000 is refused in every spelling
        raise InvalidIdempotencyKey(
            errors=[
                Placed("/Idempotency-Key", "invalid_value", "1 to 255 printable ASCII characters", "header")
            ]
        )
    return Idempotency(endpoint, key, canonical.digest(document))


def version(request: Request, told: int | None) -> int | None:
    """The version that the caller saw: of the body, or of If-Match. Raises if they differ."""
    header: str | None = request.META.get("HTTP_IF_MATCH")
    if header is None:
        return told
    match = _IF_MATCH.match(header.strip())
    if match is None:
        message = 'one version in quotes, as the header ETag gave it: "7"'
        raise InvalidParameter(
            f"If-Match: {message}.", errors=[Placed("/If-Match", "invalid_value", message, "header")]
        )
    named = int(match[1])
    if told is not None and told != named:
        raise BadRequest(
            f"The body names version {told}, If-Match names {named}.",
            errors=[Placed("/version", "contradiction", "differs from If-Match")],
        )
    return named


def parameters_of(model: type[Query]) -> dict[str, Any]:
    """JSON Schema of each parameter, for the description of the API."""
    return dict(model.model_json_schema(ref_template="{model}").get("properties", {}))
