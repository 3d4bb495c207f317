"""The whole queue by keyboard alone; a single key never decides."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.site import Site
from tests.browser.asks import asked, listed, outcomes, path, state
from tests.browser.conftest import Opens


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.textContent.trim()"))


def test_list_card_and_decision_without_a_mouse(site: Site, frida: Page) -> None:
    run_id, approval_id = asked(site, args={"amount": 1}, title="By keyboard")
    frida.goto("/inbox/?view=open")
    for _ in range(200):
        frida.keyboard.press("j")
        if "By keyboard" in focused(frida):
            break
    frida.keyboard.press("Enter")
    expect(frida.get_by_role("heading", name="By keyboard")).to_be_focused()
    assert path(frida) == f"/inbox/{approval_id}/"
    frida.keyboard.press("a")
    assert focused(frida).startswith("Approve")
    assert outcomes(site, approval_id) == []
    frida.keyboard.press("Enter")
    expect(frida.locator("#toasts")).to_contain_text("Approved")
    site.wait(run_id)


@pytest.mark.parametrize(
    ("keys", "typed", "last", "said"),
    [
        (["Enter", "a"], "", "Enter", "Approved"),
        (["Enter", "r"], "no", "Enter", "Rejected"),
        (["Enter", "e"], "0", "Control+Enter", "Approved"),
    ],
)
def test_from_the_list_to_the_decision_it_takes_three_keys_and_what_is_typed(
    site: Site, frida: Page, keys: list[str], typed: str, last: str, said: str
) -> None:
    """docs/reviewers.md tells them."""
    run_id, _ = asked(site, args={"note": "x"}, editable=["note"], title="In three keys")
    frida.goto("/inbox/")
    listed(frida, "In three keys").focus()
    for key, there in zip(keys, ("#card-title", "[data-decide] :focus, #edit-form :focus"), strict=True):
        frida.keyboard.press(key)
        frida.locator(there).wait_for()
    if typed:
        frida.keyboard.type(typed)
    frida.keyboard.press(last)
    expect(frida.locator("#toasts")).to_contain_text(said)
    site.wait(run_id)


def test_reject_with_a_reason_and_respond_with_an_answer(site: Site, frida: Page) -> None:
    run_id, approval_id = asked(site)
    frida.goto(f"/inbox/{approval_id}/")
    frida.keyboard.press("r")
    frida.keyboard.type("not like this; a j k")
    frida.keyboard.press("Enter")
    expect(frida.locator("#toasts")).to_contain_text("Rejected")
    site.wait(run_id)
    assert state(site, run_id)["told"] == "not like this; a j k"
    run_id, approval_id = asked(site)
    frida.goto(f"/inbox/{approval_id}/")
    frida.keyboard.press("s")
    frida.keyboard.type("call us")
    frida.keyboard.press("Control+Enter")
    expect(frida.locator("#toasts")).to_contain_text("Answered")
    site.wait(run_id)
    assert state(site, run_id)["told"] == "call us"


def test_edit_opens_by_key_and_is_sent_by_key(site: Site, frida: Page) -> None:
    run_id, approval_id = asked(site, args={"note": "x"}, editable=["note"])
    frida.goto(f"/inbox/{approval_id}/")
    frida.keyboard.press("e")
    frida.wait_for_url("**/edit/")
    frida.get_by_label("note").focus()
    frida.keyboard.press("End")
    frida.keyboard.type("y")
    frida.keyboard.press("Control+Enter")
    expect(frida.locator("#toasts")).to_contain_text("Approved")
    site.wait(run_id)
    assert state(site, run_id)["seen"] == {"note": "xy"}


def test_the_keys_are_told_by_a_question_mark(frida: Page) -> None:
    frida.goto("/inbox/")
    frida.keyboard.press("?")
    expect(frida.get_by_role("dialog", name="Keys")).to_be_visible()
    frida.keyboard.press("Escape")
    expect(frida.get_by_role("dialog", name="Keys")).to_be_hidden()


def test_who_wants_no_single_keys_has_none_that_act(opens: Opens) -> None:
    page = opens("vera").page
    keys = page.get_by_role("dialog", name="Keys")
    for wanted in (False, True):
        page.goto("/account/")
        page.get_by_label("Single keys act").set_checked(wanted)
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Saved.")).to_be_visible()
        page.keyboard.press("?")
        assert keys.is_visible() == wanted


def test_every_control_of_the_card_is_reached_by_tab_in_reading_order(site: Site, frida: Page) -> None:
    _, approval_id = asked(site, args={"note": "x"}, editable=["note"])
    frida.goto(f"/inbox/{approval_id}/")
    frida.keyboard.press("Tab")
    assert focused(frida) == "Skip to content"
    wanted = ("Approve", "Edit", "Reject", "Respond")
    order: list[str] = []
    for _ in range(250):
        frida.keyboard.press("Tab")
        order += [word for word in wanted if focused(frida).startswith(word)]
        if "Respond" in order:
            break
    assert order == ["Approve", "Edit", "Reject", "Respond"]


def test_runs_are_chosen_and_searched_for_by_keys(site: Site, opens: Opens) -> None:
    runs = [asked(site, title=f"Choose {number}")[0] for number in range(3)]
    page = opens("olga").page
    page.goto("/runs/?status=waiting")
    bar = page.locator("[data-chosen]")
    expect(bar).to_contain_text("All that match")
    for key in ("j", "x", "j", "j", "Shift+X"):
        page.keyboard.press(key)
    expect(bar).to_contain_text("3 chosen")
    bar.get_by_role("button", name="Pause…").click()
    expect(page.get_by_role("heading", name="Pause 3 runs")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile(r"/runs/\?status=waiting$"))
    page.keyboard.press("/")
    page.keyboard.type(f"R-{runs[0][:8]}")
    page.keyboard.press("Enter")
    expect(page.locator("[data-row]")).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/runs/{runs[0]}/"))
