"""`play` is no second engine: a scenario comes to the same events, checkpoints and output as in Postgres with workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from examples.refund import shop
from examples.refund.workflows import refund
from runs import workflows
from runs.engine import END, START, Action, Child, Question, Retry, Workflow
from runs.testing import Played, edit, play, reject, respond
from tests.integration.core.conftest import Anything, House
from tests.integration.testing.real import Real
from tests.kit.guides import shown

Scenario = Callable[[Any], Any]


def told(played: Played) -> list[dict[str, Any]]:
    """As `Real.told`."""
    found = []
    for run in [Played(played.world, played.worker, played.script, row.id) for row in played.world.runs()]:
        run.verify()
        found.append(
            {
                "workflow": played.world.run(run.id).workflow,
                "status": run.status,
                "kinds": run.kinds,
                "output": run.output,
                "documents": [point.document for point in run.checkpoints],
            }
        )
    return found


def alike(value: Any) -> Any:
    """Without what two runs never have in common: ids, instants and people."""
    if isinstance(value, dict):
        return {
            key: None if key in ("approval", "at", "by", "rejected_by", "run") else alike(inner)
            for key, inner in value.items()
        }
    if isinstance(value, str) and value.startswith("no answer before "):
        return "no answer"
    return [alike(inner) for inner in value] if isinstance(value, list) else value


def compare(
    house: House,
    workflow: Workflow,
    scenario: Scenario,
    *,
    input: Any = None,
    signals: tuple[tuple[str, Any], ...] = (),
    children: tuple[Workflow, ...] = (),
) -> Played:
    """Play a scenario both ways; returns the played one."""
    played = play(workflow, input or {}, signals=signals, children=children)
    scenario(played)
    real = Real.play(house, workflow, input or {}, signals)
    scenario(real)
    for here, there in zip(told(played), real.told(), strict=True):
        assert here["kinds"] == there["kinds"]
        assert alike(here) == alike(there)
    return played


@pytest.fixture
def guide() -> Iterator[dict[str, Any]]:
    with shown("authors") as names:
        yield names


def nothing(side: Any) -> None:
    """Nobody does anything."""


# ---- the authors' guide


@pytest.mark.parametrize("name", ["report", "careful", "reader", "brave", "quick", "paid"])
def test_the_guides_workflows(house: House, guide: dict[str, Any], name: str) -> None:
    assert compare(house, guide[name], nothing).status == "completed"


def test_the_guides_waits(house: House, guide: dict[str, Any]) -> None:
    played = compare(house, guide["order"], lambda side: side.decide("buy"), signals=(("arrived", None),))
    assert played.output["log"] == ["paid 5", "arrived"]


def test_the_guides_children(house: House, guide: dict[str, Any]) -> None:
    def scenario(side: Any) -> None:
        side.decide("buy", reject("too dear"))
        side.decide("buy")

    played = compare(house, guide["shopping"], scenario, children=(guide["order"],))
    assert played.output["log"] == ["reject: too dear", "late", "paid 5", "late"]


def test_the_guides_children_end_with_their_parent(house: House, guide: dict[str, Any]) -> None:
    played = compare(house, guide["shopping"], lambda side: side.cancel(), children=(guide["order"],))
    assert [child.status for child in played.children] == ["cancelled"]


def test_a_rewind_takes_over_children_that_are_done_and_ends_those_under_way(
    house: House, guide: dict[str, Any]
) -> None:
    def scenario(side: Any) -> None:
        side.decide("buy", reject("too dear")).rewind(0).decide("buy")
        side.rewind(0, calls="again").decide("buy", reject("no")).decide("buy", reject("no"))

    played = compare(house, guide["shopping"], scenario, children=(guide["order"],))
    assert played.output["log"] == ["reject: no", "late"] * 2


def test_the_guides_nested_workflow(house: House, guide: dict[str, Any]) -> None:
    played = compare(house, guide["published"], lambda side: side.decide("check/ask"))
    assert played.output["title"] == "approve"


# ---- the refund


@pytest.fixture
def fake_shop(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """A shop that knows one order; what it is told to fail at, it fails at so often for each run that asks."""
    left: dict[str, int] = {}
    failed: dict[str, int] = {}

    def get_order(order_id: str) -> dict[str, Any]:
        if failed.get("get_order", 0) < left.get("get_order", 0):
            failed["get_order"] = failed.get("get_order", 0) + 1
            raise shop.ShopUnavailable("not now")
        failed["get_order"] = 0
        lines = [{"sku": "l", "title": "Lamp", "quantity": 1, "price": "98.90"}]
        told = {"customer": "Ada", "city": "Turin", "placed": "2026-01-01", "delivered": None}
        money = {"paid_with": "card", "currency": "EUR", "total": "98.90", "refunded": "0.00"}
        return {"id": order_id, **told, **money, "refundable": "98.90", "lines": lines}

    def pay(*, order_id: str, amount: str, idempotency_key: str) -> dict[str, Any]:
        if float(amount) > 98.90:
            raise shop.RefundRefused(f"{amount} is more than is left.")
        told = {"order_id": order_id, "amount": amount, "currency": "EUR", "paid_to": "card"}
        return {"id": "r1", **told, "paid_at": "2026-01-02T00:00:00+00:00"}

    def tell(*, order_id: str, text: str, idempotency_key: str) -> dict[str, Any]:
        return {"id": "m1"}

    for function in (get_order, pay, tell):
        monkeypatch.setattr(shop, function.__name__, function)
    return left


REFUNDS: dict[str, Scenario] = {
    "approved": lambda side: side.decide("confirm"),
    "edited": lambda side: side.decide("confirm", edit(amount="5.00")),
    "rejected": lambda side: side.decide("confirm", reject("The lamp was used.")),
    "answered": lambda side: side.decide("confirm", respond("We send a bulb.")),
    "refused": lambda side: side.decide("confirm", edit(amount="500.00")).decide("confirm"),
    "cancelled": lambda side: side.cancel(),
    "rewound": lambda side: side.decide("confirm").rewind(1).decide("confirm"),
    "changed": lambda side: side.rewind(0, {"amount": "7.00"}).decide("confirm"),
    "again": lambda side: (
        side.decide("confirm").rewind(1, calls="again").decide("confirm", edit(amount="6.00"))
    ),
    "another amount": lambda side: side.decide("confirm").rewind(1).decide("confirm", edit(amount="6.00")),
}


@pytest.mark.parametrize("name", REFUNDS)
def test_refunds(house: House, fake_shop: dict[str, int], name: str) -> None:
    compare(house, refund, REFUNDS[name], input={"order_id": "88-4118"})


def test_a_refund_with_a_shop_that_is_away(house: House, fake_shop: dict[str, int]) -> None:
    fake_shop["get_order"] = 3
    played = compare(house, refund, REFUNDS["approved"], input={"order_id": "88-4118"})
    assert played.kinds.count("step_retry_scheduled") == 3


# ---- lanes, failures, loops


def registered(flow: Workflow) -> Workflow:
    workflows.register(flow)
    return flow


def test_lanes_that_conflict_are_mended_and_go_on(house: House, define: Callable[..., Workflow]) -> None:
    flow = define("clash")
    flow.node(name="one")(lambda state, ctx: {"x": 1})
    flow.node(name="two")(lambda state, ctx: {"x": 2})
    flow.node(name="both")(lambda state, ctx: {"log": [state.x]})
    for name in ("one", "two"):
        flow.edge(START, name)
        flow.edge(name, "both")
    registered(flow)
    played = compare(house, flow, lambda side: side.edit_state({"x": 3}).retry())
    assert played.output["log"] == [3]
    assert "step_failed" in played.kinds


def test_a_lane_fails_while_its_sibling_asks(house: House, define: Callable[..., Workflow]) -> None:
    flow = define("half")
    flow.approval(name="ask")(lambda state, ctx: Action("go"))

    @flow.node(retry=Retry(attempts=2))
    def broken(state: Any, ctx: Any) -> None:
        raise RuntimeError("broken")

    flow.edge(START, "ask")
    flow.edge(START, broken)
    registered(flow)
    compare(house, flow, lambda side: side.retry())


def test_items_that_ask_fail_and_are_collected(house: House, define: Callable[..., Workflow]) -> None:
    flow = define("items")

    @flow.fan_out(
        items=lambda state: ["a", "b", "c", "d"], into="log", concurrency=2, on_item_error="collect"
    )
    def one(state: Any, ctx: Any, item: str) -> str:
        if item == "c":
            raise RuntimeError(item)
        return f"{item} {ctx.ask(Action('use', {'item': item})).outcome}"

    registered(flow)

    def scenario(side: Any) -> None:
        for said in ("approve", "reject", "approve"):
            side.decide("one", said)

    played = compare(house, flow, scenario)
    assert [log if isinstance(log, str) else log["error"]["message"] for log in played.output["log"]] == [
        "a approve",
        "b reject",
        "c",
        "d approve",
    ]


def test_a_loop_is_used_up(house: House, define: Callable[..., Workflow]) -> None:
    flow = define("round", state=Anything)
    flow.node(name="again", loop_limit=3)(lambda state, ctx: {"log": [*state.log, 1]})
    flow.choose("again", lambda state: "again", to=["again", END])
    registered(flow)
    assert compare(house, flow, nothing).error["code"] == "loop_limit"


def test_the_time_of_people_runs_out(house: House, define: Callable[..., Workflow]) -> None:
    flow = define("late")
    flow.approval(name="first", due="1h", on_timeout="approve")(lambda state, ctx: Action("go"))

    @flow.node(retry=Retry(attempts=2, initial=60, jitter=0))
    def second(state: Any, ctx: Any) -> dict[str, Any]:
        first = ctx.ask(Action("a"), due="2h")
        return {"log": [first.outcome, ctx.ask(Action("b"), due="3h", on_timeout="fail").outcome]}

    flow.edge("first", second)
    registered(flow)

    def scenario(side: Any) -> None:
        for hours in (1, 2, 3):
            side.advance_time(hours * 3600 + 5)

    played = compare(house, flow, scenario)
    assert (played.status, played.error["code"]) == ("failed", "approval_timeout")


def test_what_lost_a_race_is_closed_and_a_rewind_keeps_the_instant_of_a_sleep(
    house: House, define: Callable[..., Workflow]
) -> None:
    inner, flow = define("inner"), define("race")
    inner.approval(name="never")(lambda state, ctx: Action("go"))

    @flow.node
    def run(state: Any, ctx: Any) -> dict[str, Any]:
        first = ctx.first_of(child=Child("inner", {}), asked=Question(Action("ask")))
        ctx.sleep("5h")
        return {"log": [first.winner, ctx.wait_signal("go").payload]}

    for made in (inner, flow):
        registered(made)

    def scenario(side: Any) -> None:
        side.decide("run").signal("go", 1)
        side.rewind(1).rewind(0).decide("run")

    played = compare(house, flow, scenario, children=(inner,))
    assert [child.status for child in played.children] == ["cancelled", "cancelled"]
