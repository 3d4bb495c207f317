"""The bell, and the way of a mail: link, sign-in, the card, one answer."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from playwright.sync_api import Page, expect

from tests.acceptance.seed import PASSWORD
from tests.acceptance.site import Site
from tests.browser.asks import asked, outcomes, path
from tests.browser.conftest import PHONE, Opens
from tests.kit.postbox import Postbox
from tests.kit.waiting import until


def bell(page: Page) -> int:
    badge = page.locator("#_bell .badge")
    return int(badge.inner_text().rstrip("+")) if badge.count() else 0


def test_the_bell_counts_while_one_looks_elsewhere(site: Site, frida: Page) -> None:
    """On a page without a stream of its own, and without a reload."""
    frida.goto("/notifications/")
    if bell(frida):  # of what other tests have asked: more, it may be, than a page shows
        frida.get_by_role("button", name="Mark all as read").click()
    expect(frida.locator("#_bell .badge")).to_have_count(0)
    frida.goto("/tokens/")
    before = bell(frida)
    expect(frida.locator("[data-live-sign]")).to_have_text("Live")
    asked(site, title="Ring the bell")
    expect(frida.locator("#_bell .badge")).to_have_text(str(before + 1))
    frida.locator("#_bell").click()
    frida.wait_for_url("**/notifications/")
    expect(frida.locator(".notices .unread")).to_have_count(bell(frida))
    first = frida.locator(".notices li").first
    expect(first).to_contain_text("Asked of you: Ring the bell")
    first.get_by_role("button", name="Mark as read").click()
    expect(frida.locator(".notices .unread")).to_have_count(bell(frida))
    assert bell(frida) == before


def test_a_notice_leads_to_what_it_tells_of(site: Site, frida: Page) -> None:
    _, approval_id = asked(site, title="Lead me there")
    frida.goto("/notifications/")
    frida.get_by_role("link", name="Asked of you: Lead me there").click()
    assert path(frida) == f"/inbox/{approval_id}/"


def test_what_one_hears_of_is_said_on_a_phone_too(site: Site, opens: Opens) -> None:
    page = opens("felix", viewport=PHONE).page
    page.goto("/notifications/settings/")
    page.get_by_label("together, once a day").check()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_label("together, once a day")).to_be_checked()
    page.goto(
        "/notifications/settings/"
    )  # what was said about the first one covers the button on so small a screen
    page.get_by_label("at once").check()
    with page.expect_navigation():
        page.get_by_role("button", name="Save").click()
    expect(page.get_by_label("at once")).to_be_checked()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_mail_leads_through_sign_in_to_one_answer(site: Site, opens: Opens, mail: Postbox) -> None:
    site.stack.sql("UPDATE runs_user SET email = 'frida@example.org' WHERE username = 'frida' RETURNING id")
    site.stack.start_deliver()
    try:
        _, approval_id = asked(site, title="By mail")
        until(
            lambda: any("By mail" in str(one["Subject"]) for one in mail.mails), seconds=60, what="the mail"
        )
    finally:
        site.stack.end("deliver")
        site.stack.sql("UPDATE runs_user SET email = '' WHERE username = 'frida' RETURNING id")
    place = next(n for n, one in enumerate(mail.mails) if "By mail" in str(one["Subject"]))
    found = re.search(r"http://\S+(/link/\S+)", mail.text(place))
    assert found
    link = urlsplit(found.group(1)).path
    page = opens(None).page
    page.goto(link)
    page.get_by_label("Name").fill("frida")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("By a link that works for one answer")).to_be_visible()
    assert outcomes(site, approval_id) == []
    page.get_by_role("button", name="Approve").click()
    until(lambda: outcomes(site, approval_id) == ["approve"], what="the answer")
    page.goto(link)
    expect(page.get_by_role("heading", name="This link leads nowhere any more")).to_be_visible()
