"""The colours of the stylesheet keep their contrast in both themes, whoever changes a grey."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CSS = Path(__file__).parents[3] / "static/css/hitl.css"
PAIR = re.compile(r"--([a-z0-9-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)")
TOKENS = {name: (light, dark) for name, light, dark in PAIR.findall(CSS.read_text())}
GROUNDS = ("page", "paper", "well", "hover", "picked")
TONES = ("blue", "green", "amber", "red", "rust", "slate")
TEXTS = [(ink, ground) for ink in ("ink", "ink-2", "ink-3") for ground in GROUNDS]
TEXTS += [(tone, ground) for tone in TONES for ground in ("paper", "well", f"{tone}-tint")]
TEXTS += [
    ("ink", "gain"),
    ("ink", "loss"),
    ("ink", "gain-mark"),
    ("ink", "loss-mark"),
    ("blue", "picked"),
    ("blue", "page"),
]
SHAPES = [("field", "paper"), ("field", "page")] + [(f"{tone}-fill", "paper") for tone in TONES]


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, two: str) -> float:
    dark, light = sorted((luminance(one), luminance(two)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("ink", "ground"), TEXTS)
def test_text_can_be_read(ink: str, ground: str, theme: int) -> None:
    assert contrast(TOKENS[ink][theme], TOKENS[ground][theme]) >= 4.5


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("shape", "ground"), SHAPES)
def test_shapes_and_borders_of_fields_can_be_seen(shape: str, ground: str, theme: int) -> None:
    assert contrast(TOKENS[shape][theme], TOKENS[ground][theme]) >= 3


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("fill", ["blue-fill", "red-fill", "green-fill"])
def test_words_on_a_fill_can_be_read(fill: str, theme: int) -> None:
    assert contrast("#ffffff", TOKENS[fill][theme]) >= (3 if fill == "green-fill" else 4.5)


def test_no_style_and_no_handler_stands_in_a_template() -> None:
    """The content policy has no exception for inline style or script."""
    templates = sorted((CSS.parents[2] / "templates").rglob("*.html"))
    assert templates
    for template in templates:
        text = template.read_text()
        assert not re.search(r"\sstyle=|<style|\son[a-z]+=|javascript:|hx-on|\|safe", text), template
        assert not re.search(r"<script(?![^>]*src=)", text), template
