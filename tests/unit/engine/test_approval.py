"""Approvals: the document people see, what an answer does to it, and when answers decide."""

from __future__ import annotations

import copy
import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from runs.engine import Action, Ask, approval, canonical
from runs.engine import schema as schemas
from runs.engine.approval import ActionDecision, Judged, document_of, judge
from runs.engine.canonical import Json
from runs.engine.stages import VoteFact
from runs.engine.workflow import ApprovalOptions, Way
from runs.errors import (
    BadRequest,
    DecisionNotAllowed,
    EditorMayNotApprove,
    HitlError,
    ReasonRequired,
    SchemaViolation,
    StateNotStorable,
    StepError,
    Unprocessable,
)
from tests.sizes import size
from tests.unit.engine.documents import DOCUMENTS, nested

ANY_WAY = Way(edges=("pay",))
RESPOND_WAY = Way(outcomes={"approve": "pay", "respond": "tell"})


class Pay(BaseModel):
    order_id: str
    amount: int


def opened(asked: Any, *, way: Way = ANY_WAY, **options: Any) -> dict[str, Any]:
    return document_of(asked, way=way, options=ApprovalOptions(**options), node="confirm")


def one(**changes: Any) -> dict[str, Any]:
    """The document of an approval of one action, whose amount may be edited."""
    told = {"schema": Pay, "editable": ["amount"], **changes}
    return opened(Action("pay", {"order_id": "88", "amount": 100}, **told), way=RESPOND_WAY)


def answer(
    document: dict[str, Any], *decisions: ActionDecision, user: str = "frida", comment: str = "", **more: Any
) -> Judged:
    votes, editors = more.pop("votes", ()), more.pop("editors", ())
    return judge(
        document,
        decisions,
        user=user,
        comment=comment,
        options=ApprovalOptions(**more),
        votes=votes,
        editors=editors,
    )


def say(kind: str, key: str = "pay", **more: Any) -> ActionDecision:
    return ActionDecision(key, kind, **more)


# ---- the document


def test_a_bare_action_is_a_whole_question() -> None:
    assert opened(Action("pay", {"amount": 1})) == {
        "title": "pay",
        "reason": "",
        "agent_note": "",
        "facts": [],
        "actions": [
            {
                "key": "pay",
                "tool": "pay",
                "args": {"amount": 1},
                "schema": None,
                "allowed": ["approve", "reject"],
                "editable": [],
                "effect": "none",
                "risk": None,
            }
        ],
    }


def test_facts_keep_their_order_and_the_agents_words_stand_apart() -> None:
    asked = Ask([Action("a"), Action("b")], facts={"z": 1, "a": [2]}, reason="why", agent_note="trust me")
    document = opened(asked)
    assert document["title"] == "2 actions"
    assert document["facts"] == [{"label": "z", "value": 1}, {"label": "a", "value": [2]}]
    assert (document["reason"], document["agent_note"]) == ("why", "trust me")


@pytest.mark.parametrize(
    ("action", "way", "allowed"),
    [
        (Action("a"), ANY_WAY, ["approve", "reject"]),
        (Action("a"), RESPOND_WAY, ["approve", "reject", "respond"]),
        (Action("a", editable=["x"]), ANY_WAY, ["approve", "edit", "reject"]),
        (Action("a", editable="x"), ANY_WAY, ["approve", "edit", "reject"]),
        (Action("a", allowed=["reject", "approve"]), ANY_WAY, ["approve", "reject"]),
        (Action("a", allowed=["approve"], editable=["x"]), ANY_WAY, ["approve", "edit"]),
        (Action("a", allowed=["respond"]), ANY_WAY, ["respond"]),
    ],
)
def test_the_answers_on_offer_are_those_that_lead_somewhere(
    action: Action, way: Way, allowed: list[str]
) -> None:
    assert opened(action, way=way)["actions"][0]["allowed"] == allowed


