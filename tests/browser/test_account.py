"""Signing in, sessions that end or change hands, tokens, errors in words."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.acceptance.site import Site
from tests.browser.asks import answers, asked, card, listed, outcomes, path
from tests.browser.conftest import Opens, sign_in


def test_a_wrong_password_is_told_and_the_name_is_kept(opens: Opens) -> None:
    page = opens(None).page
    page.goto("/sign-in/")
    page.get_by_label("Name").fill("frida")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("Name and password do not fit together")
    expect(page.get_by_label("Name")).to_have_value("frida")


def test_after_sign_in_the_page_that_was_wanted_opens(site: Site, opens: Opens) -> None:
    run_id, _ = asked(site)
    page = opens(None).page
    page.goto(f"/runs/{run_id}/")
    sign_in_here(page)
    assert path(page) == f"/runs/{run_id}/"


def sign_in_here(page: Page) -> None:
    from tests.acceptance.seed import PASSWORD

    page.get_by_label("Name").fill("frida")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()


def test_an_expired_session_takes_the_whole_page_to_sign_in(site: Site, opens: Opens) -> None:
    """C96: never a sign-in form inside a fragment."""
    _, approval_id = asked(site, title="Expired session")
    watched = opens("frida")
    watched.page.goto("/inbox/?view=open")
    watched.context.clear_cookies(name="hitl_session")
    listed(watched.page, "Expired session").click()
    watched.page.wait_for_url("**/sign-in/**")
    assert "next=%2Finbox%2F" in watched.page.url
    assert outcomes(site, approval_id) == []


def test_a_renewed_session_of_the_same_person_keeps_the_text_and_decides_once(
    site: Site, opens: Opens
) -> None:
    """C96"""
    run_id, approval_id = asked(site)
    watched = opens(None)
    sign_in(watched.page, "frida")
    card(watched.page, approval_id)
    watched.page.locator("#reason").fill("typed before")
    other = watched.open()
    other.goto("/inbox/")
    other.locator(".topbar .menu summary").click()
    other.get_by_role("button", name="Sign out").click()
    sign_in(other, "frida")
    answers(watched.page, "Approve")
    expect(watched.page.locator("#banner")).to_contain_text("Your session was renewed")
    assert watched.page.locator("#reason").input_value() == "typed before"
    assert outcomes(site, approval_id) == []
    answers(watched.page, "Approve")
    site.wait(run_id)
    assert outcomes(site, approval_id) == ["approve"]


def test_a_form_of_one_person_is_not_sent_under_the_name_of_another(site: Site, opens: Opens) -> None:
    """C96: user_changed"""
    _, approval_id = asked(site)
    watched = opens(None)
    sign_in(watched.page, "frida")
    card(watched.page, approval_id)
    other = watched.open()
    other.goto("/inbox/")
    other.locator(".topbar .menu summary").click()
    other.get_by_role("button", name="Sign out").click()
    sign_in(other, "felix")
    answers(watched.page, "Approve")
    expect(watched.page.locator("#banner")).to_contain_text("Somebody else has signed in")
    assert outcomes(site, approval_id) == []


def test_a_token_is_shown_once_used_and_revoked(site: Site, opens: Opens) -> None:
    page = opens("olga").page
    page.goto("/tokens/")
    page.get_by_label("Name").fill("night shift")
    page.get_by_role("button", name="Make the token").click()
    expect(page.locator("fieldset.wrong")).to_contain_text("Choose at least one")
    expect(page.get_by_label("Name")).to_have_value("night shift")
    page.get_by_label("runs:read").check()
    page.get_by_role("button", name="Make the token").click()
    secret = page.locator("#new-token").inner_text()
    row = page.get_by_role("row", name="night shift")
    expect(row).to_contain_text("not seen")
    asking = {"Authorization": f"Bearer {secret}"}
    assert site.stack.http.get("/api/v1/runs", headers=asking).status_code == 200
    page.reload()
    expect(page.locator("#new-token")).to_have_count(0)
    expect(row).not_to_contain_text("not seen")
    page.get_by_role("button", name="Revoke night shift").click()
    expect(row).to_contain_text("revoked")
    assert site.stack.http.get("/api/v1/runs", headers=asking).status_code == 401


def test_what_is_not_there_and_what_is_not_yours_look_the_same(opens: Opens) -> None:
    """K11"""
    page = opens("frida").page
    answer = page.goto("/runs/00000000-0000-4000-8000-000000000000/")
    assert answer is not None
    assert answer.status == 404
    expect(page.get_by_role("heading", level=1)).to_have_text("There is nothing here that you may see")
    answer = page.goto("/no/such/page/")
    assert answer is not None
    assert answer.status == 404
    expect(page.get_by_role("link", name="To the inbox")).to_be_visible()
