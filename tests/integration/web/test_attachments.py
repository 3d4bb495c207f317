"""Files on the pages of runs and approvals, and at an address of their own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pydantic import BaseModel

from runs import operations, workflows
from runs.engine import Action, Sensitive, Workflow
from runs.models import Approval, Attachment, Run
from runs.policies import Actor
from tests.integration.api.conftest import api_of
from tests.integration.core.conftest import House, define, make_house, open_approval

__all__ = ["define"]

ClientOf = Callable[[Actor], Client]
Define = Callable[..., Workflow]
PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)
NAME = "<img src=x onerror=alert(1)>\u202e.png"


class Papers(BaseModel):
    scan: Any = None


class Secret(BaseModel):
    scan: Annotated[Any, Sensitive("operator")] = None


class SecretArgs(BaseModel):
    scan: Annotated[Any, Sensitive("operator")]


@pytest.fixture(autouse=True)
def folder(settings: Any, tmp_path: Path) -> Path:
    options = {"location": tmp_path, "base_url": None}
    backend = "django.core.files.storage.FileSystemStorage"
    settings.STORAGES = {**settings.STORAGES, "attachments": {"BACKEND": backend, "OPTIONS": options}}
    return tmp_path


def asking(flow: Workflow, schema: Any = None) -> Workflow:
    @flow.node
    def scan(state: Any, ctx: Any) -> dict[str, Any]:
        ctx.attach("notes.txt", b"<script>alert(1)</script>", "text/html")
        return {"scan": ctx.attach(NAME, PNG)}

    @flow.approval(reviewers=["finance"])
    def ask(state: Any, ctx: Any) -> Action:
        return Action("file", {"scan": state.scan}, schema=schema)

    flow.edge(scan, ask)
    workflows.register(flow)
    return flow


@pytest.fixture
def parked(house: House, define: Define) -> tuple[Run, Approval]:
    asking(define("papers", state=Papers))
    return house.parked("papers")


def test_card_and_run_name_every_file_and_draw_images(
    house: House, parked: tuple[Run, Approval], client_of: ClientOf
) -> None:
    run, approval = parked
    client = client_of(house.frida)
    for path in (f"/inbox/{approval.pk}/", f"/runs/{run.pk}/data/"):
        page = client.get(path).text
        for file in Attachment.objects.select_related("content"):
            assert f"/attachments/{file.pk}/" in page
            assert file.content.digest in page
        image = Attachment.objects.get(type="image/png")
        assert page.count(f'<img src="/attachments/{image.pk}/"') == 1
        assert page.count('<img src="/attachments/') == 1
        assert "<img src=x" not in page
        assert "\u202e" not in page


def test_a_file_has_an_address_where_nothing_of_it_runs(
    house: House, parked: tuple[Run, Approval], client_of: ClientOf
) -> None:
    client = client_of(house.frida)
    ways = {}
    for file in Attachment.objects.all():
        got = client.get(f"/attachments/{file.pk}/")
        assert got.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
        assert got.headers["X-Content-Type-Options"] == "nosniff"
        ways[got.headers["Content-Type"]] = got.headers["Content-Disposition"].partition(";")[0]
        assert got.getvalue() in (PNG, b"<script>alert(1)</script>")
    assert ways == {"image/png": "inline", "application/octet-stream": "attachment"}
    file_id = Attachment.objects.values_list("pk", flat=True)[0]
    assert Client().get(f"/attachments/{file_id}/").status_code == 303
    assert client_of(make_house("other").olga).get(f"/attachments/{file_id}/").status_code == 404


@pytest.mark.parametrize(
    ("state", "schema"), [(Secret, None), (Papers, SecretArgs)], ids=["state", "arguments"]
)
def test_who_may_not_see_everything_of_a_run_sees_none_of_its_files(
    house: House, define: Define, client_of: ClientOf, state: Any, schema: Any
) -> None:
    asking(define("papers", state=state), schema)
    run, approval = house.parked("papers")
    assert open_approval(run) == approval
    files = [str(pk) for pk in Attachment.objects.values_list("pk", flat=True)]
    pages = [f"/inbox/{approval.pk}/", f"/runs/{run.pk}/data/"]
    seeing, blind = client_of(house.olga), client_of(house.frida)
    assert all(one in seeing.get(page).text for page in pages for one in files)
    assert not any(f"/attachments/{one}" in blind.get(page).text for page in pages for one in files)
    assert all("hidden from you" in blind.get(page).text for page in pages)
    with closing(seeing.get(f"/attachments/{files[0]}/")) as seen:
        assert seen.status_code == 200
    assert blind.get(f"/attachments/{files[0]}/").status_code == 403
    assert api_of(house.frida).get(f"runs/{run.pk}/attachments").body == {"items": [], "hidden": True}
    assert len(api_of(house.olga).get(f"runs/{run.pk}/attachments").body["items"]) == 2


def test_an_erased_run_has_no_files(house: House, parked: tuple[Run, Approval], client_of: ClientOf) -> None:
    run, _ = parked
    file = Attachment.objects.values_list("pk", flat=True)[0]
    operations.cancel(actor=house.olga, run_id=run.pk)
    operations.erase(actor=house.olga, run_id=run.pk, reason="asked")
    client = client_of(house.olga)
    assert client.get(f"/attachments/{file}/").status_code == 404
    assert "/attachments/" not in client.get(f"/runs/{run.pk}/data/").text


# ---- given on the page


def send(client: Client, run: Run, body: bytes | None, name: str = "plan.txt") -> Any:
    told = {} if body is None else {"file": SimpleUploadedFile(name, body, "text/plain")}
    return client.post(f"/runs/{run.pk}/attach/", told)


def test_who_may_gives_a_run_a_file_on_its_page_and_it_stands_there_at_once(
    house: House, parked: tuple[Run, Approval], client_of: ClientOf
) -> None:
    run, _ = parked
    olga = client_of(house.olga)
    assert 'enctype="multipart/form-data"' in olga.get(f"/runs/{run.pk}/data/").text
    sent = send(olga, run, b"the plan", name="../<plan>.txt")
    assert (sent.status_code, sent.url) == (303, f"/runs/{run.pk}/data/#attachments")
    shown = olga.get(f"/runs/{run.pk}/data/").text
    assert "&lt;plan&gt;.txt" in shown
    made = Attachment.objects.get(name="<plan>.txt")
    with closing(olga.get(f"/attachments/{made.pk}/")) as answer:
        assert answer.getvalue() == b"the plan"


def test_why_a_file_is_not_taken_stands_at_the_form(
    house: House,
    parked: tuple[Run, Approval],
    client_of: ClientOf,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, _ = parked
    olga = client_of(house.olga)
    settings.HITL_ATTACHMENT_BYTES = 100_000
    large = send(olga, run, bytes(100_001))
    assert (large.status_code, "The file has more than 100,000 bytes." in large.text) == (413, True)
    none = send(olga, run, None)
    assert (none.status_code, "Choose a file first." in none.text) == (422, True)
    monkeypatch.setattr("runs.store.attachments.MOST", 2)
    many = send(olga, run, b"x")
    assert (many.status_code, 'aria-describedby="file-wrong"' in many.text) == (409, True)
    assert Attachment.objects.count() == 2
    operations.cancel(actor=house.olga, run_id=run.pk)
    ended = send(olga, run, b"x")
    assert (ended.status_code, "it takes no files" in ended.text) == (409, True)
    assert 'type="file"' not in olga.get(f"/runs/{run.pk}/data/").text


def test_who_may_not_gives_no_file_and_sees_no_form(
    house: House, parked: tuple[Run, Approval], client_of: ClientOf
) -> None:
    run, _ = parked
    vera = client_of(house.vera)
    assert "run-attach" not in vera.get(f"/runs/{run.pk}/data/").text
    assert 'type="file"' not in vera.get(f"/runs/{run.pk}/data/").text
    assert send(vera, run, b"x").status_code == 403
    assert send(client_of(make_house("other").olga), run, b"x").status_code == 404
    assert not Attachment.objects.filter(name="plan.txt").exists()
