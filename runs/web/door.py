"""The door of every page: who comes in, and what they read when something is refused.

`page` wraps a view: it asks for a sign-in, finds the project, and turns every `HitlError` into words. A view names the
page that is shown again with the reason (`refused=`); without one there is a page that only says why.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final
from urllib.parse import urlencode, urlsplit
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import Resolver404, ResolverMatch, resolve, reverse
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

from runs import policies, roster
from runs.engine import canonical
from runs.errors import Conflict, Forbidden, HitlError, NotFound
from runs.live.presence import note_use
from runs.models import Member, Project, User
from runs.models.sessions import handle_of
from runs.policies import Actor
from runs.tongue import Words, speak
from runs.web import once


class Request(HttpRequest):
    """A request that has come through the door."""

    user: User
    htmx: HtmxDetails
    actor: Actor
    projects: list[Project]  # that the person could be in
    inbox_count: int  # what waits for the person, where the inbox has counted it


View = Callable[..., HttpResponseBase]  # a page, or a file
Page = Callable[..., HttpResponse]
Refused = Callable[..., HttpResponse]

TITLES: Final = Words(
    {
        "forbidden": "You may not do this",
        "self_approval": "You asked for this run, so you do not decide about it",
        "not_a_candidate": "You are not among the people who are asked",
        "not_found": "There is nothing here that you may see",
        "unknown_checkpoint": "The run has no such checkpoint",
        "nothing_to_run": "Nothing is left to run there",
        "already_terminal": "The run has already ended",
        "stale_version": "The run has moved on",
        "database_error": "The database is not available",
        "link_refused": "This link is not yours to use",
        "link_spent": "This link leads nowhere any more",
        "busy": "Somebody is changing this run just now",
    }
)


class SeeOther(HttpResponseRedirect):
    status_code = 303


class SessionRenewed(Forbidden):
    """Your session was renewed in the meantime. Nothing was sent, nothing is lost: send it again."""

    code = "session_renewed"


class UserChanged(Forbidden):
    """Somebody else has signed in here since this page was opened. Nothing was sent under the new name."""

    code = "user_changed"


class NoProject(NotFound):
    """You are in no project yet; an administrator adds you to one."""

    code = "no_project"


def page(*, methods: str = "GET", refused: Refused | None = None) -> Callable[[View], View]:
    """A view behind the door. methods: "GET", "POST" or "GET POST". refused(request, error, **kwargs) shows it again."""
    allowed = methods.split() + (["HEAD"] if "GET" in methods else [])

    def wrap(view: View) -> View:
        @never_cache
        @require_http_methods(allowed)
        @wraps(view)
        def guarded(request: Request, **kwargs: Any) -> HttpResponseBase:
            if not is_signed_in(request):
                return to_sign_in(request)
            try:
                enter(request)
                check_sent(request)
                return view(request, **kwargs)
            except HitlError as error:
                return answer_refusal(request, error, refused, kwargs)

        guarded.refused = refused  # type: ignore[attr-defined]
        return guarded

    return wrap


def answering(answer: Callable[..., HttpResponse]) -> Callable[[Page], Page]:
    """For a page outside the door: what is refused becomes answer(request, error, **kwargs)."""

    def wrap(view: Page) -> Page:
        @wraps(view)
        def guarded(request: HttpRequest, **kwargs: Any) -> HttpResponse:
            try:
                return view(request, **kwargs)
            except HitlError as error:
                speak(error)
                return answer(request, error, **kwargs)

        return guarded

    return wrap


def enter(request: Request, project: Project | None = None) -> None:
    """Find project and roles; the project is the session's, or the one that an address leads to. Raises `NoProject`."""
    address = request.META.get("REMOTE_ADDR", "")
    if project is None:
        member = _member(request)
        actor = Actor(request.user, member.project, "session", address, member=member)
    else:
        actor = Actor(request.user, project, "session", address)
    policies.check_view(actor, actor.project.pk)
    request.actor = actor  # from here on pages name the project
    note_use(handle_of(request.session.session_key or ""))


def _member(request: Request) -> Member:
    """The person in the project of the session, or in their first if they are in that one no more. One query."""
    mine = roster.memberships_of(request.user)
    if not mine:
        raise NoProject()
    request.projects = [member.project for member in mine]
    slug = request.session.get("project")
    return next((member for member in mine if member.project.slug == slug), mine[0])


