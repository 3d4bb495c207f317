"""How the measuring process asks a measured one: a line of JSON each way.

Whatever is compared runs in a process of its own, so that no peer's threads, caches or collector touch another's figures.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent


class Contender:
    """A process that answers `python -m MODULE`, with what it prints in a log."""

    def __init__(self, name: str, module: str, *, env: Mapping[str, str], log: Path) -> None:
        self.name, self.log = name, log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module],
                cwd=ROOT,
                env={**os.environ, **env},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
            )

    def tell(self, case: str, **how: Any) -> None:
        """Ask, and do not wait: two contenders can work at once."""
        self._pipe(self._process.stdin).write(json.dumps({"case": case, **how}) + "\n")
        self._pipe(self._process.stdin).flush()

    def hear(self) -> Any:
        line = self._pipe(self._process.stdout).readline()
        if not line:
            raise RuntimeError(f"{self.name} has ended; see {self.log}:\n{self.log.read_text()[-3000:]}")
        return json.loads(line)

    def ask(self, case: str, **how: Any) -> Any:
        self.tell(case, **how)
        return self.hear()

    def end(self) -> None:
        self._pipe(self._process.stdin).close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._pipe(self._process.stdout).close()

    def __enter__(self) -> Contender:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe


def answer(cases: Mapping[str, Callable[..., Any]]) -> None:
    """The measured side: answer until nobody asks any more. What the code under test prints goes to the log."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        asked = json.loads(line)
        found = cases[asked.pop("case")](**asked)
        replies.write(json.dumps(found) + "\n")
        replies.flush()


def gaps(moments: list[float]) -> list[float]:
    """Milliseconds between moments given in seconds; the first few, which prepare statements, are left out."""
    return [(later - earlier) * 1000 for earlier, later in pairwise(moments)][3:]
