"""`make up`: everything on one machine, in the foreground, and nothing left behind.

    python -m hitl.supervisor up      start; a second start goes on with the same data
    python -m hitl.supervisor reset   forget the data

What a start leaves in the data folder: `lock` (held for as long as it lives), `running.json` (the processes,
each by id and start time: the next start ends those that a killed start left), `servers.json` (addresses of
the embedded servers, for manage.py), `log/`.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, build_opener

import watchfiles

from hitl import env as environment
from hitl.embedded import EmbeddedError, Postgres, Valkey, runs_here
from hitl.process import Child, Guard, Identity, end, myself
from hitl.processes import Launch, services

GRACE = 10.0  # a worker finishes its step
READY_SECONDS = 60
PORTS_TO_TRY = 20
BACKOFF = (0, 1, 2, 5, 10)
QUICK_END = 10.0  # a process that ends sooner than this is broken rather than unlucky
RELOADED = ("web", "worker", "sweeper", "deliver")


class CannotStart(Exception):
    """Said to the person as it is."""


class Stopped(Exception):
    """Ctrl-C or SIGTERM."""


class Interrupt:
    """What Ctrl-C does: ends the start or the watch at once, but never between a process's birth and its entry in
    our lists. The second one means that nothing is waited for any more.
    """

    def __init__(self) -> None:
        self._asked = 0
        self._shields = 0

    @property
    def hurry(self) -> bool:
        return self._asked > 1

    def __call__(self, _signal: int, _frame: FrameType | None) -> None:
        self._asked += 1
        if self._asked == 1 and not self._shields:
            raise Stopped

    @contextmanager
    def shield(self) -> Iterator[None]:
        before = self._asked
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1
        if self._asked > before == 0 and not self._shields:
            raise Stopped


def say(text: str) -> None:
    print(text, flush=True)


# ---- one start at a time


class Lock:
    """Held by a living supervisor; the system frees it however the holder ended."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / "lock").open("a+")

    def take(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class Note:
    """`running.json`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "running.json"

    def write(self, *, address: str, guard: int, children: list[Child]) -> None:
        content = {
            "address": address,
            "supervisor": myself().as_dict(),
            "guard": guard,
            "children": {child.name: child.identity.as_dict() for child in children},
        }
        half = self.path.with_suffix(".half")
        half.write_text(json.dumps(content, indent=1))
        half.replace(self.path)

    def read(self) -> dict[str, object]:
        try:
            found = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def children(self) -> dict[str, Identity]:
        noted = self.read().get("children")
        return {name: Identity(**fields) for name, fields in noted.items()} if isinstance(noted, dict) else {}

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def refuse_second(note: Note) -> None:
    seen = note.read()
    supervisor = seen.get("supervisor")
    pid = supervisor["pid"] if isinstance(supervisor, dict) else "?"
    raise CannotStart(
        f"hitl already runs here as process {pid}, at {seen.get('address') or 'an address not known yet'}.\n"
        f"Stop it with Ctrl-C in its terminal, or: kill {pid}"
    )


def clean_up_after_earlier(note: Note) -> None:
    left = {name: identity for name, identity in note.children().items() if identity.alive()}
    if left:
        say(f"an earlier start was killed; ending what it left: {', '.join(sorted(left))}")
        end(left.values(), grace=GRACE)
    note.remove()


# ---- the port


def listen(host: str, port: int, *, chosen: bool) -> socket.socket:
    """The wanted port. When it is taken: an explanation if somebody chose it, otherwise the next free one."""
    last = port if chosen else port + PORTS_TO_TRY
    for candidate in range(port, last + 1):
        try:
            found = _bind(host, candidate)
        except PermissionError as error:
            raise CannotStart(
                f"Port {candidate} may not be opened by this user: choose one above 1023."
            ) from error
        except OSError as error:
            if chosen:
                raise CannotStart(_explain_port(host, candidate, error)) from error
            continue
        if candidate != port:
            say(f"port {port} is in use by another program, taking {candidate} (HITL_PORT chooses one)")
        return found
    raise CannotStart(
        f"Ports {port} to {last} of {host} are all in use: free one, or choose one with HITL_PORT=…"
    )


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(1024)
        bound.set_inheritable(True)
    except OSError:
        bound.close()
        raise
    return bound


def _explain_port(host: str, port: int, error: OSError) -> str:
    return (
        f"HITL_PORT={port} cannot be had on {host}: {error.strerror}.\n"
        f"Stop the program that uses it, or choose another: HITL_PORT={port + 1} make up"
    )


# ---- the processes


@dataclass
class Running:
    """One process that is started again when it ends."""

    name: str
    start: Callable[[], Child]
    child: Child | None = None
    begun: float = 0.0
    quick: int = 0
    again_at: float = 0.0
    exchange: bool = False


@dataclass
class Supervisor:
    env: environment.Environment
    root: Path = field(default_factory=environment.root)
    children: list[Child] = field(default_factory=list)
    running: list[Running] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    interrupt: Interrupt = field(default_factory=Interrupt)

    def __post_init__(self) -> None:
        self.folder = self.env.data_dir
        self.logs = self.folder / "log"
        self.note = Note(self.folder)
        self.address = ""
        self.environ = dict(os.environ)

    # -- start

    def up(self) -> None:
        # 1. Nobody else is at work in this folder; what a killed start left is ended.
        lock = Lock(self.folder)
        if not lock.take():
            refuse_second(self.note)
        clean_up_after_earlier(self.note)
        _keep_earlier_logs(self.logs)
        with ExitStack() as stack:
            # 2. The port first: the one thing that another program may have taken.
            sock = stack.enter_context(listen(self.env.host, self.env.port, chosen="HITL_PORT" in os.environ))
            self.address = _address(self.env.host, sock.getsockname()[1])
            self.guard = Guard(grace=GRACE)
            stack.callback(self.guard.close)
            stack.callback(self.note.remove)
            stack.callback(self.stop)
            # 3. Servers, tables, demo data, services, then ours.
            self._servers()
            self._environment(port=sock.getsockname()[1])
            self._prepare_data()
            self._start_all(sock.fileno())
            self._wait_until_ready()
            self._welcome()
            # 4. Until somebody stops it.
            self._watch()

    def _servers(self) -> None:
        noted: dict[str, str] = {}
        if self.env.database_url:
            say("postgres   the one of DATABASE_URL")
        else:
            _need_embedded()
            server = Postgres(self.folder / "postgres", log=self.logs / "postgres.log")
            fresh = not server.data.exists()
            say(f"postgres   {'making a database in' if fresh else 'going on with'} {server.folder}")
            self._keep(server.start)
            noted["database_url"] = server.url()
        if self.env.redis_url:
            say("redis      the one of REDIS_URL")
        else:
            _need_embedded()
            broker = Valkey(log=self.logs / "valkey.log")
            self._keep(broker.start)
            noted["redis_url"] = broker.url
            say("valkey     started")
        _write_private(self.folder / "servers.json", json.dumps({**noted, "debug": self._debugs()}))
        self.environ.update({name.upper(): url for name, url in noted.items()})

    def _debugs(self) -> bool:
        """`make up` is for development, unless it is told otherwise."""
        return self.env.debug or "debug" not in self.env.model_fields_set

    def _environment(self, *, port: int) -> None:
        key = self.folder / "secret-key"
        if not key.exists():
            _write_private(key, secrets.token_urlsafe(48))
        self.services = [service.placed(self.folder) for service in services(self.env.workflow_apps)]
        for service in self.services:
            self.environ.update(
                {name: value for name, value in service.env.items() if name not in os.environ}
            )
        self.environ.setdefault("HITL_SECRET_KEY", self.env.secret_key or key.read_text().strip())
        self.environ.setdefault("HITL_DEBUG", "true")
        self.environ.setdefault("HITL_LOG_FORMAT", "text")
        self.environ.update(HITL_PORT=str(port), PYTHONUNBUFFERED="1")
        self.launch = Launch(self.environ, self.logs, self.root)

    def _prepare_data(self) -> None:
        say("migrations applying what is new")
        self._manage("migrate", "--no-input", "--verbosity", "0")
        for line in self._manage("set_up").splitlines():
            say(f"set-up     {line}")
        if self.services:
            self._start_services()
        say("demo data  project, people, a run that waits for a decision")
        self._demo_said = self._manage("demo_data")

    def _start_services(self) -> None:
        for service in self.services:
            say(f"{service.name:<10} {' '.join(service.env.values())}")
            self._run(service.name, partial(self.launch.service, service))

    def _start_all(self, fd: int) -> None:
        say("web, worker, sweeper, deliver, beat")
        self._run("web", lambda: self.launch.web(fd))
        self._run("worker", lambda: self.launch.worker(children=self.env.workers))
        self._run("sweeper", self.launch.sweeper)
        self._run("deliver", self.launch.deliver)
        self._run("beat", lambda: self.launch.beat(self.folder / "beat"))

    def _manage(self, *arguments: str) -> str:
        """One command to its end; its words come back, its failure ends the start."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=self.root,
            env=self.environ,
            capture_output=True,
            text=True,
            check=False,
            start_new_session=True,
        )
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip())[-3000:]
            raise CannotStart(f"`manage.py {' '.join(arguments)}` failed:\n{said}")
        return done.stdout.strip()

    def _run(self, name: str, start: Callable[[], Child]) -> None:
        entry = Running(name, start)
        self.running.append(entry)
        self._begin(entry)

    def _begin(self, entry: Running) -> None:
        entry.child = self._keep(entry.start)
        entry.begun = time.monotonic()

    def _keep(self, start: Callable[[], Child]) -> Child:
        with self.interrupt.shield():
            child = start()
            self.children.append(child)
            self.guard.add(child)
            self.note.write(address=self.address, guard=self.guard.pid, children=self.children)
        return child

    def _let_go(self, child: Child) -> None:
        child.kill()  # what is left of its group
        self.children.remove(child)
        self.guard.drop(child)
        self.note.write(address=self.address, guard=self.guard.pid, children=self.children)

    def _wait_until_ready(self) -> None:
        limit = time.monotonic() + READY_SECONDS
        answer = "no answer"
        while time.monotonic() < limit:
            answer = _ask(f"{self.address}/readyz")
            if answer == "ok":
                return
            self._look_after(on_early_end=self._refuse)
            time.sleep(0.2)
        say(f"not ready after {READY_SECONDS} s: {answer}\nlogs are in {self.logs}")

    def _refuse(self, entry: Running) -> None:
        assert entry.child is not None
        raise CannotStart(f"{entry.name} ended at once; the end of {entry.child.log}:\n{entry.child.tail()}")

    def _welcome(self) -> None:
        say("")
        if self._demo_said:
            say(self._demo_said + "\n")
        say(f"ready at   {self.address}")
        say(f"logs in    {self.logs}")
        say("Ctrl-C stops everything; `make up` goes on with the same data, `make reset` forgets it.\n")

    # -- while it runs

    def _watch(self) -> None:
        watcher = threading.Thread(target=self._reload_on_change, daemon=True)
        watcher.start()
        printer = threading.Thread(target=follow, args=(self.logs, self.stopping), daemon=True)
        printer.start()
        while not self.stopping.wait(0.3):
            self._look_after(on_early_end=self._back_off)
            self._servers_alive()

    def _look_after(self, *, on_early_end: Callable[[Running], None]) -> None:
        now = time.monotonic()
        self._exchange([entry for entry in self.running if entry.exchange])
        for entry in self.running:
            if entry.child is None:
                if now >= entry.again_at:
                    self._begin(entry)
            elif entry.child.status is not None:
                entry.quick = entry.quick + 1 if now - entry.begun < QUICK_END else 0
                if entry.quick:
                    on_early_end(entry)
                self._restart_later(entry)

    def _restart_later(self, entry: Running) -> None:
        child = entry.child
        assert child is not None
        wait = BACKOFF[min(entry.quick, len(BACKOFF) - 1)]
        say(f"{entry.name} ended ({_how(child.status)}), starting it again{f' in {wait} s' if wait else ''}")
        self._let_go(child)
        entry.child, entry.again_at = None, time.monotonic() + wait

    def _back_off(self, entry: Running) -> None:
        """Who was killed has nothing to say about it; who broke has."""
        assert entry.child is not None
        if (entry.child.status or 0) > 0:
            say(entry.child.tail(8))

    def _exchange(self, entries: list[Running]) -> None:
        """New code: all are asked to end, then all begin anew. Meanwhile the web's connections wait in its socket."""
        self._end([entry.child for entry in entries if entry.child is not None])
        for entry in entries:
            entry.child, entry.quick, entry.again_at, entry.exchange = None, 0, 0.0, False

    def _reload_on_change(self) -> None:
        for changes in watchfiles.watch(
            *_code_folders(self.root, self.env.workflow_apps),
            watch_filter=watchfiles.PythonFilter(extra_extensions=[".sql"]),
            stop_event=self.stopping,
        ):
            names = sorted({os.path.relpath(path, self.root) for _, path in changes})
            say(f"changed: {', '.join(names[:3])}{' …' if len(names) > 3 else ''}; reloading")
            for entry in self.running:
                entry.exchange = entry.exchange or entry.name in RELOADED

    def _servers_alive(self) -> None:
        looked_after = {id(entry.child) for entry in self.running}
        for child in self.children:
            if id(child) not in looked_after and child.status is not None:
                raise CannotStart(
                    f"{child.name} ended ({_how(child.status)}); the end of {child.log}:\n{child.tail()}"
                )

    # -- stop

    def stop(self) -> None:
        """Ours first, all at once; then the servers, which they still need for their last commit."""
        self.stopping.set()
        ours = [entry.child for entry in self.running if entry.child is not None]
        servers = [child for child in self.children if child not in ours]
        with self.interrupt.shield():
            say("\nstopping (Ctrl-C again does not wait for steps to finish)")
            self._end(ours)
            self._end(servers)
            (self.folder / "servers.json").unlink(missing_ok=True)

    def _end(self, children: list[Child]) -> None:
        for child in children:
            child.ask()
        limit = time.monotonic() + GRACE
        for child in children:
            while not child.wait(0.05) and time.monotonic() < limit and not self.interrupt.hurry:
                pass
            self._let_go(child)


