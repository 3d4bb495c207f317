"""Members, teams, invitations, service accounts: who may change them, what stays true, what is written down (C86, C89)."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core import mail
from django.db import connection

from runs import operations, queries, roster, store
from runs.engine import Workflow
from runs.errors import (
    Conflict,
    Forbidden,
    HitlError,
    InvitationOver,
    InvitedSomebodyElse,
    LastAdmin,
    MissingScope,
    NameTaken,
    NotFound,
    TeamInUse,
    Unprocessable,
    WorksElsewhere,
)
from runs.models import ApiToken, Approval, AuditEntry, Invitation, Member, Project, Team, User
from runs.operations import NewAccount
from runs.operations.tokens import issue_token
from runs.policies import Actor
from tests.integration.core.conftest import House, make_house, pay_flow, person

Define = Callable[..., Workflow]


@pytest.fixture
def ada(house: House) -> Actor:
    return person(house.project, "ada", "admin")


def roles_of(actor: Actor) -> list[str]:
    return Member.objects.get(project=actor.project, user=actor.user).roles


def again(actor: Actor) -> Actor:
    """The same person at their next request."""
    return Actor(User.objects.get(pk=actor.user.pk), actor.project, actor.method, actor.address)


def link(secret: str) -> str:
    return f"https://hitl.example/join/{secret}/"


def invited(actor: Actor, *roles: str, **more: Any) -> tuple[Invitation, str]:
    """An invitation and its secret."""
    made, where = operations.invite(actor=actor, roles=roles or ("viewer",), link=link, **more)
    return made, where.removeprefix("https://hitl.example/join/").rstrip("/")


# ---- who may


VERBS: dict[str, Callable[[Actor], Any]] = {
    "set_roles": lambda actor: operations.set_roles(actor=actor, username="vera", roles=["reviewer"]),
    "remove_member": lambda actor: operations.remove_member(actor=actor, username="vera"),
    "deactivate": lambda actor: operations.deactivate(actor=actor, username="vera"),
    "reactivate": lambda actor: operations.reactivate(actor=actor, username="vera"),
    "create_service_account": lambda actor: operations.create_service_account(
        actor=actor, username="bot", name="Bot", roles=["submitter"]
    ),
    "invite": lambda actor: operations.invite(actor=actor, roles=["viewer"], link=link),
    "create_team": lambda actor: operations.create_team(actor=actor, name="law"),
    "set_people": lambda actor: operations.set_people(actor=actor, team="finance", people=["frida"]),
    "delete_team": lambda actor: operations.delete_team(actor=actor, team="finance"),
    "rename_project": lambda actor: operations.rename_project(actor=actor, name="New"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_only_admins_administer_and_every_attempt_is_written_down(
    house: House, ada: Actor, verb: str
) -> None:
    for actor in (house.vera, house.frida, house.olga, house.shop):
        if actor is house.vera and verb in ("remove_member", "deactivate"):
            continue  # who leaves needs no admin, and nobody closes their own account
        with pytest.raises(Forbidden):
            VERBS[verb](actor)
        assert AuditEntry.objects.latest("pk").outcome == "denied: forbidden"
    outsider = Actor(User.objects.create_user("out"), house.project, "session")
    with pytest.raises(NotFound):
        VERBS[verb](outsider)
    VERBS[verb](ada)
    entry = AuditEntry.objects.latest("pk")
    assert (entry.user_name, entry.verb, entry.outcome) == ("ada", verb, "done")
    assert (entry.method, entry.ip, entry.project) == ("session", "127.0.0.1", house.project)


@pytest.mark.parametrize("verb", VERBS)
def test_a_token_administers_only_with_the_scope(house: House, ada: Actor, verb: str) -> None:
    for scopes in (["runs:read", "runs:operate"], ["admin"]):
        token, _ = issue_token(project=house.project, user=ada.user, name="t", scopes=scopes)
        actor = Actor(ada.user, house.project, "token", token=token)
        if "admin" in scopes:
            VERBS[verb](actor)
        else:
            with pytest.raises(MissingScope):
                VERBS[verb](actor)


def test_an_admin_of_another_project_finds_nobody_here(house: House, ada: Actor) -> None:
    """C86, K11: as if there were no such name."""
    other = make_house("other")
    eve = person(other.project, "eve", "admin")
    for name in ("vera", "nobody-at-all"):
        for act in (operations.remove_member, operations.deactivate, operations.reactivate):
            with pytest.raises(NotFound) as refusal:
                act(actor=eve, username=name)
            assert refusal.value.detail == NotFound().detail
        with pytest.raises(NotFound):
            operations.set_roles(actor=eve, username=name, roles=["viewer"])
        with pytest.raises(Unprocessable, match="Only members"):
            operations.set_people(actor=eve, team="finance", people=[name])
    assert roles_of(house.vera) == ["viewer"]


# ---- roles, leaving


def test_roles_hold_from_the_next_request_on(house: House, ada: Actor) -> None:
    operations.set_roles(actor=ada, username="vera", roles=["operator", "reviewer", "operator"])
    assert roles_of(house.vera) == ["reviewer", "operator"]
    assert again(house.vera).roles == {"reviewer", "operator"}
    assert AuditEntry.objects.latest("pk").reason == "roles: reviewer, operator"


@pytest.mark.parametrize("roles", [[], ["king"], ["viewer", "king"]])
def test_unknown_roles_and_none_are_refused(house: House, ada: Actor, roles: list[str]) -> None:
    with pytest.raises(Unprocessable) as refusal:
        operations.set_roles(actor=ada, username="vera", roles=roles)
    assert refusal.value.errors[0].path == "/roles"


def test_the_last_admin_stays(house: House, ada: Actor) -> None:
    bot = person(house.project, "bot", "admin", service=True)
    gone = person(house.project, "gone", "admin")
    User.objects.filter(pk=gone.user.pk).update(is_active=False)
    ways: list[Callable[[Actor], Any]] = [
        lambda actor: operations.set_roles(actor=actor, username="ada", roles=["viewer"]),
        lambda actor: operations.remove_member(actor=actor, username="ada"),
    ]
    for way in ways:
        with pytest.raises(LastAdmin):
            way(ada)
    with pytest.raises(LastAdmin):  # nobody could sign in to administer
        operations.deactivate(actor=bot, username="ada")
    with pytest.raises(LastAdmin):
        operations.switch_account(username="ada", active=False)
    person(house.project, "amy", "admin")
    operations.set_roles(actor=ada, username="ada", roles=["viewer"])
    assert roles_of(ada) == ["viewer"]


def test_two_admins_who_demote_each_other_at_once_leave_one(house: House, ada: Actor) -> None:
    amy = person(house.project, "amy", "admin")
    start = threading.Barrier(2)
    outcomes: list[str] = []

    def demote(actor: Actor, username: str) -> None:
        start.wait(timeout=30)
        try:
            operations.set_roles(actor=again(actor), username=username, roles=["viewer"])
            outcomes.append("done")
        except HitlError as refusal:
            outcomes.append(refusal.code)
        finally:
            connection.close()

    threads = [threading.Thread(target=demote, args=pair) for pair in ((ada, "amy"), (amy, "ada"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert outcomes.count("done") == 1
    assert Member.objects.filter(project=house.project, roles__contains=["admin"]).count() == 1


def test_who_leaves_takes_teams_and_tokens_along(house: House, ada: Actor) -> None:
    token, _ = issue_token(project=house.project, user=house.frida.user, name="t", scopes=["runs:read"])
    operations.remove_member(actor=house.frida, username="frida")
    token.refresh_from_db()
    assert token.revoked_at is not None
    assert not Team.objects.filter(people=house.frida.user).exists()
    assert again(house.frida).roles == frozenset()
    assert User.objects.get(username="frida").is_active  # other projects are theirs still


# ---- deactivation


def unanswerable(house: House) -> list[Approval]:
    return [approval for approval, _ in queries.unanswerable(house.project.pk, limit=9)]


def test_a_deactivated_person_may_nothing_and_is_no_candidate(
    house: House, ada: Actor, define: Define
) -> None:
    """C89: and what they had started goes on, under their name."""
    pay_flow(define("pays"))
    run, approval = house.parked("pays", x=1)
    operations.deactivate(actor=ada, username="frida")
    with pytest.raises(NotFound):
        house.answer(approval, "approve", by=again(house.frida))
    assert unanswerable(house) == []  # felix is still there
    operations.deactivate(actor=ada, username="felix")
    assert unanswerable(house) == [approval]
    operations.deactivate(actor=ada, username="shop")
    operations.reactivate(actor=ada, username="felix")
    assert unanswerable(house) == []
    house.answer(approval, "approve", by=again(house.felix))
    run = house.work(run)
    assert (run.status, str(run.requester)) == ("completed", "shop")


@pytest.mark.parametrize(
    ("asks", "stranded"),
    [({"reviewers": ["felix"]}, True), ({"reviewers": []}, False), ({"reviewers": ["nobody"]}, True)],
)
def test_what_nobody_can_answer_is_found(
    house: House, define: Define, asks: dict[str, Any], stranded: bool
) -> None:
    """C67: a role that was lost counts as much as an account that was closed."""
    pay_flow(define("pays"), **asks)
    _, approval = house.parked("pays", x=1)
    Member.objects.filter(user=house.felix.user).update(roles=["viewer"])
    assert unanswerable(house) == ([approval] if stranded else [])


def test_an_account_of_other_projects_is_closed_only_by_who_administers_them_all(
    house: House, ada: Actor
) -> None:
    other = make_house("other")
    Member.objects.create(project=other.project, user=house.vera.user, roles=["viewer"])
    for act in (operations.deactivate, operations.reactivate):
        with pytest.raises(WorksElsewhere):
            act(actor=ada, username="vera")
    Member.objects.create(project=other.project, user=ada.user, roles=["admin"])
    operations.deactivate(actor=ada, username="vera")
    assert not User.objects.get(username="vera").is_active


def test_nobody_deactivates_themselves(house: House, ada: Actor) -> None:
    person(house.project, "amy", "admin")
    with pytest.raises(Conflict, match="another admin"):
        operations.deactivate(actor=ada, username="ada")


# ---- service accounts and their tokens


def test_a_service_account_comes_in_by_token_alone(house: House, ada: Actor) -> None:
    made = operations.create_service_account(actor=ada, username="bot", name="Bot", roles=["submitter"])
    assert made.user.is_service
    assert not made.user.has_usable_password()
    token, secret = operations.create_token(actor=ada, user=made.user, name="bot", scopes=["runs:submit"])
    assert token.user == made.user
    assert secret not in str(ApiToken.objects.values())
    with pytest.raises(NameTaken):
        operations.create_service_account(actor=ada, username="bot", name="", roles=["viewer"])
    with pytest.raises(Unprocessable):
        operations.create_service_account(actor=ada, username="a b", name="", roles=["viewer"])


def test_nobody_makes_a_token_that_acts_as_another_person(house: House, ada: Actor) -> None:
    with pytest.raises(Forbidden, match="acts as that person"):
        operations.create_token(actor=ada, user=house.frida.user, name="t", scopes=["approvals:decide"])


def test_a_token_makes_none_that_could_do_more(house: House, ada: Actor) -> None:
    token, _ = issue_token(project=house.project, user=ada.user, name="t", scopes=["admin", "runs:read"])
    actor = Actor(ada.user, house.project, "token", token=token)
    with pytest.raises(MissingScope):
        operations.create_token(actor=actor, name="more", scopes=["runs:operate"])
    operations.create_token(actor=actor, name="less", scopes=["runs:read"])
    reader, _ = issue_token(project=house.project, user=ada.user, name="t", scopes=["runs:read"])
    with pytest.raises(MissingScope):
        operations.create_token(
            actor=Actor(ada.user, house.project, "token", token=reader), name="x", scopes=["runs:read"]
        )


# ---- teams


def test_a_team_that_open_approvals_ask_stays(house: House, ada: Actor, define: Define) -> None:
    pay_flow(define("pays"))
    _, approval = house.parked("pays", x=1)
    with pytest.raises(TeamInUse, match="1 open approval asks"):
        operations.delete_team(actor=ada, team="finance")
    house.answer(approval, "approve")
    operations.delete_team(actor=ada, team="finance")
    assert not Team.objects.filter(project=house.project).exists()


def test_who_is_in_a_team_may_decide_what_it_was_asked_before(
    house: House, ada: Actor, define: Define
) -> None:
    pay_flow(define("pays"))
    _, approval = house.parked("pays", x=1)
    rita = person(house.project, "rita", "reviewer")
    with pytest.raises(Forbidden):
        house.answer(approval, "approve", by=rita)
    operations.set_people(actor=ada, team="finance", people=["rita"])
    with pytest.raises(Forbidden):
        house.answer(approval, "approve", by=again(house.frida))
    house.answer(approval, "approve", by=again(rita))


def test_a_name_of_a_team_is_there_once_a_project(house: House, ada: Actor) -> None:
    with pytest.raises(NameTaken):
        operations.create_team(actor=ada, name="finance")
    for bad in ("", "a b", "x" * 64, "ä"):
        with pytest.raises(Unprocessable):
            operations.create_team(actor=ada, name=bad)
    other = make_house("other")
    with pytest.raises(Unprocessable, match="Only members"):
        operations.create_team(actor=ada, name="law", people=["frida", other.frida.user.username])


# ---- invitations


def test_an_invitation_lets_one_person_in_once(house: House, ada: Actor) -> None:
    made, secret = invited(ada, "reviewer")
    assert secret not in str(Invitation.objects.values())
    account = NewAccount("nina", "Nina New", "a long password", "nina@example.com")
    member = operations.join_by_invitation(secret=secret, account=account, address="10.0.0.9")
    assert (member.roles, member.user.name, member.user.email) == (
        ["reviewer"],
        "Nina New",
        "nina@example.com",
    )
    assert member.user.check_password("a long password")
    entry = AuditEntry.objects.latest("pk")
    assert (entry.user_name, entry.verb, entry.ip) == ("nina", "join_by_invitation", "10.0.0.9")
    with pytest.raises(InvitationOver, match="already come in"):
        operations.accept_invitation(user=house.vera.user, secret=secret)
    with pytest.raises(Conflict, match="already come in"):
        operations.withdraw_invitation(actor=ada, invitation_id=made.pk)


def test_of_two_who_come_at_once_one_comes_in(house: House, ada: Actor) -> None:
    _, secret = invited(ada, "operator")
    start = threading.Barrier(2)
    outcomes: list[str] = []

    def come(name: str) -> None:
        start.wait(timeout=30)
        try:
            account = NewAccount(name, name, "a long password")
            operations.join_by_invitation(secret=secret, account=account)
            outcomes.append("in")
        except HitlError as refusal:
            outcomes.append(refusal.code)
        finally:
            connection.close()

    threads = [threading.Thread(target=come, args=(name,)) for name in ("nina", "nils")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(outcomes) == ["in", "invitation_over"]
    assert User.objects.filter(username__in=["nina", "nils"]).count() == 1


def test_a_member_who_accepts_keeps_their_roles(house: House, ada: Actor) -> None:
    _, secret = invited(ada, "operator")
    assert operations.accept_invitation(user=house.frida.user, secret=secret).roles == [
        "reviewer",
        "operator",
    ]


def test_an_invitation_for_an_address_is_for_that_address(
    house: House, ada: Actor, django_capture_on_commit_callbacks: Any
) -> None:
    _, secret = invited(ada, email=" Nina@Example.com ")
    assert [(one.to, one.subject) for one in mail.outbox] == [
        (["nina@example.com"], "ada invites you to demo")
    ]
    assert link(secret) in mail.outbox[0].body
    with pytest.raises(InvitedSomebodyElse, match=re.escape("for nina@example.com")):
        operations.accept_invitation(user=house.vera.user, secret=secret)
    account = NewAccount("nina", "Nina", "a long password", "mallory@example.com")
    assert operations.join_by_invitation(secret=secret, account=account).user.email == "nina@example.com"


def test_an_invitation_that_is_over_says_why(house: House, ada: Actor) -> None:
    made, secret = invited(ada)
    Invitation.objects.update(expires_at=store.now() - timedelta(seconds=1))
    with pytest.raises(InvitationOver, match="expired"):
        operations.invitation(secret)
    made, secret = invited(ada)
    operations.withdraw_invitation(actor=ada, invitation_id=made.pk)
    operations.withdraw_invitation(actor=ada, invitation_id=made.pk)
    with pytest.raises(InvitationOver, match="withdrawn"):
        operations.accept_invitation(user=house.vera.user, secret=secret)
    with pytest.raises(NotFound):
        operations.invitation("x" * 43)
    other = person(make_house("other").project, "eve", "admin")
    with pytest.raises(NotFound):
        operations.withdraw_invitation(actor=other, invitation_id=made.pk)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"username": "frida"}, "/username"),
        ({"username": "no spaces"}, "/username"),
        ({"name": " "}, "/name"),
        ({"password": "short"}, "/password"),
        ({"password": "password123"}, "/password"),
        ({"password": "4711471147114711"}, "/password"),
        ({"email": "nowhere"}, "/email"),
    ],
)
def test_a_new_account_that_cannot_be_made_is_refused_in_words(
    house: House, ada: Actor, fields: dict[str, str], path: str
) -> None:
    _, secret = invited(ada)
    told = {"username": "nina", "name": "Nina", "password": "a long password", **fields}
    with pytest.raises(HitlError) as refusal:
        operations.join_by_invitation(secret=secret, account=NewAccount(**told))
    assert [problem.path for problem in refusal.value.errors] == [path]
    assert operations.invitation(secret).used_at is None
    assert not User.objects.filter(username="nina").exists()


@pytest.mark.parametrize("fields", [{"email": "nowhere"}, {"days": 0}, {"days": 91}, {"roles": ["king"]}])
def test_an_invitation_that_cannot_be_made_is_refused_in_words(
    house: House, ada: Actor, fields: dict[str, Any]
) -> None:
    with pytest.raises(Unprocessable):
        operations.invite(**{"actor": ada, "roles": ["viewer"], "link": link, **fields})
    assert not Invitation.objects.exists()


def test_a_mail_server_that_is_away_undoes_nothing(house: House, ada: Actor, settings: Any) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    _, secret = invited(ada, email="nina@example.com")
    assert operations.invitation(secret).email == "nina@example.com"


# ---- projects, and the audit


def test_a_project_is_founded_with_its_admin(house: House) -> None:
    project = operations.create_project(slug="second", name="Second", admin=house.vera.user)
    assert Member.objects.get(project=project).roles == ["admin"]
    with pytest.raises(NameTaken):
        operations.create_project(slug="second", name="Again")
    for slug in ("", "Big", "-x", "x-", "a b", "x" * 64):
        with pytest.raises(Unprocessable):
            operations.create_project(slug=slug, name="x")
    assert Project.objects.count() == 2


def test_the_audit_of_administration_is_read_page_by_page(house: House, ada: Actor) -> None:
    for number in range(7):
        operations.rename_project(actor=ada, name=f"Name {number}")
    make_house("other")
    first = roster.administered(house.project.pk, limit=5)
    rest = roster.administered(house.project.pk, before=first.rows[-1].pk, limit=5)
    said = [entry.reason for entry in [*first.rows, *rest.rows]]
    assert said == [f"name: Name {number}" for number in range(6, -1, -1)]
    assert (first.more, rest.more) == (True, False)
