"""Endpoints, receivers and senders, and a project with somebody who may manage them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from runs import operations
from runs.delivery import Sender
from runs.engine import Workflow
from runs.models import Approval, Delivery, Endpoint, Run
from runs.policies import Actor
from tests.integration.core.conftest import (
    House,
    database,
    define,
    house,
    make_house,
    pay_flow,
    person,
    without_flush,
)
from tests.kit.postbox import Postbox, postbox
from tests.kit.receiver import Receiver, receiving

__all__ = ["House", "database", "define", "house", "make_house", "pay_flow", "person", "without_flush"]

EVENTS = [
    "approval.opened",
    "approval.decided",
    "approval.expired",
    "run.completed",
    "run.failed",
    "run.cancelled",
]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@pytest.fixture
def box(settings: Any) -> Iterator[Postbox]:
    """Mail is on, and goes to a server of the test."""
    with postbox() as found:
        settings.HITL_MAIL = True
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", found.port
        settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
        yield found


@pytest.fixture(autouse=True)
def near(settings: Any) -> None:
    """Receivers of the tests are on this machine."""
    settings.HITL_WEBHOOK_ALLOWED_NETS = ["127.0.0.0/8"]
    settings.HITL_WEBHOOK_HTTP = True


@pytest.fixture
def ada(house: House) -> Actor:
    """The project's admin."""
    return person(house.project, "ada", "admin")


@pytest.fixture
def sender(house: House) -> Iterator[Sender]:
    made = Sender()
    yield made
    made.close()


@dataclass
class Hook:
    """An endpoint with its secret."""

    endpoint: Endpoint
    secret: str

    @property
    def deliveries(self) -> list[Delivery]:
        rows = Delivery.objects.filter(endpoint=self.endpoint).select_related("message")
        return list(rows.order_by("message__seq", "created_at"))


@pytest.fixture
def hook(ada: Actor, receiver: Receiver) -> Hook:
    return Hook(*operations.create_endpoint(actor=ada, url=receiver.url, events=EVENTS))


def pump(sender: Sender) -> None:
    """Send everything that is due now, and write it down."""
    while sender.round():
        sender.finish()


def parked(house: House, define: Any, **approval: Any) -> tuple[Run, Approval]:
    flow: Workflow = define("pay")
    pay_flow(flow, **approval)
    return house.parked("pay", x=20)
