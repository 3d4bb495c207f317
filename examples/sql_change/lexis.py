"""The words of a statement, read by Postgres' own rules for the small part of its language that is let through.

What a statement may be written with is listed here; everything else is refused by name. So the parser behind never
sees a comment, an escape, a second statement or a letter that looks like another one, and cannot read them
differently than Postgres would.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from typing import Final

MOST_CHARACTERS: Final = 10_000
MOST_WORDS: Final = 2_000
MOST_DEPTH: Final = 20
LONGEST_STRING: Final = 1_000
LONGEST_NUMBER: Final = 20
ALIKE: Final = frozenset({"CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC"})
"""Alphabets with letters that look like Latin ones. A word is written in one of them, or in none."""


class Refused(ValueError):
    """The statement is not let through; the text says why, in words for whoever wrote it."""


@dataclass(slots=True)
class Lexed:
    """words: what is left when space and comments are gone. comments: these, as they stood there."""

    words: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    complete: bool = False  # its semicolon was read

    @property
    def text(self) -> str:
        return " ".join(self.words)


_WORD: Final = re.compile(
    r"""
      (?P<space>   [ \t\r\n]+ )
    | (?P<comment> --[^\r\n]* )
    | (?P<block>   /\* )
    | (?P<prefix>  [A-Za-z]{1,2}&?' )              # E'', U&'', B'', X'', N'': strings with rules of their own
    | (?P<string>  '(?:[^']|'')*' )
    | (?P<number>  [0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?(?![A-Za-z0-9_.]) )
    | (?P<name>    [A-Za-z_][A-Za-z0-9_]* )
    | (?P<quoted>  "[a-z_][a-z0-9_]*" )
    | (?P<sign>    :: | \|\| | <> | != | <= | >= | [-+*/%=<>(),.] )
    | (?P<end>     ; )
    """,
    re.VERBOSE,
)
_EXPLAINED: Final = {
    "$": "dollar quotes and parameters are not let through; write a plain 'string'",
    "\\": "a backslash outside a string is not SQL",
    "'": "a string is not closed",
    '"': 'names in "double quotes" are only let through in small letters',
    ":": "a single colon is not SQL",
}


def read(text: str, *, known: frozenset[str]) -> Lexed:
    """The words of one statement. known: names that may stand in double quotes. Raises Refused."""
    if len(text) > MOST_CHARACTERS:
        raise Refused(f"it has {len(text):,} characters; {MOST_CHARACTERS:,} are let through")
    _check_characters(text)
    lexed, place, depth = Lexed(), 0, 0
    while place < len(text):
        found = _WORD.match(text, place)
        if found is None:
            raise Refused(_unknown(text[place]))
        kind, word = str(found.lastgroup), found.group()
        if kind == "block":
            word = _block(text, place)
            lexed.comments.append(word)
        elif kind == "comment":
            lexed.comments.append(word)
        elif kind != "space":
            depth += {"(": 1, ")": -1}.get(word, 0)
            _take(lexed, kind, word, known=known, depth=depth)
        place += len(word)
    if not lexed.words:
        raise Refused("it holds no statement")
    return lexed


def _take(lexed: Lexed, kind: str, word: str, *, known: frozenset[str], depth: int) -> None:
    if kind == "prefix":
        raise Refused(f"a string that begins with {word} has escapes; write a plain 'string'")
    if lexed.complete:
        raise Refused("it holds several statements; send one")
    if kind == "end":
        lexed.complete = True
        return
    if depth > MOST_DEPTH or len(lexed.words) >= MOST_WORDS:
        raise Refused(f"it is nested deeper than {MOST_DEPTH}, or longer than {MOST_WORDS:,} words")
    if kind == "string":
        _check_string(word)
    if kind == "number" and len(word) > LONGEST_NUMBER:
        raise Refused(f"the number {word[:30]}… is longer than {LONGEST_NUMBER} places")
    if kind == "quoted":
        word = word.strip('"')
        if word not in known:
            raise Refused(f'"{word}" is no table or column here')
    lexed.words.append(word)


def _block(text: str, start: int) -> str:
    """A comment between /* and */, which may hold others, as Postgres reads it."""
    depth = 0
    for found in re.finditer(r"/\*|\*/", text[start:]):
        depth += 1 if found.group() == "/*" else -1
        if depth == 0:
            return text[start : start + found.end()]
    raise Refused("a comment is not closed")


def _unknown(character: str) -> str:
    if character in _EXPLAINED:
        return _EXPLAINED[character]
    if character.isascii():
        return f"{character} does not belong into a change"
    return f"{named(character)} stands outside a string; names and signs are plain ASCII here"


def named(character: str) -> str:
    return f"U+{ord(character):04X} {unicodedata.name(character, 'without a name')}"


def _check_characters(text: str) -> None:
    """No sign that is not seen, anywhere: controls, directions, zero width, tags, separators, halves of pairs."""
    for character in text:
        category = unicodedata.category(character)
        hidden = category[0] == "C" and character not in "\t\r\n"
        if hidden or (category[0] == "Z" and character != " "):
            raise Refused(f"it holds {named(character)}, which cannot be seen")


def _check_string(word: str) -> None:
    if len(word) > LONGEST_STRING:
        raise Refused(f"a string has {len(word):,} characters; {LONGEST_STRING:,} are let through")
    if unicodedata.normalize("NFC", word) != word:
        raise Refused(
            f"the string {word[:60]} is not in its composed form (NFC): it would equal nothing that is stored"
        )
    for letter in word:
        if _script(letter) in {"FULLWIDTH", "HALFWIDTH", "MATHEMATICAL"}:
            raise Refused(f"the string {word[:60]} holds {named(letter)}, which looks like another character")
    for part in re.findall(r"[^\W\d_]+", word):
        odd = [letter for letter in part if _script(letter) in ALIKE]
        if odd and len(odd) < len(part):
            raise Refused(f"the word {part[:40]} mixes alphabets that look alike ({named(odd[0])})")


def _script(character: str) -> str:
    return "LATIN" if character.isascii() else unicodedata.name(character, "?").split()[0]
