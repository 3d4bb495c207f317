"""The SQL change as a reviewer does it in the browser: look, narrow the statement, be asked again, approve."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.site import Site
from tests.acceptance.test_sql_change import SWEDEN, Target, unknown_in_sweden
from tests.browser import first_screen
from tests.browser.asks import answers, asked_after, card


@pytest.fixture
def target(site: Site) -> Iterator[Target]:
    site.stack.manage("set_up")
    made = Target(site.stack.database_url)
    yield made
    made.drop()


def test_a_statement_is_narrowed_asked_about_again_and_applied(
    site: Site, target: Target, frida: Page
) -> None:
    run = site.start("sql_change", statement=f"{SWEDEN} -- unknown", agent_note="It is safe.")
    first = str(site.approval(run)["id"])
    card(frida, first)
    expect(frida.locator("h1", has_text="Update 58 airports: elevation")).to_be_visible()
    assert first_screen.missing(frida) == []
    shown = frida.locator("#card, main").first
    for text in (
        "58 of 28,298",
        "-- unknown",
        "ESSI",
        "Update on airports",
        "elevation = 0 AND country = 'SE'",
    ):
        expect(shown).to_contain_text(text)

    frida.goto(f"/inbox/{first}/edit/")
    field = frida.get_by_label("statement")
    field.fill(f"{field.input_value()} AND iata IS NOT NULL")
    frida.get_by_role("button", name=re.compile("^Send the edit through")).click()
    second = asked_after(site, run, first)
    assert unknown_in_sweden(target) == 0

    card(frida, second)
    expect(frida.locator("main")).to_contain_text("the statement was edited")
    expect(frida.locator(".since .diff")).to_contain_text("iata IS NOT NULL")
    assert first_screen.missing(frida, changed=True) == []
    answers(frida, "Approve")
    expect(frida.locator("#toasts")).to_contain_text("Approved")
    output = site.wait(run)["output"]
    assert output["outcome"] == "applied"
    assert 0 < unknown_in_sweden(target) == output["receipt"]["rows"] < 58
