"""Approvals: the document people see, its digest, what an answer does to it, and when votes decide.

Pure. An approval's document holds title, facts, reason, the agent's note and the actions; the digest covers all of it,
so a decision names exactly what was on the screen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, get_args

from pydantic import BaseModel

from runs.engine import canonical
from runs.engine.canonical import Json
from runs.engine.patch import difference, pointer
from runs.engine.schema import TOO_SLOW, check_schema, fault, validate
from runs.engine.stages import Stage, VoteFact, listed, several, standing
from runs.engine.state import is_model, storable
from runs.engine.workflow import DECISIONS, RISKS, Action, ApprovalOptions, Ask, Effect, Way, due_of
from runs.errors import (
    BadRequest,
    DecisionNotAllowed,
    EditorMayNotApprove,
    InvalidJson,
    Problem,
    ReasonRequired,
    SchemaViolation,
    StateNotStorable,
    Told,
    Unprocessable,
    WorkflowError,
)

DEFAULT_ALLOWED: Final = ("approve", "reject", "respond")
EFFECTS: Final = get_args(Effect)
MAX_COMMENT: Final = 10_000
_AROUND: Final = 4  # levels of the document around the arguments, which may be as deep as any document


@dataclass(frozen=True, slots=True)
class ActionDecision:
    """What a person says about one action. `args` only with edit, `message` mostly with reject and respond."""

    key: str
    type: str
    args: Json = None
    message: str = ""

    def as_dict(self) -> dict[str, Json]:
        return {"key": self.key, "type": self.type, "args": self.args, "message": self.message}


@dataclass(slots=True)
class Judged:
    """What an answer comes to: a new document if it edits, the outcome if it decides, or another check of the edit.

    stage: which one is asked after it.
    """

    document: dict[str, Json]
    edited: bool
    vote: VoteFact
    stage: int = 0
    decided: str | None = None
    recheck: bool = False
    results: list[dict[str, Json]] = field(default_factory=list)


# ---- opening


def options_of(asked: Any, options: ApprovalOptions, *, node: str) -> ApprovalOptions:
    """The rules by which people are asked: the node's, and what an `Ask` says in place of them. Raises `SchemaViolation`."""
    if not isinstance(asked, Ask):
        return options
    told: dict[str, Any] = {}
    try:
        if asked.reviewers is not None or asked.quorum is not None:
            names = options.reviewers if asked.reviewers is None else Stage(asked.reviewers).reviewers
            quorum = options.quorum if asked.quorum is None else asked.quorum
            told |= {"reviewers": tuple(names), "quorum": quorum, "stages": ()}
        if asked.stages is not None:
            told |= {"stages": listed(asked.stages, where=node, what="stages"), "reviewers": (), "quorum": 1}
        if asked.due is not None:
            told["due"] = due_of(asked.due, where=node)
    except WorkflowError as error:
        raise SchemaViolation(f"{node!r}: {error.detail}", path="") from None
    changed = replace(options, **told)
    fault = changed.fault()
    if fault:
        raise SchemaViolation(f"{node!r}: {fault}.", path="")
    return changed


