"""Typed state: what a node returns is checked, stored as JSON, and comes back as it was, or is refused with its place."""

from __future__ import annotations

import copy
import io
import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    computed_field,
    field_validator,
    model_validator,
)

from runs.engine import Editable, append, canonical
from runs.engine.canonical import Json
from runs.engine.state import StateSchema, Write, storable
from runs.errors import SchemaViolation, StateNotStorable, StepError, Unprocessable, WorkflowError
from tests.sizes import size
from tests.unit.engine.documents import DOCUMENTS, TEXTS, nested


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Line(BaseModel):
    sku: str
    price: Decimal = Decimal(0)


class State(BaseModel):
    n: int = 0
    ratio: float = 0.0
    note: str = ""
    maybe: str | None = None
    any: Any = None
    lines: list[Line] = []
    log: Annotated[list[str], append] = []
    tags: set[str] = set()
    when: datetime | None = None
    colour: Colour = Colour.RED
    pair: tuple[int, str] = (0, "")


SCHEMA = StateSchema(State)


def written(schema: StateSchema, before: dict[str, Any], update: Any) -> list[Write]:
    return schema.take(before, update)[0]


def values(**changes: Any) -> dict[str, Any]:
    return dict(State(**changes).__dict__)


def after(schema: StateSchema, before: dict[str, Any], update: Any) -> dict[str, Json]:
    """The document after an update, as the position would keep it."""
    document = schema.dump(schema.model.model_construct(**before))
    for write in written(schema, before, update):
        document[write.key] = [*document[write.key], *write.value] if write.kind == "append" else write.value
    return document


def problems(error: StepError | Unprocessable) -> list[tuple[str, str]]:
    return [(problem.path, problem.code) for problem in error.errors]


# ---- updates


def test_an_update_is_partial() -> None:
    writes = written(SCHEMA, values(), {"n": 1, "note": "x"})
    assert writes == [Write("n", "set", 1), Write("note", "set", "x")]


@pytest.mark.parametrize("update", [None, {}])
def test_nothing_changes_nothing(update: Any) -> None:
    assert written(SCHEMA, values(), update) == []


def test_a_model_updates_the_fields_that_were_given() -> None:
    assert written(SCHEMA, values(), State(n=5)) == [Write("n", "set", 5)]


@pytest.mark.parametrize("update", [5, "n", ["n"], True, (("n", 1),)])
def test_an_update_is_a_dict(update: Any) -> None:
    with pytest.raises(SchemaViolation, match=rf"this one returned {type(update).__name__}") as caught:
        written(SCHEMA, values(), update)
    assert caught.value.facts == {"path": "", "type": type(update).__name__}


def test_a_whole_state_is_no_update_since_its_lists_would_be_appended_again() -> None:
    view = SCHEMA.view(values(log=["a"]))
    for whole in (view, view.model_copy(update={"n": 1})):
        with pytest.raises(SchemaViolation, match="returned the whole state"):
            written(SCHEMA, values(log=["a"]), whole)


@pytest.mark.parametrize("key", ["N", "", "log ", "x/y"])
def test_an_unknown_key_is_refused_naming_those_that_are_known(key: str) -> None:
    with pytest.raises(SchemaViolation) as caught:
        written(SCHEMA, values(), {key: 1})
    assert problems(caught.value) == [(f"/{canonical.escape(key)}", "unknown_key")]
    assert "n, ratio, note" in caught.value.errors[0].message


