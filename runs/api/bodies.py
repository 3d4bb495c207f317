"""What requests may say: one model a body, read strictly. Unknown fields are refused, JSON documents stay exact."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails
from rest_framework.request import Request

from runs.api.faults import Placed
from runs.api.media import ENVELOPE
from runs.engine import canonical, telling
from runs.engine.approval import MAX_COMMENT
from runs.engine.canonical import Json
from runs.engine.patch import pointer
from runs.engine.workflow import MAX_REASONS
from runs.errors import BadRequest, HitlError, InputRequired, InvalidJson, Problem, UnknownField
from runs.models.people import ROLES, SCOPES
from runs.models.views import PAGES
from runs.runlists import LONGEST, STARTED, STATUSES, WAITS

DEPTH: Final = canonical.MAX_DEPTH + 3  # the deepest envelope is {decisions: [{args: …}]}
MAX_LABELS: Final = 50
_MOST_SHOWN: Final = 20

Text = Annotated[str, Field(max_length=MAX_COMMENT)]
Object = dict[str, Any]
Version = Annotated[
    int, Field(ge=1, description="The version that you saw. The header If-Match may say it instead.")
]
Digest = Annotated[
    str | None,
    Field(pattern=r"^[0-9a-f]{64}$", description="The digest that you saw; compared if it is sent."),
]
CallsMode = Annotated[
    Literal["reuse", "again"],
    Field(
        description="`reuse` answers calls from the journal of the branch left behind; `again` makes every call again."
    ),
]


Priority = Annotated[
    int,
    Field(
        ge=-100,
        le=100,
        description="Who goes first among the project's runs that stand in line: the higher.",
        examples=[10],
    ),
]


class Body(BaseModel):
    """A request body. `document`: the field that holds JSON of the caller's own; `limit`: bytes of the whole body."""

    model_config = ConfigDict(extra="forbid", strict=True)

    document: ClassVar[str] = ""
    limit: ClassVar[int] = canonical.INPUT_LIMIT

    def documents(self) -> Iterator[Json]:
        """The JSON documents inside, each of which may be 100 levels deep."""
        if self.document:
            yield getattr(self, self.document)


class Submission(Body):
    """A run to be started."""

    document: ClassVar[str] = "input"

    workflow: Annotated[str, Field(min_length=1, max_length=100, examples=["refund"])]
    input: Annotated[Object, Field(description="Checked against the input schema of the workflow.")]
    version: Annotated[
        str | int | None,
        Field(description="The version of the workflow; default the newest.", examples=["1"]),
    ] = None
    labels: Annotated[
        dict[Annotated[str, Field(min_length=1, max_length=63)], Annotated[str, Field(max_length=255)]],
        Field(
            max_length=MAX_LABELS,
            description="Your own words to find the run by.",
            examples=[{"shop": "berlin"}],
        ),
    ] = Field(default_factory=dict)
    deadline: Annotated[
        Annotated[float, Field(gt=0)] | str | None,
        Field(
            description="How long the run may take, in seconds or as 90s, 30m, 24h; default the workflow's. Time in which it"
            " waits for people is not counted.",
            examples=["2h"],
        ),
    ] = None
    priority: Annotated[Priority | None, Field(description="Default the workflow's.")] = None
    on_behalf_of: Annotated[
        str | None,
        Field(
            max_length=150,
            description="Username of a member who counts as the requester. Takes a token with `runs:submit_for_others`.",
        ),
    ] = None


EndpointEvents = Annotated[
    list[Literal[telling.TYPES]],  # type: ignore[valid-type]  # one list of the types, for people and for machines
    Field(min_length=1, max_length=20, description="What is told there."),
]
EndpointUrl = Annotated[
    str,
    Field(
        min_length=1,
        max_length=2_000,
        description="An https address.",
        examples=["https://example.org/hooks"],
    ),
]


class EndpointBody(Body):
    """Where webhooks go, and of which events."""

    url: EndpointUrl
    events: EndpointEvents
    description: Annotated[str, Field(max_length=200)] = ""


