"""What a reader cannot see is drawn, named and counted (C90, threats T3 and T4)."""

from __future__ import annotations

import pytest

from runs.templatetags import hidden


def test_plain_text_has_nothing_hidden() -> None:
    assert hidden.count("Refund 120.50 to order 88-4121\n\tline two, naïve café, 12 µm, 東京, привет") == {}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a\u202eb", "right-to-left override"),
        ("a\u2066b", "left-to-right isolate"),
        ("pay\u200bpal", "zero width space"),
        ("a\ufeffb", "zero width no-break space"),
        ("a\u00adb", "soft hyphen"),
        ("a\u00a0b", "no-break space"),
        ("ok\x00", "null"),
        ("\x1b[31mred", "escape control"),
        ("a\x85b", "next line"),
        ("a\x9bb", "control character"),
        ("a\U000e0041b", "tag latin capital letter a"),
        ("a\U000e0101b", "variation selector-18"),
        ("a\ue000b", "private use character"),
        ("a\ud800b", "lone surrogate"),
        ("line\r\n", "carriage return"),
    ],
)
def test_a_hidden_character_is_found_and_named(text: str, name: str) -> None:
    assert hidden.count(text) == {name: 1}


def test_a_foreign_letter_inside_a_latin_word_is_hidden() -> None:
    assert hidden.count("p\u0430yroll") == {"cyrillic small letter a": 1}


def test_words_wholly_in_another_script_are_left_alone() -> None:
    assert hidden.count("счёт 42 и Ελλάδα") == {}


def test_the_colour_selector_after_a_pictograph_is_not_hidden_but_alone_it_is() -> None:
    assert hidden.count("\u2764\ufe0f") == {}
    assert hidden.count("a\ufe0f") == {"variation selector-16": 1}


def test_drawing_escapes_markup_and_boxes_the_hidden() -> None:
    assert hidden.draw("<b>\u202e</b>") == (
        '&lt;b&gt;<span class="esc" title="right-to-left override">U+202E</span>&lt;/b&gt;'
    )


def test_drawing_keeps_every_visible_character_in_place() -> None:
    assert hidden.draw("\u200bab\u200b\u200bc") == "".join(
        [box := '<span class="esc" title="zero width space">U+200B</span>', "ab", box, box, "c"]
    )


def test_a_megabyte_without_hidden_characters_is_drawn_at_once() -> None:
    assert len(hidden.draw("é" * 1_000_000)) == 1_000_000
