"""Characters that a reader cannot see, or takes for others: found, named, counted and drawn.

An approver must see what the tool will get. So everything without ink of its own (controls, zero widths,
bidirectional marks, tag letters, odd spaces, private use) is drawn as a box with its code point; so is every
Greek, Cyrillic, Armenian or Cherokee letter in a word that is otherwise Latin. Line feed and tab are layout.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import Final

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

# Written as ranges: asking for a million categories at import would cost a third of a second.
_NO_INK: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f"
    "\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ud800-\udfff\ue000-\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"
)
_INKED: Final = bytes([0x09, 0x0A, *range(0x20, 0x7F)])
_WORD: Final = re.compile(r"\w+")
_LATIN: Final = re.compile("[A-Za-z]")
_LOOK_ALIKE: Final = re.compile("[\u0370-\u03ff\u0400-\u052f\u0531-\u058f\u13a0-\u13fd]")
_CONTROLS: Final = {
    0x00: "null",
    0x07: "bell control",
    0x08: "backspace",
    0x0B: "vertical tab",
    0x0C: "form feed",
    0x0D: "carriage return",
    0x1B: "escape control",
    0x7F: "delete",
    0x85: "next line",
}
_UNNAMED: Final = {"Cc": "control character", "Co": "private use character"}


def find(text: str) -> Iterator[tuple[int, str]]:
    """Yield (index, name) of every hidden or misleading character, in order."""
    if text.isascii():
        # Of megabytes this takes milliseconds, where the pattern takes a second.
        if not text.encode().translate(None, _INKED):
            return iter(())
        return ((match.start(), name_of(match.group())) for match in _NO_INK.finditer(text))
    found = {match.start() for match in _NO_INK.finditer(text) if not _dresses_an_emoji(text, match.start())}
    for word in _WORD.finditer(text):
        if _LATIN.search(word.group()):
            found.update(word.start() + match.start() for match in _LOOK_ALIKE.finditer(word.group()))
    return ((index, name_of(text[index])) for index in sorted(found))


def count(text: str) -> Counter[str]:
    """How many of each kind stand in the text, by name."""
    return Counter(name for _, name in find(text))


def draw(text: str) -> SafeString:
    """HTML of the text, escaped, each hidden character as a box that names it."""
    parts, end = [], 0
    for index, name in find(text):
        parts += [escape(text[end:index]), _box(text[index], name)]
        end = index + 1
    parts.append(escape(text[end:]))
    return mark_safe("".join(parts))  # noqa: S308 (every part is escaped above)


def plain(text: str) -> str:
    """The text with each hidden character written as its code point, for where there is no markup: mails."""
    parts, end = [], 0
    for index, _ in find(text):
        parts += [text[end:index], f"[{code_point(text[index])}]"]
        end = index + 1
    return "".join([*parts, text[end:]])


def name_of(char: str) -> str:
    """The character's Unicode name in lower case, or what it is where Unicode gives none."""
    point = ord(char)
    if point in _CONTROLS:
        return _CONTROLS[point]
    if 0xD800 <= point <= 0xDFFF:
        return "lone surrogate"
    return unicodedata.name(char, _UNNAMED.get(unicodedata.category(char), "no character")).lower()


def code_point(char: str) -> str:
    return f"U+{ord(char):04X}"


def _box(char: str, name: str) -> str:
    return f'<span class="esc" title="{escape(name)}">{code_point(char)}</span>'


def _dresses_an_emoji(text: str, index: int) -> bool:
    # U+FE0F after a pictograph only asks for colour; boxes there would cry wolf in half of all chat messages.
    before = unicodedata.category(text[index - 1]) if index else ""
    return text[index] == "\ufe0f" and before in {"So", "Sm", "Po", "Nd"}
