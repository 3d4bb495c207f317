"""Every part of the pages in its states, in development only."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.acceptance.site import Site
from tests.browser.conftest import PHONE, WIDE, Opens
from tests.browser.test_looks import faults
from tests.kit.servers import Servers
from tests.kit.stack import Stack

LOOKS = [(WIDE, "light"), (WIDE, "dark"), (PHONE, "light"), (PHONE, "dark")]


@pytest.fixture(scope="module")
def development(servers: Servers) -> Iterator[Stack]:
    """A web server alone, in development."""
    stack = Stack(servers, env={"HITL_DEBUG": "true"})
    try:
        yield stack.start(workers=[], sweepers=0)
    finally:
        stack.stop()


@pytest.fixture
def guide(browser: Browser, development: Stack, request: pytest.FixtureRequest) -> Iterator[Page]:
    viewport, theme = request.param
    page = browser.new_page(viewport=viewport, color_scheme=theme, base_url=development.url)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto("/styleguide")
    yield page
    page.close()
    assert said == []


@pytest.mark.parametrize(
    "guide", LOOKS, ids=["wide-light", "wide-dark", "phone-light", "phone-dark"], indirect=True
)
def test_axe_finds_nothing_and_nothing_overflows(guide: Page) -> None:
    assert faults(guide) == []


@pytest.mark.parametrize("guide", LOOKS[:1], ids=["wide-light"], indirect=True)
def test_every_part_is_there(guide: Page) -> None:
    for part in (
        ".button.next",
        ".button.danger.filled",
        ".decide .answer.yes",
        ".decide .each",
        ".item[aria-current]",
        ".chip.filled",
        ".status",
        ".quorum",
        ".clock.late",
        ".esc",
        ".banner.amber",
        ".field.wrong",
        ".toast",
        ".live-sign[data-state=lost]",
        ".since .diff",
        ".lines .add",
        ".args",
        ".tiles",
        ".table.rows",
        ".facts",
        ".says",
        ".timeline .t-people",
        ".checkpoint[aria-current]",
        ".branches",
        "#_effects td",
        "#_approvals td",
        "#_history td",
        ".steps .step",
        ".table.rows ins",
        ".nothing-here",
        ".path .gate",
        ".keys",
    ):
        assert guide.locator(f".guide {part}").count(), part
    approve = guide.locator(".guide .answer.yes").first
    expect(approve).to_contain_text("Tick what is asked first")
    guide.locator(".guide .must").first.check()
    expect(approve.locator(".then")).to_be_visible()


def test_outside_of_development_there_is_nothing(site: Site, opens: Opens) -> None:
    assert httpx.get(f"{site.stack.url}/styleguide", trust_env=False).status_code == 404
