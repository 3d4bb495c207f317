"""Typed state: pydantic on the author's side, JSON in the store, and nothing lost between the two.

A value is storable if what comes back equals what went in. So a set in a field of type Any is refused (a list would
come back), while the same set in a field of type `set[str]` is fine. Work is done for the keys that change, not for
the whole state; only a model with validators of its own is validated as a whole.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, cast

from pydantic import BaseModel, PydanticSchemaGenerationError, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError
from pydantic_core import PydanticSerializationError

from runs.engine import canonical
from runs.engine.canonical import Json
from runs.errors import InvalidJson, Problem, SchemaViolation, StateNotStorable, Unprocessable, WorkflowError

_PLAIN: Final = (str, int, float, bool, type(None))


class _Append:
    """Reducer: an update holds the new items; they are added to the end of the list."""

    def __repr__(self) -> str:
        return "append"


append: Final = _Append()


@dataclass(frozen=True, slots=True)
class Write:
    """One change of a top-level key: `set` replaces, `append` adds items. `value` is JSON."""

    key: str
    kind: str
    value: Json


class StateSchema:
    """What a pydantic model says about the state, and the ways in and out of it."""

    def __init__(self, model: type[BaseModel]) -> None:
        self.model = model
        self.fields = model.model_fields
        self.appending = frozenset(name for name, info in self.fields.items() if append in info.metadata)
        self._whole = bool(model.__pydantic_decorators__.model_validators) or bool(
            model.model_config.get("frozen")
        )
        self._view_class = _lazy_view(model)
        _ = self.json_schema

    @cached_property
    def json_schema(self) -> dict[str, Json]:
        try:
            return self.model.model_json_schema()
        except (PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError) as error:
            raise WorkflowError(f"The model {self.model.__name__} has no JSON Schema: {error}") from None

    # ---- documents from outside

    def accept(self, document: Json) -> dict[str, Json]:
        """Check a document from a submitter against the model; returns it complete, with defaults. Raises `Unprocessable`."""
        try:
            value = self.model.model_validate(document, extra="forbid")
        except ValidationError as error:
            raise Unprocessable(
                f"The input does not fit {self.model.__name__}.", errors=problems_of(error)
            ) from None
        return self.dump(value)

    def dump(self, value: BaseModel) -> dict[str, Json]:
        """A model instance as a JSON document. Raises `StateNotStorable`."""
        return cast(
            dict[str, Json], _stored(value, lambda: value.model_dump(mode="json", warnings=False), "")
        )

    def load(self, document: Mapping[str, Json]) -> dict[str, Any]:
        """Python values of a stored document, by field. Raises `SchemaViolation` if the model does not fit any more."""
        try:
            value = self.model.model_validate(document)
        except ValidationError as error:
            raise SchemaViolation(
                f"The stored state does not fit {self.model.__name__}.", errors=problems_of(error)
            ) from None
        return dict(value.__dict__)

    def view(self, values: dict[str, Any]) -> BaseModel:
        """The state as one node sees it: its own, since every field is copied when it is first touched."""
        view: BaseModel = self._view_class.over(values)
        return view

    # ---- updates from nodes and people

    def writes(self, values: dict[str, Any], update: Json) -> list[Write]:
        """Check a node's partial update; `values` is the state before. Raises `StateNotStorable` or `SchemaViolation`."""
        if update is None:
            return []
        if isinstance(update, BaseModel):
            update = {name: getattr(update, name) for name in update.model_fields_set}
        if not isinstance(update, dict):
            raise SchemaViolation(
                f"A node returns a dict with the keys it changes, or None; this one returned {type(update).__name__}.",
                path="",
                type=type(update).__name__,
            )
        writes = [self._write(values, key, value, reduce=True) for key, value in update.items()]
        self._check_whole(values, writes)
        return writes

    def edits(self, values: dict[str, Any], changes: Mapping[str, Json]) -> list[Write]:
        """Check changes by a person: like an update, but a list with a reducer is replaced. Raises `Unprocessable`."""
        try:
            writes = [self._write(values, key, value, reduce=False) for key, value in changes.items()]
            self._check_whole(values, writes)
        except (SchemaViolation, StateNotStorable) as error:
            raise Unprocessable(
                error.detail,
                errors=error.errors or [Problem(error.facts.get("path", ""), error.code, error.detail)],
            ) from None
        return writes

    def keep(self, values: dict[str, Any], writes: list[Write]) -> None:
        """Bring the Python values up to date with committed writes."""
        for write in writes:
            value = self._python(values, write.key, write.value)
            if write.kind == "append":
                values[write.key] = [*values[write.key], *value]
            else:
                values[write.key] = value

    def _write(self, values: dict[str, Any], key: str, value: Any, *, reduce: bool) -> Write:
        path = f"/{canonical.escape(str(key))}"
        if key not in self.fields:
            known = ", ".join(self.fields)
            problem = Problem(path, "unknown_key", f"the state has no key {key!r}; it has {known}")
            raise SchemaViolation(
                f"The update has the key {key!r}, which the state does not know.", errors=[problem]
            )
        appends = reduce and key in self.appending
        if appends and not isinstance(value, (list, tuple)):
            problem = Problem(
                path, "list_type", "a list of new items is needed: the key has the reducer append"
            )
            raise SchemaViolation(f"{key!r} takes a list of new items.", errors=[problem])
        _refuse_unstorable_early(value, path)
        python = self._python(values, key, list(value) if appends else value)
        stored = _stored(python, lambda: self._json(key, python), path)
        again = self._python(values, key, stored)
        if not _equal(python, again):
            where, kind = _odd_one(value, path) or (path, type(value).__name__)
            raise StateNotStorable(
                f"A value of type {kind} at {where} would come back as something else.", path=where, type=kind
            )
        return Write(key, "append" if appends else "set", stored)

    def _python(self, values: dict[str, Any], key: str, value: Any) -> Any:
        blank = self.model.model_construct()
        try:
            if self._whole:
                return self.model.model_validate({**values, key: value}).__dict__[key]
            self.model.__pydantic_validator__.validate_assignment(blank, key, value)
        except ValidationError as error:
            raise SchemaViolation(
                f"The update does not fit {self.model.__name__}.", errors=problems_of(error)
            ) from None
        return blank.__dict__[key]

    def _json(self, key: str, value: Any) -> Json:
        holder = self.model.model_construct(**{key: value})
        return holder.model_dump(mode="json", include={key}, warnings=False)[key]

    def _check_whole(self, values: dict[str, Any], writes: list[Write]) -> None:
        if not self._whole:
            return
        merged = dict(values)
        for write in writes:
            merged[write.key] = [*merged[write.key], *write.value] if write.kind == "append" else write.value
        try:
            self.model.model_validate(merged)
        except ValidationError as error:
            raise SchemaViolation(
                f"The state after this update does not fit {self.model.__name__}.", errors=problems_of(error)
            ) from None


