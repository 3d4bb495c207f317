"""Submitting: in a caller's transaction, twice with one key, with what does not fit (C35, C105)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from django.conf import settings
from django.db import transaction
from redis import Redis

from runs import operations
from runs.engine import Workflow, canonical
from runs.errors import BadRequest, IdempotencyInProgress, KeyReused, UnknownWorkflow, Unprocessable
from runs.models import AuditEntry, Checkpoint, Event, IdempotencyRecord, Run, Step
from runs.operations import Idempotency, Submitted
from tests.integration.core.conftest import House, make_house, pay_flow
from tests.kit.racing import at_once, blocked
from tests.sizes import size

Define = Callable[..., Workflow]


def hints() -> int:
    with Redis.from_url(settings.REDIS_URL) as redis:
        return int(redis.llen("runs"))


def keyed(house: House, key: str = "k", *, fingerprint: str = "f", endpoint: str = "runs") -> Submitted:
    given = Idempotency(endpoint, key, fingerprint)
    return operations.submit(actor=house.shop, workflow="pay", input={"x": 1}, idempotency=given)


def test_a_rollback_leaves_nothing_and_tells_nobody(house: House, define: Define) -> None:
    """C35: no row of any kind, no message, and the key is free."""
    pay_flow(define("pay"))
    before = hints()
    with transaction.atomic():
        keyed(house)
        transaction.set_rollback(True)
    for model in (Run, Event, Checkpoint, Step, IdempotencyRecord, AuditEntry):
        assert model._default_manager.count() == 0, model
    assert hints() == before
    assert keyed(house).replayed is False


def test_nobody_is_told_before_the_callers_transaction_has_committed(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    before = hints()
    with transaction.atomic():
        keyed(house)
        assert hints() == before
        (other,) = at_once(Run.objects.count)
        assert other.value == 0
    assert (hints(), Run.objects.count()) == (before + 1, 1)


def test_a_caller_can_go_on_after_a_refusal(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    with transaction.atomic():
        with pytest.raises(Unprocessable):
            operations.submit(actor=house.shop, workflow="pay", input={"log": 1})
        run = house.submit("pay", x=1)
    assert Run.objects.get() == run


def test_a_refused_body_does_not_use_up_its_key(house: House, define: Define) -> None:
    """K15, C01 (a)."""
    pay_flow(define("pay"))
    given = Idempotency("runs", "k", "wrong")
    with pytest.raises(Unprocessable):
        operations.submit(actor=house.shop, workflow="pay", input={"log": 1}, idempotency=given)
    assert keyed(house).replayed is False


def test_many_with_one_key_make_one_run(house: House, define: Define) -> None:
    """C105."""
    pay_flow(define("pay"))
    for number in range(size("race rounds")):
        ended = at_once(*(partial(keyed, house, f"key {number}") for _ in range(8)))
        assert [one.error for one in ended] == [None] * 8
        assert len({one.value.run.pk for one in ended}) == 1
        assert sorted(one.value.replayed for one in ended) == [False] + [True] * 7
    assert Run.objects.count() == size("race rounds")


def test_another_body_under_the_same_key_is_refused(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    one, other = at_once(partial(keyed, house), partial(keyed, house, fingerprint="other"))
    errors = [contender.error for contender in (one, other) if contender.error is not None]
    assert len(errors) == 1
    assert isinstance(errors[0], KeyReused)
    assert Run.objects.count() == 1


def test_a_key_counts_for_its_project_and_endpoint(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    other = make_house("other")
    first = keyed(house)
    assert keyed(house, endpoint="forks").run != first.run
    assert keyed(other).run != first.run
    assert keyed(house).run == first.run


def test_who_waits_for_the_first_gets_its_answer_and_not_for_ever(
    house: House, define: Define, monkeypatch: pytest.MonkeyPatch
) -> None:
    pay_flow(define("pay"))
    with transaction.atomic():
        first = keyed(house)
        waits = blocked(partial(keyed, house))
    assert (waits.end().value.run, waits.value.replayed) == (first.run, True)
    monkeypatch.setattr("runs.store.keys.KEY_SECONDS", 1)
    with transaction.atomic():
        keyed(house, "slow")
        (impatient,) = at_once(partial(keyed, house, "slow"))
    assert isinstance(impatient.error, IdempotencyInProgress)
    assert keyed(house, "slow").replayed is True


def test_what_does_not_fit_is_refused_with_its_place(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    with pytest.raises(UnknownWorkflow):
        operations.submit(actor=house.shop, workflow="none", input={})
    with pytest.raises(Unprocessable) as refused:
        operations.submit(actor=house.shop, workflow="pay", input={"log": "text", "y": 1})
    assert {problem.path for problem in refused.value.errors} == {"/log", "/y"}
    with pytest.raises(BadRequest):
        operations.submit(actor=house.shop, workflow="pay", input={}, labels={str(n): "" for n in range(21)})
    assert Run.objects.count() == 0


def test_a_new_run_is_told_as_it_was_asked_for(house: House, define: Define) -> None:
    pay_flow(define("pay"))
    labels = {"order": "7"}
    run = operations.submit(
        actor=house.shop, workflow="pay", input={"x": {"b": 1.0, "a": 10**30}}, labels=labels
    ).run
    assert (run.status, run.labels, run.requester) == ("queued", labels, house.shop.user)
    assert run.input == '{"x":{"a":1000000000000000000000000000000,"b":1.0}}'
    event = Event.objects.get(run=run)
    assert (event.kind, event.actor) == ("run_submitted", canonical.dumps(house.shop.as_dict()))
