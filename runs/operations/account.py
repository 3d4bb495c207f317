"""What a person says of themselves, and where they are signed in. Of their account, so in every project at once."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.db.models import QuerySet

from runs import dispatch
from runs.engine.hours import is_zone
from runs.errors import Forbidden, NotFound, Problem, Told, Unprocessable
from runs.models import Session, User
from runs.operations.administering import check_password
from runs.operations.door import verb
from runs.policies import Actor


def set_zone(*, actor: Actor, zone: str) -> User:
    """Say in which time zone one reads times: an IANA name. Raises `Unprocessable`."""
    if not is_zone(zone):
        message = Told("{zone!r} is no time zone, such as Europe/Berlin", zone=zone[:60])
        raise Unprocessable("There is no such zone.", errors=[Problem("/zone", "unknown_zone", message)])
    with verb(actor, "set_zone", actor.user.username, reason=zone):
        actor.user.zone = zone
        actor.user.save(update_fields=["zone"])
        return actor.user


def set_language(*, actor: Actor, language: str) -> User:
    """Say in which language one reads: a code of `LANGUAGES`; empty: as the browser asks. Raises `Unprocessable`."""
    if language and language not in dict(settings.LANGUAGES):
        message = Told("{language!r} is no language that there is a translation for", language=language[:60])
        raise Unprocessable(
            "There is no such language.", errors=[Problem("/language", "unknown_language", message)]
        )
    with verb(actor, "set_language", actor.user.username, reason=language):
        actor.user.language = language
        actor.user.save(update_fields=["language"])
        return actor.user


def set_single_keys(*, actor: Actor, on: bool) -> User:
    """Say whether single letters act on one's pages."""
    with verb(actor, "set_single_keys", actor.user.username, reason="on" if on else "off"):
        actor.user.single_keys = on
        actor.user.save(update_fields=["single_keys"])
        return actor.user


def change_password(*, actor: Actor, old: str, new: str, session_key: str) -> User:
    """Take another password; every session but this one ends. API tokens stay. Raises `Forbidden`, `Unprocessable`."""
    with verb(actor, "change_password", actor.user.username):
        person = User.objects.select_for_update(no_key=True).get(pk=actor.user.pk)
        if not person.check_password(old):
            message = Told("this is not your password")
            raise Forbidden("This is not your password.", errors=[Problem("/old", "wrong_password", message)])
        check_password(new)
        person.set_password(new)
        person.save(update_fields=["password"])
        _end(actor, _others(actor, session_key))
        return person


def end_session(*, actor: Actor, handle: UUID) -> None:
    """Sign one of one's browsers out. Raises `NotFound`."""
    with verb(actor, "end_session", handle):
        mine = Session.objects.filter(user=actor.user)
        found = next((one for one in mine if one.handle == handle), None)
        if found is None:
            raise NotFound()
        _end(actor, mine.filter(pk=found.pk))


def end_other_sessions(*, actor: Actor, session_key: str) -> int:
    """Sign every browser of one's own out but the one that asks; returns how many."""
    with verb(actor, "end_other_sessions", actor.user.username):
        return _end(actor, _others(actor, session_key))


def _others(actor: Actor, session_key: str) -> QuerySet[Session]:
    return Session.objects.filter(user=actor.user).exclude(pk=session_key)


def _end(actor: Actor, sessions: QuerySet[Session]) -> int:
    """Their next request finds nobody; pages that are open hear of it at once."""
    ended, _ = sessions.delete()
    dispatch.announce_person(actor.user.pk)
    return ended
