"""Text that is compressed where that is worth it."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final

from django.db import models

if TYPE_CHECKING:
    Text = models.TextField[str | None, str | None]
else:
    Text = models.TextField  # Django's own cannot be subscripted

WORTH_IT: Final = 1024  # bytes; what is shorter saves less than it costs
MARK: Final = 0x78  # the first byte of a compressed text; no JSON begins with it


def pack(text: str) -> bytes:
    """A JSON text as it is stored: UTF-8, compressed if it is long and gets shorter.

    By Python and not by Postgres, whose own compression finds repetitions only: of long texts of hex digits or base64, as models
    and hashes leave them, it saves nothing, zlib half.
    """
    plain = text.encode()
    if len(plain) < WORTH_IT:
        return plain
    packed = zlib.compress(plain, 1)
    return packed if len(packed) < len(plain) else plain


def unpack(stored: bytes) -> str:
    """What was packed. Damaged bytes are the empty text, which is no JSON: whoever reads it says which row it was."""
    try:
        return (zlib.decompress(stored) if stored[:1] == bytes([MARK]) else stored).decode()
    except (zlib.error, UnicodeDecodeError):
        return ""


class PackedText(Text):
    """A JSON text whose column holds bytes, see `pack`. Nothing is searched in it."""

    def db_type(self, connection: Any) -> str:
        return "bytea"

    def get_prep_value(self, value: Any) -> Any:
        return pack(value) if isinstance(value, str) else value

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        return value if prepared else self.get_prep_value(value)

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> str | None:
        return None if value is None else unpack(bytes(value))
