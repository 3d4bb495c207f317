"""What a person has read of what they were told, and what they want to hear."""

from __future__ import annotations

from collections.abc import Sequence

from runs import store
from runs.engine.telling import TOPICS
from runs.errors import BadRequest, NotFound
from runs.models import Notice, Preference
from runs.operations.door import verb
from runs.policies import Actor


def mark_read(*, actor: Actor, up_to: int, only: int | None = None) -> int:
    """Count one's own notices as read: one of them, or all up to one that was seen. Returns how many were not.

    What has come since the page was drawn stays unread.
    """
    with verb(actor, "mark_read", only or up_to):
        if not actor.roles:
            raise NotFound()
        mine = Notice.objects.filter(user=actor.user, project=actor.project, shown=True, read_at=None)
        mine = mine.filter(pk=only) if only is not None else mine.filter(pk__lte=up_to)
        return mine.update(read_at=store.now())


def set_preference(*, actor: Actor, app: Sequence[str], mail: Sequence[str], digest: bool) -> Preference:
    """Say what one wants to hear in this project: in the app, and by mail, at once or together once a day."""
    unknown = sorted({*app, *mail} - set(TOPICS))
    if unknown:
        raise BadRequest(f"Topics are {', '.join(TOPICS)}.", unknown=unknown)
    with verb(actor, "set_preference", actor.user.username):
        if not actor.roles:
            raise NotFound()
        told = {
            "app": [topic for topic in TOPICS if topic in app],
            "mail": [topic for topic in TOPICS if topic in mail],
            "digest": digest,
        }
        found, _ = Preference.objects.update_or_create(user=actor.user, project=actor.project, defaults=told)
        return found