def problems_of(error: ValidationError) -> list[Problem]:
    """Pydantic's errors as problems with JSON Pointers."""
    return [
        Problem(
            "".join(f"/{canonical.escape(str(part))}" for part in item["loc"]),
            item["type"],
            canonical.visible(item["msg"]),
        )
        for item in error.errors(include_url=False, include_context=False, include_input=False)
    ]


def storable(value: Any, *, path: str = "") -> Json:
    """A free value (a call's arguments or result) as JSON: plain JSON, or pydantic models. Raises `StateNotStorable`."""
    plain = _plain(value, path)
    try:
        canonical.check(plain)
    except InvalidJson as error:
        raise _not_storable(error, path) from None
    return plain


def _plain(value: Any, path: str) -> Json:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", warnings=False)
    if isinstance(value, dict):
        return {key: _plain(item, f"{path}/{canonical.escape(str(key))}") for key, item in value.items()}
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return [_plain(item, f"{path}/{index}") for index, item in enumerate(value)]
    if type(value) in _PLAIN:
        return value
    kind = type(value).__name__
    raise StateNotStorable(
        f"A value of type {kind} at {path or 'the top'} is not JSON.", path=path, type=kind
    )


def _stored(value: Any, dump: Any, path: str) -> Json:
    try:
        stored = dump()
    except (PydanticSerializationError, UnicodeEncodeError, RecursionError, ValueError) as error:
        kind = type(value).__name__
        raise StateNotStorable(
            f"A value of type {kind} at {path or 'the top'} cannot be stored: {error}.", path=path, type=kind
        ) from None
    try:
        canonical.check(stored)
    except InvalidJson as error:
        raise _not_storable(error, path) from None
    return stored


def _not_storable(error: InvalidJson, prefix: str) -> StateNotStorable:
    found = [Problem(prefix + problem.path, problem.code, problem.message) for problem in error.errors]
    return StateNotStorable(f"{found[0].message} at {found[0].path}.", errors=found, path=found[0].path)


def _refuse_unstorable_early(value: Any, path: str) -> None:
    # Plain JSON trees are checked before pydantic sees them: it would report a lone surrogate as a wrong type.
    if isinstance(value, (dict, list, str, int, float)):
        try:
            canonical.check(value)
        except InvalidJson as error:
            if all(problem.code != "not_json" for problem in error.errors):
                raise _not_storable(error, path) from None


def _equal(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, float):
        return canonical.same(left, right)
    return bool(left == right)


def _odd_one(value: Any, path: str) -> tuple[str, str] | None:
    """Where the first value stands that JSON does not know, and its type."""
    if isinstance(value, BaseModel):
        return None
    if type(value) is dict:
        found = (_odd_one(item, f"{path}/{canonical.escape(str(key))}") for key, item in value.items())
    elif type(value) is list:
        found = (_odd_one(item, f"{path}/{index}") for index, item in enumerate(value))
    else:
        return None if type(value) in _PLAIN else (path, type(value).__name__)
    return next((place for place in found if place), None)


def _lazy_view(model: type[BaseModel]) -> Any:
    """A subclass whose fields are copied out of shared values when they are first touched.

    Copying the whole state for every step would cost more than the commit does; a node reads a few fields of it.
    """
    names = frozenset(model.model_fields)

    class View(model):  # type: ignore[misc, valid-type]
        @classmethod
        def over(cls, values: dict[str, Any]) -> BaseModel:
            view: BaseModel = cls.model_construct()
            object.__setattr__(view, "__dict__", {})
            object.__setattr__(view, "__pydantic_fields_set__", set(values))
            object.__setattr__(view, "__pydantic_private__", {"source": values})
            return view

        def __getattribute__(self, name: str) -> Any:
            if name in names:
                _fill(self, (name,))
            elif name in ("__dict__", "__pydantic_serializer__"):
                _fill(self, names)
            return super().__getattribute__(name)

    View.__name__ = View.__qualname__ = model.__name__
    View.__module__ = model.__module__
    return View


def _fill(view: BaseModel, names: Any) -> None:
    own = object.__getattribute__(view, "__dict__")
    private = object.__getattribute__(view, "__pydantic_private__")
    source = private["source"] if private else {}
    for name in names:
        if name not in own and name in source:
            own[name] = copy.deepcopy(source[name])
