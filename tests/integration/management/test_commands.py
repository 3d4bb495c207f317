"""Commands that work on the data."""

from __future__ import annotations

import uuid
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from pytest_django import Settings

from runs import operations, store
from runs.engine import canonical
from runs.models import ApiToken, Checkpoint, Event, Member, Run, Team, User
from runs.operations.tokens import token_digest
from runs.policies import Actor

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture(autouse=True)
def development(settings: Settings) -> None:
    settings.DEBUG = True
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


def said(*words: str, **options: Any) -> str:
    out = StringIO()
    call_command(*words, stdout=out, stderr=StringIO(), **options)
    return out.getvalue()


def token_in(text: str) -> str:
    return next(word for word in text.split() if word.startswith("hitl_"))


# ---- demo_data


def test_demo_data_makes_people_a_team_a_token_and_refunds() -> None:
    text = said("demo_data")
    frida = User.objects.get(username="frida")
    assert frida.check_password("demo")
    assert list(Team.objects.get(name="finance").people.order_by("username")) == [
        User.objects.get(username="felix"),
        frida,
    ]
    assert Member.objects.get(user__username="shop").roles == ["submitter"]
    assert not User.objects.get(username="shop").has_usable_password()
    assert ApiToken.objects.get().digest == token_digest(token_in(text))
    assert Run.objects.filter(workflow="refund", status="queued").count() == 3
    assert Run.objects.filter(workflow="sql_change", status="queued").count() == 1


def test_demo_data_again_adds_nothing_and_shows_no_token() -> None:
    said("demo_data")
    text = said("demo_data")
    assert "hitl_" not in text
    assert "frida" in text
    assert (User.objects.count(), ApiToken.objects.count(), Run.objects.count()) == (6, 1, 4)


def test_demo_data_leaves_alone_what_somebody_changed() -> None:
    said("demo_data")
    frida = User.objects.get(username="frida")
    frida.set_password("mine")
    frida.save()
    Team.objects.get(name="finance").people.remove(frida)
    said("demo_data")
    frida.refresh_from_db()
    assert frida.check_password("mine")
    assert frida not in Team.objects.get(name="finance").people.all()


def test_demo_data_makes_no_known_passwords_outside_development(settings: Settings) -> None:
    settings.DEBUG = False
    assert "HITL_DEBUG" in said("demo_data")
    assert not User.objects.exists()


# ---- create_token


def test_create_token_prints_nothing_but_the_token() -> None:
    said("demo_data")
    secret = said("create_token", "olga", "--days", "7")
    token = ApiToken.objects.get(digest=token_digest(secret.strip()))
    assert secret.startswith("hitl_")
    assert token.scopes == ["runs:read", "runs:submit", "runs:operate", "approvals:read"]
    assert token.expires_at is not None
    assert (token.expires_at - token.created_at).days in (6, 7)


def test_create_token_takes_only_the_scopes_that_are_told() -> None:
    said("demo_data")
    said("create_token", "frida", "--scope", "runs:read", "--scope", "approvals:decide")
    assert ApiToken.objects.get(user__username="frida").scopes == ["runs:read", "approvals:decide"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nobody"], "felix, frida, olga, shop, vera"),
        (["olga", "--project", "other"], "There are: demo"),
        (["olga", "--days", "0"], "from 1 to 3650"),
        (["olga", "--name", " "], "a name of 1 to 100 characters"),
    ],
)
def test_create_token_says_what_would_be_right(words: list[str], told: str) -> None:
    said("demo_data")
    with pytest.raises(CommandError, match=told):
        said("create_token", *words)


# ---- verify_history


def test_verify_history_counts_what_holds() -> None:
    said("demo_data")
    assert said("verify_history") == "4 histories with 4 events hold\n"


def test_verify_history_names_run_and_event_that_were_changed() -> None:
    said("demo_data")
    run = Run.objects.order_by("created_at").first()
    assert run
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('hitl.retention', 'on', false)")
        Event.objects.filter(run=run, seq=1).update(node="elsewhere")
        cursor.execute("SELECT set_config('hitl.retention', 'off', false)")
    out = StringIO()
    with pytest.raises(CommandError, match="1 of 4"):
        call_command("verify_history", stdout=out)
    assert f"{run.pk}  event 1: the hash" in out.getvalue()


def test_verify_history_holds_the_start_of_a_fork_against_what_its_history_says() -> None:
    """The chain covers the digest of the state with which a fork began; of its checkpoint it knows nothing."""
    said("demo_data")
    origin = Run.objects.order_by("created_at").first()
    assert origin
    olga = Member.objects.select_related("user", "project").filter(roles__contains=["operator"]).first()
    assert olga
    actor = Actor(olga.user, olga.project, "session", "127.0.0.1")
    fork = operations.fork(actor=actor, run_id=origin.pk, checkpoint=0, reason="what if").run
    assert "5 histories" in said("verify_history")
    position = store.read_position(fork.pk, 0)
    position["root"]["base"] = {"something": "else"}
    Checkpoint.objects.filter(run=fork, no=0).update(snapshot=canonical.dumps(position))
    out = StringIO()
    with pytest.raises(CommandError, match="1 of 5"):
        call_command("verify_history", stdout=out)
    assert f"{fork.pk}  event 1: the first checkpoint is not the one" in out.getvalue()


def test_verify_history_of_an_unknown_run_says_so() -> None:
    missing = uuid.uuid4()
    with pytest.raises(CommandError, match=str(missing)):
        said("verify_history", str(missing))


# ---- demo


def test_demo_without_anybody_to_ask_submits_nothing() -> None:
    said("demo_data")
    with pytest.raises(CommandError, match="--yes"):
        said("demo")
    assert Run.objects.count() == 4


def test_demo_says_when_its_people_are_missing() -> None:
    with pytest.raises(CommandError, match="demo_data"):
        said("demo", "--yes")


def test_demo_gives_up_and_says_why_when_no_worker_runs() -> None:
    said("demo_data")
    with pytest.raises(CommandError, match="Is a worker running"):
        said("demo", "--yes", "--patience", "0.5")


def test_demo_refuses_an_input_that_is_no_refund() -> None:
    said("demo_data")
    with pytest.raises(CommandError, match="/order_id"):
        said("demo", "--yes", "--order", "nine")


# ---- words that no command can use


@pytest.mark.parametrize("command", ["sweeper", "deliver"])
@pytest.mark.parametrize("every", ["0", "-1", "nan", "inf", "soon"])
def test_a_loop_without_a_rest_is_refused(command: str, every: str) -> None:
    with pytest.raises(CommandError, match="--every"):
        said(command, f"--every={every}")


def test_words_in_another_encoding_are_refused_in_a_sentence() -> None:
    """K1: what is no UTF-8 comes from a terminal as lone surrogates."""
    said("demo_data")
    for words in (["create_token", "m\udcfcller"], ["retention", "set", "completed=9\udcfc"]):
        with pytest.raises(CommandError, match="is not UTF-8"):
            said(*words)
