"""What runs together: web, worker, sweeper, deliver, beat, and the services that a workflow's app brings along.

An app of HITL_WORKFLOW_APPS may name services in a module `processes` beside its apps.py (imported without
Django set up):

    PROCESSES = [
        {
            "name": "payments",
            "args": ["-m", "shop.payments", "--port", "{port}", "--data", "{data}/book.sqlite3"],
            "env": {"SHOP_PAYMENTS_URL": "http://127.0.0.1:{port}"},
        }
    ]

`args` go to this Python; `{port}` is a free port, `{data}` a folder of the service's own that outlives a
restart; `env` is given to every process of hitl, so that nodes find the service.

The same module may name what `manage.py set_up` does, which runs before the services at each start:

    SETUP = [["shop_setup", "--verbosity", "0"]]

Each entry is a command of `manage.py`, run when the tables are there. It must be one that can be run again.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hitl.embedded import free_port
from hitl.process import Child


@dataclass(frozen=True, slots=True)
class Service:
    name: str
    args: list[str]
    env: dict[str, str] = field(default_factory=dict)

    def placed(self, data: Path) -> Service:
        """With a free port and its folder filled in."""
        port = str(free_port())
        folder = data / self.name
        folder.mkdir(parents=True, exist_ok=True)

        def fill(text: str) -> str:
            return text.replace("{port}", port).replace("{data}", str(folder))

        return Service(self.name, [fill(arg) for arg in self.args], {k: fill(v) for k, v in self.env.items()})


def services(apps: Iterable[str]) -> list[Service]:
    return [Service(**entry) for app in apps for entry in _declared(app, "PROCESSES")]


def setups(apps: Iterable[str]) -> list[list[str]]:
    """The words of each command that prepares something, in the order of the apps."""
    return [list(words) for app in apps for words in _declared(app, "SETUP")]


def _declared(app: str, what: str) -> list[Any]:
    package = app.partition(".apps.")[0]  # the app may be named by its config
    if importlib.util.find_spec(f"{package}.processes") is None:
        return []
    return list(getattr(importlib.import_module(f"{package}.processes"), what, []))


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start the processes of one installation: with which environment, where the logs go."""

    env: dict[str, str]
    logs: Path
    root: Path

    def web(self, fd: int) -> Child:
        return self._start("web", "-m", "hitl.serve", "--fd", str(fd), keep=[fd])

    def worker(self, name: str = "worker", *, children: int = 2, queues: str = "") -> Child:
        """queues: those it listens to, separated by commas; default those of its environment."""
        if queues:
            told = replace(self, env={**self.env, "HITL_WORKER_QUEUES": queues})
            return told.worker(name, children=children)
        # fmt: off
        return self._start(
            name, "-m", "celery", "--quiet", "--app", "hitl", "worker", "--pool", "prefork", "--concurrency",
            str(children),
            "--hostname", f"{name}@%h", "--loglevel", "INFO",
            "--without-gossip", "--without-mingle", "--without-heartbeat",
        )
        # fmt: on

    def sweeper(self, name: str = "sweeper") -> Child:
        return self._start(name, "manage.py", "sweeper")

    def deliver(self, name: str = "deliver") -> Child:
        return self._start(name, "manage.py", "deliver")

    def beat(self, folder: Path) -> Child:
        folder.mkdir(parents=True, exist_ok=True)
        schedule = str(folder / "schedule")
        return self._start(
            "beat",
            "-m",
            "celery",
            "--quiet",
            "--app",
            "hitl",
            "beat",
            "--schedule",
            schedule,
            "--pidfile",
            "",
        )

    def service(self, service: Service) -> Child:
        return self._start(service.name, *service.args)

    def manage(self, *arguments: str) -> Child:
        return self._start("manage", "manage.py", *arguments)

    def _start(self, name: str, *args: str, keep: list[int] | None = None) -> Child:
        argv = [sys.executable, *args]
        return Child(
            name, argv, log=self.logs / f"{name}.log", env=self.env, cwd=self.root, keep_fds=keep or []
        )
