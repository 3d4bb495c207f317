"""What the environment may say. Whatever is odd or unknown stops the start, with its name and the accepted
form.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import sys
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

PREFIX = "HITL_"
TEST_PREFIX = "HITL_TEST_"  # read by the tests alone
NODE_SECRET = re.compile(r"HITL_SECRET_[A-Z][A-Z0-9_]{0,63}")  # what nodes ask for by ctx.secret
SECRET = {
    "HITL_SECRET_KEY",
    "DATABASE_URL",
    "REDIS_URL",
    "HITL_SMTP_URL",
}  # never printed, they may hold a password

Names = Annotated[list[str], NoDecode]
DAYS = "a whole number of days from 1 to 36500, or 0 for ever"
HOST = re.compile(r"\*|\.?[0-9A-Za-z_\-]+(\.[0-9A-Za-z_\-]+)*|\[[0-9A-Fa-f:.]+\]")  # as Django takes them
QUEUE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,59}")
DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class BadEnvironment(Exception):
    """The environment says something that is not understood."""


class Environment(BaseSettings):
    """One field a variable; its description is the accepted form, as an error prints it."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", env_ignore_empty=True)

    database_url: str | None = Field(
        None,
        validation_alias="DATABASE_URL",
        description="postgresql://user:password@host:5432/name, or unset for the embedded server",
    )
    redis_url: str | None = Field(
        None,
        validation_alias="REDIS_URL",
        description="redis://host:6379/0, rediss://… or unix:///path, or unset for the embedded server",
    )
    secret_key: str | None = Field(None, min_length=32, description="at least 32 characters, kept secret")
    debug: bool = Field(False, description="true or false")
    allowed_hosts: Names = Field(
        ["127.0.0.1", "localhost", "[::1]"],
        description="host names separated by commas, as in hitl.example.org",
    )
    host: str = Field("127.0.0.1", pattern=r"^[0-9A-Za-z:.\-]+$", description="the address to listen on")
    port: int = Field(8000, ge=1, le=65535, description="a whole number from 1 to 65535")
    base_url: str | None = Field(
        None,
        description="where people reach hitl, as in https://hitl.example.org; mails and webhooks link there",
    )
    smtp_url: str | None = Field(
        None,
        description="smtp://user:password@host:587, smtps://… or smtp://host:25?tls=no; unset: no mail is sent",
    )
    mail_from: str = Field(
        "hitl@localhost",
        pattern=r"^[^\x00-\x1f\x7f]*[^@\s<>]+@[^@\s<>]+>?$",
        description="an address, as in hitl@example.org or Approvals <hitl@example.org>",
    )
    link_hours: int = Field(168, ge=1, le=8_760, description="a whole number of hours from 1 to 8760")
    webhook_allowed_nets: Names = Field(
        [],
        description="private networks that webhooks may reach, separated by commas, as in 10.0.0.0/8,fd00::/8",
    )
    webhook_http: bool = Field(False, description="true or false")
    attachment_mb: int = Field(10, ge=1, le=100, description="a whole number from 1 to 100")
    attachments_s3_bucket: str | None = Field(
        None,
        pattern=r"^[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9]$",
        description="the name of a bucket, for which hitl[s3] has to be installed; unset: a folder in HITL_DATA_DIR",
    )
    data_dir: Path = Field(Path(".hitl"), description="a folder, absolute or relative to the project")
    lease_seconds: float = Field(30, ge=1, le=3600, description="a number from 1 to 3600")
    slice_steps: int = Field(200, ge=1, le=100_000, description="a whole number from 1 to 100000")
    slice_seconds: float = Field(30, ge=0.1, le=3600, description="a number from 0.1 to 3600")
    poison_crashes: int = Field(3, ge=1, le=100, description="a whole number from 1 to 100")
    worker_queues: Names = Field(
        [],
        description="names of queues separated by commas, as in runs,gpu; unset for all that workflows name",
    )
    prepare: bool = Field(
        True, description="true, or false behind a pooler that keeps no prepared statements"
    )
    hints_ahead: int = Field(16, ge=1, le=100_000, description="a whole number from 1 to 100000")
    workers: int = Field(2, ge=1, le=256, description="a whole number from 1 to 256")
    secrets_dir: Path | None = Field(
        None,
        description="a folder that holds a file for each secret of the workflows, as docker and kubernetes mount it",
    )
    log_format: Literal["json", "text"] = Field("json", description="json or text")
    retention: bool = Field(True, description="true or false")
    retention_completed_days: int = Field(90, ge=0, le=36_500, description=DAYS)
    retention_failed_days: int = Field(180, ge=0, le=36_500, description=DAYS)
    retention_cancelled_days: int = Field(90, ge=0, le=36_500, description=DAYS)
    retention_compact_days: int = Field(30, ge=0, le=36_500, description=DAYS)
    retention_notes_days: int = Field(90, ge=0, le=36_500, description=DAYS)
    retention_waits_days: int = Field(30, ge=0, le=36_500, description=DAYS)
    retention_audit_days: int = Field(730, ge=0, le=36_500, description=DAYS)
    retention_workers_days: int = Field(7, ge=0, le=36_500, description=DAYS)
    retention_removed_days: int = Field(365, ge=0, le=36_500, description=DAYS)
    retention_batch: int = Field(1_000, ge=1, le=10_000, description="a whole number from 1 to 10000")
    workflow_apps: Names = Field(
        ["examples.refund", "examples.sql_change"],
        description="Python packages separated by commas that can be imported, as in examples.refund,shop.flows",
    )

    @field_validator("allowed_hosts", "workflow_apps", "worker_queues", "webhook_allowed_nets", mode="before")
    @classmethod
    def split(cls, value: object) -> object:
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        return value

    @field_validator("workflow_apps")
    @classmethod
    def dotted(cls, value: list[str]) -> list[str]:
        for name in value:
            if not DOTTED.fullmatch(name):
                raise ValueError(f"{name!r} is not a package's name")
            if find_spec(name.partition(".")[0]) is None:
                raise ValueError(f"{name!r} is nowhere to be imported from")
        return list(dict.fromkeys(value))

    @field_validator("allowed_hosts")
    @classmethod
    def hosts(cls, value: list[str]) -> list[str]:
        if not value or not all(HOST.fullmatch(name) for name in value):
            raise ValueError("no names of hosts")  # an address or a port among them would fit no request
        return value

    @field_validator("worker_queues")
    @classmethod
    def named(cls, value: list[str]) -> list[str]:
        for name in value:
            if not QUEUE.fullmatch(name):
                raise ValueError(f"{name!r} cannot name a queue")
        return value

    @field_validator("database_url")
    @classmethod
    def postgres(cls, value: str | None) -> str | None:
        if value is not None:
            database(value)
        return value

    @field_validator("redis_url")
    @classmethod
    def redis(cls, value: str | None) -> str | None:
        if value is not None:
            broker(value)
        return value

    @field_validator("base_url")
    @classmethod
    def origin(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        odd = parts.query or parts.fragment or parts.username or re.search(r"\s", value)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.port == 0 or odd:
            raise ValueError("no address of a web site")
        return value.rstrip("/")

    @field_validator("smtp_url")
    @classmethod
    def smtp(cls, value: str | None) -> str | None:
        if value is not None:
            mail_server(value)
        return value

    @field_validator("webhook_allowed_nets")
    @classmethod
    def networks(cls, value: list[str]) -> list[str]:
        for net in value:
            ip_network(net)  # says itself what is wrong
        return value

    @field_validator("secrets_dir")
    @classmethod
    def existing(cls, value: Path | None) -> Path | None:
        if value is not None and not value.is_dir():
            raise ValueError("no folder")
        return value

    @field_validator("data_dir")
    @classmethod
    def absolute(cls, value: Path) -> Path:
        folder = (root() / value).absolute()
        if folder.exists() and not folder.is_dir():
            raise ValueError("no folder")
        return folder


def root() -> Path:
    """The folder that holds manage.py."""
    return Path(__file__).resolve().parent.parent


def variable(field: str) -> str:
    alias = Environment.model_fields[field].validation_alias
    return alias if isinstance(alias, str) else PREFIX + field.upper()


def known() -> dict[str, str]:
    """Every variable's name with its accepted form."""
    return {variable(name): field.description or "" for name, field in Environment.model_fields.items()}


def read(environ: Mapping[str, str] | None = None) -> Environment:
    """Raises BadEnvironment that lists everything odd at once."""
    environ = os.environ if environ is None else environ
    faults = [*_unknown(environ)]
    try:
        found = Environment()
    except ValidationError as error:
        faults += _refused(error, environ)
    if faults:
        raise BadEnvironment("\n".join(faults))
    return found


def _unknown(environ: Mapping[str, str]) -> list[str]:
    accepted = known()
    odd = [name for name in environ if name.upper().startswith(PREFIX) and not name.startswith(TEST_PREFIX)]
    return [
        f"{name} is not a setting of hitl. There are: {', '.join(sorted(accepted))}."
        for name in sorted(odd)
        if name not in accepted and not NODE_SECRET.fullmatch(name)
    ]


def _refused(error: ValidationError, environ: Mapping[str, str]) -> list[str]:
    forms = known()
    lines = []
    for name in dict.fromkeys(_name(fault["loc"]) for fault in error.errors()):
        value = "" if name in SECRET else f"={environ.get(name, '')!r}"
        lines.append(f"{name}{value} is refused. Accepted: {forms.get(name, '?')}.")
    return lines


def _name(loc: tuple[int | str, ...]) -> str:
    first = str(loc[0])
    return variable(first) if first in Environment.model_fields else first.upper()


@cache
def load() -> Environment:
    """For the start of a process: what is odd goes to stderr, and the process ends."""
    try:
        return read()
    except BadEnvironment as error:
        sys.exit(f"hitl does not start:\n{error}")


def database(url: str) -> dict[str, Any]:
    """A Postgres address as Django's DATABASES wants it."""
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    name = unquote(parts.path.removeprefix("/"))
    if parts.scheme not in {"postgres", "postgresql"} or not name:
        raise ValueError("not a Postgres address with a database name")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": name,
        "USER": unquote(parts.username or options.pop("user", "")),
        "PASSWORD": unquote(parts.password or options.pop("password", "")),
        "HOST": unquote(parts.hostname or options.pop("host", "")),
        "PORT": str(parts.port or options.pop("port", "")),
        "OPTIONS": options,
    }


