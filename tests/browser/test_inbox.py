"""What the list of the inbox does with a keyboard and while others are at work."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.acceptance.site import Site
from tests.browser.asks import asked, listed
from tests.browser.conftest import Opens


def chosen(page: Page) -> int:
    return page.locator("[data-pick]:checked").count()


def test_rows_are_chosen_by_key_and_what_is_searched_is_found(site: Site, frida: Page) -> None:
    for number in range(3):
        asked(site, title=f"Quince {number}")
    frida.goto("/inbox/?view=open")
    frida.keyboard.press("/")
    frida.keyboard.type("quinc x")
    assert chosen(frida) == 0  # it was typed
    frida.keyboard.press("Backspace")
    frida.keyboard.press("Backspace")
    frida.keyboard.press("Enter")
    frida.wait_for_url("**q=quinc**")
    expect(frida.locator("[data-row]")).to_have_count(3)
    for key in ("j", "x", "j", "j", "Shift+X"):
        frida.keyboard.press(key)
    expect(frida.locator("[data-chosen]")).to_contain_text("3 chosen")
    frida.keyboard.press("x")
    assert chosen(frida) == 2
    frida.get_by_role("button", name="Decide…").click()
    frida.wait_for_url("**/inbox/together/**")
    assert frida.url.count("only=") == 2
    frida.goto("/inbox/?q=quinc")
    for key in ("j", "x", "c"):
        frida.keyboard.press(key)
    expect(frida.locator("#toasts")).to_contain_text("You work on 1 approval")
    for key in ("j", "x", "z", "Enter"):
        frida.keyboard.press(key)
    expect(frida.locator("#toasts")).to_contain_text("1 approval out of your list")


def test_who_looks_is_told_live_and_so_is_that_they_have_left(site: Site, opens: Opens) -> None:
    _, approval_id = asked(site, title="Looked at by two")
    frida, felix = opens("frida").page, opens("felix").page
    frida.goto(f"/inbox/{approval_id}/")
    expect(frida.locator("[data-live-sign]")).to_have_text("Live")
    frida.locator("#reason").fill("typing")
    felix.goto("/inbox/?view=open")
    listed(felix, "Looked at by two").click()
    expect(frida.locator("#_onlookers")).to_contain_text("felix looks at this, since")
    expect(frida.locator(f"#row-{approval_id}")).to_contain_text("felix")
    felix.goto("/runs/")
    expect(frida.locator("#_onlookers")).not_to_contain_text("looks at this")
    assert frida.locator("#reason").input_value() == "typing"
    frida.locator("#reason").fill("")
