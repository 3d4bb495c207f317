"""C107: what a receiver sees of retries, and what the deliveries say of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from standardwebhooks.exceptions import WebhookVerificationError
from standardwebhooks.webhooks import Webhook

from runs import operations, store, workflows
from runs.delivery import Sender, schedule, service, webhooks
from runs.delivery import http as http_client
from runs.engine import Workflow, machine
from runs.errors import EndpointOff, StillPending
from runs.models import Attempt, Delivery, Endpoint, Notice, Run
from runs.policies import Actor
from tests.integration.core.conftest import House, by_sql, open_approval
from tests.integration.delivery.conftest import Hook, parked, pump
from tests.kit.receiver import Got, Receiver, receiving


def verified(secret: str, got: Got) -> Any:
    return Webhook(secret).verify(got.body, got.headers)


def quick(define: Callable[..., Any]) -> None:
    """A workflow that ends at once."""
    flow: Workflow = define("quick")

    @flow.node
    def only(state: Any, ctx: Any) -> None:
        return None

    workflows.register(flow)


def one(hook: Hook) -> Delivery:
    [delivery] = hook.deliveries
    return delivery


def make_due(delivery: Delivery) -> None:
    by_sql("UPDATE runs_delivery SET due_at = now() WHERE id = %s", delivery.pk)


def delay_of(delivery: Delivery) -> float:
    """Seconds from the end of the newest attempt to the next one."""
    attempt = Attempt.objects.filter(delivery=delivery).latest("no")
    ended: datetime = attempt.at + timedelta(seconds=attempt.seconds)
    return (delivery.due_at - ended).total_seconds()


def test_what_happens_to_a_run_is_told_signed_and_in_order(
    house: House, define: Callable[..., Any], hook: Hook, receiver: Receiver, sender: Sender
) -> None:
    run, approval = parked(house, define)
    house.answer(approval, "approve")
    house.work(run)
    pump(sender)
    told = [verified(hook.secret, got) for got in receiver.got]
    by_seq = sorted(told, key=lambda message: message["data"]["seq"])
    assert [message["type"] for message in by_seq] == ["approval.opened", "approval.decided", "run.completed"]
    opened, decided, completed = (message["data"] for message in by_seq)
    assert opened["approval"]["id"] == str(approval.pk)
    assert opened["run"] == {**opened["run"], "id": str(run.pk), "status": "waiting", "workflow": "pay"}
    assert decided["decision"]["outcome"] == "approve"
    assert decided["decision"]["by"] == house.frida.as_dict()
    assert decided["decision"]["reason"] == "decision"
    assert completed["run"]["status"] == "completed"
    assert all(delivery.status == "delivered" for delivery in hook.deliveries)
    assert len({got.id for got in receiver.got}) == 3
    assert b"amount" not in b"".join(got.body for got in receiver.got)


def test_a_verb_that_is_rolled_back_tells_nobody(
    house: House, define: Callable[..., Any], hook: Hook
) -> None:
    run, _ = parked(house, define)
    before = Delivery.objects.count()

    class Undo(Exception):
        pass

    def cancel_and_undo() -> None:
        with transaction.atomic():
            locked = store.lock_run(run.pk)
            store.commit(locked, machine.cancel(locked.status, reason=""))
            assert Delivery.objects.count() == before + 1
            raise Undo

    with pytest.raises(Undo):
        cancel_and_undo()
    assert Delivery.objects.count() == before


def test_every_attempt_is_the_same_message(
    house: House, define: Callable[..., Any], hook: Hook, receiver: Receiver, sender: Sender, ada: Actor
) -> None:
    """The run goes on between attempts; the body does not. Each attempt is signed with the secrets of its own moment."""
    run, approval = parked(house, define)
    delivery = one(hook)
    receiver.say(500, b"no").reset()
    pump(sender)
    house.answer(approval, "approve")
    house.work(run)
    by_sql("UPDATE runs_delivery SET due_at = now() + interval '1 hour'")  # the others have their own tests
    _, fresh = operations.rotate_secret(actor=ada, endpoint_id=hook.endpoint.pk)
    make_due(delivery)
    pump(sender)
    make_due(delivery)
    pump(sender)
    mine = [got for got in receiver.got if got.id == receiver.got[0].id]
    assert [got.attempt for got in mine] == [1, 2, 3]
    assert len({got.body for got in mine}) == 1
    assert json.loads(mine[0].body)["data"]["run"]["status"] == "waiting"
    verified(hook.secret, mine[0])
    with pytest.raises(WebhookVerificationError):
        verified(fresh, mine[0])
    for got in mine[1:]:
        verified(fresh, got)
        verified(hook.secret, got)  # of the day before: still in force
    delivery.refresh_from_db()
    assert delivery.status == "delivered"
    outcomes = list(
        Attempt.objects.filter(delivery=delivery).order_by("no").values_list("outcome", flat=True)
    )
    assert outcomes == ["refused", "connection_failed", "delivered"]


def test_the_secret_before_ends_after_its_day(
    house: House, define: Callable[..., Any], hook: Hook, receiver: Receiver, sender: Sender, ada: Actor
) -> None:
    _, fresh = operations.rotate_secret(actor=ada, endpoint_id=hook.endpoint.pk)
    Endpoint.objects.update(earlier_until=store.now() - timedelta(seconds=1))
    parked(house, define)
    pump(sender)
    [got] = receiver.got
    verified(fresh, got)
    with pytest.raises(WebhookVerificationError):
        verified(hook.secret, got)


def test_delays_follow_the_schedule_and_then_it_is_a_dead_letter(
    house: House, define: Callable[..., Any], hook: Hook, receiver: Receiver, sender: Sender, ada: Actor
) -> None:
    parked(house, define)
    delivery = one(hook)
    for planned in schedule.DELAYS:
        receiver.say(500)
        pump(sender)
        delivery.refresh_from_db()
        assert delivery.status == "pending"
        assert planned - 1 <= delay_of(delivery) <= planned * 1.1 + 5
        make_due(delivery)
    receiver.say(503)
    pump(sender)
    delivery.refresh_from_db()
    assert (delivery.status, delivery.reason, delivery.attempt) == ("dead", "refused", schedule.ATTEMPTS)
    with pytest.raises(StillPending):
        operations.redeliver(
            actor=ada, delivery_id=operations.redeliver(actor=ada, delivery_id=delivery.pk).pk
        )
    pump(sender)
    delivery.refresh_from_db()
    assert delivery.status == "delivered"
    assert len({got.id for got in receiver.got}) == 1
    assert receiver.got[-1].attempt == schedule.ATTEMPTS + 1


def test_a_receiver_that_asks_for_time_gets_it(
    house: House, define: Callable[..., Any], hook: Hook, receiver: Receiver, sender: Sender
) -> None:
    parked(house, define)
    receiver.say(429, Retry_After="7")
    pump(sender)
    delivery = one(hook)
    assert 6 <= delay_of(delivery) <= 12
    make_due(delivery)
    receiver.say(503, Retry_After="100")
    pump(sender)
    delivery.refresh_from_db()
    assert 99 <= delay_of(delivery) <= 105


def test_a_receiver_that_is_gone_is_not_asked_again_and_admins_hear_of_it(
    house: House, define: Callable[..., Any], hook: Hook, receiver: Receiver, sender: Sender, ada: Actor
) -> None:
    receiver.say(500)
    run, approval = parked(house, define)
    pump(sender)
    receiver.say(410)
    house.answer(approval, "approve")
    pump(sender)
    hook.endpoint.refresh_from_db()
    assert (hook.endpoint.disabled_reason, bool(hook.endpoint.disabled_at)) == ("gone", True)
    assert [(d.status, d.reason) for d in hook.deliveries] == [
        ("cancelled", "endpoint_disabled"),
        ("dead", "gone"),
    ]
    assert "switched off" in Notice.objects.select_related("message").get(user=ada.user).message.title
    house.work(run)  # it ends, and nobody is told
    assert len(hook.deliveries) == 2
    with pytest.raises(EndpointOff):
        operations.redeliver(actor=ada, delivery_id=hook.deliveries[0].pk)


def test_what_waits_for_a_deleted_endpoint_is_cancelled(
    house: House, define: Callable[..., Any], hook: Hook, receiver: Receiver, sender: Sender, ada: Actor
) -> None:
    receiver.say(500)
    parked(house, define)
    pump(sender)
    operations.delete_endpoint(actor=ada, endpoint_id=hook.endpoint.pk)
    delivery = one(hook)
    assert (delivery.status, delivery.reason) == ("cancelled", "endpoint_deleted")
    make_due(delivery)
    pump(sender)
    assert len(receiver.got) == 1


def test_an_endpoint_that_is_deleted_during_an_attempt_gets_no_other(
    house: House, define: Callable[..., Any], hook: Hook, receiver: Receiver, sender: Sender, ada: Actor
) -> None:
    receiver.say(500)
    parked(house, define)
    sender.round()
    receiver.wait_for(1)
    operations.delete_endpoint(actor=ada, endpoint_id=hook.endpoint.pk)
    sender.finish()
    assert one(hook).status == "cancelled"


def test_a_sender_that_dies_leaves_one_more_attempt_under_the_same_id(
    house: House, define: Callable[..., Any], hook: Hook, receiver: Receiver, sender: Sender
) -> None:
    """KILL after the receiver got it and before it was written down."""
    parked(house, define)
    dead = Sender()
    dead.round()
    receiver.wait_for(1)  # and its answer is never noted
    pump(sender)
    assert len(receiver.got) == 1  # the lease is not over
    by_sql("UPDATE runs_delivery SET due_at = now()")
    pump(sender)
    first, second = receiver.wait_for(2)
    assert (first.id, first.body) == (second.id, second.body)
    assert [first.attempt, second.attempt] == [1, 2]
    dead.finish()  # it was only frozen: what it brings is too late, and changes nothing
    dead.close()
    assert one(hook).status == "delivered"
    assert [attempt.no for attempt in Attempt.objects.all()] == [2]


def test_two_senders_send_each_message_once(
    house: House, define: Callable[..., Any], hook: Hook, receiver: Receiver, sender: Sender
) -> None:
    quick(define)
    for _ in range(6):
        house.work(house.submit("quick"))
    other = Sender()
    while sender.round() + other.round() or sender.under_way or other.under_way:
        sender.note()
        other.note()
    other.close()
    assert len(receiver.got) == len({got.id for got in receiver.got}) == 6
    assert {delivery.attempt for delivery in hook.deliveries} == {1}


def test_one_endpoint_that_stalls_holds_up_no_other(
    house: House,
    define: Callable[..., Any],
    hook: Hook,
    receiver: Receiver,
    sender: Sender,
    ada: Actor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the one that stalls, only so many attempts are under way; the other one is served meanwhile."""
    run, approval = parked(house, define)
    house.answer(approval, "approve")
    house.work(run)
    with receiving() as quick:
        operations.create_endpoint(actor=ada, url=quick.url, events=["run.cancelled"])
        for _ in range(3):
            receiver.stall()
        sender.round()
        receiver.wait_for(2)
        later, _ = house.parked("pay", x=1)
        operations.cancel(actor=house.olga, run_id=later.pk)
        sender.round()
        quick.wait_for(1)
        assert len(receiver.got) == 2
        receiver.free.set()
        sender.finish()


