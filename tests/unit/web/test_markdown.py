"""The agent's words cannot act, mislead by a link, or load anything (C90, threats T1 to T3)."""

from __future__ import annotations

import pytest

from runs.templatetags import links, markdown


def test_simple_markdown_is_kept() -> None:
    html = markdown.render("I **counted** again.\n\n- one\n- `two`\n")
    assert "<strong>counted</strong>" in html
    assert "<li>one</li>" in html
    assert "<code>two</code>" in html


@pytest.mark.parametrize(
    "attack",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        '"><svg onload=alert(1)>',
        "</textarea><script>alert(1)</script>",
        '<div hx-get="/logout" hx-trigger="load">',
        "<!-- hidden -->",
        "<form action=/inbox/><button>Approve</button></form>",
        "<b style='position:fixed'>x</b>",
    ],
)
def test_markup_stays_text(attack: str) -> None:
    html = markdown.render(attack)
    for tag in ("<script", "<img", "<svg", "<div", "<!--", "<form", "<button", "<b style"):
        assert tag not in html


@pytest.mark.parametrize("target", ["javascript:alert(1)", "data:text/html,x", "https://evil.example/x"])
def test_a_link_is_text_with_its_whole_target(target: str) -> None:
    html = markdown.render(f"[the wiki]({target})")
    assert "<a" not in html
    assert "the wiki (" in html
    assert target.split("//")[0] in html


def test_an_image_is_named_and_never_loaded() -> None:
    html = markdown.render("![chart](https://evil.example/p.png)")
    assert "<img" not in html
    assert "image: chart" in html
    assert "evil.example" in html


def test_a_heading_of_the_agent_is_no_heading_of_the_page() -> None:
    html = markdown.render("# Approved by finance\n\nUnder\n===\n")
    assert "<h1" not in html
    assert "<p><strong>Approved by finance</strong></p>" in html


def test_hidden_characters_are_drawn_in_text_and_code() -> None:
    html = markdown.render("a\u202eb `c\u200bd`\n\n    e\u2066f\n")
    assert [part in html for part in ("U+202E", "U+200B", "U+2066")] == [True, True, True]


def test_the_host_of_an_address_is_set_off() -> None:
    assert links.draw("see https://wiki.example.com/a?b=1.") == (
        'see <span class="url">https://<b>wiki.example.com</b>/a?b=1</span>.'
    )


def test_a_look_alike_host_and_a_name_before_the_at_are_warned_about() -> None:
    assert "look-alike host" in links.draw("https://xn--pypal-4ve.example/login")
    assert "look-alike host" in links.draw("https://pаypal.example/login")
    assert "the host is after the @" in links.draw("https://paypal.example@evil.example/")
    assert "<b>evil.example</b>" in links.draw("https://paypal.example@evil.example/")