class EndpointChange(Body):
    """What becomes different of an endpoint."""

    url: EndpointUrl | None = None
    events: EndpointEvents | None = None
    description: Annotated[str | None, Field(max_length=200)] = None
    enabled: Annotated[
        bool | None,
        Field(
            description="Off: what stands in line is cancelled, and nothing more is sent until it is on again."
        ),
    ] = None


class Nothing(Body):
    """Nothing is needed."""


class Decision(BaseModel):
    """What is decided about one action."""

    model_config = ConfigDict(extra="forbid", strict=True)

    key: Annotated[str, Field(description="The key of the action.", examples=["pay_refund"])]
    type: Literal["approve", "edit", "reject", "respond"]
    args: Annotated[Object | None, Field(description="With `edit`: the arguments, whole.")] = None
    message: Annotated[Text, Field(description="A reason, or with `respond` the answer.")] = ""


Lane = Annotated[
    str | None,
    Field(max_length=100, description="Which lane, if the run has several; as in `lanes` of the run."),
]


class DecisionBody(Body):
    """An answer to an approval: a decision for each action, or `type` alone where there is only one action."""

    document: ClassVar[str] = "args"
    limit: ClassVar[int] = canonical.STATE_LIMIT + ENVELOPE

    version: Version | None = None
    digest: Digest = None
    decisions: Annotated[list[Decision] | None, Field(min_length=1, max_length=1_000)] = None
    comment: Text = ""
    reasons: Annotated[
        list[str],
        Field(
            max_length=MAX_REASONS,
            description="Chosen of the `reasons` of the approval; they come before the comment.",
        ),
    ] = []
    type: Annotated[
        Literal["approve", "edit", "reject", "respond"] | None, Field(description="Short for one decision.")
    ] = None
    args: Annotated[Object | None, Field(description="With `type: edit`.")] = None
    message: Annotated[Text, Field(description="With `type`.")] = ""

    def documents(self) -> Iterator[Json]:
        yield self.args
        yield from (decision.args for decision in self.decisions or ())

    def spelled_out(self, keys: Sequence[str]) -> list[Decision]:
        """One decision per action, also if the short form was used.

        keys: the actions of the approval. None: there is no such approval, as the operation will say.
        """
        if self.decisions is not None:
            self._refuse_both()
            return self.decisions
        if self.type is None:
            missing = Problem("/decisions", "missing", "say what is decided, for each action")
            raise BadRequest("The body has neither decisions nor type.", errors=[missing])
        if len(keys) > 1:
            needed = Problem("/decisions", "missing", f"its actions are {', '.join(keys)}")
            raise BadRequest("The approval has several actions; decide about each one.", errors=[needed])
        return [Decision(key=keys[0] if keys else "", type=self.type, args=self.args, message=self.message)]

    def _refuse_both(self) -> None:
        both = [name for name in ("type", "args", "message") if getattr(self, name)]
        if both:
            errors = [Problem(f"/{name}", "not_with_decisions", "goes into decisions") for name in both]
            raise BadRequest(f"Say {both[0]} inside decisions, or leave decisions out.", errors=errors)


class RunDecisionBody(DecisionBody):
    """An answer to what a run asks, if that is one thing; else with the lane that asks it, or its id."""

    approval: Annotated[
        UUID | None, Field(strict=False, description="The approval, if several are open.")
    ] = None
    lane: Lane = None


class RevisionBody(Body):
    """New arguments of actions, without a vote."""

    document: ClassVar[str] = "args"
    limit: ClassVar[int] = canonical.STATE_LIMIT + ENVELOPE

    version: Version | None = None
    args: Annotated[
        dict[str, Object], Field(min_length=1, description="Per action key: the arguments, whole.")
    ]
    comment: Text = ""

    def documents(self) -> Iterator[Json]:
        yield from self.args.values()


class AssignmentBody(Body):
    """Who is to work on an approval."""

    to: Annotated[
        str | None, Field(max_length=150, description="Username; you yourself if it is left out.")
    ] = None
    reason: Annotated[Text, Field(description="A note. Needed where somebody else works on it.")] = ""


