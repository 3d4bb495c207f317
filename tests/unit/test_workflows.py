"""The registry: by name and version, the newest first; what cannot work stops the start and says why."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from celery import signals

from runs import workflows
from runs.engine import Workflow
from runs.errors import UnknownWorkflow, WorkflowError
from tests.unit.engine.graphs import Empty


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    workflows.unregister("shop")


def shop(version: Any = 1, *nodes: str) -> Workflow:
    workflow = Workflow("shop", version=version, state=Empty)
    for node in nodes or ("a",):
        workflow.node(name=node)(lambda state, ctx: None)
    for before, after in pairwise(nodes):
        workflow.edge(before, after)
    return workflow


def test_a_workflow_is_found_by_being_at_the_top_of_its_module() -> None:
    first, second = shop(1), shop(2)
    workflows.register_module(SimpleNamespace(first=first, second=second, other=5, Workflow=Workflow))
    assert workflows.get("shop", "1") is first
    assert workflows.get("shop") is second
    assert second in list(workflows.every())
    assert first not in list(workflows.every())


@pytest.mark.parametrize(
    "versions", [["1", "2"], ["9", "10"], ["1.9", "1.10"], ["1", "1.1"], ["2", "2026"], ["1.2", "1.beta"]]
)
def test_the_newest_version_goes_by_the_value_of_its_numbers(versions: list[str]) -> None:
    for version in reversed(versions):
        workflows.register(shop(version))
    assert workflows.get("shop").version == versions[-1]


def test_a_version_of_development_is_run_by_the_code_that_is_there() -> None:
    workflows.register(shop(1))
    assert workflows.get("shop", "1+dev.0123456789abcdef").version == "1"


def test_what_is_not_registered_is_told_with_what_is() -> None:
    """K7."""
    workflows.register(shop(1))
    workflows.register(shop(2))
    with pytest.raises(UnknownWorkflow, match=r"has no version '3'\. Registered: 1, 2") as caught:
        workflows.get("shop", "3")
    assert caught.value.http_status == 404
    with pytest.raises(UnknownWorkflow, match=r"No workflow is named 'shpo'\. Registered: .*shop"):
        workflows.get("shpo")


def test_two_different_workflows_of_one_name_and_version_stop_the_start() -> None:
    workflows.register(shop(1))
    with pytest.raises(WorkflowError, match="Two different workflows are named 'shop' version '1'"):
        workflows.register(shop(1, "a", "b"))


def test_the_same_workflow_may_be_seen_from_two_modules_and_be_loaded_anew() -> None:
    workflow, reloaded = shop(1), shop(1)
    for module in (
        SimpleNamespace(shop=workflow),
        SimpleNamespace(imported=workflow),
        SimpleNamespace(shop=reloaded),
    ):
        workflows.register_module(module)
    assert workflows.get("shop") is reloaded


def test_what_cannot_work_is_told_with_its_module() -> None:
    with pytest.raises(WorkflowError, match=r"^tea\.workflows: shop: .*'c'") as caught:
        workflows.register_module(SimpleNamespace(__name__="tea.workflows", shop=_with_an_island()))
    assert caught.value.facts["module"] == "tea.workflows"


def test_what_cannot_work_is_not_registered() -> None:
    with pytest.raises(WorkflowError, match="no way leads to 'c'"):
        workflows.register(_with_an_island())
    with pytest.raises(UnknownWorkflow):
        workflows.get("shop")


def _with_an_island() -> Workflow:
    workflow = shop(1, "a", "b")
    workflow.node(name="c")(lambda state, ctx: None)
    return workflow


# ---- queues


def test_a_process_serves_the_queues_it_is_told_or_all(settings: Any) -> None:
    settings.HITL_WORKER_QUEUES = []
    workflow = shop()
    workflow.queue = "tea"
    workflows.register(workflow)
    assert workflows.queues()[0] == "runs"
    assert "tea" in workflows.queues_served()
    settings.HITL_WORKER_QUEUES = ["gpu"]
    assert workflows.queues_served() == ["gpu"]


def test_a_worker_listens_to_the_queues_it_serves(settings: Any) -> None:
    settings.HITL_WORKER_QUEUES = ["gpu", "runs"]
    conf = SimpleNamespace()
    signals.celeryd_init.send(sender="w1", conf=conf)
    assert [(queue.name, queue.routing_key, queue.exchange.name) for queue in conf.task_queues] == [
        ("gpu", "gpu", ""),
        ("runs", "runs", ""),
    ]
