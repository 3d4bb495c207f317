"""Typed state: pydantic on the author's side, JSON in the store, and nothing lost between the two.

A value is storable if what comes back equals what went in. So a set in a field of type Any is refused (a list would
come back), while the same set in a field of type `set[str]` is fine. Work is done for the keys that change, not for
the whole state; only a model with validators of its own is validated as a whole.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, cast

from pydantic import BaseModel, PydanticSchemaGenerationError, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError

from runs.engine import canonical
from runs.engine.authored import contained
from runs.engine.canonical import Json
from runs.engine.redaction import marks
from runs.engine.searching import fields_of
from runs.errors import (
    InvalidJson,
    Problem,
    SchemaViolation,
    StateNotStorable,
    StepError,
    Told,
    Unprocessable,
    WorkflowError,
)

_PLAIN: Final = (str, int, float, bool, type(None))


class _Append:
    """Reducer: an update holds the new items; they are added to the end of the list."""

    def __repr__(self) -> str:
        return "append"


append: Final = _Append()

EDITORS: Final = ("reviewer", "operator")


class Editable:
    """Who may replace a field of the state: `Annotated[str, Editable("reviewer")]`. Without it operators may, and nobody else.

    roles: `reviewer` (those who may decide about the run) besides operators, or `operator`; none at all: nobody, ever.
    `json_schema_extra={"editable_by": "reviewer"}` says the same, and an empty list there means nobody.
    """

    def __init__(self, *roles: str) -> None:
        self.roles = _known_editors(roles)

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> Any:
        return {**handler(core), "editable_by": list(self.roles)}


def _known_editors(roles: Sequence[str]) -> tuple[str, ...]:
    unknown = [role for role in roles if role not in EDITORS]
    if unknown:
        raise WorkflowError(f"Editable knows the roles {' and '.join(EDITORS)}, not {unknown[0]!r:.100}.")
    return tuple(role for role in EDITORS if role in roles or role == "operator") if roles else ()


@dataclass(frozen=True, slots=True)
class Write:
    """One change of a top-level key: `set` replaces, `append` adds items. `value` is JSON."""

    key: str
    kind: str
    value: Json


class StateSchema:
    """What a pydantic model says about the state, and the ways in and out of it."""

    def __init__(self, model: type[BaseModel]) -> None:
        if not is_model(model):
            raise WorkflowError(f"state= and input= are pydantic models (the class), not {model!r:.100}.")
        self.model = model
        self.fields = model.model_fields
        self.appending = frozenset(name for name, info in self.fields.items() if append in info.metadata)
        self.editors = {name: _editors_of(info) for name, info in self.fields.items()}
        self.is_whole = bool(
            model.__pydantic_decorators__.model_validators
            or model.__pydantic_post_init__
            or model.model_config.get("frozen")
        )
        excluded = next((name for name, info in self.fields.items() if info.exclude), None)
        if excluded:
            raise WorkflowError(
                f"The field {excluded!r} of {model.__name__} has exclude=True: it would get lost at every step."
            )
        self._refuse_odd_defaults()
        self._view_class = _lazy_view(model)
        self.searchable = fields_of(self.json_schema)
        self.has_marks = any(True for _ in marks(self.json_schema))
        self._has_sets = '"uniqueItems":true' in canonical.dumps(self.json_schema)

    def _refuse_odd_defaults(self) -> None:
        """A default that cannot be stored would be told to whoever submits, who cannot help it."""
        known = {
            name: info.default
            for name, info in self.fields.items()
            if not info.is_required() and info.default_factory is None
        }
        for name, value in known.items():
            try:
                _refuse_changed(value, self._come_back(known, name, value), path=_path(name), given=value)
            except StateNotStorable as error:
                raise WorkflowError(
                    f"The default of {name!r} in {self.model.__name__} cannot be stored in a state: {error.detail} "
                    "Give it a default of plain data; secrets are read by ctx.secret, and files and functions are "
                    "opened and looked up in the node that needs them."
                ) from None

    def _come_back(self, known: dict[str, Any], key: str, value: Any) -> Any:
        stored = self._json_of(key, value)
        if _is_plain_same(value, stored):
            return value  # plain data can be stored, whatever a validator makes of it
        try:
            with contained:
                return self._assigned(known, key, stored)
        except Exception:  # noqa: BLE001  # a validator may refuse a default, or need fields that only a submission has
            return value

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
            with contained:
                value = self.model.model_validate(document, extra="forbid", by_alias=True, by_name=True)
        except ValidationError as error:
            raise Unprocessable(
                Told("The input does not fit {name}.", name=self.model.__name__), errors=problems_of(error)
            ) from None
        try:
            stored = self.dump(value)
            again = self.load(stored)
            for name in self.fields:
                _refuse_changed(value.__dict__[name], again[name], path=f"/{canonical.escape(name)}")
        except StepError as error:
            raise _unprocessable(error) from None
        return stored

    def adopt(self, document: object) -> dict[str, Json]:
        """A document that was made for this schema by a migration: checked, complete, with defaults. Raises a `StepError`."""
        if not isinstance(document, Mapping):
            kind = type(document).__name__
            raise SchemaViolation(
                f"A migration returns the whole state as a dict, not {kind}.", path="", type=kind
            )
        try:
            with contained:
                value = self.model.model_validate(
                    dict(document), extra="forbid", by_alias=False, by_name=True
                )
        except ValidationError as error:
            raise SchemaViolation(
                f"The migrated state does not fit {self.model.__name__}.", errors=problems_of(error)
            ) from None
        return self.dump(value)

    def dump(self, value: BaseModel) -> dict[str, Json]:
        """A model instance as a JSON document, by field names. Raises `StateNotStorable`."""
        stored = _stored(
            value,
            lambda: value.model_dump(mode="json", round_trip=True, by_alias=False, warnings=False),
            path="",
        )
        return cast(dict[str, Json], self._settled(value, stored))

    def load(self, document: Mapping[str, Json]) -> dict[str, Any]:
        """Python values of a stored document, by field. Raises `SchemaViolation` if the model does not fit any more."""
        try:
            with contained:
                value = self.model.model_validate(document, by_alias=False, by_name=True)
        except ValidationError as error:
            raise SchemaViolation(
                f"The stored state does not fit {self.model.__name__}.", errors=problems_of(error)
            ) from None
        return dict(value.__dict__)

    def load_to_edit(self, document: Mapping[str, Json]) -> dict[str, Any]:
        """The same for an edit by a person, who may be about to mend a state that does not fit: as it is stored then."""
        try:
            return self.load(document)
        except SchemaViolation:
            return dict(document)

    def view(self, values: dict[str, Any]) -> BaseModel:
        """The state as one node sees it: its own, since every field is copied when it is first touched."""
        view: BaseModel = self._view_class.over(values)
        return view

    # ---- updates from nodes and people

    def _told(self, update: Any) -> dict[str, Any]:
        """What a node returned, as keys and values."""
        if isinstance(update, self._view_class):
            raise SchemaViolation(
                "A node returns a dict with the keys it changes, or None; this one returned the whole state.",
                path="",
                type=type(update).__name__,
            )
        if isinstance(update, BaseModel):
            update = {name: getattr(update, name) for name in update.model_fields_set}
        if not isinstance(update, dict):
            raise SchemaViolation(
                f"A node returns a dict with the keys it changes, or None; this one returned {type(update).__name__}.",
                path="",
                type=type(update).__name__,
            )
        return update

    def take(self, values: dict[str, Any], update: Json) -> tuple[list[Write], dict[str, Any]]:
        """Check a node's partial update: what it writes, and the Python values after it; `values`, those before, stay as they
        are. Raises `StateNotStorable` or `SchemaViolation`."""
        if update is None:
            return [], dict(values)
        writes, after = self._checked(values, self._told(update), appending=self.appending)
        appended = {write.key for write in writes if write.kind == "append"}
        return writes, self._merged(values, after, appended)

    def edits(self, values: dict[str, Any], changes: Mapping[str, Json]) -> list[Write]:
        """Check changes by a person: like an update, but a list with a reducer is replaced. Raises `Unprocessable`."""
        try:
            return self._checked(values, changes, appending=frozenset())[0]
        except (SchemaViolation, StateNotStorable) as error:
            raise _unprocessable(error) from None

    def keep(self, values: dict[str, Any], writes: Sequence[Write]) -> None:
        """Bring the Python values up to date with committed writes."""
        given = {write.key: write.value for write in writes}
        appending = {write.key for write in writes if write.kind == "append"}
        values.update(self._merged(values, self._python(values, given, appending), appending))

    def _checked(
        self, values: dict[str, Any], update: Mapping[str, Any], *, appending: frozenset[str]
    ) -> tuple[list[Write], dict[str, Any]]:
        """The writes of an update, and its values as they will be read back."""
        appended = appending & update.keys()
        for key, value in update.items():
            self._check_key(key, value, appends=key in appended)
        python = self._python(values, update, appended)
        stored = {key: self._json(key, value) for key, value in python.items()}
        writes = [Write(key, "append" if key in appended else "set", stored[key]) for key in python]
        if not self.is_whole and all(_is_plain_same(update[key], stored[key]) for key in stored):
            return writes, python  # to read them back would be to do the very same again
        again = self._python(values, stored, appended)
        for key, value in python.items():
            _refuse_changed(value, again[key], path=_path(key), given=update.get(key, value))
        return writes, again

    def _check_key(self, key: Any, value: Any, *, appends: bool) -> None:
        if key not in self.fields:
            known = ", ".join(self.fields)
            problem = Problem(
                _path(key),
                "unknown_key",
                Told("the state has no key {key!r}; it has {known}", key=key, known=known),
            )
            raise SchemaViolation(
                f"The update has the key {key!r}, which the state does not know.", errors=[problem]
            )
        if appends and not isinstance(value, (list, tuple)):
            problem = Problem(
                _path(key), "list_type", "a list of new items is needed: the key has the reducer append"
            )
            raise SchemaViolation(f"{key!r} takes a list of new items.", errors=[problem])
        _refuse_unstorable_early(value, _path(key))

    def _python(
        self, values: dict[str, Any], update: Mapping[str, Any], appended: Set[str]
    ) -> dict[str, Any]:
        """Validated Python values of an update: per key, or with a model validated as a whole, of all that changes."""
        given = {key: list(value) if key in appended else value for key, value in update.items()}
        try:
            with contained:
                if self.is_whole:
                    return self._python_of_whole(values, given, appended)
                return {key: self._assigned(values, key, value) for key, value in given.items()}
        except ValidationError as error:
            raise SchemaViolation(
                f"The update does not fit {self.model.__name__}.", errors=problems_of(error)
            ) from None

    def _assigned(self, values: dict[str, Any], key: str, value: Any) -> Any:
        holder = _bare(self.model, dict(values))
        self.model.__pydantic_validator__.validate_assignment(holder, key, value, by_alias=True, by_name=True)
        return holder.__dict__[key]

    def _python_of_whole(
        self, values: dict[str, Any], given: dict[str, Any], appended: Set[str]
    ) -> dict[str, Any]:
        merged = self._merged(values, given, appended)
        after = self.model.model_validate(merged, by_alias=True, by_name=True).__dict__
        for key in appended:
            if not _equal(after[key][: len(values[key])], values[key]):
                problem = Problem(_path(key), "append_only", "a validator of the model changed earlier items")
                raise SchemaViolation(
                    f"{key!r} has the reducer append; items are only added.", errors=[problem]
                )
        told = {key: after[key][len(values[key]) :] if key in appended else after[key] for key in given}
        # What the model's own validators changed besides is part of the update.
        besides = {
            key: after[key] for key in self.fields if key not in given and not _equal(after[key], values[key])
        }
        return {**told, **besides}

    @staticmethod
    def _merged(values: dict[str, Any], update: dict[str, Any], appended: Set[str]) -> dict[str, Any]:
        """The values after an update. An appending key gets a new list: views of the old one stay as they are."""
        changed = {key: [*values[key], *value] if key in appended else value for key, value in update.items()}
        return {**values, **changed}

    def _json(self, key: str, value: Any) -> Json:
        return self._settled(value, self._json_of(key, value))

    def _json_of(self, key: str, value: Any) -> Json:
        holder = _bare(self.model, {key: value})
        return _stored(
            value,
            lambda: holder.model_dump(
                mode="json", include={key}, round_trip=True, by_alias=False, warnings=False
            )[key],
            path=_path(key),
        )

    def _settled(self, value: Any, stored: Json) -> Json:
        """Sets in a fixed order: Python's own differs from process to process."""
        return _sorted_sets(value, stored) if self._has_sets else stored