def broker(url: str) -> None:
    """Raises `ValueError` for what the clients of Redis would stumble over, or read as another database than it says."""
    parts = urlsplit(url)
    path = r"/.+" if parts.scheme == "unix" else r"/?[0-9]*"
    known = parts.scheme in {"redis", "rediss", "unix"} and parts.port != 0
    if not known or not re.fullmatch(path, parts.path):
        raise ValueError("not an address of Redis")


def mail_server(url: str) -> dict[str, Any]:
    """An SMTP address as Django's EMAIL_ settings want it. TLS is on unless `?tls=no` says otherwise."""
    parts = urlsplit(url)
    told = dict(parse_qsl(parts.query))
    if parts.scheme not in {"smtp", "smtps"} or not parts.hostname or parts.path not in ("", "/"):
        raise ValueError("not the address of a mail server")
    if set(told) - {"tls"} or told.get("tls", "yes") not in {"yes", "no"}:
        raise ValueError("only ?tls=no may follow")
    at_once = parts.scheme == "smtps"
    return {
        "HOST": parts.hostname,
        "PORT": parts.port or (465 if at_once else 587),
        "HOST_USER": unquote(parts.username or ""),
        "HOST_PASSWORD": unquote(parts.password or ""),
        "USE_SSL": at_once,
        "USE_TLS": not at_once and told.get("tls") != "no",
    }


