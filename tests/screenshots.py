"""`make screenshots`: every page in both themes and at both widths, with nothing, the demo, and hostile data.

The pictures go to test-results/screenshots (ignored), to be looked at. `--docs` also renews those of docs/images.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from playwright.sync_api import Browser, Page, expect, sync_playwright

from hitl.env import root
from tests.acceptance.seed import PASSWORD as SEEDED
from tests.acceptance.site import Site
from tests.browser.asks import asked, lengthened
from tests.browser.conftest import PHONE, WIDE
from tests.browser.test_hostile import hostile
from tests.kit import chromium, month
from tests.kit.run_pages import PARTS
from tests.kit.servers import Servers
from tests.kit.stack import APPS, Stack
from tests.kit.waiting import until

FOLDER: Final = root() / "test-results" / "screenshots"
IMAGES: Final = root() / "docs" / "images"
LOOKS: Final = [(size, theme) for size in (WIDE, PHONE) for theme in ("light", "dark")]
DEMO: Final = "demo"  # the password of everybody in the demo data
SEEDED_ONES: Final = ("hostile", "steered")
STEERS: Final = (
    *(
        "/rewind/",
        "/edit-state/",
        "/cancel/",
        "/priority/",
        "/pause/",
        "/resume/",
        "/fork/",
        "/compare/",
        "/branches/",
        "/hold/",
        "/erase/",
        "/retry/",
        "/data/",
        "/health/",
        "/migrate/",
        "/start/",
    ),
    "/runs/bulk/",
)  # what an operator does
ADMINISTERS: Final = ("/members/", "/teams/", "/settings/")
OPEN_TO_ALL: Final = ("/sign-in/", "/styleguide")
IN_DOCS: Final = {  # their theme and height
    "sql": ("light", 760),
    "run": ("dark", 760),
    "timeline": ("light", 440),
    "dashboard": ("light", 760),
}
Pages = dict[str, str]
LINE: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["sku", "count"],
    "properties": {
        "sku": {"type": "string"},
        "count": {"type": "integer", "minimum": 1},
        "note": {"type": "string"},
    },
}
ORDERED: Final[dict[str, Any]] = {
    "order": {"type": "string"},
    "lines": {"type": "array", "items": LINE, "minItems": 1, "description": "What is sent."},
    "pay": {
        "oneOf": [
            {"type": "object", "title": way, "required": [way], "properties": {way: {"type": "string"}}}
            for way in ("card", "iban")
        ]
    },
    "due": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
    "gift": LINE,
    "mode": {"enum": ["fast", "safe", 3]},
    "kind": {"const": "order"},
}
ORDER: Final[dict[str, Any]] = {
    "order": "88-4121",
    "lines": [{"sku": "chair", "count": 9007199254740993}, {"sku": "table", "count": 1, "note": "oak"}],
    "pay": {"card": "4242"},
    "due": "2026-12-24",
    "mode": "safe",
    "kind": "order",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", action="store_true", help="renew the pictures of docs/images")
    parser.add_argument("--only", default="", help="pages whose name has this in it")
    told = parser.parse_args()
    path = chromium.find()
    if path is None:
        print(chromium.ADVICE)
        return 1
    with servers() as running, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        for shown in installations(running, only=told.only.partition("-")[0]):
            for title, address in shown.pages.items():
                if told.only in f"{shown.name}-{title}":
                    everywhere(browser, shown, title, address)
            if told.docs and shown.name == "demo":
                for_docs(browser, shown)
        browser.close()
    print(f"{len(list(FOLDER.glob('*.png')))} pictures in {FOLDER.relative_to(root())}")
    return 0


@contextmanager
def servers() -> Iterator[Servers]:
    made = Servers()
    try:
        made.start()
        yield made
    finally:
        made.stop()


@dataclass(frozen=True, slots=True)
class Shown:
    """An installation with people and data, and the addresses of its pages by name."""

    name: str
    stack: Stack
    pages: Pages
    password: str
    cookies: dict[str, Any] = field(default_factory=dict)


def installations(running: Servers, *, only: str) -> Iterator[Shown]:
    """One after the other, each with a database of its own."""
    shown = {"empty": empty, "demo": demo, "hostile": hostile_pages, "steered": steered}
    for name, pages_of in shown.items():
        if only not in name:
            continue
        seeded = name in SEEDED_ONES
        apps = [*APPS, "tests.browser.flows"] if seeded else APPS[:2]
        stack = Stack(
            running, env={"HITL_DEBUG": str(not seeded).lower(), "HITL_WORKFLOW_APPS": ",".join(apps)}
        )
        try:
            stack.start_services(*apps)
            yield Shown(name, stack, pages_of(stack), SEEDED if seeded else DEMO)
        finally:
            stack.stop()


# ---- what there is to see


def empty(stack: Stack) -> Pages:
    stack.start(workers=[], sweepers=0)
    stack.manage("shell", "-c", "from runs.management.commands import demo_data as d; d.found_project()")
    return {
        "inbox": "/inbox/",
        "runs": "/runs/",
        "tokens": "/tokens/",
        "workflows": "/workflows/",
        "dashboard": "/dashboard/",
        "sign-in": "/sign-in/",
        "guide": "/styleguide",
    }


def demo(stack: Stack) -> Pages:
    stack.manage("set_up")
    stack.start(workers=["w1"])
    stack.manage("demo_data")
    until(lambda: len(_open(stack)) >= 4, seconds=60, what="every demo run waits")
    change, refund = (_open(stack, workflow)[0] for workflow in ("sql_change", "refund"))
    run = stack.sql("SELECT run_id FROM runs_approval WHERE id = %s", [change])[0]["run_id"]
    _month(stack)
    return {
        "inbox": "/inbox/",
        "sql": f"/inbox/{change}/",
        "sql-edit": f"/inbox/{change}/edit/",
        "refund": f"/inbox/{refund}/",
        "refund-json": f"/inbox/{refund}/edit/?mode=json",
        "attend": f"/inbox/{refund}/attend/",
        "together": "/inbox/together/",
        "away": "/away/",
        "closed": "/inbox/?view=decided",
        "search": "/inbox/?view=open&risk=medium&q=order",
        "searched-in-vain": "/inbox/?q=nowhere&team=finance",
        "choosing": "/inbox/?choose=yes&view=open&sort=risk",
        "views": "/views/?view=open&risk=high&page=inbox",
        "notifications": "/notifications/",
        "hearing": "/notifications/settings/",
        "rewind": f"/runs/{run}/rewind/0/",
        "state": f"/runs/{run}/edit-state/",
        "runs": "/runs/",
        "start": "/workflows/refund/start/",
        "run": f"/runs/{run}/",
        "run-data": f"/runs/{run}/data/",
        "timeline": f"/runs/{run}/timeline/",
        "dashboard": "/dashboard/",
        "dashboard-week": "/dashboard/?range=7d",
        "dashboard-month": "/dashboard/?range=30d&workflow=refund",
        "workflow": "/workflows/refund/",
        "workflows": "/workflows/",
        "health": "/health/",
        "members": "/members/",
        "member": "/members/frida/",
        "service": "/members/shop/",
        "teams": "/teams/",
        "team": "/teams/finance/",
        "project": "/settings/",
        "audit": "/settings/audit/",
        "team-hours": "/teams/finance/hours/",
        "project-hours": "/settings/hours/",
        "project-hearing": "/settings/hearing/",
        "account": "/account/",
        "sessions": "/account/sessions/",
        "password": "/account/password/",
    }


def hostile_pages(stack: Stack) -> Pages:
    site = _seeded(stack)
    run_id, ugly = asked(site, **hostile())
    _, huge = asked(site, args={"text": "x" * 400_000, **{f"argument {n}": n for n in range(150)}})
    _, form = asked(site, args=ORDER, properties=ORDERED, editable=["lines", "pay", "due", "gift", "mode"])
    _, many = asked(site, "several", title="Three things at once")
    ended, _ = asked(site, title="T" * 300, facts={"long": "x" * 600})
    site.approve(ended)
    site.wait(ended)
    _month(stack, first="one", team="T" * 60, code="<b>\u202ecode" + "x" * 80)
    broken = [asked(site, args={"amount": number}, title="Pay")[0] for number in (1, 2)]
    stack.sql("UPDATE runs_wait SET closed_at = now() WHERE run_id = %s RETURNING id", [broken[0]])
    stack.sql(ENDED_BY_HAND, [broken[1]])
    pages = {
        "dashboard": "/dashboard/?range=30d",
        "health": "/health/",
        "repair": f"/health/repair/ended/{broken[1]}/",
        "inbox": "/inbox/?view=open",
        "narrowed": "/inbox/?view=open&choose=yes&tool=%3Cb%3E%E2%80%AEx&team=finance&requester=shop&due=none",
        "missing": "/no/such/page/",
        "card": f"/inbox/{ugly}/",
        "edit": f"/inbox/{ugly}/edit/",
        "several": f"/inbox/{many}/",
        "long-card": f"/inbox/{huge}/",
        "long-whole": f"/inbox/{huge}/whole/",
        "long-form": f"/inbox/{form}/edit/",
        "attend": f"/inbox/{ugly}/attend/",
        "together": "/inbox/together/",
        "away": "/away/",
        "runs": "/runs/",
        "run": f"/runs/{run_id}/",
        "ended": f"/runs/{ended}/",
        **{f"run-{part.strip('/')}": f"/runs/{run_id}/{part}" for part in PARTS if part},
        "run-tree": f"/runs/{run_id}/checkpoints/0/?show=tree",
        "rewind": f"/runs/{ended}/rewind/0/",
        "state": f"/runs/{run_id}/edit-state/",
        "cancel": f"/runs/{run_id}/cancel/",
        "tokens": "/tokens/",
    }
    site.close()
    return pages


def steered(stack: Stack) -> Pages:
    """Runs in lanes, with children, that wait for a signal, that have failed, and what operators do with them."""
    site = _seeded(stack)
    stack.sql("UPDATE runs_member SET roles = roles || '{admin}'::varchar[] RETURNING id")
    told = {
        "url": "https://93.184.216.34/hooks",
        "events": ["run.completed", "run.failed", "approval.opened"],
    }
    endpoint = (
        site.as_("olga").post("/webhooks", json={**told, "description": "The books"}).json()["endpoint"]["id"]
    )
    lanes, failed, clash = (
        site.start("research", topic="oolong", **how) for how in ({}, {"fails": True}, {"clashes": True})
    )
    for run_id in (failed, clash):
        until(partial(_failed, site, run_id), seconds=60, what=f"{run_id} has failed")
    until(partial(_asks, site, lanes, 2), seconds=60, what="both questions of the lanes")
    sixty = site.start("sixty", title="Large")
    until(partial(_asks, site, sixty, 4), seconds=60, what="all lanes of the large one")
    long = lengthened(site, title="A long one")
    waits = site.start("waiter", name="signal")
    site.wait(waits, "waiting")
    held = site.start("waiter", name="held")
    site.wait(held, "waiting")
    site.as_("olga").post(f"/runs/{held}/pause", json={"reason": "the bank is closed"})
    run_id, _ = asked(site, args={"amount": 1}, title="Pay one")
    assert site.rewind(run_id, 0, state={"args": {"amount": 2}}).status_code == 202
    site.approval(run_id)
    ended, _ = asked(site, args={"amount": 3}, title="Pay three")
    site.approve(ended)
    site.wait(ended)
    site.as_("olga").post(f"/runs/{ended}/fork", json={"checkpoint": 0, "reason": "what if"})
    first = site.start("by_name", name="acme-1", stops=["k1"])
    site.at_gate("acme-1-k1")
    behind = [site.start("by_name", name=f"acme-{number}") for number in (2, 3)]
    site.close()
    return {
        "line-first": f"/runs/{first}/",
        "line": f"/runs/{behind[1]}/",
        "priority": f"/runs/{behind[1]}/priority/",
        "list": "/runs/",
        "start": "/workflows/research/start/",
        "list-narrowed": "/runs/?status=failed&started=week&label=shop%3Dberlin&q=x",
        "lanes": f"/runs/{lanes}/",
        "lanes-timeline": f"/runs/{lanes}/timeline/",
        "sixty": f"/runs/{sixty}/",
        "long": f"/runs/{long}/",
        "long-history": f"/runs/{long}/history/",
        "long-timeline": f"/runs/{long}/timeline/?from=7000",
        "lanes-edit": f"/runs/{lanes}/edit-state/",
        "failed": f"/runs/{failed}/",
        "retry": f"/runs/{failed}/retry/",
        "conflict": f"/runs/{clash}/",
        "signal": f"/runs/{waits}/",
        "pause": f"/runs/{waits}/pause/",
        "paused": f"/runs/{held}/",
        "resume": f"/runs/{held}/resume/",
        "branches": f"/runs/{run_id}/branches/",
        "label": f"/runs/{run_id}/branches/1/",
        "compare": f"/runs/{run_id}/compare/?branch=1&other_branch=2",
        "ended": f"/runs/{ended}/",
        "fork": f"/runs/{run_id}/fork/0/",
        "rewind": f"/runs/{ended}/rewind/0/",
        "hold": f"/runs/{ended}/hold/",
        "erase": f"/runs/{ended}/erase/",
        "health": "/health/",
        "webhooks": "/webhooks/",
        "endpoint": f"/webhooks/{endpoint}/",
        "deliveries": "/deliveries/",
        "delivery": f"/deliveries/{_first_delivery(stack)}/",
        "bulk": "/runs/bulk/?verb=cancel",
        "bulk-rewind": "/runs/bulk/?verb=rewind&node=draft",
    }


ENDED_BY_HAND: Final = """
    UPDATE runs_run SET status = 'cancelled', finished_at = now(), waiting_for = '[]' WHERE id = %s RETURNING id
