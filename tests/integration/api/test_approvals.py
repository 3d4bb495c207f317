"""GET /api/v1/approvals and /approvals/{id}, POST /approvals/{id}/revise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from runs import workflows
from runs.engine import Action, Workflow
from runs.engine.workflow import Ask
from runs.models import Approval, Event, Revision, Run, Vote
from tests.integration.api.conftest import Api, House, denials, pages, pay_flow


@pytest.fixture
def pays(define: Callable[..., Workflow]) -> Workflow:
    return pay_flow(define("pays"), due="24h")


@pytest.fixture
def parked(house: House, pays: Workflow) -> Approval:
    _, approval = house.parked("pays", x=1)
    return approval


def ids(reply: Any) -> list[str]:
    return [one["id"] for one in reply.body["items"]]


# ---- get


def test_an_approval_tells_what_will_be_done_and_who_is_asked(
    frida: Api, vera: Api, parked: Approval
) -> None:
    reply = frida.get(f"approvals/{parked.pk}")
    told = reply.body
    assert reply.headers["ETag"] == '"1"'
    assert (told["run"], told["workflow"], told["node"]) == (str(parked.run_id), "pays", "ask")
    assert (told["status"], told["version"], told["digest"]) == ("open", 1, parked.digest)
    assert told["actions"] == [
        {
            "key": "pay",
            "tool": "pay",
            "args": {"amount": 1},
            "schema": None,
            "allowed": ["approve", "edit", "reject"],
            "editable": ["/amount"],
            "hidden": [],
            "effect": "irreversible",
            "risk": None,
            "unchecked": "",
        }
    ]
    assert (told["teams"], told["users"], told["quorum"], told["on_timeout"]) == (
        ["finance"],
        [],
        1,
        "reject",
    )
    assert told["requester"] == {"username": "shop", "name": "", "is_service": True}
    assert told["due_at"] > told["opened_at"]
    assert (told["votes"], told["may_decide"]) == ([], True)
    assert vera.get(f"approvals/{parked.pk}").body["may_decide"] is False


def test_what_the_agent_says_is_kept_apart(house: House, frida: Api, define: Callable[..., Workflow]) -> None:
    flow = define("notes")

    @flow.approval(reviewers=["finance"])
    def ask(state: Any, ctx: Any) -> Ask:
        return Ask(
            Action("pay", {"amount": 2**70}, risk="high"),
            title="Pay?",
            facts={"Customer": "Ana", "Total": 1.0},
            reason="above the limit",
            agent_note="please do",
        )

    workflows.register(flow)
    _, approval = house.parked("notes")
    told = frida.get(f"approvals/{approval.pk}").body
    assert (told["title"], told["reason"], told["agent_note"]) == ("Pay?", "above the limit", "please do")
    assert told["facts"] == [{"label": "Customer", "value": "Ana"}, {"label": "Total", "value": 1.0}]
    assert (told["actions"][0]["args"], told["risk"]) == ({"amount": 2**70}, "high")


# ---- list


def test_open_approvals_are_listed_oldest_first(house: House, frida: Api, pays: Workflow) -> None:
    made = [str(house.parked("pays", x=n)[1].pk) for n in range(3)]
    assert set(ids(frida.get("approvals"))) == set(made)
    assert ids(frida.get("approvals")) == ids(frida.get("approvals?status=open"))


def test_approvals_are_listed_by_status(house: House, frida: Api, pays: Workflow) -> None:
    _, first = house.parked("pays", x=1)
    _, second = house.parked("pays", x=2)
    house.answer(first, "approve")
    assert ids(frida.get("approvals")) == [str(second.pk)]
    assert ids(frida.get("approvals?status=decided")) == [str(first.pk)]
    assert ids(frida.get("approvals?status=cancelled")) == []


@pytest.mark.parametrize("status", ["open", "decided"])
def test_pages_hold_every_approval_once(house: House, frida: Api, pays: Workflow, status: str) -> None:
    made = [house.parked("pays", x=n)[1] for n in range(5)]
    if status == "decided":
        for approval in made:
            house.answer(approval, "approve")
    found = [one["id"] for page in pages(frida, f"approvals?status={status}&limit=2") for one in page]
    assert sorted(found) == sorted(str(approval.pk) for approval in made)


@pytest.mark.parametrize(
    "query",
    [
        "status=closed",
        "limit=0",
        "teams=finance",
        "cursor=x",
        "status=open&status=decided",
        "view=mine&status=decided",
        "view=decided&status=open",
        "sort=title",
        "risk=huge",
        "due=soon",
    ],
)
def test_an_impossible_parameter_is_refused(frida: Api, query: str) -> None:
    assert frida.get(f"approvals?{query}").status == 400


@pytest.mark.parametrize("many", [1, 4])
def test_a_page_costs_the_same_queries_whatever_it_holds(
    house: House, frida: Api, pays: Workflow, many: int, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for n in range(many):
        house.parked("pays", x=n)
    with django_assert_num_queries(5):  # token, member, approvals, votes, teams
        frida.get("approvals")


# ---- revise


def revise(api: Api, approval: Approval, **body: Any) -> Any:
    return api.post(f"approvals/{approval.pk}/revise", body)


def test_a_revision_is_a_new_version_without_a_vote(
    house: House, frida: Api, felix: Api, parked: Approval
) -> None:
    """K13: earlier votes no longer count."""
    reply = revise(frida, parked, version=1, args={"pay": {"amount": 2**70}}, comment="more")
    assert (reply.status, reply.body["version"], reply.body["status"]) == (200, 2, "open")
    assert reply.body["actions"][0]["args"] == {"amount": 2**70}
    assert reply.body["digest"] != parked.digest
    assert (Vote.objects.count(), Revision.objects.filter(approval=parked).count()) == (0, 2)


def test_a_revision_that_changes_nothing_is_none(frida: Api, parked: Approval) -> None:
    before = Event.objects.count()
    assert revise(frida, parked, version=1, args={"pay": {"amount": 1}}).body["version"] == 1
    assert Event.objects.count() == before


def test_a_stale_revision_is_refused(frida: Api, felix: Api, parked: Approval) -> None:
    """C57."""
    revise(frida, parked, version=1, args={"pay": {"amount": 10}})
    assert revise(felix, parked, version=1, args={"pay": {"amount": 5}}).code == "stale_version"
    assert revise(felix, parked, args={"pay": {"amount": 5}}).code == "version_required"
    by_header = felix.post(f"approvals/{parked.pk}/revise", {"args": {"pay": {"amount": 5}}}, If_Match='"1"')
    assert by_header.status == 412
    assert frida.get(f"approvals/{parked.pk}").body["actions"][0]["args"] == {"amount": 10}


@pytest.mark.parametrize(
    ("args", "status"),
    [({}, 400), ({"nope": {}}, 400), ({"pay": 5}, 400), ({"pay": {"amount": 1, "to": "x"}}, 422)],
)
def test_a_revision_that_does_not_fit_is_refused(
    frida: Api, parked: Approval, args: Any, status: int
) -> None:
    assert revise(frida, parked, version=1, args=args).status == status
    parked.refresh_from_db()
    assert parked.version == 1


def test_who_is_not_asked_may_not_revise(vera: Api, olga: Api, parked: Approval) -> None:
    for api in (vera, olga):
        assert revise(api, parked, version=1, args={"pay": {"amount": 2}}).status == 403
    assert [verb for _, verb, _ in denials()] == ["revise", "revise"]


def test_a_vote_for_an_earlier_version_no_longer_counts(
    house: House, frida: Api, felix: Api, define: Callable[..., Workflow]
) -> None:
    pay_flow(define("both"), quorum=2)
    _, approval = house.parked("both", x=1)
    frida.post(f"approvals/{approval.pk}/decide", {"version": 1, "type": "approve"})
    told = revise(felix, approval, version=1, args={"pay": {"amount": 2}}).body
    assert [(vote["version"], vote["counts"]) for vote in told["votes"]] == [(1, False)]
    second = felix.post(f"approvals/{approval.pk}/decide", {"version": 2, "type": "approve"})
    assert second.status == 202
    assert Run.objects.get(pk=approval.run_id).status == "waiting"