def is_model(value: Any) -> bool:
    """Whether an author gave the class of a pydantic model."""
    return isinstance(value, type) and issubclass(value, BaseModel)


def _editors_of(info: FieldInfo) -> tuple[str, ...]:
    """The roles that may edit a field by hand."""
    marks = [mark for mark in info.metadata if isinstance(mark, Editable)]
    if marks:
        return marks[-1].roles
    extra = info.json_schema_extra
    if isinstance(extra, dict) and "editable_by" in extra:
        told = extra["editable_by"]
        return _known_editors(
            [told] if isinstance(told, str) else [str(role) for role in cast(list[Json], told)]
        )
    return ("operator",)


def _path(key: Any) -> str:
    return f"/{canonical.escape(str(key))}"


def _bare(model: type[BaseModel], values: dict[str, Any]) -> BaseModel:
    """An instance with these values and nothing else done: `model_construct` would run the author's `model_post_init`."""
    bare, put = model.__new__(model), object.__setattr__
    put(bare, "__dict__", values)
    put(bare, "__pydantic_fields_set__", set(values))
    put(bare, "__pydantic_extra__", None)
    put(bare, "__pydantic_private__", None)
    return bare


def _unprocessable(error: StepError) -> Unprocessable:
    """The same faults, told to whoever sent the document."""
    path = str(error.facts.get("path", ""))
    return Unprocessable(error.detail, errors=error.errors or [Problem(path, error.code, error.detail)])


