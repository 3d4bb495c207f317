"""A site with people, workflows that ask what a test tells them, and browsers that are signed in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Dialog, Page, Response, expect, sync_playwright

from tests.acceptance.seed import PASSWORD
from tests.acceptance.site import Site
from tests.kit.postbox import Postbox, postbox
from tests.kit.servers import Servers
from tests.kit.stack import APPS, Stack

WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
PATIENCE = 15_000  # ms: a busy machine is not a fault of a page; what is there at once is seen at once

expect.set_options(timeout=PATIENCE)


class Loop:
    """Playwright's event loop, which it leaves marked as running between two calls. Beside the mark neither Django's database nor
    `asyncio.run` would work in other tests of this process, so it is there only while a test of the browser runs.
    """

    def __init__(self) -> None:
        self._marked: asyncio.AbstractEventLoop | None = None

    def enter(self) -> None:
        asyncio._set_running_loop(self._marked)

    def leave(self) -> None:
        self._marked = asyncio._get_running_loop()
        asyncio._set_running_loop(None)


LOOP = Loop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if item.get_closest_marker("browser") is None:  # this hook is asked for the tests of all folders
        return (yield)
    LOOP.enter()
    try:
        return (yield)
    finally:
        LOOP.leave()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/browser" in str(item.path):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser(chromium_path: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path)
        yield browser
        LOOP.enter()  # the last test of this process may be none of the browser
        browser.close()


@pytest.fixture(scope="session")
def mail() -> Iterator[Postbox]:
    """The mail server of the site. People have no address until a test gives them one."""
    with postbox() as found:
        yield found


@pytest.fixture(scope="session")
def site(servers: Servers, mail: Postbox) -> Iterator[Site]:
    """One for all tests here: web, a worker, a sweeper. Each test starts runs of its own."""
    apps = ",".join([*APPS, "tests.browser.flows"])
    stack = Stack(servers, env={"HITL_WORKFLOW_APPS": apps, "HITL_SMTP_URL": mail.url})
    try:
        site = Site(stack)
        stack.sql(
            "UPDATE runs_user SET password = (SELECT password FROM runs_user WHERE username = 'frida')"
            " WHERE NOT is_service"
        )
        stack.start(workers=["w1"])
        yield site
        site.close()
    finally:
        stack.stop()


@pytest.fixture(autouse=True)
def _leaves_nothing_open(site: Site) -> Iterator[None]:
    """The inbox shows fifty rows: what one test asks is not among what another looks at. Runs of a module's fixtures stay."""
    mark = len(site.started)
    yield
    site.cancel_since(mark)


class Watched:
    """A browser context with its page, and everything in it that should not have happened."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.context, self.url = context, url
        self.faults: list[str] = []
        self.page = self.open()

    def open(self) -> Page:
        page = self.context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        page.on("dialog", self._dialog)
        page.on("response", self._note)
        page.on("console", lambda said: self._console(said.type, said.text))
        page.on("request", lambda request: self._request(request.url))
        return page

    def _dialog(self, dialog: Dialog) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _note(self, response: Response) -> None:
        if response.status >= 500:
            self.faults.append(f"{response.status} {response.url}")

    def _console(self, kind: str, text: str) -> None:
        if kind == "error" and "status of 4" not in text:
            self.faults.append(f"console: {text[:300]}")

    def _request(self, url: str) -> None:
        if not url.startswith((self.url, "data:")):
            self.faults.append(f"request to {url}")


Opens = Callable[..., Watched]


@pytest.fixture
def opens(browser: Browser, site: Site) -> Iterator[Opens]:
    """`opens("frida")`: her browser, signed in; `opens(None)`: nobody's. Fails at the end if anything went wrong in it."""
    made: list[Watched] = []

    def open_(person: str | None = "frida", **options: Any) -> Watched:
        state = _signed_in(browser, site, person) if person else None
        given = {"viewport": WIDE, "base_url": site.stack.url, "storage_state": state, **options}
        made.append(Watched(browser.new_context(**given), site.stack.url))
        return made[-1]

    yield open_
    for watched in made:
        watched.context.close()
    assert [fault for watched in made for fault in watched.faults] == []


@pytest.fixture
def frida(opens: Opens) -> Page:
    return opens("frida").page


@pytest.fixture
def olga(opens: Opens) -> Page:
    return opens("olga").page


_states: dict[tuple[str, str], Any] = {}


def _signed_in(browser: Browser, site: Site, person: str) -> Any:
    """Cookies of a person who signed in on the page, once a session."""
    key = (site.stack.url, person)
    if key not in _states:
        context = browser.new_context(base_url=site.stack.url)
        page = context.new_page()
        sign_in(page, person)
        _states[key] = context.storage_state()
        context.close()
    return _states[key]


def sign_in(page: Page, person: str) -> None:
    page.goto("/sign-in/")
    page.get_by_label("Name").fill(person)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/inbox/**")