def addresses(env: Environment) -> tuple[str, str]:
    """Postgres and Redis: as told, otherwise the embedded ones that the supervisor noted in the data
    folder.
    """
    embedded = _noted(env)
    nowhere = "127.0.0.1:1"  # refuses at once: `make up` has not run yet
    return (
        env.database_url or embedded.get("database_url") or f"postgresql://hitl@{nowhere}/hitl",
        env.redis_url or embedded.get("redis_url") or f"redis://{nowhere}/0",
    )


def debugging(env: Environment) -> bool:
    """As told; a command beside `make up` works as that does, or a changed graph would stop the one and not the other."""
    told = "debug" in env.model_fields_set or env.database_url is not None
    return env.debug if told else bool(_noted(env).get("debug", env.debug))


def attachments(env: Environment) -> dict[str, Any]:
    """Where files of runs are kept, as Django's STORAGES wants it: in the data folder, or in a bucket. How the bucket is reached
    and with which rights, boto3 finds in its own environment."""
    if env.attachments_s3_bucket is None:
        return {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": env.data_dir / "attachments", "base_url": None},
        }
    if not all(find_spec(name) for name in ("storages", "boto3")):
        sys.exit(
            "hitl does not start:\nHITL_ATTACHMENTS_S3_BUCKET needs the extra s3: install hitl[s3] "
            "(django-storages and boto3), or unset it."
        )
    return {
        "BACKEND": "storages.backends.s3.S3Storage",
        "OPTIONS": {
            "bucket_name": env.attachments_s3_bucket,
            "file_overwrite": False,
            "default_acl": None,
            "client_config": _bucket_config(),
        },
    }


def _bucket_config() -> Any:
    """A bucket that does not answer keeps a request for seconds, not for boto3's minutes. Another server than Amazon's, named by
    AWS_ENDPOINT_URL_S3, seldom has a host for each bucket, so there the bucket stands in the path."""
    from botocore.config import Config

    elsewhere = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    return Config(
        connect_timeout=3,
        read_timeout=20,
        retries={"total_max_attempts": 2, "mode": "standard"},
        s3={"addressing_style": "path" if elsewhere else "auto"},
    )


def _noted(env: Environment) -> dict[str, Any]:
    """What a running `make up` has noted in the data folder."""
    note = env.data_dir / "servers.json"
    return dict(json.loads(note.read_text())) if note.exists() else {}


def secret_key(env: Environment) -> str:
    """The key as told; the data folder's, which `make up` makes; or one that dies with the process.

    A real database demands a told key: two web processes with a key each would sign each other's sessions
    out.
    """
    note = env.data_dir / "secret-key"
    if env.secret_key:
        return env.secret_key
    if note.exists():
        return note.read_text().strip()
    if env.database_url and not env.debug:
        sys.exit(
            "hitl does not start:\n"
            "HITL_SECRET_KEY is needed with DATABASE_URL. Accepted: at least 32 characters, kept secret."
        )
    return secrets.token_urlsafe(48)
