"""A page as somebody reads it: its words and its marks, in order. For tests of the languages that pages speak."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from typing import Final

Mark = tuple[str, str, str]  # tag, attribute, value

OPENS, CLOSES = "⟦", "⟧"  # around what was looked up, where a test makes every text say that it was
SAID: Final = ("title", "aria-label", "placeholder", "alt")  # attributes that people read
EXACT: Final = {"code", "pre", "script", "style", "textarea", "kbd"}  # the same in every language
EMPTY: Final = ("br", "hr", "img", "input", "link", "meta", "use", "path", "rect", "circle", "line")
TOKENS: Final = {"csrfmiddlewaretoken", "form_token"}  # other ones on every page
MOVING: Final = {("html", "lang"), ("time", "datetime"), ("time", "title")}
WORD: Final = re.compile(r"[^\W\d_]{2,}")


class Reader(HTMLParser):
    """texts: what is read and was not looked up, in order; marks: every attribute that programs read."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []
        self.marks: Counter[Mark] = Counter()
        self.words: set[tuple[str, str]] = set()  # attributes of scripts that have words in them
        self._inside: list[str] = []
        self._depth = 0
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "input" and dict(attrs).get("name") in TOKENS:
            return
        for name, value in attrs:
            if OPENS in (value or ""):
                self.words.add((tag, name))
            if name in SAID or OPENS in (value or ""):
                self._keep(_outside(value or "", 0)[0])
            elif (tag, name) not in MOVING:
                self.marks[(tag, name, value or "")] += 1
        if tag not in EMPTY:
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not EXACT & set(self._inside):
            outside, self._depth = _outside(data, self._depth)
            self._keep(outside)

    def other_marks(self, plain: Reader) -> list[Mark]:
        """What differs from the same page in the language it was written in, but for words."""
        other = (self.marks - plain.marks) + (plain.marks - self.marks)
        return [mark for mark in other if mark[1] not in SAID and mark[:2] not in self.words]

    def _keep(self, outside: str) -> None:
        if WORD.search(outside):
            self.texts.append(" ".join(outside.split()))


def _outside(text: str, depth: int) -> tuple[str, int]:
    """What of a text was not looked up. One that was may reach over the tags that stand in it."""
    kept = []
    for char in text:
        depth += (char == OPENS) - (char == CLOSES)
        kept += [char] if depth == 0 and char != CLOSES else []
    return "".join(kept), depth
