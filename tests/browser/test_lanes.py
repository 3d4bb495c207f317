"""A run with several lanes: its timeline, an edit of one lane, a conflict, Retry."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.site import Site
from tests.browser.conftest import PHONE, Opens
from tests.kit.waiting import until


def parked(site: Site, **input: Any) -> str:
    """A run of three lanes: one has arrived, two ask."""
    run_id = site.start("research", **input)
    until(
        lambda: (run := site.run(run_id))["status"] == "waiting" and len(run["pending_approvals"]) == 2,
        what="both lanes ask",
    )
    return run_id


def approve(site: Site, run_id: str, node: str) -> None:
    (asked,) = [one for one in site.run(run_id)["pending_approvals"] if one["node"] == node]
    assert site.decide(asked).status_code == 200


def failed(site: Site, **input: Any) -> str:
    run_id = parked(site, **input)
    approve(site, run_id, "outline")
    if input.get("clashes"):
        until(lambda: site.run(run_id)["status"] == "waiting", what="the draft is done")
        approve(site, run_id, "check/ask")
    site.wait(run_id, "failed")
    return run_id


def rows(page: Page) -> list[tuple[str, str]]:
    """Lane mark and name of each step on the timeline."""
    found = []
    for row in page.locator(".timeline > li.step").all():
        mark = row.locator(".lane")
        found.append((mark.inner_text()[-1:] if mark.count() else "", row.locator(".mono").inner_text()))
    return found


def test_lanes_are_marked_and_what_is_inside_a_step_stands_below_it(site: Site, olga: Page) -> None:
    olga.goto(f"/runs/{parked(site)}/timeline/")
    assert rows(olga) == [
        ("", "plan"),
        ("1", "fetch"),
        ("", "fetch[0]"),
        ("", "fetch[1]"),
        ("", "fetch[2]"),
        ("1", "search"),
        ("2", "outline"),
        ("3", "check"),
        ("", "prepare"),
        ("", "ask"),
    ]
    expect(olga.locator(".timeline > li.in-1.step")).to_have_count(5)
    expect(olga.locator(".legend")).to_contain_text("lanes that are active at once")


def test_a_way_that_was_not_taken_is_told_as_skipped(site: Site, olga: Page) -> None:
    """C15"""
    run_id = parked(site)
    olga.goto(f"/runs/{run_id}/")
    expect(olga.locator("#picture")).not_to_contain_text("Skipped")
    approve(site, run_id, "outline")
    expect(olga.locator("#picture")).to_contain_text(re.compile(r"Skipped.*: deeper\."))


def test_a_run_without_lanes_shows_none(site: Site, olga: Page) -> None:
    run_id = site.start("one", args={"n": 1})
    site.approval(run_id)
    olga.goto(f"/runs/{run_id}/")
    expect(olga.locator(".timeline > li.step")).to_have_count(2)
    expect(olga.locator(".lane")).to_have_count(0)


def test_an_edit_of_several_lanes_asks_which_one(site: Site, olga: Page) -> None:
    run_id = parked(site)
    olga.goto(f"/runs/{run_id}/edit-state/")
    expect(olga.get_by_text("Several lanes are active")).to_be_visible()
    expect(olga.locator("#state")).to_have_count(0)
    expect(olga.get_by_role("button", name="Save the edited state")).to_have_count(0)
    olga.get_by_role("link", name="outline").click()
    text = olga.locator("#state").input_value()
    assert '"3 pages"' not in text  # what the sibling wrote is not seen
    olga.locator("#state").fill(text.replace('"a plan for tea"', '"another plan"'))
    olga.get_by_label("Reason").fill("they called")
    olga.get_by_role("button", name="Save the edited state").click()
    olga.wait_for_url(f"**/runs/{run_id}/")
    lanes = {
        lane["node"]: lane["state"]["notes"] for lane in site.run(run_id)["lanes"] if "notes" in lane["state"]
    }
    assert lanes["outline"] == ["another plan"]
    assert lanes["search"] == ["a plan for tea", "3 pages"]


def test_an_edit_of_a_lane_that_has_gone_is_refused_and_its_text_stays(site: Site, olga: Page) -> None:
    run_id = parked(site)
    olga.goto(f"/runs/{run_id}/edit-state/")
    olga.get_by_role("link", name="check/ask").click()
    text = olga.locator("#state").input_value()
    olga.locator("#state").fill(text.replace("tea", "coffee"))
    olga.get_by_label("Reason").fill("they called")
    approve(site, run_id, "check/ask")
    until(lambda: len(site.run(run_id)["lanes"]) == 3, what="the nested workflow has ended")
    olga.get_by_role("button", name="Save the edited state").click()
    expect(olga.locator("#banner")).to_contain_text("no such lane")
    assert "coffee" in olga.locator("#state").input_value()
    expect(olga.get_by_text("Several lanes are active")).to_be_visible()


def test_a_rewind_that_edits_asks_which_lane(site: Site, olga: Page) -> None:
    run_id = parked(site)
    head = site.run(run_id)["head_checkpoint"]
    olga.goto(f"/runs/{run_id}/rewind/{head}/")
    olga.get_by_text("Edit the state first").click()
    expect(olga.locator("#state")).to_have_count(0)
    olga.get_by_role("link", name="outline").click()
    text = olga.locator("#state").input_value()
    olga.locator("#state").fill(text.replace('"a plan for tea"', '"another plan"'))
    olga.get_by_label("Reason").fill("they called")
    olga.get_by_role("button", name="Rewind, branch 2").click()
    olga.wait_for_url(f"**/runs/{run_id}/")
    until(lambda: len(site.run(run_id)["pending_approvals"]) == 2, what="both are asked again")
    asked = {one["node"]: one["actions"][0]["args"] for one in site.run(run_id)["pending_approvals"]}
    assert asked["outline"]["notes"] == ["another plan"]


@pytest.mark.parametrize("script", [True, False])
def test_retry_says_what_will_run_and_the_run_goes_on(site: Site, opens: Opens, script: bool) -> None:
    run_id = failed(site, fails=True)
    page = opens("olga", java_script_enabled=script).page
    page.goto(f"/runs/{run_id}/")
    page.get_by_role("link", name="Retry").click()
    sheet = page.locator("form.sheet")
    expect(sheet).to_contain_text("out of paper")
    expect(sheet).to_contain_text("what had not run: check/ask")
    page.get_by_label("Reason").fill("there is paper again")
    page.get_by_role("button", name="Retry").click()
    page.wait_for_url(f"**/runs/{run_id}/")
    site.wait(run_id, "waiting")
    approve(site, run_id, "check/ask")
    assert site.wait(run_id)["output"]["title"] == "On tea"
    page.goto(f"/runs/{run_id}/history/")
    expect(page.locator("#_history")).to_contain_text("retried")


def test_retry_is_not_offered_to_those_who_may_not(site: Site, frida: Page) -> None:
    run_id = failed(site, fails=True)
    frida.goto(f"/runs/{run_id}/")
    expect(frida.locator(".actions [aria-disabled]", has_text="Retry")).to_be_visible()
    answer = frida.goto(f"/runs/{run_id}/retry/")
    assert answer is not None
    assert answer.status == 403


def test_a_conflict_is_shown_with_both_sides_and_resolved(site: Site, opens: Opens) -> None:
    run_id = failed(site, clashes=True)
    olga = opens("olga", viewport=PHONE).page
    olga.goto(f"/runs/{run_id}/")
    banner = olga.locator(".banner")
    expect(banner).to_contain_text("Two lanes have written title")
    expect(banner.locator(".code")).to_have_text([re.compile("search.*Found"), re.compile("draft.*On tea")])
    olga.get_by_role("link", name="Edit state").click()
    text = olga.locator("#state").input_value()
    olga.locator("#state").fill(text.replace('"title": ""', '"title": "On tea"'))
    olga.get_by_label("Reason").fill("the draft is right")
    olga.get_by_role("button", name="Save the edited state").click()
    olga.wait_for_url(f"**/runs/{run_id}/")
    expect(olga.locator(".banner")).to_have_count(0)
    olga.get_by_role("link", name="Retry").click()
    olga.get_by_role("button", name="Retry").click()
    assert site.wait(run_id)["output"]["title"] == "On tea"