class WhyBody(Body):
    """Why."""

    reason: Text = ""


class SnoozeBody(Body):
    """Until when you would rather not see an approval."""

    until: Annotated[AwareDatetime | None, Field(strict=False, description="null: show it again.")]


class SeveralBody(Body):
    """Several approvals to claim, to release or to snooze."""

    do: Literal["assign", "unassign", "snooze"]
    approvals: Annotated[list[Annotated[UUID, Field(strict=False)]], Field(min_length=1, max_length=100)]
    until: Annotated[
        AwareDatetime | None, Field(strict=False, description="For snooze; null: show them again.")
    ] = None


class ExtensionBody(Body):
    """Until when people have time."""

    due_at: Annotated[AwareDatetime, Field(strict=False)]
    reason: Text


class ChosenApproval(BaseModel):
    """An approval as you saw it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: Annotated[UUID, Field(strict=False)]
    version: Annotated[int, Field(ge=1)]
    digest: Digest = None


class TogetherBody(Body):
    """One word for several approvals."""

    word: Literal["approve", "reject"]
    approvals: Annotated[list[ChosenApproval], Field(min_length=1, max_length=100)]
    comment: Text = ""
    dry: Annotated[bool, Field(description="Only say what would come of it.")] = False


class AbsenceBody(Body):
    """Who is away from when to when, and who answers meanwhile."""

    substitute: Annotated[str, Field(min_length=1, max_length=150, description="Username.")]
    starts_at: Annotated[AwareDatetime, Field(strict=False)]
    ends_at: Annotated[AwareDatetime, Field(strict=False)]
    note: Annotated[str, Field(max_length=1_000)] = ""
    user: Annotated[
        str | None, Field(max_length=150, description="Who is away; you yourself if it is left out.")
    ] = None


Topic = Literal[telling.TOPICS]  # type: ignore[valid-type]


class PreferenceBody(Body):
    """What is told to somebody, and how."""

    app: Annotated[
        list[Topic], Field(max_length=len(telling.TOPICS), description="What is shown in the app.")
    ]
    mail: Annotated[list[Topic], Field(max_length=len(telling.TOPICS), description="What is mailed.")]
    digest: Annotated[
        bool, Field(description="Mails come together, once a day, with what is still open.")
    ] = False
    hour: Annotated[
        int, Field(ge=0, le=23, description="At which hour of the person's clock; of the project: of UTC.")
    ] = 7


class HoursBody(Body):
    """When people work, on the clock of their wall."""

    zone: Annotated[str, Field(max_length=60, description="An IANA time zone.", examples=["Europe/Berlin"])]
    week: Annotated[
        dict[str, list[str]],
        Field(max_length=7, description="From and until, by day: mon, tue, wed, thu, fri, sat, sun."),
    ]
    holidays: Annotated[list[str], Field(max_length=500, description="Dates on which nobody works.")] = Field(
        default_factory=list
    )


class StateBody(Body):
    """Fields of the state that a person replaces."""

    document: ClassVar[str] = "changes"
    limit: ClassVar[int] = canonical.STATE_LIMIT + ENVELOPE

    version: Version | None = None
    lane: Lane = None
    lane_version: Annotated[
        int | None,
        Field(
            ge=0, description="With `lane`, instead of `version`: what sibling lanes do is no matter then."
        ),
    ] = None
    changes: Annotated[Object, Field(min_length=1, description="Field of the state: its new value.")]
    reason: Text


class CallPlace(BaseModel):
    """One call, as the preview names it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    address: Annotated[str, Field(max_length=32, description="Of the step that makes it.")]
    name: Annotated[str, Field(max_length=200)]
    occurrence: Annotated[str, Field(max_length=100)]

    @property
    def place(self) -> tuple[str, str, str]:
        return self.address, self.name, self.occurrence


Exceptions = Annotated[
    list[CallPlace],
    Field(max_length=1_000, description="Calls that are treated the other way; calls of the preview."),
]


