"""The description of the API (OpenAPI 3.1), made from the models that read requests and the shapes that are answered.

Requests are read where they are described: no operation can read another model than it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from inspect import signature
from typing import Any, Final, TypeVar

from drf_spectacular.authentication import SessionScheme
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema
from pydantic import BaseModel, TypeAdapter
from rest_framework.request import Request

from runs.api import bodies, documents, parameters
from runs.api.parameters import NoQuery, Query, parameters_of
from runs.api.problems import CONTENT_TYPE, TYPES, kinds, title
from runs.engine.status import ApprovalStatus, RunStatus

REF: Final = "#/components/schemas/{model}"
Decorated = TypeVar("Decorated", bound=Callable[..., Any])

ID_PARAMETER: Final = OpenApiParameter(
    "id",
    {"type": "string", "format": "uuid"},
    OpenApiParameter.PATH,
    description="With or without dashes, in capitals or not.",
)
IF_MATCH: Final = OpenApiParameter(
    "If-Match",
    str,
    OpenApiParameter.HEADER,
    description="The version that you saw, in quotes, instead of `version` in the body. Another one there now is then 412.",
)
NAME_PARAMETER: Final = OpenApiParameter("name", {"type": "string"}, OpenApiParameter.PATH)
USERNAME_PARAMETER: Final = OpenApiParameter(
    "username", {"type": "string"}, OpenApiParameter.PATH, description="The name of the account."
)
ETAG: Final = OpenApiParameter(
    "ETag", str, OpenApiParameter.HEADER, response=[200, 201, 202], description="For If-Match."
)
OF_APPROVAL: Final = [ETAG]
OF_RUN: Final = [
    ETAG,
    OpenApiParameter(
        "Hitl-Run-Status",
        str,
        OpenApiParameter.HEADER,
        response=[200, 201, 202],
        description="The run's status.",
    ),
]
OF_SUBMISSION: Final = [
    *OF_RUN,
    OpenApiParameter(
        "Location", str, OpenApiParameter.HEADER, response=[201, 200], description="The run's address."
    ),
    OpenApiParameter(
        "Idempotent-Replayed",
        {"type": "string", "enum": ["true"]},
        OpenApiParameter.HEADER,
        response=[200],
        description="The run is that of an earlier request with the same key and body.",
    ),
]
OF_SIGNAL: Final = [
    OpenApiParameter(
        "Idempotent-Replayed",
        {"type": "string", "enum": ["true"]},
        OpenApiParameter.HEADER,
        response=[200],
        description="The signal is that of an earlier request with the same id.",
    ),
]
IDEMPOTENCY_KEY: Final = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": 255},
    OpenApiParameter.HEADER,
    description="1 to 255 printable ASCII characters. For 24 hours the same key and body lead to the same run.",
)
PEOPLE: Final = ("not_found", "missing_scope", "not_a_candidate", "self_approval", "busy")
WITHOUT_CODE: Final = (
    "migration_missing",
    "migration_failed",
    "schema_newer_than_code",
    "graph_changed_without_version",
    "version_elsewhere",
)
MIGRATING: Final = (
    "not_found",
    "missing_scope",
    *WITHOUT_CODE,
    "unknown_version",
    "step_executing",
    "already_terminal",
    "event_not_allowed",
    "checkpoint_unreadable",
    "erased",
)
STEERING: Final = (
    *PEOPLE,
    *WITHOUT_CODE,
    "compensating",
    "compensated",
    "unknown_checkpoint",
    "checkpoint_removed",
    "checkpoint_unreadable",
    "erased",
    "nothing_to_run",
    "stale_version",
    "reason_required",
    "schema_violation",
)
CONTROLLING: Final = ("not_found", "already_terminal", "busy", "missing_scope")
KEEPING: Final = ("not_found", "missing_scope", "busy", "reason_required")
ADMINISTERING: Final = ("not_found", "missing_scope", "schema_violation", "busy")
FORKING: Final = (
    "not_found",
    "compensating",
    "compensated",
    "missing_scope",
    "busy",
    *WITHOUT_CODE,
    "unknown_checkpoint",
    "checkpoint_removed",
    "checkpoint_unreadable",
    "erased",
    "nothing_to_run",
)
ANSWERING: Final = (
    *PEOPLE,
    *WITHOUT_CODE,
    "field_not_editable",
    "checkpoint_unreadable",
    "already_decided",
    "approval_closed",
    "timed_out",
    "stale_version",
    "payload_changed",
    "version_required",
    "schema_violation",
    "already_voted",
    "already_assigned",
)
ATTENDING: Final = (*PEOPLE, "already_decided", "approval_closed", "timed_out")
SUBMITTING: Final = (
    "graph_changed_without_version",
    "input_required",
    "invalid_idempotency_key",
    "unknown_workflow",
    "schema_violation",
    "key_reused",
    "invalid_limit_key",
    "missing_scope",
)
ALWAYS: Final = (
    "bad_request",
    "invalid_parameter",
    "unknown_field",
    "not_authenticated",
    "forbidden",
    "database_error",
)


def described(
    *,
    answers: Mapping[int, Any],
    errors: Sequence[str] = (),
    body: type[bodies.Body] | None = None,
    query: type[Query] = NoQuery,
    headers: Sequence[OpenApiParameter] = (),
    answer_headers: Sequence[OpenApiParameter] = (),
    examples: Mapping[str, Any] | None = None,
    files: Sequence[str] = (),
    form: Mapping[str, Any] | None = None,
    public: bool = False,
    **told: Any,
) -> Callable[[Decorated], Decorated]:
    """Describe one operation, and read its requests: parameters and body that are not described here are refused.

    answers: status and shape; files: media types as which the same can be had; form: the schema of a multipart form;
    errors: codes, beyond those that every operation may answer. The method gets what was read as `wanted` (of `query`) and
    `body`, where it has arguments of these names.
    """
    faults = [*errors, "invalid_parameter", "unknown_field"] if public else [*ALWAYS, *errors]
    if "not_found" in faults and not public:
        faults.append("gone")
    if form is not None:
        faults += ["too_large", "unsupported_media_type"]
    if body is not None:
        faults += ["invalid_json", "too_large", "unsupported_media_type"]
    conditional = IF_MATCH in headers
    shown = [OpenApiExample(name, value=value, request_only=True) for name, value in (examples or {}).items()]

    def describe(method: Decorated) -> Decorated:
        of_method = [] if method.__name__ == "get" else ["csrf_failed"]
        describing = extend_schema(
            parameters=[*_query_parameters(query), *headers, *answer_headers],
            request=_request(body, form),
            responses={
                **{(status, "application/json"): _answer(shape) for status, shape in answers.items()},
                **{(200, kind): _file(kind) for kind in files},
                **_problems([*faults, *of_method]),
                **({(412, CONTENT_TYPE): _problem_answer(["stale_version"], 412)} if conditional else {}),
            },
            examples=shown,
            auth=[] if public else None,
            **told,
        )
        done: Decorated = describing(_reading(method, query=query, body=body))
        return done

    return describe


def answering_run(
    *, status: int = 200, headers: Sequence[OpenApiParameter] = (), **told: Any
) -> Callable[[Decorated], Decorated]:
    """Describe what is done to one run, and answers the run as it is then."""
    answers = {status: documents.RunDocument}
    return described(answers=answers, headers=[ID_PARAMETER, *headers], answer_headers=OF_RUN, **told)


def answering_approval(
    *, headers: Sequence[OpenApiParameter] = (), **told: Any
) -> Callable[[Decorated], Decorated]:
    """Describe what is done to one approval, or a look at it: the approval as it is then."""
    answers = {200: documents.ApprovalDocument}
    return described(answers=answers, headers=[ID_PARAMETER, *headers], answer_headers=OF_APPROVAL, **told)


def _request(body: type[bodies.Body] | None, form: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if form is not None:
        return {"multipart/form-data": dict(form)}
    return None if body is None else {"application/json": _ref(body)}


def _file(kind: str) -> OpenApiTypes:
    return OpenApiTypes.STR if kind.startswith("text/") else OpenApiTypes.BINARY


def _reading(method: Any, *, query: type[Query], body: type[bodies.Body] | None) -> Any:
    """The method of an endpoint, called with what its request says."""
    taken = signature(method).parameters

    @wraps(method)
    def reading(endpoint: Any, request: Request, **path: Any) -> Any:
        told: dict[str, Any] = {"wanted": parameters.query(request, query)}
        if body is not None:
            told["body"] = bodies.read(request, body)
        return method(endpoint, request, **path, **{name: told[name] for name in told.keys() & taken.keys()})

    return reading


def _answer(shape: Any) -> OpenApiResponse:
    description = (shape.__doc__ or "").strip().partition("\n")[0]
    return OpenApiResponse(_ref(shape), description=description or shape.__name__)


def _problems(codes: Sequence[str]) -> dict[tuple[int, str], OpenApiResponse]:
    """One response per status, with an example for each code."""
    known = kinds()
    by_status: dict[int, list[str]] = {}
    for code in dict.fromkeys(codes):
        by_status.setdefault(known[code].http_status, []).append(code)
    return {
        (status, CONTENT_TYPE): _problem_answer(of_status, status)
        for status, of_status in sorted(by_status.items())
    }


def _problem_answer(codes: Sequence[str], status: int) -> OpenApiResponse:
    return OpenApiResponse(
        _ref(documents.ProblemDocument),
        description=", ".join(codes),
        examples=[_problem_example(code, status) for code in codes],
    )


def _problem_example(code: str, status: int) -> OpenApiExample:
    kind = kinds()[code]
    value = {
        "type": TYPES + code,
        "title": title(kind),
        "status": status,
        "detail": title(kind),
        "code": code,
        **FACTS.get(code, {}),
    }
    return OpenApiExample(code, value=value, media_type=CONTENT_TYPE)


def _fault(path: str, code: str, message: str, **where: str) -> dict[str, Any]:
    return {"errors": [{"path": path, "code": code, "message": message, **where}]}


FACTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "already_decided": {
        "detail": "Frida Finance was first: approve.",
        "winner": "Frida Finance",
        "action": "approve",
        "decided_at": "2026-01-31T09:30:00+00:00",
        "version": 1,
    },
    "stale_version": {"detail": "You saw version 7; version 8 is there now.", "version": 8},
    "unknown_field": _fault("/wrokflow", "unknown_field", "known here: workflow, input, version, labels"),
    "invalid_json": _fault("/x", "non_finite_number", "NaN is not a JSON number", **{"in": "input"}),
    "schema_violation": _fault("/order_id", "missing", "Field required", **{"in": "input"}),
    "invalid_parameter": _fault(
        "/limit", "invalid_value", "input should be less than or equal to 200", **{"in": "query"}
    ),
    "team_in_use": {
        "detail": "2 open approvals ask the team 'finance'; have them answered first.",
        "approvals": 2,
    },
    "missing_scope": {"scope": "runs:read", "scopes": ["runs:submit"]},
    "not_a_candidate": {"candidates": "finance"},
}


def _query_parameters(query: type[Query]) -> list[OpenApiParameter]:
    return [
        OpenApiParameter(
            name, _without_null(shape), OpenApiParameter.QUERY, description=shape.get("description", "")
        )
        for name, shape in parameters_of(query).items()
    ]


def _without_null(shape: Mapping[str, Any]) -> dict[str, Any]:
    """A parameter that may be left out is left out; in the address there is no null."""
    kept = {
        key: value for key, value in shape.items() if key not in ("description", "title", "default", "anyOf")
    }
    for choice in shape.get("anyOf", []):
        if choice.get("type") != "null":
            kept |= choice
    if shape.get("default") is not None:
        kept["default"] = shape["default"]
    if "$ref" in kept:
        return {"type": "string", "enum": ENUMS[kept["$ref"]], **_default(kept)}
    return kept


def _default(shape: Mapping[str, Any]) -> dict[str, Any]:
    return {"default": shape["default"]} if "default" in shape else {}


ENUMS: Final = {
    "RunStatus": [status.value for status in RunStatus],
    "ApprovalStatus": [status.value for status in ApprovalStatus],
}


# ---- components


def _ref(model: Any) -> dict[str, Any]:
    _used.add(model)
    return {"$ref": REF.format(model=model.__name__)}


_used: set[Any] = set()


@cache
def components() -> dict[str, Any]:
    """JSON Schema of every shape that an operation names, and of what those name."""
    adapters = sorted(_used, key=lambda model: str(model.__name__))
    asked = [
        (model.__name__, "validation" if _is_body(model) else "serialization", TypeAdapter(model))
        for model in adapters
    ]
    _, definitions = TypeAdapter.json_schemas(asked, ref_template=REF)  # type: ignore[arg-type]
    return dict(definitions.get("$defs", {}))


def _is_body(model: Any) -> bool:
    return isinstance(model, type) and issubclass(model, BaseModel)


def add_components(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Post-processing hook of drf-spectacular."""
    result["components"]["schemas"] = {**result["components"].get("schemas", {}), **components()}
    for operations in result["paths"].values():
        for operation in operations.values():
            _mark_needed(operation, result["components"]["schemas"])
    return result


def _mark_needed(operation: dict[str, Any], schemas: Mapping[str, Any]) -> None:
    """A body is needed exactly if one of its fields is."""
    body = operation.get("requestBody")
    if body and "multipart/form-data" in body["content"]:
        body["required"] = True
    elif body:
        name = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        body["required"] = bool(schemas[name].get("required"))


def without_slashes(endpoints: list[tuple[str, str, str, Any]]) -> list[tuple[str, str, str, Any]]:
    """Pre-processing hook: an address with a slash at its end is answered too, but there is one name for each."""
    return [endpoint for endpoint in endpoints if not endpoint[0].endswith("/")]


class Described(AutoSchema):
    """Tags by the first word after the version, and no docstrings of classes as descriptions."""

    def get_description(self) -> str:  # type: ignore[override]  # drf-spectacular's own signature
        return ""

    def get_tags(self) -> list[str]:
        return [self.path.removeprefix("/api/v1/").partition("/")[0]]


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "runs.api.authentication.BearerToken"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "An API token; made by command and on the page Tokens.",
        }


class SessionOfPages(SessionScheme):  # type: ignore[no-untyped-call]
    target_class = "runs.api.authentication.Session"
    name = "session"
