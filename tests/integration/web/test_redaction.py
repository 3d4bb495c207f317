"""A value that its schema keeps for some roles is on no page and in no answer of the API for others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from django.test import Client
from pydantic import BaseModel

from runs import operations, workflows
from runs.engine import Action, Ask, Sensitive, Workflow
from runs.errors import FieldNotEditable
from runs.models import Approval, Checkpoint, Event, Member, Run, Team
from runs.operations import ActionDecision, Answer
from runs.policies import Actor
from tests.integration.api.conftest import api_of
from tests.integration.core.conftest import House, define, person, state_of
from tests.kit.run_pages import PARTS

__all__ = ["define"]

Define = Callable[..., Workflow]
ClientOf = Callable[[Actor], Client]
SECRET, OTHER = "DE02120300000000202051", "AT611904300234573201"
WORDS = (SECRET, OTHER)


class Payout(BaseModel):
    name: str = ""
    iban: Annotated[str, Sensitive("operator")] = ""
    log: list[str] = []
    sent: str = ""


class PayArgs(BaseModel):
    name: str
    iban: Annotated[str, Sensitive("operator")]


def verify(iban: str) -> dict[str, str]:
    return {"verified": iban}


@pytest.fixture
def payout(house: House, define: Define) -> Workflow:
    flow = define("payout", state=Payout)

    @flow.node
    def check(state: Any, ctx: Any) -> dict[str, Any]:
        ctx.log(f"checking {state.iban}", iban=state.iban)
        ctx.call(verify, state.iban, effect="reversible")
        return {"log": ["checked"]}

    @flow.approval(reviewers=["finance"], editor_may_approve=True)
    def confirm(state: Any, ctx: Any) -> Ask:
        action = Action(
            "pay", {"name": state.name, "iban": state.iban}, schema=PayArgs, editable=["name", "iban"]
        )
        return Ask(
            action, title=f"Pay {state.iban}", facts={"to": state.iban}, agent_note=f"I saw {state.iban}"
        )

    @flow.node
    def pay(state: Any, ctx: Any) -> dict[str, Any]:
        raise ValueError(f"the bank refuses {ctx.approved('confirm').args['iban']}")

    flow.edge(check, confirm)
    flow.choose(confirm, approve=pay, reject=pay)
    workflows.register(flow)
    return flow


@pytest.fixture
def asked(house: House, payout: Workflow) -> Approval:
    """olga, who sees it, has changed the account: two versions, of which the others see that they differ."""
    Team.objects.get(name="finance").people.add(house.olga.user)
    Member.objects.filter(user=house.vera.user).update(roles=["viewer", "submitter"])
    _, approval = house.parked("payout", name="Nina", iban=SECRET)
    operations.revise(
        actor=house.olga, approval_id=approval.pk, version=1, args={"pay": {"name": "Nina", "iban": OTHER}}
    )
    approval.refresh_from_db()
    return approval


@pytest.fixture
def failed(house: House, asked: Approval) -> Run:
    house.answer(asked, "approve", by=house.felix)
    run = house.work(asked.run)
    assert run.status == "failed"
    return run


def addresses(run: Run, approval: Approval) -> list[str]:
    """Everything that shows the run, by GET."""
    api, last = f"/api/v1/runs/{run.pk}", Checkpoint.objects.filter(run=run).count() - 1
    return [
        "/api/v1/runs",
        api,
        f"{api}/history",
        f"{api}/export",
        f"{api}/checkpoints",
        *(f"{api}/checkpoints/{no}" for no in range(last + 1)),
        f"{api}/steps",
        f"{api}/branches",
        f"{api}/compare?checkpoint=0&other_checkpoint={last}",
        f"{api}/signals",
        "/api/v1/approvals",
        "/api/v1/approvals?status=decided",
        f"/api/v1/approvals/{approval.pk}",
        "/runs/",
        *(f"/runs/{run.pk}/{part}" for part in PARTS),
        *(
            f"/runs/{run.pk}/checkpoints/{last}/?show={show}"
            for show in ("difference", "tree", "state", "update")
        ),
        f"/runs/{run.pk}/checkpoints/0/?show=state",
        f"/runs/{run.pk}/checkpoints/{last}/?find=a",
        f"/runs/{run.pk}/checkpoints/{last}/?against=0",
        f"/runs/{run.pk}/checkpoints/{last}/state.json",
        f"/runs/{run.pk}/data/input.json",
        f"/runs/{run.pk}/data/output.json",
        *(f"/runs/{run.pk}/history/{seq}.json" for seq in range(1, run.seq + 1)),
        f"/runs/{run.pk}/compare/?checkpoint=0&other_checkpoint={last}",
        "/inbox/?view=all",
        "/inbox/?view=decided",
        f"/inbox/{approval.pk}/",
        f"/inbox/{approval.pk}/whole/",
        f"/inbox/{approval.pk}/arguments.json",
    ]


def leaks(text: str) -> list[str]:
    """What stands around each secret in a text, so that a failure says where."""
    places = [(text.find(word), word) for word in WORDS if word in text]
    return [text[max(at - 120, 0) : at + 40] for at, _ in places]


def everything(actor: Actor, client: Client, run: Run, approval: Approval) -> dict[str, str]:
    """What is read at every address, by page, by session and by token."""
    told = {}
    for address in addresses(run, approval):
        answer = client.get(address)
        assert answer.status_code == 200, address
        told[address] = answer.getvalue().decode()
        if address.startswith("/api/"):
            told[f"token {address}"] = api_of(actor).get(address).text
    return told


@pytest.mark.parametrize("state", ["asked", "failed"])
def test_it_is_nowhere_for_others_and_there_for_who_may_see_it(
    house: House, client_of: ClientOf, request: pytest.FixtureRequest, state: str, asked: Approval
) -> None:
    request.getfixturevalue(state)
    run = Run.objects.get(pk=asked.run_id)
    for actor in (house.vera, house.felix, house.shop, person(house.project, "ada", "admin")):
        client = client_of(actor)
        for address, text in everything(actor, client, run, asked).items():
            assert leaks(text) == [], (str(actor.user), address)
    told = everything(house.olga, client_of(house.olga), run, asked)
    unseen = [address for address, text in told.items() if not any(word in text for word in WORDS)]
    lists = (
        "/branches",
        "/signals",
        "/checkpoints",
        "/runs",
        "/runs/",
        "view=decided",
        "status=decided",
        "view=all",
        f"/runs/{run.pk}/",  # where it stands, and the parts that hold no document
        *(f"/{part}/" for part in ("timeline", "branches", "approvals", "effects", "others", "evidence")),
        *("/log/", "/output.json"),
        *(f"/history/{seq}.json" for seq in range(2, run.seq + 1)),
    )
    assert [address for address in unseen if not address.endswith((*lists, "/approvals"))] == []


class Plain(BaseModel):
    iban: str = ""


@pytest.mark.parametrize("flow", ["payout", "plain"])
def test_a_line_of_the_inbox_hides_it_also_where_only_the_action_marks_it(
    house: House, payout: Workflow, define: Define, client_of: ClientOf, flow: str
) -> None:
    plain = define("plain", state=Plain)

    @plain.approval
    def confirm(state: Any, ctx: Any) -> Ask:
        return Ask(Action("pay", {"name": "", "iban": state.iban}, schema=PayArgs), title=f"Pay {state.iban}")

    @plain.node
    def end(state: Any, ctx: Any) -> None: ...

    plain.choose(confirm, approve=end, reject=end)
    workflows.register(plain)
    house.parked(flow, iban=SECRET)
    for actor, seen in ((house.olga, True), (house.felix, False), (house.vera, False)):
        page = client_of(actor).get("/inbox/?view=open").content.decode()
        assert "Pay " in page
        assert (SECRET in page) == seen, str(actor.user)


def test_previews_and_forms_of_people_who_steer_hide_it_too(
    house: House, client_of: ClientOf, failed: Run
) -> None:
    felix = client_of(house.felix)
    for address in (f"/runs/{failed.pk}/rewind/1/", f"/runs/{failed.pk}/edit-state/"):
        answer = felix.get(address)
        assert answer.status_code == 200
        assert leaks(answer.content.decode()) == [], address
    preview = api_of(house.felix).post(f"runs/{failed.pk}/rewind/preview", {"checkpoint": 0})
    assert preview.status == 200
    assert leaks(preview.text) == []
    assert preview.body["state"]["iban"] == {"$redacted": ["operator"]}
    seen = api_of(house.olga).post(f"runs/{failed.pk}/rewind/preview", {"checkpoint": 0})
    assert SECRET in seen.text


# ---- deciding about what is hidden


def test_the_page_of_its_work_does_not_quote_it(house: House, asked: Approval, client_of: ClientOf) -> None:
    address = f"/inbox/{asked.pk}/attend/"
    assert leaks(client_of(house.frida).get(address).content.decode()) == []
    assert leaks(client_of(house.olga).get(address).content.decode()) != []


def test_what_is_decided_together_hides_it_before_and_after(
    house: House, define: Define, client_of: ClientOf
) -> None:
    flow = define("payouts", state=Payout)

    @flow.approval(reviewers=["finance"])
    def confirm(state: Any, ctx: Any) -> Ask:
        given = {"name": "<Nina & Co>", "iban": state.iban}
        action = Action("pay", given, schema=PayArgs, effect="reversible", risk="low")
        return Ask(action, title=f"Pay {state.iban}")

    workflows.register(flow)
    asked = [house.parked("payouts", iban=SECRET)[1] for _ in range(2)]
    form = {"approval": [f"{one.pk} {one.version} {one.digest}" for one in asked], "word": "approve"}
    frida = client_of(house.frida)
    told = [frida.get("/inbox/together/")]
    told += [frida.post("/inbox/together/", {**form, "sure": sure}) for sure in ("", "yes")]
    for answer in told:
        page = answer.content.decode()
        assert (answer.status_code, leaks(page)) == (200, [])
        assert "&lt;Nina &amp; Co&gt;" in page  # as it is, and escaped once
        assert "&amp;lt;" not in page
        assert "&lt;span" not in page


def test_a_reviewer_sees_that_something_is_hidden_and_that_it_changed(
    house: House, client_of: ClientOf, asked: Approval
) -> None:
    page = client_of(house.felix).get(f"/inbox/{asked.pk}/").content.decode()
    assert "1 argument hidden from you: iban." in page
    assert page.count("Hidden from you.") == 1
    assert "other" in page  # of the version before: another value than now
    told = api_of(house.felix).get(f"approvals/{asked.pk}").body
    [action] = told["actions"]
    assert (action["hidden"], action["args"]["iban"]) == (["/iban"], {"$redacted": ["operator"]})
    assert told["digest"] == asked.digest
    assert api_of(house.olga).get(f"approvals/{asked.pk}").body["actions"][0]["hidden"] == []
    approved = api_of(house.felix).post(
        f"approvals/{asked.pk}/decide", {"version": 2, "digest": asked.digest, "type": "approve"}
    )
    assert approved.status == 200
    assert leaks(approved.text) == []


def test_a_refusal_that_shows_both_versions_hides_it_in_both(house: House, asked: Approval) -> None:
    stale = api_of(house.felix).post(f"approvals/{asked.pk}/decide", {"version": 1, "type": "approve"})
    assert stale.code == "stale_version"
    assert leaks(stale.text) == []
    hidden = {"$redacted": ["operator"]}
    assert stale.body["document"]["actions"][0]["args"]["iban"] == hidden
    assert stale.body["base"]["actions"][0]["args"]["iban"] == {**hidden, "other": True}


@pytest.mark.parametrize("way", ["revise", "decide"])
def test_an_edit_by_somebody_who_does_not_see_it_leaves_it_as_it_is(
    house: House, asked: Approval, way: str
) -> None:
    felix = api_of(house.felix)
    shown = felix.get(f"approvals/{asked.pk}").body["actions"][0]["args"]
    args = {**shown, "name": "Nino"}
    if way == "revise":
        answer = felix.post(f"approvals/{asked.pk}/revise", {"version": 2, "args": {"pay": args}})
    else:
        edit = {"key": "pay", "type": "edit", "args": args}
        answer = felix.post(f"approvals/{asked.pk}/decide", {"version": 2, "decisions": [edit]})
        again = felix.post(f"approvals/{asked.pk}/decide", {"version": 2, "decisions": [edit]})
        assert again.status == 200  # K12: the same answer again
    assert answer.status == 200, answer.text
    asked.refresh_from_db()
    assert asked.content["actions"][0]["args"] == {"name": "Nino", "iban": OTHER}


@pytest.mark.parametrize("guess", [OTHER, "x", None])
def test_nobody_edits_an_argument_that_they_do_not_see(house: House, asked: Approval, guess: Any) -> None:
    refused = api_of(house.felix).post(
        f"approvals/{asked.pk}/revise", {"version": 2, "args": {"pay": {"name": "Nina", "iban": guess}}}
    )
    assert (refused.status, refused.code, refused.paths) == (403, "field_not_editable", ["/iban"])
    decisions = [ActionDecision("pay", "edit", {"name": "Nina", "iban": guess})]
    with pytest.raises(FieldNotEditable):
        operations.decide(actor=house.felix, answers=[Answer(asked.pk, 2, asked.digest, decisions)])
    asked.refresh_from_db()
    assert asked.version == 2


def test_the_form_of_an_edit_keeps_it_too(house: House, client_of: ClientOf, asked: Approval) -> None:
    felix = client_of(house.felix)
    for mode in ("form", "json"):
        page = felix.get(f"/inbox/{asked.pk}/edit/?mode={mode}").content.decode()
        assert leaks(page) == []
    sent = {
        "mode": "json",
        "json:pay": '{"name": "Nino", "iban": {"$redacted": ["operator"]}}',
        "version": "2",
        "digest": asked.digest,
        "save": "revise",
    }
    assert felix.post(f"/inbox/{asked.pk}/edit/", sent).status_code == 303
    asked.refresh_from_db()
    assert asked.content["actions"][0]["args"] == {"name": "Nino", "iban": OTHER}


def test_a_field_of_the_state_that_is_hidden_is_edited_by_nobody_who_does_not_see_it(
    house: House, client_of: ClientOf, failed: Run
) -> None:
    given: dict[str, Any] = {"run_id": failed.pk, "version": failed.version, "reason": "so"}
    with pytest.raises(FieldNotEditable):
        operations.edit_state(actor=house.felix, changes={"iban": "x"}, **given)
    operations.edit_state(actor=house.olga, changes={"iban": OTHER}, **given)
    assert state_of(Run.objects.get(pk=failed.pk))["iban"] == OTHER


def test_the_log_of_the_process_which_has_no_roles_does_not_quote_it(
    house: House, payout: Workflow, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO"):
        house.parked("payout", name="Nina", iban=SECRET)
    [said] = [record for record in caplog.records if record.name == "runs.node"]
    assert (said.getMessage(), said.facts) == ("checking (redacted)", '{"iban":"(redacted)"}')  # type: ignore[attr-defined]
    assert SECRET not in caplog.text


def test_what_is_stored_and_hashed_is_the_true_document(
    house: House, failed: Run, client_of: ClientOf
) -> None:
    before = list(Event.objects.filter(run=failed).values_list("payload", "hash"))
    client_of(house.vera).get(f"/runs/{failed.pk}/")
    client_of(house.vera).get(f"/api/v1/runs/{failed.pk}/history")
    assert list(Event.objects.filter(run=failed).values_list("payload", "hash")) == before
    assert state_of(failed)["iban"] == SECRET
    assert any(SECRET in (payload or "") for payload, _ in before)


def test_it_stays_hidden_when_the_workflow_is_not_registered_any_more(
    house: House, client_of: ClientOf, failed: Run
) -> None:
    """Its schema was written down when it was."""
    approval = Approval.objects.get(run=failed)
    workflows.unregister("payout")
    vera = client_of(house.vera)
    for address in (f"/runs/{failed.pk}/", f"/api/v1/runs/{failed.pk}", f"/inbox/{approval.pk}/"):
        answer = vera.get(address)
        assert answer.status_code == 200
        assert leaks(answer.content.decode()) == [], address


def test_django_admin_shows_no_document(house: House, failed: Run) -> None:
    root = person(house.project, "root", "viewer").user
    root.is_staff = root.is_superuser = True
    root.save()
    client = Client()
    client.force_login(root)
    approval = Approval.objects.get(run=failed)
    vote = approval.votes.first()
    assert vote is not None
    for address in (
        f"/admin/runs/run/{failed.pk}/change/",
        f"/admin/runs/approval/{approval.pk}/change/",
        "/admin/runs/approval/",
        f"/admin/runs/vote/{vote.pk}/change/",
    ):
        answer = client.get(address)
        assert answer.status_code == 200
        assert leaks(answer.content.decode()) == [], address
