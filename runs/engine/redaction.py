"""What somebody sees of a document: values that its schema keeps for certain roles are replaced, the rest stays.

    iban: Annotated[str, Sensitive("operator")]

A mark travels in the JSON Schema (`visible_to`), so it holds wherever the schema is known, and whoever gives a schema by
hand says it there. What no schema describes may hold any of the marked values: from who may not see them all, it is kept
whole. Nothing here changes what is stored, so digests and history are those of the true documents.

Where a schema leaves open which of its parts a value belongs to (anyOf, if, a reference that leads nowhere), it belongs to
each: rather something too much is hidden than too little.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from runs.engine import canonical
from runs.engine.canonical import Json
from runs.errors import FieldNotEditable, Problem, Told, WorkflowError

ROLES: Final = ("viewer", "submitter", "reviewer", "operator", "admin")
MARK: Final = "visible_to"
HIDDEN: Final = "$redacted"
OTHER: Final = "other"

_MISSING: Final = object()
_BRANCHES: Final = ("allOf", "anyOf", "oneOf")
_INSIDE: Final = ("if", "then", "else", "not")


class Sensitive:
    """Who may see a field of a state, an input or an action's arguments: `Annotated[str, Sensitive("operator")]`.

    roles: of viewer, submitter, reviewer, operator and admin; none at all: nobody, while nodes read it as ever.
    `json_schema_extra={"visible_to": ["operator"]}` says the same.
    """

    def __init__(self, *roles: str) -> None:
        unknown = [role for role in roles if role not in ROLES]
        if unknown:
            raise WorkflowError(f"Sensitive knows the roles {', '.join(ROLES)}, not {unknown[0]!r:.100}.")
        self.roles = roles

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> Any:
        return {**handler(core), MARK: list(self.roles)}


def redact(document: Json, schema: Json, roles: frozenset[str], *, against: Json = _MISSING) -> Json:
    """The document as somebody with these roles sees it. A hidden value becomes `{"$redacted": [roles that see it]}`.

    against: another document of this schema; a hidden value that differs from the one there says `"other": true` besides,
    so that a difference of the two shows that it changed, and not how.
    """
    return _Walk(schema, roles).shown(document, against, [schema])


def restore(edited: Json, true: Json, schema: Json, roles: frozenset[str]) -> Json:
    """An edit by somebody who saw `redact(true)`: what they could not see is what it was.

    Raises `FieldNotEditable` with pointers if they wrote something else there: nobody edits what they do not see.
    """
    return _Walk(schema, roles).restored(edited, true, [schema], "")


def hidden_in(document: Json, schema: Json, roles: frozenset[str]) -> list[str]:
    """JSON Pointers of what is hidden in a document, in its order."""
    return [path for path, _ in _Walk(schema, roles).hidden(document, [schema], "")]


def hides(schema: Json, roles: frozenset[str]) -> bool:
    """Whether a schema marks anything that somebody with these roles may not see."""
    return any(not roles & set(mark) for mark in marks(schema))


def blind_keys(keys: Iterable[str], schema: Json, roles: frozenset[str]) -> list[str]:
    """Which of these keys of a document hold, or may hold, something that somebody with these roles may not see."""
    walk = _Walk(schema, roles)
    return [key for key in keys if walk.reaches_hidden(key)]


def marks(schema: Json) -> Iterator[Sequence[str]]:
    """Every mark in a schema, wherever it stands."""
    if isinstance(schema, dict):
        if _is_mark(schema.get(MARK)):
            yield _roles(schema[MARK])
        for part in schema.values():
            yield from marks(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from marks(part)


def _is_mark(value: Json) -> bool:
    # A property that is called visible_to has a schema there: an object.
    return isinstance(value, (list, str))


def _roles(mark: Json) -> list[str]:
    """The roles that a mark names; one that nobody has lets nobody see."""
    return [mark] if isinstance(mark, str) else [str(role) for role in mark]


class _Walk:
    """One schema, one viewer. `subs`: the parts of the schema that may describe the value at hand."""

    def __init__(self, schema: Json, roles: frozenset[str]) -> None:
        self.root = schema
        self.roles = roles

    def shown(self, value: Json, other: Json, subs: Sequence[Json]) -> Json:
        parts = self._parts(subs)
        kept_for = self._kept_for(parts)
        if kept_for is not None:
            changed = other is not _MISSING and not canonical.same(value, other)
            return {HIDDEN: kept_for, **({OTHER: True} if changed else {})}
        if isinstance(value, dict):
            return {
                key: self.shown(item, _member(other, key), self._of_key(parts, key))
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [
                self.shown(item, _item(other, index), self._of_item(parts, index))
                for index, item in enumerate(value)
            ]
        return value

    def hidden(self, value: Json, subs: Sequence[Json], path: str) -> Iterator[tuple[str, Json]]:
        parts = self._parts(subs)
        if self._kept_for(parts) is not None:
            yield path, value
        elif isinstance(value, dict):
            for key, item in value.items():
                yield from self.hidden(item, self._of_key(parts, key), f"{path}/{canonical.escape(key)}")
        elif isinstance(value, list):
            for index, item in enumerate(value):
                yield from self.hidden(item, self._of_item(parts, index), f"{path}/{index}")

    def restored(self, edited: Json, true: Json, subs: Sequence[Json], path: str) -> Json:
        parts = self._parts(subs)
        if self._kept_for(parts) is not None:
            if edited is _MISSING or is_hidden(edited):
                return true
            raise _blind(path)
        if not any(True for _ in self.hidden(true, subs, path)):
            return self._untouched(edited, subs, path)
        if isinstance(edited, dict) and isinstance(true, dict):
            return self._restored_members(edited, true, parts, path)
        if isinstance(edited, list) and isinstance(true, list) and len(edited) == len(true):
            return [
                self.restored(one, was, self._of_item(parts, index), f"{path}/{index}")
                for index, (one, was) in enumerate(zip(edited, true, strict=True))
            ]
        raise _blind(path)

    def _restored_members(self, edited: Json, true: Json, parts: list[Json], path: str) -> Json:
        result = {}
        for key in [*edited, *(key for key in true if key not in edited)]:
            subs, place = self._of_key(parts, key), f"{path}/{canonical.escape(key)}"
            was, now = true.get(key, _MISSING), edited.get(key, _MISSING)
            if now is _MISSING and not any(True for _ in self.hidden(was, subs, place)):
                continue
            if now is _MISSING:
                now = self.shown(was, _MISSING, subs)
            result[key] = (
                self._untouched(now, subs, place) if was is _MISSING else self.restored(now, was, subs, place)
            )
        return result

    def _untouched(self, edited: Json, subs: Sequence[Json], path: str) -> Json:
        """What has nothing hidden yet may get nothing hidden either."""
        for place, _ in self.hidden(edited, subs, path):
            raise _blind(place)
        return edited

    def reaches_hidden(self, key: str) -> bool:
        """Whether anything hidden may stand under a key of the document, whatever its value is just now."""
        seen: set[int] = set()
        waiting = self._of_key(self._parts([self.root]), key)
        while waiting:
            for part in self._parts([waiting.pop()]):
                if self._kept_for([part]) is not None:
                    return True
                if id(part) not in seen:
                    seen.add(id(part))
                    waiting += _below(part)
        return False

    # ---- the schema

    def _kept_for(self, parts: Sequence[Json]) -> list[str] | None:
        """The roles that see a value, if these are none of them."""
        found = [_roles(part[MARK]) for part in parts if _is_mark(part.get(MARK))]
        refused = [mark for mark in found if not self.roles & set(mark)]
        if not refused:
            return None
        return [role for role in ROLES if all(role in mark for mark in found)]

    def _parts(self, subs: Sequence[Json]) -> list[Json]:
        """Every object of the schema that says something of the value itself."""
        found: list[Json] = []
        seen: set[int] = set()
        waiting = list(subs)
        while waiting:
            part = waiting.pop()
            if not isinstance(part, dict) or id(part) in seen:
                continue
            seen.add(id(part))
            found.append(part)
            waiting += [self._target(part[ref]) for ref in ("$ref", "$dynamicRef") if ref in part]
            for name in _BRANCHES:
                waiting += part[name] if isinstance(part.get(name), list) else []
            waiting += [part[name] for name in _INSIDE if name in part]
            dependent = part.get("dependentSchemas")
            waiting += dependent.values() if isinstance(dependent, dict) else []
        return found

    def _target(self, ref: Json) -> Json:
        """What a reference leads to inside the schema; nobody sees what is described somewhere else."""
        if not isinstance(ref, str) or not ref.startswith("#"):
            return self._unknown
        if not ref.startswith("#/") and ref != "#":
            return self._anchors.get(ref[1:], self._unknown)
        target = self.root
        for token in ref[1:].split("/")[1:]:
            name = token.replace("~1", "/").replace("~0", "~")
            if isinstance(target, dict) and name in target:
                target = target[name]
            elif isinstance(target, list) and name.isdigit() and int(name) < len(target):
                target = target[int(name)]
            else:
                return self._unknown
        return target

    @cached_property
    def _unknown(self) -> Json:
        """A part of the schema that is not there: hidden if anything of this schema is."""
        return {MARK: []} if hides(self.root, self.roles) else {}

    @cached_property
    def _anchors(self) -> dict[str, Json]:
        return {
            part[name]: part
            for part in _objects(self.root)
            for name in ("$anchor", "$dynamicAnchor")
            if isinstance(part.get(name), str)
        }

    def _of_key(self, parts: Sequence[Json], key: str) -> list[Json]:
        found: list[Json] = []
        for part in parts:
            named = _dict(part.get("properties"))
            matching = [
                sub for pattern, sub in _dict(part.get("patternProperties")).items() if _matches(pattern, key)
            ]
            found += matching
            if key in named:
                found.append(named[key])
            elif not matching:
                found += [
                    part[name] for name in ("additionalProperties", "unevaluatedProperties") if name in part
                ]
        return found

    def _of_item(self, parts: Sequence[Json], index: int) -> list[Json]:
        found: list[Json] = []
        for part in parts:
            first = part.get("prefixItems")
            first = first if isinstance(first, list) else []
            if index < len(first):
                found.append(first[index])
            else:
                found += [part[name] for name in ("items", "unevaluatedItems") if name in part]
            found += [part["contains"]] if "contains" in part else []
        return found


def _below(part: Mapping[str, Json]) -> Iterator[Json]:
    """Every part of a schema that describes what is inside a value of this one."""
    for name in ("properties", "patternProperties"):
        yield from _dict(part.get(name)).values()
    yield from part["prefixItems"] if isinstance(part.get("prefixItems"), list) else []
    for name in ("additionalProperties", "unevaluatedProperties", "items", "unevaluatedItems", "contains"):
        if name in part:
            yield part[name]


def _member(other: Json, key: str) -> Json:
    return other.get(key, None) if isinstance(other, dict) else other if other is _MISSING else None


def _item(other: Json, index: int) -> Json:
    if isinstance(other, list):
        return other[index] if index < len(other) else None
    return other if other is _MISSING else None


def _objects(schema: Json) -> Iterator[dict[str, Json]]:
    if isinstance(schema, dict):
        yield schema
        for part in schema.values():
            yield from _objects(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _objects(part)


def _dict(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _matches(pattern: str, key: str) -> bool:
    try:
        return re.search(pattern, key) is not None
    except re.error:
        return True


def is_hidden(value: Json) -> bool:
    """Whether this stands in a document in the place of a value that its reader may not see."""
    return isinstance(value, dict) and HIDDEN in value and value.keys() <= {HIDDEN, OTHER}


def _blind(path: str) -> FieldNotEditable:
    message = "is hidden from you; leave it as it is shown"
    return FieldNotEditable(
        Told("{path} is hidden from you, so you cannot change it.", path=path[1:] or "The whole"),
        errors=[Problem(path, "hidden", message)],
    )


# ---- a run


@dataclass(frozen=True)
class Sight:
    """What somebody sees of the documents of one run. state, input: JSON Schemas. nested: those of states of workflows inside.

    output: None if no schema describes it. others: schemas of the state in other versions, as which it may be shown: what any
    of them marks is hidden.
    """

    roles: frozenset[str]
    state: Json = None
    input: Json = None
    output: Json = None
    nested: Sequence[Json] = field(default=())
    others: Sequence[Json] = field(default=())

    @cached_property
    def narrow(self) -> bool:
        """Whether anything in this run is hidden from this viewer."""
        schemas = [self.state, self.input, self.output, *self.nested, *self.others]
        return any(hides(schema, self.roles) for schema in schemas)

    def of_state(self, document: Json, *, against: Json = _MISSING) -> Json:
        """A state, or a partial update of one."""
        for schema in (self.state, *self.others):
            document = self._seen(document, schema, against)
        return document

    def of_lane(self, document: Json) -> Json:
        """The state of a lane, which may be of a workflow inside: what any of them marks is hidden."""
        for schema in (self.state, *self.nested, *self.others):
            document = self._seen(document, schema, _MISSING)
        return document

    def of_input(self, document: Json) -> Json:
        return self._seen(document, self.input, _MISSING)

    def of_output(self, document: Json) -> Json:
        return self.free(document) if self.output is None else self._seen(document, self.output, _MISSING)

    def free(self, value: Json) -> Json:
        """What no schema describes: kept whole from who may not see everything of the run."""
        if not self.narrow or value is None:
            return value
        seers = [role for role in ROLES if not self._hides_from(role)]
        return {HIDDEN: seers}

    def text(self, words: str) -> str:
        """A text that may quote anything."""
        return "(redacted)" if self.narrow and words else words

    def error(self, error: Mapping[str, Json] | None) -> dict[str, Json] | None:
        """Why something failed: which code and where, not the words, which may quote anything."""
        if error is None or not self.narrow:
            return None if error is None else dict(error)
        kept = {key: value for key, value in error.items() if key in _PLAIN_OF_ERROR}
        return {**kept, "message": self.text(str(error.get("message", "")))}

    def of_event(self, payload: Json) -> Json:
        """What stands in the history: plain facts stay, documents are kept whole or redacted."""
        if not self.narrow or not isinstance(payload, dict):
            return payload if not self.narrow else self.free(payload)
        return {key: self._fact(key, value) for key, value in payload.items()}

    def of_question(
        self,
        document: Mapping[str, Json],
        *,
        against: Mapping[str, Json] | None = None,
        quotable: Sequence[str] = (),
    ) -> dict[str, Json]:
        """An approval's document: each action by its own schema; without one its arguments are hidden one by one.

        The workflow's and the agent's words stay, but for what is hidden where they quote it. quotable: more of that than
        stands in the document itself, as `quotable` of an earlier version and `quotable_of_input` tell it.
        """
        others = {action["key"]: action for action in (against or {}).get("actions", [])}
        actions = []
        for action in document["actions"]:
            other = others.get(action["key"], {}).get("args", _MISSING)
            actions.append({**action, "args": self.of_args(action, action["args"], against=other)})
        quoted = sorted({*quotable, *self.quotable(document)}, key=len, reverse=True)
        if not quoted:
            return {**document, "actions": actions}
        words = {key: without(value, quoted) for key, value in document.items() if key != "actions"}
        return {**words, "actions": actions}

    def hides_in(self, document: Mapping[str, Json]) -> bool:
        """Whether anything of an approval's document, or of its run, is hidden."""
        return self.narrow or any(self.hidden_args(action) for action in document["actions"])

    def quotable(self, document: Mapping[str, Json]) -> set[str]:
        """Hidden arguments of an approval's document, as texts might quote them."""
        return {
            text
            for action in document["actions"]
            if action.get("schema") is not None
            for text in quotable(action["args"], action["schema"], self.roles)
        }

    def quotable_of_input(self, document: Json) -> set[str]:
        """What is hidden of a run's input, as texts might quote it."""
        return set(quotable(document, self.input, self.roles)) if self.narrow else set()

    def of_args(self, action: Mapping[str, Json], args: Json, *, against: Json = _MISSING) -> Json:
        """Arguments of an action, proposed or edited."""
        schema = action.get("schema")
        if schema is not None:
            return redact(args, schema, self.roles, against=against)
        if not self.narrow or not isinstance(args, dict):
            return self.free(args)
        return {
            key: self._marked(self.free(value), value, _member(against, key)) for key, value in args.items()
        }

    def hidden_args(self, action: Mapping[str, Json]) -> list[str]:
        """JSON Pointers of what is hidden of an action's arguments."""
        if action.get("schema") is not None:
            return hidden_in(action["args"], action["schema"], self.roles)
        args = action["args"]
        return [f"/{canonical.escape(key)}" for key in args] if self.narrow and isinstance(args, dict) else []

    def restored_args(self, action: Mapping[str, Json], edited: Json) -> Json:
        """Edited arguments with what was hidden from the editor as it was. Raises `FieldNotEditable`."""
        schema = action.get("schema")
        if schema is not None:
            return restore(edited, action["args"], schema, self.roles)
        return restore(edited, action["args"], self._hidden_whole, self.roles) if self.narrow else edited

    def of_decisions(self, decisions: Json, document: Mapping[str, Json]) -> Json:
        """What somebody answered, edited arguments redacted as the proposed ones are."""
        actions = {action["key"]: action for action in document["actions"]}
        return [
            {**told, "args": self.of_args(actions.get(told.get("key"), {}), told["args"])}
            if isinstance(told, dict) and told.get("args") is not None
            else told
            for told in decisions
        ]

    # ---- inside

    def _seen(self, document: Json, schema: Json, against: Json) -> Json:
        if not self.narrow or document is None:
            return document
        return redact(document, schema, self.roles, against=against)

    def _hides_from(self, role: str) -> bool:
        schemas = [self.state, self.input, self.output, *self.nested, *self.others]
        return any(hides(schema, frozenset({role})) for schema in schemas)

    @property
    def _hidden_whole(self) -> Json:
        return {"type": "object", "additionalProperties": {MARK: []}}

    def _marked(self, shown: Json, value: Json, other: Json) -> Json:
        changed = other is not _MISSING and not canonical.same(value, other)
        return {**shown, OTHER: True} if changed and is_hidden(shown) else shown

    def _fact(self, key: str, value: Json) -> Json:
        if key == "error" and isinstance(value, dict):
            return self.error(value)
        if key == "input":
            return self.of_input(value)
        if key in ("state", "changes"):
            return self.of_state(value)
        plain = key in _PLAIN_OF_EVENT or not (isinstance(value, (dict, list)) or key in _QUOTING)
        return value if plain else self.free(value)


