"""What a browser loads of scripts before anything can be done by keys."""

from __future__ import annotations

import gzip
from pathlib import Path

from django.contrib.staticfiles import finders

OURS = ("js/hitl.js", "js/live.js", "js/inbox.js", "js/run.js")
OTHERS = ("vendor/idiomorph-0.8.0.min.js", "django_htmx/htmx-2.min.js")
MOST = 60_000  # bytes, as they are sent


def test_all_scripts_together_are_small() -> None:
    files = [Path(str(finders.find(name))) for name in (*OURS, *OTHERS)]
    assert sum(len(gzip.compress(file.read_bytes())) for file in files) < MOST