def document_of(asked: Any, *, way: Way, options: ApprovalOptions, node: str) -> dict[str, Json]:
    """The document of a new approval from what the approval function returned. Raises `SchemaViolation`."""
    ask = asked if isinstance(asked, Ask) else Ask(asked)
    actions = [ask.actions] if isinstance(ask.actions, Action) else ask.actions
    if not _are_actions(actions):
        kind = type(asked).__name__
        of = f" of {type(ask.actions).__name__}" if asked is ask else ""
        raise SchemaViolation(
            f"The approval {node!r} returns an Action, a list of them, or an Ask; it returned {kind}{of}.",
            path="",
            type=kind,
        )
    may_respond = "respond" in way.outcomes or len(actions) > 1
    facts = _mapping(ask.facts, f"facts of {node!r}", "labels and values", path="/facts")
    drawn = [_action(action, index, may_respond=may_respond) for index, action in enumerate(actions)]
    keys = [action["key"] for action in drawn]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice:
        raise SchemaViolation(
            f"Two actions of {node!r} have the key {twice!r}; give each one its own.", path=""
        )
    if options.on_timeout == "approve" and any(action["effect"] == "irreversible" for action in drawn):
        raise SchemaViolation(f"{node!r} may not approve an irreversible action by time-out.", path="")
    document = {
        "title": _text(ask.title, "title") or _title(drawn),
        "reason": _text(ask.reason, "reason"),
        "agent_note": _text(ask.agent_note, "agent_note"),
        "facts": [
            {
                "label": _text(label, "a label of facts", path="/facts"),
                "value": storable(value, path=f"/facts/{canonical.escape(label)}"),
            }
            for label, value in facts.items()
        ],
        "actions": drawn,
    }
    _check_storable(document)
    return document


def _are_actions(actions: Any) -> bool:
    return (
        isinstance(actions, (list, tuple)) and bool(actions) and all(isinstance(a, Action) for a in actions)
    )


def _text(value: Any, where: str, *, path: str = "") -> str:
    if not isinstance(value, str):
        kind = type(value).__name__
        raise SchemaViolation(f"{where} is a text, not {kind}.", path=path or f"/{where}", type=kind)
    return value