To = Annotated[
    str | None,
    Field(max_length=60, description="The version of the workflow; default the nearest that is here."),
]


class ForkBody(Body):
    """Where a new run begins, and what is different in it."""

    document: ClassVar[str] = "state"
    limit: ClassVar[int] = canonical.STATE_LIMIT + ENVELOPE

    checkpoint: Annotated[int, Field(ge=0)]
    reason: Text
    state: Annotated[Object | None, Field(description="Field of the state: its new value.")] = None
    lane: Lane = None


class RewindBody(ForkBody):
    """Where to go back to, and what is different this time."""

    calls: CallsMode = "reuse"
    exceptions: Exceptions = Field(default_factory=list)
    version: Version | None = None
    detach: Annotated[
        bool,
        Field(
            description="Also if the run that started this one has taken its result: that stays what it was."
        ),
    ] = False


class PreviewBody(Body):
    """A rewind that is only looked at."""

    checkpoint: Annotated[int, Field(ge=0)]
    calls: CallsMode = "reuse"
    exceptions: Exceptions = Field(default_factory=list)


class ForkPreviewBody(Body):
    """A fork that is only looked at."""

    checkpoint: Annotated[int, Field(ge=0)]


class BranchBody(Body):
    """What a branch is called."""

    label: Annotated[str, Field(max_length=100, description="Empty takes the name away.")]


Told = Annotated[str, Field(max_length=2 * LONGEST)]


class BulkFilter(BaseModel):
    """Which runs: all that is said holds, as in the list of runs. labels: every one of these; ids: only these."""

    model_config = ConfigDict(extra="forbid", strict=True)

    q: Told | None = None
    status: Literal[STATUSES] | None = None  # type: ignore[valid-type]
    waiting_for: Literal[WAITS] | None = None  # type: ignore[valid-type]
    workflow: Annotated[str | None, Field(max_length=100)] = None
    version: Annotated[str | None, Field(max_length=60)] = None
    queue: Annotated[str | None, Field(max_length=60)] = None
    limit_key: Told | None = None
    label: Told | None = None
    state: Told | None = None
    requester: Annotated[str | None, Field(max_length=150)] = None
    error: Annotated[str | None, Field(max_length=100)] = None
    started: Literal[tuple(STARTED)] | None = None  # type: ignore[valid-type]
    labels: Annotated[dict[str, str], Field(max_length=MAX_LABELS)] = Field(default_factory=dict)
    created_from: Annotated[AwareDatetime | None, Field(strict=False)] = None
    created_until: Annotated[AwareDatetime | None, Field(strict=False)] = None
    ids: Annotated[list[Annotated[UUID, Field(strict=False)]] | None, Field(max_length=200)] = None


class BulkBody(Body):
    """A verb for many runs."""

    verb: Literal["rewind", "retry", "cancel", "pause", "resume"]
    filter: BulkFilter
    dry_run: Annotated[
        bool, Field(description="Only say how many, and which would be refused; say false to do it.")
    ] = True
    reason: Text = ""
    checkpoint: Annotated[int | None, Field(ge=0, description="Rewind: to this checkpoint of each run.")] = (
        None
    )
    node: Annotated[
        str, Field(max_length=200, description="Rewind: to where the newest visit of this node began.")
    ] = ""
    calls: CallsMode = "reuse"
    expect: Annotated[
        list[Annotated[UUID, Field(strict=False)]] | None,
        Field(max_length=200, description="The runs that you saw; 409 if others match now."),
    ] = None
    after: Annotated[UUID | None, Field(strict=False, description="`next` of the answer before.")] = None


class RetryBody(Body):
    """Why a failed run goes on."""

    reason: Text = ""
    version: Version | None = None


class MigratePreviewBody(Body):
    """A migration that is only looked at."""

    to: To = None


class MigrateBody(MigratePreviewBody):
    """To which version of its workflow a run is taken, and why."""

    reason: Text
    version: Version | None = None


