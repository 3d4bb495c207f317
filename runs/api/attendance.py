"""What the API answers about those who answer: several approvals at once, who is away, when teams work."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from runs.api.bodies import Topic
from runs.api.shapes import Id, PersonDocument, Time, exact, maybe_time, person, time_text
from runs.engine.hours import Hours
from runs.engine.telling import TOPICS
from runs.models import Absence, Preference
from runs.operations import Result, Together


@exact
class TogetherItem(TypedDict):
    """What came, or would come, of one approval."""

    approval: Id
    status: Annotated[
        Literal["decided", "recorded", "possible", "refused"],
        Field(
            description="recorded: more people must agree. possible: nothing was stored, `dry` was asked for."
        ),
    ]
    code: Annotated[str, Field(description="Of the refusal.")]
    detail: str


@exact
class TogetherDocument(TypedDict):
    """A result for each, in the order of the request."""

    items: list[TogetherItem]
    dry: bool


@exact
class SeveralItem(TypedDict):
    """What came of one approval."""

    approval: Id
    status: Literal["done", "refused"]
    code: Annotated[str, Field(description="Of the refusal.")]
    detail: str


@exact
class SeveralDocument(TypedDict):
    """A result for each, in the order of the request."""

    items: list[SeveralItem]


@exact
class AbsenceDocument(TypedDict):
    """Somebody is away; the substitute answers in their place."""

    id: Id
    user: PersonDocument
    substitute: PersonDocument
    starts_at: Time
    ends_at: Time
    note: str
    ended_at: Annotated[Time | None, Field(description="When it was taken back.")]


@exact
class AbsenceList(TypedDict):
    items: list[AbsenceDocument]


@exact
class ProjectHoursDocument(TypedDict):
    """When people work whose team says nothing. `standard`: nothing was said; this is the week of everybody."""

    zone: str
    week: dict[str, list[str]]
    holidays: list[str]
    standard: bool


@exact
class HoursDocument(ProjectHoursDocument):
    """When the people of a team work. `standard`: it has said nothing; these are the hours of its project."""

    team: str


@exact
class PreferenceDocument(TypedDict):
    """What is told to somebody, and how. `standard`: nothing was said; this is what holds then."""

    app: Annotated[list[Topic], Field(description="What is shown in the app.")]
    mail: Annotated[list[Topic], Field(description="What is mailed, if the installation sends mail.")]
    digest: Annotated[bool, Field(description="Mails come together, once a day, with what is still open.")]
    hour: Annotated[int, Field(description="When they come, on the person's clock; of the project: UTC.")]
    standard: bool


def together_document(done: Together) -> TogetherDocument:
    return {"items": [_together_item(item, dry=done.dry) for item in done.items], "dry": done.dry}


def several_document(done: Together) -> SeveralDocument:
    return {"items": [_several_item(item) for item in done.items]}


def _several_item(item: Result) -> SeveralItem:
    if item.error is None:
        return {"approval": item.approval_id, "status": "done", "code": "", "detail": ""}
    return {
        "approval": item.approval_id,
        "status": "refused",
        "code": item.error.code,
        "detail": item.error.detail,
    }


def _together_item(item: Result, *, dry: bool) -> TogetherItem:
    if item.error is not None:
        return {
            "approval": item.approval_id,
            "status": "refused",
            "code": item.error.code,
            "detail": item.error.detail,
        }
    status: Any = "possible" if dry else "decided" if item.decided else "recorded"
    return {"approval": item.approval_id, "status": status, "code": "", "detail": ""}


def project_hours_document(hours: Hours, *, told: bool) -> ProjectHoursDocument:
    said: Any = hours.as_dict()
    return {
        "zone": said["zone"],
        "week": said["week"],
        "holidays": said["holidays"],
        "standard": not told,
    }


def hours_document(team: str, hours: Hours, *, told: bool) -> HoursDocument:
    return {"team": team, **project_hours_document(hours, told=told)}


def preference_document(told: Preference, *, standard: bool) -> PreferenceDocument:
    app, mail = ([topic for topic in TOPICS if topic in chosen] for chosen in (told.app, told.mail))
    return {"app": app, "mail": mail, "digest": told.digest, "hour": told.hour, "standard": standard}


def absence_document(absence: Absence) -> AbsenceDocument:
    return {
        "id": str(absence.pk),
        "user": person(absence.user),
        "substitute": person(absence.substitute),
        "starts_at": time_text(absence.starts_at),
        "ends_at": time_text(absence.ends_at),
        "note": absence.note,
        "ended_at": maybe_time(absence.ended_at),
    }
