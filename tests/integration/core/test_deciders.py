"""Who decides, in which order, in whose place, who works on what, and what the clock does: through operations."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from runs import inboxes, operations, queries, store, workflows
from runs.engine import Action, Ask, Stage, Workflow, canonical
from runs.engine.hours import DAYS
from runs.errors import (
    AlreadyAssigned,
    AlreadyDecided,
    AlreadyVoted,
    ApprovalClosed,
    Forbidden,
    HitlError,
    MissingScope,
    NotACandidate,
    NotAlike,
    NothingDecided,
    ReasonRequired,
    RiskTooHigh,
    SelfApproval,
    StaleVersion,
    TimedOut,
    Unprocessable,
)
from runs.inboxes import asked
from runs.models import ApiToken, Approval, AuditEntry, Event, Run, Team, User, Vote, Wait
from runs.operations import Chosen
from runs.policies import Actor
from tests.integration.core.conftest import (
    House,
    by_sql,
    error_of,
    history_is_whole,
    kinds_of,
    open_approval,
    pay_flow,
    person,
    state_of,
)
from tests.kit.racing import at_once, in_order

Define = Callable[..., Workflow]


def team(house: House, name: str, *people: Actor) -> Team:
    made = Team.objects.create(project=house.project, name=name)
    made.people.add(*(one.user for one in people))
    return made


def fresh(actor: Actor) -> Actor:
    """The same person in their next request."""
    return Actor(actor.user, actor.project, actor.method, actor.address, actor.token)


def again(approval: Approval) -> Approval:
    return Approval.objects.select_related("run", "assignee").get(pk=approval.pk)


def overdue(approval: Approval) -> None:
    """Its time is over, as if nobody had looked for a day."""
    late = timedelta(days=1)
    by_sql("UPDATE runs_approval SET due_at = now() - %s WHERE id = %s", late, approval.pk)
    by_sql(
        "UPDATE runs_wait SET due_at = now() - %s WHERE run_id = %s AND closed_at IS NULL",
        late,
        approval.run_id,
    )


def payload(run: Run, kind: str) -> list[dict[str, Any]]:
    rows = Event.objects.filter(run=run, kind=kind).order_by("seq")
    return [dict(canonical.loads(row.payload or "{}")) for row in rows]


# ---- stages


def test_stages_are_asked_one_after_the_other_and_a_person_counts_once(house: House, define: Define) -> None:
    lea = person(house.project, "lea", "reviewer")
    team(house, "legal", lea, house.frida)
    pay_flow(define("pay"), reviewers=(), stages=[Stage("finance", quorum=2), Stage("legal")])
    run, approval = house.parked("pay", x=1)
    with pytest.raises(NotACandidate):
        house.answer(approval, "approve", by=lea)
    house.answer(approval, "approve", by=house.frida)
    house.answer(approval, "approve", by=house.felix)
    assert (again(approval).stage, again(approval).teams, again(approval).status) == (1, ["legal"], "open")
    with pytest.raises(AlreadyVoted):
        house.answer(approval, "reject", by=fresh(house.frida))
    with pytest.raises(NotACandidate):
        house.answer(approval, "approve", by=fresh(house.felix))
    house.answer(approval, "approve", by=fresh(lea))
    assert house.work(run).status == "completed"
    assert payload(run, "approval_passed_on") == [
        {"approval": str(approval.pk), "stage": 1, "who": ["legal"]}
    ]
    assert history_is_whole(run)


def test_an_edit_asks_the_first_stage_again_and_the_editor_counts_in_their_own(
    house: House, define: Define
) -> None:
    lea = person(house.project, "lea", "reviewer")
    team(house, "legal", lea)
    pay_flow(define("pay"), reviewers=(), stages=[Stage("finance"), Stage("legal")], editor_may_approve=False)
    run, approval = house.parked("pay", x=1)
    house.answer(approval, "approve", by=house.frida)
    house.answer(approval, "edit", args={"amount": 2}, by=lea)
    now = again(approval)
    assert (now.stage, now.version, now.teams) == (0, 2, ["finance"])
    house.answer(now, "approve", by=fresh(house.felix))
    assert house.work(run).status == "completed"
    assert state_of(run)["log"][-1] == {"amount": 2}


def test_a_node_may_ask_whom_its_state_names(house: House, define: Define) -> None:
    workflow = define("pay")
    team(house, "board", house.felix)

    @workflow.approval(reviewers=["finance"])
    def ask(state: Any, ctx: Any) -> Ask:
        return Ask(Action("pay", {"amount": state.x}), reviewers=state.x and ["board"])

    workflows.register(workflow)
    _, approval = house.parked("pay", x=1)
    assert approval.teams == ["board"]
    with pytest.raises(NotACandidate):
        house.answer(approval, "approve", by=house.frida)
    house.answer(approval, "approve", by=house.felix)


# ---- nobody can answer


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"reviewers": ["nowhere"]}, "unknown_team"),
        ({"reviewers": ["empty"]}, "empty_team"),
        ({"reviewers": ["user:shop"]}, "unknown_person"),
        ({"reviewers": ["finance"], "quorum": 3}, "too_few"),
    ],
)
def test_a_question_that_nobody_can_answer_is_found_when_it_opens(
    house: House, define: Define, options: dict[str, Any], code: str
) -> None:
    """C59: asked in a graph and in the middle of code alike."""
    team(house, "empty")
    pay_flow(define("pay"), **options)

    workflow = define("code")

    @workflow.node
    def body(state: Any, ctx: Any) -> None:
        ctx.ask(Action("pay", {}), **options)

    workflows.register(workflow)
    for name in ("pay", "code"):
        run, approval = house.parked(name, x=1)
        [told] = payload(run, "approval_unanswerable")
        assert (told["code"], told["approval"]) == (code, str(approval.pk))
        assert history_is_whole(run)
    assert {lack.code for _, lack in queries.unanswerable(house.project.pk, limit=9)} == {code}


def test_who_asked_as_the_only_candidate_is_nobody(house: House, define: Define) -> None:
    mia = person(house.project, "mia", "submitter", "reviewer")
    pay_flow(define("pay"), reviewers=["user:mia"])
    run = house.work(operations.submit(actor=mia, workflow="pay", input={"x": 1}).run)
    assert payload(run, "approval_unanswerable")[0]["code"] == "only_requester"
    assert queries.unanswerable(house.project.pk, limit=9)
    other = person(house.project, "otto", "reviewer")
    by_sql("UPDATE runs_approval SET users = %s", ["otto"])
    assert queries.unanswerable(house.project.pk, limit=9) == []
    User.objects.filter(pk=other.user.pk).update(is_active=False)
    assert queries.unanswerable(house.project.pk, limit=9)


# ---- for somebody else


def token_of(actor: Actor, *scopes: str) -> Actor:
    row, _ = operations.create_token(actor=actor, name="t", scopes=list(scopes))
    return Actor(actor.user, actor.project, "token", token=ApiToken.objects.get(pk=row.pk))


def test_a_run_for_somebody_else_is_decided_by_neither(house: House, define: Define) -> None:
    """C59: the requester, and who submits in their place; forks and children inherit both."""
    pay_flow(define("pay"))
    bot = person(house.project, "bot", "submitter", "reviewer", service=True)
    Team.objects.get(project=house.project, name="finance").people.add(bot.user)
    with pytest.raises(Forbidden):
        operations.submit(actor=bot, workflow="pay", input={"x": 1}, on_behalf_of="frida")
    with pytest.raises(MissingScope):
        operations.submit(
            actor=token_of(bot, "runs:submit"), workflow="pay", input={"x": 1}, on_behalf_of="frida"
        )
    able = token_of(bot, "runs:submit", "runs:submit_for_others", "approvals:decide")
    with pytest.raises(Unprocessable, match="no member"):
        operations.submit(actor=able, workflow="pay", input={"x": 1}, on_behalf_of="stranger")
    run = operations.submit(actor=able, workflow="pay", input={"x": 1}, on_behalf_of="frida").run
    house.work(run)
    forked = operations.fork(actor=house.olga, run_id=run.pk, checkpoint=run.head, reason="so").run
    house.work(forked)
    for one in (run, forked):
        approval = open_approval(one)
        for actor in (fresh(house.frida), fresh(able)):
            with pytest.raises(SelfApproval):
                house.answer(approval, "approve", by=actor)
        house.answer(approval, "approve", by=fresh(house.felix))


# ---- claim, release, take over, give


def test_what_somebody_works_on_is_answered_by_nobody_else(house: House, define: Define) -> None:
    pay_flow(define("pay"), quorum=2)
    run, approval = house.parked("pay", x=1)
    operations.assign(actor=house.frida, approval_id=approval.pk)
    operations.assign(actor=house.frida, approval_id=approval.pk)  # for another hour; no new event
    for verb in (
        partial(house.answer, approval, "approve", by=house.felix),
        partial(operations.assign, actor=house.felix, approval_id=approval.pk),
        partial(operations.unassign, actor=house.felix, approval_id=approval.pk),
        partial(
            operations.revise,
            actor=house.felix,
            approval_id=approval.pk,
            version=1,
            args={"pay": {"amount": 9}},
        ),
    ):
        with pytest.raises(AlreadyAssigned) as refused:
            verb()
        assert (refused.value.facts["assignee"], bool(refused.value.facts["until"])) == ("frida", True)
    operations.assign(actor=house.felix, approval_id=approval.pk, reason="frida has left for today")
    assert payload(run, "approval_assigned")[1]["taken_from"] == "frida"
    house.answer(approval, "approve", by=house.felix)
    assert again(approval).assignee is None  # who has answered works on it no more
    house.answer(approval, "approve", by=house.frida)
    assert house.work(run).status == "completed"
    assert kinds_of(run).count("approval_assigned") == 2
    assert history_is_whole(run)


def test_a_claim_is_over_by_itself(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    _, approval = house.parked("pay", x=1)
    operations.assign(actor=house.frida, approval_id=approval.pk)
    by_sql("UPDATE runs_approval SET assigned_until = now() - interval '1 second'")
    mine = inboxes.page(house.project.pk, inboxes.Wanted(view="unclaimed"), asked(house.felix), limit=9)
    assert [row.pk for row in mine.rows] == [approval.pk]
    house.answer(approval, "approve", by=house.felix)


def test_an_approval_is_given_to_who_may_decide_it_and_to_nobody_else(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=1)
    give = partial(operations.assign, approval_id=approval.pk)
    give(actor=house.olga, to="felix", reason="you know them")  # an operator, who is not asked
    assert again(approval).assignee == house.felix.user
    with pytest.raises(AlreadyAssigned):
        give(actor=house.olga, to="frida")
    for to, refusal in (("vera", Forbidden), ("olga", NotACandidate), ("shop", SelfApproval)):
        with pytest.raises(refusal):
            give(actor=house.olga, to=to, reason="so")
    with pytest.raises(Unprocessable, match="no member"):
        give(actor=house.olga, to="stranger", reason="so")
    with pytest.raises(Forbidden):
        give(actor=house.vera, to="frida", reason="so")
    with pytest.raises(ReasonRequired):
        operations.unassign(actor=house.olga, approval_id=approval.pk)
    operations.unassign(actor=house.olga, approval_id=approval.pk, reason="he is ill")
    assert [told["reason"] for told in payload(run, "approval_unassigned")] == ["he is ill"]
    assert AuditEntry.objects.filter(verb="assign", outcome__startswith="denied").count() == 4


def test_a_decided_approval_is_nobodys_work(house: House, define: Define) -> None:
    pay_flow(define("pay"), due="1h")
    run, approval = house.parked("pay", x=1)
    operations.cancel(actor=house.olga, run_id=run.pk)
    for verb in (
        partial(operations.assign, actor=house.frida, approval_id=approval.pk),
        partial(operations.unassign, actor=house.frida, approval_id=approval.pk),
        partial(operations.snooze, actor=house.frida, approval_id=approval.pk, until=None),
        partial(
            operations.extend,
            actor=house.frida,
            approval_id=approval.pk,
            due_at=store.now() + timedelta(days=2),
            reason="so",
        ),
    ):
        with pytest.raises(ApprovalClosed):
            verb()


# ---- snooze, extend


def test_a_snoozed_approval_is_out_of_one_inbox_and_its_time_runs_on(house: House, define: Define) -> None:
    pay_flow(define("pay"), due="1h")
    run, approval = house.parked("pay", x=1)

    def sees(actor: Actor) -> bool:
        return bool(inboxes.badge(house.project.pk, asked(fresh(actor))))

    operations.snooze(actor=house.frida, approval_id=approval.pk, until=store.now() + timedelta(hours=4))
    assert (sees(house.frida), sees(house.felix)) == (False, True)
    operations.snooze(actor=house.frida, approval_id=approval.pk, until=None)
    assert sees(house.frida)
    with pytest.raises(Unprocessable):
        operations.snooze(actor=house.frida, approval_id=approval.pk, until=store.now() - timedelta(hours=1))
    overdue(approval)
    house.sweep()
    assert again(approval).status == "expired"
    assert kinds_of(run).count("approval_snoozed") == 2


def test_time_is_extended_to_later_only_and_with_a_reason(house: House, define: Define) -> None:
    pay_flow(define("pay"), due="1h", remind="10m")
    run, approval = house.parked("pay", x=1)
    assert approval.due_at is not None
    later = approval.due_at + timedelta(days=1)
    with pytest.raises(ReasonRequired):
        operations.extend(actor=house.frida, approval_id=approval.pk, due_at=later, reason=" ")
    with pytest.raises(Unprocessable):
        operations.extend(actor=house.frida, approval_id=approval.pk, due_at=approval.due_at, reason="so")
    with pytest.raises(Forbidden):
        operations.extend(actor=house.shop, approval_id=approval.pk, due_at=later, reason="so")
    operations.extend(actor=house.olga, approval_id=approval.pk, due_at=later, reason="the bank is closed")
    now = again(approval)
    assert (now.due_at, now.remind_at) == (later, later - timedelta(minutes=10))
    assert Wait.objects.get(run=run, closed_at=None).due_at == later
    run.refresh_from_db()
    assert run.waiting_for[0]["due"] == later.isoformat()
    assert payload(run, "approval_extended")[0]["reason"] == "the bank is closed"


# ---- substitutes


def away(house: House, who: Actor, substitute: str) -> Any:
    now = store.now()
    return operations.be_away(
        actor=who,
        substitute=substitute,
        starts_at=now - timedelta(hours=1),
        ends_at=now + timedelta(days=7),
    )


def test_a_substitute_answers_in_somebodys_place_and_one_of_them_counts(house: House, define: Define) -> None:
    pay_flow(define("pay"), quorum=2)
    rita = person(house.project, "rita", "reviewer")
    run, approval = house.parked("pay", x=1)
    with pytest.raises(NotACandidate):
        house.answer(approval, "approve", by=rita)
    absence = away(house, house.felix, "rita")
    assert inboxes.badge(house.project.pk, asked(fresh(rita))) == 1
    house.answer(approval, "approve", by=fresh(rita))
    with pytest.raises(AlreadyVoted, match="counts for felix"):
        house.answer(approval, "approve", by=house.felix)
    operations.be_back(actor=house.felix, absence_id=absence.pk)
    house.answer(approval, "approve", by=house.frida)
    assert house.work(run).status == "completed"
    assert Vote.objects.get(user=rita.user).in_place_of == house.felix.user
    _, other = house.parked("pay", x=1)
    with pytest.raises(NotACandidate):
        house.answer(other, "approve", by=fresh(rita))


def test_nobody_decides_about_their_own_run_through_a_substitute(house: House, define: Define) -> None:
    """C59."""
    pay_flow(define("pay"), reviewers=["user:mia"])
    mia = person(house.project, "mia", "submitter", "reviewer")
    rita = person(house.project, "rita", "reviewer", "submitter")
    away(house, mia, "rita")
    run = house.work(operations.submit(actor=mia, workflow="pay", input={"x": 1}).run)
    with pytest.raises(NotACandidate):
        house.answer(open_approval(run), "approve", by=fresh(rita))
    assert inboxes.badge(house.project.pk, asked(fresh(rita))) == 0
    own = house.work(operations.submit(actor=rita, workflow="pay", input={"x": 1}).run)
    with pytest.raises(SelfApproval):
        house.answer(open_approval(own), "approve", by=fresh(rita))


def test_what_falls_to_a_substitute_goes_no_further(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    rita, rolf = (person(house.project, name, "reviewer") for name in ("rita", "rolf"))
    away(house, house.felix, "rita")
    away(house, rita, "rolf")
    _, approval = house.parked("pay", x=1)
    with pytest.raises(NotACandidate):
        house.answer(approval, "approve", by=fresh(rolf))
    User.objects.filter(pk=house.felix.user.pk).update(is_active=False)
    with pytest.raises(NotACandidate):  # who is gone cannot be stood in for
        house.answer(approval, "approve", by=fresh(rita))


def test_an_absence_that_cannot_be_is_refused(house: House) -> None:
    now = store.now()
    week: dict[str, Any] = {"starts_at": now, "ends_at": now + timedelta(days=7)}
    for told in (
        {**week, "substitute": "frida"},
        {**week, "substitute": "stranger"},
        {"starts_at": now, "ends_at": now - timedelta(1), "substitute": "felix"},
        {"starts_at": now, "ends_at": now + timedelta(999), "substitute": "felix"},
    ):
        with pytest.raises(Unprocessable):
            operations.be_away(actor=house.frida, **told)
    operations.be_away(actor=house.frida, substitute="felix", **week)
    with pytest.raises(Unprocessable):
        operations.be_away(actor=house.frida, substitute="felix", **week)
    with pytest.raises(Forbidden):
        operations.be_away(actor=house.felix, user="olga", substitute="frida", **week)
    with pytest.raises(Forbidden):
        operations.be_away(actor=house.vera, substitute="frida", **week)
    ada = person(house.project, "ada", "admin")
    operations.be_away(actor=ada, user="felix", substitute="frida", **week)


# ---- the clock


def test_team_after_team_is_asked_and_then_the_clock_answers(house: House, define: Define) -> None:
    """C63: escalation, then a person, or nobody."""
    lena = person(house.project, "lena", "reviewer")
    team(house, "leads", lena)
    team(house, "board")
    options: dict[str, Any] = {"due": "1h", "on_timeout": "escalate", "escalate_to": ["leads", "board"]}
    pay_flow(define("pay"), **options)
    run, approval = house.parked("pay", x=1)
    with pytest.raises(NotACandidate):
        house.answer(approval, "approve", by=lena)
    overdue(approval)
    assert (house.sweep().expired, house.sweep().expired) == (1, 0)  # once, also if it was late
    now = again(approval)
    assert (now.teams, now.level, now.status) == (["finance", "leads"], 1, "open")
    assert now.due_at is not None
    assert now.due_at > store.now() + timedelta(minutes=55)  # the whole time again
    house.answer(approval, "approve", by=fresh(lena))
    assert house.work(run).status == "completed"
    assert [told["to"] for told in payload(run, "approval_escalated")] == ["leads"]
    run, approval = house.parked("pay", x=1)
    for _ in range(3):
        overdue(approval)
        house.sweep()
    house.work(run)
    assert [told["to"] for told in payload(run, "approval_escalated")] == ["leads", "board"]
    assert (again(approval).status, run.status) == ("expired", "failed")
    assert history_is_whole(run)


def test_who_is_asked_next_is_asked_from_the_instant_on_also_if_nothing_has_noted_it(
    house: House, define: Define
) -> None:
    """C56."""
    lena = person(house.project, "lena", "reviewer")
    team(house, "leads", lena)
    pay_flow(define("pay"), due="1h", escalate_to=["leads"])
    run, approval = house.parked("pay", x=1)
    overdue(approval)
    house.answer(approval, "approve", by=lena)
    assert house.work(run).status == "completed"
    assert kinds_of(run).index("approval_escalated") < kinds_of(run).index("approval_decided")
    _, approval = house.parked("pay", x=1)
    overdue(approval)
    house.sweep()
    overdue(approval)
    with pytest.raises(TimedOut):
        house.answer(approval, "approve", by=fresh(lena))


def test_what_is_asked_in_the_middle_of_code_escalates_too(house: House, define: Define) -> None:
    lena = person(house.project, "lena", "reviewer")
    team(house, "leads", lena)
    workflow = define("code")

    @workflow.node
    def body(state: Any, ctx: Any) -> dict[str, Any]:
        options: dict[str, Any] = {"due": "1h", "escalate_to": ["leads"], "remind": "20m"}
        answer = ctx.ask(Action("pay", {}), reviewers=["finance"], **options)
        return {"x": answer.outcome}

    workflows.register(workflow)
    run, approval = house.parked("code", x=1)
    by_sql("UPDATE runs_approval SET remind_at = now()")
    overdue(approval)
    house.sweep()
    house.answer(again(approval), "approve", by=lena)
    assert house.work(run).status == "completed"
    assert state_of(run)["x"] == "approve"
    assert kinds_of(run).count("approval_escalated") == 1


def test_people_are_reminded_once_also_after_all_was_down(house: House, define: Define) -> None:
    pay_flow(define("pay"), due="2h", remind=["90m", "60m", "10m"])
    run, approval = house.parked("pay", x=1)
    assert house.sweep().reminded == 0
    by_sql("UPDATE runs_approval SET opened_at = opened_at - interval '65 minutes', due_at = due_at - interval "
           "'65 minutes', remind_at = remind_at - interval '65 minutes'")  # fmt: skip
    assert [house.sweep().reminded, house.sweep().reminded] == [1, 0]  # two were missed: one
    now = again(approval)
    assert now.due_at is not None
    assert now.remind_at == now.due_at - timedelta(minutes=10)
    assert kinds_of(run).count("approval_reminded") == 1
    assert history_is_whole(run)


def test_nobody_is_reminded_of_what_is_closed(house: House, define: Define) -> None:
    """C66."""
    pay_flow(define("pay"), due="2h", remind="1h", escalate_to=["finance"])
    run, _ = house.parked("pay", x=1)
    operations.cancel(actor=house.olga, run_id=run.pk)
    by_sql(
        "UPDATE runs_approval SET remind_at = now() - interval '1 hour', due_at = now() - interval '1 hour'"
    )
    swept = house.sweep()
    assert (swept.reminded, swept.expired) == (0, 0)
    assert not {"approval_reminded", "approval_escalated"} & set(kinds_of(run))


def test_working_time_is_that_of_the_team(house: House, define: Define) -> None:
    ada = person(house.project, "ada", "admin")
    all_day = {day: ["00:00", "24:00"] for day in DAYS}
    with pytest.raises(Forbidden):
        operations.set_hours(actor=house.frida, team="finance", hours={"zone": "UTC", "week": all_day})
    operations.set_hours(actor=ada, team="finance", hours={"zone": "Europe/Berlin", "week": all_day})
    pay_flow(define("pay"), due="8 business hours")
    _, approval = house.parked("pay", x=1)
    assert approval.due_at == approval.opened_at + timedelta(hours=8)
    assert approval.options["hours"]["zone"] == "Europe/Berlin"
    weekdays = {"zone": "UTC", "week": {"mon": ["09:00", "09:30"]}}
    operations.set_hours(actor=ada, team="finance", hours=weekdays)
    _, later = house.parked("pay", x=1)
    assert later.due_at is not None
    assert later.due_at - later.opened_at > timedelta(days=90)


# ---- together


def many(house: House, define: Define, count: int, **more: Any) -> list[Approval]:
    workflow = define("tag")
    told = {"effect": "reversible", "risk": "low", **more}

    @workflow.approval(reviewers=["finance"])
    def ask(state: Any, ctx: Any) -> Action:
        return Action("tag", {"x": state.x}, **told)

    workflows.register(workflow)
    return [house.parked("tag", x=n)[1] for n in range(count)]


def chosen(*approvals: Approval) -> list[Chosen]:
    return [Chosen(one.pk, one.version, one.digest) for one in approvals]


def test_several_are_decided_with_one_word_after_a_look(house: House, define: Define) -> None:
    rows = many(house, define, 3)
    together = partial(operations.decide_together, actor=house.frida, chosen=chosen(*rows), word="approve")
    looked = together(dry=True)
    assert (looked.dry, looked.refused, Vote.objects.count()) == (True, [], 0)
    done = together()
    assert [item.decided for item in done.items] == [True] * 3
    assert {again(row).outcome for row in rows} == {"approve"}


def test_if_one_cannot_be_decided_so_none_is(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    rows = many(house, define, 2)
    _, pay = house.parked("pay", x=1)
    stale = Chosen(rows[1].pk, 7)

    def refused(*which: Chosen, by: Actor = house.frida) -> list[str]:
        with pytest.raises(NothingDecided) as nothing:
            operations.decide_together(actor=by, chosen=list(which), word="approve")
        items: Any = nothing.value.facts["items"]
        return [item["code"] for item in items]

    first, second = chosen(*rows)
    assert refused(first, stale) == [StaleVersion.code]
    assert refused(*chosen(rows[0], pay)) == [RiskTooHigh.code]
    assert refused(first, second, by=house.olga) == [NotACandidate.code] * 2
    assert refused(first, second, by=house.shop) == [SelfApproval.code] * 2
    assert refused(first, Chosen("2b0e4f0a-1111-4222-8333-444455556666", 1)) == ["not_found"]
    assert Vote.objects.count() == 0


def test_only_what_asks_the_same_is_decided_together(house: House, define: Define) -> None:
    rows = many(house, define, 2)
    by_sql("UPDATE runs_approval SET node = 'other' WHERE id = %s", rows[1].pk)
    with pytest.raises(NothingDecided) as nothing:
        operations.decide_together(actor=house.frida, chosen=chosen(*rows), word="reject")
    items: Any = nothing.value.facts["items"]
    assert [item["code"] for item in items] == [NotAlike.code]


@pytest.mark.parametrize("told", [{"risk": None}, {"risk": "medium"}, {"effect": "irreversible"}])
def test_what_risks_something_is_decided_alone(house: House, define: Define, told: dict[str, Any]) -> None:
    rows = many(house, define, 2, **told)
    looked = operations.decide_together(actor=house.frida, chosen=chosen(*rows), word="approve", dry=True)
    assert [item.error.code for item in looked.refused if item.error] == [RiskTooHigh.code] * 2


# ---- races


def test_of_two_who_claim_one_has_it(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    for _ in range(3):
        run, approval = house.parked("pay", x=1)
        both = at_once(
            *(
                partial(operations.assign, actor=fresh(who), approval_id=approval.pk)
                for who in (house.frida, house.felix)
            )
        )
        lost = [one.error for one in both if one.error]
        assert [type(error) for error in lost] == [AlreadyAssigned]
        assert kinds_of(run).count("approval_assigned") == 1


def test_an_answer_and_a_take_over_queue_up(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=1)
    take = partial(operations.assign, actor=house.felix, approval_id=approval.pk, reason="mine")
    operations.assign(actor=house.frida, approval_id=approval.pk)
    answer = partial(house.answer, approval, "approve", by=house.frida)
    taken, answered = in_order(run.pk, take, answer)
    assert (taken.error, type(answered.error)) == (None, AlreadyAssigned)
    run, approval = house.parked("pay", x=1)
    operations.assign(actor=house.frida, approval_id=approval.pk)
    take = partial(operations.assign, actor=house.felix, approval_id=approval.pk, reason="mine")
    answered, taken = in_order(run.pk, partial(house.answer, approval, "approve", by=house.frida), take)
    assert (answered.error, type(taken.error)) == (None, AlreadyDecided)


def test_an_answer_and_an_escalation_queue_up(house: House, define: Define) -> None:
    team(house, "leads")
    pay_flow(define("pay"), due="1h", escalate_to=["leads"])
    for answer_first in (True, False):
        run, approval = house.parked("pay", x=1)
        overdue(approval)
        step = run.waiting_for and approval.address
        works: list[Callable[[], Any]] = [
            partial(house.answer, approval, "approve", by=fresh(house.frida)),
            partial(operations.expire, run_id=run.pk, address=str(step)),
        ]
        if not answer_first:
            works.reverse()
        done = in_order(run.pk, *works)
        assert [one.error for one in done] == [None, None]
        assert kinds_of(run).count("approval_escalated") == 1
        assert house.work(run).status == "completed"
        assert history_is_whole(run)


def test_the_clock_on_a_claimed_approval_goes_on(house: House, define: Define) -> None:
    """C61: a time-out is an outcome, whoever works on it."""
    pay_flow(define("pay"), due="1h")
    run, approval = house.parked("pay", x=1)
    operations.assign(actor=house.frida, approval_id=approval.pk)
    overdue(approval)
    house.sweep()
    house.work(run)
    assert (run.status, error_of(run)["code"]) == ("failed", "approval_timeout")
    with pytest.raises(HitlError):
        house.answer(approval, "approve", by=house.frida)
