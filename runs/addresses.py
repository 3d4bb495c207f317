"""What stands for something in the addresses of pages and of the API alike."""

from __future__ import annotations

from django.urls.converters import StringConverter


class Name(StringConverter):
    """`<name:…>`: what a row may be called. U+0000 is in no name, and Postgres does not even look for it: nothing is there."""

    regex = "[^/\\x00]+"
