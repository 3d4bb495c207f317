"""The inbox as a list: which approvals, in which order, how many, found by which words, and what people save of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Annotated, Any, Final

import pytest
from django.db.models import Q
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from runs import inboxes, operations, policies, queries, saved, store, workflows
from runs.engine import Action, Ask, Sensitive, Workflow
from runs.errors import Forbidden, MissingScope, NameTaken, NotFound, Unprocessable
from runs.inboxes import Wanted, asked
from runs.models import ApiToken, Approval, AuditEntry, Run, SavedView, Snooze, Team, User, Vote
from runs.policies import Actor
from tests.integration.core.conftest import House, by_sql, pay_flow, person

Define = Callable[..., Workflow]
SECRET: Final = "zebra4711"


def fresh(actor: Actor) -> Actor:
    """The same person in their next request."""
    return Actor(actor.user, actor.project, actor.method, actor.address, actor.token)


def every(
    actor: Actor, wanted: Wanted, *, limit: int = 3, ask: Callable[..., inboxes.Listing] = inboxes.page
) -> list[Approval]:
    """All of a list, page by page."""
    found: list[Approval] = []
    place = ""
    while True:
        page = ask(actor.project.pk, wanted, asked(fresh(actor)), after=place, limit=limit)
        found += page.rows
        place = page.next
        if not place:
            return found


def line(row: Approval) -> tuple[Any, ...]:
    """What a list says of an approval."""
    said = (queries.votes_of(row), queries.was_edited(row), str(row.assignee))
    return (row.pk, row.title, row.run.workflow, row.due_at, row.closed_at, *said)


def titles(actor: Actor, **wanted: str) -> list[str]:
    return sorted(row.title for row in every(actor, Wanted(**{"view": "open", **wanted})))


# ---- counters are lists are the database


WORDS: Final = ("apple", "berry", "cherry")
RISKS: Final = ("critical", "high", "medium", "low", "")


@pytest.fixture
def many(house: House, define: Define) -> House:
    """Sixty approvals of every kind: asked are teams, people or anybody; open or not; claimed, snoozed, voted on."""
    pay_flow(define("pays"))
    run, other = (house.submit("pays", x=n) for n in range(2))
    Run.objects.filter(pk=other.pk).update(requester=house.frida.user, workflow="other")
    Team.objects.create(project=house.project, name="legal")
    now = store.now()
    for n in range(60):
        closed = n % 5 == 4
        tool, word = f"tool{n % 2}", WORDS[n % 3]
        row = Approval.objects.create(
            project=house.project,
            run=other if n % 7 == 0 else run,
            branch=1,
            address=str(n),
            node="ask",
            epoch=1,
            status=("decided", "expired")[n % 2] if closed else "open",
            closed_at=now - timedelta(minutes=n) if closed else None,
            title=word,
            document="{}",
            digest="",
            risk=RISKS[n % 5],
            teams=[["finance"], ["legal"], [], ["finance", "legal"]][n % 4],
            users=["frida"] if n % 11 == 0 else [],
            due_at=None if n % 3 == 0 else now + timedelta(minutes=40 * (n - 6)),
            opened_at=now - timedelta(minutes=n // 3),
            assignee=house.felix.user if n % 6 == 1 else None,
            assigned_until=now + timedelta(hours=1) if n % 6 == 1 else None,
            words=store.vector([word, f"tool:{tool}", f"label:n={n % 2}"]),
        )
        if n % 13 == 2:
            Snooze.objects.create(approval=row, user=house.frida.user, until=now + timedelta(hours=1))
        if n % 10 == 3:
            Vote.objects.create(
                approval=row, version=1, user=house.frida.user, outcome="approve", method="session"
            )
    return house


def is_wanted(actor: Actor, row: Approval, wanted: Wanted, moment: Any) -> bool:
    """The same as `inboxes.rows` says, in Python and by the rule of who may decide."""
    is_open = row.status == "open"
    waits = (
        is_open
        and policies.can_decide(actor, row.run, row)
        and not Snooze.objects.filter(approval=row, user=actor.user).exists()
        and not Vote.objects.filter(approval=row, version=row.version, user=actor.user).exists()
    )
    mine = {team for seat in actor.seats if seat.own for team in seat.teams}
    in_view = {
        "mine": waits,
        "unclaimed": waits and not row.is_worked_on(moment),
        "teams": is_open and bool(mine & set(row.teams)) and bool(policies.DECIDERS & actor.roles),
        "open": is_open,
        "decided": not is_open,
    }[wanted.view]
    number, reach = int(row.address), inboxes.DUES.get(wanted.due)
    due = row.due_at is None if reach is None else row.due_at is not None and row.due_at <= moment + reach
    return all(
        [
            in_view,
            not wanted.q or row.title.startswith(wanted.q),
            not wanted.workflow or row.run.workflow == wanted.workflow,
            not wanted.tool or wanted.tool == f"tool{number % 2}",
            not wanted.label or wanted.label == f"n={number % 2}",
            not wanted.risk or (row.risk in RISKS[:4] and RISKS.index(row.risk) <= RISKS.index(wanted.risk)),
            not wanted.due or due,
            not wanted.team or wanted.team in row.teams,
            not wanted.requester or row.run.requester.username == wanted.requester,
            not wanted.status or row.status == wanted.status,
        ]
    )


WANTED: Final = st.builds(
    Wanted,
    view=st.sampled_from(inboxes.VIEWS),
    q=st.sampled_from(["", "", "app", "berry", "zz", "'"]),
    workflow=st.sampled_from(["", "", "pays", "other"]),
    tool=st.sampled_from(["", "", "tool1", "tool"]),
    risk=st.sampled_from(["", "", *RISKS[:4]]),
    due=st.sampled_from(["", "", *inboxes.DUES]),
    team=st.sampled_from(["", "", "legal", "nowhere"]),
    requester=st.sampled_from(["", "", "", "frida", "shop"]),
    label=st.sampled_from(["", "", "n=1"]),
    status=st.sampled_from(["", "", "", "expired"]),
    sort=st.sampled_from(inboxes.SORTS),
)


def test_counters_are_lists_are_the_database_whatever_is_wanted(many: House) -> None:
    rows = list(Approval.objects.select_related("run__requester", "run__submitted_by", "assignee"))
    people = [fresh(actor) for actor in (many.frida, many.felix, many.olga, many.vera)]

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(wanted=WANTED, who=st.sampled_from(range(4)), limit=st.integers(1, 30))
    def check(wanted: Wanted, who: int, limit: int) -> None:
        actor, moment = people[who], store.now()
        listed = every(actor, wanted, limit=limit)
        right = {row.pk for row in rows if is_wanted(actor, row, wanted, moment)}
        assert {row.pk for row in listed} == right
        assert len(listed) == len(right)
        lines = every(actor, wanted, limit=limit, ask=inboxes.items)
        assert [line(row) for row in lines] == [line(row) for row in listed]
        counted = inboxes.counts(many.project.pk, asked(actor), {"here": wanted, "mine": Wanted()}).by
        assert counted["here"] == len(right)
        assert counted["mine"] == inboxes.badge(many.project.pk, asked(actor))

    check()


def test_each_order_is_the_one_that_is_asked_for(many: House) -> None:
    def key(row: Approval, sort: str) -> Any:
        due = (row.due_at is None, row.due_at or row.opened_at, row.opened_at, row.pk)
        return {"due": due, "risk": (RISKS.index(row.risk), *due), "age": (row.opened_at, row.pk)}[sort]

    for sort in inboxes.SORTS:
        keys = [key(row, sort) for row in every(many.vera, Wanted(view="open", sort=sort), limit=7)]
        assert keys == sorted(keys)
    closed = [row.closed_at for row in every(many.vera, Wanted(view="decided"), limit=2)]
    assert all(before >= after for before, after in pairwise(closed) if before and after)


def test_the_next_one_is_what_comes_after_in_the_same_list_and_the_first_after_the_last(many: House) -> None:
    wanted = Wanted(view="open", sort="risk", team="legal")
    who = asked(many.frida)
    order = [row.pk for row in every(many.frida, wanted)]
    following = [inboxes.following(many.project.pk, wanted, who, pk) for pk in order]
    assert following == [*order[1:], order[0]]
    by_sql("UPDATE runs_approval SET status = 'decided', closed_at = now() WHERE id = %s", order[2])
    assert inboxes.following(many.project.pk, wanted, who, order[2]) == order[3]
    Approval.objects.filter(~Q(pk=order[0]), status="open").update(status="decided", closed_at=store.now())
    assert inboxes.following(many.project.pk, wanted, who, order[0]) is None


def test_counting_stops_at_a_hundred(house: House, many: House) -> None:
    rows = [
        Approval(
            project=house.project, run=Run.objects.first(), branch=2, address=str(n), node="ask", epoch=1
        )
        for n in range(120)
    ]
    Approval.objects.bulk_create(rows)
    found = inboxes.counts(house.project.pk, asked(house.frida), {"open": Wanted(view="open")}).by["open"]
    assert (found, inboxes.said(found), inboxes.said(7)) == (100, "99+", "7")


def test_what_is_answered_waits_for_its_person_no_more(house: House, define: Define) -> None:
    pay_flow(define("pays"), quorum=2)
    _, approval = house.parked("pays", x=1)
    house.answer(approval, "approve", by=house.frida)
    assert (inboxes.badge(house.project.pk, asked(house.frida)), titles(house.frida, view="mine")) == (0, [])
    assert inboxes.badge(house.project.pk, asked(house.felix)) == 1
    assert len(titles(house.frida, view="teams")) == 1
    operations.revise(actor=house.felix, approval_id=approval.pk, version=1, args={"pay": {"amount": 9}})
    assert inboxes.badge(house.project.pk, asked(house.frida)) == 1  # another version is another question


# ---- search


class Payout(BaseModel):
    name: str
    iban: Annotated[str, Sensitive("operator")]


@pytest.fixture
def payout(define: Define) -> Workflow:
    flow = define("payout", state=Payout, input=Payout)

    @flow.approval(reviewers=["finance"], editor_may_approve=True)
    def confirm(state: Payout, ctx: Any) -> Ask:
        action = Action(
            "pay", {"name": state.name, "iban": state.iban}, schema=Payout, editable=["name", "iban"]
        )
        return Ask(action, title=f"Pay {state.name} at {state.iban}", agent_note=f"I saw {state.iban}")

    workflows.register(flow)
    return flow


def test_what_is_hidden_from_anybody_is_found_by_nobody(house: House, payout: Workflow) -> None:
    """Also not from who may see it: a search of theirs would otherwise be another list than that of their colleagues."""
    Team.objects.get(name="finance").people.add(house.olga.user)
    _, approval = house.parked("payout", name="Nina", iban=SECRET)

    def found(word: str) -> list[int]:
        return [len(titles(actor, q=word)) for actor in (house.vera, house.felix, house.olga)]

    assert (found("nina"), found(SECRET), found(SECRET[:4]), found("4711")) == (
        [1] * 3,
        [0] * 3,
        [0] * 3,
        [0] * 3,
    )
    args = {"pay": {"name": "Pia", "iban": "yak0815"}}
    operations.revise(actor=house.olga, approval_id=approval.pk, version=1, args=args)
    assert (found("pia"), found("yak"), found(SECRET)) == ([1] * 3, [0] * 3, [0] * 3)
    assert not any(
        by_sql("SELECT 1 FROM runs_approval WHERE words::text LIKE %s", f"%{word}%")
        for word in (SECRET, "yak0815")
    )


def test_what_a_later_version_hides_is_found_no_more(house: House, define: Define) -> None:
    class Open(BaseModel):
        iban: str

    class Closed(BaseModel):
        iban: Annotated[str, Sensitive("operator")]

    def flow(version: int, state: type[BaseModel]) -> None:
        made = define("transfer", version=version, state=state)

        @made.approval(reviewers=["finance"])
        def confirm(state: Any, ctx: Any) -> Action:
            return Action("pay", {"iban": state.iban})

        workflows.register(made)

    flow(1, Open)
    house.parked("transfer", iban=SECRET)
    assert len(titles(house.vera, q=SECRET)) == 1
    flow(2, Closed)
    operations.register_workflows()
    assert titles(house.vera, q=SECRET) == []
    operations.keep_house()
    assert titles(house.vera, q=SECRET) == []
    assert len(titles(house.vera, q="transfer")) == 1


def test_title_arguments_comments_labels_and_ids_are_found(house: House, define: Define) -> None:
    pay_flow(define("pays"), quorum=2)
    run, approval = house.parked("pays", x="Kreuzberg-17")
    house.answer(approval, "approve", by=house.frida, comment="the Landlord rang")
    assert len(titles(house.vera, q="kreuz 17")) == 1
    assert len(titles(house.vera, q="LAND ran")) == 1
    assert len(titles(house.vera, q="pays ask")) == 1
    for text in (f"A-{approval.pk.hex[:8]}", str(approval.pk), str(run.pk), "pay"):
        assert len(titles(house.vera, q=text)) == 1, text
    assert titles(house.vera, q="kreuz nowhere") == []
    assert titles(house.vera, q="!?") == []
    assert len(titles(house.vera, tool="pay")) == 1
    assert titles(house.vera, tool="pa") == []


def test_a_run_is_found_by_its_label(house: House, define: Define) -> None:
    pay_flow(define("pays"))
    made = operations.submit(
        actor=house.shop, workflow="pays", input={"x": 1}, labels={"shop": "berlin mitte"}
    )
    house.work(made.run)
    assert len(titles(house.vera, label="shop=berlin mitte")) == 1
    assert len(titles(house.vera, q="mitte")) == 1
    assert titles(house.vera, label="shop=berlin") == []


def test_what_was_stored_before_there_were_words_is_found_after_a_round_of_housekeeping(
    house: House, define: Define
) -> None:
    pay_flow(define("pays"))
    house.parked("pays", x="elderflower")
    _, broken = house.parked("pays", x="elderflower")
    by_sql("UPDATE runs_approval SET words = NULL")
    by_sql("UPDATE runs_approval SET document = 'no json' WHERE id = %s", broken.pk)
    assert titles(house.vera, q="elder") == []
    assert operations.keep_house().words == 2
    assert len(titles(house.vera, q="elder")) == 1
    assert operations.keep_house().words == 0


def test_erased_content_is_not_found(house: House, define: Define) -> None:
    pay_flow(define("pays"))
    run, approval = house.parked("pays", x="elderflower")
    house.answer(approval, "approve")
    run = house.work(run)
    operations.erase(actor=house.olga, run_id=run.pk, version=run.version, reason="asked for")
    assert titles(house.vera, view="decided", q="elder") == []
    assert operations.keep_house().words == 0


# ---- saved views


def test_a_view_is_its_owners_and_their_teams_and_nobody_elses(house: House) -> None:
    query = {"view": "teams", "risk": "high", "sort": "risk", "q": ""}
    kept = operations.save_view(actor=house.frida, page="inbox", name=" High ", query=query)
    assert (kept.name, kept.query) == ("High", {"view": "teams", "risk": "high", "sort": "risk"})
    assert saved.of(house.felix, "inbox") == []
    operations.change_view(actor=house.frida, view_id=kept.pk, team="finance")
    assert saved.of(house.felix, "inbox") == [kept]
    assert saved.of(house.felix, "runs") == saved.of(house.vera, "inbox") == []
    with pytest.raises(Forbidden):
        operations.change_view(actor=house.felix, view_id=kept.pk, name="Mine")
    with pytest.raises(Forbidden):
        operations.delete_view(actor=house.felix, view_id=kept.pk)
    with pytest.raises(NotFound):
        operations.delete_view(actor=house.vera, view_id=kept.pk)
    admin = person(house.project, "ada", "admin")
    with pytest.raises(Forbidden):
        operations.change_view(actor=admin, view_id=kept.pk, name="Mine")
    operations.delete_view(actor=admin, view_id=kept.pk)
    assert not SavedView.objects.exists()
    verbs = ("save_view", "change_view", "delete_view")
    told = AuditEntry.objects.filter(verb__in=verbs).values_list("verb", "outcome").order_by("id")
    assert [verb for verb, outcome in told if outcome == "done"] == list(verbs)
    assert sum(outcome.startswith("denied") for _, outcome in told) == 4


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": " "},
        {"name": "a\u202eb"},
        {"query": {"colour": "red"}},
        {"query": {"risk": "huge"}},
        {"query": {"q": "x" * 201}},
        {"team": "legal"},
    ],
)
def test_what_no_list_knows_is_not_kept(house: House, wrong: dict[str, Any]) -> None:
    Team.objects.create(project=house.project, name="legal")
    given = {"page": "inbox", "name": "Mine", "query": {"risk": "high"}, **wrong}
    with pytest.raises(Unprocessable) as refused:
        operations.save_view(actor=house.frida, **given)
    assert refused.value.errors


def test_a_name_is_there_once_a_page_and_person(house: House) -> None:
    for actor, page in ((house.frida, "inbox"), (house.frida, "runs"), (house.felix, "inbox")):
        operations.save_view(actor=actor, page=page, name="Mine", query={})
    with pytest.raises(NameTaken):
        operations.save_view(actor=house.frida, page="inbox", name="Mine", query={})


def test_a_token_that_only_reads_keeps_no_view(house: House) -> None:
    token = ApiToken(scopes=["approvals:read"])
    reader = Actor(User.objects.get(username="frida"), house.project, "token", token=token)
    with pytest.raises(MissingScope):
        operations.save_view(actor=reader, page="inbox", name="Mine", query={})
