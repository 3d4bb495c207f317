"""What is hidden from whom: by schema mark and role, in any document, and what an edit may do to it."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from runs.engine import Sensitive, canonical, redaction
from runs.engine.redaction import Sight, blind_keys, hidden_in, hides, redact, restore
from runs.errors import FieldNotEditable, WorkflowError

NOBODY: frozenset[str] = frozenset({"viewer", "reviewer"})
OPERATOR = frozenset({"operator"})
SECRET = "DE02120300000000202051"


class Account(BaseModel):
    iban: Annotated[str, Sensitive("operator")]
    bank: str = "Bank"


class Person(BaseModel):
    name: str
    account: Account | None = None
    accounts: list[Account] = []
    by_name: dict[str, Account] = {}
    note: str | None = Field(None, json_schema_extra={"visible_to": "admin"})
    key: Annotated[str, Sensitive()] = "k"


SCHEMA: Any = Person.model_json_schema()
DOCUMENT: Any = Person(
    name="Nina",
    account=Account(iban=SECRET),
    accounts=[Account(iban=SECRET)],
    by_name={"a": Account(iban=SECRET)},
    note="n",
).model_dump()


def test_marked_fields_are_hidden_wherever_the_model_is_nested() -> None:
    seen = redact(DOCUMENT, SCHEMA, NOBODY)
    hidden = {"$redacted": ["operator"]}
    assert seen == {
        "name": "Nina",
        "account": {"iban": hidden, "bank": "Bank"},
        "accounts": [{"iban": hidden, "bank": "Bank"}],
        "by_name": {"a": {"iban": hidden, "bank": "Bank"}},
        "note": {"$redacted": ["admin"]},
        "key": {"$redacted": []},
    }
    assert hidden_in(DOCUMENT, SCHEMA, NOBODY) == [
        "/account/iban",
        "/accounts/0/iban",
        "/by_name/a/iban",
        "/note",
        "/key",
    ]


def test_one_role_that_sees_it_is_enough() -> None:
    seen = redact(DOCUMENT, SCHEMA, frozenset({"viewer", "operator", "admin"}))
    assert seen == {**DOCUMENT, "key": {"$redacted": []}}


@pytest.mark.parametrize(
    ("schema", "document"),
    [
        ({"properties": {"a": {"anyOf": [{"type": "null"}, {"visible_to": ["operator"]}]}}}, {"a": SECRET}),
        ({"properties": {"a": {"allOf": [{"$ref": "#/$defs/x"}]}}, "$defs": {"x": {"visible_to": []}}}, {"a": SECRET}),
        ({"patternProperties": {"^a": {"visible_to": ["operator"]}}}, {"a": SECRET}),
        ({"additionalProperties": {"visible_to": ["operator"]}}, {"a": SECRET}),
        ({"properties": {"a": {"prefixItems": [{}, {"visible_to": []}]}}}, {"a": ["x", SECRET]}),
        ({"properties": {"a": {"items": {"visible_to": []}}}}, {"a": [SECRET]}),
        ({"if": {"required": ["a"]}, "then": {"properties": {"a": {"visible_to": []}}}}, {"a": SECRET}),
        ({"properties": {"a": {"$ref": "https://elsewhere/"}, "b": {"visible_to": []}}}, {"a": SECRET}),
        ({"properties": {"a": {"$ref": "#/$defs/gone"}, "b": {"visible_to": []}}}, {"a": SECRET}),
        ({"properties": {"a": {"$ref": "#x"}}, "$defs": {"x": {"$anchor": "x", "visible_to": []}}}, {"a": SECRET}),
        ({"properties": {"a": {"visible_to": ["boss"]}}}, {"a": SECRET}),
        ({"visible_to": ["operator"]}, {"a": SECRET}),
        (
            {"properties": {"a": {"$ref": "#"}, "s": {"visible_to": []}}},
            {"a": {"a": {"s": SECRET}}},
        ),
    ],
)  # fmt: skip
def test_a_mark_holds_wherever_a_schema_may_put_it(schema: Any, document: Any) -> None:
    assert hides(schema, NOBODY)
    assert SECRET not in canonical.dumps(redact(document, schema, NOBODY))


def test_a_property_that_is_called_like_the_mark_is_none() -> None:
    schema = {"properties": {"visible_to": {"type": "array"}}}
    assert not hides(schema, NOBODY)
    assert redact({"visible_to": ["x"]}, schema, NOBODY) == {"visible_to": ["x"]}


def test_unknown_roles_are_refused_where_they_are_written() -> None:
    with pytest.raises(WorkflowError, match="Sensitive knows the roles"):
        Sensitive("boss")


def test_a_difference_tells_that_a_hidden_value_changed_and_not_how() -> None:
    before, after = {"name": "a", "key": "1"}, {"name": "a", "key": "2"}
    assert redact(before, SCHEMA, NOBODY, against=after)["key"] == {"$redacted": [], "other": True}
    assert redact(before, SCHEMA, NOBODY, against=before)["key"] == {"$redacted": []}


# ---- edits


def test_an_edit_leaves_what_was_hidden_as_it_was() -> None:
    edited = redact(DOCUMENT, SCHEMA, NOBODY)
    edited["name"] = "Nino"
    edited["account"]["bank"] = "Other"
    del edited["key"], edited["by_name"]["a"]["iban"]
    whole = restore(edited, DOCUMENT, SCHEMA, NOBODY)
    assert whole == {**DOCUMENT, "name": "Nino", "account": {"iban": SECRET, "bank": "Other"}}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda document: document.update(key="guess"), "/key"),
        (
            lambda document: document.update(key="k"),
            "/key",
        ),  # a right guess is refused too, or guessing would tell
        (lambda document: document["account"].update(iban="x"), "/account/iban"),
        (lambda document: document.update(account=None), "/account"),
        (lambda document: document["accounts"].append({"iban": "x"}), "/accounts"),
        (lambda document: document["by_name"].update(b={"iban": "x", "bank": "y"}), "/by_name/b/iban"),
    ],
)
def test_nobody_edits_what_they_do_not_see(change: Any, path: str) -> None:
    edited = redact(DOCUMENT, SCHEMA, NOBODY)
    change(edited)
    with pytest.raises(FieldNotEditable) as refusal:
        restore(edited, DOCUMENT, SCHEMA, NOBODY)
    assert [problem.path for problem in refusal.value.errors] == [path]


def test_who_sees_everything_edits_everything() -> None:
    schema = Account.model_json_schema()
    assert restore({"iban": "x"}, {"iban": SECRET}, schema, OPERATOR) == {"iban": "x"}


def test_keys_that_may_hold_something_hidden_are_known_whatever_they_hold_now() -> None:
    assert blind_keys(Person.model_fields, SCHEMA, NOBODY) == [
        "account",
        "accounts",
        "by_name",
        "note",
        "key",
    ]
    assert blind_keys(Person.model_fields, SCHEMA, OPERATOR) == ["note", "key"]


# ---- properties


NAMES = st.sampled_from(["a", "b", "c"])


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3) -> Any:
    mark: Any = {"visible_to": draw(st.sampled_from([[], ["operator"], ["reviewer", "operator"], ["admin"]]))}
    schema: Any = {} if draw(st.booleans()) else mark if draw(st.booleans()) else {}
    if depth == 0:
        return schema
    kind = draw(st.sampled_from(["leaf", "object", "list", "any"]))
    if kind == "object":
        return {**schema, "properties": draw(st.dictionaries(NAMES, schemas(depth - 1), max_size=3))}
    if kind == "list":
        return {**schema, "items": draw(schemas(depth - 1))}
    if kind == "any":
        return {**schema, "anyOf": draw(st.lists(schemas(depth - 1), min_size=1, max_size=2))}
    return schema


DOCUMENTS = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)
VIEWERS = st.frozensets(st.sampled_from(redaction.ROLES), min_size=1)


@given(DOCUMENTS, schemas(), VIEWERS)
def test_what_comes_back_untouched_is_the_true_document(
    document: Any, schema: Any, roles: frozenset[str]
) -> None:
    seen = redact(document, schema, roles)
    assert canonical.same(restore(seen, document, schema, roles), document)


@given(DOCUMENTS, schemas(), VIEWERS)
def test_what_was_hidden_stays_hidden_and_more_roles_never_see_less(
    document: Any, schema: Any, roles: frozenset[str]
) -> None:
    seen = redact(document, schema, roles)
    assert canonical.same(redact(seen, schema, roles), seen)
    if not hides(schema, roles):
        assert canonical.same(seen, document)
    fewer = hidden_in(document, schema, roles)
    for path in hidden_in(document, schema, frozenset(redaction.ROLES)):
        assert any(path == place or path.startswith(f"{place}/") for place in fewer)


@given(DOCUMENTS, DOCUMENTS, schemas(), VIEWERS)
def test_a_hidden_value_never_shows_in_a_difference(
    before: Any, after: Any, schema: Any, roles: frozenset[str]
) -> None:
    """Two true documents that differ only in what is hidden look alike, but for the sign that they differ."""
    seen = redact(before, schema, roles, against=after)
    for path in hidden_in(before, schema, roles):
        value = seen
        for token in path.split("/")[1:]:
            value = value[int(token)] if isinstance(value, list) else value[token]
        assert value.keys() <= {"$redacted", "other"}


# ---- a run


def sight(roles: frozenset[str] = NOBODY) -> Sight:
    return Sight(roles, state=SCHEMA, input=SCHEMA)


def test_what_no_schema_describes_is_kept_from_who_may_not_see_everything() -> None:
    assert sight().free({"a": 1}) == {"$redacted": []}
    assert Sight(NOBODY, state={"properties": {"a": {"visible_to": ["operator"]}}}).free([1]) == {
        "$redacted": ["operator"]
    }
    assert Sight(NOBODY, state={"properties": {"a": {}}}).free({"a": 1}) == {"a": 1}
    assert sight().text("a word") == "(redacted)"
    error = {"code": "step_failed", "step": "pay", "message": f"no {SECRET}", "recorded": SECRET}
    assert sight().error(error) == {"code": "step_failed", "step": "pay", "message": "(redacted)"}


def test_words_around_a_question_do_not_quote_what_is_hidden_in_it() -> None:
    question: Any = {
        "title": f"Pay to {SECRET}?",
        "facts": [{"label": "to", "value": f"{SECRET}, Nina"}, {"label": "amount", "value": 120}],
        "reason": "",
        "agent_note": f"I know {SECRET} well",
        "actions": [
            {"key": "pay", "args": {"iban": SECRET, "bank": "B"}, "schema": Account.model_json_schema()}
        ],
    }
    seen = sight().of_question(question)
    assert SECRET not in canonical.dumps(seen)
    assert seen["title"] == "Pay to (redacted)?"
    assert sight().hidden_args(question["actions"][0]) == ["/iban"]
    assert sight(OPERATOR).of_question(question)["title"] == question["title"]
    assert canonical.same(sight().of_question(seen), seen)


def test_events_tell_what_happened_and_hide_what_was_said() -> None:
    payload = {
        "input": DOCUMENT,
        "payload": SECRET,
        "outcome": "approve",
        "comment": "fine",
        "actions": [{"args": {"iban": SECRET}}],
        "visit": 2,
    }
    seen = sight().of_event(payload)
    assert SECRET not in canonical.dumps(seen)
    assert (seen["outcome"], seen["comment"], seen["visit"], seen["input"]["name"]) == (
        "approve",
        "fine",
        2,
        "Nina",
    )
