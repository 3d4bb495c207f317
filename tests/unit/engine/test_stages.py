"""Who is asked, in which order, and when enough agree: whatever the order of the votes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs.engine import approval as rules
from runs.engine import schedule
from runs.engine.approval import ActionDecision, document_of, options_of
from runs.engine.stages import Known, Stage, VoteFact, lacking, standing
from runs.engine.workflow import Action, ApprovalOptions, Ask, Way
from runs.errors import DecisionNotAllowed, EditorMayNotApprove, SchemaViolation

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
YES, NO = "pay=approve", "pay=reject"


def yes(user: str, stage: int = 0) -> VoteFact:
    return VoteFact(user, YES, "approve", stage)


def no(user: str, stage: int = 0) -> VoteFact:
    return VoteFact(user, NO, "reject", stage)


TWO = (Stage("finance", quorum=2), Stage("legal"))


def test_one_stage_is_asked_after_the_other() -> None:
    votes: list[VoteFact] = []
    seen = []
    for vote in (yes("frida"), yes("felix"), yes("lea", 1)):
        votes.append(vote)
        now = standing(TWO, votes, reject_quorum=1)
        seen.append((now.stage, now.outcome))
    assert seen == [(0, ""), (1, ""), (1, "approve")]


def test_a_reject_in_any_stage_decides() -> None:
    assert standing(TWO, [yes("frida"), no("felix")], reject_quorum=1).outcome == "reject"
    assert standing(TWO, [yes("frida"), yes("felix"), no("lea", 1)], reject_quorum=1).outcome == "reject"


def test_rejects_are_counted_over_all_stages() -> None:
    stages = (Stage("finance", quorum=1), Stage("legal", quorum=2))
    votes = [no("felix"), yes("frida")]
    assert standing(stages, votes, reject_quorum=2).outcome == ""
    assert standing(stages, [*votes, no("lea", 1)], reject_quorum=2).outcome == "reject"


def test_an_editor_of_a_later_stage_counts_when_it_is_its_turn() -> None:
    votes = [yes("lea", 1), yes("frida")]
    assert standing(TWO, votes, reject_quorum=1).stage == 0
    assert standing(TWO, [*votes, yes("felix")], reject_quorum=1).outcome == "approve"


@st.composite
def ballots(draw: st.DrawFn) -> tuple[tuple[Stage, ...], int, list[VoteFact]]:
    """Stages, a reject quorum, and votes in an order in which they can be given: one a person."""
    stages = tuple(Stage(f"team{n}", quorum=draw(st.integers(1, 3))) for n in range(draw(st.integers(1, 3))))
    people = draw(st.permutations([f"p{n}" for n in range(10)]))
    reject_quorum = draw(st.integers(1, 3))
    votes: list[VoteFact] = []
    for person in people:
        now = standing(stages, votes, reject_quorum=reject_quorum)
        if now.outcome:
            break
        votes.append(draw(st.sampled_from([yes, yes, no]))(person, now.stage))
    return stages, reject_quorum, votes


@given(ballots(), st.randoms(use_true_random=False))
def test_where_an_approval_stands_does_not_depend_on_the_order_in_which_votes_are_read(
    ballot: tuple[tuple[Stage, ...], int, list[VoteFact]], chance: Any
) -> None:
    stages, reject_quorum, votes = ballot
    shuffled = list(votes)
    chance.shuffle(shuffled)
    now = standing(stages, votes, reject_quorum=reject_quorum)
    assert standing(stages, shuffled, reject_quorum=reject_quorum) == now


@given(ballots())
def test_approved_means_the_quorum_of_every_stage_by_different_people_and_too_few_rejects(
    ballot: tuple[tuple[Stage, ...], int, list[VoteFact]],
) -> None:
    stages, reject_quorum, votes = ballot
    outcome = standing(stages, votes, reject_quorum=reject_quorum).outcome
    rejects = {vote.user for vote in votes if vote.outcome == "reject"}
    full = all(
        len({vote.user for vote in votes if vote.stage == no_ and vote.outcome == "approve"}) >= stage.quorum
        for no_, stage in enumerate(stages)
    )
    assert (outcome == "approve") == full
    assert (outcome == "reject") == (len(rejects) >= reject_quorum)


# ---- judged with documents: edits, votes, time-outs in any order


def document(options: ApprovalOptions) -> dict[str, Any]:
    action = Action("pay", {"amount": 1}, editable=["amount"], effect="irreversible")
    return document_of(action, way=Way(outcomes={"approve": "x"}), options=options, node="ask")


MOVES = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.sampled_from(["approve", "reject", "edit"]), st.integers(2, 4)),
    max_size=14,
)


@given(
    moves=MOVES,
    quorums=st.lists(st.integers(1, 2), min_size=1, max_size=3),
    reject_quorum=st.integers(1, 2),
)
def test_whatever_people_say_in_whatever_order_nothing_irreversible_is_done_by_its_editors_alone(
    moves: list[tuple[str, str, int]], quorums: list[int], reject_quorum: int
) -> None:
    """One vote a person and version; an edit voids what was said; a decision has its quorums, and not of editors alone."""
    stages = tuple(Stage(f"t{n}", quorum=quorum) for n, quorum in enumerate(quorums))
    options = ApprovalOptions(stages=stages, reject_quorum=reject_quorum)
    shown, votes, editors, stage = document(options), [], [], 0  # type: ignore[var-annotated]
    for user, kind, amount in moves:
        args = {"amount": amount} if kind == "edit" else None
        edits = kind == "edit" and shown["actions"][0]["args"] != args
        if any(vote.user == user for vote in votes) and not edits:
            continue
        try:
            judged = rules.judge(
                shown,
                [ActionDecision("pay", kind, args)],
                user=user,
                comment="",
                options=options,
                votes=votes,
                editors=editors,
                stage=stage,
            )
        except (EditorMayNotApprove, DecisionNotAllowed):
            continue
        if judged.edited:
            votes, editors = [], [*editors, user]
        shown, votes, stage = judged.document, [*votes, judged.vote], judged.stage
        if judged.decided == "approve":
            alike = {vote.user for vote in votes if vote.outcome == "approve"}
            assert not alike <= set(editors)
            assert len(alike) >= sum(quorums)
        if judged.decided == "reject":
            assert len({vote.user for vote in votes if vote.outcome == "reject"}) >= reject_quorum
        if judged.decided:
            return


def test_a_later_stage_agrees_or_rejects() -> None:
    actions = [Action("pay", {}, key="a"), Action("mail", {}, key="b")]
    options = ApprovalOptions(stages=(Stage("finance"), Stage("legal")))
    shown = document_of(actions, way=Way(outcomes={"approve": "x"}), options=options, node="ask")
    votes = [VoteFact("frida", "a=approve,b=reject", "mixed")]

    def say(a: str, b: str) -> str | None:
        told = [ActionDecision("a", a), ActionDecision("b", b)]
        given: dict[str, Any] = {"options": options, "votes": votes, "editors": [], "stage": 1}
        return rules.judge(shown, told, user="lea", comment="", **given).decided

    assert say("approve", "reject") == "mixed"
    assert say("reject", "reject") == "reject"
    with pytest.raises(DecisionNotAllowed) as refused:
        say("approve", "approve")
    assert refused.value.facts["agreed"] == "a=approve,b=reject"


# ---- whom a question asks


def test_a_question_may_say_whom_it_asks_in_place_of_its_node() -> None:
    node = ApprovalOptions(reviewers=("finance",), quorum=1, due=60.0)
    assert options_of(Action("pay"), node, node="ask") == node
    some = options_of(Ask(Action("pay"), reviewers="user:lea", quorum=2, due="1h"), node, node="ask")
    assert (some.reviewers, some.quorum, some.due) == (("user:lea",), 2, 3600.0)
    staged = options_of(Ask(Action("pay"), stages=[Stage("a"), Stage("b")]), node, node="ask")
    assert [stage.teams for stage in staged.asked] == [["a"], ["b"]]
    with pytest.raises(SchemaViolation, match="quorum"):
        options_of(Ask(Action("pay"), quorum=0), node, node="ask")


def test_rules_are_read_as_they_were_written() -> None:
    options = ApprovalOptions(
        stages=(Stage("a", quorum=2), Stage(("b", "user:c"))),
        due=60.0,
        escalate_to=("d",),
        remind=(30.0, 10.0),
    )
    assert ApprovalOptions.of(options.as_dict()) == options


KNOWN = Known(
    {"finance": frozenset({"frida", "felix"}), "empty": frozenset()},
    frozenset({"frida", "felix"}),
    frozenset({"frida", "felix", "olga"}),
)


@pytest.mark.parametrize(
    ("stage", "barred", "code"),
    [
        (Stage("finance"), (), None),
        (Stage(), (), None),
        (Stage("user:olga"), (), None),
        (Stage(["nowhere", "finance"]), (), None),
        (Stage("nowhere"), (), "unknown_team"),
        (Stage("empty"), (), "empty_team"),
        (Stage("user:nobody"), (), "unknown_person"),
        (Stage("user:olga"), ("olga",), "only_requester"),
        (Stage("finance"), ("frida", "felix"), "only_requester"),
        (Stage("finance", quorum=2), ("frida",), "too_few"),
        (Stage("finance", quorum=3), (), "too_few"),
    ],
)
def test_a_question_that_nobody_can_answer_is_known_for_one(
    stage: Stage, barred: tuple[str, ...], code: str | None
) -> None:
    found = lacking([stage], KNOWN, barred=frozenset(barred))
    assert (found.code if found else None) == code
    if code:
        later = lacking([Stage("finance"), stage], KNOWN, barred=frozenset())
        assert later is None or later.stage == 1


# ---- time


def test_each_who_is_asked_has_the_whole_time_and_reminders_come_before_its_end() -> None:
    options = ApprovalOptions(due=3600.0, escalate_to=("leads", "board"), remind=(1800.0, 600.0)).as_dict()
    due = schedule.due_after(options, NOW)
    assert due == NOW + timedelta(hours=1)
    assert schedule.remind_at(options, due, after=NOW) == NOW + timedelta(minutes=30)
    assert schedule.remind_at(options, due, after=NOW + timedelta(minutes=30)) == NOW + timedelta(minutes=50)
    assert schedule.remind_at(options, due, after=NOW + timedelta(minutes=55)) is None
    late = NOW + timedelta(days=2)
    first = schedule.next_escalation(options, 0, late)
    assert first == schedule.Escalation(1, "leads", late + timedelta(hours=1))
    assert schedule.next_escalation(options, 2, late) is None
