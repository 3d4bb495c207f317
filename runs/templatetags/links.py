"""Addresses inside texts: in full, the host set off, never live, a warning where it may imitate another."""

from __future__ import annotations

import re
from typing import Final

from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext

from . import hidden

_ADDRESS: Final = re.compile(r"\b[a-z][a-z0-9+.-]{1,15}://[^\s\"'<>`]+", re.IGNORECASE)
_PARTS: Final = re.compile(
    r"^(?P<scheme>[^:]+://)(?P<user>[^/?#@]*@)?(?P<host>\[[^\]]*\]|[^/?#:@]*)(?P<rest>.*)$", re.DOTALL
)
_TRAILING: Final = ".,;:!?)]}"


def draw(text: str) -> SafeString:
    """Text with hidden characters drawn and each address set as an address."""
    parts: list[str] = []
    end = 0
    for match in _ADDRESS.finditer(text):
        found = match.group().rstrip(_TRAILING)
        parts += [hidden.draw(text[end : match.start()]), address(found)]
        end = match.start() + len(found)
    parts.append(hidden.draw(text[end:]))
    return mark_safe("".join(parts))  # noqa: S308 (made of drawn, escaped parts)


def address(url: str) -> SafeString:
    """One address: host in bold; a host that may imitate another, or a name before an @, gets a warning."""
    found = _PARTS.match(url)
    if found is None:
        return mark_safe(f'<span class="url">{hidden.draw(url)}</span>')  # noqa: S308
    scheme, user, host, rest = (hidden.draw(found[part] or "") for part in ("scheme", "user", "host", "rest"))
    return mark_safe(  # noqa: S308 (every part was drawn above)
        f'<span class="url">{scheme}{user}<b>{host}</b>{rest}</span>{_warning(found)}'
    )


def count(text: str) -> int:
    return sum(1 for _ in _ADDRESS.finditer(text))


def _warning(found: re.Match[str]) -> str:
    host, reason = found["host"], ""
    if not host.isascii() or "xn--" in host.lower():
        reason = gettext("look-alike host")
    elif found["user"]:
        reason = gettext("the host is after the @")
    return f' <span class="esc">{reason}</span>' if reason else ""
