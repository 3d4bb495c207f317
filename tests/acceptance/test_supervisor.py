"""`make up` and `make reset` as a person meets them: hitl/supervisor.py."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hitl import env
from hitl.embedded import free_port
from hitl.process import Identity
from tests.kit.waiting import until

pytestmark = pytest.mark.acceptance


class Up:
    """One data folder, and the starts that are tried on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self.extra: dict[str, str] = {}

    @property
    def environ(self) -> dict[str, str]:
        ours = {name: value for name, value in os.environ.items() if not name.startswith("HITL_")}
        for name in ("DATABASE_URL", "REDIS_URL"):
            ours.pop(name, None)
        return {
            **ours,
            "HITL_DATA_DIR": str(self.folder),
            "HITL_PORT": str(self.port),
            "HITL_WORKERS": "1",
            **self.extra,
        }

    def start(self) -> None:
        self.starts += 1
        with self.out.open("w") as out:
            self.process = subprocess.Popen(
                self.words("up"), cwd=env.root(), env=self.environ, stdout=out, stderr=out
            )

    def start_and_wait(self) -> str:
        self.start()
        try:
            return until(self._ready, seconds=180, what="ready at")
        except AssertionError as late:
            raise AssertionError(f"{late}\nstart {self.starts} said:\n{self.said}") from late

    def _ready(self) -> str:
        assert self.process is not None
        assert self.process.poll() is None, self.said
        found = re.search(r"^ready at +(\S+)$", self.said, re.MULTILINE)
        return found[1] if found else ""

    @property
    def out(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}-{self.starts}.txt")

    @property
    def said(self) -> str:
        return self.out.read_text()

    def words(self, command: str) -> list[str]:
        return [sys.executable, "-m", "hitl.supervisor", command]

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """To its end, which has to come soon."""
        return subprocess.run(
            self.words(command),
            cwd=env.root(),
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    @property
    def note(self) -> dict[str, Any]:
        noted: dict[str, Any] = json.loads((self.folder / "running.json").read_text())
        return noted

    @property
    def children(self) -> dict[str, Identity]:
        return {name: Identity(**fields) for name, fields in self.note["children"].items()}

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def stop(self) -> int:
        assert self.process is not None
        self.signal(signal.SIGINT)
        return self.process.wait(40)

    def kill(self) -> None:
        """The supervisor alone."""
        assert self.process is not None
        self.signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.stop()


@pytest.fixture
def up() -> Iterator[Up]:
    folder = Path(tempfile.mkdtemp(prefix="hitl-up-"))
    folder.chmod(0o755)
    made = Up(folder / "data")
    yield made
    made.close()
    shutil.rmtree(folder)


def alive(children: dict[str, Identity]) -> list[str]:
    return [name for name, identity in children.items() if identity.alive()]


def test_one_command_starts_everything_and_nothing_is_left_of_it_however_it_ends(up: Up) -> None:
    # 1. Everything stands, and the terminal says where and as whom.
    address = up.start_and_wait()
    assert httpx.get(f"{address}/readyz", trust_env=False).json()["status"] == "ok"
    assert "frida" in up.said
    assert "API token   hitl_" in up.said
    children = up.children
    assert set(children) >= {"postgres", "valkey", "payments", "web", "worker", "sweeper", "beat"}

    # 2. A second start in the same folder explains itself and disturbs nothing.
    second = up.run("up")
    assert second.returncode == 1
    assert f"already runs here as process {up.note['supervisor']['pid']}, at {address}" in second.stdout
    assert "stop it first" in up.run("reset").stdout

    # 3. A killed worker is started again.
    os.killpg(children["worker"].pid, signal.SIGKILL)
    until(lambda: up.children.get("worker", children["worker"]) != children["worker"], what="another worker")

    # 4. One Ctrl-C.
    children = up.children
    assert up.stop() == 0
    assert alive(children) == []
    assert not (up.folder / "running.json").exists()

    # 5. The second start goes on with the same data.
    up.start_and_wait()
    assert "going on with" in up.said
    assert "API token   hitl_" not in up.said  # a token is shown once

    # 6. The supervisor alone is killed: the guard ends the rest.
    children = up.children
    up.kill()
    until(lambda: not alive(children), seconds=30, what="all gone")

    # 7. The guard is killed too: the next start ends what is left, says so, and goes on.
    up.start_and_wait()
    children = up.children
    os.kill(up.note["guard"], signal.SIGKILL)
    up.kill()
    assert "postgres" in alive(children)
    up.start_and_wait()
    assert "an earlier start was killed" in up.said
    assert alive(children) == []
    assert up.stop() == 0

    # 8. Reset forgets all of it.
    assert up.run("reset").returncode == 0
    assert not up.folder.exists()


def test_a_chosen_port_that_is_busy_is_explained(up: Up) -> None:
    with socket.create_server(("127.0.0.1", up.port)):
        refused = up.run("up")
    assert refused.returncode == 1
    assert f"HITL_PORT={up.port} cannot be had on 127.0.0.1" in refused.stdout
    assert "Traceback" not in refused.stdout + refused.stderr
    assert not (up.folder / "postgres").exists()


def test_a_setting_that_is_not_understood_stops_the_start(up: Up) -> None:
    up.extra["HITL_PORT"] = "eighty"
    refused = up.run("up")
    assert refused.returncode == 1
    assert "HITL_PORT='eighty' is refused. Accepted: a whole number from 1 to 65535." in refused.stdout


def test_a_workflow_module_that_does_not_import_is_named(up: Up) -> None:
    broken = up.folder.parent / "brokenflows"
    broken.mkdir()
    (broken / "__init__.py").touch()
    (broken / "workflows.py").write_text("import nothing_of_that_name\n")
    up.extra |= {"HITL_WORKFLOW_APPS": "brokenflows", "PYTHONPATH": str(broken.parent)}
    refused = up.run("up")
    assert refused.returncode == 1
    assert (
        "brokenflows.workflows does not import: ModuleNotFoundError: No module named 'nothing_of_that_name'"
        in refused.stdout
    )
