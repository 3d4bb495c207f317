"""What a reviewer asks stands on the first screen: nothing of it below the answers, nothing behind a click."""

from __future__ import annotations

from typing import Final

from playwright.sync_api import Page, ViewportSize

from tests.browser import conftest

WIDE: Final[ViewportSize] = {"width": conftest.WIDE["width"], "height": conftest.WIDE["height"]}
PHONE: Final[ViewportSize] = {"width": conftest.PHONE["width"], "height": conftest.PHONE["height"]}
QUESTIONS: Final = {
    "what is done": "#card-title",
    "how bad": ".card-head .chip",
    "until when": ".facts h2:text-is('Decide by')",
    "what then": ".facts h2:text-is('Decide by') ~ p:last-of-type",
    "who decides": ".facts .votes",
    "why a person": ".facts h2:text-is('Why a person is asked') + p",
    "who asks": ".facts h2:text-is('Asked by') + p",
    "what it rests on": ".facts h2:text-is('What it rests on') + p",
    "what follows": ".facts .leads",
    "to what": ".card-main .code .lines, .card-main .args",
}

CHANGED: Final = {"what changed": ".since > header", "to what": ".since .diff :is(.lines, td)"}


def missing(page: Page, *, changed: bool = False) -> list[str]:
    """What is not whole on the first screen of either size. changed: it was asked before, and what differs is asked too."""
    asked = QUESTIONS | (CHANGED if changed else {})
    found: list[str] = []
    for size in (WIDE, PHONE):
        page.set_viewport_size(size)
        page.evaluate("window.scrollTo(0, 0)")
        found += [f"{name} at {size['width']}" for name, place in asked.items() if not _is_seen(page, place)]
    page.set_viewport_size(WIDE)
    return found


def _is_seen(page: Page, selector: str) -> bool:
    box = page.locator(selector).first.bounding_box()
    bar = page.locator(".answers").bounding_box()
    assert bar is not None
    return (
        box is not None and box["height"] > 0 and box["y"] >= 0 and box["y"] + box["height"] <= bar["y"] + 1
    )
