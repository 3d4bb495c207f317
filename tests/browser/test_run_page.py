"""The page of a run in a browser: a very long run, a large graph, many lanes; by mouse and by keys; while the run goes on."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.site import Site
from tests.browser.asks import asked, lengthened
from tests.browser.conftest import PHONE, Opens
from tests.browser.test_looks import in_both_themes
from tests.browser.test_travel import fits
from tests.kit.longrun import EVENTS, FIRST_ERROR
from tests.kit.waiting import until


@pytest.fixture(scope="module")
def long(site: Site) -> str:
    """One run as C97 has it, for all that is looked at in it."""
    return lengthened(site, title="A long one")


def large(site: Site, workflow: str, asks: int) -> str:
    run_id = site.start(workflow, title=f"Asked by {workflow}")
    until(lambda: len(site.run(run_id)["pending_approvals"]) == asks, seconds=60, what="every lane asks")
    return run_id


def width(page: Page) -> float:
    found: float = page.locator("svg.picture").evaluate("svg => svg.width.baseVal.value")
    return found


def test_a_very_long_run_is_drawn_by_a_window_and_leads_to_its_first_error(
    site: Site, long: str, olga: Page
) -> None:
    """C97: what is in the page does not grow with the run."""
    olga.goto(f"/runs/{long}/")
    expect(olga.locator("#_timeline li.step")).to_have_count(200)
    expect(olga.locator("#_checkpoints .checkpoint")).to_have_count(100)
    expect(olga.locator("#_effects tbody tr")).to_have_count(200)
    assert olga.evaluate("document.querySelectorAll('*').length") < 10_000
    parts = olga.get_by_role("navigation", name="Parts of this run")
    parts.get_by_role("link", name="History").click()
    rows = olga.locator("#_history tbody tr")
    expect(rows).to_have_count(100)
    expect(rows.first).to_have_id(f"event-{EVENTS}")
    olga.get_by_role("link", name="First error").click()
    expect(olga.locator(f"#event-{FIRST_ERROR}")).to_be_in_viewport()
    expect(olga.locator(f"#event-{FIRST_ERROR}")).to_contain_text("step failed")
    olga.get_by_label("Step").select_option("node_7")
    olga.get_by_role("button", name="Filter").click()
    expect(rows.first.locator("td[data-name=Node]")).to_have_text("node_7")
    parts.get_by_role("link", name="Timeline").click()
    olga.locator(".columns a", has=olga.locator(".c-failed")).click()
    expect(olga.locator("#_timeline h2")).to_contain_text("steps 7001 to 7200 of 20002")
    assert fits(olga)


def test_two_checkpoints_far_apart_are_held_against_each_other_and_searched(
    site: Site, long: str, olga: Page
) -> None:
    olga.goto(f"/runs/{long}/checkpoints/1000/")
    olga.get_by_label("Against checkpoint").fill("990")
    olga.get_by_role("button", name="Look").click()
    expect(olga.get_by_role("heading", name="Checkpoint 1000 against 990")).to_be_visible()
    expect(olga.locator("#checkpoint .add")).to_contain_text('"x": 1000')
    olga.get_by_label("Find").fill("line 77 of")
    olga.get_by_role("button", name="Look").click()
    expect(olga.locator(".found dt")).to_have_text("log.77")
    assert "against=990" in olga.url
    olga.get_by_role("link", name="The one before").click()
    expect(olga.get_by_role("heading", name="What checkpoint 999 changed")).to_be_visible()
    olga.go_back()
    expect(olga.locator(".found dt")).to_have_text("log.77")


def test_the_picture_of_sixty_nodes_is_moved_and_made_larger_by_keys_and_buttons(
    site: Site, opens: Opens
) -> None:
    run_id = large(site, "sixty", asks=4)
    page = opens("olga").page
    page.goto(f"/runs/{run_id}/")
    box = page.get_by_role("group", name="Workflow picture")
    expect(box.locator("g.n-people")).to_have_count(4)
    natural = width(page)
    assert natural > box.evaluate("box => box.clientWidth")
    box.focus()
    page.keyboard.press("f")
    assert width(page) <= box.evaluate("box => box.clientWidth")
    page.keyboard.press("0")
    assert width(page) == natural
    page.keyboard.press("ArrowRight")
    page.wait_for_function("document.querySelector('[data-pans]').scrollLeft > 0")
    page.keyboard.press("+")
    larger = width(page)
    assert larger > natural
    [approval, *_] = site.run(run_id)["pending_approvals"]
    site.decide(approval)
    expect(box.locator("g.n-people")).to_have_count(3)
    assert width(page) == larger, "what is drawn anew is as large as it was made"
    page.get_by_role("button", name="Smaller").click()
    assert width(page) < larger
    place = box.bounding_box()
    assert place is not None
    before = box.evaluate("box => box.scrollLeft")
    page.mouse.move(place["x"] + 300, place["y"] + 60)
    page.mouse.down()
    page.mouse.move(place["x"] + 100, place["y"] + 60, steps=4)
    page.mouse.up()
    assert box.evaluate("box => box.scrollLeft") == before + 200
    page.get_by_text("The same as a list").click()
    expect(page.locator("#picture li")).to_have_count(62)


def test_parts_in_view_follow_the_run(site: Site, olga: Page) -> None:
    """C92: of the overview each part asks for itself."""
    run_id, _ = asked(site, title="Follow me")
    olga.goto(f"/runs/{run_id}/")
    expect(olga.locator("#_timeline li.step")).to_have_count(2)
    olga.get_by_label("Find").fill("half a word")
    site.approve(run_id)
    expect(olga.locator(".says-status")).to_contain_text("Completed")
    expect(olga.locator("#_timeline li.step")).to_have_count(3)
    olga.locator("#_effects").scroll_into_view_if_needed()
    expect(olga.locator("#_checkpoints .checkpoint")).to_have_count(4)
    expect(olga.get_by_label("Find")).to_have_value("half a word")


def test_the_exact_state_is_copied(site: Site, opens: Opens) -> None:
    run_id, _ = asked(site, args={"amount": 9007199254740993})
    watched = opens("olga")
    watched.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = watched.page
    page.goto(f"/runs/{run_id}/checkpoints/0/?show=tree")
    page.get_by_role("button", name="Copy the exact state").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert '"amount":9007199254740993' in page.evaluate("navigator.clipboard.readText()")


def test_parts_are_reached_by_keys_alone(site: Site, olga: Page) -> None:
    run_id, _ = asked(site, title="Without a mouse")
    olga.goto(f"/runs/{run_id}/checkpoints/")
    olga.keyboard.press("j")
    olga.keyboard.press("j")
    expect(olga.locator("#checkpoint-0 a.whole-row")).to_be_focused()
    olga.keyboard.press("Enter")
    expect(olga.get_by_role("heading", name="What checkpoint 0 changed")).to_be_visible()
    olga.keyboard.press("/")
    expect(olga.get_by_label("Against checkpoint")).to_be_focused()


@pytest.mark.parametrize("part", ["", "timeline/", "checkpoints/"])
def test_sixteen_lanes_are_clean_in_both_themes_and_fit_a_phone(
    site: Site, opens: Opens, sixteen: str, part: str
) -> None:
    page = opens("olga", viewport=PHONE).page
    page.goto(f"/runs/{sixteen}/{part}")
    if part == "timeline/":
        expect(page.locator(".timeline .lane").last).to_contain_text("16")
    assert fits(page)
    assert in_both_themes(page) == []


@pytest.fixture(scope="module")
def sixteen(site: Site) -> str:
    return large(site, "sixteen", asks=16)


def test_paper_shows_what_is_read_and_nothing_to_press(site: Site, olga: Page) -> None:
    run_id, _ = asked(site, title="To be printed")
    site.approve(run_id)
    site.wait(run_id)
    olga.goto(f"/runs/{run_id}/evidence/")
    expect(olga.locator("#_history tbody tr")).not_to_have_count(0)
    olga.emulate_media(media="print")
    for gone in (".topbar", ".sidenav", ".run-head .actions", "nav.tabs", "#_history form"):
        expect(olga.locator(gone).first).to_be_hidden()
    for stays in (".says-status", "#_evidence", "#_approvals", "#_effects", "#_history table"):
        expect(olga.locator(stays)).to_be_visible()
    expect(olga.locator("#_evidence")).to_contain_text(run_id)
