"""Signing in and out; one's profile, password and sessions; one's API tokens."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import translation
from django.utils.translation import gettext

from runs import operations, policies, queries, roster, store
from runs.errors import HitlError, Problem, Unprocessable
from runs.live.presence import last_uses
from runs.models import Session
from runs.models.people import SCOPES
from runs.models.sessions import CAME, came
from runs.operations.door import as_uuid
from runs.templatetags.words import some
from runs.tongue import Words
from runs.web import clocks, once
from runs.web.door import Request, page, see_other
from runs.web.sheet import Done, draw, fields_of, forms

YEAR: Final = 365 * 86_400
THEME_WORDS: Final = Words({"": "as the system", "light": "light", "dark": "dark"})
BROWSERS: Final = {  # by what tells it from those that call themselves by its name too
    "Edg": "Edge",
    "OPR/": "Opera",
    "Firefox/": "Firefox",
    "Chrome/": "Chrome",
    "CriOS/": "Chrome",
    "FxiOS/": "Firefox",
    "Safari/": "Safari",
}
SYSTEMS: Final = Words(
    {
        "Android": "Android",
        "iPhone": "an iPhone",
        "iPad": "an iPad",
        "Windows": "Windows",
        "Mac OS X": "a Mac",
        "CrOS": "ChromeOS",
        "Linux": "Linux",
    }
)
MEANS: Final = Words(
    {
        "runs:read": "see runs, history and checkpoints",
        "runs:submit": "submit runs, and cancel its own",
        "runs:submit_for_others": "submit runs for other people, who count as having asked",
        "runs:operate": "rewind, edit state, cancel",
        "approvals:read": "see approvals",
        "approvals:decide": "answer approvals, as you",
        "admin": "members, teams, tokens and settings, where you are an admin",
    }
)


class SignIn(LoginView):
    template_name = "account/sign_in.html"
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return {**super().get_context_data(**kwargs), "demo": settings.DEBUG}

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        answer = super().form_valid(form)
        remember_arrival(self.request)
        return answer


class SignOut(LogoutView):
    pass


def remember_arrival(request: HttpRequest) -> None:
    """Keep in a session that has just begun when, from where and with what its person came in."""
    request.session[CAME] = came(
        at=store.now(),
        address=request.META.get("REMOTE_ADDR", ""),
        agent=request.META.get("HTTP_USER_AGENT", ""),
    )


# ---- profile


def _profile(request: Request, *, error: HitlError | None = None) -> HttpResponse:
    zone = request.POST.get("zone", request.user.zone or "UTC")
    language = request.POST.get("language", request.user.language)
    wrong = fields_of(error)
    shown = {
        "person": request.user,
        "zone": zone,
        "zones": clocks.zone_choices(zone),
        "languages": [
            {"code": code, "words": words, "chosen": code == language} for code, words in languages()
        ],
        "themes": [{"name": name, "words": words} for name, words in THEME_WORDS.items()],
        "errors": wrong,
    }
    return draw(request, "account/profile.html", shown, None if wrong else error)


@forms(_profile)
def profile(request: Request) -> HttpResponse:
    person = operations.set_zone(actor=request.actor, zone=request.POST.get("zone", ""))
    language = request.POST.get("language", person.language)
    if language != person.language:
        person = operations.set_language(actor=request.actor, language=language)
    single_keys = request.POST.get("single_keys") == "on"
    if single_keys != person.single_keys:
        person = operations.set_single_keys(actor=request.actor, on=single_keys)
    with translation.override(person.language or translation.get_language_from_request(request)):
        messages.success(request, gettext("Saved."))  # read on a page that speaks the new language
    answer = see_other(reverse("account"))
    theme = request.POST.get("theme", "")
    if theme in THEME_WORDS:
        # As the switch in the top bar does.
        answer.set_cookie("hitl_theme", theme, max_age=YEAR, samesite="Lax")
    return answer


def languages() -> list[tuple[str, str]]:
    """What one may read in: code and its own name for itself, "" for what the browser asks for."""
    return [("", gettext("as the browser asks")), *settings.LANGUAGES]


# ---- password


def _password(request: Request, *, error: HitlError | None = None) -> HttpResponse:
    wrong = fields_of(error)
    return draw(request, "account/password.html", {"errors": wrong}, None if wrong else error)


@forms(_password)
def password(request: Request) -> Done:
    new = request.POST.get("new", "")
    if new != request.POST.get("again", ""):
        problem = Problem("/again", "differs", "it differs from the one above")
        raise Unprocessable("The two differ.", errors=[problem])
    person = operations.change_password(
        actor=request.actor,
        old=request.POST.get("old", ""),
        new=new,
        session_key=request.session.session_key or "",
    )
    update_session_auth_hash(request, person)
    return Done(gettext("Your password is changed; you are signed out everywhere else."), reverse("account"))


# ---- sessions


def _sessions(request: Request, *, error: HitlError | None = None) -> HttpResponse:
    found = roster.sessions_of(request.user)
    seen = last_uses(one.handle for one in found)
    here = request.session.session_key
    rows = [_row(one, seen=seen.get(one.handle), here=one.session_key == here) for one in found]
    shown = {"rows": sorted(rows, key=lambda row: not row["here"]), "others": len(rows) > 1}
    return draw(request, "account/sessions.html", shown, error)


def _row(session: Session, *, seen: datetime | None, here: bool) -> dict[str, Any]:
    told = session.get_decoded().get(CAME, {})
    return {
        "handle": session.handle,
        "here": here,
        "seen": seen,
        "browser": browser_of(told.get("agent", "")),
        "agent": told.get("agent", ""),
        "address": told.get("address", ""),
        "came": datetime.fromisoformat(told["at"]) if told else None,
    }


def browser_of(agent: str) -> str:
    """A browser and its system as people call them, from what a browser says of itself."""
    browser = next((name for mark, name in BROWSERS.items() if mark in agent), "")
    system = next((name for mark, name in SYSTEMS.items() if mark in agent), "")
    if browser and system:
        return gettext("{browser} on {system}").format(browser=browser, system=system)
    return browser or system or gettext("Another browser")


@forms(_sessions)
def sessions(request: Request) -> Done:
    """End one of one's sessions, or all but this one."""
    handle = request.POST.get("session", "")
    if handle:
        operations.end_session(actor=request.actor, handle=as_uuid(handle))
        return Done(gettext("It is signed out."), reverse("sessions"))
    ended = operations.end_other_sessions(actor=request.actor, session_key=request.session.session_key or "")
    return Done(
        some(ended, "{count} other session ended.", "{count} other sessions ended."),
        reverse("sessions"),
    )


