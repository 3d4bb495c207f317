from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator

import pytest

from hitl.process import tail
from tests.acceptance.site import MakeSite, Site
from tests.kit.servers import Servers
from tests.kit.stack import Stack

logging.getLogger("httpx").setLevel(logging.WARNING)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure shows what the processes said."""
    report = yield
    for site in {value for value in getattr(item, "funcargs", {}).values() if isinstance(value, Site)}:
        if report.failed:
            for log in sorted(site.stack.logs.glob("*.log")):
                report.sections.append((f"log of {log.stem}", tail(log, 40)))
    return report


@pytest.fixture
def make_site(make_stack: Callable[..., Stack]) -> Iterator[MakeSite]:
    """For a test that chooses its processes: `make_site(env={…}, workers=["w1"])`."""
    made: list[Site] = []

    def make(*, env: dict[str, str] | None = None, **processes: object) -> Site:
        stack = make_stack(env=env or {})
        site = Site(stack)
        stack.start(**processes)  # type: ignore[arg-type]
        made.append(site)
        return site

    yield make
    for site in made:
        site.close()


@pytest.fixture(scope="session")
def shared(servers: Servers) -> Iterator[Site]:
    """One for all tests that leave it as they found it. Its lease is so long that takeovers in time come from the locks."""
    stack = Stack(servers, env={"HITL_LEASE_SECONDS": "15"})
    try:
        site = Site(stack)
        stack.start()
        yield site
        site.close()
    finally:
        stack.stop()


@pytest.fixture
def site(shared: Site) -> Site:
    """The shared site with all its processes; what an earlier test killed is started anew."""
    for name in [name for name, child in shared.stack.children.items() if child.status is not None]:
        shared.stack.kill(name)
    missing = {"w1", "w2"} - set(shared.stack.children)
    for name in sorted(missing):
        shared.stack.start_worker(name)
    if "sweeper" not in shared.stack.children:
        shared.stack.start_sweeper()
    shared.begin()
    return shared
