"""Credentials of tools: read where the operator put them, and kept out of everything that is written down.

A secret is an environment variable `HITL_SECRET_<NAME>` or a file `<name>` in the folder HITL_SECRETS_DIR. Whatever this
process has once handed to a node is drawn as `[secret NAME]` from then on, in whatever is stored or logged.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from runs.engine import canonical
from runs.errors import InvalidSecret, MissingSecret

PREFIX: Final = "HITL_SECRET_"
FOLDER: Final = "HITL_SECRETS_DIR"
OWN: Final = "key"  # HITL_SECRET_KEY signs sessions; it is no node's business
SHORTEST: Final = 4  # a shorter text stands in too many others to be drawn out of them
LARGEST: Final = 64 * 1024
PART: Final = (
    16  # so much of the beginning or end is drawn out too: error messages shorten long values in the middle
)

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}\Z")
_known: dict[
    str, str
] = {}  # value (and how JSON writes it) to name; replaced, never changed: threads read it


def find(name: str, environ: Mapping[str, str] = os.environ) -> str:
    """The secret of this name; from now on it is redacted. Raises `InvalidSecret` or `MissingSecret`."""
    if not canonical.is_name(name, 200) or not _NAME.match(name) or name.lower() == OWN:
        raise InvalidSecret(
            f"{name!r:.100} cannot name a secret: letters, digits, '_' and '-', a letter first, and not {OWN!r}."
        )
    variable = PREFIX + name.upper().replace("-", "_")
    folder = environ.get(FOLDER, "")
    value = environ.get(variable, "") or (_from_file(Path(folder) / name) if folder else "")
    if not value:
        file = f"the file {Path(folder) / name}" if folder else f"a file {name} in the folder {FOLDER}"
        raise MissingSecret(f"The secret {name!r} is neither in {variable} nor in {file}.", secret=name)
    if len(value) < SHORTEST:
        raise InvalidSecret(f"The secret {name!r} has fewer than {SHORTEST} characters.", secret=name)
    _remember(name, value)
    return value


def _from_file(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(LARGEST).rstrip("\r\n")
    except (OSError, UnicodeDecodeError):
        return ""


def _remember(name: str, value: str) -> None:
    global _known
    forms = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]}
    if not forms <= _known.keys():
        longest_first = sorted([*forms - _known.keys(), *_known], key=len, reverse=True)
        _known = {form: _known.get(form, name) for form in longest_first}


def any_known() -> bool:
    """Whether this process has read a secret at all: without one, nothing has to be looked through."""
    return bool(_known)


def redact(text: str) -> str:
    """A text without any secret this process has read, nor a long part of its beginning or end."""
    for value, name in _known.items():
        text = text.replace(value, f"[secret {name}]")
    for value, name in _known.items():
        if len(value) > PART:
            text = _without_part(text, value, name)
    return text


def _without_part(text: str, value: str, name: str) -> str:
    """Draw out what begins like the secret, or ends like it, for as long as it does."""
    drawn = f"[secret {name}]"
    start = text.find(value[:PART])
    while start >= 0:
        end = start + PART
        while end < len(text) and value.startswith(text[start : end + 1]):
            end += 1
        text = text[:start] + drawn + text[end:]
        start = text.find(value[:PART], start + len(drawn))
    start = text.find(value[-PART:])
    while start >= 0:
        end = start + PART
        while start > 0 and value.endswith(text[start - 1 : end]):
            start -= 1
        text = text[:start] + drawn + text[end:]
        start = text.find(value[-PART:], start + len(drawn))
    return text


def redacted(value: Any) -> Any:
    """A JSON value with every text in it, keys too, redacted. The same object if there is nothing to do."""
    if not _known:
        return value
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redacted(key): redacted(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [redacted(item) for item in value]
    return value


def forget() -> None:
    """For tests: nothing was ever read."""
    global _known
    _known = {}
