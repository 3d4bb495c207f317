"""What is asked again says after what, by whom and why, and what differs."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page, expect

from tests.acceptance.site import Site
from tests.browser.asks import answers, asked, asked_after, card, state
from tests.browser.conftest import Opens

TWO_LINES = "UPDATE demo.orders\nSET total = 10"


def asked_checked(site: Site, **more: Any) -> tuple[str, str]:
    return asked(site, "checked", args={"note": TWO_LINES, "n": 1}, editable=["note"], **more)


def edits(page: Page, approval_id: str, note: str, reason: str) -> None:
    page.goto(f"/inbox/{approval_id}/edit/")
    page.get_by_label("note").fill(note)
    page.locator("#reason").fill(reason)
    page.get_by_role("button", name="Send the edit through look").click()
    page.locator("#toasts .toast").wait_for()


def test_an_edit_says_that_it_is_checked_and_is_no_vote(site: Site, frida: Page) -> None:
    _, approval_id = asked_checked(site)
    card(frida, approval_id)
    expect(frida.get_by_role("link", name="Edit")).to_contain_text("Through look again, no vote")
    frida.get_by_role("link", name="Edit").click()
    expect(frida.locator(".leads").last).to_contain_text("people are asked anew")
    expect(frida.get_by_role("button", name="Save without my vote")).to_have_count(0)
    expect(frida.get_by_role("button", name="and approve it")).to_have_count(0)


def test_after_an_edit_the_new_card_shows_proposal_against_edit_with_the_reason(
    site: Site, opens: Opens
) -> None:
    run_id, approval_id = asked_checked(site)
    frida, felix = opens("frida").page, opens("felix").page
    card(felix, approval_id)
    expect(felix.locator("[data-live-sign]")).to_have_text("Live")
    edits(frida, approval_id, TWO_LINES.replace("10", "12"), "The total is 12")
    expect(frida.locator("#toasts")).to_contain_text("goes through look; then people are asked anew")
    new = asked_after(site, run_id, approval_id)
    expect(felix.locator("#_card_news")).to_contain_text("frida has edited this")
    card(felix, new)
    since = felix.locator(".since")
    expect(since).to_contain_text("Asked again after an edit. frida")
    expect(since.locator("q")).to_have_text("The total is 12")
    expect(since.locator(".lines .del code")).to_have_text("SET total = 10")
    expect(since.locator(".lines .add code")).to_have_text("SET total = 12")
    card(felix, approval_id)
    expect(felix.locator(".since")).to_contain_text("Edited, to be asked anew. frida")
    felix.get_by_role("link", name="A-", exact=False).last.click()
    answers(felix, "Approve")
    site.wait(run_id)
    assert state(site, run_id)["seen"] == {"note": TWO_LINES.replace("10", "12"), "n": 1}


def test_an_edit_that_does_not_pass_the_check_is_shown_as_not_asked(site: Site, opens: Opens) -> None:
    run_id, approval_id = asked_checked(site)
    frida = opens("frida").page
    edits(frida, approval_id, "bad", "Try this")
    card(frida, asked_after(site, run_id, approval_id))
    expect(frida.locator(".since")).to_contain_text("the edit did not pass the check")
    expect(frida.locator(".since thead")).to_contain_text("The edit, not asked")
    expect(frida.locator(".since .add code")).to_have_text("bad")


def test_a_new_proposal_is_shown_against_the_rejected_one_with_the_reason(site: Site, frida: Page) -> None:
    run_id, approval_id = asked_checked(site)
    card(frida, approval_id)
    frida.locator("#reason").fill("Wrong orders")
    answers(frida, "Reject")
    card(frida, asked_after(site, run_id, approval_id))
    since = frida.locator(".since")
    expect(since).to_contain_text("Asked again. frida rejected A-")
    expect(since.locator("q")).to_have_text("Wrong orders")
    expect(since.locator(".add code")).to_have_text("drafted anew")


def test_rows_of_a_fact_are_a_table_and_long_ones_fold(site: Site, frida: Page) -> None:
    rows = [{"id": n, "name": f"row {n}"} for n in range(1, 12)]
    _, approval_id = asked(site, facts={"Sample": rows, "Plan": "\n".join(map(str, range(20)))})
    card(frida, approval_id)
    table = frida.get_by_role("table", name="Sample", exact=True)
    expect(table.get_by_role("row")).to_have_count(9)
    expect(frida.get_by_role("table", name="Sample, the rest")).to_be_hidden()
    frida.get_by_text("3 more rows").click()
    expect(frida.get_by_role("table", name="Sample, the rest")).to_be_visible()
    expect(frida.get_by_text("20 lines")).to_be_visible()