def _how(status: int | None) -> str:
    if status is not None and status < 0:
        return f"killed by {signal.Signals(-status).name}"
    return f"exit status {status}"


def _need_embedded() -> None:
    if reason := runs_here():
        raise CannotStart(reason)


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)


def _keep_earlier_logs(folder: Path) -> None:
    """One generation: `log` is this start's, `log.earlier` the one before."""
    earlier = folder.with_name("log.earlier")
    shutil.rmtree(earlier, ignore_errors=True)
    if folder.exists():
        folder.rename(earlier)
    folder.mkdir(parents=True)


def _address(host: str, port: int) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"


def _ask(url: str) -> str:
    """ok, or what is missing."""
    opener = build_opener(ProxyHandler({}))
    try:
        with opener.open(url, timeout=5):
            return "ok"
    except HTTPError as error:
        return error.read(2000).decode(errors="replace")
    except (URLError, OSError) as error:
        return str(error)


def _code_folders(root: Path, apps: list[str]) -> list[Path]:
    tops = {"hitl", "runs", *(app.split(".")[0] for app in apps)}
    return [root / name for name in sorted(tops) if (root / name).is_dir()]


# ---- the children's words on the terminal


def follow(folder: Path, stopping: threading.Event) -> None:
    """Prints what our processes log, each line with its process's name; the servers' logs stay in their
    files.
    """
    places: dict[Path, int] = {path: path.stat().st_size for path in folder.glob("*.log")}
    while not stopping.wait(0.3):
        for path in sorted(folder.glob("*.log")):
            if path.stem in {"postgres", "valkey"}:
                continue
            places[path] = _print_new(path, places.get(path, 0))