# ---- tokens


def _of_others(request: Request) -> list[dict[str, Any]]:
    """Every token of the project but one's own: who administers it may end them."""
    found = [token for token in roster.tokens(request.actor.project.pk) if token.user_id != request.user.pk]
    used = last_uses(token.pk for token in found)
    return [{"token": token, "used": used.get(token.pk)} for token in found]


def _tokens(request: Request, *, error: HitlError | None = None) -> HttpResponse:
    post, wrong = request.POST, fields_of(error)
    mine = queries.tokens_of(request.actor.project.pk, request.user)
    used = last_uses(token.pk for token in mine)
    shown = {
        "tokens": [{"token": token, "used": used.get(token.pk)} for token in mine],
        "secret": once.take(request, "new_token"),
        "typed": {"name": post.get("name", ""), "days": post.get("days", "")},
        "errors": wrong,
        "scopes": [{"name": s, "words": MEANS[s], "checked": s in post.getlist("scopes")} for s in SCOPES],
    }
    if policies.can_administer(request.actor):
        shown["others"] = _of_others(request)
    return draw(request, "account/tokens.html", shown, None if wrong else error)


@forms(_tokens)
def tokens(request: Request) -> Done:
    name, scopes = request.POST.get("name", "").strip(), request.POST.getlist("scopes")
    days = _days(request.POST.get("days", "").strip(), name=name, scopes=scopes)
    expires_at = store.now() + timedelta(days=days) if days else None
    _, secret = operations.create_token(actor=request.actor, name=name, scopes=scopes, expires_at=expires_at)
    once.keep(request, "new_token", secret)
    return Done("", reverse("tokens"))


@page(methods="POST")
def revoke(request: Request, token_id: UUID) -> HttpResponse:
    operations.revoke_token(actor=request.actor, token_id=token_id)
    return see_other(reverse("tokens"))


def _days(text: str, *, name: str, scopes: list[str]) -> int:
    problems = [
        Problem(path, "required", message)
        for path, missing, message in (
            ("/name", not name, gettext("Give it a name.")),
            ("/scopes", not scopes, gettext("Choose at least one.")),
            (
                "/days",
                not (text == "" or (text.isascii() and text.isdigit() and 0 < int(text) < 10_000)),
                gettext("A whole number."),
            ),
        )
        if missing
    ]
    if problems:
        raise Unprocessable("The token cannot be made like this.", errors=problems)
    return int(text or 0)
