"""`make test`: checks the needs of each group first, then runs pytest once; the last line names what was left
out.

python -m tests.run small|long [pytest arguments]        SKIP=browser leaves a group out
"""

from __future__ import annotations

import os
import subprocess
import sys

from tests import sizes
from tests.kit import chromium

GROUPS = ("core", "browser")
# One more part than there are cores, each with servers of its own: what real processes are tested with is waiting for half of the
# time. tests/conftest.py says what goes together, and in which order.
PARTS = min((os.cpu_count() or 1) + 1, 6)
AT_ONCE = ("-n", str(PARTS), "--dist", "loadscope", "--no-loadscope-reorder")
MARKERS = {"core": "not browser", "browser": "browser"}


def main() -> int:
    size, *arguments = sys.argv[1:] or ["small"]
    skipped = os.environ.get("SKIP", "").replace(",", " ").split()
    unknown = [name for name in skipped if name not in GROUPS]
    if unknown or len(skipped) == len(GROUPS):
        print(f"SKIP={' '.join(skipped)} is refused. Accepted: some of {', '.join(GROUPS)}.")
        return 2
    if "browser" not in skipped and not chromium.ready():
        print(chromium.ADVICE)
        return 2
    status = _pytest(size, [MARKERS[name] for name in GROUPS if name not in skipped], arguments)
    print(f"left out: {', '.join(skipped)}" if skipped else f"groups: {', '.join(GROUPS)}; nothing left out")
    return status


def _pytest(size: str, markers: list[str], arguments: list[str]) -> int:
    chosen = ["-m", markers[0]] if len(markers) == 1 else []
    environ = {**os.environ, sizes.VARIABLE: size}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *AT_ONCE, *chosen, *arguments], env=environ, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
