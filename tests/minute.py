"""python -m tests.minute: from the list to the decision of each demo request by keyboard, in a browser, part by part.

What is measured is what a reviewer waits for, as nobody reads here: figures for docs/reviewers.md, which prove nothing.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page, expect, sync_playwright

from tests.browser.conftest import WIDE
from tests.kit import chromium
from tests.screenshots import installations, opened, servers

REASON = "not like this"
Parts = dict[str, float]


def main() -> int:
    path = chromium.find()
    if path is None:
        print(chromium.ADVICE)
        return 1
    with servers() as running, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        for shown in installations(running, only="demo"):
            with opened(browser, shown, "/inbox/", WIDE, "light") as page:
                told = [_decided(page) for _ in range(page.locator("[data-row]").count())]
        browser.close()
    for title, keys, parts in told:
        print(f"{title}: {keys} keys, {sum(parts.values()):.2f} s: {_said(parts)}")
    whole = statistics.median(sum(parts.values()) for _, _, parts in told)
    print(
        f"median {whole:.2f} s; {os.cpu_count()} cores, {platform.machine()}, load {os.getloadavg()[0]:.1f}"
    )
    return 0


def _decided(page: Page) -> tuple[str, int, Parts]:
    """The first of the list: refunds are approved, a change of tables is rejected with a reason. Its title, how many keys that
    took without those of the reason, and seconds by part."""
    parts: Parts = {}
    first = page.locator("[data-row]").first
    title = first.locator(".title").inner_text()
    rejects = "refund" not in first.inner_text().lower()
    with _timed(parts, "list"):
        page.goto("/inbox/")
        expect(first).to_be_visible()
    page.keyboard.press("j")
    with _timed(parts, "card"):
        page.keyboard.press("Enter")
        expect(page.locator("#card-title")).to_have_text(title)
    page.keyboard.press("r" if rejects else "a")
    if rejects:
        expect(page.locator("#reason")).to_be_focused()
        page.keyboard.type(REASON)
    else:
        expect(page.locator('[data-decide] [data-key="a"]')).to_be_focused()
    said = "Rejected" if rejects else "Approved"
    with _timed(parts, "decision"):
        page.keyboard.press("Enter")
        expect(page.locator(".toast").filter(has_text=said).last).to_be_visible()
    return title, 4, parts


@contextmanager
def _timed(parts: Parts, name: str) -> Iterator[None]:
    begun = time.perf_counter()
    yield
    parts[name] = time.perf_counter() - begun


def _said(parts: Parts) -> str:
    return ", ".join(f"{name} {seconds:.2f}" for name, seconds in parts.items())


if __name__ == "__main__":
    sys.exit(main())