def check_sent(request: Request) -> None:
    """U+0000 is in nothing that is kept, and Postgres does not even look for it: an address that says it asks for nothing
    there, a form is refused. So is a form that was made for somebody else. Raises `InvalidJson`, `UserChanged`."""
    if "%00" in request.META.get("QUERY_STRING", ""):
        asked = [(name, text) for name, texts in request.GET.lists() for text in texts]
        request.GET = QueryDict(urlencode([(name, text) for name, text in asked if "\0" not in name + text]))
    if request.method == "POST":
        once.check_user(request)
        canonical.check(
            {name: text for name, texts in request.POST.lists() for text in texts if "\0" in text}
        )


def is_signed_in(request: HttpRequest) -> bool:
    return request.user.is_authenticated


def to_sign_in(request: Request) -> HttpResponse:
    """A page goes to sign-in and back; a fragment tells htmx to take the whole page there."""
    here = urlsplit(request.htmx.current_url or "").path if request.htmx else request.get_full_path()
    if request.method == "POST" and not request.htmx:
        here = request.path
    target = f"{reverse('sign-in')}?{urlencode({'next': here or reverse('inbox')})}"
    if request.htmx:
        response = HttpResponseClientRedirect(target)
        response.status_code = 204
        return response
    return see_other(target)


def number(text: str | None) -> int | None:
    """What a form or an address gives as a number; None for anything else."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 16 else None


def asked_number(request: Request, name: str) -> int | None:
    """What the address gives by this name, as `number` reads it."""
    return number(request.GET.get(name, "").strip())


def texts(request: Request) -> dict[str, str]:
    """What was sent, one text a name."""
    return {name: str(request.POST[name]) for name in request.POST}


def identity(text: str) -> UUID | None:
    """What a form or an address gives as an id; None for anything else."""
    try:
        return UUID(text.strip())
    except ValueError:
        return None


def see_other(url: str) -> HttpResponse:
    """303: the answer to a POST that worked; a reload repeats nothing."""
    return SeeOther(url)


def answer_refusal(
    request: Request, error: HitlError, refused: Refused | None, kwargs: dict[str, Any]
) -> HttpResponse:
    """The page again with the reason, if there is one and the reader may see it; else a page that says why."""
    speak(error)
    if refused is not None and request.method == "POST" and not isinstance(error, NotFound):
        try:
            response = refused(request, error, **kwargs)
        except HitlError as second:
            error = second
        else:
            response.status_code = error.http_status
            return response
    return _in_another_project(request, error, kwargs) or error_page(request, error)


def _in_another_project(request: Request, error: HitlError, kwargs: dict[str, Any]) -> HttpResponse | None:
    """What was not found here, but is in another project of this person: said, with the way there."""
    if type(error) is not NotFound or request.htmx or not hasattr(request, "actor"):
        return None
    ids = {name: kwargs[name] for name in ("run_id", "approval_id") if name in kwargs}
    project = roster.elsewhere(request.actor, **ids)
    if project is None:
        return None
    back = request.get_full_path() if request.method == "GET" else reverse("inbox")
    context = {"project": project, "here": request.actor.project, "next": back}
    return render(request, "people/elsewhere.html", context, status=error.http_status)


def error_page(request: HttpRequest, error: HitlError) -> HttpResponse:
    speak(error)
    texts = [error.detail, *(f"{problem.path}: {problem.message}" for problem in error.errors)]
    title = TITLES.get(error.code) or (
        gettext("The state of things has changed") if isinstance(error, Conflict) else ""
    )
    context = {
        "status": error.http_status,
        "code": error.code,
        "title": title or error.detail,
        "texts": texts if title else texts[1:],
    }
    template = "_error.html" if getattr(request, "htmx", False) else "error.html"
    return render(request, template, context, status=error.http_status)


def csrf_failure(request: Request, reason: str = "") -> HttpResponse:
    """The token in the form is not the session's: signed in again elsewhere, or a form of another site."""
    if not is_signed_in(request):
        return to_sign_in(request)
    try:
        match = resolve(request.path_info)
        enter(request)
        return answer_refusal(request, _why_not_sent(request), _refused_of(match), match.kwargs)
    except (HitlError, Resolver404):
        return error_page(request, SessionRenewed())


def _why_not_sent(request: Request) -> HitlError:
    """The page is shown again for who is signed in now: to whom it was not made for, that is said first."""
    try:
        once.check_user(request)
    except UserChanged as changed:
        return changed
    return SessionRenewed()


def _refused_of(match: ResolverMatch) -> Refused | None:
    found: Refused | None = getattr(match.func, "refused", None)
    return found
