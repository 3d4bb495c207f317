"""Mail against a real SMTP server, and the links that it brings."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import Client

from runs import operations, store, workflows
from runs.delivery import Sender
from runs.engine import Action, Ask, Workflow
from runs.errors import LinkSpent
from runs.models import Approval, Attempt, AuditEntry, Delivery, Link, Message, Notice, Team, User, Vote
from runs.operations import ActionDecision, Answer
from runs.policies import Actor
from tests.integration.core.conftest import House, by_sql, make_house, pay_flow
from tests.integration.delivery.conftest import parked, pump
from tests.kit.postbox import Postbox

Define = Callable[..., Any]


@pytest.fixture
def posted(house: House, box: Postbox) -> House:
    """Everybody has an address."""
    for actor in (house.frida, house.felix, house.olga):
        actor.user.email = f"{actor.user.username}@example.org"
        actor.user.save()
    return house


def mail_to(box: Postbox, name: str) -> str:
    [found] = [mail for mail in box.mails if mail["To"] == f"{name}@example.org"]
    part = found.get_body(("plain",))
    assert part is not None
    return str(part.get_content())


def link_in(text: str) -> str:
    """The path of the link in a mail."""
    found = re.search(r"http://\S+/link/\S+", text)
    assert found
    return urlsplit(found.group()).path


def browser(actor: Actor) -> Client:
    client = Client()
    client.force_login(actor.user)
    return client


def send_answer(client: Client, place: str, decision: str = "approve") -> Any:
    """Fill in the form of the page that a link leads to."""
    shown = client.get(place)
    assert shown.status_code == 200, shown.content.decode()[-1500:]
    text = shown.content.decode()
    form = text[text.index('<form class="decide"') :]
    fields = dict(
        re.findall(r'<input type="hidden" name="([\w:]+)" value="([^"]*)"', form[: form.index("</form>")])
    )
    action = re.search(r'action="([^"?]*)', form)
    assert action
    return client.post(action.group(1), {**fields, "decision": decision, "reason": "as agreed"})


def test_those_who_are_asked_get_a_title_and_a_link(
    posted: House, define: Define, sender: Sender, box: Postbox
) -> None:
    parked(posted, define)
    pump(sender)
    assert sorted(box.recipients) == ["felix@example.org", "frida@example.org"]
    mail = box.mails[0]
    assert mail["Subject"].startswith("[demo] Asked of you: ")
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["List-Unsubscribe"].endswith("/notifications/settings/>")
    assert {part.get_content_type() for part in mail.walk()} >= {"text/plain", "text/html"}
    everything = "".join(str(part.get_payload()) for part in mail.walk() if not part.is_multipart())
    assert "amount" not in everything
    assert "20" not in box.text(0).partition("http")[0].replace("2026", "")
    assert {d.status for d in Delivery.objects.all()} == {"delivered"}


def test_each_is_written_to_in_their_language(
    posted: House, define: Define, sender: Sender, box: Postbox
) -> None:
    User.objects.filter(pk=posted.frida.user.pk).update(language="de")
    parked(posted, define)
    pump(sender)
    subjects = {str(mail["To"]).partition("@")[0]: str(mail["Subject"]) for mail in box.mails}
    assert subjects["frida"].startswith("[demo] Sie sind gefragt: ")
    assert subjects["felix"].startswith("[demo] Asked of you: ")
    [german] = [mail for mail in box.mails if mail["To"].startswith("frida")]
    page = german.get_body(("html",))
    assert page is not None
    assert '<html lang="de">' in page.get_content()
    assert {message.title.partition(":")[0] for message in Message.objects.all()} == {"Asked of you"}


def test_a_link_leads_through_sign_in_to_the_card_and_works_once(
    posted: House, define: Define, sender: Sender, box: Postbox
) -> None:
    run, approval = parked(posted, define)
    pump(sender)
    place = link_in(mail_to(box, "frida"))
    stranger = Client().get(place)
    assert stranger.status_code == 303
    assert stranger.headers["Location"].startswith("/sign-in/?next=%2Flink%2F")
    client = browser(posted.frida)
    assert send_answer(client, place).status_code == 303
    approval.refresh_from_db()
    assert (approval.status, approval.outcome) == ("decided", "approve")
    assert Vote.objects.get().method == "link"
    assert AuditEntry.objects.filter(verb="decide", method="link", outcome="done").count() == 1
    assert client.get(place).status_code == 410
    assert posted.work(run).status == "completed"


def test_reading_a_link_changes_nothing(posted: House, define: Define, sender: Sender, box: Postbox) -> None:
    """Scanners of mails open every link; so does whoever looks twice."""
    parked(posted, define)
    pump(sender)
    place = link_in(mail_to(box, "frida"))
    client = browser(posted.frida)
    for _ in range(3):
        assert client.get(place).status_code == 200
        assert client.head(place).status_code == 200
        assert Client().get(place).status_code == 303
    assert client.post(place).status_code == 405
    assert Approval.objects.get().status == "open"
    assert Link.objects.filter(used_at=None).count() == Link.objects.count()


def test_a_link_is_for_the_person_it_was_sent_to(
    posted: House, define: Define, sender: Sender, box: Postbox
) -> None:
    _, approval = parked(posted, define)
    pump(sender)
    place = link_in(mail_to(box, "frida"))
    assert browser(posted.felix).get(place).status_code == 403
    token = place.split("/")[2]
    answer = {"version": 1, "digest": approval.digest, "action": "pay", "decision": "approve", "link": token}
    assert browser(posted.felix).post(f"/inbox/{approval.pk}/decide/", answer).status_code == 403
    assert browser(posted.frida).get(f"{place[:-3]}xx/").status_code == 403
    elsewhere = browser(make_house("other").frida).get(place)
    assert elsewhere.status_code == 403
    assert "demo" not in elsewhere.content.decode()  # K11: not even whose project it is
    approval.refresh_from_db()
    assert approval.status == "open"


def test_a_link_is_for_the_version_that_was_asked(
    posted: House, define: Define, sender: Sender, box: Postbox
) -> None:
    _, approval = parked(posted, define)
    pump(sender)
    operations.revise(actor=posted.felix, approval_id=approval.pk, version=1, args={"pay": {"amount": 3}})
    place = link_in(mail_to(box, "frida"))
    answer = browser(posted.frida).get(place)
    assert answer.status_code == 410
    assert "version 2 is asked now" in answer.content.decode()


@pytest.mark.parametrize("what", ["expired", "decided", "rewound"])
def test_a_link_whose_question_is_over_is_gone(
    what: str, posted: House, define: Define, sender: Sender, box: Postbox
) -> None:
    run, approval = parked(posted, define)
    pump(sender)
    if what == "expired":
        by_sql("UPDATE runs_link SET expires_at = now() - interval '1 second'")
    elif what == "decided":
        posted.answer(approval, "reject", by=posted.felix)
    else:
        operations.rewind(actor=posted.olga, run_id=run.pk, checkpoint=0, reason="again")
    assert browser(posted.frida).get(link_in(mail_to(box, "frida"))).status_code == 410


@pytest.mark.parametrize("what", ["inactive", "out of the team", "no member", "deleted"])
def test_a_link_of_somebody_who_may_not_answer_any_more_is_refused(
    what: str, posted: House, define: Define, sender: Sender, box: Postbox
) -> None:
    """C89."""
    _, approval = parked(posted, define)
    pump(sender)
    place, frida = link_in(mail_to(box, "frida")), posted.frida.user
    client = browser(posted.frida)
    if what == "inactive":
        frida.is_active = False
        frida.save()
    elif what == "out of the team":
        Team.objects.get().people.remove(frida)
    elif what == "no member":
        frida.memberships.all().delete()
    else:
        frida.delete()
    assert client.get(place).status_code == 403
    if what == "inactive":
        frida.is_active = True
        frida.save()
        client.force_login(frida)
        assert client.get(place).status_code == 200
    approval.refresh_from_db()
    assert approval.status == "open"


def test_two_answers_by_one_link_come_to_one(
    posted: House, define: Define, sender: Sender, box: Postbox
) -> None:
    _, approval = parked(posted, define, quorum=2)
    pump(sender)
    token = link_in(mail_to(box, "frida")).split("/")[2]
    told = Answer(approval.pk, 1, approval.digest, [ActionDecision("pay", "approve", None, "")], "", token)
    operations.decide(actor=posted.frida, answers=[told])
    [again] = operations.decide(actor=posted.frida, answers=[told])
    assert again.replayed
    other = Answer(
        approval.pk, 1, approval.digest, [ActionDecision("pay", "reject", None, "no")], "no", token
    )
    with pytest.raises(LinkSpent):
        operations.decide(actor=posted.frida, answers=[other])
    assert Vote.objects.count() == 1


def test_an_answer_that_is_refused_does_not_use_the_link_up(
    posted: House, define: Define, sender: Sender, box: Postbox
) -> None:
    _, approval = parked(posted, define)
    pump(sender)
    token = link_in(mail_to(box, "frida")).split("/")[2]
    wrong = Answer(
        approval.pk, 1, approval.digest, [ActionDecision("nothing", "approve", None, "")], "", token
    )
    with pytest.raises(Exception, match="nothing"):
        operations.decide(actor=posted.frida, answers=[wrong])
    assert Link.objects.filter(used_at=None).count() == 2


def test_a_mail_that_nobody_needs_any_more_is_not_sent(
    posted: House, define: Define, sender: Sender, box: Postbox
) -> None:
    _, approval = parked(posted, define)
    posted.felix.user.is_active = False
    posted.felix.user.save()
    posted.answer(approval, "approve")
    pump(sender)
    assert box.mails == []
    assert sorted(Delivery.objects.values_list("status", "reason")) == [
        ("cancelled", "approval_closed"),
        ("cancelled", "person_left"),
    ]


def test_a_server_that_is_away_is_asked_again(
    posted: House, define: Define, sender: Sender, box: Postbox, settings: Any
) -> None:
    parked(posted, define, reviewers=["user:frida"])
    box.refusals.append(b"451 later")
    pump(sender)
    delivery = Delivery.objects.get()
    assert (delivery.status, delivery.reason) == ("pending", "refused")
    by_sql("UPDATE runs_delivery SET due_at = now()")
    port, settings.EMAIL_PORT = settings.EMAIL_PORT, 1
    pump(sender)
    by_sql("UPDATE runs_delivery SET due_at = now()")
    settings.EMAIL_PORT = port
    pump(sender)
    delivery.refresh_from_db()
    assert delivery.status == "delivered"
    assert [attempt.outcome for attempt in Attempt.objects.order_by("no")] == [
        "refused",
        "refused",
        "delivered",
    ]
    assert Link.objects.count() == 1


def test_an_address_that_the_server_refuses_for_good_is_a_dead_letter(
    posted: House, define: Define, sender: Sender, box: Postbox
) -> None:
    parked(posted, define, reviewers=["user:frida"])
    box.refusals.append(b"550 nobody here")
    pump(sender)
    assert Delivery.objects.values_list("status", "reason").get() == ("dead", "mailbox_refused")


def test_hidden_characters_in_a_title_are_spelled_out(
    posted: House, define: Define, sender: Sender, box: Postbox
) -> None:
    """C90: no header can be added, nothing is drawn backwards, nothing is markup."""
    flow: Workflow = define("odd")

    @flow.approval(reviewers=["user:frida"])
    def ask(state: Any, ctx: Any) -> Any:
        return Ask([Action("pay", {})], title="a\u202eb <b>c</b>\nBcc: x@example.org")

    @flow.node
    def after(state: Any, ctx: Any) -> None:
        return None

    flow.edge("ask", "after")
    workflows.register(flow)
    posted.work(posted.submit("odd"))
    pump(sender)
    [mail] = box.mails
    assert mail["Bcc"] is None
    assert "[U+202E]" in mail["Subject"]
    html = mail.get_body(("html",))
    assert html is not None
    assert "&lt;b&gt;" in html.get_content()
    assert box.recipients == ["frida@example.org"]


def test_what_waits_for_a_day_comes_in_one_mail_with_what_is_still_open(
    posted: House, define: Define, sender: Sender, box: Postbox
) -> None:
    operations.set_preference(actor=posted.frida, app=["asked"], mail=["asked"], digest=True)
    _, first = parked(posted, define, reviewers=["user:frida"])
    _, second = posted.parked("pay", x=3)
    posted.answer(first, "approve")
    pump(sender)
    assert box.mails == []
    by_sql("UPDATE runs_preference SET digested_at = now() - interval '2 days'")
    sender.digest_at = 0.0
    pump(sender)
    pump(sender)
    [mail] = box.mails
    assert mail["Subject"] == "[demo] 1 thing waits for you"
    assert f"/inbox/{second.pk}/" in box.text()
    assert str(first.pk) not in box.text()
    by_sql("UPDATE runs_preference SET digested_at = now() - interval '2 days'")
    sender.digest_at = 0.0
    pump(sender)
    assert len(box.mails) == 1  # nothing is told twice, and nothing is not worth a mail
    assert not Notice.objects.filter(digest=True).exists()


def test_without_a_mail_server_nothing_is_put_in_line(house: House, define: Define) -> None:
    house.frida.user.email = "frida@example.org"
    house.frida.user.save()
    parked(house, define)
    assert not Delivery.objects.exists()


def test_who_asked_hears_what_came_of_it(posted: House, define: Define, box: Postbox) -> None:
    pay_flow(define("pay"))
    posted.shop.user.is_service = False
    posted.shop.user.save()
    run, approval = posted.parked("pay", x=1)
    posted.answer(approval, "approve")
    posted.work(run)
    told = Notice.objects.filter(user=posted.shop.user).order_by("pk").values_list("message__type", "topic")
    assert list(told) == [("approval.decided", "decided"), ("run.completed", "ended")]


def test_operators_hear_of_a_failure_and_who_cancelled_does_not(
    posted: House, define: Define, box: Postbox
) -> None:
    run, _ = parked(posted, define)
    operations.cancel(actor=posted.olga, run_id=run.pk)
    assert not Notice.objects.filter(user=posted.olga.user).exists()
    other, approval = posted.parked("pay", x=1)
    posted.answer(approval, "reject", message="no", comment="no")
    assert posted.work(other).status == "failed"
    [notice] = Notice.objects.filter(user=posted.olga.user).select_related("message")
    assert (notice.message.type, notice.topic) == ("run.failed", "failed")


def test_a_link_ends_when_the_question_is_due(
    posted: House, define: Define, sender: Sender, box: Postbox
) -> None:
    _, approval = parked(posted, define, due="2h", reviewers=["user:frida"])
    pump(sender)
    assert Link.objects.get().expires_at == approval.due_at
    assert approval.due_at is not None
    assert approval.due_at < store.now() + timedelta(hours=3)