class CancelBody(Body):
    """Why a run is cancelled."""

    reason: Text = ""
    compensate: Annotated[
        bool,
        Field(
            description="Whether calls that say how are taken back first. False also ends a run that is taking back its calls."
        ),
    ] = True


class PauseBody(Body):
    """Why a run is paused."""

    reason: Text = ""
    children: Annotated[bool, Field(description="With every run below it, also those that begin later.")] = (
        False
    )


class ResumeBody(Body):
    """Why a run goes on."""

    reason: Text = ""


class PriorityBody(Body):
    """Who goes first."""

    priority: Priority
    reason: Text = ""


class SignalBody(Body):
    """A message to a run."""

    document: ClassVar[str] = "payload"

    name: Annotated[str, Field(min_length=1, max_length=200, examples=["paid"])]
    payload: Annotated[Any, Field(description="Whatever the run is to read; null if it is left out.")] = None
    id: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=200,
            description="Your own id: the same one again changes nothing and is answered alike.",
        ),
    ] = None


class HoldBody(Body):
    """Why nothing of a run may be removed."""

    reason: Text


class RepairBody(Body):
    """What is put right: a violation as `GET /health` names it, and why."""

    rule: Annotated[str, Field(max_length=40)]
    target: Annotated[UUID, Field(strict=False)]
    reason: Text


class EraseBody(Body):
    """Why the content of a run is erased. The reason stays: nothing that is to be erased belongs in it."""

    reason: Text
    version: Version | None = None


# ---- people


Role = Literal[ROLES]  # type: ignore[valid-type]  # one list of them, for the database and for the door
Scope = Literal[SCOPES]  # type: ignore[valid-type]
Roles = Annotated[list[Role], Field(min_length=1, max_length=len(ROLES), examples=[["reviewer"]])]
Account = Annotated[str, Field(min_length=1, max_length=150, examples=["frida"])]


class RolesBody(Body):
    """What a member may do."""

    roles: Roles


class ServiceAccountBody(Body):
    """An account that comes in by API token only."""

    username: Account
    name: Annotated[str, Field(max_length=150)] = ""
    roles: Roles


class InvitationBody(Body):
    """Whom to ask in, and as what."""

    roles: Roles
    email: Annotated[
        str,
        Field(
            max_length=254, description="Whom it is for, and where it is sent; without, for whoever has it."
        ),
    ] = ""
    days: Annotated[int, Field(ge=1, le=90, description="How long it can be used.")] = 7


class TeamBody(Body):
    """A team of members."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,63}$", examples=["finance"])]
    people: Annotated[list[Account], Field(max_length=1_000)] = Field(default_factory=list)


class ViewBody(Body):
    """A list to come back to, by name."""

    page: Annotated[
        Literal[PAGES],  # type: ignore[valid-type]
        Field(description="Whose list it is of."),
    ]
    name: Annotated[str, Field(min_length=1, max_length=60, examples=["High risk and up"])]
    query: Annotated[
        dict[str, str],
        Field(max_length=20, description="What the address of the list says.", examples=[{"risk": "high"}]),
    ]
    team: Annotated[str | None, Field(max_length=63, description="Whose people have it too.")] = None


class ViewChange(Body):
    """What is left out stays as it is."""

    name: Annotated[str | None, Field(min_length=1, max_length=60)] = None
    query: Annotated[dict[str, str] | None, Field(max_length=20)] = None
    team: Annotated[str | None, Field(max_length=63, description="Empty: only its owner has it.")] = None


class PeopleBody(Body):
    """Who is in a team: these members, nobody else."""

    people: Annotated[list[Account], Field(max_length=1_000)]


class TokenBody(Body):
    """A token of one's own, or of a service account."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=len(SCOPES))]
    username: Annotated[Account | None, Field(description="The service account; default oneself.")] = None
    expires_at: Annotated[AwareDatetime | None, Field(strict=False)] = None


class ProjectBody(Body):
    """What is said of the project."""

    name: Annotated[str, Field(min_length=1, max_length=150)]


Read = TypeVar("Read", bound=Body)


