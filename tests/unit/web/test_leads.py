"""Where each answer leads, as the buttons and the card say it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from runs.engine import Action, Workflow
from runs.web.leads import leads, path


class Note(BaseModel):
    x: Any = None


def flow(**ways: Any) -> Workflow:
    workflow = Workflow("w", state=Note)
    workflow.approval(name="ask")(lambda state, ctx: Action("t"))
    for name in ("pay", "tell", "redraft"):
        workflow.node(name=name)(lambda state, ctx: None)
    workflow.edge("pay", "tell")
    workflow.edge("redraft", "ask")
    if ways:
        workflow.choose("ask", **ways)
    else:
        workflow.edge("ask", "pay")
    return workflow


def test_the_path_is_followed_as_long_as_there_is_one_way() -> None:
    workflow = flow(approve="pay", reject="redraft")
    assert path(workflow, "ask", "approve") == ("pay", "tell")
    assert path(workflow, "ask", "reject") == ("redraft", "ask")


def test_a_reject_without_an_edge_ends_the_run_as_failed() -> None:
    found = leads(flow(), "ask", offered=["reject"], version=1, have=0, quorum=1, reason_required=False)
    assert found[0].brief == "The run ends as failed"


def test_an_answer_without_an_edge_of_its_own_goes_where_the_plain_edge_goes() -> None:
    assert path(flow(), "ask", "respond") == ("pay", "tell")


def test_an_unknown_workflow_says_nothing_wrong() -> None:
    found = leads(
        None,
        "ask",
        offered=["approve", "edit", "reject", "respond"],
        version=3,
        have=1,
        quorum=2,
        reason_required=True,
    )
    assert [(lead.answer, lead.brief) for lead in found] == [
        ("approve", "2 of 2: runs at once"),
        ("edit", "Version 4, new votes"),
        ("reject", "Runs nothing of this"),
        ("respond", "Answer, run nothing"),
    ]


def test_the_first_of_two_votes_says_that_another_is_missing() -> None:
    found = leads(flow(), "ask", offered=["approve"], version=1, have=0, quorum=2, reason_required=False)
    assert found[0].brief == "1 of 2: waits for 1 more vote"


def test_only_what_is_offered_is_shown_in_the_order_of_the_buttons() -> None:
    found = leads(
        flow(), "ask", offered=["respond", "approve"], version=1, have=0, quorum=1, reason_required=False
    )
    assert [lead.answer for lead in found] == ["approve", "respond"]


def test_an_edit_that_is_checked_says_where_it_goes_and_that_it_is_no_vote() -> None:
    found = leads(
        flow(),
        "ask",
        offered=["edit"],
        version=1,
        have=0,
        quorum=1,
        reason_required=False,
        recheck="redraft",
    )
    assert found[0].brief == "Through redraft again, no vote"
    assert found[0].nodes == ("redraft",)
    assert "asked anew" in found[0].text