@pytest.mark.parametrize("trouble", ["stall", "drip"])
def test_a_receiver_that_is_slow_is_left_at_the_deadline(
    trouble: str,
    house: House,
    define: Callable[..., Any],
    hook: Hook,
    receiver: Receiver,
    sender: Sender,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C91: a target that never answers; one that speaks so that no single silence is long."""
    monkeypatch.setattr(http_client.post, "__kwdefaults__", {"resolver": None, "seconds": 0.5})
    getattr(receiver, trouble)()
    parked(house, define)
    pump(sender)
    assert Attempt.objects.get().outcome == "timeout"
    assert one(hook).status == "pending"


def test_a_body_without_end_is_read_to_64_kib(
    house: House, define: Callable[..., Any], hook: Hook, receiver: Receiver, sender: Sender
) -> None:
    receiver.flood()
    parked(house, define)
    pump(sender)
    attempt = Attempt.objects.get()
    assert attempt.outcome == "delivered"
    assert 0 < len(attempt.answer) <= 2_000


def test_a_redirect_is_not_followed(
    house: House, define: Callable[..., Any], hook: Hook, receiver: Receiver, sender: Sender
) -> None:
    with receiving() as inside:
        receiver.say(302, Location=inside.url)
        parked(house, define)
        pump(sender)
        assert Attempt.objects.get().outcome == "redirect_refused"
        assert inside.connections == 0


def test_a_secret_made_with_another_key_is_said_not_used(
    house: House, define: Callable[..., Any], hook: Hook, receiver: Receiver, sender: Sender, settings: Any
) -> None:
    parked(house, define)
    settings.SECRET_KEY = "another-" + "y" * 40
    pump(sender)
    assert Attempt.objects.get().outcome == "secret_unreadable"
    assert receiver.got == []


def test_no_endpoint_no_person_no_row(house: House, define: Callable[..., Any]) -> None:
    quick(define)
    run = house.work(house.submit("quick"))
    assert run.status == "completed"
    assert Run.objects.get().messages.count() == 0  # a service account asked; nobody else wants to hear of it


def test_what_asks_again_after_a_restart_of_everything_is_one_message(
    house: House, define: Callable[..., Any], hook: Hook, receiver: Receiver, sender: Sender
) -> None:
    """C64: the clock decides once, and is told once, as the system's answer for lack of time."""
    run, _ = parked(house, define, due="1h", on_timeout="reject")
    by_sql("UPDATE runs_approval SET due_at = now() - interval '1 minute'")
    by_sql("UPDATE runs_wait SET due_at = now() - interval '1 minute'")
    house.sweep()
    house.sweep()
    house.work(run)
    pump(sender)
    expired = [verified(hook.secret, got) for got in receiver.got if b"approval.expired" in got.body]
    [message] = expired
    assert message["data"]["decision"]["by"] == {"type": "system", "id": None, "name": "system"}
    assert message["data"]["decision"]["reason"] == "timeout"
    assert not [got for got in receiver.got if b"approval.decided" in got.body]


def test_the_history_leads_from_a_message_to_its_event(
    house: House, define: Callable[..., Any], hook: Hook
) -> None:
    run, _ = parked(house, define)
    message = one(hook).message
    assert message.seq is not None
    assert run.events.get(seq=message.seq).kind == "approval_opened"
    assert open_approval(run).pk == message.approval_id


def test_one_that_cannot_be_sent_for_a_fault_of_ours_stops_no_other(
    house: House,
    define: Callable[..., Any],
    hook: Hook,
    receiver: Receiver,
    sender: Sender,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the thread that sends, and before it is handed over."""
    parked(house, define)
    house.parked("pay", x=2)
    honest = operations.secrets_in_force
    faults = [RuntimeError("no such thing")]

    def once_broken(endpoint: Endpoint) -> list[bytes]:
        if faults:
            raise faults.pop()
        return honest(endpoint)

    monkeypatch.setattr(service, "secrets_in_force", once_broken)
    pump(sender)
    assert sorted(d.status for d in hook.deliveries) == ["delivered", "pending"]
    assert Attempt.objects.get(outcome="error").detail == "RuntimeError: no such thing"
    monkeypatch.setattr(webhooks, "_headers", lambda *_: 1 / 0)
    by_sql("UPDATE runs_delivery SET due_at = now() WHERE status = 'pending'")
    pump(sender)
    assert Attempt.objects.filter(outcome="error").count() == 2
