"""Arguments edited as JSON or in fields: nothing is rounded, nothing typed is lost."""

from __future__ import annotations

import json

from playwright.sync_api import Page, expect

from tests.acceptance.site import Site
from tests.browser.asks import answers, asked, card, outcomes, state
from tests.browser.conftest import Opens

EXACT = (
    '{"id":9007199254740993,"big":3544790567247868102,"u64":18446744073709551615,'
    '"d":0.2345678901234568,"neg":-9223372036854775809,"note":"x"}'
)


def exact(site: Site) -> tuple[str, str]:
    """A run that asks about numbers a browser cannot hold, posted as text so that no client rounds them first."""
    body = '{"workflow":"one","input":{"args":' + EXACT + ',"editable":["note"]}}'
    answer = site.as_("shop").post("/runs", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 201, answer.text
    run_id = str(answer.json()["id"])
    return run_id, str(site.approval(run_id)["id"])


def test_changing_one_key_in_the_json_changes_nothing_else(site: Site, frida: Page) -> None:
    """C03"""
    run_id, approval_id = exact(site)
    frida.goto(f"/inbox/{approval_id}/edit/?mode=json")
    field = frida.get_by_label("Arguments as JSON")
    served = field.input_value()
    for digits in ("9007199254740993", "18446744073709551615", "0.2345678901234568", "-9223372036854775809"):
        assert digits in served
    field.fill(served.replace('"note": "x"', '"note": "y"'))
    expect(frida.locator(".diff tbody tr")).to_have_count(1)
    expect(frida.locator(".diff tbody th")).to_have_text("note")
    assert frida.get_by_label("Arguments as JSON").input_value() == served.replace('"x"', '"y"')
    frida.get_by_role("button", name="Save version 2 and approve it").click()
    expect(frida.locator("#toasts")).to_contain_text("Approved")
    site.wait(run_id)
    assert state(site, run_id)["seen"] == {**json.loads(EXACT), "note": "y"}
    card(frida, approval_id)
    expect(frida.locator(".since .diff tbody tr")).to_have_count(1)
    frida.goto(f"/runs/{run_id}/data/")
    for digits in ("9007199254740993", "3544790567247868102", "-9223372036854775809"):
        expect(frida.locator("#_data")).to_contain_text(digits)


def test_changing_one_field_of_the_form_changes_nothing_else(site: Site, frida: Page) -> None:
    """C03, in fields."""
    run_id, approval_id = exact(site)
    frida.goto(f"/inbox/{approval_id}/edit/")
    expect(frida.locator(".input.given").filter(has_text="9007199254740993")).to_have_count(1)
    frida.get_by_label("note").fill("y")
    frida.get_by_role("button", name="JSON", exact=True).click()
    assert '"note": "y"' in frida.get_by_label("Arguments as JSON").input_value()
    assert "18446744073709551615" in frida.get_by_label("Arguments as JSON").input_value()
    frida.get_by_role("button", name="Form", exact=True).click()
    expect(frida.get_by_label("note")).to_have_value("y")
    frida.get_by_role("button", name="Save version 2 and approve it").click()
    expect(frida.locator("#toasts")).to_contain_text("Approved")
    site.wait(run_id)
    assert state(site, run_id)["seen"] == {**json.loads(EXACT), "note": "y"}


def test_text_that_is_no_json_comes_back_as_it_was_typed(site: Site, frida: Page) -> None:
    """C13"""
    properties = {"amount": {"type": "integer"}}
    run_id, approval_id = asked(
        site, args={"some": [], "amount": 1}, properties=properties, editable=["some", "amount"]
    )
    frida.goto(f"/inbox/{approval_id}/edit/?mode=json")
    typed = '\n{"some":\n\t["json"},\n\t"é": </textarea> & &amp;'
    field = frida.get_by_label("Arguments as JSON")
    field.fill(typed)
    frida.get_by_role("button", name="Save version 2 and approve it").click()
    expect(frida.locator(".field.wrong")).to_contain_text("line 3, column 9")
    assert frida.get_by_label("Arguments as JSON").input_value() == typed
    frida.get_by_label("Arguments as JSON").fill('{"some":\n\t["json"], "amount": "ten"}')
    frida.get_by_role("button", name="Save version 2 and approve it").click()
    expect(frida.locator(".field.wrong")).to_contain_text("/amount 'ten' is not of type 'integer'")
    for scalar in ("null", '"str"', "5"):
        frida.get_by_label("Arguments as JSON").fill(scalar)
        with frida.expect_response("**/edit/"):
            frida.get_by_role("button", name="Save version 2 and approve it").click()
        expect(frida.locator(".field.wrong")).to_contain_text("the arguments are a JSON object")
        expect(frida.get_by_label("Arguments as JSON")).to_have_value(scalar)
    assert (outcomes(site, approval_id), site.run(run_id)["status"]) == ([], "waiting")
    frida.get_by_label("Arguments as JSON").fill('{"some":\n\t["json"], "amount": 1}')
    frida.get_by_role("button", name="Save version 2 and approve it").click()
    expect(frida.locator("#toasts")).to_contain_text("Approved")
    site.wait(run_id)
    assert state(site, run_id)["seen"] == {"some": ["json"], "amount": 1}
    assert outcomes(site, approval_id) == ["approve"]


def test_a_text_that_cannot_be_read_stays_in_the_tab_where_it_can_be_corrected(
    site: Site, frida: Page
) -> None:
    _, approval_id = asked(site, args={"note": "x"}, editable=["note"])
    frida.goto(f"/inbox/{approval_id}/edit/?mode=json")
    frida.get_by_label("Arguments as JSON").fill("{not json")
    frida.get_by_role("button", name="Form", exact=True).click()
    expect(frida.get_by_label("Arguments as JSON")).to_have_value("{not json")
    expect(frida.locator(".field.wrong")).to_contain_text("line 1, column 2")


def test_every_kind_of_field_reads_back_exactly(site: Site, frida: Page) -> None:
    """C09: null, missing, false, 0 and "" stay what they are."""
    properties = {
        "text": {"type": "string"},
        "lines": {"type": "string"},
        "ratio": {"type": "number"},
        "count": {"type": "integer"},
        "dry": {"type": "boolean"},
        "mode": {"enum": ["fast", "safe"]},
        "list": {"type": "array"},
        "nothing": {"type": ["string", "null"]},
        "absent": {"type": "string"},
        "added": {"type": "string"},
    }
    args = {
        "text": "",
        "lines": "one\r\ntwo\n",
        "ratio": 1.0,
        "count": 0,
        "dry": False,
        "mode": "safe",
        "list": [],
        "nothing": None,
    }
    run_id, approval_id = asked(site, args=args, properties=properties, editable=list(properties))
    frida.goto(f"/inbox/{approval_id}/edit/")
    frida.get_by_label("count", exact=True).fill("12345678901234567890")
    frida.get_by_label("mode").select_option("fast")
    frida.locator("[name='arg:0:/added']").fill("")
    frida.locator("[name='arg:0:/added:set']").check()
    frida.get_by_role("button", name="Save version 2 and approve it").click()
    expect(frida.locator("#toasts")).to_contain_text("Approved")
    site.wait(run_id)
    body = site.as_("olga").get(f"/runs/{run_id}").text
    assert '"ratio":1.0' in body.replace(" ", "")
    wanted = {**args, "count": 12345678901234567890, "mode": "fast", "added": ""}
    assert state(site, run_id)["seen"] == wanted


def test_a_wrong_number_is_named_at_its_field_and_kept(site: Site, frida: Page) -> None:
    properties = {"count": {"type": "integer"}}
    _, approval_id = asked(site, args={"count": 1}, properties=properties, editable=["count"])
    frida.goto(f"/inbox/{approval_id}/edit/")
    frida.get_by_label("count", exact=True).fill("1,5")
    frida.get_by_role("button", name="Save version 2 and approve it").click()
    expect(frida.locator(".field.wrong")).to_contain_text("'1,5' is not a whole number")
    expect(frida.get_by_label("count", exact=True)).to_have_value("1,5")
    frida.get_by_role("link", name="1 error").click()


def test_a_version_can_be_saved_without_a_vote(site: Site, opens: Opens) -> None:
    run_id, approval_id = asked(site, args={"note": "x"}, editable=["note"])
    frida = opens("frida").page
    frida.goto(f"/inbox/{approval_id}/edit/")
    frida.get_by_label("note").fill("better")
    frida.get_by_role("button", name="Save without my vote").click()
    expect(frida.locator("#toasts")).to_contain_text("Version 2")
    expect(frida.locator(".bound")).to_contain_text("version 2")
    assert outcomes(site, approval_id) == []
    felix = opens("felix").page
    card(felix, approval_id)
    expect(felix.locator(".since")).to_contain_text("frida made version 2")
    answers(felix, "Approve")
    site.wait(run_id)
    assert state(site, run_id)["seen"] == {"note": "better"}


LINE = {
    "type": "object",
    "required": ["sku"],
    "properties": {"sku": {"type": "string"}, "n": {"type": "integer"}},
}
WAYS = [
    {"type": "object", "title": "Card", "required": ["card"], "properties": {"card": {"type": "string"}}},
    {"type": "object", "title": "Bank", "required": ["iban"], "properties": {"iban": {"type": "string"}}},
]


def test_rows_ways_and_the_difference_by_keyboard_while_it_is_typed(site: Site, frida: Page) -> None:
    """C95: the form is drawn anew by the server, and whoever types in it stays where they are."""
    properties = {"lines": {"type": "array", "items": LINE}, "pay": {"oneOf": WAYS}}
    args = {"lines": [{"sku": "chair", "n": 9007199254740993}], "pay": {"card": "4242"}}
    run_id, approval_id = asked(site, args=args, properties=properties, editable=["lines", "pay"])
    frida.goto(f"/inbox/{approval_id}/edit/")
    expect(frida.get_by_role("button", name="Show the difference")).to_be_hidden()
    frida.get_by_role("button", name="Add a row").focus()
    frida.keyboard.press("Enter")
    expect(frida.locator("[name='arg:0:/lines/1/n']")).to_be_focused()
    frida.keyboard.press("Tab")
    frida.keyboard.type("lamp")
    expect(frida.locator("#_difference .diff")).to_contain_text("lamp")
    expect(frida.locator("[name='arg:0:/lines/1/sku']")).to_be_focused()
    frida.locator("[name='arg:0:/pay:as']").select_option("Bank")
    frida.locator("[name='arg:0:/pay//iban']").fill("DE1")
    frida.locator("[name='arg:0:/lines/0/n']").fill("x")
    expect(frida.locator("#_difference")).to_contain_text("'x' is not a whole number")
    frida.locator("[name='arg:0:/lines/0/n']").fill("9007199254740995")
    expect(frida.locator("#_difference")).to_contain_text("9007199254740995")
    frida.get_by_role("button", name="Save version 2 and approve it").click()
    expect(frida.locator("#toasts")).to_contain_text("Approved")
    site.wait(run_id)
    lines = [{"sku": "chair", "n": 9007199254740995}, {"sku": "lamp"}]
    assert state(site, run_id)["seen"] == {"lines": lines, "pay": {"iban": "DE1"}}