def _mapping(value: Any, what: str, of: str, *, path: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        kind = type(value).__name__
        raise SchemaViolation(f"{what}: a dict of {of} is needed, not {kind}.", path=path, type=kind)
    return value


def _texts(value: Any, what: str, *, path: str) -> tuple[str, ...]:
    """Texts, or a single one."""
    told = several(value)
    if told is None or not all(isinstance(one, str) for one in told):
        raise SchemaViolation(f"{what}: a list of texts is needed, not {value!r:.100}.", path=path)
    return told


def _check_storable(document: Json) -> None:
    """The words of a question may come from an agent: what they hold must not break the store."""
    try:
        canonical.check(document, max_depth=canonical.MAX_DEPTH + _AROUND)
    except InvalidJson as error:
        first = error.errors[0]
        raise StateNotStorable(
            f"The question cannot be stored: {first.message} at {first.path}.",
            errors=error.errors,
            path=first.path,
        ) from None


def _action(action: Action, index: int, *, may_respond: bool) -> dict[str, Json]:
    path = f"/actions/{index}"
    tool, key = _text(action.tool, "tool"), _text(action.key or action.tool, "key")
    if not tool.strip():
        raise SchemaViolation("tool is empty; nobody would know what is asked.", path="/tool")
    args = _mapping(action.args, f"args of {tool!r}", "names and values", path=f"{path}/args")
    args = storable(dict(args), path=f"{path}/args")
    schema = json_schema(action.schema, f"schema of {tool!r}")
    problems, unchecked = _schema_problems(args, schema)
    if problems:
        raise SchemaViolation(f"The arguments of {action.tool!r} do not fit its schema.", errors=problems)
    if action.risk is not None and action.risk not in RISKS:
        raise SchemaViolation(
            f"risk={action.risk!r} of {action.tool!r} is not one of {', '.join(RISKS)}.", path=path
        )
    if action.effect not in EFFECTS:
        raise SchemaViolation(
            f"effect={action.effect!r} of {action.tool!r} is not one of {', '.join(EFFECTS)}.", path=path
        )
    names = _texts(action.editable, f"editable of {tool!r}", path=f"{path}/editable")
    editable = [name if name.startswith("/") else pointer([name]) for name in names]
    allowed = _allowed(action, editable=bool(editable), may_respond=may_respond)
    drawn: dict[str, Json] = {
        "key": key,
        "tool": tool,
        "args": args,
        "schema": schema,
        "allowed": allowed,
        "editable": editable,
        "effect": action.effect,
        "risk": action.risk,
    }
    if unchecked and "edit" in allowed:  # told only then: the digests of all others stay what they were
        drawn |= {"allowed": [answer for answer in allowed if answer != "edit"], "unchecked": unchecked}
    return drawn


def _schema_problems(args: Json, schema: Json) -> tuple[list[Problem], str]:
    """What of the arguments does not fit, and why an edit could not be checked: then they are only approved as they are."""
    problems = check_schema(schema)
    unchecked = "" if problems else fault(schema)
    if problems or unchecked:
        return problems, unchecked
    problems = validate(args, schema)
    slow = next((problem.message for problem in problems if problem.code == TOO_SLOW), "")
    return ([], slow) if slow else (problems, "")


def _allowed(action: Action, *, editable: bool, may_respond: bool) -> list[Json]:
    given = DEFAULT_ALLOWED if action.allowed is None else action.allowed
    told = list(_texts(given, f"allowed of {action.tool!r}", path="/allowed"))
    unknown = [answer for answer in told if answer not in DECISIONS]
    if unknown:
        raise SchemaViolation(
            f"{action.tool!r} allows {unknown[0]!r}; answers are {', '.join(DECISIONS)}.", path=""
        )
    if editable and "edit" not in told:
        told.append("edit")
    if not may_respond and action.allowed is None:
        told.remove("respond")
    if not told:
        raise SchemaViolation(f"{action.tool!r} offers no answer; nobody could decide.", path="")
    return [answer for answer in DECISIONS if answer in told]


def json_schema(schema: type[BaseModel] | Mapping[str, Any] | None, what: str) -> Json:
    """What an author gave as a schema, as JSON. what: of what it is, for whoever gave something else. Raises a `StepError`."""
    if schema is None:
        return None
    if isinstance(schema, Mapping):
        return storable(dict(schema), path="/schema")
    if not is_model(schema):
        raise SchemaViolation(
            f"{what}: a pydantic model or a JSON Schema is needed, not {schema!r:.100}.", path="/schema"
        )
    return schema.model_json_schema()


def _title(actions: Sequence[Mapping[str, Json]]) -> str:
    return actions[0]["tool"] if len(actions) == 1 else f"{len(actions)} actions"


def approved_digest(results: Sequence[Mapping[str, Json]]) -> str:
    """Digest of what was decided per action: what the worker recomputes before it acts."""
    return canonical.digest([dict(result) for result in results])


# ---- answering


@dataclass(frozen=True, slots=True)
class Shown:
    """An approval in the version that was decided about."""

    approval: str
    version: int
    digest: str


def decision_of(
    shown: Shown,
    outcome: str,
    *,
    by: Mapping[str, Json],
    reason: str,
    comment: str,
    at: datetime,
    results: Sequence[Mapping[str, Json]],
) -> dict[str, Json]:
    """The decision as the position keeps it and the nodes after it see it."""
    return {
        "approval": shown.approval,
        "version": shown.version,
        "digest": shown.digest,
        "outcome": outcome,
        "by": dict(by),
        "reason": reason,
        "comment": comment,
        "edited": shown.version > 1,
        "at": at.isoformat(),
        "actions": [dict(result) for result in results],
    }


def timed_out(document: Mapping[str, Json], options: Mapping[str, Json]) -> tuple[str, list[dict[str, Json]]]:
    """What it comes to that nobody has answered in time: what is said, and to each action."""
    said = "approve" if options.get("on_timeout") == "approve" else "reject"
    return said, [_result(action, ActionDecision(action["key"], said)) for action in document["actions"]]


def worded(chosen: Sequence[str], text: str, *, options: Mapping[str, Json]) -> str:
    """The reasons that somebody chose and then what they wrote, as one text. Raises where the node offers no such reason.

    options: those of the approval, as they are stored.
    """
    offered: Any = options.get("reasons") or ()
    wrong = [
        Problem(
            f"/reasons/{place}", "unknown_reason", Told("one of {choices}", choices=", ".join(offered) or "-")
        )
        for place, reason in enumerate(chosen)
        if reason not in offered
    ]
    if wrong:
        raise Unprocessable("A reason was chosen that is not offered here.", errors=wrong)
    return ". ".join(part for part in [*chosen, text] if part.strip())


def judge(
    document: Mapping[str, Json],
    decisions: Sequence[ActionDecision],
    *,
    user: str,
    comment: str,
    options: ApprovalOptions,
    votes: Sequence[VoteFact],
    editors: Sequence[str],
    stage: int = 0,
) -> Judged:
    """Check one person's answer and say what it comes to. Raises; then nothing may be stored.

    votes: those already cast for this version. stage: the one that is asked, and that this person belongs to.
    editors: who made this version and edits before it (of its arguments).
    """
    actions = {action["key"]: action for action in document["actions"]}
    _check_keys(actions, decisions)
    if len(comment) > MAX_COMMENT:
        raise Unprocessable(
            Told("A comment has at most {max_comment:,} characters.", max_comment=MAX_COMMENT)
        )
    edited = False
    drawn = []
    for decision in decisions:
        action = dict(actions[decision.key])
        _check_decision(action, decision, comment=comment, options=options)
        if decision.type == "edit" and not canonical.same(decision.args, action["args"]):
            action["args"] = decision.args
            edited = True
        drawn.append(action)
    order = list(actions)
    drawn.sort(key=lambda action: order.index(action["key"]))
    ordered = sorted(decisions, key=lambda decision: order.index(decision.key))
    said = outcome_of([decision.type for decision in ordered])
    vote = VoteFact(user, _signature(ordered, comment), said, stage)
    judged = Judged({**document, "actions": drawn}, edited, vote)
    if edited and options.recheck:
        judged.recheck = True
        judged.results = [_result(action, decision) for action, decision in zip(drawn, ordered, strict=True)]
        return judged
    counted = [vote] if edited else [*votes, vote]
    stages = options.asked
    makers = {*editors, user} if edited else set(editors)
    held = partial(_is_held, document, makers, options)
    # What is held is not agreed yet: nobody is bound to what editors alone have said.
    before = standing(stages, votes, reject_quorum=options.reject_quorum, held=held).agreed
    if before and not edited and vote.outcome != "reject" and vote.signature != before:
        raise DecisionNotAllowed(
            "Those who were asked before you have answered otherwise; agree with them, reject, or edit.",
            agreed=before,
        )
    now = standing(stages, counted, reject_quorum=options.reject_quorum, held=held)
    judged.stage = now.stage
    if now.outcome:
        judged.decided = now.outcome
        judged.results = [_result(action, decision) for action, decision in zip(drawn, ordered, strict=True)]
        return judged
    alike = frozenset(other.user for other in counted if other.signature == vote.signature)
    if len(stages) == 1 and stages[0].quorum == 1 and not edited and held(vote.signature, alike):
        raise EditorMayNotApprove()
    return judged


def _is_held(
    document: Mapping[str, Json],
    makers: set[str],
    options: ApprovalOptions,
    said: str,
    people: frozenset[str],
) -> bool:
    """Whether what would be done cannot be undone, and all who want it have edited it: somebody else must agree."""
    if options.editor_may_approve or not people <= makers:
        return False
    final = [action["key"] for action in document["actions"] if action["effect"] == "irreversible"]
    return any(f"{key}=approve" in said for key in final)


def outcome_of(types: Sequence[str]) -> str:
    """The outcome of decisions per action: approve, reject, respond or mixed."""
    kinds = {"approve" if kind == "edit" else kind for kind in types}
    if kinds == {"respond"}:
        return "respond"
    if kinds == {"reject"}:
        return "reject"
    return "approve" if "reject" not in kinds else "mixed"


def edit_problems(action: Mapping[str, Json], args: Json) -> list[Problem]:
    """What is wrong with edited arguments: schema faults, and paths that may not be changed."""
    if not isinstance(args, dict):
        return [Problem("", "object_type", "the arguments are a JSON object")]
    paths = [change.path for change in difference(action["args"], args)]
    problems = [
        Problem(path, "not_editable", Told("{path} may not be changed here", path=path))
        for path in paths
        if not _may_change(path, action["editable"])
    ]
    found = validate(args, action["schema"], formats=True)
    # What the workflow proposed was not held against its formats, so nobody is held to them who left it as it was.
    return problems + [one for one in found if one.code != "format" or _may_change(one.path, paths)]


def _may_change(path: str, editable: Sequence[str]) -> bool:
    return any(path == allowed or path.startswith(f"{allowed}/") for allowed in editable)


def _check_keys(actions: Mapping[str, Json], decisions: Sequence[ActionDecision]) -> None:
    told = [decision.key for decision in decisions]
    for key in told:
        if key not in actions:
            raise BadRequest(
                Told("The approval has no action {key!r}.", key=key),
                errors=[
                    Problem(
                        "/decisions",
                        "unknown_action",
                        Told("its actions are {choices}", choices=", ".join(actions)),
                    )
                ],
            )
    if len(told) != len(set(told)):
        raise BadRequest("An action is decided twice in one answer.")
    missing = [key for key in actions if key not in told]
    if missing:
        raise BadRequest(
            Told("Nothing is said about {missing!r}.", missing=missing[0]),
            errors=[
                Problem("/decisions", "missing_action", Told("a decision for {key!r} is needed", key=key))
                for key in missing
            ],
        )


def _check_decision(
    action: Mapping[str, Json], decision: ActionDecision, *, comment: str, options: ApprovalOptions
) -> None:
    if decision.type not in DECISIONS:
        raise BadRequest(
            Told(
                "{type!r} is no answer; answers are {choices}.",
                type=decision.type,
                choices=", ".join(DECISIONS),
            )
        )
    if decision.type not in action["allowed"]:
        raise DecisionNotAllowed(
            Told(
                "{type!r} is not offered for {key!r}; it allows {choices}.",
                type=decision.type,
                key=action["key"],
                choices=", ".join(action["allowed"]),
            ),
            allowed=action["allowed"],
        )
    if decision.type == "reject" and options.reason_required and not (decision.message or comment).strip():
        raise ReasonRequired("A reject needs a reason here; the workflow reads it.")
    if decision.type == "respond" and not (decision.message or comment).strip():
        raise ReasonRequired("To respond is to answer in place of the action: write the answer.")
    if len(decision.message) > MAX_COMMENT:
        raise Unprocessable(
            Told("A message has at most {max_comment:,} characters.", max_comment=MAX_COMMENT)
        )
    if decision.type == "edit":
        problems = edit_problems(action, decision.args)
        if problems:
            raise Unprocessable(
                Told("The edited arguments of {key!r} cannot be taken.", key=action["key"]), errors=problems
            )
    elif decision.args is not None:
        raise BadRequest(Told("Arguments come with edit only, not with {type}.", type=decision.type))


def _signature(decisions: Sequence[ActionDecision], comment: str) -> str:
    # Two people agree when they decide alike about every action. An edit counts as approving the edited version; two
    # answers in place of an action are alike only if they say the same.
    return ",".join(f"{decision.key}={_word(decision, comment)}" for decision in decisions)


def _word(decision: ActionDecision, comment: str) -> str:
    if decision.type == "respond":
        return f"respond {canonical.digest(decision.message or comment)[:16]}"
    return "approve" if decision.type == "edit" else decision.type


def _result(action: Mapping[str, Json], decision: ActionDecision) -> dict[str, Json]:
    kind = decision.type
    return {
        "key": action["key"],
        "tool": action["tool"],
        "args": action["args"],
        "effect": action["effect"],
        "decision": "approve" if kind == "edit" else kind,
        "message": decision.message,
    }
