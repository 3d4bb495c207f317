"""Child processes that are stopped for certain: by us, by the guard when we were killed, or by the next
start.

A process is known by its id and its start time, because ids are used again. Each child leads a process group
of its own, so that Ctrl-C reaches only its parent, and so that killing the group takes pool children along.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

POLL = 0.05


@dataclass(frozen=True, slots=True)
class Identity:
    pid: int
    started: str
    stop: int = signal.SIGTERM  # the signal that asks this process to end

    def alive(self) -> bool:
        return started(self.pid) == self.started

    def ask(self) -> None:
        """The process alone is asked: a worker told to stop lets its pool children finish their steps."""
        if self.alive():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.pid, self.stop)

    def kill(self) -> None:
        """With its group. Does nothing when the process, and with it the claim to the id, is gone."""
        if self.alive():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def identify(pid: int, stop: int = signal.SIGTERM) -> Identity | None:
    begun = started(pid)
    return Identity(pid, begun, stop) if begun else None


def myself() -> Identity:
    found = identify(os.getpid())
    assert found is not None
    return found


def started(pid: int) -> str | None:
    """When the process began, in whatever words the system has; None for one that is gone or only waits to
    be reaped.
    """
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else fields[19]
    shown = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, begun = shown.stdout.strip().partition(" ")
    return None if not state or state.startswith("Z") else begun.strip()


def command(pid: int) -> str:
    """The command line of a process, for a message or to tell what it is; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        shown = subprocess.run(
            ["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        return shown.stdout.strip()


def end(identities: Iterable[Identity], *, grace: float) -> None:
    """Asks all to stop, waits, then kills what is left, each with its group."""
    left = list(identities)
    for identity in left:
        identity.ask()
    limit = time.monotonic() + grace
    while left and time.monotonic() < limit:
        left = [identity for identity in left if identity.alive()]
        time.sleep(POLL)
    for identity in left:
        identity.kill()


class Child:
    """A process of ours in a group of its own, with its output in a file."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        owner: Owner | None = None,
        stop: int = signal.SIGTERM,
        keep_fds: Sequence[int] = (),
        say: str | None = None,
    ) -> None:
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                list(argv),
                env=None if env is None else dict(env),
                cwd=cwd,
                stdin=subprocess.DEVNULL if say is None else subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
                pass_fds=keep_fds,
                **(owner.popen() if owner else {}),
            )
        if say is not None:
            self._tell(say)
        self.identity = Identity(self._popen.pid, started(self._popen.pid) or "", stop)

    def _tell(self, text: str) -> None:
        pipe: IO[bytes] | None = self._popen.stdin
        assert pipe is not None
        with pipe:
            pipe.write(text.encode())

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def status(self) -> int | None:
        """The exit status, None while it runs."""
        return self._popen.poll()

    def ask(self) -> None:
        """Asks it to stop, and does not wait."""
        if self._popen.poll() is None:
            self._popen.send_signal(self.identity.stop)

    def signal(self, number: int) -> None:
        """To the whole group. The id is ours for as long as we have not reaped it, so nobody else can be
        hit.
        """
        if self._popen.poll() is None:
            os.killpg(self._popen.pid, number)

    def kill(self) -> None:
        """SIGKILL to the group, its orphans too: a group outlives its leader."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()

    def wait(self, seconds: float) -> bool:
        """True once it has ended."""
        try:
            self._popen.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self, *, grace: float) -> None:
        self.ask()
        self.wait(grace)
        self.kill()

    def tail(self, lines: int = 15) -> str:
        return tail(self.log, lines)


def tail(path: Path, lines: int = 15) -> str:
    if not path.exists():
        return ""
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])


@dataclass(frozen=True, slots=True)
class Owner:
    """The unprivileged user that the database runs as when we are root."""

    uid: int
    gid: int

    def popen(self) -> dict[str, Any]:
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def give(self, path: Path) -> None:
        os.chown(path, self.uid, self.gid)


class Guard:
    """Our own last will: a process that ends our children when we are gone, however we went.

    It notices by the end of a pipe, which the system closes even after SIGKILL.
    """

    def __init__(self, *, grace: float = 8) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "hitl.guard", str(grace)],
            stdin=subprocess.PIPE,
            start_new_session=True,
            cwd=Path(__file__).resolve().parent.parent,
        )

    @property
    def pid(self) -> int:
        return self._popen.pid

    def add(self, child: Child) -> None:
        self._send({"add": child.identity.as_dict()})

    def drop(self, child: Child) -> None:
        self._send({"drop": child.identity.pid})

    def close(self) -> None:
        """Nothing is left to guard, or all of it is to end now."""
        assert self._popen.stdin is not None
        with suppress(BrokenPipeError):
            self._popen.stdin.close()
        self._popen.wait()

    def _send(self, order: dict[str, Any]) -> None:
        pipe = self._popen.stdin
        assert pipe is not None
        with suppress(
            BrokenPipeError
        ):  # a killed guard guards no more; the next start cleans up in its place
            pipe.write(json.dumps(order).encode() + b"\n")
            pipe.flush()
