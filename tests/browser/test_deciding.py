"""The reviewer decides in the browser, and the run goes on from that point by itself."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.acceptance.site import Site
from tests.browser.asks import answers, asked, card, listed, outcomes, path, said, state
from tests.browser.conftest import Opens


def test_an_approved_action_is_run_and_the_next_item_opens(site: Site, frida: Page) -> None:
    """C65: "saved" means that the run goes on."""
    run_id, approval_id = asked(site, args={"amount": 5}, title="Pay five")
    _, later = asked(site, title="The next one")
    frida.goto("/inbox/")
    listed(frida, "Pay five").click()
    expect(frida.get_by_role("heading", name="Pay five")).to_be_focused()
    assert path(frida) == f"/inbox/{approval_id}/"
    answers(frida, "Approve")
    expect(frida.locator("#toasts")).to_contain_text("the run goes on")
    assert path(frida) != f"/inbox/{approval_id}/"
    assert site.wait(run_id)["status"] == "completed"
    assert state(site, run_id)["seen"] == {"amount": 5}
    assert outcomes(site, later) == []


def test_no_answer_is_focused_or_filled_when_a_card_opens(site: Site, frida: Page) -> None:
    _, approval_id = asked(site)
    card(frida, approval_id)
    assert frida.evaluate("document.activeElement.tagName") == "BODY"
    backgrounds = frida.locator(".answer").evaluate_all(
        "buttons => [...new Set(buttons.map(button => getComputedStyle(button).backgroundColor))]"
    )
    assert len(backgrounds) == 1
    expect(frida.locator(".bound")).to_contain_text("You decide on version 1, digest")


def test_edited_arguments_are_what_runs(site: Site, frida: Page) -> None:
    properties = {"amount": {"type": "integer", "maximum": 100}, "to": {"type": "string"}}
    run_id, approval_id = asked(
        site, args={"amount": 50, "to": "anna"}, properties=properties, editable=["amount"]
    )
    card(frida, approval_id)
    frida.get_by_role("link", name="Edit").click()
    expect(frida.locator("[name='arg:0:/to']")).to_have_count(0)
    frida.get_by_label("amount").fill("700")
    frida.get_by_role("button", name="Save version 2 and approve it").click()
    expect(frida.locator(".field.wrong")).to_contain_text("700 is greater than the maximum of 100")
    expect(frida.get_by_label("amount")).to_have_value("700")
    frida.get_by_label("amount").fill("70")
    frida.get_by_placeholder("Reason for the change").fill("Only the chair")
    frida.get_by_role("button", name="Save version 2 and approve it").click()
    expect(frida.locator("#toasts")).to_contain_text("Approved")
    site.wait(run_id)
    assert state(site, run_id)["seen"] == {"amount": 70, "to": "anna"}
    card(frida, approval_id)
    expect(frida.locator(".since")).to_contain_text("Only the chair")
    expect(frida.locator(".decide .chip")).to_contain_text("Approved, edited")


def test_a_reject_without_its_reason_keeps_the_card_and_with_it_goes_to_the_reject_edge(
    site: Site, frida: Page
) -> None:
    run_id, approval_id = asked(site, "careful")
    card(frida, approval_id)
    answers(frida, "Reject")
    expect(frida.locator("#banner")).to_contain_text("A reject needs a reason")
    expect(frida.locator("#reason")).to_have_attribute("aria-invalid", "true")
    assert outcomes(site, approval_id) == []
    frida.locator("#reason").fill("No, see ticket 7731")
    answers(frida, "Reject")
    expect(frida.locator("#toasts")).to_contain_text("Rejected")
    site.wait(run_id)
    assert state(site, run_id)["told"] == "No, see ticket 7731"


def test_an_answer_takes_the_place_of_the_action(site: Site, frida: Page) -> None:
    run_id, approval_id = asked(site)
    card(frida, approval_id)
    frida.locator("#reason").fill("Ask them to call us")
    answers(frida, "Respond")
    expect(frida.locator("#toasts")).to_contain_text("Answered")
    site.wait(run_id)
    assert state(site, run_id)["told"] == "Ask them to call us"


def test_two_of_two_must_agree_and_the_second_vote_runs_it(site: Site, opens: Opens) -> None:
    run_id, approval_id = asked(site, "two")
    frida, felix = opens("frida").page, opens("felix").page
    card(frida, approval_id)
    expect(frida.locator(".answer.yes")).to_contain_text("1 of 2: waits for 1 more vote")
    answers(frida, "Approve")
    expect(frida.locator("#toasts")).to_contain_text("recorded")
    assert site.run(run_id)["status"] == "waiting"
    card(frida, approval_id)
    expect(frida.locator(".decide")).to_contain_text("You have said approve about this version")
    card(felix, approval_id)
    expect(felix.locator(".answer.yes")).to_contain_text("2 of 2: runs at once")
    answers(felix, "Approve")
    site.wait(run_id)
    assert outcomes(site, approval_id) == ["approve", "approve"]


def test_each_of_several_actions_has_its_own_decision(site: Site, frida: Page) -> None:
    run_id, approval_id = asked(site, "several", title="Two things")
    card(frida, approval_id)
    first = frida.get_by_role("group", name="first", exact=True)
    first.get_by_text("Edit", exact=True).click()
    frida.get_by_role("group", name="second", exact=True).get_by_text("Reject", exact=True).click()
    frida.get_by_role("button", name="Send 2 decisions").click()
    frida.get_by_label("amount").fill("7")
    expect(frida.locator("input[name='decision:second'][value=reject]")).to_be_checked()
    frida.get_by_role("button", name="Save version 2 and approve it").click()
    expect(frida.locator("#toasts")).to_contain_text("the run goes on")
    site.wait(run_id)
    assert state(site, run_id)["seen"] == ["mixed", {"amount": 7, "to": "a"}]


def test_whoever_asked_or_is_not_asked_sees_why_there_is_nothing_to_press(site: Site, opens: Opens) -> None:
    """C59, as the page shows it."""
    _, approval_id = asked(site)
    vera = opens("vera").page
    card(vera, approval_id)
    expect(vera.locator(".decide")).to_contain_text("Asked are finance; you may read this.")
    expect(vera.locator("button.answer")).to_have_count(0)


def test_hidden_characters_must_be_ticked_before_approve_on_the_page_and_on_the_server(
    site: Site, frida: Page
) -> None:
    run_id, approval_id = asked(site, args={"note": "see \u202eticket\u200b 7731"})
    card(frida, approval_id)
    expect(frida.locator(".args")).to_contain_text("U+202E")
    expect(frida.locator(".seen")).to_contain_text("2 hidden characters in note")
    answers(frida, "Approve")
    assert outcomes(site, approval_id) == []
    frida.evaluate("document.querySelector('[name=seen]').required = false")
    answers(frida, "Approve")
    expect(frida.locator("#banner")).to_contain_text("Tick that you have seen the hidden characters")
    frida.get_by_label("I have seen the").check()
    answers(frida, "Approve")
    assert "Approved" in said(frida)
    site.wait(run_id)
    assert state(site, run_id)["seen"] == {"note": "see \u202eticket\u200b 7731"}
