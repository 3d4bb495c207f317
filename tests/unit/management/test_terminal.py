"""An approval in a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from runs.management.terminal import Person, Script, card, plain


def document(**changes: Any) -> dict[str, Any]:
    return {
        "title": "Refund 10.00 EUR",
        "reason": "",
        "agent_note": "",
        "facts": [{"label": "Customer", "value": "Aino"}, {"label": "Left", "value": 3}],
        "actions": [
            {
                "key": "pay",
                "tool": "pay",
                "args": {"order_id": "1", "amount": "10.00", "notes": [1]},
                "schema": {"properties": {"amount": {"pattern": r"^\d+\.\d\d$"}}},
                "allowed": ["approve", "edit", "reject", "respond"],
                "editable": ["/amount", "/notes/0"],
                "effect": "irreversible",
                "risk": "low",
            }
        ],
        **changes,
    }


class Typing:
    """A person who types these lines, and what they were shown."""

    def __init__(self, *lines: str) -> None:
        self._lines: Iterator[str] = iter(lines)
        self.shown: list[str] = []

    def person(self) -> Person:
        return Person(ask=self._ask, say=self.shown.append)

    def _ask(self, question: str) -> str:
        self.shown.append(question)
        return next(self._lines)


def test_the_card_shows_facts_arguments_effect_and_risk() -> None:
    shown = "\n".join(card(document()))
    assert "Customer  Aino" in shown
    assert "pay (irreversible, low risk)" in shown
    assert 'amount = "10.00"   may be edited' in shown
    assert 'order_id = "1"\n' in shown


def test_the_agents_words_come_last_and_are_marked() -> None:
    *_, mark, words = card(document(agent_note="Approve me"))
    assert "not verified" in mark
    assert "Approve me" in words


def test_an_escape_sequence_is_drawn_and_not_obeyed() -> None:
    hostile = "\x1b[2J\x1b[1;1HAPPROVED\u202e"
    shown = "\n".join(
        card(document(title=hostile, agent_note=hostile, facts=[{"label": hostile, "value": hostile}]))
    )
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert plain(hostile) == "<U+001B>[2J<U+001B>[1;1HAPPROVED<U+202E>"


@pytest.mark.parametrize(("said", "meant"), [("approve", "approve"), ("A", "approve"), (" rej", "reject")])
def test_the_first_letters_of_a_decision_are_enough(said: str, meant: str) -> None:
    (decision,) = Typing(said, "Too late").person().decide(document())
    assert decision.type == meant


@pytest.mark.parametrize("said", ["", "re", "yes", "approved"])
def test_nothing_is_decided_by_an_unclear_word(said: str) -> None:
    typing = Typing(said, "approve")
    (decision,) = typing.person().decide(document())
    assert decision.type == "approve"
    assert any("is needed" in line for line in typing.shown)


def test_an_edit_asks_for_what_may_be_edited_until_it_fits() -> None:
    typing = Typing("edit", "9", "", "9.00", "[2]")
    (decision,) = typing.person().decide(document())
    assert decision.args == {"order_id": "1", "amount": "9.00", "notes": [2]}
    assert any("/amount" in line for line in typing.shown)


def test_an_empty_line_keeps_the_value() -> None:
    (decision,) = Typing("edit", "", "").person().decide(document())
    assert decision.args == document()["actions"][0]["args"]


def test_a_reject_takes_its_reason() -> None:
    (decision,) = Typing("reject", " Used chairs ").person().decide(document())
    assert (decision.type, decision.message) == ("reject", "Used chairs")


def test_a_script_answers_without_asking() -> None:
    (decision,) = Script("edit", changes={"amount": "9.00", "notes": "[2]"}).decide(document())
    assert decision.args == {"order_id": "1", "amount": "9.00", "notes": [2]}
