"""Empties the outbox: takes what is due, lets threads send it, and writes down what came of it.

Only this thread speaks to the database; the others do nothing but I/O. So a target that stalls costs a thread and nothing
else, several senders may run at once (each takes what the others do not hold), and one that dies leaves its attempts to the
others once their leases are over: under the same id, so that receivers recognise them.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Final

from runs import store, watching
from runs.delivery import mail, schedule, webhooks
from runs.engine import canonical
from runs.models import Delivery
from runs.models.delivery import BLOCKED, CANCELLED, DEAD, DELIVERED, PENDING
from runs.operations import secrets_in_force
from runs.store import Leased, Tried
from runs.wall import Resolver

WEBHOOKS: Final = 16  # attempts at once
EACH: Final = 2  # of them to one endpoint
MAILS: Final = 4
BEAT_SECONDS: Final = 5.0
DIGEST_SECONDS: Final = 60.0
FINAL: Final = {
    "blocked": BLOCKED,
    "gone": DEAD,
    "mailbox_refused": DEAD,
}  # what is not tried again by itself
logger = logging.getLogger(__name__)


class Sender:
    """One process that sends. resolver: who looks names up; default the system."""

    def __init__(self, *, resolver: Resolver | None = None) -> None:
        self.resolver = resolver
        self.webhooks = ThreadPoolExecutor(WEBHOOKS, thread_name_prefix="webhook")
        self.mails = ThreadPoolExecutor(MAILS, thread_name_prefix="mail")
        self.under_way: dict[Future[Tried], tuple[Leased, Delivery]] = {}
        self.sent = self.beat_at = self.digest_at = 0.0

    def run(
        self, stop: threading.Event, *, every: float = 1.0, done: Callable[[], None] = lambda: None
    ) -> None:
        """Until `stop`; what is under way then is waited for. done: called after each round."""
        while not stop.is_set():
            taken = self.round()
            done()
            if not taken:
                self._rest(stop, every)
        self.finish()

    def round(self) -> int:
        """Write down what has come back, take what is due. Returns how many were taken."""
        self.note()
        taken = self._take_webhooks() + self._take_mails()
        self._housekeeping()
        return taken

    def finish(self) -> None:
        """Wait for what is under way, and write it down."""
        while self.under_way:
            wait(self.under_way, return_when=FIRST_COMPLETED)
            self.note()

    def close(self) -> None:
        self.webhooks.shutdown(wait=False, cancel_futures=True)
        self.mails.shutdown(wait=False, cancel_futures=True)

    def note(self) -> None:
        """Write down every attempt that is over. One that cannot be written now is kept for the next round."""
        for future in [future for future in self.under_way if future.done()]:
            leased, delivery = self.under_way[future]
            self._settle(leased, delivery, _came_of(future))
            del self.under_way[future]

    def _rest(self, stop: threading.Event, every: float) -> None:
        """Until something has come back, or the next look is due."""
        if self.under_way:
            wait(self.under_way, timeout=every, return_when=FIRST_COMPLETED)
        else:
            stop.wait(every)

    # -- taking

    def _take_webhooks(self) -> int:
        room = WEBHOOKS - sum(delivery.endpoint_id is not None for _, delivery in self.under_way.values())
        taken = store.lease_webhooks(limit=room, each=EACH) if room else []
        for leased in taken:
            self._safely(self._begin_webhook, leased)
        return len(taken)

    def _take_mails(self) -> int:
        room = MAILS - sum(delivery.endpoint_id is None for _, delivery in self.under_way.values())
        taken = store.lease_mails(limit=room) if room else []
        for leased in taken:
            self._safely(self._begin_mail, leased)
        return len(taken)

    def _safely(self, begin: Callable[[Leased], None], leased: Leased) -> None:
        """One that cannot even be begun is tried again by the schedule, and stops no other."""
        try:
            begin(leased)
        except Exception as error:
            if not store.is_connected():
                raise  # nothing else will work either
            logger.exception("a delivery could not be begun", extra={"delivery": str(leased.id)})
            tried = _accident(error)
            status, delay = _next(leased, tried)
            store.settle(leased, tried, status=status, reason=tried.outcome, delay=delay)

    def _begin_webhook(self, leased: Leased) -> None:
        delivery = Delivery.objects.select_related("endpoint", "message").get(pk=leased.id)
        endpoint = delivery.endpoint
        assert endpoint is not None
        if endpoint.deleted_at or endpoint.disabled_at:
            why = "endpoint_deleted" if endpoint.deleted_at else "endpoint_disabled"
            store.settle(leased, None, status=CANCELLED, reason=why)
            return
        parcel = webhooks.Parcel(
            endpoint.url,
            delivery.message_id,
            delivery.message.body.encode(),
            leased.attempt,
            secrets_in_force(endpoint),
        )
        work = partial(webhooks.send, parcel, now=store.now(), resolver=self.resolver)
        self._begin(self.webhooks, work, leased, delivery)

    def _begin_mail(self, leased: Leased) -> None:
        rows = Delivery.objects.select_related("user", "message__run", "message__project")
        delivery = rows.get(pk=leased.id)
        written = mail.letter(delivery)
        if isinstance(written, mail.Unwanted):
            store.settle(leased, None, status=CANCELLED, reason=written.reason)
            return
        self._begin(self.mails, partial(mail.send, written, moment=store.now()), leased, delivery)

    def _begin(
        self, pool: ThreadPoolExecutor, work: Callable[[], Tried], leased: Leased, delivery: Delivery
    ) -> None:
        self.under_way[pool.submit(work)] = (leased, delivery)

    # -- what comes of it

    def _settle(self, leased: Leased, delivery: Delivery, tried: Tried) -> None:
        status, delay = _next(leased, tried)
        if status == PENDING and delivery.endpoint is not None:
            delivery.endpoint.refresh_from_db(fields=["deleted_at", "disabled_at"])
            if delivery.endpoint.deleted_at or delivery.endpoint.disabled_at:
                status = CANCELLED
        mine = store.settle(
            leased, tried, status=status, reason="" if tried.delivered else tried.outcome, delay=delay
        )
        if not mine:
            logger.warning("somebody else has a delivery by now", extra={"delivery": str(leased.id)})
        elif tried.outcome == "gone" and delivery.endpoint is not None:
            store.disable_gone(delivery.endpoint)
        if not tried.delivered:
            logger.info(
                "%s %s: %s", delivery.channel, status, tried.outcome, extra={"delivery": str(leased.id)}
            )
        self.sent += tried.delivered

    def _housekeeping(self) -> None:
        moment = time.monotonic()
        if moment >= self.digest_at:
            self.digest_at = moment + DIGEST_SECONDS
            store.gather_digests()
        if moment >= self.beat_at:
            self.beat_at = moment + BEAT_SECONDS
            store.beat(watching.SENDER.beat, {"under_way": len(self.under_way), "delivered": int(self.sent)})


def _came_of(future: Future[Tried]) -> Tried:
    error = future.exception()
    if error is None:
        return future.result()
    logger.error("an attempt ended by accident", exc_info=error)
    return _accident(error)


def _accident(error: BaseException) -> Tried:
    """A fault of ours, or something that nobody thought of."""
    return Tried(
        "error", store.now(), 0.0, detail=canonical.visible(f"{type(error).__name__}: {error}"[:500])
    )


def _next(leased: Leased, tried: Tried) -> tuple[str, float]:
    """What becomes of a delivery after this attempt: its status, and how long it waits for the next one."""
    if tried.delivered:
        return DELIVERED, 0.0
    if tried.outcome in FINAL:
        return FINAL[tried.outcome], 0.0
    draw = random.random()  # noqa: S311  # jitter, no secret
    delay = schedule.delay_after(leased.round, draw=draw, retry_after=tried.retry_after)
    return (DEAD, 0.0) if delay is None else (PENDING, delay)
