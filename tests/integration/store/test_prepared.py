"""Statements that are sent together: in order, in one round trip, and told of their errors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, OperationalError, connection, transaction

from runs import operations, store
from runs.models import Project, Step, User
from runs.store.prepared import ask, ask_all, keep, leave, together
from tests.integration.store.conftest import Define, House, pay_flow
from tests.kit.waiting import until
from tests.kit.wire import watched

NAMES = "SELECT username FROM runs_user WHERE username LIKE 'wire%%' ORDER BY username"


@pytest.fixture(autouse=True)
def statements(house: House) -> None:
    keep("wire names", NAMES)
    keep(
        "wire project",
        "INSERT INTO runs_project (slug, name, created_at) VALUES (%(slug)s, %(slug)s, now())",
    )


def rename(old: str, new: str) -> None:
    keep("wire rename", "UPDATE runs_user SET username = %(new)s WHERE username = %(old)s")
    leave("wire rename", {"old": old, "new": new})


def names() -> list[str]:
    return [name for (name,) in ask("wire names", {})]


@pytest.fixture
def person(house: House) -> User:
    return User.objects.create(username="wire")


@pytest.mark.parametrize("prepared", [True, False])
def test_what_is_asked_together_takes_one_trip_with_the_begin(
    person: User, tmp_path: Path, settings: Any, prepared: bool
) -> None:
    settings.HITL_PREPARE = prepared
    for file in ("first", "then"):  # the first time they are prepared
        with watched(tmp_path / file) as traffic, transaction.atomic():
            found = ask_all(("wire names", {}), ("now", {}), ("wire names", {}))
    assert [len(rows) for rows in found] == [1, 1, 1]
    assert found[0] == found[2] == [("wire",)]
    assert (traffic.statements, traffic.trips) == (5, 2)  # BEGIN and three questions; COMMIT


def test_what_is_left_goes_with_the_next_question(person: User, tmp_path: Path) -> None:
    with transaction.atomic(), together():
        rename("wire", "wire")
        assert names() == ["wire"]  # all of it is prepared from here on
        with watched(tmp_path / "trace") as traffic:
            rename("wire", "wire 1")
            rename("wire 1", "wire 2")
            assert names() == ["wire 2"]
    assert (traffic.statements, traffic.trips) == (3, 1)


def test_a_query_of_djangos_sees_what_was_left(person: User) -> None:
    with transaction.atomic(), together():
        rename("wire", "wire 1")
        assert User.objects.filter(username="wire 1").exists()
        rename("wire 1", "wire 2")
    assert names() == ["wire 2"]


def test_what_is_left_at_the_end_is_written(person: User) -> None:
    with transaction.atomic(), together(), together():
        rename("wire", "wire 1")
    person.refresh_from_db()
    assert person.username == "wire 1"


def test_a_savepoint_takes_back_what_was_left_inside_of_it(person: User) -> None:
    with transaction.atomic(), together():
        rename("wire", "wire 1")
        with suppress(ZeroDivisionError), transaction.atomic():
            rename("wire 1", "wire 2")
            raise ZeroDivisionError
    assert names() == ["wire 1"]


def test_alone_or_outside_of_a_transaction_it_is_written_at_once(person: User, tmp_path: Path) -> None:
    rename("wire", "wire")
    with watched(tmp_path / "trace") as traffic, together():
        rename("wire", "wire 1")
        assert (traffic.trips, names()) == (0, ["wire 1"])
    assert traffic.trips == 2


def next_question() -> None:
    names()


def next_query() -> None:
    User.objects.exists()


@pytest.mark.parametrize("tells", [next_question, next_query, lambda: None])
def test_an_error_of_what_was_left_is_told_and_takes_all_of_it_back(
    person: User, house: House, tells: Callable[[], None]
) -> None:
    taken = Project.objects.values_list("slug", flat=True)[0]

    def write() -> None:
        with transaction.atomic(), together():
            rename("wire", "wire 1")
            leave("wire project", {"slug": taken})
            rename("wire 1", "wire 2")
            tells()

    with pytest.raises(IntegrityError):
        write()
    assert names() == ["wire"]


def test_what_was_left_when_all_is_given_up_is_not_sent(person: User) -> None:
    with suppress(ZeroDivisionError), transaction.atomic(), together():
        rename("wire", "wire 1")
        raise ZeroDivisionError
    with transaction.atomic():
        assert names() == ["wire"]


def test_what_is_longer_than_a_socket_takes_at_once_arrives(person: User) -> None:
    """In both directions: the server answers the first before it has read the last."""
    keep("wire echo", "SELECT %(text)s::text")
    megabytes = "x" * 20_000_000
    with transaction.atomic(), together():
        rename("wire", "wire 1")
        found = ask_all(*[("wire echo", {"text": megabytes})] * 3)
    assert [len(text) for [(text,)] in found] == [len(megabytes)] * 3
    assert names() == ["wire 1"]


def test_whoever_lets_go_of_all_that_was_prepared_is_not_noticed(person: User) -> None:
    with transaction.atomic():
        ask_all(("wire names", {}), ("now", {}))
    with connection.cursor() as cursor:
        cursor.execute("DEALLOCATE ALL")
    with transaction.atomic():
        found, _ = ask_all(("wire names", {}), ("now", {}))
    assert found == [("wire",)]


def end_the_session() -> None:
    with store.own_connection() as other:
        pid = connection.connection.info.backend_pid
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])


def test_a_connection_that_is_lost_among_them_is_told_and_replaced(person: User) -> None:
    ask_all(("wire names", {}), ("now", {}))
    end_the_session()
    with pytest.raises(OperationalError), transaction.atomic():
        ask_all(("wire names", {}), ("now", {}))
    connection.close_if_unusable_or_obsolete()
    assert names() == ["wire"]


@pytest.mark.parametrize("goes_on", [next_question, next_query, lambda: None])
def test_a_session_that_was_idle_for_too_long_in_its_transaction_is_lost_like_any_other(
    person: User, goes_on: Callable[[], None]
) -> None:
    """A process that was frozen: the server has ended its session, and says so in answer to whatever comes next."""
    tries: list[int] = []

    def write() -> list[str]:
        with transaction.atomic(), together():
            tries.append(connection.connection.info.backend_pid)
            rename("wire", "wire 1")
            found = names()
            if len(tries) == 1:
                with connection.cursor() as cursor:
                    cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '20ms'")
                until(lambda: not is_alive(tries[0]), what="the server ends the session")
            goes_on()
            return found

    assert store.persistently(write) == ["wire 1"]
    assert (len(set(tries)), names()) == (2, ["wire 1"])


def is_alive(pid: int) -> bool:
    with store.own_connection() as other:
        return other.execute("SELECT FROM pg_stat_activity WHERE pid = %s", [pid]).rowcount == 1


def test_a_worker_that_has_lost_its_connection_while_it_had_nothing_to_do_takes_the_step(
    house: House, define: Define
) -> None:
    run = house.submit(pay_flow(define("pay")).name)
    step = Step.objects.get(run=run)
    operations.worker()
    end_the_session()
    operations.advance(run_id=run.pk, branch=1, address=step.address)
    step.refresh_from_db()
    assert step.status == "completed"


@pytest.mark.parametrize("prepared", [True, False])
def test_a_connection_beside_djangos_prepares_only_where_it_may(
    house: House, settings: Any, prepared: bool
) -> None:
    """Behind a pooler that hands out its connections by transaction, a name may be that of somebody else's statement."""
    settings.HITL_PREPARE = prepared
    with store.own_connection() as own:
        for _ in range(10):
            own.execute("SELECT %s::int", [1])
        kept = own.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
    assert kept == (int(prepared),)
