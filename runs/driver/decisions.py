"""What people decided, as a body reads it: the decision, and the action whose arguments are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runs.engine import canonical
from runs.engine.canonical import Json
from runs.errors import NotApproved


@dataclass(frozen=True, slots=True)
class Approved:
    """An action that people approved: the arguments to use are `args`, whether edited or not.

    args is the node's own copy; `guarded_by` compares with as_approved, the canonical JSON of the arguments.
    """

    node: str
    approval_id: str
    key: str
    tool: str
    args: dict[str, Json]
    as_approved: str
    edited: bool
    message: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision as the nodes after it see it. `by` is a person, or the system after a time-out."""

    approval_id: str
    outcome: str
    by: Mapping[str, Json]
    reason: str
    comment: str
    edited: bool
    at: str
    actions: Sequence[Mapping[str, Json]]

    @property
    def message(self) -> str:
        """The text that came with it: the first action's message, or the comment."""
        return next(
            (str(action["message"]) for action in self.actions if action.get("message")), self.comment
        )


@dataclass(frozen=True, slots=True)
class Answer(Decision):
    """What came of an `ask`. True if it was approved, as it was asked or edited."""

    name: str

    def __bool__(self) -> bool:
        return self.outcome == "approve"

    def approved(self, *, key: str | None = None) -> Approved:
        """The action that people approved; `key` if they were asked about several. Raises `NotApproved`."""
        return approved_of(
            self.name, self.approval_id, self.outcome, self.actions, edited=self.edited, key=key
        )

    @property
    def args(self) -> Json:
        """The approved arguments of the only action, whether edited or not. Raises `NotApproved`."""
        return self.approved().args


def approved_of(
    node: str,
    approval_id: str,
    outcome: str,
    actions: Sequence[Mapping[str, Json]],
    *,
    edited: bool,
    key: str | None,
) -> Approved:
    by_key = {action["key"]: action for action in actions}
    if key is None and len(by_key) > 1:
        raise NotApproved(f"{node!r} had {len(by_key)} actions; say key= (one of {', '.join(by_key)}).")
    action = by_key.get(key) if key is not None else next(iter(by_key.values()), None)
    if action is None or action["decision"] != "approve":
        said = action["decision"] if action else outcome
        raise NotApproved(f"{node!r} was not approved: {said}.", node=node, outcome=outcome)
    return Approved(
        node,
        approval_id,
        action["key"],
        action["tool"],
        action["args"],
        canonical.dumps(action["args"]),
        edited,
        action["message"],
    )
