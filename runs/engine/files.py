"""A file that belongs to a run: what it is called, what it is, and how others name it.

Name and type are labels that somebody gave. Nothing is ever opened, found or shown by them: only what begins with the bytes
of one of four kinds of image is an image, and only that is drawn by a browser.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass, field
from typing import Final

from runs.engine.canonical import Json

REFERENCE: Final = "$attachment"
LIMIT: Final = 10 * 1024 * 1024  # bytes, where nothing else is said
MOST: Final = 500  # files of one run
MAX_NAME: Final = 200
ANYTHING: Final = "application/octet-stream"
IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")

_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9.+-]{0,60}/[a-z0-9][a-z0-9.+-]{0,60}\Z")
_MAGIC: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


@dataclass(frozen=True, slots=True)
class File:
    """digest: SHA-256 of the body, in hex."""

    name: str
    type: str
    digest: str
    body: bytes = field(repr=False)

    @property
    def size(self) -> int:
        return len(self.body)

    @classmethod
    def of(cls, name: str, body: bytes, type: str | None = None) -> File:
        return cls(name_of(name), type_of(body, type), hashlib.sha256(body).hexdigest(), body)

    def reference(self, id: str) -> dict[str, Json]:
        """How state, arguments and answers name it."""
        return {
            REFERENCE: id,
            "name": self.name,
            "type": self.type,
            "size": self.size,
            "digest": self.digest,
        }


def name_of(told: str) -> str:
    """A name that is no path and shows itself as it is: what could not be seen, or turns what is seen, is a `_`."""
    last = re.split(r"[/\\]", told)[-1]
    drawn = "".join(" " if one == " " else "_" if _is_odd(one) else one for one in last).strip(" .")
    if len(drawn) <= MAX_NAME:
        return drawn or "file"
    stem, dot, ending = drawn.rpartition(".")
    kept = f"{dot}{ending}" if stem and len(ending) <= 20 else ""
    return f"{drawn[: MAX_NAME - len(kept)]}{kept}"


def _is_odd(one: str) -> bool:
    return unicodedata.category(one)[0] in "CZ"


def type_of(body: bytes, told: str | None) -> str:
    """What a file is: an image by its first bytes, else what was told, as long as that does not claim to be one."""
    seen = next((kind for magic, kind in _MAGIC if body.startswith(magic)), None)
    if seen is None and body[:4] == b"RIFF" and body[8:12] == b"WEBP":
        seen = "image/webp"
    if seen is not None:
        return seen
    said = (told or "").partition(";")[0].strip().lower()
    return said if _TYPE.match(said) and said not in IMAGES else ANYTHING
