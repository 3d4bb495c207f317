"""A token in every form: it names the person the form was made for, and lets a form that comes twice show its first result."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from django.core import signing

if TYPE_CHECKING:
    from runs.web.door import Request

FIELD: Final = "form_token"
KEPT: Final = 20
_SALT: Final = "runs.web.once"


def token(request: Request) -> str:
    return signing.dumps([request.user.pk, secrets.token_urlsafe(9)], salt=_SALT)


def check_user(request: Request) -> None:
    """Refuse a form that was made for another person. A form without a token is left to the other checks."""
    from runs.web.door import UserChanged

    sent = request.POST.get(FIELD, "")
    if not sent:
        return
    try:
        owner, _ = signing.loads(sent, salt=_SALT)
    except (signing.BadSignature, ValueError, TypeError):
        raise UserChanged() from None
    if owner != request.user.pk:
        raise UserChanged()


def first_result(request: Request) -> str | None:
    """Where the same form led when it came for the first time."""
    done = dict(request.session.get("done", []))
    return done.get(request.POST.get(FIELD, ""))


def keep(request: Request, name: str, secret: str) -> None:
    """For the one page that follows the redirect: a reload neither shows it again nor makes another."""
    request.session[name] = secret


def take(request: Request, name: str) -> str:
    """What was kept for this page, once; nothing for the answer to a form."""
    return "" if request.method == "POST" else str(request.session.pop(name, ""))


def remember(request: Request, url: str) -> str:
    """Keep where a form led; returns the address."""
    sent = request.POST.get(FIELD, "")
    if sent:
        request.session["done"] = [*request.session.get("done", []), [sent, url]][-KEPT:]
    return url
