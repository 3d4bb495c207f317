"""Fixtures for every folder. The servers are started by tests/kit/plugin.py, before Django's settings are
read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from xdist.scheduler import LoadScopeScheduling

from tests.kit import chromium
from tests.kit.plugin import SERVERS
from tests.kit.servers import Servers
from tests.kit.stack import Stack

SPREAD = {"browser": (0.0, 0.0), "acceptance": (0.01, 0.7), "integration": (0.02, 1.0), "unit": (1.0, 1.0)}
"""From where to where in the whole the files of a kind begin. The browser is one part for minutes. Acceptance tests wait for half
of their time, in which those of integration compute; the short ones come last, so that no part waits long for another."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order within a kind stays random."""
    files: dict[str, dict[Path, float]] = {}
    for item in items:
        files.setdefault(_kind(item), {})[item.path] = 0.0
    for kind, places in files.items():
        first, last = SPREAD[kind]
        for number, path in enumerate(places):
            places[path] = first + (last - first) * number / len(places)
    items.sort(key=lambda item: files[_kind(item)][item.path])


def _kind(item: pytest.Item) -> str:
    return next((kind for kind in SPREAD if f"/{kind}/" in str(item.path)), "unit")


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


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, servers: Servers
) -> None:
    """Django's own test database is a copy too, if a stack came first: to migrate takes seconds."""
    connection.settings_dict["TEST"]["TEMPLATE"] = servers.template


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
