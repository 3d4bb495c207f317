"""What documents of the API are made of: instants, ids, people."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from runs.models import User

Id = Annotated[str, Field(json_schema_extra={"format": "uuid"})]
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Object = dict[str, Any]
Cursor = Annotated[str | None, Field(description="`cursor` of the next page; null on the last one.")]
exact = with_config(ConfigDict(extra="forbid"))  # a member that is not described here is a mistake


@exact
class PersonDocument(TypedDict):
    username: str
    name: str
    is_service: Annotated[bool, Field(description="A service account, not a person.")]


def person(user: User) -> PersonDocument:
    return {"username": user.username, "name": user.name, "is_service": user.is_service}


def time_text(moment: datetime) -> str:
    return moment.isoformat()


def maybe_time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def maybe_id(value: UUID | None) -> str | None:
    return None if value is None else str(value)
