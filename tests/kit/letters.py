"""The workflow of `plain_letters` as it is deployed, version by version."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from runs import operations, workflows
from runs.engine import Workflow
from runs.models import Approval, Run, WorkerChild
from tests.kit.plain_letters import NAME, First, letters, second

__all__ = ["NAME", "First", "deploy", "forgotten", "letters", "parked", "second"]


def deploy(*flows: Workflow) -> None:
    """From now on this is all the code there is, and no worker has another."""
    operations.leave()
    WorkerChild.objects.all().delete()
    workflows.unregister(NAME)
    for flow in flows:
        workflows.register(flow)


def parked(house: Any, **input: Any) -> tuple[Run, Approval]:
    """A run of version 1 at its approval."""
    deploy(letters(1, First))
    run, approval = house.parked(NAME, **input)
    return run, approval


@contextmanager
def forgotten() -> Iterator[None]:
    """Afterwards the workflow is not registered any more."""
    try:
        yield
    finally:
        workflows.unregister(NAME)
