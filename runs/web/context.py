"""What every page's frame shows: the person, the project, how many approvals wait. Asked only when a template reads it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone, translation

from runs import inboxes, policies, queries
from runs.models import Project
from runs.policies import Actor
from runs.templatetags import codes

THEMES = ("light", "dark")
PLACES = {
    "approval": "inbox",
    "run": "runs",
    "workflow": "workflows",
    "token": "tokens",
    "sessions": "account",
    "password": "account",
    "member": "members",
    "team": "members",
    "teams": "members",
    "invitation": "members",
    "settings": "members",
    "notification": "notifications",
    "webhook": "webhooks",
    "delivery": "deliveries",
}


class Frame:
    def __init__(self, request: HttpRequest) -> None:
        self._request = request

    @property
    def theme(self) -> str:
        chosen = self._request.COOKIES.get("hitl_theme", "")
        return chosen if chosen in THEMES else ""

    @property
    def here(self) -> str:
        match = self._request.resolver_match
        first = ((match.url_name if match else None) or "").partition("-")[0]
        return PLACES.get(first, first)

    @property
    def actor(self) -> Actor | None:
        return getattr(self._request, "actor", None)

    @property
    def project(self) -> str:
        return self.actor.project.name if self.actor else ""

    @property
    def other_projects(self) -> list[Project]:
        """Those that this person could switch to."""
        mine: list[Project] = getattr(self._request, "projects", [])
        return [one for one in mine if self.actor and one.pk != self.actor.project.pk]

    @property
    def person(self) -> str:
        return str(self.actor.user) if self.actor else ""

    @property
    def initials(self) -> str:
        words = self.person.split() or ["?"]
        letters = words[0][:2] if len(words) == 1 else words[0][0] + words[-1][0]
        return letters.upper()

    @property
    def zone(self) -> str:
        """Whose clock the times of the page are of."""
        return timezone.get_current_timezone_name()

    @property
    def language(self) -> str:
        """The language of the page."""
        return translation.get_language() or settings.LANGUAGE_CODE

    @property
    def single_keys(self) -> bool:
        """Whether single letters act."""
        return self.actor is None or self.actor.user.single_keys

    @property
    def roles(self) -> str:
        return ", ".join(codes.word(role) for role in sorted(self.actor.roles)) if self.actor else ""

    @cached_property
    def inbox_count(self) -> int:
        if self.actor is None:
            return 0
        counted: int | None = getattr(self._request, "inbox_count", None)  # by the inbox itself
        if counted is not None:
            return counted
        return inboxes.badge(self.actor.project.pk, inboxes.asked(self.actor))

    @property
    def inbox_said(self) -> str:
        return inboxes.said(self.inbox_count)

    @property
    def may_watch(self) -> bool:
        return self.actor is not None and policies.can_watch(self.actor)

    @cached_property
    def bell(self) -> queries.Bell:
        """The newest of what this person has not read."""
        if self.actor is None:
            return queries.Bell(0, "0-0")
        return queries.bell(self.actor.project.pk, self.actor.user)

    @cached_property
    def may_see_deliveries(self) -> bool:
        return self.actor is not None and policies.can_deliveries(self.actor)

    @cached_property
    def may_manage_webhooks(self) -> bool:
        return self.actor is not None and policies.can_webhooks(self.actor)

    @cached_property
    def has_runs(self) -> bool:
        return self.actor is not None and queries.has_runs(self.actor.project.pk)


def frame(request: HttpRequest) -> dict[str, Any]:
    return {"frame": Frame(request)}
