"""A stack with people in it, spoken to over HTTP as they would."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from hitl.env import root
from tests.kit.ledger import Ledger
from tests.kit.stack import Stack
from tests.kit.waiting import until

API = "/api/v1"
PATIENCE = 60.0  # this machine may be busy; what must be quick is measured by the database
TERMINAL = {"completed", "failed", "cancelled"}
_numbers = itertools.count(1)


def fresh_name() -> str:
    """For a run's stamps and gates."""
    return f"n{next(_numbers)}"


class Site:
    """`as_("frida")` is her HTTP client; the verbs below are the usual requests, each by the person who makes it."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.ledger: Ledger = stack.ledger
        self.tokens = _seeded(stack)
        self.started: list[str] = []  # ids of the runs, as they were submitted
        self.faults: list[str] = []  # answers of 500 and above
        self.marks: dict[str, tuple[int, bytes]] = {}  # how far a history was seen, and its hash there
        self.log_marks: dict[str, int] = {}  # how long each log was when the test began
        self._clients = {person: self._client(token) for person, token in self.tokens.items()}

    def begin(self) -> None:
        """A new test: what was answered and logged before is not its matter."""
        self.faults.clear()
        self.log_marks = {path.name: path.stat().st_size for path in self.stack.logs.glob("*.log")}

    # ---- requests

    def as_(self, person: str) -> httpx.Client:
        return self._clients[person]

    def _client(self, token: str) -> httpx.Client:
        return httpx.Client(
            base_url=self.stack.url + API,
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
            trust_env=False,
            event_hooks={"response": [self._note]},
            limits=httpx.Limits(max_connections=100),
        )

    def _note(self, response: httpx.Response) -> None:
        if response.status_code >= 500:
            response.read()
            self.faults.append(
                f"{response.request.method} {response.request.url.path}: {response.status_code} {response.text[:300]}"
            )

    def submit(
        self, workflow: str, *, headers: Mapping[str, str] | None = None, **input: Any
    ) -> dict[str, Any]:
        answer = self.as_("shop").post(
            "/runs", json={"workflow": workflow, "input": input}, headers=dict(headers or {})
        )
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def start(self, workflow: str, **input: Any) -> str:
        """Submit a run; its id."""
        self.started.append(str(self.submit(workflow, **input)["id"]))
        return self.started[-1]

    def cancel_since(self, mark: int) -> None:
        """Cancel what was started since there were `mark` runs and is not over: it would fill the lists of the next test."""
        for run_id in self.started[mark:]:
            self.as_("olga").post(f"/runs/{run_id}/cancel")
        del self.started[mark:]

    def run(self, run_id: str) -> dict[str, Any]:
        answer = self.as_("olga").get(f"/runs/{run_id}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def wait(self, run_id: str, *statuses: str, seconds: float = PATIENCE) -> dict[str, Any]:
        """The run once it has one of these statuses (default: completed)."""
        wanted = statuses or ("completed",)

        def look() -> bool:
            now = self.one("SELECT status FROM runs_run WHERE id = %s", run_id)
            assert now in wanted or now not in TERMINAL, (
                f"{now}: {self.run(run_id)['error']} {self.story(run_id)}"
            )
            return now in wanted

        until(look, seconds=seconds, what=f"run {run_id} is {' or '.join(wanted)}")
        return self.run(run_id)

    def approval(self, run_id: str) -> dict[str, Any]:
        """The one approval that is open."""
        (approval,) = self.wait(run_id, "waiting")["pending_approvals"]
        return dict(approval)

    def decide(
        self, approval: Mapping[str, Any], kind: str = "approve", *, by: str = "frida", **more: Any
    ) -> httpx.Response:
        body = {"version": approval["version"], "digest": approval["digest"], "type": kind, **more}
        return self.as_(by).post(f"/approvals/{approval['id']}/decide", json=body)

    def approve(self, run_id: str, **more: Any) -> dict[str, Any]:
        approval = self.approval(run_id)
        answer = self.decide(approval, **more)
        assert answer.status_code == 200, answer.text
        return approval

    def rewind(self, run_id: str, checkpoint: int, **more: Any) -> httpx.Response:
        body = {"checkpoint": checkpoint, "reason": "test", **more}
        return self.as_("olga").post(f"/runs/{run_id}/rewind", json=body)

    # ---- facts

    def sql(self, statement: str, *parameters: Any) -> list[dict[str, Any]]:
        return self.stack.sql(statement, parameters)

    def one(self, statement: str, *parameters: Any) -> Any:
        """The only value."""
        ((value,),) = (row.values() for row in self.sql(statement, *parameters))
        return value

    def kinds(self, run_id: str) -> list[str]:
        rows = self.sql("SELECT kind FROM runs_event WHERE run_id = %s ORDER BY seq", run_id)
        return [row["kind"] for row in rows]

    def steps(self, run_id: str) -> list[dict[str, Any]]:
        return self.sql("SELECT * FROM runs_step WHERE run_id = %s ORDER BY created_at, address", run_id)

    def notes(self, run_id: str, kind: str) -> list[dict[str, Any]]:
        return self.sql(
            "SELECT facts FROM runs_operationalnote WHERE run_id = %s AND kind = %s ORDER BY id", run_id, kind
        )

    def story(self, run_id: str) -> str:
        steps = [
            {name: step[name] for name in ("node", "status", "crashes", "entries", "worker")}
            for step in self.steps(run_id)
        ]
        return f"{self.kinds(run_id)} {steps}"

    def holding(self, run_id: str) -> int:
        """The process id of the pool child that executes a step of the run."""
        rows = until(
            lambda: self.sql(
                "SELECT child.pid FROM runs_step step JOIN runs_workerchild child ON child.id = step.worker"
                " WHERE step.run_id = %s AND step.status = 'executing'",
                run_id,
            ),
            what=f"somebody executes {run_id}",
        )
        return int(rows[0]["pid"])

    def holder(self, run_id: str) -> str:
        """The name of the worker (as the stack knows it) that executes a step of the run."""
        return self.worker_of(self.holding(run_id))

    def worker_of(self, pid: int) -> str:
        """The worker whose process group a pool child's process id belongs to."""
        group = os.getpgid(pid)
        return next(name for name, child in self.stack.children.items() if child.pid == group)

    def at_gate(self, gate: str, *, visits: int = 1, seconds: float = PATIENCE) -> None:
        until(
            lambda: self.ledger.waiting(gate) >= visits, seconds=seconds, what=f"{visits} reached gate {gate}"
        )

    def workers(self) -> list[str]:
        return [name for name in self.stack.children if name.startswith("w") and name != "web"]

    def close(self) -> None:
        for client in self._clients.values():
            client.close()


def _seeded(stack: Stack) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.acceptance.seed"],
        cwd=root(),
        env=stack.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    tokens: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return tokens


MakeSite = Callable[..., Site]