def test_of_several_actions_each_may_be_responded_to() -> None:
    document = opened([Action("a"), Action("b")])
    assert [action["allowed"] for action in document["actions"]] == [["approve", "reject", "respond"]] * 2


def test_what_may_be_edited_is_named_by_argument_or_pointer() -> None:
    asked = Action("a", {"x": 1, "a/b": 1, "y": {"z": 1}}, editable=["x", "a/b", "/y/z"])
    assert opened(asked)["actions"][0]["editable"] == ["/x", "/a~1b", "/y/z"]
    assert opened(Action("a", editable="amount"))["actions"][0]["editable"] == ["/amount"]


STATE = Pay(order_id="1", amount=1)
UNASKABLE: dict[str, tuple[Any, dict[str, Any], str]] = {
    "nothing": (None, {}, "it returned NoneType"),
    "a number": (5, {}, "it returned int"),
    "a text": ("pay", {}, "it returned str"),
    "no action": ([], {}, "it returned list"),
    "something else among the actions": ([Action("a"), "b"], {}, "it returned list"),
    "an Ask of nothing": (Ask(None), {}, "it returned Ask"),  # type: ignore[arg-type]
    "arguments that are a list": (Action("a", [1]), {}, "args of 'a': a dict of names"),  # type: ignore[arg-type]
    "facts that are a list": (Ask(Action("a"), facts=["x"]), {}, "facts of 'confirm': a dict of labels"),  # type: ignore[arg-type]
    "a label that is a number": (Ask(Action("a"), facts={5: 1}), {}, "a label of facts is a text"),  # type: ignore[dict-item]
    "a number for a schema": (Action("a", schema=5), {}, "schema of 'a': a pydantic model or"),  # type: ignore[arg-type]
    "an instance for a schema": (Action("a", schema=STATE), {}, "schema of 'a': a pydantic model or"),  # type: ignore[arg-type]
    "a number to be edited": (Action("a", editable=[5]), {}, "editable of 'a': a list of texts"),  # type: ignore[list-item]
    "a number for answers": (Action("a", allowed=5), {}, "allowed of 'a': a list of texts"),  # type: ignore[arg-type]
    "two actions of one key": ([Action("a"), Action("a")], {}, "have the key 'a'"),
    "an unknown answer": (Action("a", allowed=["aprove"]), {}, "allows 'aprove'"),
    "no answer at all": (Action("a", allowed=[]), {}, "no answer"),
    "an unknown risk": (Action("a", risk="huge"), {}, "risk='huge'"),
    "an unknown effect": (Action("a", effect="irreversable"), {}, "effect='irreversable'"),  # type: ignore[arg-type]
    "a schema that is none": (Action("a", schema={"type": "spam"}), {}, "do not fit its schema"),
    "arguments that do not fit": (Action("a", {"amount": "x"}, schema=Pay), {}, "do not fit its schema"),
    "an irreversible action by time-out": (
        Action("a", effect="irreversible"),
        {"on_timeout": "approve"},
        "may not approve an irreversible action by time-out",
    ),
    "a title that is no text": (Ask(Action("a"), title=5), {}, "title"),  # type: ignore[arg-type]
    "a note that is no text": (Ask(Action("a"), agent_note=["x"]), {}, "agent_note"),  # type: ignore[arg-type]
    "a tool without a name": (Action(" "), {}, "tool"),
    "a tool that is no text": (Action(5), {}, "tool"),  # type: ignore[arg-type]
    "a key that is no text": (Action("a", key=5), {}, "key"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", UNASKABLE)
def test_what_cannot_be_asked_fails_the_step_in_words(name: str) -> None:
    """K8."""
    asked, options, words = UNASKABLE[name]
    with pytest.raises(SchemaViolation) as caught:
        opened(asked, **options)
    assert words in caught.value.detail
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("asked", "path", "code"),
    [
        (Ask(Action("a"), agent_note="a\0b"), "/agent_note", "nul_character"),
        (Ask(Action("a"), title="\0"), "/title", "nul_character"),
        (Ask(Action("a"), reason="\ud800"), "/reason", "lone_surrogate"),
        (Ask(Action("a"), facts={"x\0": 1}), "/facts/0/label", "nul_character"),
        (Ask(Action("a"), facts={"x": "\0"}), "/facts/x", "nul_character"),
        (Action("a\0"), "/title", "nul_character"),
        (Action("a", {"x": [float("nan")]}), "/actions/0/args/x/0", "non_finite_number"),
        (Action("a", {"x\0": 1}), "/actions/0/args/x\\u0000", "nul_character"),
        (Action("a", schema={"title": "\0"}), "/schema/title", "nul_character"),
    ],
)
def test_a_question_that_cannot_be_stored_fails_the_step_naming_the_place(
    asked: Any, path: str, code: str
) -> None:
    """C01, C02: an agent's own words may hold anything."""
    with pytest.raises(StateNotStorable) as caught:
        opened(asked)
    assert (caught.value.errors[0].path, caught.value.errors[0].code) == (path, code)
    assert caught.value.facts["path"] == path


def test_arguments_that_are_not_json_fail_the_step_naming_place_and_type() -> None:
    """C07."""
    with pytest.raises(StateNotStorable) as caught:
        opened(Action("a", {"x": {1}}))
    assert caught.value.facts == {"path": "/actions/0/args/x", "type": "set"}


def test_arguments_may_be_as_deep_as_a_document() -> None:
    """C11."""
    document = opened(Action("a", {"x": nested(99)}))
    assert canonical.loads(canonical.dumps(document)) == document
    with pytest.raises(StateNotStorable, match="100 levels"):
        opened(Action("a", {"x": nested(100)}))


@given(st.dictionaries(st.text("ab", min_size=1, max_size=2), DOCUMENTS, max_size=3), DOCUMENTS)
def test_the_document_holds_exactly_what_was_asked(args: dict[str, Json], fact: Json) -> None:
    """C62."""
    document = opened(Ask(Action("a", args), facts={"f": fact}))
    stored = canonical.parse(canonical.dumps(document), max_depth=120)
    assert canonical.same(stored["actions"][0]["args"], args)
    assert canonical.same(stored["facts"][0]["value"], fact)
    assert canonical.digest(stored) == canonical.digest(document)


@pytest.mark.parametrize(
    "path",
    [
        "title",
        "reason",
        "agent_note",
        "facts",
        "actions.0.args",
        "actions.0.effect",
        "actions.0.tool",
        "actions.0.key",
    ],
)
def test_the_digest_covers_everything_on_the_screen(path: str) -> None:
    """C62."""
    document = one()
    changed = copy.deepcopy(document)
    place: Any = changed
    *parents, last = path.split(".")
    for token in parents:
        place = place[int(token)] if isinstance(place, list) else place[token]
    place[last] = "other"
    assert canonical.digest(changed) != canonical.digest(document)


# ---- one answer


@pytest.mark.parametrize("types", list(itertools.product(("approve", "edit", "reject", "respond"), repeat=2)))
def test_the_outcome_of_two_actions_follows_the_table(types: tuple[str, str]) -> None:
    """DESIGN, an approval: respond if all are, approve if none is rejected and not all are responded, reject if all are."""
    kinds = {"approve" if kind == "edit" else kind for kind in types}
    table = {
        frozenset({"approve"}): "approve",
        frozenset({"reject"}): "reject",
        frozenset({"respond"}): "respond",
        frozenset({"approve", "respond"}): "approve",
        frozenset({"approve", "reject"}): "mixed",
        frozenset({"reject", "respond"}): "mixed",
    }
    assert approval.outcome_of(types) == table[frozenset(kinds)]


@pytest.mark.parametrize(
    ("types", "outcome"),
    [
        (["approve", "respond", "reject"], "mixed"),
        (["edit", "edit", "edit"], "approve"),
        (["respond", "respond", "approve"], "approve"),
        (["reject", "reject", "reject"], "reject"),
    ],
)
def test_the_outcome_of_three_actions_follows_the_table(types: list[str], outcome: str) -> None:
    assert approval.outcome_of(types) == outcome


@pytest.mark.parametrize("kind", ["approve", "reject", "respond"])
def test_one_answer_decides_where_one_is_enough(kind: str) -> None:
    document = one()
    judged = answer(document, say(kind, message="because"))
    assert (judged.decided, judged.edited, judged.document) == (kind, False, document)
    assert judged.results == [
        {
            "key": "pay",
            "tool": "pay",
            "args": {"order_id": "88", "amount": 100},
            "effect": "none",
            "decision": kind,
            "message": "because",
        }
    ]


def test_an_edit_is_a_new_document_and_the_editors_own_vote_for_it() -> None:
    """K13."""
    document = one()
    before = copy.deepcopy(document)
    judged = answer(document, say("edit", args={"order_id": "88", "amount": 70}))
    assert (judged.decided, judged.edited) == ("approve", True)
    assert judged.results[0]["args"] == {"order_id": "88", "amount": 70}
    assert judged.results[0]["decision"] == "approve"
    assert judged.document["actions"][0]["args"]["amount"] == 70
    assert canonical.digest(judged.document) != canonical.digest(document)
    assert document == before


def test_an_edit_that_changes_nothing_is_an_approval() -> None:
    """C10."""
    document = one()
    judged = answer(document, say("edit", args={"amount": 100, "order_id": "88"}))
    assert (judged.decided, judged.edited) == ("approve", False)
    assert canonical.same(judged.document, document)


UNTAKEN: dict[str, tuple[list[ActionDecision], type[HitlError], str]] = {
    "an action that is not there": ([say("approve", "pya"), say("approve")], BadRequest, "no action 'pya'"),
    "an action twice": ([say("approve"), say("reject")], BadRequest, "twice"),
    "no action": ([], BadRequest, "Nothing is said about 'pay'"),
    "an answer that does not exist": ([say("maybe")], BadRequest, "'maybe' is no answer"),
    "arguments without an edit": ([say("approve", args={})], BadRequest, "come with edit only"),
    "an edit without arguments": ([say("edit")], Unprocessable, "cannot be taken"),
    "an edit that is no object": ([say("edit", args=[1])], Unprocessable, "cannot be taken"),
    "an edit against the schema": (
        [say("edit", args={"order_id": "88", "amount": "ten"})],
        Unprocessable,
        "cannot be taken",
    ),
    "an edit of what may not be": (
        [say("edit", args={"order_id": "89", "amount": 1})],
        Unprocessable,
        "cannot be taken",
    ),
    "no text for a response": ([say("respond")], ReasonRequired, "write the answer"),
    "only spaces for a response": ([say("respond", message=" \n")], ReasonRequired, "write the answer"),
    "a message without end": ([say("approve", message="x" * 10_001)], Unprocessable, "at most 10,000"),
}


@pytest.mark.parametrize("name", UNTAKEN)
def test_an_answer_that_cannot_be_taken_changes_nothing(name: str) -> None:
    """C13."""
    decisions, kind, words = UNTAKEN[name]
    document = one()
    before = copy.deepcopy(document)
    with pytest.raises(HitlError) as caught:
        answer(document, *decisions)
    assert type(caught.value) is kind
    assert words in caught.value.detail
    assert not isinstance(caught.value, StepError)
    assert document == before


def test_a_comment_without_end_is_refused() -> None:
    with pytest.raises(Unprocessable, match="comment has at most 10,000"):
        answer(one(), say("approve"), comment="x" * 10_001)


def test_an_answer_that_is_not_offered_is_refused_saying_what_is() -> None:
    with pytest.raises(DecisionNotAllowed) as caught:
        answer(opened(Action("pay")), say("edit", args={}))
    assert caught.value.facts == {"allowed": ["approve", "reject"]}


def test_a_reject_needs_a_reason_only_where_the_workflow_reads_it() -> None:
    assert answer(one(), say("reject")).decided == "reject"
    with pytest.raises(ReasonRequired):
        answer(one(), say("reject"), reason_required=True)
    for told in (
        answer(one(), say("reject"), comment="no", reason_required=True),
        answer(one(), say("reject", message="no"), reason_required=True),
    ):
        assert told.decided == "reject"


@pytest.mark.parametrize(
    ("before", "edited", "editable", "refused"),
    [
        ({"a": 1, "b": 1}, {"a": 2, "b": 1}, ["/a"], []),
        ({"a": 1, "b": 1}, {"a": 2, "b": 2}, ["/a"], ["/b"]),
        ({"a": 1}, {"a": 1.0}, [], ["/a"]),
        ({"a": 1}, {"a": True}, [], ["/a"]),
        ({"a": 1}, {}, ["/a"], []),
        ({"a": 1}, {}, ["/b"], ["/a"]),
        ({}, {"a": 1}, ["/a"], []),
        ({"a": 1}, {"a": 1, "ab": 1}, ["/a"], ["/ab"]),
        ({"a": {"x": 1, "y": 1}}, {"a": {"x": 2, "y": 1}}, ["/a/x"], []),
        ({"a": {"x": 1, "y": 1}}, {"a": {"x": 2, "y": 2}}, ["/a/x"], ["/a/y"]),
        ({"a": {"x": 1}}, {"a": 5}, ["/a/x"], ["/a"]),
        ({"a": [1, 2]}, {"a": [1, 2, 3]}, ["/a"], []),
        ({"a": [1, 2]}, {"a": [1, 9]}, ["/a/0"], ["/a/1"]),
        ({"a/b": 1, "a": {"b": 1}}, {"a/b": 2, "a": {"b": 1}}, ["/a~1b"], []),
        ({"a/b": 1, "a": {"b": 1}}, {"a/b": 1, "a": {"b": 2}}, ["/a~1b"], ["/a/b"]),
        ({"": 1}, {"": 2}, ["/"], []),
        ({"x": 1}, {"x": 2}, ["/"], ["/x"]),
    ],
)
def test_an_edit_changes_only_what_may_be_changed(
    before: Json, edited: Json, editable: list[str], refused: list[str]
) -> None:
    """K13."""
    problems = approval.edit_problems({"args": before, "editable": editable, "schema": None}, edited)
    assert [problem.path for problem in problems] == refused
    assert {problem.code for problem in problems} <= {"not_editable"}


def test_a_schema_fault_of_an_edit_stands_at_its_argument() -> None:
    """C13."""
    with pytest.raises(Unprocessable) as caught:
        answer(one(), say("edit", args={"order_id": "88", "amount": "ten"}))
    assert [(problem.path, problem.code) for problem in caught.value.errors] == [("/amount", "type")]


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"note": {"$ref": "#/$defs/missing"}}},
        {"$ref": "#"},
        {"properties": {"note": {"format": "shoe-size"}}},
    ],
)
def test_a_schema_that_cannot_be_used_takes_the_edit_away_and_nothing_else(schema: dict[str, Any]) -> None:
    """C98."""
    document = opened(Action("pay", {}, schema=schema, editable=["note"]))
    [action] = document["actions"]
    assert action["unchecked"]
    assert action["allowed"] == ["approve", "reject"]
    with pytest.raises(DecisionNotAllowed):
        answer(document, say("edit", args={"note": "x"}))
    assert answer(document, say("approve")).decided == "approve"