"""


def _month(stack: Stack, **names: str) -> None:
    """What a busy project has counted, up to now."""
    stack.sql(month.MONTH, {**month.NAMES, **names})
    stack.sql(month.UNTIL_NOW)


def _first_delivery(stack: Stack) -> str:
    return str(stack.sql("SELECT id FROM runs_delivery ORDER BY created_at LIMIT 1")[0]["id"])


def _seeded(stack: Stack) -> Site:
    site = Site(stack)
    stack.sql("UPDATE runs_user SET password = (SELECT password FROM runs_user WHERE username = 'frida')")
    stack.start(workers=["w1"])
    return site


def _asks(site: Site, run_id: str, count: int) -> bool:
    return len(site.run(run_id)["pending_approvals"]) == count


def _failed(site: Site, run_id: str) -> bool:
    """Whether it has; until then whatever it asks is approved."""
    run = site.run(run_id)
    for approval in run["pending_approvals"]:
        site.decide(approval)
    return bool(run["status"] == "failed")


def _open(stack: Stack, workflow: str = "%") -> list[str]:
    rows = stack.sql(
        "SELECT a.id FROM runs_approval a JOIN runs_run r ON r.id = a.run_id"
        " WHERE a.status = 'open' AND r.workflow LIKE %s ORDER BY a.opened_at",
        [workflow],
    )
    return [str(row["id"]) for row in rows]


# ---- pictures


def everywhere(browser: Browser, shown: Shown, title: str, address: str) -> None:
    for size, theme in LOOKS:
        with opened(browser, shown, address, size, theme) as page:
            name = f"{shown.name}-{title}-{size['width']}-{theme}.png"
            filled(page)
            page.screenshot(path=FOLDER / name, full_page=True)


def filled(page: Page) -> None:
    """What a page asks for by itself is in the picture."""
    expect(page.locator("[data-part]")).to_have_count(0)


def for_docs(browser: Browser, shown: Shown) -> None:
    for name, (theme, height) in IN_DOCS.items():
        size = {"width": 1200, "height": height}
        with opened(browser, shown, shown.pages[name], size, theme) as page:
            page.locator("[data-live-sign]", has_text="Live").wait_for()
            filled(page)
            page.screenshot(path=IMAGES / f"{name}.png")


@contextmanager
def opened(browser: Browser, shown: Shown, address: str, size: Any, theme: Any) -> Iterator[Page]:
    steers = any(part in address for part in STEERS) or shown.name == "steered"
    administers = address.startswith(ADMINISTERS)
    person = "" if address in OPEN_TO_ALL else "ada" if administers else "olga" if steers else "frida"
    context = browser.new_context(
        viewport=size,
        color_scheme=theme,
        base_url=shown.stack.url,
        storage_state=shown.cookies.get(person),
    )
    page = context.new_page()
    if person and person not in shown.cookies:
        sign_in(page, person, shown.password)
        shown.cookies[person] = context.storage_state()
    page.goto(address)
    yield page
    context.close()


def sign_in(page: Page, person: str, password: str) -> None:
    page.goto("/sign-in/")
    page.get_by_label("Name").fill(person)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/inbox/**")


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    IMAGES.mkdir(parents=True, exist_ok=True)
    sys.exit(main())
