"""Signed links: one answer of one person to one version of an approval, until a certain time."""

from __future__ import annotations

import uuid
from typing import Final

from django.core import signing

from runs import policies, store
from runs.errors import LinkRefused, LinkSpent, Told
from runs.models import Approval, Link, User
from runs.policies import Actor

SALT: Final = "hitl.link"


def link_token(link: Link) -> str:
    """What stands in the address: the link's id, signed."""
    return signing.dumps(link.pk.hex, salt=SALT)


def find_link(token: str) -> Link:
    """The link of a token whose person may still use it. Changes nothing. Raises `LinkRefused`."""
    try:
        identity = uuid.UUID(signing.loads(token, salt=SALT))
    except (signing.BadSignature, ValueError):
        raise LinkRefused("This is no link of ours.") from None
    found = (
        Link.objects.select_related("user", "approval__run", "approval__project").filter(pk=identity).first()
    )
    if found is None or not found.user.is_active:
        raise LinkRefused()
    return found


def check_link(link: Link, *, actor: Actor, approval: Approval) -> None:
    """Whether a link is good for an answer of this person to what is asked now. Raises `LinkRefused`, `LinkSpent`."""
    _check_person(link, actor.user)
    if link.approval_id != approval.pk:
        raise LinkRefused("This link leads to something else.")
    if link.used_at is not None:
        raise LinkSpent("This link was used already.", approval=str(approval.pk))
    if link.expires_at <= store.now():
        raise LinkSpent("This link has expired.", approval=str(approval.pk))
    if approval.status != "open":
        raise LinkSpent(
            Told("What it asked is {status} by now.", status=approval.status), approval=str(approval.pk)
        )
    if (link.version, link.digest) != (approval.version, approval.digest):
        raise LinkSpent(
            Told(
                "It was sent for version {version}; version {current} is asked now.",
                version=link.version,
                current=approval.version,
            ),
            approval=str(approval.pk),
            version=approval.version,
        )
    policies.check_decide(actor, approval.run, approval)


def _check_person(link: Link, user: User) -> None:
    if link.user_id != user.pk:
        raise LinkRefused("This link was sent to somebody else. Whoever it was sent to signs in to use it.")


def follow_link(*, actor: Actor, token: str) -> Link:
    """The link that somebody came by, if it is good for an answer. Reading it uses nothing up."""
    link = find_link(token)
    check_link(link, actor=actor, approval=link.approval)
    return link


def use_link(token: str, *, actor: Actor, approval: Approval) -> None:
    """Use a link up, in the transaction of the answer; the approval is locked."""
    link = find_link(token)
    check_link(link, actor=actor, approval=approval)
    if not Link.objects.filter(pk=link.pk, used_at=None).update(used_at=store.now()):
        raise LinkSpent("This link was used already.", approval=str(approval.pk))