@pytest.mark.parametrize(
    ("update", "path", "code"),
    [
        ({"n": "ten"}, "/n", "int_parsing"),
        ({"n": None}, "/n", "int_type"),
        ({"n": 1.5}, "/n", "int_from_float"),
        ({"lines": [{"sku": "a"}, {"price": 1}]}, "/lines/1/sku", "missing"),
        ({"note": 5}, "/note", "string_type"),
        ({"colour": "green"}, "/colour", "enum"),
        ({"log": ["a", 5]}, "/log/1", "string_type"),
        ({"log": "abc"}, "/log", "list_type"),
        ({"log": None}, "/log", "list_type"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_pointer(update: dict[str, Any], path: str, code: str) -> None:
    with pytest.raises(SchemaViolation) as caught:
        written(SCHEMA, values(), update)
    assert problems(caught.value) == [(path, code)]
    assert not caught.value.retryable


def test_new_items_are_added_to_a_list_with_the_reducer_and_to_no_other() -> None:
    before = values(log=["a"], lines=[Line(sku="x")])
    writes = written(SCHEMA, before, {"log": ("b", "c"), "lines": [{"sku": "y"}]})
    assert writes == [
        Write("log", "append", ["b", "c"]),
        Write("lines", "set", [{"sku": "y", "price": "0"}]),
    ]
    SCHEMA.keep(before, writes)
    assert (before["log"], before["lines"]) == (["a", "b", "c"], [Line(sku="y")])


def test_keeping_an_append_leaves_the_old_list_as_it_was() -> None:
    before = values(log=["a"])
    old = before["log"]
    SCHEMA.keep(before, [Write("log", "append", ["b"])])
    assert (old, before["log"]) == (["a"], ["a", "b"])


def test_a_persons_edit_replaces_a_list_with_the_reducer() -> None:
    assert SCHEMA.edits(values(log=["a"]), {"log": ["z"]}) == [Write("log", "set", ["z"])]


@pytest.mark.parametrize(
    ("changes", "path", "code"),
    [
        ({"n": "ten"}, "/n", "int_parsing"),
        ({"nope": 1}, "/nope", "unknown_key"),
        ({"any": "\0"}, "/any", "nul_character"),
        ({"any": [nested(100)]}, "/any" + "/0" * 99, "too_deep"),
        ({"log": [1]}, "/log/0", "string_type"),
    ],
)
def test_a_persons_edit_that_does_not_fit_is_told_to_the_person(
    changes: dict[str, Any], path: str, code: str
) -> None:
    """C13."""
    with pytest.raises(Unprocessable) as caught:
        SCHEMA.edits(values(), changes)
    assert caught.value.http_status == 422
    assert problems(caught.value) == [(path, code)]


def test_null_false_nothing_and_no_key_at_all_are_told_apart() -> None:
    """C09."""
    kinds: list[Json] = [None, False, 0, "", [], {}, 0.0, -0.0]
    for value in kinds:
        document = after(SCHEMA, values(any="before"), {"any": value})
        assert canonical.same(document["any"], value)
    assert after(SCHEMA, values(any="before"), {})["any"] == "before"


UPDATES = st.fixed_dictionaries(
    {},
    optional={
        "n": st.integers(-(10**100), 10**100),
        "ratio": st.floats(allow_nan=False, allow_infinity=False),
        "note": TEXTS,
        "maybe": st.none() | TEXTS,
        "any": DOCUMENTS,
        "lines": st.lists(st.builds(Line, sku=TEXTS, price=st.decimals(-1000, 1000, places=2)), max_size=3),
        "log": st.lists(TEXTS, max_size=3),
        "tags": st.sets(TEXTS, max_size=3),
        "when": st.none() | st.datetimes(timezones=st.just(UTC)),
        "colour": st.sampled_from(Colour),
        "pair": st.tuples(st.integers(), TEXTS),
    },
)


@given(st.lists(UPDATES, max_size=4))
def test_what_a_node_gets_is_the_same_from_memory_and_from_the_store(updates: list[dict[str, Any]]) -> None:
    """C05, K2."""
    kept = values()
    document = SCHEMA.dump(State())
    for update in updates:
        document = after(SCHEMA, kept, update)
        SCHEMA.keep(kept, written(SCHEMA, kept, update))
    canonical.check(document)
    loaded = SCHEMA.load(canonical.loads(canonical.dumps(document)))
    assert loaded == kept
    assert {name: type(value) for name, value in loaded.items()} == {
        name: type(v) for name, v in kept.items()
    }
    assert canonical.same(SCHEMA.dump(SCHEMA.view(kept)), document)


class Sets(BaseModel):
    names: set[str] = set()
    inside: dict[int, list[frozenset[str]]] = {}
    pairs: set[tuple[int, str]] = set()


@given(st.sets(TEXTS, max_size=6), st.sets(st.tuples(st.integers(0, 3), TEXTS), max_size=4))
def test_sets_are_stored_in_one_order_whatever_pythons_was(
    names: set[str], pairs: set[tuple[int, str]]
) -> None:
    schema = StateSchema(Sets)
    model = Sets(names=names, inside={2: [frozenset(names)]}, pairs=pairs)
    in_order = sorted(names, key=canonical.dumps)
    expected = {
        "names": in_order,
        "inside": {"2": [in_order]},
        "pairs": sorted([[number, text] for number, text in pairs], key=canonical.dumps),
    }
    assert schema.dump(model) == expected
    assert after(schema, dict(Sets().__dict__), model) == expected
    assert schema.load(expected) == model.__dict__


@given(UPDATES)
def test_checking_an_update_changes_nothing(update: dict[str, Any]) -> None:
    before = values(log=["a"], any={"deep": [1]})
    snapshot, given = copy.deepcopy(before), copy.deepcopy(update)
    written(SCHEMA, before, update)
    assert (before, update) == (snapshot, given)


# ---- storable, or refused with path and type

FOREIGN: dict[str, Any] = {
    "set": {(1, 2)},
    "bytes": b"x",
    "datetime": datetime(2026, 1, 1),  # noqa: DTZ001  # a naive one is meant
    "Decimal": Decimal("1.10"),
    "complex": complex(1, 2),
    "BytesIO": io.BytesIO(),
    "generator": (n for n in [1]),
    "object": object(),
    "tuple": (1, 2),
    "UUID": uuid.UUID(int=0),
    "timedelta": timedelta(1),
    "date": date(2026, 1, 1),
    "Colour": Colour.RED,
    "frozenset": frozenset({1}),
    "type": dict,
    "function": nested,
}


@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize("deep", [False, True])
def test_a_value_that_is_not_json_is_refused_naming_place_and_type(kind: str, deep: bool) -> None:
    """C07."""
    value = {"ok": 1, "in": [0, FOREIGN[kind]]} if deep else FOREIGN[kind]
    with pytest.raises(StateNotStorable) as caught:
        written(SCHEMA, values(), {"n": 1, "any": value})
    assert caught.value.facts == {"path": "/any/in/1" if deep else "/any", "type": kind}
    assert not caught.value.retryable


@pytest.mark.parametrize("kind", [kind for kind in FOREIGN if kind != "tuple"])
def test_a_calls_value_that_is_not_json_is_refused_naming_place_and_type(kind: str) -> None:
    """C07."""
    with pytest.raises(StateNotStorable) as caught:
        storable({"a/b": [FOREIGN[kind]]}, path="/pay")
    assert caught.value.facts == {"path": "/pay/a~1b/0", "type": kind}


BROKEN: dict[str, tuple[Any, str, str]] = {
    "U+0000": ("a\0b", "", "nul_character"),
    "a lone surrogate": ("\ud800", "", "lone_surrogate"),
    "U+0000 in a key": ([{"k\0": 1}], "/0/k\\u0000", "nul_character"),
    "infinity": (float("inf"), "", "non_finite_number"),
    "no number": ([0, {"y": float("nan")}], "/1/y", "non_finite_number"),
    "5,001 digits": (10**5000, "", "number_too_long"),
    "4,001 digits": ([10**4000], "/0", "number_too_long"),
    "beside something that is not JSON": ({"a": [{1}, "\0"]}, "/a/1", "nul_character"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_value_that_breaks_the_rules_of_every_document_is_refused(name: str) -> None:
    """C01, C02, C05."""
    value, path, code = BROKEN[name]
    with pytest.raises(StateNotStorable) as caught:
        written(SCHEMA, values(), {"any": value})
    assert problems(caught.value) == [("/any" + path, code)]
    assert caught.value.facts["path"] == "/any" + path
    assert caught.value.code == "state_not_storable"


@pytest.mark.parametrize(("update", "path"), [({"note": "a\0b"}, "/note"), ({"note": "\ud800"}, "/note")])
def test_a_typed_field_is_no_way_round_the_rules(update: dict[str, Any], path: str) -> None:
    """C01."""
    with pytest.raises(StateNotStorable) as caught:
        written(SCHEMA, values(), update)
    assert caught.value.facts["path"] == path


@pytest.mark.parametrize("text", ["nan", "Infinity", "-inf", "1e400"])
def test_text_that_a_float_field_would_take_for_no_number_is_refused(text: str) -> None:
    """C02."""
    with pytest.raises(StateNotStorable) as caught:
        written(SCHEMA, values(), {"ratio": text})
    assert problems(caught.value) == [("/ratio", "non_finite_number")]
    with pytest.raises(Unprocessable) as refused:
        SCHEMA.accept({"ratio": text})
    assert problems(refused.value) == [("/ratio", "non_finite_number")]


def test_the_same_texts_in_a_text_field_are_text() -> None:
    """C02."""
    assert [SCHEMA.accept({"note": text})["note"] for text in ("nan", "Infinity")] == ["nan", "Infinity"]


def test_numbers_at_the_ends_are_kept_exactly() -> None:
    """C02, C05."""
    numbers = [1e308, 5e-324, -0.0, 2**64, -(2**63) - 1, 10**4000 - 1]
    assert canonical.same(after(SCHEMA, values(), {"any": numbers})["any"], numbers)


def test_a_value_may_be_as_deep_as_a_document_that_is_sent() -> None:
    """C11: a state that a node makes can still be edited and sent; the state itself is one level."""
    document = after(SCHEMA, values(), {"any": nested(99)})
    canonical.check(document)
    assert SCHEMA.edits(values(), {"any": nested(99)})
    for levels in (100, 101, 5_000):
        with pytest.raises(StateNotStorable) as caught:
            written(SCHEMA, values(), {"any": nested(levels)})
        assert caught.value.errors[0].code == "too_deep"


def test_a_model_is_a_level_too() -> None:
    """C11."""
    one = StateSchema(Deep)
    assert written(one, {"inner": None}, {"inner": State(any=nested(98))})
    with pytest.raises(StateNotStorable, match="100 levels"):
        written(one, {"inner": None}, {"inner": State(any=nested(99))})


class Deep(BaseModel):
    inner: State | None = None


@pytest.mark.parametrize("levels", [101, 5_000, 100_000])
def test_a_calls_value_that_is_too_deep_is_refused_and_no_recursion_error(levels: int) -> None:
    """C11."""
    assert storable(nested(100)) == nested(100)
    with pytest.raises(StateNotStorable) as caught:
        storable(nested(levels))
    assert caught.value.errors[0].code == "too_deep"


@pytest.mark.parametrize("foreign", [False, True])
def test_a_value_that_holds_itself_is_refused(foreign: bool) -> None:
    value: list[Any] = [{1}] if foreign else []
    value.append(value)
    with pytest.raises(StateNotStorable):
        written(SCHEMA, values(), {"any": value})
    with pytest.raises(StateNotStorable):
        storable(value)


@given(DOCUMENTS)
def test_json_is_storable_as_it_is(document: Json) -> None:
    assert canonical.same(storable(document), document)
    assert canonical.same(after(SCHEMA, values(), {"any": [document]})["any"], [document])


def test_a_fault_at_the_top_says_where_it_is() -> None:
    with pytest.raises(StateNotStorable, match="nan is not a JSON number at the top"):
        storable(float("nan"))


def test_tuples_and_models_are_storable_in_a_call() -> None:
    assert storable((1, [Line(sku="a")])) == [1, [{"sku": "a", "price": "0"}]]


def test_a_model_that_holds_something_foreign_is_refused_in_a_call() -> None:
    """C07."""
    with pytest.raises(StateNotStorable):
        storable([State.model_construct(any=object())], path="/pay")


def test_a_model_with_a_number_that_is_none_is_refused() -> None:
    """C02."""
    with pytest.raises(StateNotStorable) as caught:
        written(SCHEMA, values(), {"any": {"x": State(ratio=float("nan"))}})
    assert caught.value.facts["path"].startswith("/any")


# ---- documents from outside


def test_a_document_is_completed_with_defaults() -> None:
    assert SCHEMA.accept({"n": 5}) == SCHEMA.dump(State(n=5))


@pytest.mark.parametrize(
    ("document", "path", "code"),
    [
        ({"n": "x"}, "/n", "int_parsing"),
        ({"unknown": 1}, "/unknown", "extra_forbidden"),
        ([], "", "model_type"),
        (None, "", "model_type"),
        ("str", "", "model_type"),
        (5, "", "model_type"),
    ],
)
def test_a_document_that_does_not_fit_is_refused(document: Json, path: str, code: str) -> None:
    """C09, C13."""
    with pytest.raises(Unprocessable) as caught:
        SCHEMA.accept(document)
    assert problems(caught.value) == [(path, code)]


def test_a_stored_document_that_the_model_does_not_fit_any_more_is_told() -> None:
    """C07: never an empty state instead."""
    documents: list[Json] = [{"n": "oops"}, "oops", None, []]
    for document in documents:
        with pytest.raises(SchemaViolation, match="stored state does not fit"):
            SCHEMA.load(document)


class Renamed(BaseModel):
    order_id: str = Field("", alias="orderId")
    other: int = Field(0, validation_alias=AliasChoices("o", "other_name"), serialization_alias="OTHER")


def test_aliases_are_for_those_who_send_and_get_lost_nowhere() -> None:
    schema = StateSchema(Renamed)
    stored = schema.accept({"orderId": "x", "o": 5})
    assert stored == {"order_id": "x", "other": 5}
    assert schema.load(stored) == {"order_id": "x", "other": 5}
    assert schema.accept(stored) == stored
    assert after(schema, schema.load(stored), {"order_id": "y"}) == {"order_id": "y", "other": 5}


class Outer(BaseModel):
    inner: Renamed = Renamed()


def test_aliases_of_models_inside_get_lost_nowhere() -> None:
    schema = StateSchema(Outer)
    stored = schema.accept({"inner": {"orderId": "x"}})
    assert stored == {"inner": {"order_id": "x", "other": 0}}
    before = schema.load(stored)
    assert written(schema, before, {"inner": Renamed(orderId="y")})[0].value == {"order_id": "y", "other": 0}
    assert schema.edits(before, {"inner": {"order_id": "z"}})[0].value == {"order_id": "z", "other": 0}


class Computed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    price: int = 0

    @computed_field
    def double(self) -> int:
        return self.price * 2


def test_a_computed_field_is_computed_and_not_stored() -> None:
    schema = StateSchema(Computed)
    assert schema.accept({"price": 2}) == {"price": 2}
    assert schema.view(schema.load({"price": 2})).model_dump() == {"price": 2, "double": 4}


class Excluding(BaseModel):
    secret: str = Field("", exclude=True)


def test_a_field_that_would_not_be_stored_is_refused_at_registration() -> None:
    with pytest.raises(WorkflowError, match="'secret' of Excluding has exclude=True"):
        StateSchema(Excluding)


class Masked(BaseModel):
    password: SecretStr = SecretStr("")


class Growing(BaseModel):
    text: str = ""

    @field_validator("text")
    @classmethod
    def longer(cls, text: str) -> str:
        return text + "!"


@pytest.mark.parametrize(
    ("model", "document", "path"),
    [(Masked, {"password": "x"}, "/password"), (Growing, {"text": "x"}, "/text")],
)
def test_what_would_come_back_as_something_else_is_refused_at_the_door(
    model: type[BaseModel], document: dict[str, Json], path: str
) -> None:
    """C07."""
    schema = StateSchema(model)
    with pytest.raises(Unprocessable, match="would come back as something else") as caught:
        schema.accept(document)
    assert caught.value.errors[0].path == path
    with pytest.raises(StateNotStorable):
        written(schema, dict(model().__dict__), document)


# ---- models that are validated as a whole


class Span(BaseModel):
    low: int = 0
    high: int = 1
    width: int = 1
    log: Annotated[list[str], append] = []

    @model_validator(mode="after")
    def ordered(self) -> Span:
        if self.low > self.high:
            raise ValueError("low is above high")
        self.width = self.high - self.low
        return self


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)
    low: int = 0
    log: Annotated[list[str], append] = []


SPAN = StateSchema(Span)


def test_two_keys_that_fit_only_together_are_taken_together() -> None:
    before = dict(Span().__dict__)
    writes = written(SPAN, before, {"low": 5, "high": 10})
    assert {write.key: write.value for write in writes} == {"low": 5, "high": 10, "width": 5}
    SPAN.keep(before, writes)
    assert before == {"low": 5, "high": 10, "width": 5, "log": []}
    assert {write.key for write in SPAN.edits(before, {"low": 20, "high": 21})} == {"low", "high", "width"}


@pytest.mark.parametrize("update", [{"low": 5}, {"low": 5, "high": 3}])
def test_a_state_that_its_model_refuses_as_a_whole_is_refused(update: dict[str, Any]) -> None:
    before = dict(Span().__dict__)
    with pytest.raises(SchemaViolation, match="does not fit Span") as caught:
        written(SPAN, before, update)
    assert caught.value.errors[0].message == "Value error, low is above high"
    with pytest.raises(Unprocessable):
        SPAN.edits(before, update)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.lists(TEXTS, max_size=2)), max_size=4))
def test_a_whole_model_gives_the_same_from_memory_and_from_the_store(
    spans: list[tuple[int, int, list[str]]],
) -> None:
    kept, document = dict(Span().__dict__), SPAN.accept({})
    for low, more, log in spans:
        update = {"low": low, "high": low + more, "log": log}
        document = after(SPAN, kept, update)
        SPAN.keep(kept, written(SPAN, kept, update))
    assert SPAN.load(document) == kept
    assert kept["log"] == [item for _, _, log in spans for item in log]


def test_a_frozen_state_changes_through_updates_alone() -> None:
    schema = StateSchema(Frozen)
    before = dict(Frozen().__dict__)
    writes = written(schema, before, {"low": 5, "log": ["a"]})
    assert sorted(writes, key=lambda write: write.key) == [
        Write("log", "append", ["a"]),
        Write("low", "set", 5),
    ]
    with pytest.raises(ValueError, match="frozen"):
        schema.view(before).low = 7  # type: ignore[attr-defined]


class Shortening(BaseModel):
    log: Annotated[list[str], append] = []

    @model_validator(mode="after")
    def newest(self) -> Shortening:
        self.log = self.log[-2:]
        return self


def test_a_validator_that_takes_items_from_an_appended_list_is_told() -> None:
    schema = StateSchema(Shortening)
    with pytest.raises(SchemaViolation, match="only added") as caught:
        written(schema, {"log": ["a", "b"]}, {"log": ["c"]})
    assert problems(caught.value) == [("/log", "append_only")]


class Prepared(BaseModel):
    name: str
    log: Annotated[list[str], append] = []
    _length: int = PrivateAttr(-1)

    def model_post_init(self, context: Any) -> None:
        self._length = len(self.name)

    @property
    def length(self) -> int:
        return self._length


def test_private_attributes_and_their_set_up_work_in_a_node() -> None:
    schema = StateSchema(Prepared)
    before = schema.load(schema.accept({"name": "abc"}))
    view = schema.view(before)
    assert isinstance(view, Prepared)
    assert view.length == 3
    assert written(schema, before, {"log": ["x"]}) == [Write("log", "append", ["x"])]
    assert written(schema, before, {"name": "z"}) == [Write("name", "set", "z")]


# ---- views


def test_a_view_reads_like_the_state() -> None:
    view = SCHEMA.view(values(n=5, lines=[Line(sku="a")]))
    assert isinstance(view, State)
    assert (view.n, view.lines) == (5, [Line(sku="a")])
    assert view.model_dump()["n"] == 5
    assert repr(view) == repr(State(n=5, lines=[Line(sku="a")]))
    assert list(dict(view).items()) == list(dict(State(n=5, lines=[Line(sku="a")])).items())


@given(UPDATES)
def test_a_view_is_private_whatever_a_node_does_to_it(update: dict[str, Any]) -> None:
    before = values(any={"deep": [1]}, log=["a"], lines=[Line(sku="a")], tags={"t"})
    snapshot = copy.deepcopy(before)
    view: Any = SCHEMA.view(before)
    view.any["deep"].append(2)
    view.log.append("b")
    view.lines[0].sku = "changed"
    view.tags.add("u")
    view.model_copy(deep=False).log.append("c")
    for name, value in update.items():
        setattr(view, name, value)
    assert before == snapshot


def test_a_view_does_not_see_what_happens_to_another() -> None:
    shared = values(any=[1])
    one: Any = SCHEMA.view(shared)
    other: Any = SCHEMA.view(shared)
    one.any.append(2)
    assert (one.any, other.any) == ([1, 2], [1])


def test_a_view_copies_what_is_touched_and_no_more() -> None:
    """Copying a whole state would cost more than committing a step."""
    many = list(range(size("state items")))
    view: Any = SCHEMA.view(values(any=many, n=1))
    assert view.n == 1
    assert "any" not in object.__getattribute__(view, "__dict__")
    assert view.any == many
    assert view.any is not many


def test_a_copy_of_a_view_has_everything() -> None:
    view = SCHEMA.view(values(n=5, note="x"))
    for copied in (view.model_copy(), view.model_copy(deep=True), copy.copy(view), copy.deepcopy(view)):
        assert copied.model_dump() == view.model_dump()


# ---- who may edit a field


def test_a_field_says_who_may_edit_it() -> None:
    class Marked(BaseModel):
        plain: int = 0
        open: Annotated[int, Editable("reviewer")] = 0
        told: int = Field(0, json_schema_extra={"editable_by": ["reviewer"]})
        closed: Annotated[int, Editable()] = 0
        shut: int = Field(0, json_schema_extra={"editable_by": []})

    schema = StateSchema(Marked)
    both = ("reviewer", "operator")
    assert schema.editors == {"plain": ("operator",), "open": both, "told": both, "closed": (), "shut": ()}
    assert schema.json_schema["properties"]["open"]["editable_by"] == list(both)


def test_a_role_that_nobody_has_is_refused_where_it_is_written() -> None:
    with pytest.raises(WorkflowError, match="'reveiwer'"):
        Editable("reveiwer")


@pytest.mark.parametrize("default", [SecretStr("x"), lambda: 1, {1, 2}, float("nan"), b"\xff", io.StringIO()])
def test_a_default_that_cannot_be_stored_is_refused_at_registration(default: Any) -> None:
    class Odd(BaseModel):
        held: Any = default

    with pytest.raises(WorkflowError, match="The default of 'held' in Odd cannot be stored"):
        StateSchema(Odd)


def test_a_default_that_comes_back_is_taken_and_so_is_one_that_only_a_submission_can_judge() -> None:
    class Fine(BaseModel):
        many: set[int] = {1, 2}
        day: date = date(2026, 1, 1)
        price: Decimal = Decimal("1.50")
        text: str = None  # type: ignore[assignment]

    assert StateSchema(Fine).accept({"text": "x"})["price"] == "1.50"