def test_what_a_pattern_is_too_slow_for_is_asked_without_an_edit_and_refused_as_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C98."""
    monkeypatch.setattr(schemas, "PATIENCE", 0.05)
    schema, evil = {"properties": {"note": {"pattern": "^(a|aa)+$"}}}, "a" * 60 + "!"
    [action] = opened(Action("pay", {"note": evil}, schema=schema, editable=["note"]))["actions"]
    assert "takes too long" in action["unchecked"]
    document = opened(Action("pay", {"note": "a"}, schema=schema, editable=["note"]))
    with pytest.raises(Unprocessable) as caught:
        answer(document, say("edit", args={"note": evil}))
    assert caught.value.errors[0].code == schemas.TOO_SLOW


def test_an_edit_is_held_against_the_formats_of_what_it_changes() -> None:
    dates = {"properties": {"from": {"format": "date"}, "to": {"format": "date"}}}
    document = opened(
        Action("pay", {"from": "soon", "to": "2026-01-01"}, schema=dates, editable=["from", "to"])
    )
    with pytest.raises(Unprocessable) as caught:
        answer(document, say("edit", args={"from": "soon", "to": "later"}))
    assert [(problem.path, problem.code) for problem in caught.value.errors] == [("/to", "format")]
    assert answer(document, say("edit", args={"from": "soon", "to": "2026-01-02"})).decided == "approve"


def test_the_order_of_the_answers_is_of_no_account() -> None:
    document = opened([Action("a", {"x": 1}), Action("b", editable=["y"])])
    decisions = [say("reject", "a", message="no"), say("edit", "b", args={"y": 2})]
    there, back = answer(document, *decisions), answer(document, *reversed(decisions))
    assert there == back
    assert (there.decided, [result["key"] for result in there.results]) == ("mixed", ["a", "b"])


def test_an_edit_that_is_rechecked_is_no_vote() -> None:
    judged = answer(one(), say("edit", args={"order_id": "88", "amount": 70}), recheck="check")
    assert (judged.recheck, judged.decided, judged.edited) == (True, None, True)
    assert judged.results[0]["args"]["amount"] == 70
    plain = answer(one(), say("edit", args={"order_id": "88", "amount": 100}), recheck="check")
    assert (plain.recheck, plain.decided) == (False, "approve")


# ---- many answers

PEOPLE = ("ann", "ben", "cem", "dora")


@dataclass
class Question:
    """An approval as the rows of the store hold it: its document, the votes of the present version, its editors."""

    document: dict[str, Any]
    options: ApprovalOptions
    votes: list[VoteFact] = field(default_factory=list)
    editors: list[str] = field(default_factory=list)
    stances: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def irreversible(self) -> bool:
        return any(action["effect"] == "irreversible" for action in self.document["actions"])

    def answer(self, person: str, decisions: list[ActionDecision]) -> Judged:
        """One person's answer, kept as the operations keep it."""
        judged = judge(
            self.document,
            decisions,
            user=person,
            comment="",
            options=self.options,
            votes=tuple(self.votes),
            editors=tuple(self.editors),
        )
        if judged.edited:
            self.revise(person, judged.document)
        self.votes.append(judged.vote)
        types = {decision.key: decision.type.replace("edit", "approve") for decision in decisions}
        self.stances[person] = tuple(types[action["key"]] for action in self.document["actions"])
        return judged

    def revise(self, person: str, document: dict[str, Any]) -> None:
        self.document, self.votes, self.stances = document, [], {}
        self.editors.append(person)


