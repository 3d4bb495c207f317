"""Fork, two branches side by side, many runs at once: each from the page of a run or the list, by hand."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.acceptance.site import Site
from tests.browser.asks import asked
from tests.browser.conftest import PHONE, Opens


def fits(page: Page) -> bool:
    """Whether nothing sticks out at the side."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def test_a_fork_from_the_page_of_a_run_goes_on_by_itself(site: Site, olga: Page) -> None:
    run_id, approval_id = asked(site, args={"amount": 1}, title="Fork me")
    olga.goto(f"/runs/{run_id}/checkpoints/0/")
    olga.get_by_role("link", name="Fork here").click()
    expect(olga.get_by_role("heading", name="Fork at checkpoint 0")).to_be_visible()
    olga.locator("details summary").filter(has_text="Edit the state first").click()
    field = olga.get_by_label("State as JSON")
    field.fill(field.input_value().replace('"amount": 1', '"amount": 2'))
    olga.get_by_label("Reason").fill("what if it were two")
    olga.get_by_role("button", name="Fork, a new run").click()
    expect(olga.locator("#toasts")).to_contain_text("goes on from checkpoint 0 of")
    fork_id = olga.url.rstrip("/").rpartition("/")[2]
    expect(olga.get_by_role("link", name="fork of")).to_be_visible()
    fresh = site.approval(fork_id)
    assert fresh["id"] != approval_id
    assert fresh["actions"][0]["args"] == {"amount": 2}
    assert site.approval(run_id)["id"] == approval_id, "the origin asks what it asked"
    olga.goto(f"/runs/{run_id}/others/")
    olga.locator("#_others").get_by_role("link", name="compare").click()
    expect(olga.get_by_role("heading", name=re.compile("^Compare"))).to_be_visible()
    expect(olga.locator(".diff")).to_contain_text("amount")


def test_two_branches_are_held_side_by_side_and_named(site: Site, olga: Page, opens: Opens) -> None:
    run_id, _ = asked(site, args={"amount": 1}, title="Compare me")
    olga.goto(f"/runs/{run_id}/rewind/0/")
    olga.locator("details summary").filter(has_text="Edit the state first").click()
    field = olga.get_by_label("State as JSON")
    field.fill(field.input_value().replace('"amount": 1', '"amount": 2'))
    olga.get_by_label("Reason").fill("two")
    olga.get_by_role("button", name="Rewind, branch 2").click()
    site.approval(run_id)
    branches = olga.locator("#_branches li")
    branches.first.get_by_role("link", name="Name branch 1").click()
    olga.get_by_label("Name").fill("the first try")
    olga.get_by_role("button", name="Save the name").click()
    expect(branches.first).to_contain_text("the first try")
    branches.first.get_by_role("link", name="Compare with branch 2").click()
    expect(olga.locator(".diff")).to_contain_text("amount")
    expect(olga.locator(".halves")).to_contain_text("branch 1")
    olga.get_by_role("link", name="The other way round").click()
    expect(olga.locator(".halves > section").first).to_contain_text("branch 2")
    phone = opens("olga", viewport=PHONE).page
    for path in ("compare/?branch=1&other_branch=2", "rewind/0/", "fork/0/", "", "branches/"):
        phone.goto(f"/runs/{run_id}/{path}")
        assert fits(phone), path


def test_many_runs_are_cancelled_after_a_look_without_script(site: Site, opens: Opens) -> None:
    run_ids = [asked(site, title=f"Cancel me {n}")[0] for n in range(2)]
    page = opens("olga", java_script_enabled=False).page
    page.goto("/runs/?status=waiting")
    page.get_by_role("button", name="Cancel…").click()
    expect(page.get_by_role("heading", name=re.compile(r"^Cancel \d+ runs$"))).to_be_visible()
    for run_id in run_ids:
        expect(page.locator(f'a[href="/runs/{run_id}/"]')).to_be_visible()
        assert site.run(run_id)["status"] == "waiting"
    # Others of this session wait too: only these two are left to be done.
    page.goto("/runs/bulk/?verb=retry&status=waiting")
    expect(page.get_by_role("heading", name="Retry 0 runs")).to_be_visible()
    expect(page.get_by_role("heading", name=re.compile("^Would be refused"))).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^Retry"))).to_have_count(0)


def test_what_a_look_showed_is_what_is_done(site: Site, opens: Opens) -> None:
    run_id, _ = asked(site, title="Cancel me alone")
    page = opens("olga").page
    page.goto("/runs/bulk/?verb=cancel&status=waiting")
    page.evaluate(
        "id => document.querySelectorAll('input[name=run]').forEach(one => one.value === id || one.remove())",
        run_id,
    )
    page.get_by_label("Reason").fill("enough")
    page.get_by_role("button", name=re.compile(r"^Cancel \d+ runs?$")).click()
    expect(page.get_by_role("heading", name="Cancel: 1 done, 0 refused")).to_be_visible()
    assert site.run(run_id)["status"] == "cancelled"
