"""What a person has read of what they were told, and what they want to hear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runs import policies, store
from runs.engine.telling import TOPICS
from runs.errors import BadRequest, NotFound, Told
from runs.models import Notice, Preference, User
from runs.operations.administering import administration
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


def set_preference(
    *, actor: Actor, app: Sequence[str], mail: Sequence[str], digest: bool, hour: int = 7
) -> Preference:
    """Say what one wants to hear in this project: in the app, and by mail, at once or together once a day.

    hour: of the day, from 0 to 23, on one's own clock.
    """
    told = _told(app, mail, digest, hour)
    with verb(actor, "set_preference", actor.user.username):
        policies.check_preference(actor)
        return _store(actor, told, user=actor.user)


def drop_preference(*, actor: Actor) -> None:
    """Hear what the project says, as whoever has said nothing. Again changes nothing."""
    with verb(actor, "drop_preference", actor.user.username):
        policies.check_preference(actor)
        Preference.objects.filter(user=actor.user, project=actor.project).delete()


def set_project_preference(
    *, actor: Actor, app: Sequence[str], mail: Sequence[str], digest: bool, hour: int = 7
) -> Preference:
    """Say what people of the project hear who have said nothing themselves. hour: of the day, on the clock of UTC."""
    told = _told(app, mail, digest, hour)
    said = f"in the app: {', '.join(app) or 'nothing'}; by mail: {', '.join(mail) or 'nothing'}"
    with administration(
        actor,
        "set_project_preference",
        actor.project.slug,
        what="say what people hear of",
        said=said + (", once a day" if digest else ""),
    ):
        return _store(actor, told, user=None)


def _told(app: Sequence[str], mail: Sequence[str], digest: bool, hour: int) -> dict[str, Any]:
    unknown = sorted({*app, *mail} - set(TOPICS))
    if unknown:
        raise BadRequest(Told("Topics are {choices}.", choices=", ".join(TOPICS)), unknown=unknown)
    if not 0 <= hour <= 23:
        raise BadRequest("An hour of the day is from 0 to 23.")
    return {
        "app": [topic for topic in TOPICS if topic in app],
        "mail": [topic for topic in TOPICS if topic in mail],
        "digest": digest,
        "hour": hour,
    }


def _store(actor: Actor, told: dict[str, Any], *, user: User | None) -> Preference:
    found, _ = Preference.objects.update_or_create(user=user, project=actor.project, defaults=told)
    return found
