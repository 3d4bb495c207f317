"""A run in Postgres with the verbs of a played one: the same scenario drives both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runs import operations, store
from runs.engine import Workflow, canonical
from runs.engine import position as at
from runs.models import Approval, Checkpoint, Run, Step, Wait
from runs.testing import Said
from tests.integration.core.conftest import House, by_sql, history_is_whole, kinds_of


@dataclass
class Real:
    """One worker that takes one step at a time, first those that were started first, in lane order; a clock turned by SQL."""

    house: House
    root: Run
    signals: list[tuple[str, Any]]

    @classmethod
    def play(cls, house: House, workflow: Workflow, input: Any, signals: Sequence[tuple[str, Any]]) -> Real:
        run = operations.submit(actor=house.shop, workflow=workflow.name, input=input).run
        return cls(house, run, list(signals)).run()

    def run(self) -> Real:
        while self._advance() or self._send() or self._wake() or self._jump():
            pass
        self.root.refresh_from_db()
        return self

    @property
    def status(self) -> str:
        return self.root.status

    def _advance(self) -> bool:
        for run in Run.objects.order_by("created_at"):
            rows = {step.address for step in Step.objects.filter(run=run, branch=run.branch, status="ready")}
            if run.ending is not None and rows and run.status != "paused":
                self._one(run, rows.pop())
                return True
            if run.error is None and rows and run.status in ("queued", "running"):
                order = at.all_steps(store.read_position(run.pk, run.head))
                self._one(run, next(step.address for step in order if step.address in rows))
                return True
        return False

    def _one(self, run: Run, address: str) -> None:
        worker = operations.worker()
        worker.stopping = True
        operations.advance(run_id=run.pk, branch=run.branch, address=address)
        worker.stopping = False

    def _send(self) -> bool:
        for place, (name, payload) in enumerate(self.signals):
            wait = Wait.objects.filter(kind="signal", name=name, closed_at=None).first()
            if wait is not None:
                del self.signals[place]
                operations.signal(actor=self.house.shop, run_id=wait.run_id, name=name, payload=payload)
                return True
        return False

    def _wake(self) -> bool:
        """What is due, and children that have ended or are to be stopped."""
        swept = self.house.sweep()
        return bool(swept.woken or swept.expired or swept.stopped or swept.run_out or swept.held)

    def _jump(self) -> bool:
        wait = Wait.objects.filter(closed_at=None, due_at__isnull=False).order_by("due_at", "id").first()
        if wait is None or wait.kind == "approval":
            return False
        assert wait.due_at is not None
        _pass((wait.due_at - store.now()).total_seconds())
        return True

    # ---- verbs

    def decide(self, node: str, said: Said | str = "approve") -> Real:
        told = Said(said) if isinstance(said, str) else said
        approval = Approval.objects.filter(node=node, status="open").order_by("opened_at").first()
        assert approval is not None, f"{node} is not open"
        more: dict[str, Any] = {}
        if told.args is not None:
            more["args"] = {**approval.content["actions"][0]["args"], **told.args}
        more["message" if told.type == "respond" else "comment"] = told.text
        by = self.house.felix if told.by == "felix" else self.house.frida
        self.house.answer(approval, told.type, by=by, **more)
        return self.run()

    def signal(self, name: str, payload: Any = None) -> Real:
        operations.signal(actor=self.house.olga, run_id=self.root.pk, name=name, payload=payload)
        return self.run()

    def advance_time(self, length: float) -> Real:
        _pass(length)
        return self.run()

    def rewind(self, checkpoint: int, changes: Mapping[str, Any] | None = None, calls: str = "reuse") -> Real:
        operations.rewind(
            actor=self.house.olga,
            run_id=self.root.pk,
            checkpoint=checkpoint,
            changes=changes,
            calls=calls,
            reason="played",
        )
        return self.run()

    def edit_state(self, changes: Mapping[str, Any], *, lane: str | None = None) -> Real:
        run = Run.objects.get(pk=self.root.pk)
        operations.edit_state(
            actor=self.house.olga,
            run_id=run.pk,
            version=run.version,
            changes=changes,
            reason="played",
            lane=lane,
        )
        return self.run()

    def retry(self) -> Real:
        operations.retry(actor=self.house.olga, run_id=self.root.pk, reason="played")
        return self.run()

    def cancel(self) -> Real:
        operations.cancel(actor=self.house.olga, run_id=self.root.pk, reason="played")
        return self.run()

    def pause(self, children: bool = False) -> Real:
        operations.pause(actor=self.house.olga, run_id=self.root.pk, reason="played", children=children)
        return self.run()

    def resume(self) -> Real:
        operations.resume(actor=self.house.olga, run_id=self.root.pk, reason="played")
        return self.run()

    # ---- looking

    def told(self) -> list[dict[str, Any]]:
        """Of every run: status, output, events and the document of each checkpoint."""
        return [told(run) for run in Run.objects.order_by("created_at")]


def _pass(seconds: float) -> None:
    by_sql(
        "UPDATE runs_wait SET due_at = due_at - make_interval(secs => %s), "
        "opened_at = opened_at - make_interval(secs => %s) WHERE closed_at IS NULL",
        seconds,
        seconds,
    )
    by_sql(
        "UPDATE runs_approval SET due_at = due_at - make_interval(secs => %s) WHERE status = 'open'", seconds
    )


def told(run: Run) -> dict[str, Any]:
    assert history_is_whole(run)
    numbers = Checkpoint.objects.filter(run=run).order_by("no").values_list("no", flat=True)
    return {
        "workflow": run.workflow,
        "status": run.status,
        "kinds": kinds_of(run),
        "output": None if run.output is None else canonical.loads(run.output),
        "documents": [store.read_position(run.pk, no) for no in numbers],
    }
