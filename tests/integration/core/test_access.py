"""Who may do what to a run, on every path to it, and what is written down about it (C59)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runs import operations
from runs.engine import Workflow
from runs.errors import Forbidden, HitlError, MissingScope, NotFound, SelfApproval
from runs.models import Approval, AuditEntry, Run, Team, User, Vote
from runs.policies import (
    Actor,
    can,
    can_cancel,
    can_decide,
    can_fork,
    can_prioritise,
    can_steer,
    check_submit,
)
from tests.integration.core.conftest import House, make_house, open_approval, pay_flow, person

Define = Callable[..., Workflow]
OK, NO, OWN, UNASKED, NONE = "ok", "forbidden", "self_approval", "not_a_candidate", "not_found"
FIELD = "field_not_editable"  # of a state whose fields the author has not opened to reviewers

#                           submit   cancel   decide   revise   edit     rewind   preview  fork     prioritise
TABLE = {
    "viewer":              (NO,      NO,      NO,      NO,      NO,      NO,      NO,      NO,      NO),
    "submitter":           (OK,      NO,      NO,      NO,      NO,      NO,      NO,      NO,      NO),
    "requester":           (OK,      OK,      OWN,     OWN,     NO,      NO,      NO,      NO,      NO),
    "reviewer":            (NO,      NO,      UNASKED, UNASKED, UNASKED, UNASKED, UNASKED, NO,      NO),
    "candidate":           (NO,      NO,      OK,      OK,      FIELD,   OK,      OK,      NO,      NO),
    "viewer in the team":  (NO,      NO,      NO,      NO,      NO,      NO,      NO,      NO,      NO),
    "operator":            (OK,      OK,      UNASKED, UNASKED, OK,      OK,      OK,      OK,      OK),
    "asked operator":      (OK,      OK,      OK,      OK,      OK,      OK,      OK,      OK,      OK),
    "admin":               (NO,      NO,      NO,      NO,      NO,      NO,      NO,      NO,      NO),
    "outsider":            (NONE,    NONE,    NONE,    NONE,    NONE,    NONE,    NONE,    NONE,    NONE),
    "of another project":  (OK,      NONE,    NONE,    NONE,    NONE,    NONE,    NONE,    NONE,    NONE),
    "left":                (NONE,    NONE,    NONE,    NONE,    NONE,    NONE,    NONE,    NONE,    NONE),
    "superuser":           (NONE,    NONE,    NONE,    NONE,    NONE,    NONE,    NONE,    NONE,    NONE),
}  # fmt: skip
VERBS = ("submit", "cancel", "decide", "revise", "edit_state", "rewind", "preview", "fork", "prioritise")


def people(house: House) -> dict[str, Actor]:
    project = house.project
    finance = Team.objects.get(project=project, name="finance")
    found = {
        "viewer": house.vera,
        "submitter": person(project, "sam", "submitter"),
        "requester": house.shop,
        "reviewer": person(project, "rita", "reviewer"),
        "candidate": house.frida,
        "viewer in the team": person(project, "vito", "viewer"),
        "operator": house.olga,
        "asked operator": person(project, "otto", "operator"),
        "admin": person(project, "ada", "admin"),
        "outsider": Actor(User.objects.create_user("out"), project, "session"),
        "of another project": make_house("other").olga,
        "left": person(project, "lea", "operator", "reviewer"),
        "superuser": Actor(User.objects.create_superuser("root"), project, "session"),
    }
    User.objects.filter(username="lea").update(is_active=False)
    found["left"].user.refresh_from_db()
    finance.people.add(found["viewer in the team"].user, found["asked operator"].user, found["left"].user)
    return found


def tried(actor: Actor, verb: str, run: Run, approval: Approval) -> str:
    """What comes of a verb: `ok`, or the code of the refusal."""
    run.refresh_from_db()
    given: dict[str, Any] = {"actor": actor, "run_id": run.pk}
    decision = operations.ActionDecision("pay", "approve")
    answer = operations.Answer(approval.pk, approval.version, approval.digest, [decision])
    works: dict[str, Callable[[], Any]] = {
        "submit": lambda: operations.submit(actor=actor, workflow="pay", input={}),
        "cancel": lambda: operations.cancel(**given),
        "decide": lambda: operations.decide(actor=actor, answers=[answer]),
        "revise": lambda: operations.revise(
            actor=actor, approval_id=approval.pk, version=approval.version, args={"pay": {"amount": 5}}
        ),
        "edit_state": lambda: operations.edit_state(
            **given, version=run.version, changes={"x": 2}, reason="so"
        ),
        "rewind": lambda: operations.rewind(**given, checkpoint=0, reason="so"),
        "preview": lambda: operations.preview_rewind(**given, checkpoint=0),
        "fork": lambda: operations.fork(**given, checkpoint=0, reason="so"),
        "prioritise": lambda: operations.prioritise(**given, priority=7),
    }
    try:
        works[verb]()
    except HitlError as refusal:
        return refusal.code
    return OK


def test_who_may_do_what(house: House, define: Define) -> None:
    pay_flow(define("pay"), quorum=9)
    someone = people(house)
    assert someone.keys() == TABLE.keys()
    run, approval = house.parked("pay", x=1)
    wrong = []
    for verb_at, verb in enumerate(VERBS):
        for who, row in TABLE.items():
            got = tried(someone[who], verb, run, approval)
            if got != row[verb_at]:
                wrong.append((who, verb, got))
            if got == OK and verb not in ("submit", "decide", "preview"):
                run, approval = house.parked("pay", x=1)
    assert wrong == []


def test_what_is_shown_is_what_is_allowed(house: House, define: Define) -> None:
    """`can_*` answers as `check_*` raises."""
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=1)
    for who, actor in people(house).items():
        row = dict(zip(VERBS, TABLE[who], strict=True))
        assert can(check_submit, actor) == (row["submit"] == OK), who
        assert can_cancel(actor, run) == (row["cancel"] == OK), who
        assert can_decide(actor, run, approval) == (row["decide"] == OK), who
        assert can_steer(actor, run) == (row["rewind"] == OK), who
        assert can_fork(actor, run) == (row["fork"] == OK), who
        assert can_prioritise(actor, run) == (row["prioritise"] == OK), who


# ---- the requester (C59)


@pytest.fixture
def mia(house: House) -> Actor:
    """Asks for a run, and is everything one can be beside that."""
    actor = person(house.project, "mia", "submitter", "reviewer")
    actor.user.is_staff = actor.user.is_superuser = True
    actor.user.save()
    Team.objects.get(project=house.project, name="finance").people.add(actor.user)
    return actor


def of(actor: Actor) -> Run:
    return operations.submit(actor=actor, workflow="pay", input={"x": 1}).run


def test_who_asked_for_a_run_does_not_decide_about_it_on_any_path(
    house: House, define: Define, mia: Actor
) -> None:
    pay_flow(define("pay"))
    run = house.work(of(mia))
    approval = open_approval(run)
    given: dict[str, Any] = {"actor": mia, "run_id": run.pk}
    for path in (
        lambda: house.answer(approval, "approve", by=mia),
        lambda: house.answer(approval, "reject", by=mia),
        lambda: house.answer(approval, "edit", args={"amount": 2}, by=mia),
        lambda: operations.revise(actor=mia, approval_id=approval.pk, version=1, args={"pay": {"amount": 2}}),
        lambda: operations.edit_state(**given, version=run.version, changes={"x": 2}, reason="so"),
        lambda: operations.rewind(**given, checkpoint=0, reason="so"),
        lambda: operations.preview_rewind(**given, checkpoint=0),
    ):
        with pytest.raises(SelfApproval):
            path()
    approval.refresh_from_db()
    assert (approval.status, approval.version, Vote.objects.count()) == ("open", 1, 0)
    denied = AuditEntry.objects.filter(user_name="mia", outcome="denied: self_approval")
    assert sorted(denied.values_list("verb", flat=True)) == [
        "decide", "decide", "decide", "edit_state", "revise", "rewind",
    ]  # fmt: skip


def test_a_rewind_by_others_does_not_make_the_requester_a_reviewer(
    house: House, define: Define, mia: Actor
) -> None:
    pay_flow(define("pay"))
    run = house.work(of(mia))
    operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="again")
    house.work(run)
    with pytest.raises(SelfApproval):
        house.answer(open_approval(run), "approve", by=mia)
    house.answer(open_approval(run), "approve")
    assert house.work(run).status == "completed"


def test_a_workflow_may_let_the_requester_decide(house: House, define: Define, mia: Actor) -> None:
    pay_flow(define("pay"), requester_may_decide=True)
    run = house.work(of(mia))
    house.answer(open_approval(run), "approve", by=mia)
    assert house.work(run).status == "completed"


# ---- tokens


@pytest.mark.parametrize(
    ("scope", "verbs"),
    [
        ("runs:read", ()),
        ("runs:submit", ("submit", "cancel")),
        ("runs:operate", ("edit_state", "rewind", "preview", "fork", "prioritise")),
        ("approvals:decide", ("decide", "revise")),
    ],
)
def test_a_token_may_what_its_scopes_say_and_no_more(
    house: House, define: Define, scope: str, verbs: tuple[str, ...]
) -> None:
    pay_flow(define("pay"), requester_may_decide=True, quorum=9)
    user = person(house.project, "all", "submitter", "operator", "reviewer").user
    Team.objects.get(project=house.project, name="finance").people.add(user)
    everything = Actor(user, house.project, "session")
    token, _ = operations.create_token(actor=everything, name="t", scopes=[scope])
    actor = Actor(user, house.project, "token", token=token)
    for verb in VERBS:
        run = house.work(of(everything))
        got = tried(actor, verb, run, open_approval(run))
        assert got == (OK if verb in verbs else MissingScope.code), verb


# ---- the audit


def test_what_was_done_and_what_was_denied_is_written_down(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    run, approval = house.parked("pay", x=1)
    with pytest.raises(Forbidden):
        house.answer(approval, "approve", by=house.vera)
    with pytest.raises(NotFound):
        house.answer(approval, "approve", by=make_house("other").frida)
    with pytest.raises(NotFound):
        operations.cancel(actor=house.olga, run_id="no id")
    house.answer(approval, "approve")
    operations.cancel(actor=house.olga, run_id=run.pk, reason="enough")
    told = AuditEntry.objects.order_by("id").values_list("user_name", "verb", "target", "outcome", "ip")
    assert list(told) == [
        ("shop", "submit", "pay", "done", "127.0.0.1"),
        ("vera", "decide", str(approval.pk), "denied: forbidden", "127.0.0.1"),
        ("frida-other", "decide", str(approval.pk), "denied: not_found", "127.0.0.1"),
        ("olga", "cancel", "no id", "denied: not_found", "127.0.0.1"),
        ("frida", "decide", str(approval.pk), "done", "127.0.0.1"),
        ("olga", "cancel", str(run.pk), "done", "127.0.0.1"),
    ]
    mine = AuditEntry.objects.exclude(user_name="frida-other")
    assert set(mine.values_list("project", "method")) == {(house.project.pk, "session")}


def test_what_was_not_done_is_not_written_down_as_done(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    _, approval = house.parked("pay", x=1)
    with pytest.raises(HitlError):
        house.answer(approval, "approve", version=7)
    assert not AuditEntry.objects.filter(verb="decide").exists()
