from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.test import Client

from runs import operations
from runs.policies import Actor
from tests.integration.core.conftest import House, make_house


@pytest.fixture
def house(database: None) -> Iterator[House]:
    yield make_house()
    operations.leave()


@pytest.fixture
def client_of() -> Callable[[Actor], Client]:
    """A browser of a person, signed in."""

    def signed_in(actor: Actor) -> Client:
        client = Client(enforce_csrf_checks=False)
        client.force_login(actor.user)
        return client

    return signed_in
