"""One mail to one person: what happened, in a line, and where to look. Never arguments, never what an agent says."""

from __future__ import annotations

import smtplib
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.core.mail import EmailMultiAlternatives, get_connection
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone, translation

from runs import operations, policies
from runs.engine import canonical, telling
from runs.models import Approval, Delivery, Link, Message, Notice, User
from runs.policies import Actor
from runs.store import Tried, now
from runs.store.outbox import address

LONGEST_SUBJECT: Final = 150
REFUSED_FOR_GOOD: Final = range(500, 600)
ASKING: Final = ("approval.opened", "approval.reminded", "approval.escalated")


@dataclass(frozen=True, slots=True)
class Letter:
    """A mail that is ready to go."""

    to: str
    subject: str
    text: str
    html: str
    identity: UUID


@dataclass(frozen=True, slots=True)
class Unwanted:
    """Nobody needs this mail any more, and why."""

    reason: str


def letter(delivery: Delivery) -> Letter | Unwanted:
    """Write the mail of a delivery, for its person as they are now: on their clock, in their language."""
    assert delivery.user is not None
    language = delivery.user.language or settings.LANGUAGE_CODE
    with timezone.override(delivery.user.clock), translation.override(language):
        return _letter(delivery, delivery.user)


def _letter(delivery: Delivery, person: User) -> Letter | Unwanted:
    message = delivery.message
    actor = Actor(person, message.project, "mail")
    if not person.is_active or not actor.roles:
        return Unwanted("person_left")
    if not person.email:
        return Unwanted("no_address")
    if message.type == telling.DIGEST:
        items = _digest(message, person.pk)
        return _written(delivery, items, digest=True) if items else Unwanted("nothing_open")
    item = _asked(delivery, actor) if message.type in ASKING else _line(message, _place(message))
    return item if isinstance(item, Unwanted) else _written(delivery, [item], digest=False)


def _written(delivery: Delivery, items: list[dict[str, Any]], *, digest: bool) -> Letter:
    message = delivery.message
    assert delivery.user is not None
    context = {
        "items": items,
        "project": message.project.name,
        "preferences": settings.HITL_BASE_URL + reverse("notification-settings"),
        "digest": digest,
        "zone": timezone.get_current_timezone_name(),
        "language": translation.get_language(),
    }
    return Letter(
        delivery.user.email,
        _one_line(render_to_string("mail/subject.txt", context)),
        render_to_string("mail/letter.txt", context),
        render_to_string("mail/letter.html", context),
        delivery.pk,
    )


def _asked(delivery: Delivery, actor: Actor) -> dict[str, Any] | Unwanted:
    message = delivery.message
    assert message.approval_id is not None
    approval = Approval.objects.select_related("run", "project").get(pk=message.approval_id)
    if approval.status != "open":
        return Unwanted("approval_closed")
    if not policies.can_decide(actor, approval.run, approval):
        return Unwanted("not_asked")
    link = _link(delivery, approval)
    url = settings.HITL_BASE_URL + reverse("link", args=[operations.link_token(link)])
    return {**_line(message, url), "due": approval.due_at, "until": link.expires_at}


def _line(message: Message, url: str) -> dict[str, Any]:
    return {
        "title": message.headline,
        "workflow": message.run.workflow if message.run else "",
        "url": url,
    }


def _link(delivery: Delivery, approval: Approval) -> Link:
    """The link of this mail: the same one when it is tried again. It is for the version that is asked now."""
    ends = now() + timedelta(hours=settings.HITL_LINK_HOURS)
    told = {
        "user": delivery.user,
        "approval": approval,
        "version": approval.version,
        "digest": approval.digest,
        "expires_at": min(ends, approval.due_at) if approval.due_at else ends,
    }
    found, _ = Link.objects.get_or_create(delivery=delivery, defaults=told)
    return found


def _digest(message: Message, user_id: int) -> list[dict[str, Any]]:
    """What of a day's notices nobody has looked at yet. Titles are read now: what was erased since says nothing."""
    named = canonical.loads(message.body)["messages"]
    wanted = Notice.objects.filter(user=user_id, message__in=named, read_at=None)
    rows = wanted.select_related("message__run").order_by("pk")
    return [_line(notice.message, _place(notice.message)) for notice in rows]


def _place(message: Message) -> str:
    """Where a digest leads: to the page itself; a link that decides is for one question and one mail."""
    if message.approval_id and message.type != "approval.decided":
        return address("inbox", message.approval_id)
    return address("runs", message.run_id) if message.run_id else settings.HITL_BASE_URL


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_SUBJECT else f"{line[: LONGEST_SUBJECT - 1]}…"


def send(written: Letter, *, moment: datetime) -> Tried:
    """Hand a mail to the server, whatever happens."""
    began = time.monotonic()
    host = settings.DEFAULT_FROM_EMAIL.rpartition("@")[2].strip("> ")
    mail = EmailMultiAlternatives(
        written.subject,
        written.text,
        to=[written.to],
        headers={
            "Message-ID": f"<{written.identity}@{host}>",  # the same at every attempt: a reader sees one mail
            "Auto-Submitted": "auto-generated",
            "X-Auto-Response-Suppress": "All",
            "List-Unsubscribe": f"<{settings.HITL_BASE_URL}{reverse('notification-settings')}>",
        },
    )
    mail.attach_alternative(written.html, "text/html")

    def tried(outcome: str, detail: str = "") -> Tried:
        return Tried(outcome, moment, time.monotonic() - began, detail=canonical.visible(detail[:500]))

    try:
        with get_connection(timeout=settings.EMAIL_TIMEOUT) as connection:
            mail.connection = connection
            mail.send()
    except smtplib.SMTPRecipientsRefused as error:
        codes = [code for code, _ in error.recipients.values()]
        final = all(code in REFUSED_FOR_GOOD for code in codes)
        return tried("mailbox_refused" if final else "refused", str(error))
    except TimeoutError:
        return tried("timeout", f"No answer within {settings.EMAIL_TIMEOUT} s.")
    except (smtplib.SMTPException, OSError) as error:
        return tried("refused", f"{type(error).__name__}: {error}")
    return tried("delivered")