ACTIONS = st.lists(st.sampled_from(["none", "reversible", "irreversible"]), min_size=1, max_size=2)
OPTIONS = st.builds(
    ApprovalOptions,
    quorum=st.integers(1, 3),
    reject_quorum=st.integers(1, 2),
    editor_may_approve=st.booleans(),
)


def asked(effects: list[Any], options: ApprovalOptions) -> Question:
    actions = [
        Action(f"a{index}", {"amount": 0, "fixed": 1}, editable=["amount"], effect=effect)
        for index, effect in enumerate(effects)
    ]
    return Question(document_of(actions, way=RESPOND_WAY, options=options, node="confirm"), options)


def drawn_answer(data: st.DataObject, question: Question) -> list[ActionDecision]:
    decisions = []
    for action in question.document["actions"]:
        kind = data.draw(st.sampled_from(["approve", "approve", "edit", "reject", "respond"]))
        args = {**action["args"], "amount": data.draw(st.integers(0, 2))} if kind == "edit" else None
        decisions.append(
            ActionDecision(action["key"], kind, args, message="text" if kind == "respond" else "")
        )
    return data.draw(st.permutations(decisions))


def check_decision(question: Question, judged: Judged, person: str) -> None:
    """What must hold of a decision, worked out from what people said and not from how it was counted."""
    stance = question.stances[person]
    agreeing = {who for who, said in question.stances.items() if said == stance}
    only_rejects = set(stance) == {"reject"}
    needed = question.options.reject_quorum if only_rejects else question.options.quorum
    effects = [action["effect"] for action in question.document["actions"]]
    may_alone = question.options.editor_may_approve or ("irreversible", "approve") not in zip(
        effects, stance, strict=True
    )
    independent = may_alone or bool(agreeing - set(question.editors))
    assert (judged.decided is not None) == (len(agreeing) >= needed and independent)
    if judged.decided is None:
        assert judged.results == []
        return
    event(f"decided: {judged.decided}")
    assert judged.decided == approval.outcome_of(stance)
    assert [result["decision"] for result in judged.results] == list(stance)
    shown = [action["args"] for action in question.document["actions"]]
    assert [result["args"] for result in judged.results] == shown


