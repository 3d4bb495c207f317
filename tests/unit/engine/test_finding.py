"""By which words something is found, and that what is typed can say nothing but words."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.engine import finding


@pytest.mark.parametrize(
    ("stored", "typed"),
    [
        ("Refund 2310.00 to order 88-4121", "88-4121"),
        ("Refund 2310.00 to order 88-4121", "ORDER refund"),
        ("pay_refund", "refund"),
        ("Müller & Söhne", "muller sohne"),
        ("pay\u200bpal", "paypal"),
        ("\u202eevil", "evil"),
        ("Straße", "strasse"),
        ("退款给客户", "客户"),
        ("Ｆｕｌｌ width", "full"),
    ],
)
def test_what_is_typed_finds_what_begins_so(stored: str, typed: str) -> None:
    there = finding.words_in([stored])
    assert all(any(word.startswith(part) for word in there) for part in finding.words_in([typed]))
    assert finding.words_in([typed])


def test_there_is_an_end_to_the_words_and_to_each() -> None:
    assert len(finding.words_in([f"w{n}" for n in range(5_000)])) == finding.WORDS
    assert finding.words_in(["x" * 5_000_000]) == ["x" * finding.LONGEST]


def test_what_is_hidden_has_no_words() -> None:
    document = {"iban": {"$redacted": ["operator"]}, "name": "Nina", "n": [1, True, None, {"deep": "er"}]}
    assert list(finding.texts_of(document)) == ["Nina", "1", "True", "er"]


@given(st.text(), st.text(min_size=1))
def test_a_search_is_words_joined_by_and_whatever_is_typed(typed: str, tool: str) -> None:
    sought = finding.sought(typed, finding.exactly("tool", tool))
    quoted = re.findall(r"'(?:[^'\\]|''|\\\\)*'(?::\*)?", sought)
    assert sought == " & ".join(quoted)
    assert len(quoted) <= finding.SOUGHT + 1


def test_a_name_is_found_whole_and_cannot_be_typed() -> None:
    assert finding.exactly("tool", "pay") not in finding.words_in(["tool:pay"])
