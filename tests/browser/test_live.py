"""Pages hear what others do, and nothing that is typed or read moves (C92, C95)."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.acceptance.site import Site
from tests.browser.asks import answers, asked, card
from tests.browser.conftest import Opens


def test_a_new_approval_waits_behind_a_line(site: Site, opens: Opens) -> None:
    """C95"""
    _, approval_id = asked(site, title="Already there")
    page = opens("frida").page
    card(page, approval_id)
    expect(page.locator("[data-live-sign]")).to_have_text("Live")
    page.locator("#reason").fill("half a thought")
    before = page.locator("[data-row]").count()
    badge = int(page.locator("#_inbox_count").inner_text().split()[0])
    asked(site, title="Just come in")
    line = page.get_by_role("link", name="The list has changed. Show")
    expect(line).to_be_visible()
    expect(page.locator("#_inbox_count")).to_contain_text(str(badge + 1))
    expect(page).to_have_title(f"({badge + 1}) Already there · hitl")
    assert page.locator("[data-row]").count() == before
    assert page.locator("#reason").input_value() == "half a thought"
    line.click()
    expect(page.get_by_role("link", name="Just come in")).to_be_visible()
    assert page.locator("#reason").input_value() == "half a thought"
    page.locator("#reason").fill("")


def test_what_somebody_else_decides_is_told_before_the_click(site: Site, opens: Opens) -> None:
    _, approval_id = asked(site)
    frida, felix = opens("frida").page, opens("felix").page
    card(frida, approval_id)
    expect(frida.locator("[data-live-sign]")).to_have_text("Live")
    frida.locator("#reason").fill("typing")
    card(felix, approval_id)
    answers(felix, "Approve")
    expect(frida.locator("#_card_news")).to_contain_text("felix has decided this: approved.")
    assert frida.locator("#reason").input_value() == "typing"
    frida.locator("#reason").fill("")


def test_an_edit_by_somebody_else_is_told_in_the_editor(site: Site, opens: Opens) -> None:
    """C95"""
    _, approval_id = asked(site, args={"note": "x"}, editable=["note"])
    frida, felix = opens("frida").page, opens("felix").page
    frida.goto(f"/inbox/{approval_id}/edit/")
    expect(frida.locator("[data-live-sign]")).to_have_text("Live")
    frida.get_by_label("note").fill("mine")
    felix.goto(f"/inbox/{approval_id}/edit/")
    felix.get_by_label("note").fill("his")
    felix.get_by_role("button", name="Save without my vote").click()
    expect(frida.locator("#_card_news")).to_contain_text("felix has edited this; version 2 is open now.")
    expect(frida.get_by_label("note")).to_have_value("mine")
    frida.get_by_label("note").fill("x")


def test_the_list_of_runs_says_that_it_is_old(site: Site, opens: Opens) -> None:
    page = opens("olga").page
    page.goto("/runs/")
    expect(page.locator("[data-live-sign]")).to_have_text("Live")
    run_id, _ = asked(site)
    page.get_by_role("link", name="Runs have changed. Show").click()
    expect(page.locator("#_runs")).to_contain_text(run_id[:8])


def test_a_lost_connection_is_told_and_what_was_missed_is_caught_up(site: Site, opens: Opens) -> None:
    """C92"""
    run_id, approval_id = asked(site)
    watched = opens("olga")
    page, frida = watched.page, opens("frida").page
    page.goto(f"/runs/{run_id}/")
    expect(page.locator("[data-live-sign]")).to_have_text("Live")
    watched.context.set_offline(True)
    card(frida, approval_id)
    answers(frida, "Approve")
    site.wait(run_id)
    watched.context.set_offline(False)
    expect(page.locator(".says-status")).to_contain_text("Completed", timeout=20_000)
    watched.faults.clear()
