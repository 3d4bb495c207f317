"""Fixtures for every folder. The servers are started by tests/kit/plugin.py, before Django's settings are
read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.kit import chromium
from tests.kit.plugin import SERVERS
from tests.kit.servers import Servers
from tests.kit.stack import Stack

LONGEST_FIRST = ("browser", "acceptance", "integration")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take minutes are begun first, so that at the end neither half waits long for the other. The order within a
    kind stays random.
    """
    items.sort(key=_kind)


def _kind(item: pytest.Item) -> int:
    places = [place for place, kind in enumerate(LONGEST_FIRST) if f"/{kind}/" in str(item.path)]
    return places[0] if places else len(LONGEST_FIRST)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hands out whole files, and all that share one expensive thing to the same process: the browser with its site."""
    scheduling = LoadScopeScheduling(config, log)
    scheduling._split_scope = _together
    return scheduling


def _together(nodeid: str) -> str:
    file = nodeid.partition("::")[0]
    return "tests/browser" if file.startswith("tests/browser/") else file


@pytest.fixture(scope="session")
def servers(pytestconfig: pytest.Config) -> Servers:
    return pytestconfig.stash[SERVERS]


@pytest.fixture
def make_stack(servers: Servers) -> Iterator[Callable[..., Stack]]:
    """For a test that chooses its processes: `make_stack(env={…}).start(workers=["w1"])`."""
    made: list[Stack] = []

    def make(**options: dict[str, str]) -> Stack:
        made.append(Stack(servers, **options))
        return made[-1]

    yield make
    for stack in made:
        stack.stop()


@pytest.fixture
def stack(make_stack: Callable[..., Stack]) -> Stack:
    """Web, two workers of one child each, a sweeper."""
    return make_stack().start()


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """`make test` has made sure of it; a bare pytest says what is missing."""
    found = chromium.find()
    if found is None:
        pytest.fail(chromium.ADVICE, pytrace=False)
    return found
