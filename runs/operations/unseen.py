"""Edits by somebody who does not see everything: what was hidden from them stays what it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from runs import sights
from runs.engine.approval import ActionDecision
from runs.engine.canonical import Json
from runs.models import Approval, Run
from runs.policies import Actor


def whole_decisions(
    actor: Actor, run: Run, approval: Approval, decisions: Sequence[ActionDecision]
) -> list[ActionDecision]:
    """The answers with edited arguments whole. Raises `FieldNotEditable` for an edit of what the person does not see."""
    edited = {decision.key: decision.args for decision in decisions if decision.args is not None}
    whole = whole_args(actor, run, approval, edited)
    return [
        replace(decision, args=whole[decision.key]) if decision.key in whole else decision
        for decision in decisions
    ]


def whole_args(actor: Actor, run: Run, approval: Approval, args: Mapping[str, Json]) -> dict[str, Json]:
    """Edited arguments by action, whole. An action that is not there is left to whoever checks that."""
    if not args:
        return {}
    sight = sights.of(actor, run)
    actions = {action["key"]: action for action in approval.content["actions"]}
    return {
        key: sight.restored_args(actions[key], told) if key in actions else told for key, told in args.items()
    }
