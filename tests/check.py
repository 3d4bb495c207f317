"""`make check`: everything that can be judged without running the product. `--write-templates` re-indents
templates instead.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
TEMPLATES = ("templates", "runs", "examples")


def templates() -> list[str]:
    found = (path for folder in TEMPLATES for path in (ROOT / folder).rglob("*.html"))
    return sorted(str(path.relative_to(ROOT)) for path in found)


def run(*words: str, quiet: bool = False) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        environ = {**os.environ, "HITL_DATA_DIR": folder, "PYTHONWARNINGS": "default"}
        done = subprocess.run(
            [str(BIN / words[0]), *words[1:]],
            cwd=ROOT,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        print(done.stdout + done.stderr, flush=True)
    return done.returncode == 0


def indentation() -> bool:
    return not templates() or run("djhtml", "--check", "--tabwidth", "2", *templates())


def template_lint() -> bool:
    return not templates() or run("djlint", "--lint", "--quiet", *templates())


def migrations() -> bool:
    """Needs no database: without one Django only skips the look whether the applied ones are consistent."""
    return run("python", "-W", "ignore", "manage.py", "makemigrations", "--check", "--dry-run")


CHECKS: dict[str, Callable[[], bool]] = {
    "format": lambda: run("ruff", "format", "--check", "."),
    "lint": lambda: run("ruff", "check", "."),
    "imports": lambda: run("lint-imports"),
    "template indentation": indentation,
    "template lint": template_lint,
    "migrations": migrations,
    "translations": lambda: run("python", "-m", "tests.messages", "--check"),
    "compose file": lambda: run("python", "-m", "tests.compose"),
    "types": lambda: run("mypy"),
}


def main() -> int:
    if "--write-templates" in sys.argv:
        return 0 if not templates() or run("djhtml", "--tabwidth", "2", *templates()) else 1
    failed = []
    for name, check in CHECKS.items():
        begun = time.monotonic()
        fine = check()
        print(f"{'ok' if fine else 'FAILED':<7} {name} ({time.monotonic() - begun:.1f} s)", flush=True)
        failed += [] if fine else [name]
    if failed:
        print(f"make check failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
