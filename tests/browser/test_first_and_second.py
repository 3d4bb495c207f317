"""Two people, two clicks, two tabs: one wins, the other is told who, and nothing that was typed is lost."""

from __future__ import annotations

import re

from playwright.sync_api import Page, Route, expect

from tests.acceptance.site import Site
from tests.browser.asks import answers, asked, card, listed, outcomes, path
from tests.browser.conftest import Opens

WORDS = "April is closed since Monday.\n  Start with May <b>then</b> I agree."


def test_somebody_edited_first_and_the_typed_reason_is_kept(site: Site, opens: Opens) -> None:
    """C57"""
    run_id, approval_id = asked(site, args={"note": "april"}, editable=["note"])
    frida, felix = opens("frida").page, opens("felix").page
    card(frida, approval_id)
    frida.locator("#reason").fill(WORDS)
    felix.goto(f"/inbox/{approval_id}/edit/")
    felix.get_by_label("note").fill("may")
    felix.get_by_placeholder("Reason for the change").fill("April was closed")
    felix.get_by_role("button", name="Save without my vote").click()
    expect(felix.locator("#toasts")).to_contain_text("Version 2")
    answers(frida, "Reject")
    expect(frida.locator("#banner")).to_contain_text("Nothing was sent, nothing is lost")
    expect(frida.locator("#banner")).to_contain_text("felix edited it at")
    expect(frida.locator("#banner")).to_contain_text(
        "Your reject was for version 1; the open one is version 2"
    )
    expect(frida.locator(".since")).to_contain_text("April was closed")
    expect(frida.locator(".since .was")).to_contain_text('"april"')
    assert frida.locator("#reason").input_value() == WORDS
    assert outcomes(site, approval_id) == []
    answers(frida, "Reject")
    site.wait(run_id)
    assert outcomes(site, approval_id) == ["reject"]


def test_an_edit_of_a_version_that_is_gone_keeps_every_field(site: Site, opens: Opens) -> None:
    """C57"""
    _, approval_id = asked(site, args={"note": "april", "to": "a"}, editable=["note", "to"])
    frida, felix = opens("frida").page, opens("felix").page
    frida.goto(f"/inbox/{approval_id}/edit/")
    frida.get_by_label("note").fill("mine")
    felix.goto(f"/inbox/{approval_id}/edit/")
    felix.get_by_label("to", exact=True).fill("b")
    felix.get_by_role("button", name="Save without my vote").click()
    expect(felix.locator("#toasts")).to_contain_text("Version 2")
    frida.get_by_role("button", name="Save version 2 and approve it").click()
    expect(frida.locator("#banner")).to_contain_text("felix edited it")
    expect(frida.get_by_label("note")).to_have_value("mine")
    expect(frida.get_by_role("button", name="Save version 3 and approve it")).to_be_visible()
    assert outcomes(site, approval_id) == []


def test_somebody_decided_first(site: Site, opens: Opens) -> None:
    """C55, one after the other."""
    run_id, approval_id = asked(site)
    frida, felix = opens("frida").page, opens("felix").page
    card(frida, approval_id)
    frida.locator("#reason").fill(WORDS)
    card(felix, approval_id)
    answers(felix, "Approve")
    expect(felix.locator("#toasts")).to_contain_text("Approved")
    answers(frida, "Reject")
    expect(frida.locator("#banner")).to_contain_text("Decided before you")
    expect(frida.locator("#banner")).to_contain_text("felix approved version 1")
    expect(frida.locator(".kept pre")).to_have_text(WORDS)
    site.wait(run_id)
    assert outcomes(site, approval_id) == ["approve"]


def slow(route: Route) -> None:
    """The request waits on its way, as on a bad line."""
    if route.request.method == "POST":
        route.request.frame.page.wait_for_timeout(700)
    route.continue_()


def test_a_double_click_decides_once(site: Site, opens: Opens) -> None:
    """C94"""
    _, approval_id = asked(site)
    watched = opens("frida")
    posts = []
    watched.page.on("request", lambda sent: posts.append(sent.url) if "/decide/" in sent.url else None)
    watched.page.route(re.compile("/decide/"), slow)
    card(watched.page, approval_id)
    watched.page.locator("button.answer.yes").dblclick()
    expect(watched.page.locator("#toasts")).to_contain_text("Approved")
    assert (len(posts), outcomes(site, approval_id)) == (1, ["approve"])


def test_the_first_of_two_answers_wins(site: Site, opens: Opens) -> None:
    """C94"""
    _, approval_id = asked(site)
    page = opens("frida").page
    page.route(re.compile("/decide/"), slow)
    card(page, approval_id)
    page.evaluate(
        "document.querySelector('.answer.yes').click(); document.querySelector('.answer.no').click()"
    )
    expect(page.locator("#toasts")).to_contain_text("Approved")
    assert outcomes(site, approval_id) == ["approve"]


def test_two_tabs_of_one_person_decide_once_and_the_second_is_told(site: Site, opens: Opens) -> None:
    """C94"""
    _, approval_id = asked(site)
    watched = opens("frida")
    other = watched.open()
    card(watched.page, approval_id)
    card(other, approval_id)
    answers(watched.page, "Approve")
    expect(watched.page.locator("#toasts")).to_contain_text("Approved")
    answers(other, "Approve")
    expect(other.locator("#toasts")).to_contain_text("had been recorded before")
    assert outcomes(site, approval_id) == ["approve"]


def test_without_script_a_reload_of_the_result_posts_nothing(site: Site, opens: Opens) -> None:
    """C94"""
    _, approval_id = asked(site)
    page = opens("frida", java_script_enabled=False).page
    card(page, approval_id)
    answers(page, "Approve")
    expect(page.locator("#toasts")).to_contain_text("Approved")
    assert path(page) != f"/inbox/{approval_id}/decide/"
    page.reload()
    assert outcomes(site, approval_id) == ["approve"]


def test_a_form_that_comes_twice_shows_its_first_result(site: Site, olga: Page) -> None:
    """C94: what a proxy or an impatient client sends again does not rewind again."""
    run_id, _ = asked(site)
    olga.goto(f"/runs/{run_id}/rewind/0/")
    olga.get_by_label("Reason").fill("once")
    form = olga.evaluate("Object.fromEntries(new FormData(document.querySelector('form.sheet')))")
    sent = [
        olga.context.request.post(olga.url, form=form, max_redirects=0, headers={"Referer": olga.url})
        for _ in range(2)
    ]
    assert [(answer.status, answer.headers["location"]) for answer in sent] == [(303, f"/runs/{run_id}/")] * 2
    assert site.run(run_id)["branch"] == 2
    olga.evaluate("document.querySelector('form.sheet').reset()")


def leave_text(page: Page) -> None:
    page.locator("#reason").fill("half a thought")


def test_typed_text_is_not_left_without_a_question(site: Site, opens: Opens) -> None:
    """C95: a warning before a page with typed text is left."""
    _, approval_id = asked(site)
    asked(site, title="Another one")
    watched = opens("frida")
    card(watched.page, approval_id)
    leave_text(watched.page)
    listed(watched.page, "Another one").click()
    assert path(watched.page) == f"/inbox/{approval_id}/"
    assert watched.page.locator("#reason").input_value() == "half a thought"
    assert watched.faults == ["dialog: What you typed is not sent yet. Leave it?"]
    watched.faults.clear()
    watched.page.locator("#reason").fill("")
