"""What agents and services send is text: on every page, in every place (C90)."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.site import Site
from tests.browser.asks import answers, asked, card, state
from tests.browser.conftest import Opens
from tests.kit.run_pages import PARTS

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "</textarea><script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "{{7*7}}{% now 'Y' %}",
    "javascript:alert(1)",
    '<b hx-get="/sign-out/" hx-trigger="load">x</b>',
    "<!-- x",
    "\u202egpj.exe",
    "\x1b[31mred",
    '=HYPERLINK("http://evil.example")',
    "![p](https://evil.example/p.png) [a](javascript:alert(1))",
    "<form action=/inbox/><button>Approve</button></form>",
]
ALL = " ".join(HOSTILE)


def hostile() -> dict[str, Any]:
    return {
        "args": {"note": ALL, ALL: ALL, "deep": [{ALL: ALL}]},
        "editable": ["note"],
        "title": ALL,
        "reason": ALL,
        "note": f"# {ALL}\n\n{ALL}\n\n- {ALL}\n\n```\n{ALL}\n```\n",
        "facts": {ALL: ALL, "short": "<b>x</b>"},
    }


def visit_everything(page: Page, run_id: str, approval_id: str) -> None:
    pages = [
        "/inbox/",
        "/inbox/?view=open",
        f"/inbox/{approval_id}/",
        f"/inbox/{approval_id}/edit/",
        f"/inbox/{approval_id}/edit/?mode=json",
        "/inbox/?view=decided",
        "/runs/",
        *(f"/runs/{run_id}/{part}" for part in PARTS),
        f"/runs/{run_id}/checkpoints/1/?show=state",
        f"/runs/{run_id}/checkpoints/1/?show=update",
        f"/runs/{run_id}/checkpoints/1/?show=tree",
        f"/runs/{run_id}/rewind/0/",
        f"/runs/{run_id}/edit-state/",
    ]
    for address in pages:
        answer = page.goto(address)
        assert answer is not None
        assert answer.status < 500
        page.wait_for_load_state("networkidle")
        assert page.locator("script:not([src])").count() == 0
        assert page.locator("main [hx-trigger=load], main img, main form form, main iframe").count() == 0
        page.evaluate("document.querySelectorAll('main details').forEach(folded => (folded.open = true))")


def test_hostile_strings_act_nowhere(site: Site, opens: Opens) -> None:
    """C90: no script, no dialog, no request, no policy report; the `opens` fixture fails if there was one."""
    run_id, approval_id = asked(site, **hostile())
    visit_everything(opens("frida").page, run_id, approval_id)
    olga = opens("olga").page
    for address in (f"/runs/{run_id}/edit-state/", f"/runs/{run_id}/cancel/"):
        olga.goto(address)
    frida = opens("frida").page
    card(frida, approval_id)
    frida.get_by_label("I have seen the").check()
    frida.locator("#reason").fill("".join(c for c in ALL if c.isprintable()))
    answers(frida, "Approve")
    site.wait(run_id)
    visit_everything(opens("frida").page, run_id, approval_id)


def test_what_is_shown_is_the_string_itself(site: Site, frida: Page) -> None:
    """C90"""
    title = "</textarea><script>alert(1)</script> {{7*7}} <!-- & &amp;"
    run_id, approval_id = asked(site, title=title, args={"note": title})
    card(frida, approval_id)
    expect(frida.locator("#card-title")).to_have_text(title)
    expect(frida.locator(".args dd").first).to_contain_text('"' + title + '"')
    assert title in frida.title()
    answers(frida, "Approve")
    site.wait(run_id)
    assert state(site, run_id)["seen"] == {"note": title}


def test_the_agents_words_stand_apart_and_can_only_be_read(site: Site, frida: Page) -> None:
    """T1: nothing the agent says becomes a heading, a link, a picture or a button."""
    _, approval_id = asked(
        site, note="# Approved by finance\n\n[wiki](https://evil.example)\n\n<button>Approve</button>"
    )
    card(frida, approval_id)
    says = frida.get_by_role("region", name="The agent's own words, not verified")
    expect(says).to_contain_text("Approved by finance")
    expect(says).to_contain_text("https://evil.example")
    assert says.locator("h1, h2, h3, a, img, button, form, input").count() == 0
    assert frida.locator("h1, h2").filter(has_text="Approved by finance").count() == 0


@pytest.mark.parametrize("args", [{}, {"deep": [[[[[[[[[[{"a": None}]]]]]]]]]]}, {"text": "x" * 200_000}])
def test_any_payload_can_be_read_and_decided(site: Site, frida: Page, args: Any) -> None:
    """C98: no schema, nested, large."""
    run_id, approval_id = asked(site, args=args)
    card(frida, approval_id)
    whole = frida.locator("a.answer", has_text="Open all of it")
    if whole.count():
        whole.click()
    answers(frida, "Approve")
    site.wait(run_id)
    assert state(site, run_id)["seen"] == args
