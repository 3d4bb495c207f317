"""Queries that are written once: whoever asks by a name gets what theirs would have said."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext

from runs.models import Project, Run, User
from runs.store import Given, Part, answers, instances
from runs.store.prepared import LONGEST_NAME
from tests.integration.store.conftest import Define, House, pay_flow

PERSON = Part(User, only=("id", "username"))


def people(*, name: str, **told: Any) -> list[str]:
    def query() -> QuerySet[User, Any]:
        some = User.objects.filter(pk=Given("who", many=True), username__contains="%").order_by("pk")
        return some.values_list(*PERSON.names)

    return [instances(row, PERSON)[0].username for row in answers(name, query, **told)]


@pytest.fixture
def odd(house: House) -> list[int]:
    names = ["100%", "plain", "%s", "%(who)s"]
    return [User.objects.create(username=name).pk for name in names]


@pytest.mark.parametrize("prepared", [True, False])
def test_only_the_values_differ_from_one_use_of_a_name_to_the_next(
    odd: list[int], settings: Any, prepared: bool
) -> None:
    settings.HITL_PREPARE = prepared
    name = f"odd people {prepared}"
    assert people(name=name, who=odd) == ["100%", "%s", "%(who)s"]
    assert people(name=name, who=odd[:1]) == ["100%"]
    assert people(name=name, who=[]) == []


def test_it_is_written_once(odd: list[int]) -> None:
    written: list[int] = []

    def query() -> QuerySet[User, Any]:
        written.append(1)
        return User.objects.filter(pk=Given("who")).values_list("username")

    found = [answers("one person", query, who=who) for who in odd[:2]]
    assert (found, written) == ([[("100%",)], [("plain",)]], [1])


def test_it_is_counted_and_can_be_read_like_any_query(odd: list[int]) -> None:
    with CaptureQueriesContext(connection) as captured:
        people(name="odd people, counted", who=odd)
    [query] = captured
    assert "LIKE" in query["sql"]
    assert str(odd[0]) in query["sql"]


def test_what_nothing_can_be_like_is_not_asked(house: House) -> None:
    with CaptureQueriesContext(connection) as captured:
        assert answers("nobody", lambda: User.objects.none().values_list("pk")) == []
    assert len(captured) == 0


def test_what_was_not_joined_is_none() -> None:
    assert instances((None, None, 7, "rita"), PERSON, PERSON)[0] is None


def test_what_was_left_out_is_read_when_it_is_asked_for(odd: list[int]) -> None:
    User.objects.filter(pk=odd[0]).update(name="Odd")
    [person] = instances((odd[0], "100%"), PERSON)
    with CaptureQueriesContext(connection) as captured:
        assert (person.username, person.name) == ("100%", "Odd")
    assert len(captured) == 1


def test_a_column_that_is_packed_is_unpacked(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    run = house.submit("pay", x=[1] * 5_000)
    part = Part(Run)
    [row] = answers(
        "packed", lambda: Run.objects.filter(pk=Given("run")).values_list(*part.names), run=run.pk
    )
    [found] = instances(row, part)
    assert found.input == Run.objects.get(pk=run.pk).input
    assert len(found.input) > 5_000


def test_names_that_the_server_would_cut_off_are_told_apart(house: House) -> None:
    long = "x" * LONGEST_NAME
    assert answers(f"{long}1", lambda: Project.objects.values_list("pk")) == [(house.project.pk,)]
    assert answers(f"{long}2", lambda: Project.objects.values_list("slug")) == [(house.project.slug,)]
