"""`make smoke`: the main job on this machine, from submission to completion, with a worker killed in
mid-step.

Real servers and processes, free ports, a temporary folder, no browser. The exit status says whether it held;
on failure the ends of the logs are printed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from hitl import env
from hitl.embedded import FAST, Postgres, Valkey
from hitl.process import Child, Guard
from hitl.processes import Launch, services
from hitl.supervisor import listen

APP = "examples.refund"
ORDER, ASKED, APPROVED = "88-4118", "90.00", "80.00"
LEASE_SECONDS = 3
SOON = 90.0

Value = TypeVar("Value")


class Failed(Exception):
    """The main job did not go as it must."""


def check(held: object, what: str) -> None:
    if not held:
        raise Failed(what)


def until(look: Callable[[], Value], what: str) -> Value:
    limit = time.monotonic() + SOON
    while True:
        seen = look()
        if seen:
            return seen
        check(time.monotonic() < limit, f"not within {SOON:.0f} s: {what} (last seen: {seen!r})")
        time.sleep(0.1)


def tell(begun: float, text: str) -> None:
    print(f"{time.monotonic() - begun:5.1f} s  {text}", flush=True)


class Api:
    def __init__(self, address: str, token: str) -> None:
        self.address = address
        self.token = token
        self.opener = build_opener(ProxyHandler({}))

    def __call__(self, path: str, body: dict[str, Any] | None = None, **headers: str) -> dict[str, Any]:
        sent = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json", **headers}
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.address}/api/v1{path}", data=data, headers=sent)  # noqa: S310 (our own address)
        try:
            with self.opener.open(request, timeout=90) as answer:
                found: dict[str, Any] = json.loads(answer.read())
                return found
        except HTTPError as error:
            raise Failed(
                f"{path} answers {error.code}: {error.read(2000).decode(errors='replace')}"
            ) from error


class Site:
    """Everything that `make up` starts, in a folder that goes away."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.logs = folder / "log"
        self.guard = Guard(grace=3)
        stack.callback(self.guard.close)
        self.stack = stack
        postgres = Postgres(folder / "postgres", log=self.logs / "postgres.log", options=FAST)
        stack.callback(postgres.forget)
        self.keep(postgres.start())
        valkey = Valkey(log=self.logs / "valkey.log")
        self.keep(valkey.start())
        socket = stack.enter_context(listen("127.0.0.1", 0, chosen=True))
        self.address = f"http://127.0.0.1:{socket.getsockname()[1]}"
        self.web_fd = socket.fileno()
        placed = [service.placed(folder) for service in services([APP])]
        self.launch = Launch(
            self._environ(postgres, valkey, {k: v for s in placed for k, v in s.env.items()}),
            self.logs,
            env.root(),
        )
        self.services = {service.name: self.keep(self.launch.service(service)) for service in placed}

    def _environ(self, postgres: Postgres, valkey: Valkey, extra: dict[str, str]) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("HITL_")}
        return {
            **inherited,
            **extra,
            "DATABASE_URL": postgres.url(),
            "REDIS_URL": valkey.url,
            "HITL_SECRET_KEY": "only-for-the-smoke-test-" + "x" * 32,
            "HITL_DEBUG": "true",  # the demo's people with their known password exist only so
            "HITL_DATA_DIR": str(self.folder),
            "HITL_WORKFLOW_APPS": APP,
            "HITL_LEASE_SECONDS": str(LEASE_SECONDS),
            "PYTHONUNBUFFERED": "1",
        }

    def keep(self, child: Child) -> Child:
        self.guard.add(child)
        self.stack.callback(child.stop, grace=5)
        return child

    def manage(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=self.launch.root,
            env=self.launch.env,
            capture_output=True,
            text=True,
            check=False,
        )
        check(done.returncode == 0, f"manage.py {' '.join(words)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout.strip()

    def ready(self) -> bool:
        try:
            with build_opener(ProxyHandler({})).open(f"{self.address}/readyz", timeout=5):
                return True
        except (URLError, OSError):
            return False


def main_job(site: Site, begun: float) -> None:
    # 1. Everything stands.
    site.manage("migrate", "--no-input", "--verbosity", "0")
    site.manage("demo_data")
    shop = Api(site.address, site.manage("create_token", "shop"))
    frida = Api(site.address, site.manage("create_token", "frida"))
    site.keep(site.launch.web(site.web_fd))
    site.keep(site.launch.sweeper())
    worker = site.keep(site.launch.worker("w1", children=1))
    until(site.ready, "ready")
    until(lambda: _all_parked(shop), "the demo's own runs wait for finance")
    tell(begun, f"ready at {site.address}")

    # 2. Submitted twice with one key: one run. The payment service stands still, so the first step cannot
    # end.
    site.services["payments"].signal(signal.SIGSTOP)
    order = {"workflow": "refund", "input": {"order_id": ORDER, "amount": ASKED, "message": "Smoke."}}
    run = shop("/runs", order, **{"Idempotency-Key": "smoke"})["id"]
    check(shop("/runs", order, **{"Idempotency-Key": "smoke"})["id"] == run, "one key made two runs")
    until(lambda: _executing(shop, run), "a worker is in the step look_up")
    tell(begun, f"submitted {run}, a worker is in its first step")

    # 3. kill -9 in mid-step; another worker takes the step over.
    worker.kill()
    site.services["payments"].signal(signal.SIGCONT)
    site.keep(site.launch.worker("w2", children=1))
    tell(begun, "killed the worker (SIGKILL to its group), started another")
    approval = until(lambda: _asked(shop, run), "the run parks at its approval")
    first = [step for step in _steps(shop, run) if step["node"] == "look_up"]
    check(len(first) == 1 and first[0]["entries"] == 2, f"the step was not taken over: {first}")
    tell(begun, "taken over, parked at its approval")

    # 4. A reviewer lowers the amount and approves.
    shown = frida(f"/approvals/{approval}")
    args = {**shown["actions"][0]["args"], "amount": APPROVED}
    decision = {"key": shown["actions"][0]["key"], "type": "edit", "args": args}
    frida(
        f"/approvals/{approval}/decide",
        {"version": shown["version"], "digest": shown["digest"], "decisions": [decision]},
    )
    tell(begun, f"edited to {APPROVED} and approved")

    # 5. It completes by itself, paid once and as approved, and its history holds.
    done = until(lambda: _ended(shop, run), "the run ends") or {}
    check(done["status"] == "completed", f"the run is {done['status']}: {done.get('error')}")
    paid = _book(site)
    check([one["amount"] for one in paid] == [APPROVED], f"paid: {paid}")
    tell(begun, f"completed, paid once: {paid[0]['id']}, {paid[0]['amount']}")
    tell(begun, site.manage("verify_history"))


def _all_parked(api: Api) -> bool:
    """Otherwise one of them might hold the only worker while the payment service stands still."""
    runs = api("/runs")["items"]
    return bool(runs) and all("approval" in [wait["kind"] for wait in run["waiting_for"]] for run in runs)


def _steps(api: Api, run: str) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = api(f"/runs/{run}/steps")["items"]
    return steps


def _executing(api: Api, run: str) -> bool:
    return any(step["status"] == "executing" for step in _steps(api, run))


def _asked(api: Api, run: str) -> str | None:
    waits = api(f"/runs/{run}")["waiting_for"]
    return next((wait["approval"] for wait in waits if wait["kind"] == "approval"), None)


def _ended(api: Api, run: str) -> dict[str, Any] | None:
    found = api(f"/runs/{run}?wait=10")
    return found if found["status"] in {"completed", "failed", "cancelled"} else None


def _book(site: Site) -> list[dict[str, Any]]:
    address = site.launch.env["REFUND_PAYMENTS_URL"]
    with build_opener(ProxyHandler({})).open(f"{address}/refunds", timeout=10) as answer:
        return [one for one in json.loads(answer.read()) if one["order_id"] == ORDER]


@contextmanager
def temporary() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hitl-smoke-") as name:
        Path(name).chmod(0o755)  # root's Postgres runs as somebody else
        yield Path(name)


def main() -> int:
    begun = time.monotonic()
    with temporary() as folder:
        try:
            with ExitStack() as stack:
                main_job(Site(folder, stack), begun)
                tell(begun, "stopping")
        except Failed as error:
            print(f"\nmake smoke failed: {error}")
            for log in sorted((folder / "log").glob("*.log")):
                print(f"\n---- {log.stem}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-25:]))
            return 1
    tell(begun, "make smoke: the main job held")
    return 0


if __name__ == "__main__":
    sys.exit(main())
