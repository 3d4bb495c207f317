"""Facts as a card draws them."""

from __future__ import annotations

from typing import Any

import pytest

from runs.web.facts import fact_of, table_of


def test_a_short_fact_is_a_tile_and_a_text_of_several_lines_is_folded_when_it_is_long() -> None:
    assert fact_of({"label": "Rows", "value": "12 of 84"}).short
    assert not fact_of({"label": "Plan", "value": "a\nb"}).short
    few, many = (fact_of({"label": "Plan", "value": "\n".join("x" * n)}) for n in (12, 13))
    assert (few.folded, many.folded) == (False, True)


def test_objects_become_a_table_with_the_columns_of_all() -> None:
    table = table_of([{"id": 1, "name": "a\u202eb"}, {"id": 2, "gone": None}])
    assert table is not None
    assert [(column.name, column.number) for column in table.columns] == [
        ("id", True),
        ("name", False),
        ("gone", False),
    ]
    assert "U+202E" in table.rows[0][1][1]
    assert [cell for _, cell in table.rows[1]] == ["2", "null", "null"]


def test_columns_beside_rows_keep_their_order() -> None:
    table = table_of({"columns": ["b", "a"], "rows": [[1, "x"]] * 9})
    assert table is not None
    assert [column.name for column in table.columns] == ["b", "a"]
    assert (len(table.first), len(table.rest)) == (8, 1)


@pytest.mark.parametrize(
    "value",
    [
        [],
        [1, 2],
        [{"a": {"deep": 1}}],
        [{"a": 1}, 2],
        [{}],
        [{str(n): n for n in range(13)}],
        {"columns": ["a"], "rows": [[1, 2]]},
        {"columns": "ab", "rows": [[1, 2]]},
        {"columns": ["a"], "rows": []},
        {"columns": ["a"]},
        "text",
        None,
    ],
)
def test_whatever_is_not_flat_and_alike_is_no_table(value: Any) -> None:
    assert table_of(value) is None


def test_markup_in_a_cell_is_text() -> None:
    table = table_of([{"<b>": "<script>x</script>"}])
    assert table is not None
    assert table.rows[0][0][1] == "&lt;script&gt;x&lt;/script&gt;"


def test_what_was_and_what_will_be_stand_in_one_column() -> None:
    table = table_of({"columns": ["id", "price before", "price after"], "rows": [[1, 5, None], [2, 5, 5]]})
    assert table is not None
    assert [column.name for column in table.columns] == ["id", "price"]
    changed, same = (row[1][1] for row in table.rows)
    assert "<del>5</del>" in changed
    assert "<ins>null</ins>" in changed
    assert "<ins>" not in same


def test_a_pair_is_named_by_what_it_is_of() -> None:
    table = table_of([{"after": 2, "before": 1, "n before": 3}])
    assert table is not None
    assert [column.name for column in table.columns] == ["change", "n before"]
