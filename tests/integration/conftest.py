"""Real commits without Django's flush, and a worker in this process that ends quickly."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connection, transaction
from django.test import TransactionTestCase
from whitenoise.middleware import WhiteNoiseMiddleware

from runs.operations import process

KEPT = {Permission, ContentType}  # written by migrations


@pytest.fixture(scope="session", autouse=True)
def quick_keeper() -> Iterator[None]:
    """A quarter of a second to stop would be the longest part of most tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "KEEPER_TICK", 0.02)
        yield


@pytest.fixture(scope="session", autouse=True)
def static_files_once() -> Iterator[None]:
    """Each client of a test makes its own middleware, and each of those looked up all static files on the disk."""
    look, found = WhiteNoiseMiddleware.add_files_from_finders, dict[str, Any]()

    def once(self: WhiteNoiseMiddleware) -> None:
        if not found:
            look(self)
            found.update(self.files)
        self.files.update(found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhiteNoiseMiddleware, "add_files_from_finders", once)
        yield


@pytest.fixture
def without_flush() -> Iterator[None]:
    """Django's flush truncates every table and writes all permissions anew: half a second a test. And the next test would begin
    with a new connection, which has to learn all tables again.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda self: None)
        patch.setattr(TransactionTestCase, "_should_reload_connections", lambda self: False)
        yield


@pytest.fixture
def database(without_flush: None, transactional_db: None) -> Iterator[None]:
    """Real commits, seen by every connection; afterwards the rows go again."""
    yield
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_all_rows_go())


@cache
def _all_rows_go() -> str:
    """In one message to the server: what empty tables cost is to be asked about one after the other. As a replica it asks of no
    row who refers to it, which was most of the work, and no guard of a history keeps it.
    """
    models = apps.get_models(include_auto_created=True)
    tables = [model._meta.db_table for model in models if model not in KEPT]
    return "; ".join(
        ["SET LOCAL session_replication_role = 'replica'", *(f'DELETE FROM "{table}"' for table in tables)]
    )
