"""The words of approvals in Postgres: a tsvector of our own words, so that no dictionary of a language stands between them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib.postgres.search import SearchQueryField, SearchVectorField
from django.db.models import BooleanField, F, Func, Value
from django.db.models.functions import Cast


class _Vector(Func):
    template = "array_to_tsvector((%(expressions)s)::text[])"
    output_field = SearchVectorField()


class _Matches(Func):
    arg_joiner = " @@ "
    template = "(%(expressions)s)"
    output_field = BooleanField()


def vector(words: Iterable[str]) -> Any:
    """Some words (`engine.finding`) as a column of words holds them."""
    return _Vector(Value(list(words)))


def has_words(sought: str) -> Any:
    """A condition on rows with a column `words`. sought: as `engine.finding.sought` says it, not empty."""
    return _Matches(F("words"), Cast(Value(sought), SearchQueryField()))
