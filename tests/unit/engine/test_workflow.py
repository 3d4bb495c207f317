"""What an author declares: collected as written, checked at registration, every refusal naming the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from runs.engine import END, START, Action, Retry, Workflow, append
from runs.engine.durations import seconds
from runs.engine.stages import Stage
from runs.engine.workflow import Way
from runs.errors import WorkflowError


class State(BaseModel):
    n: int = 0
    log: Annotated[list[str], append] = []


class Other(BaseModel):
    n: int = 0
    log: Annotated[list[str], append] = []
    more: str = ""


def body(state: Any, ctx: Any) -> None:
    return None


def ask(state: Any, ctx: Any) -> Action:
    return Action("pay")


def pick(state: Any, decision: Any = None) -> str:
    return END


def built(*names: str, approvals: str = "", **options: Any) -> Workflow:
    """A workflow with these nodes (those in `approvals` are approvals) and no edge yet."""
    workflow = Workflow("shop", state=options.pop("state", State), **options)
    for name in names:
        if name in approvals.split():
            workflow.approval(name=name)(ask)
        else:
            workflow.node(name=name)(body)
    return workflow


# ---- declaring


def test_a_node_is_declared_with_and_without_parentheses_and_stays_a_function() -> None:
    workflow = Workflow("shop", state=State)

    @workflow.node
    def bare(state: Any, ctx: Any) -> dict[str, int]:
        return {"n": 1}

    @workflow.node(retry=Retry(attempts=5), loop_limit=7)
    def dressed(state: Any, ctx: Any) -> None: ...

    @workflow.approval
    def gate(state: Any, ctx: Any) -> Action:
        return Action("pay")

    @workflow.approval(reviewers="finance", due="24h", name="second")
    def other(state: Any, ctx: Any) -> Action:
        return Action("pay")

    assert bare(None, None) == {"n": 1}
    assert list(workflow.nodes) == ["bare", "dressed", "gate", "second"]
    assert [node.kind for node in workflow.nodes.values()] == ["function", "function", "approval", "approval"]
    assert (workflow.nodes["dressed"].retry.attempts, workflow.nodes["dressed"].loop_limit) == (5, 7)
    options = workflow.nodes["second"].approval
    assert options is not None
    assert (options.reviewers, options.due, options.on_timeout, options.quorum) == (
        ("finance",),
        86400.0,
        "reject",
        1,
    )


def test_edges_take_names_or_functions() -> None:
    workflow = Workflow("shop", state=State)

    @workflow.node
    def first(state: Any, ctx: Any) -> None: ...

    @workflow.node(name="the-second")
    def second(state: Any, ctx: Any) -> None: ...

    @workflow.approval(name="gate")
    def third(state: Any, ctx: Any) -> Action:
        return Action("pay")

    workflow.edge(first, second)
    workflow.edge("the-second", third)
    workflow.choose(third, approve=END, reject=first, limit=END)
    workflow.validate()
    assert workflow.way("first").plain == "the-second"
    assert workflow.way("the-second").plain == "gate"
    assert workflow.way("gate").outcomes == {"approve": END, "reject": "first"}


def test_the_first_node_is_the_entry_unless_start_says_another() -> None:
    workflow = built("a", "b")
    assert workflow.entry == "a"
    workflow.edge(START, "b")
    workflow.edge("b", "a")
    workflow.validate()
    assert workflow.entry == "b"


def test_a_node_without_an_edge_leads_to_the_end() -> None:
    assert built("a").way("a").targets == (END,)


def test_every_target_is_named_once_in_the_order_of_declaration() -> None:
    way = Way(outcomes={"approve": "b", "reject": "a", "mixed": "b"}, limit="a")
    assert way.targets == ("b", "a")
    assert Way(router=pick, to=("b", END, "b"), limit="c").targets == ("b", END, "c")


# ---- refusing


def two_edges(workflow: Any) -> Workflow:
    workflow.edge("a", "b")
    workflow.edge("a", "c")
    return built()


REFUSED_AT_ONCE: dict[str, tuple[Callable[[Any], Any], str, str | None]] = {
    "the same edge twice": (lambda w: [w.edge("a", "b"), w.edge("a", "b")], "declared twice", "a"),
    "an edge and a choose": (
        lambda w: [two_edges(w), w.choose("a", pick, to=["b"])],
        "a way on already",
        "a",
    ),
    "two limits": (
        lambda w: [w.edge("a", "b", limit="c"), w.edge("a", "c", limit=END)],
        "two limits, 'c' and 'END'",
        "a",
    ),
    "two ways for an error": (
        lambda w: [w.on_error("a", "b"), w.on_error("a", "c")],
        "on_error('a') is declared twice",
        "a",
    ),
    "an error of the start": (lambda w: w.on_error(START, "b"), "START cannot fail", START),
    "an edge after a choose": (lambda w: [w.choose("g", approve="a"), w.edge("g", "b")], "has a choose", "g"),
    "a choose after an edge": (
        lambda w: [w.edge("g", "a"), w.choose("g", approve="a")],
        "a way on already",
        "g",
    ),
    "two chooses": (
        lambda w: [w.choose("g", approve="a"), w.choose("g", approve="b")],
        "a way on already",
        "g",
    ),
    "an outcome that does not exist": (lambda w: w.choose("g", aprove="a"), "no outcome 'aprove'", "g"),
    "a choose at the start": (lambda w: w.choose(START, pick, to=["a", "b"]), "START", START),
    "two nodes of one name": (lambda w: w.node(name="a")(body), "two nodes are named 'a'", "a"),
    "an approval with the name of a node": (
        lambda w: w.approval(name="a")(ask),
        "two nodes are named 'a'",
        "a",
    ),
    "a node named START": (lambda w: w.node(name="START")(body), "cannot name a node", "START"),
    "a node named END": (lambda w: w.node(name="END")(body), "cannot name a node", "END"),
    "a name with a space": (lambda w: w.node(name="a b")(body), "cannot name a node", "a b"),
    "a name that begins with a digit": (lambda w: w.node(name="1a")(body), "cannot name a node", "1a"),
    "a name with a line end": (lambda w: w.node(name="a\n")(body), "cannot name a node", "a\n"),
    "a name of 101 characters": (lambda w: w.node(name="x" * 101)(body), "cannot name a node", "x" * 101),
    "the name of a lambda": (lambda w: w.node(lambda state, ctx: None), "cannot name a node", "<lambda>"),
    "no duration": (
        lambda w: w.approval(name="h", due="soon")(ask),
        "approval 'h' of 'shop': due='soon'",
        None,
    ),
}


@pytest.mark.parametrize("name", REFUSED_AT_ONCE)
def test_a_declaration_that_cannot_be_meant_is_refused_where_it_stands(name: str) -> None:
    declare, words, node = REFUSED_AT_ONCE[name]
    workflow = built("a", "b", "c", "g", approvals="g")
    with pytest.raises(WorkflowError, match="shop") as caught:
        declare(workflow)
    assert words in caught.value.detail
    assert caught.value.facts.get("node") == node


def looped(*edges: tuple[str, list[str]], entry: str | None = None) -> Workflow:
    """Function nodes, each with the targets that its router may answer."""
    workflow = built(*[source for source, _ in edges])
    for source, targets in edges:
        workflow.choose(source, pick, to=targets)
    if entry:
        workflow.edge(START, entry)
    return workflow


def wired(declare: Callable[[Any], Any], *names: str, approvals: str = "") -> Workflow:
    workflow = built(*(names or ("a", "b")), approvals=approvals)
    declare(workflow)
    return workflow


REFUSED_AT_REGISTRATION: dict[str, tuple[Workflow, str, str | None]] = {
    "no node": (built(), "at least one node", None),
    "a target that is no node": (wired(lambda w: w.edge("a", "c")), "'a' leads to 'c'", "a"),
    "a target of a choose that is no node": (
        wired(
            lambda w: [w.edge("a", "g"), w.choose("g", approve="b", reject="nowhere")],
            "a",
            "b",
            "g",
            approvals="g",
        ),
        "'g' leads to 'nowhere'",
        "g",
    ),
    "a limit that is no node": (
        wired(lambda w: w.choose("a", pick, to=["a", "b"], limit="c")),
        "'a' leads to 'c'",
        "a",
    ),
    "a source that is no node": (wired(lambda w: [w.edge("a", "b"), w.edge("c", "a")]), "leaves 'c'", "c"),
    "an edge from the end": (wired(lambda w: [w.edge("a", "b"), w.edge(END, "a")]), "leaves 'END'", END),
    "an edge to the start": (
        wired(lambda w: [w.edge("a", "b"), w.edge("b", START)]),
        "leads to 'START'",
        "b",
    ),
    "an entry that is no node": (wired(lambda w: w.edge(START, "c")), "'START' leads to 'c'", START),
    "the end as entry": (wired(lambda w: w.edge(START, END)), "no way leads to 'a', 'b'", "a"),
    "a node that nothing leads to": (wired(lambda w: w.edge("a", END)), "no way leads to 'b'", "b"),
    "a loop that nothing leads to": (
        looped(("a", [END]), ("b", ["c"]), ("c", ["b", END])),
        "no way leads to 'b', 'c'",
        "b",
    ),
    "a node before the entry": (looped(("a", ["b"]), ("b", [END]), entry="b"), "no way leads to 'a'", "a"),
    "a dead end": (looped(("a", ["b", END]), ("b", ["b"])), "from 'b' no way leads to the end", "b"),
    "a loop without a way out": (looped(("a", ["b"]), ("b", ["a"])), "from 'a' no way leads to the end", "a"),
    "a choose that chooses nothing": (
        wired(lambda w: [w.edge("a", "b"), w.choose("b")]),
        "needs a router",
        "b",
    ),
    "a choose that only has a limit": (wired(lambda w: w.choose("a", limit="b")), "needs a router", "a"),
    "an approval that only has a limit": (
        wired(lambda w: w.choose("g", limit="b"), "g", "b", approvals="g"),
        "says nothing of approve=",
        "g",
    ),
    "an approval whose choose chooses nothing": (
        wired(lambda w: w.choose("g"), "g", approvals="g"),
        "says nothing of approve=",
        "g",
    ),
    "a loop with two entrances": (
        looped(("a", ["b", "c"]), ("b", ["c"]), ("c", ["b", END])),
        "the loop of 'c' and 'b' has two entrances",
        "b",
    ),
    "a loop entered beside its header": (
        looped(("a", ["b", "d"]), ("b", ["c"]), ("c", ["d"]), ("d", ["b", END])),
        "has two entrances",
        "b",
    ),
    "outcomes of a node that is no approval": (
        wired(lambda w: w.choose("a", approve="b")),
        "'a' is no approval",
        "a",
    ),
    "a router without to": (
        wired(lambda w: [w.edge("a", "b"), w.choose("b", pick, limit="a")]),
        "needs to=",
        "b",
    ),
    "to without a router": (wired(lambda w: w.choose("a", to=["b"])), "needs a router", "a"),
    "a router beside outcomes": (
        wired(lambda w: w.choose("g", pick, to=[END], approve="b"), "g", "b", approvals="g"),
        "both a router and outcomes",
        "g",
    ),
    "an approval that says nothing of approve": (
        wired(lambda w: w.choose("g", reject="b"), "g", "b", approvals="g"),
        "says nothing of approve=",
        "g",
    ),
    "a loop of no passes": (
        wired(lambda w: w.node(name="c", loop_limit=0)(body), "a"),
        "loop_limit of 'c' is at least 1",
        "c",
    ),
}


@pytest.mark.parametrize("name", REFUSED_AT_REGISTRATION)
def test_a_graph_that_cannot_work_is_refused_naming_the_node(name: str) -> None:
    workflow, words, node = REFUSED_AT_REGISTRATION[name]
    with pytest.raises(WorkflowError, match="shop") as caught:
        workflow.validate()
    assert words in caught.value.detail
    assert caught.value.facts.get("node") == node


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"quorum": 0}, "'g': a quorum is a whole number, at least 1"),
        ({"reject_quorum": 0}, "'g': a quorum is a whole number, at least 1"),
        ({"on_timeout": "escalate", "due": "1h"}, "'g': on_timeout='escalate' needs escalate_to="),
        ({"on_timeout": "explode"}, "'g': on_timeout is one of reject, approve, escalate, fail"),
        ({"stages": [Stage("a")], "quorum": 2}, "'g': stages have reviewers and quorums of their own"),
        ({"stages": [Stage("a", quorum=0)]}, "'g': a quorum is a whole number"),
        ({"escalate_to": ["leads"]}, "'g': escalate_to= and remind= need due="),
        ({"remind": "1h"}, "'g': escalate_to= and remind= need due="),
        ({"remind": "2h", "due": "1h"}, "'g': a reminder comes before the time is over"),
        ({"reasons": ["x" * 81]}, "'g': reasons are up to 12 short texts"),
        ({"reasons": ["x"] * 13}, "'g': reasons are up to 12 short texts"),
        ({"reasons": [""]}, "'g': reasons are up to 12 short texts"),
        ({"reviewers": [""]}, "'g': reviewers are names of teams"),
        ({"escalate_to": ["user:"], "due": "1h"}, "'g': reviewers are names of teams"),
        ({"loop_limit": 0}, "loop_limit of 'g' is at least 1"),
        ({"loop_limit": "3"}, "loop_limit of 'g' is at least 1"),
        ({"retry": 5}, "retry of 'g' is a Retry"),
        ({"stages": [5]}, "'g': stages are Stage"),
        ({"remind": [None], "due": "1h"}, "'g': remind= is a length of time"),
        ({"editor_may_approve": "no"}, "'g': editor_may_approve is True or False"),
        ({"retry": None}, "retry of 'g' is a Retry"),
    ],
)
def test_an_approval_that_cannot_work_is_refused_naming_it(options: dict[str, Any], words: str) -> None:
    """K8."""
    workflow = Workflow("shop", state=State)
    workflow.approval(name="g", **options)(ask)
    with pytest.raises(WorkflowError, match=words) as caught:
        workflow.validate()
    assert caught.value.facts["node"] == "g"


def shop(**options: Any) -> Any:
    made = Workflow(**{"name": "shop", "state": State, **options})
    made.node(name="a")(body)
    return made


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda: shop(name=5), "Name and title of a workflow are texts, not 5"),
        (lambda: shop(title=5), "Name and title of a workflow are texts"),
        (lambda: shop(state=5), "pydantic models .the class., not 5"),
        (lambda: shop(input=5), "pydantic models .the class., not 5"),
        (lambda: shop(output=5), "shop: output is a model or a function, not 5"),
        (lambda: shop(max_steps="x"), "shop: max_steps='x' is no whole number"),
        (lambda: shop(limits=5), "shop: limits is a list, not 5"),
        (lambda: shop().node(name=5)(body), "shop: 5 cannot name a node"),
        (lambda: shop().approval(name="g", stages=5)(ask), "approval 'g' of 'shop': stages is a list, not 5"),
        (lambda: shop().approval(name="g", reviewers=5)(ask), "reviewers is a list, not 5"),
        (lambda: shop().approval(name="g", reasons=5)(ask), "reasons is a list, not 5"),
        (lambda: shop().choose("a", 5, to=["a"]), "the router of 'a' is a function, not 5"),
        (lambda: shop().choose("a", body, to=5), "choose.'a'.: to= is a list, not 5"),
        (lambda: shop().subflow("s", 5), "subflow.'s', ….* takes a Workflow, not 5"),
        (lambda: Stage(5), "Stage: reviewers is a list, not 5"),  # type: ignore[arg-type]
    ],
)
def test_an_argument_of_a_wrong_type_is_named_where_it_is_declared(
    declare: Callable[[], Any], words: str
) -> None:
    with pytest.raises(WorkflowError, match=words):
        declare().validate()


@pytest.mark.parametrize("name", ["", "a b", "1st", "x" * 101, "é", "a/b", "a\n"])
def test_a_workflow_has_a_name_that_fits_an_address(name: str) -> None:
    workflow = Workflow(name, state=State)
    workflow.node(name="a")(body)
    with pytest.raises(WorkflowError, match="cannot name a workflow"):
        workflow.validate()


@pytest.mark.parametrize("version", ["", " ", "1 2", "²", "x" * 40, "1+dev.abc", "a/b", "1\n", "\0"])
def test_a_workflow_has_a_version_that_can_be_kept_and_asked_for(version: str) -> None:
    workflow = Workflow("shop", version=version, state=State)
    workflow.node(name="a")(body)
    with pytest.raises(WorkflowError, match="shop: version"):
        workflow.validate()


@pytest.mark.parametrize("version", [1, 10, "1", "2026.11", "1.2-rc.1", "x" * 39])
def test_a_version_is_a_number_or_a_short_text(version: int | str) -> None:
    workflow = Workflow("shop", version=version, state=State)
    workflow.node(name="a")(body)
    workflow.validate()
    assert workflow.version == str(version)


# ---- durations


@pytest.mark.parametrize(
    ("due", "expected"),
    [
        (None, None),
        (90, 90.0),
        (0.5, 0.5),
        ("90s", 90),
        ("30m", 1800),
        ("24h", 86400),
        ("7d", 604800),
        ("2w", 1209600),
        ("1.5h", 5400),
        (" 5 m ", 300),
    ],
)
def test_a_duration_is_seconds_or_a_short_text(due: Any, expected: float | None) -> None:
    assert seconds(due, where="here") == expected


@pytest.mark.parametrize(
    "due",
    [
        0,
        -1,
        float("nan"),
        float("inf"),
        1e10,
        "0s",
        "0.0h",
        "99999w",
        True,
        "nan",
        "-5m",
        "5",
        "5 years",
        "",
        "1e3s",
    ],
)
def test_a_duration_that_is_none_is_refused_saying_where(due: Any) -> None:
    """C02."""
    with pytest.raises(WorkflowError, match=r"^here: due="):
        seconds(due, where="here")


# ---- the fingerprint


def sample(**changes: Any) -> Workflow:
    workflow = Workflow("shop", version=changes.get("version", 1), state=changes.get("state", State))
    workflow.node(name="a", retry=changes.get("retry", Retry()), loop_limit=changes.get("loop_limit", 3))(
        changes.get("body", body)
    )
    workflow.approval(name="g", quorum=changes.get("quorum", 1), due=changes.get("due"))(ask)
    workflow.node(name="b")(body)
    workflow.edge("a", changes.get("after_a", "g"))
    workflow.choose("g", approve=changes.get("approve", "b"), reject=changes.get("reject", "a"))
    if changes.get("more"):
        workflow.node(name="c")(body)
        workflow.edge("b", "c")
    return workflow


def other_body(state: Any, ctx: Any) -> dict[str, Any]:
    return {"n": 2}


def test_the_fingerprint_stays_when_only_bodies_and_retries_change() -> None:
    """K7."""
    assert sample().fingerprint == sample(body=other_body, retry=Retry(attempts=9)).fingerprint


@pytest.mark.parametrize(
    "changes",
    [
        {"state": Other},
        {"quorum": 2},
        {"due": "1h"},
        {"loop_limit": 4},
        {"reject": "b"},
        {"approve": "a"},
        {"after_a": "b"},
        {"more": True},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_the_fingerprint_changes_with_graph_and_schema(changes: dict[str, Any]) -> None:
    """K7."""
    assert sample(**changes).fingerprint != sample().fingerprint


def test_the_shape_is_data_that_a_picture_can_be_drawn_from() -> None:
    shape = sample().shape
    assert (shape["name"], shape["entry"]) == ("shop", "a")
    assert [(node["name"], node["kind"]) for node in shape["nodes"]] == [
        ("a", "function"),
        ("g", "approval"),
        ("b", "function"),
    ]
    assert shape["nodes"][1]["edges"] == [{"to": "b", "when": "approve"}, {"to": "a", "when": "reject"}]
    assert shape["nodes"][2]["edges"] == [{"to": END, "when": ""}]
    assert shape["state"]["properties"].keys() == {"n", "log"}


def test_an_input_field_that_the_state_does_not_keep_is_refused() -> None:
    class Asked(BaseModel):
        colour: str

    class Kept(BaseModel):
        shade: str = ""

    flow = Workflow("lost", state=Kept, input=Asked)
    flow.node(name="only")(lambda state, ctx: None)
    with pytest.raises(WorkflowError, match="'colour'"):
        flow.validate()