def _refuse_changed(value: Any, again: Any, *, path: str, given: Any = None) -> None:
    """Raise `StateNotStorable` if what was read back is not what was stored."""
    if not _equal(value, again):
        where, kind = _odd_one(given, path) or (path, type(value).__name__)
        raise StateNotStorable(
            f"A value of type {kind} at {where} would come back as something else.", path=where, type=kind
        )


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
    plain = _plain(value, path, canonical.MAX_DEPTH)
    try:
        canonical.check(plain)
    except InvalidJson as error:
        raise _not_storable(error, path) from None
    return plain


def _plain(value: Any, path: str, room: int) -> Json:
    if isinstance(value, BaseModel):
        return _stored(value, lambda: value.model_dump(mode="json", warnings=False), path=path)
    if type(value) in _PLAIN:
        return value
    kind = type(value).__name__
    if not isinstance(value, dict) and type(value) not in (list, tuple):
        raise StateNotStorable(
            f"A value of type {kind} at {path or 'the top'} is not JSON.", path=path, type=kind
        )
    if room == 0:
        problem = Problem(
            path, "too_deep", Told("nested more than {max_depth} levels deep", max_depth=canonical.MAX_DEPTH)
        )
        raise StateNotStorable(f"{problem.message} at {path}.", errors=[problem], path=path, type=kind)
    if isinstance(value, dict):
        return {key: _plain(item, path + _path(key), room - 1) for key, item in value.items()}
    return [_plain(item, f"{path}/{index}", room - 1) for index, item in enumerate(value)]


