"""Everything works as plain pages and forms: scripting is off in every test here."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.site import Site
from tests.browser.asks import answers, asked, card, listed, path, state
from tests.browser.conftest import Opens, sign_in


@pytest.fixture
def plain(opens: Opens) -> Page:
    return opens("frida", java_script_enabled=False).page


def test_sign_in_open_approve_sign_out(site: Site, opens: Opens) -> None:
    run_id, approval_id = asked(site, args={"n": 1}, title="Without script")
    page = opens(None, java_script_enabled=False).page
    page.goto(f"/inbox/{approval_id}/")
    assert path(page) == "/sign-in/"
    sign_in(page, "frida")
    page.goto("/inbox/?view=open")
    listed(page, "Without script").click()
    answers(page, "Approve")
    expect(page.locator("#toasts")).to_contain_text("Approved")
    site.wait(run_id)
    page.locator(".topbar .menu summary").click()
    page.get_by_role("button", name="Sign out").click()
    assert path(page) == "/sign-in/"


def test_edit_in_the_form_and_as_json(site: Site, plain: Page) -> None:
    run_id, approval_id = asked(site, args={"note": "x", "n": 1}, editable=["note"])
    card(plain, approval_id)
    plain.get_by_role("link", name="Edit").click()
    plain.get_by_label("note").fill("y")
    plain.get_by_role("button", name="JSON", exact=True).click()
    assert '"note": "y"' in plain.get_by_label("Arguments as JSON").input_value()
    plain.get_by_label("Arguments as JSON").fill('{"note": "z", "n": 1')
    plain.get_by_role("button", name="Save version 2 and approve it").click()
    expect(plain.locator(".field.wrong")).to_contain_text("line 1")
    plain.get_by_label("Arguments as JSON").fill('{"note": "z", "n": 1}')
    plain.get_by_role("button", name="Save version 2 and approve it").click()
    expect(plain.locator("#toasts")).to_contain_text("Approved")
    site.wait(run_id)
    assert state(site, run_id)["seen"] == {"note": "z", "n": 1}


def test_rewind_edit_state_and_cancel(site: Site, opens: Opens) -> None:
    run_id, _ = asked(site)
    page = opens("olga", java_script_enabled=False).page
    page.goto(f"/runs/{run_id}/")
    page.get_by_role("link", name="Edit state").click()
    field = page.get_by_label("State at checkpoint")
    field.fill(field.input_value().replace('"title": "Do it"', '"title": "Do it well"'))
    page.get_by_label("Reason").fill("A better title")
    page.get_by_role("button", name="Save the edited state").click()
    expect(page.locator("#toasts")).to_contain_text("holds the edited state: title")
    assert site.approval(run_id)["title"] == "Do it well"
    page.get_by_role("link", name="Cancel run").click()
    page.get_by_role("button", name="Cancel run").click()
    expect(page.locator(".says-status")).to_contain_text("Cancelled")
    assert site.run(run_id)["status"] == "cancelled"


def test_what_needs_script_is_not_shown(plain: Page) -> None:
    plain.goto("/inbox/")
    for name in ("Keyboard shortcuts", "Theme: as the system"):
        expect(plain.get_by_role("button", name=name)).to_have_count(0)
