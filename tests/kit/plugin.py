"""Loaded by pytest before anything else (`-p`): the servers must stand before Django's settings are read."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator
from pathlib import Path

import hypothesis
import pytest

from tests.kit.servers import SECRET_KEY, Servers
from tests.sizes import size

SERVERS = pytest.StashKey[Servers]()

for name in [name for name in os.environ if name.startswith("HITL_") and not name.startswith("HITL_TEST_")]:
    del os.environ[name]  # what somebody set for `make up` has no business here


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    servers = Servers()
    early_config.stash[SERVERS] = servers
    early_config.add_cleanup(servers.stop)
    _keep_bytecode(early_config.rootpath / ".pytest_cache" / "bytecode")
    if not _only_hands_out(early_config):
        servers.start()
    os.environ["HITL_SECRET_KEY"] = SECRET_KEY
    os.environ["HITL_DATA_DIR"] = str(servers.folder)
    os.environ["HITL_LOG_FORMAT"] = "text"
    os.environ["HITL_HINTS_AHEAD"] = "100000"  # nobody takes the hints of tests without workers
    os.environ.setdefault("HITL_WORKFLOW_APPS", "examples.refund,examples.sql_change,tests.kit.flows")
    return (yield)


def _keep_bytecode(folder: Path) -> None:
    """Where a shell forbids bytecode beside the sources, each of the hundreds of processes to come would compile all its imports,
    which takes two seconds, and all the rest of a start one. It goes where pytest keeps what it finds again the next time.
    """
    if not sys.dont_write_bytecode:
        return
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = str(folder)
    sys.dont_write_bytecode = False


def _only_hands_out(config: pytest.Config) -> bool:
    """Whether this process gives its tests to others, each of which has servers of its own."""
    splits = bool(getattr(config.known_args_namespace, "numprocesses", 0))
    return splits and "PYTEST_XDIST_WORKER" not in os.environ


def pytest_collection_finish() -> None:
    gc.freeze()  # thousands of tests and all modules stay to the end: nothing to look through for garbage again and again


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.register_profile(
        "hitl",
        max_examples=size("property examples"),
        stateful_step_count=size("stateful steps"),
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    hypothesis.settings.load_profile("hitl")
