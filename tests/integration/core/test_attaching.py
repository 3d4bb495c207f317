"""Files of runs in the database and the storage: once, whole, and gone when their run goes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import storages
from django.db import transaction
from django.db.models import F

from runs import operations, store, workflows
from runs.engine import Workflow
from runs.engine.files import File
from runs.errors import AlreadyTerminal, AttachmentNotStored, Forbidden, TooLarge, TooManyAttachments
from runs.models import Attachment, AuditEntry, Content, Run
from tests.integration.core.conftest import House, history_is_whole, kinds_of, pay_flow

Define = Callable[..., Workflow]


@pytest.fixture(autouse=True)
def folder(settings: Any, tmp_path: Path) -> Path:
    options = {"location": tmp_path, "base_url": None}
    backend = "django.core.files.storage.FileSystemStorage"
    settings.STORAGES = {**settings.STORAGES, "attachments": {"BACKEND": backend, "OPTIONS": options}}
    return tmp_path


def files_in(folder: Path) -> list[bytes]:
    return sorted(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def grow_old() -> None:
    Content.objects.update(touched_at=F("touched_at") - timedelta(days=1))


def attaching(flow: Workflow, fails: int = 0) -> Workflow:
    tries = {"n": 0}

    @flow.node
    def draw(state: Any, ctx: Any) -> dict[str, Any]:
        plan = ctx.attach("plan.txt", b"the plan", "text/plain")
        copy = ctx.attach("copy.txt", b"the plan")
        tries["n"] += 1
        if tries["n"] <= fails:
            raise ValueError("once more")
        return {"log": [plan, copy]}

    workflows.register(flow)
    return flow


def test_a_node_that_runs_again_attaches_nothing_twice_and_bytes_are_kept_once(
    house: House, define: Define, folder: Path
) -> None:
    attaching(define("draws"), fails=1)
    run = house.work(house.submit("draws"))
    house.sweep()
    run = operations.retry(actor=house.olga, run_id=run.pk, reason="so") if run.status == "failed" else run
    house.work(run)
    rows = Attachment.objects.filter(run=run).order_by("created_at", "id")
    assert sorted(row.name for row in rows) == ["copy.txt", "plan.txt"]
    assert {row.node for row in rows} == {"draw"}
    assert files_in(folder) == [b"the plan"]
    assert Content.objects.get().stored


def test_a_rewind_that_reuses_calls_keeps_the_files_and_one_that_does_not_attaches_anew(
    house: House, define: Define, folder: Path
) -> None:
    attaching(define("draws"))
    run = house.work(house.submit("draws"))
    for calls, number in (("reuse", 2), ("again", 4)):
        operations.rewind(actor=house.olga, run_id=run.pk, checkpoint=0, reason="so", calls=calls)
        house.work(run)
        assert run.status == "completed"
        assert Attachment.objects.filter(run=run).count() == number
    assert files_in(folder) == [b"the plan"]


def test_a_step_that_is_somebody_elses_by_now_attaches_nothing(house: House, define: Define) -> None:
    flow = define("late")

    @flow.node
    def only(state: Any, ctx: Any) -> None:
        operations.cancel(actor=house.olga, run_id=ctx.run_id)
        ctx.attach("late.txt", b"late")

    workflows.register(flow)
    run = house.work(house.submit("late"))
    assert run.status == "cancelled"
    assert not Attachment.objects.exists()
    assert history_is_whole(run)


def test_a_rollback_takes_nothing_from_a_worker(house: House, define: Define) -> None:
    """Also where the driver has the server forget what was prepared, as psycopg does after one."""
    attaching(define("draws"))
    for _ in range(2):
        assert house.work(house.submit("draws")).status == "completed"
        with suppress(RuntimeError), transaction.atomic():
            Run.objects.first()
            raise RuntimeError


# ---- from outside


@pytest.fixture
def parked(house: House, define: Define) -> Run:
    pay_flow(define("pay"))
    return house.parked("pay", x=1)[0]


def give(house: House, run: Run, body: bytes = b"x", **more: Any) -> Attachment:
    told = {"actor": house.shop, "name": "a.txt", **more}
    return operations.attach(run_id=run.pk, body=body, **told)


def test_a_file_from_outside_is_in_the_history_and_the_audit(house: House, parked: Run) -> None:
    made = give(house, parked, b"abc", name="../b.txt")
    assert (made.name, made.content.size, (made.author or {})["name"]) == ("b.txt", 3, str(house.shop.user))
    assert kinds_of(parked)[-1] == "file_attached"
    assert history_is_whole(parked)
    assert AuditEntry.objects.filter(verb="attach", outcome="done", target=str(parked.pk)).exists()


def test_of_what_is_refused_nothing_is_kept(
    house: House, parked: Run, folder: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.HITL_ATTACHMENT_BYTES = 10
    with pytest.raises(TooLarge):
        give(house, parked, b"x" * 11)
    with pytest.raises(Forbidden):
        give(house, parked, actor=house.frida)
    assert AuditEntry.objects.filter(verb="attach", outcome="denied: forbidden").exists()
    operations.cancel(actor=house.olga, run_id=parked.pk)
    with pytest.raises(AlreadyTerminal):
        give(house, parked)
    assert (files_in(folder), Content.objects.count()) == ([], 0)


def test_a_run_has_so_many_files_and_no_more(
    house: House, parked: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runs.store.attachments.MOST", 1)
    made = give(house, parked)
    # Sent again, since its answer was lost, it is none more.
    store.add_attachment(parked.pk, made.pk, File.of("a.txt", b"x"), content=made.content)
    with pytest.raises(TooManyAttachments):
        give(house, parked)


def test_a_storage_that_fails_leaves_nothing_that_stays(
    house: House, parked: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(type(storages["attachments"]), "_save", fail)
    with pytest.raises(AttachmentNotStored):
        give(house, parked)
    monkeypatch.undo()
    assert not Attachment.objects.exists()
    assert give(house, parked).content.stored, "what was half stored is not taken for the same content"
    grow_old()
    assert operations.keep_house().files == 1
    assert (Content.objects.count(), files_in(folder)) == (1, [b"x"])


# ---- the end


def test_a_file_stays_while_any_run_of_the_project_has_it_and_goes_with_the_last(
    house: House, define: Define, folder: Path
) -> None:
    attaching(define("draws"))
    first, second = (house.work(house.submit("draws")) for _ in range(2))
    grow_old()
    for run, left in ((first, [b"the plan"]), (second, [])):
        Run.objects.filter(pk=run.pk).update(
            created_at=F("created_at") - timedelta(days=900),
            finished_at=F("finished_at") - timedelta(days=900),
        )
        operations.keep_house()
        assert not Run.objects.filter(pk=run.pk).exists()
        assert files_in(folder) == left
    assert not Content.objects.exists()


def test_an_erased_run_has_no_files_and_their_bytes_are_gone_at_once(
    house: House, define: Define, folder: Path
) -> None:
    attaching(define("draws"))
    run = house.work(house.submit("draws"))
    grow_old()
    operations.erase(actor=house.olga, run_id=run.pk, reason="asked")
    assert not Attachment.objects.exists()
    assert files_in(folder) == []


def test_what_somebody_is_about_to_refer_to_is_not_cleared(house: House, folder: Path) -> None:
    file = File.of("a", b"a")
    content = store.keep_content(house.project.pk, file)
    grow_old()
    assert store.keep_content(house.project.pk, file) == content
    assert operations.keep_house().files == 0
    assert files_in(folder) == [b"a"]
