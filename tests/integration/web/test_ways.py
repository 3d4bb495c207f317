"""The picture of a run: the edges that it really took, by the steps that it really made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from django.test import Client

from runs import operations, queries, store, tracing, workflows
from runs.engine import END, Workflow
from runs.models import Run
from runs.policies import Actor
from runs.web import ways
from tests.integration.core.conftest import House, define

__all__ = ["define"]

Define = Callable[..., Workflow]
Flow = Callable[..., Workflow]


@pytest.fixture
def flow(define: Define) -> Flow:
    """A single target is an edge; of several one is chosen, as the input `x` says turn by turn; a node in `all_of` takes all."""

    def make(name: str, *, all_of: tuple[str, ...] = (), **edges: list[str]) -> Workflow:
        made = define(name)
        choosing = [node for node, targets in edges.items() if len(targets) > 1 and node not in all_of]
        for node in edges:
            made.node(name=node)(_chooses if node in choosing else lambda state, ctx: None)
        for source, targets in edges.items():
            if source in choosing:
                made.choose(source, lambda state: state.log[0], to=targets)
            for target in targets if source not in choosing else ():
                made.edge(source, target)
        workflows.register(made)
        return made

    return make


def _chooses(state: Any, ctx: Any) -> dict[str, Any]:
    return {"log": state.x[:1], "x": state.x[1:]}


def taken(run: Run) -> dict[tuple[str, str], int]:
    run.refresh_from_db()
    workflow = workflows.get(run.workflow, run.workflow_version)
    joining = {name for edge in ways.joining(workflow) for name in edge}
    line = tracing.line_of(run)
    found = store.ways_taken(run.pk, line, edges=ways.edges_of(workflow), joining=joining)
    return ways.taken(workflow, found, position=queries.head_or_fault(run)[0])


def steps(*told: str) -> dict[tuple[str, str], int]:
    """`a b c` for the way from a over b to c."""
    return dict(Counter(edge for way in told for edge in pairwise(way.split())))


SKIPPING = {"a": ["b", "c"], "b": ["c"], "c": [END]}
DIAMOND = {"s": ["a", "b"], "a": ["j"], "b": ["p", "q", "j"], "p": ["j"], "q": ["j"], "j": [END]}


def test_an_edge_between_two_visited_nodes_may_not_have_been_taken(house: House, flow: Flow) -> None:
    flow("skips", **SKIPPING)
    assert taken(house.work(house.submit("skips", x=["b"]))) == steps("a b c")
    assert taken(house.work(house.submit("skips", x=["c"]))) == steps("a c")


def test_each_edge_of_a_loop_is_counted(house: House, flow: Flow) -> None:
    flow("loops", a=["b"], b=["c", "d"], c=["b"], d=["a", END])
    run = house.work(house.submit("loops", x=["c", "c", "d", "a", "d", END]))
    assert run.status == "completed"
    assert taken(run) == steps("a b c b c b d a b d")


@pytest.mark.parametrize("way", ["p", "q", "j"])
def test_what_led_to_a_join_is_found_though_any_of_several_could_have(
    house: House, flow: Flow, way: str
) -> None:
    flow("joins", all_of=("s",), **DIAMOND)
    run = house.work(house.submit("joins", x=[way]))
    assert run.status == "completed"
    assert taken(run) == steps("s a j", "s b j" if way == "j" else f"s b {way} j")


def test_a_lane_that_waits_at_a_join_has_taken_its_edge(house: House, flow: Flow) -> None:
    flow("joins", all_of=("s",), **DIAMOND)
    run = house.submit("joins", x=["p"])
    for node in ("s", "a"):
        house.advance(run, node)
    assert taken(run) == steps("s a j", "s b")


def test_after_a_rewind_only_what_the_branch_has_is_counted(house: House, flow: Flow) -> None:
    flow("loops", a=["b"], b=["a", END])
    run = house.work(house.submit("loops", x=["a", "a", END]))
    assert taken(run) == steps("a b a b a b")
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=3, reason="so")
    assert taken(run) == steps("a b a b")


def test_the_page_draws_them(house: House, flow: Flow, client_of: Callable[[Actor], Client]) -> None:
    flow("skips", **SKIPPING)
    run = house.work(house.submit("skips", x=["b"]))
    page = client_of(house.vera).get(f"/runs/{run.pk}/").text
    assert "<title>a to c: not taken</title>" in page
    assert "<title>a to b: 1 time</title>" in page