def _stored(value: Any, dump: Callable[[], Json], *, path: str) -> Json:
    try:
        with contained:
            stored = dump()
    except (PydanticSerializationError, UnicodeEncodeError, RecursionError, ValueError) as error:
        where, kind = _odd_one(value, path) or (path, type(value).__name__)
        raise StateNotStorable(
            f"A value of type {kind} at {where or 'the top'} cannot be stored: {error}.",
            path=where,
            type=kind,
        ) from None
    try:
        # A state is an object: what is below one of its keys has a level less.
        canonical.check(stored, max_depth=canonical.MAX_DEPTH - bool(path))
    except InvalidJson as error:
        raise _not_storable(error, path) from None
    return stored


def _sorted_sets(value: Any, stored: Json) -> Json:
    """What was stored of a value, with the lists that were sets sorted."""
    if isinstance(value, BaseModel) and isinstance(stored, dict):
        return {key: _sorted_sets(getattr(value, key, None), item) for key, item in stored.items()}
    if not isinstance(value, (dict, list, tuple, set, frozenset)) or not isinstance(stored, (dict, list)):
        return stored
    if len(value) != len(stored):
        return stored  # a serializer of the author's own
    if isinstance(value, dict) and isinstance(stored, dict):
        pairs = zip(value.values(), stored.items(), strict=True)
        return {key: _sorted_sets(one, item) for one, (key, item) in pairs}
    if not isinstance(stored, list):
        return stored
    inside = [_sorted_sets(one, item) for one, item in zip(value, stored, strict=True)]
    return sorted(inside, key=canonical.dumps) if isinstance(value, (set, frozenset)) else inside


