"""Operators and reviewers at the page of a run: timeline, checkpoints, rewind, edited state, cancel."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.acceptance.site import Site
from tests.browser.asks import answers, asked, card, state
from tests.browser.conftest import Opens


def test_the_page_says_who_is_waited_for_and_follows_the_run(site: Site, opens: Opens) -> None:
    run_id, approval_id = asked(site, args={"n": 1})
    olga, frida = opens("olga").page, opens("frida").page
    olga.goto(f"/runs/{run_id}/")
    expect(olga.locator(".says-status")).to_contain_text(
        re.compile("Waiting for finance since .*, due in 2\\d h")
    )
    expect(olga.locator(".timeline")).to_contain_text("confirm")
    card(frida, approval_id)
    answers(frida, "Approve")
    expect(olga.locator(".says-status")).to_contain_text("Completed after")
    expect(olga.locator("#_timeline")).to_contain_text("apply")
    parts = olga.get_by_role("navigation", name="Parts of this run")
    parts.get_by_role("link", name="Approvals 1").click()
    expect(olga.locator("#_approvals")).to_contain_text("Approved")
    parts.get_by_role("link", name="History").click()
    expect(olga.locator("#_history")).to_contain_text("completed")


def test_a_run_that_moves_on_leaves_open_what_a_reader_has_opened(site: Site, opens: Opens) -> None:
    """C95"""
    run_id, approval_id = asked(site)
    olga, frida = opens("olga").page, opens("frida").page
    olga.goto(f"/runs/{run_id}/history/")
    olga.locator("#_history details summary").first.click()
    card(frida, approval_id)
    answers(frida, "Approve")
    site.wait(run_id)
    expect(olga.locator(".says-status")).to_contain_text("Completed", timeout=20_000)
    expect(olga.locator("#_history details[open]")).to_have_count(1)


def test_checkpoints_show_what_changed_the_state_and_the_position(site: Site, frida: Page) -> None:
    run_id, _ = asked(site, args={"amount": 9007199254740993})
    frida.goto(f"/runs/{run_id}/checkpoints/")
    expect(frida.get_by_role("heading", name="What checkpoint 1 changed")).to_be_visible()
    expect(frida.locator("#checkpoint .add")).to_contain_text('"told"')
    frida.locator("#checkpoint").get_by_role("link", name="JSON", exact=True).click()
    expect(frida.locator("#checkpoint .lines")).to_contain_text("9007199254740993")
    frida.locator(".checkpoint a.whole-row").last.click()
    expect(frida.get_by_role("heading", name="What checkpoint 0 changed")).to_be_visible()
    frida.go_back()
    expect(frida.get_by_role("heading", name="What checkpoint 1 changed")).to_be_visible()


def test_rewind_with_an_edited_state_says_what_comes_and_the_run_goes_on(site: Site, olga: Page) -> None:
    run_id, approval_id = asked(site, args={"amount": 1}, title="First ask")
    olga.goto(f"/runs/{run_id}/")
    olga.get_by_role("link", name="Rewind to checkpoint 0").click()
    expect(olga.get_by_role("heading", name="Rewind to checkpoint 0")).to_be_visible()
    sections = olga.locator("form.sheet .section")
    expect(sections.filter(has_text="Runs again")).to_contain_text("draft")
    expect(sections.filter(has_text="Already done after that point")).to_contain_text(
        "nothing outside was changed"
    )
    expect(sections.filter(has_text="Asked again")).to_contain_text("closes as superseded")
    olga.locator("details summary").filter(has_text="Edit the state first").click()
    field = olga.get_by_label("State as JSON")
    field.fill(field.input_value().replace('"amount": 1', '"amount": 2'))
    olga.get_by_role("button", name="Rewind, branch 2").click()
    assert site.run(run_id)["branch"] == 1
    olga.get_by_label("Reason").fill("Two, not one")
    olga.get_by_role("button", name="Rewind, branch 2").click()
    expect(olga.locator("#toasts")).to_contain_text("with an edited state; the run goes on, on branch 2")
    expect(olga.locator("#_branches")).to_contain_text("Two, not one")
    fresh = site.approval(run_id)
    assert fresh["id"] != approval_id
    assert state(site, run_id)["args"] == {"amount": 2}
    card(olga, approval_id)
    expect(olga.locator(".card")).to_contain_text("This was asked again")


def test_a_reviewer_rewinds_from_the_card_instead_of_deciding(site: Site, frida: Page) -> None:
    run_id, approval_id = asked(site)
    card(frida, approval_id)
    frida.get_by_role("link", name="Rewind it instead").click()
    frida.get_by_role("link", name="Rewind to checkpoint 0").click()
    frida.get_by_label("Reason").fill("Draft it again")
    frida.get_by_role("button", name="Rewind, branch 2").click()
    expect(frida.locator("#toasts")).to_contain_text("Rewound to checkpoint 0")
    assert site.approval(run_id)["id"] != approval_id


def test_a_broken_state_comes_back_as_typed_with_line_and_column(site: Site, olga: Page) -> None:
    """C13, for the state."""
    run_id, _ = asked(site)
    olga.goto(f"/runs/{run_id}/edit-state/")
    olga.get_by_label("State at checkpoint").fill('{"args": [1,\n  2}')
    olga.get_by_label("Reason").fill("why")
    olga.get_by_role("button", name="Save the edited state").click()
    expect(olga.locator("#state-wrong")).to_contain_text("line 2, column 4")
    assert olga.get_by_label("State at checkpoint").input_value() == '{"args": [1,\n  2}'
    assert olga.get_by_label("Reason").input_value() == "why"
    olga.get_by_label("State at checkpoint").fill('{"args": 1}')
    olga.get_by_role("button", name="Save the edited state").click()
    expect(olga.locator("#state-wrong")).to_contain_text("/title is missing")


def test_a_run_that_moved_on_is_not_rewound_from_an_old_preview(site: Site, opens: Opens) -> None:
    """K6"""
    run_id, approval_id = asked(site)
    olga, frida = opens("olga").page, opens("frida").page
    olga.goto(f"/runs/{run_id}/rewind/0/")
    card(frida, approval_id)
    answers(frida, "Approve")
    site.wait(run_id)
    olga.get_by_label("Reason").fill("too late")
    olga.get_by_role("button", name="Rewind, branch 2").click()
    expect(olga.locator("#banner")).to_contain_text("The run has moved on")
    assert olga.get_by_label("Reason").input_value() == "too late"
    assert site.run(run_id)["branch"] == 1
    expect(olga.locator("form.sheet")).to_contain_text("apply")


def test_cancel_explains_before_it_does(site: Site, olga: Page) -> None:
    run_id, _ = asked(site)
    olga.goto(f"/runs/{run_id}/")
    olga.get_by_role("link", name="Cancel run").click()
    expect(olga.locator("form.sheet")).to_contain_text("1 open approval closes")
    olga.get_by_label("Reason").fill("duplicate")
    olga.get_by_role("button", name="Cancel run").click()
    expect(olga.locator(".says-status")).to_contain_text("Cancelled")
    olga.goto(f"/runs/{run_id}/history/")
    expect(olga.locator("#_history")).to_contain_text("duplicate")
    expect(olga.locator(".run-head .actions")).to_contain_text("Cancel run")


def test_the_list_filters_by_status_and_workflow(site: Site, olga: Page) -> None:
    run_id, _ = asked(site)
    olga.goto("/runs/")
    olga.get_by_role("navigation", name="Status").get_by_role("link", name="Waiting for people").click()
    expect(olga.locator("table.runs")).to_contain_text(run_id[:8])
    olga.locator("summary", has_text="Filter").click()
    olga.locator("#filter-workflow").fill("several")
    olga.get_by_role("button", name="Show these").click()
    expect(olga.locator("#_runs")).not_to_contain_text(run_id[:8])


def test_verbs_without_a_right_are_greyed_and_refused(site: Site, opens: Opens) -> None:
    """C86: the page, and the address behind it."""
    run_id, _ = asked(site)
    vera = opens("vera").page
    vera.goto(f"/runs/{run_id}/")
    expect(vera.locator(".actions a")).to_have_count(0)
    for verb in ("cancel", "edit-state", "rewind/0"):
        answer = vera.goto(f"/runs/{run_id}/{verb}/")
        assert answer is not None
        assert answer.status == 403
        expect(vera.get_by_role("heading", level=1)).to_be_visible()
