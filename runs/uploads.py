"""Files that come with a form: of what is larger than an attachment may be, the rest is read past and nothing kept."""

from __future__ import annotations

from typing import Any, Final

from django.conf import settings
from django.core.files.uploadhandler import FileUploadHandler, SkipFile

from runs.errors import Told, TooLarge

_MARK: Final = "hitl_too_large"


class Bounded(FileUploadHandler):
    """Stands before the handlers that keep something; the fields of the form are read all the same."""

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:
        if start + len(raw_data) > settings.HITL_ATTACHMENT_BYTES:
            setattr(self.request, _MARK, True)
            raise SkipFile()
        return raw_data

    def file_complete(self, file_size: int) -> None:
        """The next handler has it."""


def files_of(request: Any) -> Any:
    """The files of a form, by field. Raises `TooLarge` if one was not kept."""
    files = request.FILES  # reads the form
    if getattr(request, _MARK, False):
        limit = settings.HITL_ATTACHMENT_BYTES
        raise TooLarge(Told("The file has more than {limit:,} bytes.", limit=limit), limit=limit)
    return files