def _not_storable(error: InvalidJson, prefix: str) -> StateNotStorable:
    found = [Problem(prefix + problem.path, problem.code, problem.message) for problem in error.errors]
    return StateNotStorable(
        f"{found[0].message} at {found[0].path or 'the top'}.", errors=found, path=found[0].path
    )


def _refuse_unstorable_early(value: Any, path: str) -> None:
    # Plain JSON trees are checked before pydantic sees them: it would report a lone surrogate as a wrong type.
    # What is not JSON may still be fine, a set in a field of that type for one.
    if isinstance(value, (dict, list, str, int, float)):
        try:
            canonical.check(value, max_depth=canonical.MAX_DEPTH - 1)
        except InvalidJson as error:
            error.errors = [problem for problem in error.errors if problem.code != "not_json"]
            if error.errors:
                raise _not_storable(error, path) from None


def _is_plain_same(given: Any, stored: Json) -> bool:
    """Whether a single value is stored as it was given."""
    return type(given) in _PLAIN and canonical.same(given, stored)


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
    names = tuple(model.model_fields)
    known = frozenset(names)

    class View(model):  # type: ignore[misc, valid-type]
        __slots__ = ("_source",)

        @classmethod
        def over(cls, values: dict[str, Any]) -> BaseModel:
            view = _bare(cls, {})
            object.__setattr__(view, "__pydantic_fields_set__", set(values))
            object.__setattr__(view, "_source", values)
            if cls.__pydantic_post_init__:
                view.model_post_init(None)
            return view

        def __getattribute__(self, name: str) -> Any:
            if name in known:
                _fill(self, (name,))
            elif name in ("__dict__", "__pydantic_serializer__"):
                _fill(self, names)
            return super().__getattribute__(name)

    View.__name__ = View.__qualname__ = model.__name__
    View.__module__ = model.__module__
    return View


def _fill(view: BaseModel, names: Sequence[str]) -> None:
    own = object.__getattribute__(view, "__dict__")
    try:
        source = object.__getattribute__(view, "_source")
    except AttributeError:
        return  # a copy that the author made: it has all fields already
    missing = [name for name in names if name not in own and name in source]
    for name in missing:
        value = source[name]
        own[name] = value if type(value) in _PLAIN else copy.deepcopy(value)
    if missing and len(names) > 1:
        # In the order of the fields, whatever was touched first: a node that walks over its state does the same each time.
        ordered = {name: own.pop(name) for name in names if name in own}
        own.update(ordered)
