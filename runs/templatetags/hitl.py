"""What templates may say: {% load hitl %}. Each filter is a name for a pure function beside this module."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, tzinfo
from functools import cache, lru_cache
from typing import Any
from uuid import UUID

from django import template
from django.template.loader import render_to_string
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import get_language

from runs.engine import canonical
from runs.tongue import number

from . import codes, hidden, links, markdown, pretty, words

register = template.Library()


@register.filter
def drawn(value: object) -> SafeString:
    """Text with hidden characters drawn as boxes."""
    return hidden.draw(str(value))


@register.filter("words")
def in_words(code: object) -> str:
    """A code as words: redirect_refused is "redirect refused"."""
    return codes.word(str(code))


@register.filter
def spoken(values: Iterable[object]) -> list[str]:
    """Codes as words, to be joined."""
    return [codes.word(str(code)) for code in values]


@register.filter
def spelled(value: object) -> str:
    """Text with hidden characters written as their code points, for mails."""
    return hidden.plain(str(value))


@register.filter
def filled(text: str, value: object) -> SafeString:
    """A translated text with a value where `{}` stands in it: it is translated once, not once a row."""
    return format_html(text, value)


@register.filter
def linked(value: object) -> SafeString:
    """Text with hidden characters drawn and addresses set as addresses, none of them live."""
    return links.draw(str(value))


@register.filter
def agent_words(value: object) -> SafeString:
    """Sanitised Markdown."""
    return markdown.render(str(value))


@register.filter
def typed(value: object) -> str:
    """The content of a textarea: a line feed first, which HTML drops, so that one the person typed is not dropped instead."""
    return f"\n{value}" if value is not None else ""


@register.filter
def json(value: Any) -> str:
    """Exact JSON on one line."""
    return canonical.dumps(value)


@register.filter
def json_lines(value: Any) -> list[pretty.Line]:
    return pretty.lines(value)


@register.filter
def pointer(value: str) -> str:
    return pretty.pointer_words(value)


@register.filter
def run_id(value: UUID | str) -> str:
    return words.short_id(value, "R-")


@register.filter
def approval_id(value: UUID | str) -> str:
    return words.short_id(value, "A-")


@register.filter
def span(value: float) -> str:
    return words.span(value, parts=2)


@register.filter
def about(value: float | None) -> str:
    return "" if value is None else words.about(value)


@register.filter
def thousands(value: int) -> str:
    return number(value)


@register.filter
def decimals(value: float, places: int) -> str:
    return number(value, places)


@register.filter
def size(value: int) -> str:
    return words.size(value)


@register.simple_tag(takes_context=True)
def ago(context: template.Context, at: datetime | None) -> SafeString | str:
    """How long ago, the exact instant in the title."""
    return _time(at, words.age(at, _now(context)), timezone.get_current_timezone()) if at else ""


@register.simple_tag(takes_context=True)
def at(context: template.Context, moment: datetime | None) -> SafeString | str:
    """A point in time as people say it, on the reader's clock; the exact instant in the title."""
    if moment is None:
        return ""
    zone = timezone.get_current_timezone()
    return _time(moment, words.moment(moment, _now(context), zone), zone)


@register.simple_tag
@cache
def icon(name: str, kind: str = "") -> SafeString:
    """A sign of the sprite; the word beside it carries the meaning."""
    return format_html(
        '<svg class="icon {}" aria-hidden="true"><use href="{}#{}"/></svg>',
        kind,
        static("icons/hitl.svg"),
        name,
    )


@register.simple_tag
def status(sign: Any) -> SafeString:
    """The sign of a state with its word."""
    return _status(sign.icon, sign.tone, sign.word)


@cache
def _status(sign: str, tone: str, word: str) -> SafeString:
    """Drawn once: a list has as many as it has rows."""
    return render_to_string("parts/status.html", {"sign": {"icon": sign, "tone": tone, "word": word}})


@register.simple_tag
def risk(level: str | None, form: str = "chip") -> SafeString:
    """One to four bars, with the word (chip) or with a label (row)."""
    return _bars(level if level in codes.RISKS else None, form, get_language())


@cache
def _bars(level: str | None, form: str, language: str | None) -> SafeString:
    """Drawn once for each language: a list has as many as it has rows."""
    height = list(codes.RISKS).index(level) + 1 if level else 0
    shown = {"level": level, "form": form, "bars": [n < height for n in range(4)]}
    return render_to_string("parts/risk.html", shown)


@register.inclusion_tag("parts/quorum.html")
def quorum(have: int, need: int) -> dict[str, Any]:
    """One box a vote, ticked when it was given."""
    shown = min(need, 8)
    boxes = [{"x": 18 * n, "on": n < have} for n in range(shown)]
    return {"have": have, "need": need, "boxes": boxes, "width": 18 * shown}


def _now(context: template.Context) -> datetime:
    # One now a page: two ages on it never contradict each other. Views and tests may hand it in.
    now = context.get("now")
    return now if isinstance(now, datetime) else timezone.now()


def _time(moment: datetime, text: str, zone: tzinfo) -> SafeString:
    return format_html("{}{}</time>", _opening(moment, zone), text)


@lru_cache(maxsize=1_024)
def _opening(moment: datetime, zone: tzinfo) -> SafeString:
    """Written once for as long as people look at the same rows."""
    title = words.exact_there(moment, zone)
    return format_html('<time datetime="{}" title="{}">', words.exact(moment), title)
