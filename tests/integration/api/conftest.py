"""A client that holds every answer against the description of the API, and people with tokens."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
from django.db import connection
from django.db.models import Model
from django.test import Client
from jsonschema import Draft202012Validator

from runs import operations
from runs.api.docs import document
from runs.engine import canonical
from runs.models import (
    Approval,
    AuditEntry,
    Branch,
    Checkpoint,
    Event,
    JournalEntry,
    Revision,
    Run,
    Step,
    Vote,
    Wait,
)
from runs.models.people import SCOPES
from runs.operations.tokens import issue_token
from runs.policies import Actor
from tests.integration.core.conftest import House, define, make_house, open_approval, pay_flow, person

__all__ = ["House", "define", "make_house", "open_approval", "pay_flow", "person"]

V1 = "/api/v1"


@dataclass(slots=True)
class Reply:
    status: int
    body: Any
    headers: Mapping[str, str]
    text: str

    @property
    def code(self) -> str:
        assert self.headers["Content-Type"] == "application/problem+json", self.text[:500]
        assert self.body["status"] == self.status
        return str(self.body["code"])

    @property
    def paths(self) -> list[str]:
        return [fault["path"] for fault in self.body["errors"]]

    @property
    def codes(self) -> list[str]:
        return [fault["code"] for fault in self.body["errors"]]


@dataclass(slots=True)
class Api:
    """Asks as one person. A body is sent as canonical JSON; `raw` as it is."""

    secret: str | None = None
    client: Client = field(default_factory=lambda: Client(raise_request_exception=False))

    def get(self, path: str, **headers: str) -> Reply:
        return self.ask("GET", path, headers=headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Reply:
        return self.ask("POST", path, body, headers=headers)

    def patch(self, path: str, body: Any = None, **headers: str) -> Reply:
        return self.ask("PATCH", path, body, headers=headers)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: str | bytes | None = None,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """`headers` with underscores for dashes."""
        told = {name.replace("_", "-"): value for name, value in (headers or {}).items()}
        if self.secret is not None:
            told.setdefault("Authorization", f"Bearer {self.secret}")
        data = raw if raw is not None else "" if body is None else canonical.dumps(body)
        address = path if path.startswith("/") else f"{V1}/{path}"
        response = self.client.generic(method, address, data, content_type=content_type, headers=told)
        return checked(method, address, response)


def checked(method: str, address: str, response: Any) -> Reply:
    """The reply, after it was found to be what the description says."""
    text = response.getvalue().decode()
    assert response.headers["Content-Type"].partition(";")[0] in (
        "application/json",
        "application/problem+json",
    ), text
    body = strict(text) if text else None
    reply = Reply(response.status_code, body, response.headers, text)
    operation = described(method, address)
    if operation is not None and text:
        _check(operation, reply)
    return reply


def strict(text: str) -> Any:
    """Read JSON as a strict parser does: no NaN, no duplicate keys."""

    def refuse(name: str) -> Any:
        raise AssertionError(f"{name} is no JSON")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len({key for key, _ in pairs}) == len(pairs)
        return dict(pairs)

    return json.loads(text, parse_constant=refuse, object_pairs_hook=once)


@cache
def description() -> dict[str, Any]:
    return dict(json.loads(document()))


def described(method: str, address: str) -> dict[str, Any] | None:
    """The operation of the description that answers this request, if there is one."""
    path = address.partition("?")[0].rstrip("/")
    paths = sorted(
        description()["paths"].items(), key=lambda one: "{" in one[0]
    )  # as routes: a word before any word
    for template, methods in paths:
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path):
            found: dict[str, Any] | None = methods.get("get" if method == "HEAD" else method.lower())
            return found
    return None


def _check(operation: Mapping[str, Any], reply: Reply) -> None:
    told = operation["responses"].get(str(reply.status))
    name = operation["operationId"]
    if reply.status in (200, 201, 202) or told is not None:
        assert told is not None, f"{name} may answer {reply.status}, which is not described"
        kind = reply.headers["Content-Type"]
        _validator(told["content"][kind]["schema"]["$ref"]).validate(reply.body)
    if reply.status >= 400:
        codes = "" if told is None else told["description"]
        assert reply.body["code"] in codes.split(", "), (
            f"{name}: {reply.status} {reply.body['code']} is not described"
        )


@cache
def _validator(reference: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": reference, "components": description()["components"]})


def pages(api: Api, address: str, *, parameter: str = "cursor") -> list[list[dict[str, Any]]]:
    """The items of every page, following `next` to the end."""
    join = "&" if "?" in address else "?"
    reply = api.get(address)
    found = [reply.body["items"]]
    while reply.body["next"] is not None:
        reply = api.get(f"{address}{join}{parameter}={reply.body['next']}")
        found.append(reply.body["items"])
    return found


# ---- people


def token_of(actor: Actor, scopes: Sequence[str] = SCOPES, **options: Any) -> str:
    """The secret of a new API token."""
    _, secret = issue_token(project=actor.project, user=actor.user, name="test", scopes=scopes, **options)
    return secret


def api_of(actor: Actor, scopes: Sequence[str] = SCOPES) -> Api:
    return Api(token_of(actor, scopes))


@pytest.fixture
def committed(database: None) -> None:
    """For tests with several connections: what is written is committed. The others share one transaction, for speed."""


@pytest.fixture
def house(db: None) -> Iterator[House]:
    yield make_house()
    operations.leave()


@pytest.fixture
def shop(house: House) -> Api:
    return api_of(house.shop)


@pytest.fixture
def frida(house: House) -> Api:
    return api_of(house.frida)


@pytest.fixture
def felix(house: House) -> Api:
    return api_of(house.felix)


@pytest.fixture
def olga(house: House) -> Api:
    return api_of(house.olga)


@pytest.fixture
def vera(house: House) -> Api:
    return api_of(house.vera)


@pytest.fixture
def admin(house: House) -> Actor:
    return person(house.project, "ada", "admin")


@pytest.fixture
def ada(admin: Actor) -> Api:
    return api_of(admin)


@pytest.fixture
def outsider(house: House) -> Api:
    """An operator and reviewer of another project."""
    other = make_house("other")
    return api_of(other.olga)


# ---- at the same time


def at_once(calls: Sequence[Callable[[], Reply]]) -> list[Reply]:
    """The replies to calls that start together, each in a thread with a connection of its own."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], Reply]) -> Reply:
        try:
            barrier.wait(timeout=30)
            return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


# ---- what is in the database


def every_row() -> dict[str, list[Any]]:
    """All rows of runs, approvals and their history: what reading must not change."""
    kinds: list[type[Model]] = [
        Run,
        Branch,
        Checkpoint,
        Event,
        Step,
        JournalEntry,
        Wait,
        Approval,
        Revision,
        Vote,
    ]
    return {kind.__name__: list(kind.objects.order_by("pk").values()) for kind in kinds}  # type: ignore[attr-defined]


def denials() -> list[tuple[str, str, str]]:
    """Audit entries of refusals, oldest first: who, verb, outcome."""
    rows = AuditEntry.objects.filter(outcome__startswith="denied").order_by("id")
    return list(rows.values_list("user_name", "verb", "outcome"))