def read(request: Request, model: type[Read]) -> Read:
    """The body of a request. Raises errors of `runs.errors` that name every fault; an empty body counts as `{}`."""
    body = _validated(_parsed(request, model), model)
    for document in body.documents():
        _check(document, model)
    return body


def _parsed(request: Request, model: type[Body]) -> Json:
    raw: Any = request.data
    if not isinstance(raw, bytes) or (len(raw) <= model.limit and not raw.strip()):
        return {}
    try:
        return canonical.parse(raw, limit=model.limit, max_depth=DEPTH)
    except InvalidJson as error:
        raise _placed(error, model) from None


def _check(document: Json, model: type[Body]) -> None:
    try:
        canonical.check(document)
    except InvalidJson as error:
        errors = [Placed(p.path, p.code, p.message, model.document) for p in error.errors]
        raise InvalidJson(error.detail, errors=errors) from None


def _placed(error: InvalidJson, model: type[Body]) -> InvalidJson:
    """The same faults with those inside the document of the body told from its top, as all later checks tell them."""
    inside = (
        re.compile(rf"(?:/decisions/\d+)?/{model.document}(/.*)\Z", re.DOTALL) if model.document else None
    )
    errors = []
    for problem in error.errors:
        found = inside.match(problem.path) if inside else None
        path, within = (found[1], model.document) if found else (problem.path, "")
        errors.append(Placed(path, problem.code, problem.message, within))
    first = errors[0]
    detail = error.detail if first.path == "" else f"{first.message} at {first.path}."
    return InvalidJson(detail, errors=errors, **error.facts)


def _validated(document: Json, model: type[Read]) -> Read:
    if not isinstance(document, dict):
        raise BadRequest(
            "The body is a JSON object.", errors=[Problem("", "wrong_type", "an object is needed")]
        )
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise _refusal(error.errors(include_url=False), model) from None


def _refusal(faults: Sequence[ErrorDetails], model: type[BaseModel]) -> HitlError:
    errors = [_problem(fault, model) for fault in faults[:_MOST_SHOWN]]
    unknown = next((problem for problem in errors if problem.code == "unknown_field"), None)
    if unknown:
        return UnknownField(f"Nothing here reads {unknown.path}; {unknown.message}.", errors=errors)
    if any(problem.path == "/input" and problem.code in ("missing", "null") for problem in errors):
        return InputRequired(errors=errors)
    return BadRequest(f"{errors[0].path or 'The body'}: {errors[0].message}.", errors=errors)


def _problem(fault: ErrorDetails, model: type[BaseModel]) -> Problem:
    place = _place(fault["loc"])
    path = pointer(place)
    if fault["type"] == "extra_forbidden":
        return Problem(path, "unknown_field", f"known here: {', '.join(_known(model, place[:-1]))}")
    if fault["type"] == "missing":
        return Problem(path, "missing", "this field is needed")
    if fault["input"] is None:
        return Problem(path, "null", "null is not allowed here")
    return Problem(path, _CODES.get(fault["type"], "invalid_value"), _lower(fault["msg"]))


def _place(location: Sequence[str | int]) -> list[str | int]:
    """Where a fault is, without pydantic's own marks: the tried types of a union, and `[key]` after a bad key."""
    if location[:1] == ("version",):
        return ["version"]
    return [part for part in location if part != "[key]"]


NESTED: Final[dict[str | int, type[BaseModel]]] = {
    "decisions": Decision,
    "approvals": ChosenApproval,
    "exceptions": CallPlace,
    "filter": BulkFilter,
}
_CODES: Final = {
    "string_too_long": "too_long",
    "string_too_short": "too_short",
    "too_long": "too_long",
    "too_short": "too_short",
    **dict.fromkeys(
        ["string_type", "int_type", "dict_type", "list_type", "model_type", "float_type", "bool_type"],
        "wrong_type",
    ),
}


def _known(model: type[BaseModel], place: Sequence[str | int]) -> list[str]:
    """Names of the fields at a place."""
    nested = [NESTED[part] for part in place if part in NESTED]
    return list((nested[-1] if nested else model).model_fields)


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]
