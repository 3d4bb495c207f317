"""POST /api/v1/approvals/{id}/decide."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel, Field

from runs import workflows
from runs.engine import Action, Workflow
from runs.models import Approval, Event, Run, Step, Vote
from tests.integration.api.conftest import (
    Api,
    House,
    api_of,
    at_once,
    denials,
    open_approval,
    pay_flow,
    person,
    token_of,
)
from tests.sizes import size


@pytest.fixture
def pays(define: Callable[..., Workflow]) -> Workflow:
    return pay_flow(define("pays"))


@pytest.fixture
def parked(house: House, pays: Workflow) -> Approval:
    """An approval of `amount: 1`, asked of finance."""
    _, approval = house.parked("pays", x=1)
    return approval


def decide(api: Api, approval: Approval, **body: Any) -> Any:
    return api.post(f"approvals/{approval.pk}/decide", body)


def approve(api: Api, approval: Approval, **more: Any) -> Any:
    return decide(api, approval, **{"version": approval.version, "type": "approve", **more})


def test_an_approval_lets_the_run_go_on(house: House, frida: Api, parked: Approval) -> None:
    reply = approve(frida, parked, comment="fine", digest=parked.digest)
    assert reply.status == 200
    approval, run = reply.body["approval"], reply.body["run"]
    assert (approval["status"], approval["outcome"]) == ("decided", "approve")
    assert [(vote["user"]["username"], vote["comment"], vote["decisive"]) for vote in approval["votes"]] == [
        ("frida", "fine", True)
    ]
    assert (run["id"], run["status"], run["next"]) == (str(parked.run_id), "queued", ["after"])
    done = house.work(Run.objects.get(pk=parked.run_id))
    assert done.status == "completed"


def test_each_action_is_decided_by_its_key(house: House, frida: Api, define: Callable[..., Workflow]) -> None:
    flow = define("two")

    @flow.approval(reviewers=["finance"])
    def ask(state: Any, ctx: Any) -> list[Action]:
        return [Action("pay", {"amount": 1}, editable=["amount"]), Action("write", {"to": "x"})]

    workflows.register(flow)
    _, approval = house.parked("two")
    short = approve(frida, approval)
    assert (short.status, short.paths) == (400, ["/decisions"])
    assert "pay, write" in short.body["errors"][0]["message"]
    half = decide(frida, approval, version=1, decisions=[{"key": "pay", "type": "approve"}])
    assert (half.status, half.codes) == (400, ["missing_action"])
    unknown = decide(frida, approval, version=1, decisions=[{"key": "nope", "type": "approve"}])
    assert (unknown.status, unknown.codes) == (400, ["unknown_action"])
    assert Vote.objects.count() == 0
    whole = decide(
        frida,
        approval,
        version=1,
        decisions=[
            {"key": "write", "type": "reject", "message": "I call them"},
            {"key": "pay", "type": "edit", "args": {"amount": 2}},
        ],
    )
    assert (whole.status, whole.body["approval"]["outcome"]) == (200, "mixed")


def test_an_edit_replaces_the_arguments_and_shows_what_runs(
    house: House, frida: Api, parked: Approval
) -> None:
    """K13. The integer keeps its digits."""
    reply = decide(frida, parked, version=1, type="edit", args={"amount": 2**70})
    assert reply.status == 200
    assert reply.body["approval"]["version"] == 2
    assert reply.body["approval"]["actions"][0]["args"] == {"amount": 2**70}
    run = house.work(Run.objects.get(pk=parked.run_id))
    assert frida.get(f"runs/{run.pk}").body["state"]["log"] == ["before", {"amount": 2**70}]


def test_an_edit_that_changes_nothing_is_an_approval(frida: Api, parked: Approval) -> None:
    """C10 b."""
    reply = decide(frida, parked, version=1, type="edit", args={"amount": 1})
    assert reply.status == 200
    assert (reply.body["approval"]["version"], reply.body["approval"]["votes"][0]["edited"]) == (1, False)


def test_an_edit_beyond_what_may_be_edited_is_refused(frida: Api, parked: Approval) -> None:
    reply = decide(frida, parked, version=1, type="edit", args={"amount": 1, "to": "me"})
    assert (reply.status, reply.code, reply.paths, reply.codes) == (
        422,
        "schema_violation",
        ["/to"],
        ["not_editable"],
    )
    assert reply.body["errors"][0]["in"] == "args"
    parked.refresh_from_db()
    assert (parked.status, parked.version) == ("open", 1)


def test_an_edit_that_breaks_the_schema_is_told_by_pointers(
    house: House, frida: Api, define: Callable[..., Workflow]
) -> None:
    class Pay(BaseModel):
        amount: int = Field(ge=1, le=100)

    flow = define("limits")

    @flow.approval(reviewers=["finance"])
    def ask(state: Any, ctx: Any) -> Action:
        return Action("pay", {"amount": 1}, schema=Pay, editable=["amount"])

    workflows.register(flow)
    _, approval = house.parked("limits")
    for args in ({"amount": 1000}, {"amount": "1"}, {}):
        reply = decide(frida, approval, version=1, type="edit", args=args)
        assert (reply.status, reply.code) == (422, "schema_violation")
    assert Vote.objects.count() == 0


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("NaN", "non_finite_number"),
        ("1e400", "non_finite_number"),
        (r'"a\u0000b"', "nul_character"),
        ('1,"amount":2', "duplicate_key"),
    ],
)
def test_an_edit_that_cannot_be_kept_exactly_is_refused(
    frida: Api, parked: Approval, value: str, code: str
) -> None:
    """C01 b, C02, C10 c."""
    for raw in (
        f'{{"version": 1, "type": "edit", "args": {{"amount": {value}}}}}',
        f'{{"version": 1, "decisions": [{{"key": "pay", "type": "edit", "args": {{"amount": {value}}}}}]}}',
    ):
        reply = frida.ask("POST", f"approvals/{parked.pk}/decide", raw=raw)
        assert (reply.status, reply.codes, reply.paths) == (400, [code], ["/amount"])
        assert reply.body["errors"][0]["in"] == "args"
    parked.refresh_from_db()
    assert (parked.status, parked.version) == ("open", 1)


def test_a_comment_that_cannot_be_stored_is_refused(frida: Api, parked: Approval) -> None:
    """C01 b."""
    raw = r'{"version": 1, "type": "approve", "comment": "a\u0000b"}'
    reply = frida.ask("POST", f"approvals/{parked.pk}/decide", raw=raw)
    assert (reply.status, reply.paths) == (400, ["/comment"])
    assert Vote.objects.count() == 0


def test_arguments_may_be_a_hundred_levels_deep(frida: Api, parked: Approval) -> None:
    """C11."""
    for depth, status in ((98, 200), (100, 400)):
        args = '{"amount": ' + "[" * depth + "]" * depth + "}"
        raw = f'{{"version": 1, "decisions": [{{"key": "pay", "type": "edit", "args": {args}}}]}}'
        reply = frida.ask("POST", f"approvals/{parked.pk}/decide", raw=raw)
        assert reply.status == status if depth > 99 else reply.status in (200, 422), reply.text[:300]


def test_a_reject_without_an_edge_for_it_fails_the_run(house: House, frida: Api, parked: Approval) -> None:
    reply = decide(frida, parked, version=1, type="reject", message="no")
    assert (reply.status, reply.body["approval"]["outcome"]) == (200, "reject")
    assert reply.body["run"]["error"]["code"] == "rejected"


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"version": 1}, "/decisions"),
        ({"version": 1, "type": "maybe"}, "/type"),
        ({"version": "1", "type": "approve"}, "/version"),
        ({"version": 1.0, "type": "approve"}, "/version"),
        ({"version": None, "type": "approve", "digest": "x"}, "/digest"),
        ({"version": 1, "decisions": []}, "/decisions"),
        ({"version": 1, "decisions": [{"key": "pay"}]}, "/decisions/0/type"),
        ({"version": 1, "decisions": [{"key": "pay", "type": "approve", "why": "x"}]}, "/decisions/0/why"),
        ({"version": 1, "decisions": [{"key": "pay", "type": "approve"}], "type": "approve"}, "/type"),
        ({"version": 1, "type": "approve", "verdict": 1}, "/verdict"),
    ],
)
def test_a_body_that_says_something_else_is_refused(
    frida: Api, parked: Approval, body: Any, path: str
) -> None:
    reply = frida.post(f"approvals/{parked.pk}/decide", body)
    assert reply.status == 400, reply.text
    assert path in reply.paths
    assert Vote.objects.count() == 0


def test_arguments_come_with_an_edit_only(frida: Api, parked: Approval) -> None:
    assert approve(frida, parked, args={"amount": 1}).code == "bad_request"


def test_an_answer_that_is_not_offered_is_refused(frida: Api, parked: Approval) -> None:
    reply = decide(frida, parked, version=1, type="respond", message="42")
    assert (reply.status, reply.code) == (403, "decision_not_allowed")
    assert "edit" in reply.body["allowed"]


# ---- versions


def test_without_a_version_nothing_is_decided(frida: Api, parked: Approval) -> None:
    """C57."""
    reply = decide(frida, parked, type="approve")
    assert (reply.status, reply.code) == (428, "version_required")
    assert Vote.objects.count() == 0


def test_a_stale_version_is_refused_with_what_is_there_now(frida: Api, felix: Api, parked: Approval) -> None:
    """C57: 409, or 412 when the version came in If-Match; the document now and the one it was made from."""
    revised = felix.post(f"approvals/{parked.pk}/revise", {"version": 1, "args": {"pay": {"amount": 10}}})
    assert revised.body["version"] == 2
    stale = approve(frida, parked)
    assert (stale.status, stale.code, stale.body["version"]) == (409, "stale_version", 2)
    assert stale.body["digest"] == revised.body["digest"]
    assert stale.body["document"]["actions"][0]["args"] == {"amount": 10}
    assert stale.body["base"]["actions"][0]["args"] == {"amount": 1}
    by_header = frida.post(f"approvals/{parked.pk}/decide", {"type": "approve"}, If_Match='"1"')
    assert (by_header.status, by_header.code) == (412, "stale_version")
    parked.refresh_from_db()
    assert parked.status == "open"


def test_the_version_may_come_in_if_match(frida: Api, parked: Approval) -> None:
    seen = frida.get(f"approvals/{parked.pk}").headers["ETag"]
    assert frida.post(f"approvals/{parked.pk}/decide", {"type": "approve"}, If_Match=seen).status == 200


@pytest.mark.parametrize("header", ["1", "*", '"x"', '"1", "2"', ""])
def test_an_if_match_that_names_no_version_is_refused(frida: Api, parked: Approval, header: str) -> None:
    reply = frida.post(f"approvals/{parked.pk}/decide", {"type": "approve"}, If_Match=header)
    assert (reply.status, reply.code) == (400, "invalid_parameter")


def test_two_versions_that_differ_are_refused(frida: Api, parked: Approval) -> None:
    reply = frida.post(f"approvals/{parked.pk}/decide", {"version": 1, "type": "approve"}, If_Match='"2"')
    assert (reply.status, reply.codes) == (400, ["contradiction"])


def test_another_digest_than_the_one_shown_is_refused(frida: Api, parked: Approval) -> None:
    assert approve(frida, parked, digest="0" * 64).code == "stale_version"


def test_a_document_that_was_changed_in_the_database_is_asked_again(
    committed: None, house: House, frida: Api, parked: Approval
) -> None:
    """One byte changed between view and decision."""
    Approval.objects.filter(pk=parked.pk).update(document=parked.document.replace('"amount":1', '"amount":9'))
    reply = approve(frida, parked)
    assert (reply.status, reply.code) == (409, "payload_changed")
    run = house.work(Run.objects.get(pk=parked.run_id))
    again = open_approval(run)
    assert again.pk != parked.pk
    assert again.content["actions"][0]["args"] == {"amount": 1}
    assert Vote.objects.count() == 0


# ---- twice, and together


def test_the_same_answer_again_is_answered_the_same(frida: Api, parked: Approval) -> None:
    """K12."""
    first, again = approve(frida, parked), approve(frida, parked)
    assert (first.status, again.status) == (200, 200)
    assert Vote.objects.count() == 1


def test_another_answer_afterwards_is_refused_with_who_won(frida: Api, felix: Api, parked: Approval) -> None:
    """K6, K12."""
    approve(frida, parked)
    for api in (felix, frida):
        reply = decide(api, parked, version=1, type="reject", message="no")
        assert (reply.status, reply.code) == (409, "already_decided")
        assert (reply.body["winner"], reply.body["action"]) == ("frida", "approve")
        assert reply.body["decided_at"] is not None
    assert Vote.objects.count() == 1


def test_of_two_at_the_same_time_one_wins(
    committed: None, house: House, frida: Api, felix: Api, pays: Workflow
) -> None:
    """C55: one 200 and one 409 that names the winner; the run goes where the winner said."""
    for _ in range(size("race rounds")):
        run, approval = house.parked("pays", x=1)
        yes = partial(approve, Api(frida.secret), approval)
        no = partial(decide, Api(felix.secret), approval, version=1, type="reject", message="no")
        replies = dict(zip(("frida", "felix"), at_once([yes, no]), strict=True))
        assert sorted(reply.status for reply in replies.values()) == [200, 409]
        winner = next(name for name, reply in replies.items() if reply.status == 200)
        loser = next(reply for reply in replies.values() if reply.status == 409)
        assert (loser.code, loser.body["winner"]) == ("already_decided", winner)
        assert loser.body["action"] == ("approve" if winner == "frida" else "reject")
        assert Vote.objects.filter(approval=approval).count() == 1
        house.work(run)
        assert run.status == ("completed" if winner == "frida" else "failed")
        assert Step.objects.filter(run=run, node="after").count() == (1 if winner == "frida" else 0)


def test_one_person_who_clicks_twice_decides_once(
    committed: None, house: House, frida: Api, pays: Workflow
) -> None:
    """C55."""
    for _ in range(size("race rounds")):
        _, approval = house.parked("pays", x=1)
        twice = [partial(approve, Api(frida.secret), approval) for _ in range(2)]
        assert [reply.status for reply in at_once(twice)] == [200, 200]
        assert Vote.objects.filter(approval=approval).count() == 1


@pytest.mark.parametrize("other", ["edit", "rewind", "cancel"])
def test_an_approval_against_something_else_has_one_winner(
    committed: None, house: House, frida: Api, felix: Api, olga: Api, pays: Workflow, other: str
) -> None:
    """C55: nobody gets a 500, not both lose, and no step runs that nobody approved."""
    for _ in range(size("race rounds")):
        run, approval = house.parked("pays", x=1)
        against: dict[str, Callable[[], Any]] = {
            "edit": partial(decide, Api(felix.secret), approval, version=1, type="edit", args={"amount": 5}),
            "rewind": partial(
                Api(olga.secret).post, f"runs/{run.pk}/rewind", {"checkpoint": 0, "reason": "x"}
            ),
            "cancel": partial(Api(olga.secret).post, f"runs/{run.pk}/cancel"),
        }
        mine, theirs = at_once([partial(approve, Api(frida.secret), approval), against[other]])
        assert mine.status in (200, 409), mine.text
        assert theirs.status in (200, 202, 409), theirs.text
        assert 200 <= min(mine.status, theirs.status) < 300
        house.work(run)
        paid = Step.objects.filter(run=run, node="after", status="completed").count()
        assert paid <= 1
        if mine.status == 409 and other == "cancel":
            assert paid == 0


def test_a_quorum_takes_two_people(
    house: House, frida: Api, felix: Api, define: Callable[..., Workflow]
) -> None:
    pay_flow(define("both"), quorum=2)
    _, approval = house.parked("both", x=1)
    first = approve(frida, approval)
    assert (first.status, first.body["approval"]["status"], first.body["run"]["status"]) == (
        202,
        "open",
        "waiting",
    )
    assert approve(frida, approval).status == 202
    second = approve(felix, approval)
    assert (second.status, second.body["approval"]["status"]) == (200, "decided")
    assert [vote["decisive"] for vote in second.body["approval"]["votes"]] == [False, True]


# ---- who may


def test_the_requester_may_not_decide(house: House, pays: Workflow) -> None:
    """C59: REST, by decision, edit, revision and rewind; a service token of the same person included."""
    maya = person(house.project, "maya", "submitter", "reviewer", "operator")
    house.project.teams.get().people.add(maya.user)
    api = api_of(maya)
    run = Run.objects.get(pk=api.post("runs", {"workflow": "pays", "input": {"x": 1}}).body["id"])
    approval = open_approval(house.work(run))
    for reply in (
        approve(api, approval),
        decide(api, approval, version=1, type="edit", args={"amount": 2}),
        decide(api, approval, version=1, type="reject", message="no"),
        api.post(f"approvals/{approval.pk}/revise", {"version": 1, "args": {"pay": {"amount": 2}}}),
    ):
        assert (reply.status, reply.code) == (403, "self_approval")
    assert len(denials()) == 4
    assert api.post(f"runs/{run.pk}/rewind", {"checkpoint": 0, "reason": "x"}).status in (202, 403)
    again = open_approval(house.work(run))
    assert approve(api, again).code == "self_approval"
    assert api.get(f"approvals/{again.pk}").body["may_decide"] is False
    assert Vote.objects.count() == 0


@pytest.mark.parametrize("name", ["vera", "shop", "olga"])
def test_who_is_not_asked_may_not_decide(house: House, parked: Approval, name: str) -> None:
    api = api_of(getattr(house, name))
    reply = approve(api, parked)
    assert reply.status == 403
    assert reply.code in ("forbidden", "not_a_candidate", "self_approval")
    assert [entry[:2] for entry in denials()] == [(name, "decide")]


def test_deciding_takes_its_scope(house: House, parked: Approval) -> None:
    reply = approve(Api(token_of(house.frida, ["approvals:read"])), parked)
    assert (reply.code, reply.body["scope"]) == ("missing_scope", "approvals:decide")


def test_an_unknown_approval_is_not_found_however_it_is_answered(frida: Api, parked: Approval) -> None:
    for body in (
        {"version": 1, "type": "approve"},
        {"type": "approve"},
        {"version": 1, "decisions": [{"key": "x", "type": "approve"}]},
    ):
        assert frida.post(f"approvals/{uuid.uuid4()}/decide", body).code == "not_found"


def test_a_decision_is_one_event(frida: Api, parked: Approval) -> None:
    before = Event.objects.count()
    approve(frida, parked)
    assert Event.objects.count() == before + 1


def test_a_cancelled_run_leaves_nothing_to_decide(
    house: House, frida: Api, olga: Api, parked: Approval
) -> None:
    """K14."""
    olga.post(f"runs/{parked.run_id}/cancel")
    reply = approve(frida, parked)
    assert (reply.status, reply.code, reply.body["reason"]) == (409, "approval_closed", "run_cancelled")
