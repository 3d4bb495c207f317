"""Messages from outside to a run: kept in its mailbox until something waits for them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from runs import policies, store
from runs.engine import canonical
from runs.engine.canonical import Json
from runs.engine.schema import validate
from runs.engine.transition import Event, Transition
from runs.engine.waits import MAX_NAME
from runs.errors import AlreadyTerminal, BadRequest, Problem, SignalReused, Told, Unprocessable
from runs.models import Run, Signal, Wait
from runs.operations.door import commit, locked_run, verb
from runs.operations.waking import settle
from runs.policies import Actor

MAX_SIGNAL_ID = 200


@dataclass(frozen=True, slots=True)
class Signalled:
    """The signal as it lies in the mailbox, and whether an earlier request with the same id had put it there."""

    signal: Signal
    run: Run
    replayed: bool


def signal(
    *, actor: Actor, run_id: uuid.UUID | str, name: str, payload: Json = None, signal_id: str | None = None
) -> Signalled:
    """Send a signal to a run. Joins the caller's transaction: it is there exactly if that commits.

    signal_id: the sender's; the same one again changes nothing and answers the same. Raises `SignalReused` if it came with
    something else, `AlreadyTerminal` for a run that has ended, `Unprocessable` if the run waits for this name and the payload
    fits none of the schemas.
    """
    with verb(actor, "signal", run_id, durable=False):
        run = locked_run(run_id)
        policies.check_signal(actor, run)
        _check(name, payload, signal_id)
        digest = canonical.digest({"name": name, "payload": payload})
        earlier = Signal.objects.filter(run=run, sent_id=signal_id).first() if signal_id else None
        if earlier is not None:
            if earlier.digest != digest:
                raise SignalReused(name=earlier.name, received_at=earlier.received_at.isoformat())
            return Signalled(earlier, run, replayed=True)
        if run.is_terminal:
            raise AlreadyTerminal(
                Told("The run is {status}; nothing waits for a signal.", status=run.status), status=run.status
            )
        _check_schemas(run, name, payload)
        sent = store.add_signal(
            run,
            name=name,
            sent_id=signal_id or str(uuid.uuid4()),
            payload=canonical.dumps(payload),
            digest=digest,
            sender=actor.as_dict(),
        )
        _note(run, sent, payload, actor)
        for address in store.waiting_steps(run, name):
            settle(run, address, sent.received_at)
        run.refresh_from_db()
        return Signalled(sent, run, replayed=False)


def _note(run: Run, sent: Signal, payload: Json, actor: Actor) -> None:
    facts: dict[str, Json] = {"name": sent.name, "id": sent.sent_id, "no": sent.no, "payload": payload}
    commit(
        run,
        Transition(events=[Event("signal_received", facts)]),
        actor=actor.as_dict(),
        moment=sent.received_at,
    )


def _check(name: str, payload: Json, signal_id: str | None) -> None:
    canonical.check({"name": name, "payload": payload, "id": signal_id})
    for what, text, longest in (("name", name, MAX_NAME), ("id", signal_id, MAX_SIGNAL_ID)):
        if text is not None and not canonical.is_name(text, longest):
            raise BadRequest(
                Told(
                    "The {what} of a signal is a text of 1 to {longest} visible characters.",
                    what=what,
                    longest=longest,
                ),
                errors=[
                    Problem(
                        f"/{what}",
                        "invalid_value",
                        Told("1 to {longest} visible characters", longest=longest),
                    )
                ],
            )


def _check_schemas(run: Run, name: str, payload: Json) -> None:
    """Whoever sends something that is waited for learns at once that it does not fit."""
    waits = Wait.objects.filter(run=run, branch=run.branch, closed_at=None, kind="signal", name=name)
    faults = [validate(payload, wait.schema) for wait in waits.order_by("opened_at", "id")]
    if faults and all(faults):
        raise Unprocessable(
            Told("The payload of {name!r} does not fit what the run waits for.", name=name), errors=faults[0]
        )