@settings(max_examples=size("property examples") * 3)
@given(ACTIONS, OPTIONS, st.data())
def test_people_decide_by_quorum_and_never_an_editor_alone(
    effects: list[Any], options: ApprovalOptions, data: st.DataObject
) -> None:
    """C62, K13: whatever people answer in whatever order."""
    question = asked(effects, options)
    for _ in range(data.draw(st.integers(1, 10))):
        person = data.draw(st.sampled_from(PEOPLE))
        version_before = canonical.digest(question.document)
        if data.draw(st.integers(0, 9)) == 0:
            document = copy.deepcopy(question.document)
            document["actions"][0]["args"]["amount"] = 10 + len(question.editors)
            question.revise(person, document)
            continue
        decisions = drawn_answer(data, question)
        changes = any(
            d.type == "edit" and d.args["amount"] != a["args"]["amount"]
            for a in question.document["actions"]
            for d in decisions
            if d.key == a["key"]
        )
        if person in question.stances and not changes:
            continue  # one vote a person and version; an edit makes a version of its own
        try:
            judged = question.answer(person, decisions)
        except EditorMayNotApprove:
            assert person in question.editors
            assert question.irreversible
            assert not options.editor_may_approve
            assert canonical.digest(question.document) == version_before
            continue
        assert judged.edited == changes == (canonical.digest(question.document) != version_before)
        assert not judged.edited or question.stances.keys() == {person}
        check_decision(question, judged, person)
        if judged.decided:
            return