_PLAIN_OF_ERROR: Final = frozenset(
    {"code", "step", "type", "node", "attempt", "failures", "address", "reason_code"}
)
_PLAIN_OF_EVENT: Final = frozenset(
    {"by", "steps", "exceptions", "lanes", "lane", "visit", "votes", "teams", "users", "from", "calls"}
)
_QUOTING: Final = frozenset({"payload", "result", "output", "title", "note", "message", "value"})
_LEAST_QUOTED: Final = 4


def quotable(document: Json, schema: Json, roles: frozenset[str] = frozenset()) -> list[str]:
    """What is hidden in a document, as texts might quote it, longest first; without roles everything that is marked.

    What is shorter than four characters would take half of a text along.
    """
    found = [value for _, value in _Walk(schema, roles).hidden(document, [schema], "")]
    texts = {text for value in found if not is_hidden(value) for text in _leaves(value)}
    return sorted((text for text in texts if len(text) >= _LEAST_QUOTED), key=len, reverse=True)


def _leaves(value: Json) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, str):
        yield value
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield canonical.dumps(value)


def without(value: Json, quoted: Sequence[str]) -> Json:
    """A document whose texts quote none of these. A number that is one of them is hidden whole."""
    if isinstance(value, str):
        for text in quoted:
            value = value.replace(text, "(redacted)")
        return value
    if isinstance(value, dict):
        return {key: without(item, quoted) for key, item in value.items()}
    if isinstance(value, list):
        return [without(item, quoted) for item in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool) and canonical.dumps(value) in quoted:
        return "(redacted)"
    return value
