"""Real commits without Django's flush, and a worker in this process that ends quickly."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connection, transaction
from django.test import TransactionTestCase

from runs.operations import process

KEPT = {Permission, ContentType}  # written by migrations


@pytest.fixture(scope="session", autouse=True)
def quick_keeper() -> Iterator[None]:
    """A quarter of a second to stop would be the longest part of most tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "KEEPER_TICK", 0.02)
        yield


@pytest.fixture
def without_flush() -> Iterator[None]:
    """Django's flush truncates every table and writes all permissions anew: half a second a test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda self: None)
        yield


@pytest.fixture
def database(without_flush: None, transactional_db: None) -> Iterator[None]:
    """Real commits, seen by every connection; afterwards the rows go again."""
    yield
    tables = [
        model._meta.db_table for model in apps.get_models(include_auto_created=True) if model not in KEPT
    ]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL hitl.retention = 'on'")
        for table in tables:
            cursor.execute(f'DELETE FROM "{table}"')