@given(ACTIONS, st.integers(1, 3), st.data())
def test_one_reject_of_everything_decides_unless_it_takes_more(
    effects: list[Any], quorum: int, data: st.DataObject
) -> None:
    reject_quorum = data.draw(st.integers(1, 3))
    question = asked(effects, ApprovalOptions(quorum=quorum, reject_quorum=reject_quorum))
    for number, person in enumerate(PEOPLE[:reject_quorum], start=1):
        rejects = [ActionDecision(action["key"], "reject") for action in question.document["actions"]]
        judged = question.answer(person, rejects)
        assert judged.decided == ("reject" if number == reject_quorum else None)


def test_the_same_person_twice_is_one_person() -> None:
    votes = [VoteFact("frida", "pay=approve", "approve")]
    assert answer(one(), say("approve"), votes=votes, quorum=2).decided is None
    assert answer(one(), say("approve"), user="felix", votes=votes, quorum=2).decided == "approve"


def test_people_who_say_different_things_do_not_agree() -> None:
    document = opened([Action("a"), Action("b")])
    first = answer(document, say("approve", "a"), say("reject", "b"), quorum=2)
    second = answer(
        document, say("reject", "a"), say("approve", "b"), user="felix", votes=[first.vote], quorum=2
    )
    assert (first.vote.outcome, second.vote.outcome, second.decided) == ("mixed", "mixed", None)


