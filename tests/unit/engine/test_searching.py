"""What of a state is searched for."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from runs.engine import Searchable, Sensitive
from runs.engine.searching import LONGEST, fields_of, values_in
from runs.engine.state import StateSchema
from runs.errors import WorkflowError


class Customer(BaseModel):
    name: Annotated[str, Searchable]
    iban: Annotated[str, Sensitive("operator")] = ""


class Order(BaseModel):
    id: Annotated[str, Searchable]
    urgent: Annotated[bool, Searchable()] = False
    amount: Annotated[Decimal | None, Searchable] = None
    customer: Customer | None = None
    note: str = ""
    by_hand: str = Field("", json_schema_extra={"searchable": True})


def schema_of(**fields: Any) -> Any:
    model: Any = type("State", (BaseModel,), {"__annotations__": fields})
    return model.model_json_schema()


def test_marked_fields_have_a_name_also_inside_nested_models() -> None:
    assert StateSchema(Order).searchable == {
        "id": ("id",),
        "urgent": ("urgent",),
        "amount": ("amount",),
        "customer.name": ("customer", "name"),
        "by_hand": ("by_hand",),
    }


def test_single_values_are_searched_for_and_nothing_else() -> None:
    fields = StateSchema(Order).searchable
    state = {"id": "88-4121", "urgent": True, "amount": "10.50", "customer": {"name": "Ada", "iban": "DE1"}}
    assert values_in(state, fields) == {
        "id": "88-4121",
        "urgent": "true",
        "amount": "10.50",
        "customer.name": "Ada",
    }
    assert values_in({"id": "", "amount": None, "customer": None}, fields) == {}
    assert values_in({"id": "x" * (LONGEST + 1), "customer": {"name": ["Ada"]}}, fields) == {}
    assert values_in({"id": 2**70, "amount": 1.5}, fields) == {"id": str(2**70), "amount": "1.5"}


@given(
    st.dictionaries(
        st.sampled_from(["id", "urgent", "amount", "customer", "by_hand"]),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(max_size=300),
            lambda inner: (
                st.lists(inner, max_size=2)
                | st.dictionaries(st.sampled_from(["name", "x"]), inner, max_size=2)
            ),
            max_leaves=6,
        ),
    )
)
def test_whatever_a_state_holds_comes_to_short_texts(state: dict[str, Any]) -> None:
    found = values_in(state, StateSchema(Order).searchable)
    assert all(0 < len(text) <= LONGEST for text in found.values())


def test_what_is_hidden_cannot_be_searched_for() -> None:
    with pytest.raises(WorkflowError, match="'iban' is Sensitive"):
        fields_of(schema_of(iban=Annotated[str, Sensitive("operator"), Searchable]))
    with pytest.raises(WorkflowError, match=r"'customer\.name' is Sensitive"):
        fields_of(schema_of(customer=Annotated[Customer, Sensitive()]))


def test_there_is_an_end_to_what_is_searched_for() -> None:
    with pytest.raises(WorkflowError, match="At most 20"):
        fields_of(schema_of(**{f"field{number}": Annotated[str, Searchable] for number in range(21)}))


def test_a_schema_that_goes_into_itself_is_read_once() -> None:
    class Tree(BaseModel):
        name: Annotated[str, Searchable]
        left: Tree | None = None

    found = StateSchema(Tree).searchable
    assert found == {"name": ("name",)}
