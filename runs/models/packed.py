"""Text that is compressed where that is worth it."""

from __future__ import annotations

import threading
import zlib
from typing import TYPE_CHECKING, Any, Final

import zstandard
from django.db import models

if TYPE_CHECKING:
    Text = models.TextField[str | None, str | None]
else:
    Text = models.TextField  # Django's own cannot be subscripted

WORTH_IT: Final = 1024  # bytes; what is shorter saves less than it costs
MARK: Final = 0x28  # the first byte of a text that zstd compressed; no JSON begins with it
OLDER: Final = 0x78  # that of one that zlib compressed, as all were at first


class _Codec(threading.local):
    """Made once a thread: making it costs more than to use it for a kilobyte, and two threads must not share it."""

    def __init__(self) -> None:
        self.compress = zstandard.ZstdCompressor(level=1, write_checksum=True).compress
        self.decompress = zstandard.ZstdDecompressor().decompress


_codec: Final = _Codec()


def pack(text: str) -> bytes:
    """A JSON text as it is stored: UTF-8, compressed if it is long and gets shorter.

    By Python and not by Postgres, whose own compression finds repetitions only: of long texts of hex digits or base64, as models
    and hashes leave them, it saves nothing, zstd half.
    """
    plain = text.encode()
    if len(plain) < WORTH_IT:
        return plain
    packed = _codec.compress(plain)
    return packed if len(packed) < len(plain) else plain


def unpack(stored: bytes) -> str:
    """What was packed. Damaged bytes are the empty text, which is no JSON: whoever reads it says which row it was."""
    try:
        return _plain(stored).decode()
    except (zstandard.ZstdError, zlib.error, UnicodeDecodeError):
        return ""


def _plain(stored: bytes) -> bytes:
    first = stored[0] if stored else None
    if first == MARK:
        return _codec.decompress(stored)
    return zlib.decompress(stored) if first == OLDER else stored


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