def test_an_editor_of_an_irreversible_action_needs_somebody_else() -> None:
    document = one(effect="irreversible")
    edited = answer(document, say("edit", args={"order_id": "88", "amount": 70}))
    assert (edited.decided, edited.edited) == (None, True)
    with pytest.raises(EditorMayNotApprove):
        answer(edited.document, say("approve"), editors=["frida"])
    other = answer(edited.document, say("approve"), user="felix", votes=[edited.vote], editors=["frida"])
    assert other.decided == "approve"
    assert other.results[0]["args"]["amount"] == 70


def test_nobody_is_bound_to_what_an_editor_alone_has_said() -> None:
    document = opened([Action("a", {"x": 1}, editable=["x"]), Action("b", effect="irreversible")])
    edited = answer(document, say("edit", "a", args={"x": 2}), say("approve", "b"))
    assert edited.decided is None
    other = answer(
        edited.document,
        say("reject", "a"),
        say("approve", "b"),
        user="felix",
        votes=[edited.vote],
        editors=["frida"],
    )
    assert other.decided == "mixed"


def test_an_editor_may_approve_alone_where_the_node_says_so_or_nothing_is_irreversible() -> None:
    edit = say("edit", args={"order_id": "88", "amount": 70})
    assert answer(one(effect="irreversible"), edit, editor_may_approve=True).decided == "approve"
    assert answer(one(effect="reversible"), edit).decided == "approve"


