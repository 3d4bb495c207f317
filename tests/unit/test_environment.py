"""What the environment may say: hitl/env.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hitl import env

Say = Callable[..., env.Environment]


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch) -> Say:
    """Reads an environment of nothing but what is said."""
    for name in env.known():
        monkeypatch.delenv(name, raising=False)

    def read(**variables: str) -> env.Environment:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return env.read()

    return read


def test_nothing_said_gives_the_defaults(say: Say) -> None:
    found = say()
    assert (found.port, found.host, found.lease_seconds, found.debug) == (8000, "127.0.0.1", 30, False)
    assert found.data_dir == env.root() / ".hitl"
    assert found.workflow_apps == ["examples.refund", "examples.sql_change"]


@pytest.mark.parametrize(
    ("name", "value", "form"),
    [
        ("HITL_PORT", "eighty", "a whole number from 1 to 65535"),
        ("HITL_PORT", "70000", "a whole number from 1 to 65535"),
        ("HITL_LEASE_SECONDS", "nan", "a number from 1 to 3600"),
        ("HITL_LEASE_SECONDS", "0", "a number from 1 to 3600"),
        ("HITL_DEBUG", "maybe", "true or false"),
        ("HITL_LOG_FORMAT", "xml", "json or text"),
        ("HITL_WORKFLOW_APPS", "examples.refund,rm -rf", "Python packages separated by commas"),
        ("HITL_WORKER_QUEUES", "runs,two words", "names of queues separated by commas"),
        ("HITL_HINTS_AHEAD", "0", "a whole number from 1 to 100000"),
        ("HITL_SECRET_KEY", "short", "at least 32 characters"),
        ("DATABASE_URL", "mysql://u:geheim@h/db", "postgresql://user:password@host:5432/name"),
        ("DATABASE_URL", "postgresql://u:geheim@h:port/db", "postgresql://user:password@host:5432/name"),
        ("DATABASE_URL", "postgresql://u:geheim@h/", "postgresql://user:password@host:5432/name"),
        ("REDIS_URL", "amqp://u:geheim@h", "redis://host:6379/0"),
        ("REDIS_URL", "redis://u:geheim@h:port/0", "redis://host:6379/0"),
        ("REDIS_URL", "redis://u:geheim@h/first", "redis://host:6379/0"),
        ("REDIS_URL", "unix://", "unix:///path"),
        ("HITL_ALLOWED_HOSTS", "https://hitl.example.org", "host names separated by commas"),
        ("HITL_ALLOWED_HOSTS", "hitl.example.org:8000", "host names separated by commas"),
        ("HITL_ALLOWED_HOSTS", ",", "host names separated by commas"),
        ("HITL_BASE_URL", "https://hitl.example.org:99999", "https://hitl.example.org"),
        ("HITL_BASE_URL", "https://hitl example.org", "https://hitl.example.org"),
        ("HITL_WORKFLOW_APPS", "nowhere.flows", "that can be imported"),
        ("HITL_DATA_DIR", __file__, "a folder"),
        ("hitl_port", "8000", "HITL_PORT"),
    ],
)
def test_an_odd_value_is_refused_with_its_name_and_the_accepted_form(
    say: Say, name: str, value: str, form: str
) -> None:
    with pytest.raises(env.BadEnvironment) as refused:
        say(**{name: value})
    assert name in str(refused.value)
    assert form in str(refused.value)


@pytest.mark.parametrize("name", ["DATABASE_URL", "REDIS_URL", "HITL_SECRET_KEY"])
def test_a_refused_secret_is_not_printed(say: Say, name: str) -> None:
    with pytest.raises(env.BadEnvironment) as refused:
        say(**{name: "geheim://geheim"})
    assert "geheim" not in str(refused.value)


def test_an_unknown_setting_is_refused_and_the_known_ones_are_named(say: Say) -> None:
    with pytest.raises(env.BadEnvironment, match=r"HITL_LEASE is not a setting.*HITL_LEASE_SECONDS"):
        say(HITL_LEASE="3")


def test_all_faults_are_named_at_once(say: Say) -> None:
    with pytest.raises(env.BadEnvironment) as refused:
        say(HITL_PORT="x", HITL_LOG_FORMAT="y", HITL_NONSENSE="z")
    assert all(name in str(refused.value) for name in ("HITL_PORT", "HITL_LOG_FORMAT", "HITL_NONSENSE"))


def test_a_postgres_address_keeps_odd_characters_of_its_password() -> None:
    found = env.database("postgresql://me:p%40ss%2Fword@db.example:6543/hi-tl?sslmode=require")
    assert (found["USER"], found["PASSWORD"]) == ("me", "p@ss/word")
    assert (found["HOST"], found["PORT"], found["NAME"]) == ("db.example", "6543", "hi-tl")
    assert found["OPTIONS"] == {"sslmode": "require"}


def test_a_real_database_demands_a_secret_key(say: Say, tmp_path: Path) -> None:
    told = say(DATABASE_URL="postgresql://me@db/hitl", HITL_DATA_DIR=str(tmp_path))
    with pytest.raises(SystemExit, match="HITL_SECRET_KEY"):
        env.secret_key(told)


def test_the_embedded_servers_are_found_through_the_data_folder(say: Say, tmp_path: Path) -> None:
    (tmp_path / "servers.json").write_text('{"database_url": "postgresql://a@b/c", "redis_url": "redis://d"}')
    assert env.addresses(say(HITL_DATA_DIR=str(tmp_path))) == ("postgresql://a@b/c", "redis://d")


def test_secrets_of_workflows_are_known_by_their_form(say: Say, tmp_path: Path) -> None:
    """HITL_SECRET_KEY is another thing, and keeps its rules."""
    assert say(HITL_SECRET_SHOP_TOKEN="x", HITL_SECRETS_DIR=str(tmp_path)).secrets_dir == tmp_path
    for odd in ("HITL_SECRET_", "HITL_SECRET_shop", "HITL_SECRETS"):
        with pytest.raises(env.BadEnvironment, match=f"{odd} is not a setting"):
            env.read({odd: "x"})


def test_a_folder_of_secrets_that_is_not_there_stops_the_start(say: Say, tmp_path: Path) -> None:
    with pytest.raises(env.BadEnvironment, match="HITL_SECRETS_DIR"):
        say(HITL_SECRETS_DIR=str(tmp_path / "nowhere"))


def test_files_of_runs_are_kept_in_the_data_folder_or_in_a_bucket(
    say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = env.attachments(say(HITL_DATA_DIR=str(tmp_path)))
    assert folder["OPTIONS"]["location"] == tmp_path / "attachments"
    wanted = say(HITL_ATTACHMENTS_S3_BUCKET="papers")
    monkeypatch.setattr(env, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"needs the extra s3: install hitl\[s3\]"):
        env.attachments(wanted)
    monkeypatch.setattr(env, "find_spec", lambda name: object())
    assert env.attachments(wanted)["OPTIONS"]["bucket_name"] == "papers"
    with pytest.raises(env.BadEnvironment, match="the name of a bucket"):
        say(HITL_ATTACHMENTS_S3_BUCKET="No/Bucket")
