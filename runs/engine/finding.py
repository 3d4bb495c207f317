"""The words by which something is found: what is stored and what is typed are cut in the same way. Pure.

Words are letters and digits, without case, accents or characters that cannot be seen; scripts without spaces are cut by
character. What is typed finds whatever has words that begin with each of its words, in any order.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from runs.engine.canonical import Json
from runs.engine.redaction import is_hidden

WORDS: Final = 2_000  # of one thing: what comes first is what stands first on its card
LONGEST: Final = 64  # characters of a word
LONGEST_EXACT: Final = 500  # characters, at most 2,000 bytes: Postgres takes no word of more than 2,046
READ: Final = 10_000  # characters of one text
SOUGHT: Final = 12  # words of one search

_UNSEEN: Final = frozenset({"Mn", "Cf"})
_WORD: Final = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]|[^\W_]+")


def words_in(texts: Iterable[str]) -> list[str]:
    """The words of some texts, each once, at most `WORDS`."""
    found: dict[str, None] = {}
    for text in texts:
        for word in _words(text):
            found[word] = None
            if len(found) == WORDS:
                return list(found)
    return list(found)


def texts_of(value: Json) -> Iterator[str]:
    """Every text, number and truth of a document, but not what is hidden in it."""
    if is_hidden(value):
        return
    if isinstance(value, Mapping):
        for item in value.values():
            yield from texts_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_of(item)
    elif value is not None:
        yield str(value)


def exactly(kind: str, name: str) -> str:
    """A word that nobody can type: for what is asked by its whole name."""
    return f"{kind}:{name}"[:LONGEST_EXACT]


def sought(text: str, *exact: str) -> str:
    """A search in the language of Postgres (tsquery); empty if there is nothing to search for."""
    begins = [f"{_quoted(word)}:*" for word in words_in([text])[:SOUGHT]]
    return " & ".join([*begins, *(_quoted(word) for word in exact)])


def _words(text: str) -> Iterator[str]:
    seen = unicodedata.normalize("NFKD", text[:READ])
    plain = "".join(sign for sign in seen if unicodedata.category(sign) not in _UNSEEN)
    for match in _WORD.finditer(unicodedata.normalize("NFKC", plain).casefold()):
        yield match[0][:LONGEST]


def _quoted(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"
