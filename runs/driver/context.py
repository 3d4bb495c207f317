"""`ctx`: what a node's body may ask for."""

from __future__ import annotations

import copy
import hashlib
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, get_args

from runs.driver.decisions import Approved, Decision, approved_of
from runs.driver.port import Call, Entry, Interrupted, Port
from runs.driver.waits import Waits
from runs.engine import canonical
from runs.engine.approval import approved_digest
from runs.engine.canonical import Json
from runs.engine.retry import Retry
from runs.engine.state import storable
from runs.engine.workflow import Effect
from runs.errors import ApprovalMismatch, InvalidCall, JournalMismatch, NotApproved, StateNotStorable

EFFECTS: Final = get_args(Effect)
MAX_NAME: Final = 200
MAX_KEY: Final = 100
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A call that raised: if its error leaves the body, the call's own retry policy counts."""

    error: Exception
    name: str
    retry: Retry | None


class AskAgain(BaseException):
    """What is about to be done is not what was approved. A BaseException, so that no author's `except Exception` hides it."""

    def __init__(self, node: str, reason: str) -> None:
        super().__init__(node)
        self.node, self.reason = node, reason


@dataclass(slots=True)
class Context(Waits):
    """Given to every node as `ctx`.

    run_id, node, attempt: where this is. key: the step's idempotency key; inside a call, the call's.
    """

    run_id: str
    node: str
    attempt: int
    address: str
    generation: int
    branch: int
    answers: Mapping[str, Any]
    port: Port
    failures: Mapping[str, Any] = field(default_factory=dict)
    forgiven: int = 0  # attempts before the last Retry
    _entries: dict[tuple[str, str], Entry] | None = None
    _left: dict[tuple[str, str], Entry] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _counted: dict[tuple[str, str], bool] = field(default_factory=dict)
    _call_key: str | None = None
    failed: list[FailedCall] = field(default_factory=list)

    @property
    def key(self) -> str:
        return self._call_key or self._key_of("", "0")

    # ---- calls

    def call(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        kwargs: Mapping[str, Any] | None = None,
        name: str | None = None,
        key: str | None = None,
        effect: str = "none",
        retry: Retry | None = None,
        guarded_by: Approved | None = None,
        idempotency_key: bool = False,
    ) -> Any:
        """Call a function once in the life of this step: its result is committed, and a later replay gets it from there.

        args, kwargs: JSON values or pydantic models, for the function. name: default the function's.
        key: tells calls of one name apart by more than their order. effect: none, reversible or irreversible.
        retry: this call's own policy (default the node's). guarded_by: only with the arguments that were approved.
        idempotency_key: passes `idempotency_key=` to the function, the same for every attempt.
        Returns the result as JSON values. Raises what the function raises, `JournalMismatch` or `ApprovalMismatch`.
        """
        label = name or str(getattr(function, "__name__", type(function).__name__))
        occurrence = key if key is not None else str(self._count(label))
        _check_place(label, occurrence, effect)
        self._check_order(label, occurrence, counted=key is None)
        given = storable({"args": list(args), "kwargs": dict(kwargs or {})}, path=f"/{label}")
        digest = canonical.digest(given)
        if guarded_by is not None:
            _check_guard(function, args, kwargs or {}, guarded_by)
        known = self._known(label, occurrence, digest, given)
        if known is not None:
            return canonical.loads(known)
        self._ask(self.port.before_call)
        call_key = self._key_of(label, occurrence)
        extra = {"idempotency_key": call_key} if idempotency_key else {}
        started = time.monotonic()
        self._call_key = call_key
        try:
            raw = function(*args, **(kwargs or {}), **extra)
        except Exception as error:
            self.failed.append(FailedCall(error, label, retry))
            raise
        finally:
            self._call_key = None
        result = canonical.dumps(_result(raw, label))
        took = time.monotonic() - started
        self._commit(Call(label, occurrence, digest, result, effect, call_key, took))
        return canonical.loads(result)

    def _commit(self, call: Call) -> None:
        self._ask(lambda: self.port.commit_call(call))
        assert self._entries is not None
        # Known from now on: an explicit key may be asked for twice.
        entry = Entry(
            call.name, call.occurrence, call.args_digest, call.result, self.branch, True, call.effect
        )
        self._entries[call.name, call.occurrence] = entry

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        """Ask the port; what it raises is no failure of the node."""
        try:
            return question()
        except Exception as error:
            raise Interrupted(error) from error

    def _check_order(self, label: str, occurrence: str, *, counted: bool) -> None:
        """Calls are told apart by their order or by their key, and never by both: one would be taken for the other."""
        if self._call_key is not None:
            # When the outer call's result is known, the inner one is not asked for and all that follow would be miscounted.
            raise InvalidCall(f"The call {label!r} is made inside another call; make one after the other.")
        if self._counted.setdefault((label, occurrence), counted) != counted:
            raise InvalidCall(
                f"The key {occurrence!r} of a call {label!r} is also the count of one without a key; "
                "give every call of this name a key."
            )

    def _count(self, label: str) -> int:
        self._counts[label] = self._counts.get(label, 0) + 1
        return self._counts[label] - 1

    def _key_of(self, label: str, occurrence: str) -> str:
        parts = "\n".join([self.run_id, self.address, label, occurrence, str(self.generation)])
        return hashlib.sha256(parts.encode()).hexdigest()[:40]

    def _known(self, label: str, occurrence: str, digest: str, given: Json) -> str | None:
        """The result of an earlier attempt, or one of a branch left behind (which then becomes this branch's own)."""
        if self._entries is None:
            self._read_journal()
        assert self._entries is not None
        entry = self._entries.get((label, occurrence))
        if entry is not None:
            if entry.args_digest != digest:
                raise JournalMismatch(
                    f"The journal holds {label!r} (call {occurrence}) with other arguments than it is asked for now; "
                    "a node must ask for the same calls every time it runs.",
                    call=label,
                    occurrence=occurrence,
                    recorded=entry.args_digest,
                    asked=given,
                )
            return entry.result
        left = self._left.get((label, occurrence))
        if left is None or left.args_digest != digest:
            return None
        key = self._key_of(label, occurrence)
        self._commit(
            Call(label, occurrence, digest, left.result, left.effect, key, 0.0, reused_from=left.branch)
        )
        return left.result

    def _read_journal(self) -> None:
        self._entries = {}
        for entry in sorted(self._ask(self.port.entries), key=lambda entry: entry.branch):
            place = self._entries if entry.visible else self._left
            place[entry.name, entry.occurrence] = entry

    # ---- decisions

    def approved(self, node: str, *, key: str | None = None) -> Approved:
        """The action that people approved at this approval; `key` if it had several. Raises `NotApproved`."""
        answer = self._answer(node)
        found = approved_of(
            node, answer["approval"], answer["outcome"], answer["actions"], edited=answer["edited"], key=key
        )
        recorded = self._ask(lambda: self.port.approved_digest(answer["approval"]))
        if approved_digest(answer["actions"]) != recorded:
            raise AskAgain(node, "payload_changed")
        return found

    def edited(self, node: str, *, key: str | None = None) -> dict[str, Json] | None:
        """The arguments a person edited at this approval, in the node that rechecks them; None on any other way here."""
        if node not in self.answers:
            return None
        answer = self._answer(node)
        actions = {action["key"]: action for action in answer["actions"]}
        action = actions.get(key) if key is not None else next(iter(actions.values()), None)
        return dict(action["args"]) if action and answer["outcome"] == "edit" else None

    def decision(self, node: str) -> Decision:
        """What was decided at this approval, whatever it was. Raises `NotApproved` if nothing was."""
        answer = self._answer(node)
        return Decision(
            answer["approval"],
            answer["outcome"],
            answer["by"],
            answer["reason"],
            answer["comment"],
            answer["edited"],
            answer["at"],
            answer["actions"],
        )

    def failure(self, node: str) -> Mapping[str, Json] | None:
        """Why a node failed on the way here (`on_error`): `code`, `message`, `step` and more; None if it did not."""
        found: Mapping[str, Json] | None = self.failures.get(node)
        return found

    def _answer(self, node: str) -> Any:
        if node not in self.answers:
            raise NotApproved(f"Nothing was decided at {node!r} on the way here.", node=node)
        # It is part of the run's position; what a node has is its own.
        return copy.deepcopy(self.answers[node])