def test_an_editor_may_reject() -> None:
    document = one(effect="irreversible")
    assert answer(document, say("reject"), editors=["frida"]).decided == "reject"


def test_an_edit_voids_the_votes_before_it() -> None:
    """K13."""
    votes = [VoteFact("ann", "pay=approve", "approve"), VoteFact("ben", "pay=approve", "approve")]
    edit = say("edit", args={"order_id": "88", "amount": 70})
    assert answer(one(), edit, votes=votes, quorum=3).decided is None
    assert answer(one(), say("approve"), votes=votes, quorum=3).decided == "approve"


def test_the_approved_digest_changes_with_anything_in_it() -> None:
    """C62."""
    results = answer(one(), say("approve")).results
    digest = approval.approved_digest(results)
    assert approval.approved_digest(canonical.loads(canonical.dumps(results))) == digest
    for key, value in (
        ("args", {"order_id": "88", "amount": 900}),
        ("decision", "reject"),
        ("tool", "x"),
        ("key", "y"),
    ):
        assert approval.approved_digest([{**results[0], key: value}]) != digest
    assert approval.approved_digest([*results, *results]) != digest
    assert approval.approved_digest([]) != digest


def test_two_answers_in_place_of_an_action_agree_only_if_they_say_the_same() -> None:
    def answered(user: str, text: str, *votes: VoteFact) -> Judged:
        return judge(
            one(),
            [ActionDecision("pay", "respond", message=text)],
            user=user,
            comment="",
            options=ApprovalOptions(quorum=2),
            votes=votes,
            editors=(),
        )

    first = answered("frida", "call them").vote
    assert answered("felix", "write to them", first).decided is None
    assert answered("felix", "call them", first).decided == "respond"
