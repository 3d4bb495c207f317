"""`manage.py demo`: a refund from submit to completion in the terminal, with the person there at the gate."""

from __future__ import annotations

import sys
import time
import uuid
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from django.core.management.base import CommandError

from runs import operations
from runs.engine import canonical
from runs.engine.approval import ActionDecision
from runs.engine.workflow import DECISIONS
from runs.errors import HitlError
from runs.management import narrator
from runs.management.base import DataCommand
from runs.management.terminal import Person, Script, card, plain
from runs.models import Approval, Member, Run
from runs.operations import Answer
from runs.policies import Actor

PROJECT: Final = "demo"
SUBMITTER: Final = "shop"
POLL_SECONDS: Final = 0.2
QUIET_SECONDS: Final = 10.0
"""After so long without an event, say what is probably wrong."""


class Command(DataCommand):
    help = (
        "Submit a refund, show each step as it commits, and ask the person here to decide. Needs `make up`."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--order", default="88-4121", help="order to pay back (examples/refund lists them)"
        )
        parser.add_argument(
            "--amount", help="amount that is asked for, such as 360.00 (default: all that is left)"
        )
        parser.add_argument("--message", default="The table has a crack.", help="the customer's words")
        parser.add_argument("--run", type=uuid.UUID, help="go on with this run instead of submitting one")
        parser.add_argument("--as", dest="username", default="frida", help="who decides (default: frida)")
        parser.add_argument("--yes", action="store_true", help="approve without asking")
        parser.add_argument("--answer", choices=DECISIONS, help="decide like this without asking")
        parser.add_argument(
            "--set", action="append", default=[], metavar="NAME=VALUE", help="with --answer edit"
        )
        parser.add_argument("--reason", default="", help="with --answer reject or respond")
        parser.add_argument(
            "--patience", type=float, default=120, help="seconds without an event until this gives up"
        )

    def run(self, *args: Any, **options: Any) -> None:
        gate = Gate(self._answerer(options), _actor(options["username"]), self._say, asks=not _told(options))
        run = _found(options["run"]) if options["run"] else _submitted(options)
        try:
            ended = self._watch(run.pk, gate, patience=options["patience"])
        except (KeyboardInterrupt, EOFError):
            raise CommandError(f"\nThe run goes on without you: manage.py demo --run {run.pk}") from None
        self._finish(ended)

    def _watch(self, run_id: uuid.UUID, gate: Gate, *, patience: float) -> Run:
        """Tell the run until it has ended; hand it to the gate whenever it asks people."""
        listener, silence = narrator.Listener(run_id), Silence(patience)
        while True:
            run, news = listener.look()
            for told in news:
                self._say(f"  {told.line()}")
            if run.is_terminal:
                return run
            answered = gate.decide(run)
            if news or answered:
                silence = Silence(patience)
            if hint := silence.hint(run):
                self._say(hint)
            time.sleep(POLL_SECONDS)

    def _finish(self, run: Run) -> None:
        self._say("\nTimeline of run " + str(run.pk))
        for line in narrator.timeline(run):
            self._say(line)
        if run.output:
            self._say("\nOutput\n" + plain(canonical.dumps(canonical.loads(run.output), indent=2)))
        if run.status != "completed":
            raise CommandError(f"The run is {run.status}.")

    def _answerer(self, options: dict[str, Any]) -> Person | Script:
        if _told(options):
            return Script(
                "approve" if options["yes"] else options["answer"],
                options["reason"],
                _changes(options["set"]),
            )
        if not sys.stdin.isatty():
            raise CommandError(
                "Nobody is here to ask. Say --yes, or --answer approve, edit, reject or respond."
            )
        return Person(ask=input, say=self._say)

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


@dataclass
class Silence:
    """How long nothing has happened, and what to say about it."""

    patience: float

    def __post_init__(self) -> None:
        self._since = time.monotonic()
        self._said = False

    def hint(self, run: Run) -> str:
        """A line to show, once; raises when the patience is over."""
        quiet = time.monotonic() - self._since
        words = f"nothing for {quiet:.0f} s, the run is {run.status}. {_advice(run)}"
        if quiet > self.patience:
            raise CommandError(f"Given up: {words}")
        if quiet < QUIET_SECONDS or self._said:
            return ""
        self._said = True
        return f"  ... {words}"


@dataclass
class Gate:
    """Answers each approval of a run once, as one reviewer."""

    answerer: Person | Script
    actor: Actor
    say: Callable[[str], None]
    asks: bool

    def __post_init__(self) -> None:
        self._answered: set[tuple[Any, int]] = set()

    def decide(self, run: Run) -> bool:
        """Whether something was asked and answered."""
        approval = Approval.objects.filter(run=run, status="open").order_by("opened_at", "id").first()
        if approval is None or (approval.pk, approval.version) in self._answered:
            return False
        self.say("")
        for line in card(approval.content):
            self.say(line)
        self._answer(approval, self.answerer.decide(approval.content))
        return True

    def _answer(self, approval: Approval, decisions: list[ActionDecision]) -> None:
        answer = Answer(approval.pk, approval.version, approval.digest, decisions)
        try:
            (decided,) = operations.decide(actor=self.actor, answers=[answer])
        except HitlError as error:
            # A person may answer otherwise, or somebody else was first: the next look shows what is there now.
            if not self.asks:
                raise
            self.say(error.detail)
            for problem in error.errors:
                self.say(f"  {problem.path}: {plain(problem.message)}")
            return
        self.say("")
        if decided.approval and decided.approval.status == "open":
            self.say(f"Recorded; {approval.quorum} people must agree, the others decide in the inbox.")
            self._answered.add((decided.approval.pk, decided.approval.version))


def _told(options: dict[str, Any]) -> bool:
    """Whether the answer was given on the command line."""
    return bool(options["yes"] or options["answer"])


def _changes(told: list[str]) -> dict[str, str]:
    odd = [text for text in told if "=" not in text]
    if odd:
        raise CommandError(f"--set {odd[0]}: the form is NAME=VALUE, such as amount=100.00")
    return {name: value for name, _, value in (text.partition("=") for text in told)}


def _actor(username: str) -> Actor:
    member = Member.objects.select_related("user", "project").filter(
        project__slug=PROJECT, user__username=username
    )
    if found := member.first():
        return Actor(found.user, found.project, "command")
    raise CommandError(
        f"{username!r} is not in the project {PROJECT!r}; `manage.py demo_data` makes its people."
    )


def _submitted(options: dict[str, Any]) -> Run:
    given = {"order_id": options["order"], "amount": options["amount"], "message": options["message"]}
    wanted = {name: value for name, value in given.items() if value}
    labels = {"order": options["order"]}
    return operations.submit(actor=_actor(SUBMITTER), workflow="refund", input=wanted, labels=labels).run


def _found(run_id: uuid.UUID) -> Run:
    if run := Run.objects.filter(pk=run_id, project__slug=PROJECT).first():
        return run
    raise CommandError(f"The project {PROJECT!r} has no run {run_id}.")


def _advice(run: Run) -> str:
    if run.status == "queued":
        return "Is a worker running? `make up` starts one."
    if run.status == "waiting":
        return _awaited(run)
    return "A step is working; a payment that stalls takes a while."


def _awaited(run: Run) -> str:
    asked = sorted({str(name) for reason in run.waiting_for for name in reason.get("who", ())})
    if asked:
        more = f"manage.py demo --run {run.pk} --as NAME"
        return f"It waits for {', '.join(asked)}: somebody else decides in the inbox, or here: {more}"
    return "It waits for its time; `make up` runs the sweeper that wakes it."
