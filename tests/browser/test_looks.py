"""Every page in both themes and at both widths: axe finds nothing, nothing runs out of the page."""

from __future__ import annotations

from typing import Any, Literal

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.acceptance.site import Site
from tests.browser import first_screen
from tests.browser.asks import answers, asked, card, listed
from tests.browser.conftest import PHONE, Opens
from tests.browser.test_hostile import hostile
from tests.kit import month
from tests.kit.run_pages import PARTS

AXE = Axe().axe_script
WHOLE: dict[str, Any] = {"resultTypes": ["violations"]}
COLOURS: dict[str, Any] = {**WHOLE, "runOnly": ["color-contrast", "link-in-text-block"]}
LOOKED_AT: tuple[tuple[Literal["light", "dark"], dict[str, Any]], ...] = (("light", WHOLE), ("dark", COLOURS))


def pages(site: Site) -> list[str]:
    run_id, approval_id = asked(
        site, args={"note": "a\u202eb", "n": 1, "long": "one\ntwo"}, editable=["note"], note="- x\n"
    )
    lines = {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}}
    ways = {"pay": {"oneOf": [{"type": "string"}, {"type": "integer"}]}, "lines": lines}
    _, form = asked(
        site, args={"pay": 1, "lines": [{"sku": "a"}, {}]}, properties=ways, editable=["pay", "lines"]
    )
    _, huge = asked(site, args={"text": "x" * 310_000})
    _, many = asked(site, "several")
    _, ugly = asked(site, **hostile())
    ended, decided = asked(site, "two", title="T" * 300, facts={"F" * 300: "f" * 300})
    site.stack.sql(month.MONTH, {**month.NAMES, "first": "one"})
    return [
        "/dashboard/",
        "/workflows/",
        "/workflows/one/",
        "/inbox/?choose=yes",
        "/inbox/?view=decided&tool=x",
        "/views/?risk=high&page=inbox",
        f"/inbox/{approval_id}/",
        f"/inbox/{approval_id}/edit/",
        f"/inbox/{approval_id}/edit/?mode=json",
        f"/inbox/{form}/edit/",
        f"/inbox/{huge}/",
        f"/inbox/{huge}/whole/",
        f"/inbox/{many}/",
        f"/inbox/{ugly}/",
        f"/inbox/{decided}/",
        "/runs/",
        "/runs/?status=failed",
        *(f"/runs/{run_id}/{part}" for part in PARTS),
        f"/runs/{run_id}/checkpoints/0/?show=tree",
        f"/runs/{run_id}/checkpoints/1/?find=n",
        f"/runs/{ended}/rewind/0/",
        f"/runs/{run_id}/edit-state/",
        "/tokens/",
        "/account/",
        "/account/sessions/",
        "/no/such/page/",
    ]


def test_axe_finds_nothing_and_nothing_overflows(site: Site, opens: Opens) -> None:
    """At both widths and in both themes, one after the other on the page as it stands: a window is made wider, and the system's
    theme changes.
    """
    page = opens("frida").page
    found: list[str] = []
    for address in pages(site):
        found += [f"{address} {fault}" for fault in at_both_widths(page, address)]
    page.context.clear_cookies()
    assert found + at_both_widths(page, "/sign-in/") == []


def at_both_widths(page: Page, address: str) -> list[str]:
    """Loaded on a phone, where there is least room for what scripts measure."""
    page.set_viewport_size(first_screen.PHONE)
    page.goto(address)
    found = [f"phone {fault}" for fault in in_both_themes(page)]
    page.set_viewport_size(first_screen.WIDE)
    return found + [f"wide {fault}" for fault in in_both_themes(page)]


def in_both_themes(page: Page) -> list[str]:
    """The themes differ in colours alone (light-dark() in hitl.css), so in the second one colours alone are looked at."""
    found: list[str] = []
    for theme, options in LOOKED_AT:
        page.emulate_media(color_scheme=theme)
        found += [f"{theme}: {fault}" for fault in faults(page, options)]
    return found


def faults(page: Page, options: dict[str, Any] = WHOLE) -> list[str]:
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    said = [
        f"{rule['id']}: {rule['nodes'][0]['html'][:160]} {rule['nodes'][0]['failureSummary'][:200]}"
        for rule in page.evaluate("options => axe.run(options).then(found => found.violations)", options)
    ]
    if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
        said.append("runs out of the page to the right")
    return said


def test_a_conflict_is_announced_and_clean(site: Site, opens: Opens) -> None:
    _, approval_id = asked(site, "careful")
    page = opens("frida").page
    card(page, approval_id)
    answers(page, "Reject")
    expect(page.get_by_role("alert")).to_be_focused()
    assert faults(page) == []


def test_the_theme_is_switched_and_kept(opens: Opens) -> None:
    page = opens("frida").page
    page.goto("/inbox/")
    page.get_by_role("button", name="Theme: as the system").click()
    page.get_by_role("button", name="Theme: light").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.goto("/runs/")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(17, 18, 20)"
    page.get_by_role("button", name="Theme: dark").click()
    assert page.locator("html").get_attribute("data-theme") is None


def test_on_a_phone_list_and_card_are_two_pages_and_the_answers_stay_at_the_bottom(
    site: Site, opens: Opens
) -> None:
    asked(site, title="On a phone", args={"note": "x" * 3_000})
    page = opens("frida", viewport=PHONE, has_touch=True).page
    page.goto("/inbox/?view=open")
    listed(page, "On a phone").click()
    expect(page.get_by_role("heading", name="On a phone")).to_be_visible()
    expect(page.locator(".queue")).to_be_hidden()
    expect(page.locator(".answer.yes")).to_be_in_viewport()
    page.get_by_role("link", name="Inbox").last.click()
    expect(page.locator(".queue")).to_be_visible()


def test_on_a_phone_a_timeline_fits_and_a_value_with_hidden_characters_stays_in_one_piece(
    site: Site, opens: Opens
) -> None:
    run_id, _ = asked(site, title="see \u202eticket\u200b 7731")
    page = opens("frida", viewport=PHONE).page
    page.goto(f"/runs/{run_id}/timeline/")
    box = page.get_by_role("group", name="Timeline")
    assert box.evaluate("box => box.scrollWidth <= box.clientWidth")
    page.goto(f"/runs/{run_id}/approvals/")
    what = page.locator("#_approvals td[data-name=What]")
    tops = what.locator(".esc").evaluate_all("boxes => boxes.map(box => box.getBoundingClientRect().top)")
    assert len(tops) == 2
    assert tops[0] == tops[1]


def test_the_count_stands_in_title_and_badge(site: Site, opens: Opens) -> None:
    page = opens("frida").page
    asked(site)
    page.goto("/inbox/")
    count = page.locator("#_inbox_count").inner_text().split()[0]
    there = page.locator("[data-row]").count()
    assert count == (str(there) if there < 100 else "99+")
    assert page.title().startswith(f"({count}) ")
    page.locator("[data-row]").first.click()
    page.locator(".card-head h1").wait_for()
    assert page.title().startswith(f"({count}) ")