def _check_place(label: str, occurrence: str, effect: str) -> None:
    """Said before the call is made: afterwards its effect would have happened, and nothing would know of it."""
    if effect not in EFFECTS:
        raise InvalidCall(f"effect={effect!r} of the call {label!r} is not one of {', '.join(EFFECTS)}.")
    for what, text, longest in (("name", label, MAX_NAME), ("key", occurrence, MAX_KEY)):
        if not 0 < len(text) <= longest or canonical.visible(text) != text:
            raise InvalidCall(
                f"The {what} {text!r:.300} of a call is not a text of 1 to {longest} characters."
            )


def _check_guard(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], approved: Approved
) -> None:
    """The arguments must be the approved ones, whether they are passed by place or by name."""
    given = storable(_by_name(function, args, kwargs))
    if canonical.dumps(given) != approved.as_approved:
        raise ApprovalMismatch(
            f"The call has other arguments than {approved.node!r} approved.",
            approved=canonical.loads(approved.as_approved),
            given=given,
        )


def _by_name(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    if not args:
        return dict(kwargs)
    try:
        signature = inspect.signature(function)
        bound = dict(signature.bind_partial(*args, **kwargs).arguments)
    except (TypeError, ValueError):
        return {"args": list(args), **kwargs}
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            bound.update(bound.pop(name, {}))
    return bound


def _result(raw: Any, label: str) -> Json:
    try:
        return storable(raw)
    except StateNotStorable as error:
        raise StateNotStorable(
            f"{label!r} returned something that cannot be stored: {error.detail}",
            errors=error.errors,
            **error.facts,
        ) from None
