from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.acceptance.site import MakeSite, Site
from tests.kit.servers import Servers
from tests.kit.stack import Stack


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


@pytest.fixture(scope="module")
def shared(servers: Servers) -> Iterator[Site]:
    """One for the tests of a module: each leaves it with web, w1, w2 and sweeper alive (`whole` makes sure)."""
    stack = Stack(servers)
    try:
        site = Site(stack)
        stack.start()
        yield site
        site.close()
    finally:
        stack.stop()


@pytest.fixture
def site(shared: Site) -> Site:
    """The module's site with all its processes; what an earlier test killed is started anew."""
    for name in [name for name, child in shared.stack.children.items() if child.status is not None]:
        shared.stack.kill(name)
    missing = {"w1", "w2"} - set(shared.stack.children)
    for name in sorted(missing):
        shared.stack.start_worker(name)
    if "sweeper" not in shared.stack.children:
        shared.stack.start_sweeper()
    return shared