def _print_new(path: Path, place: int) -> int:
    with path.open("rb") as file:
        file.seek(place)
        content = file.read(200_000)
    whole = content[: content.rfind(b"\n") + 1]
    for line in whole.decode(errors="replace").splitlines():
        say(f"{path.stem:<10} {line}")
    return place + len(whole)


# ---- commands


def up(settings: environment.Environment) -> int:
    supervisor = Supervisor(settings)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, supervisor.interrupt)
    try:
        supervisor.up()
    except Stopped:
        say("stopped")
    except (CannotStart, EmbeddedError) as error:
        say(f"\n{error}")
        return 1
    return 0


def reset(settings: environment.Environment) -> int:
    folder = settings.data_dir
    if not folder.exists():
        say("nothing to forget")
        return 0
    lock, note = Lock(folder), Note(folder)
    if not lock.take():
        say("hitl runs: stop it first (Ctrl-C in its terminal)")
        return 1
    clean_up_after_earlier(note)
    postgres = Postgres(folder / "postgres", log=folder / "log" / "postgres.log")
    postgres.forget()
    shutil.rmtree(folder)
    say(f"forgot {folder}")
    if settings.database_url:
        say("the database of DATABASE_URL was not touched")
    return 0


def main() -> int:
    commands = {"up": up, "reset": reset}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        say(f"usage: python -m hitl.supervisor {'|'.join(commands)}")
        return 2
    try:
        settings = environment.read()
    except environment.BadEnvironment as error:
        say(f"hitl does not start:\n{error}")
        return 1
    return commands[sys.argv[1]](settings)


if __name__ == "__main__":
    sys.exit(main())
