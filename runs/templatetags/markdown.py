"""The agent's own words: a small Markdown, no images, no live links, no headings that could pass for ours.

Two walls: markdown-it parses with HTML off and our rules write every token; nh3 then lets a
short list through.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from . import hidden, links

_TAGS: Final = {
    "p", "br", "ul", "ol", "li", "strong", "em", "s", "code", "pre", "blockquote", "hr", "span", "b",
    "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip


class _Words(RendererHTML):
    def text(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return links.draw(tokens[idx].content)

    def code_inline(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return f"<code>{hidden.draw(tokens[idx].content)}</code>"

    def code_block(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return f"<pre>{hidden.draw(tokens[idx].content)}</pre>\n"

    fence = code_block

    def heading_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return "<p><strong>"

    def heading_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return "</strong></p>\n"

    def link_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return ""

    def link_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        target = _target(tokens, idx)
        shown = tokens[idx - 1].content
        return "" if shown == target else f" ({links.address(target)})"

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        token = tokens[idx]
        return f"[image: {hidden.draw(token.content)} {links.address(str(token.attrs.get('src', '')))}]"


class _Parser(MarkdownIt):
    # Every target is shown as text, so none is refused: a refused one would vanish without a word.
    def validateLink(self, url: str) -> bool:  # noqa: N802
        return True

    def normalizeLink(self, url: str) -> str:  # noqa: N802
        return url


_parser: Final = _Parser("commonmark", {"html": False}, renderer_cls=_Words).enable(
    ["table", "strikethrough"]
)


def render(text: str) -> SafeString:
    """Sanitised HTML of an agent's Markdown."""
    return mark_safe(  # noqa: S308 (nh3 has cleaned it)
        nh3.clean(
            _parser.render(text),
            tags=_TAGS,
            attributes={"span": {"title"}, "ol": {"start"}},
            allowed_classes={"span": {"esc", "url"}},
            url_schemes=set(),
            link_rel=None,
        )
    )


def _target(tokens: Sequence[Token], close: int) -> str:
    # Links do not nest in CommonMark, so the last one opened is the one that closes here.
    opened = next(token for token in reversed(tokens[:close]) if token.type == "link_open")
    return str(opened.attrs.get("href", ""))
