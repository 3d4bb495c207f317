"""Short ways to what the tests look at."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Locator, Page

from tests.acceptance.site import Site
from tests.kit.waiting import until

LENGTHEN = (
    "from runs.models import Run; from tests.kit.longrun import lengthen; lengthen(Run.objects.get(pk='{}'))"
)


def asked(site: Site, workflow: str = "one", **input: Any) -> tuple[str, str]:
    """Submit a run that asks; its id and the id of its approval."""
    run_id = site.start(workflow, **input)
    return run_id, str(site.approval(run_id)["id"])


def lengthened(site: Site, **input: Any) -> str:
    """A run that asks and has gone on for as long as C97 has it; the server, which has settings, makes it."""
    run_id, _ = asked(site, **input)
    site.stack.manage("shell", "-c", LENGTHEN.format(run_id))
    return run_id


def asked_after(site: Site, run_id: str, approval_id: str) -> str:
    """The approval that took the place of another."""
    new = until(lambda: [a for a in open_ones(site, run_id) if a != approval_id])
    return new[0]


def open_ones(site: Site, run_id: str) -> list[str]:
    rows = site.sql("SELECT id FROM runs_approval WHERE run_id = %s AND status = 'open'", run_id)
    return [str(row["id"]) for row in rows]


def state(site: Site, run_id: str) -> dict[str, Any]:
    answer = site.as_("olga").get(f"/runs/{run_id}")
    return dict(answer.json()["state"])


def card(page: Page, approval_id: str) -> None:
    page.goto(f"/inbox/{approval_id}/")


def listed(page: Page, title: str) -> Locator:
    """An item of the inbox's list by its title; where to start, beside the list, names the first ones too."""
    return page.locator("#_queue").get_by_role("link", name=title)


def answers(page: Page, name: str) -> None:
    """Press one of the four answers."""
    page.locator(f"button.answer:has-text('{name}')").click()


def said(page: Page) -> str:
    """What the page tells after something was done."""
    return page.locator("#toasts .toast p").first.inner_text()


def path(page: Page) -> str:
    return urlsplit(page.url).path


def outcomes(site: Site, approval_id: str) -> list[str]:
    rows = site.sql("SELECT outcome FROM runs_vote WHERE approval_id = %s ORDER BY id", approval_id)
    return [row["outcome"] for row in rows]
