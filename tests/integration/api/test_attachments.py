"""`POST` and `GET /runs/{id}/attachments`, `GET /attachments/{id}`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.test.client import BOUNDARY, MULTIPART_CONTENT, encode_multipart

from runs.engine import Workflow
from runs.models import Attachment, Content, Run
from tests.integration.api.conftest import Api, Reply, api_of, make_house
from tests.integration.core.conftest import House, pay_flow

Define = Callable[..., Workflow]
PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)


@pytest.fixture(autouse=True)
def folder(settings: Any, tmp_path: Path) -> Path:
    options = {"location": tmp_path, "base_url": None}
    backend = "django.core.files.storage.FileSystemStorage"
    settings.STORAGES = {**settings.STORAGES, "attachments": {"BACKEND": backend, "OPTIONS": options}}
    return tmp_path


@pytest.fixture
def parked(house: House, define: Define) -> Run:
    pay_flow(define("pay"))
    return house.parked("pay", x=1)[0]


def give(api: Api, run: Run, *files: SimpleUploadedFile, **fields: Any) -> Reply:
    form = encode_multipart(BOUNDARY, {**({"file": list(files)} if files else {}), **fields})
    return api.ask("POST", f"runs/{run.pk}/attachments", raw=form, content_type=MULTIPART_CONTENT)


def fetch(api: Api, attachment: str) -> Any:
    return Client().get(
        f"/api/v1/attachments/{attachment}", headers={"Authorization": f"Bearer {api.secret}"}
    )


def test_a_file_is_given_listed_and_fetched(shop: Api, vera: Api, parked: Run) -> None:
    sent = give(shop, parked, SimpleUploadedFile("plan.pdf", b"%PDF-1.7", "application/pdf"))
    assert (sent.status, sent.body["type"], sent.body["size"]) == (201, "application/pdf", 8)
    assert sent.body["digest"] == hashlib.sha256(b"%PDF-1.7").hexdigest()
    assert sent.body["reference"]["$attachment"] == sent.body["id"]
    assert sent.headers["Location"] == f"/api/v1/attachments/{sent.body['id']}"
    assert vera.get(f"runs/{parked.pk}/attachments").body == {"items": [sent.body], "hidden": False}
    got = fetch(vera, sent.body["id"])
    assert (got.status_code, got.getvalue()) == (200, b"%PDF-1.7")


@pytest.mark.parametrize(
    ("name", "told", "body", "type", "way"),
    [
        ("a.png", "text/html", PNG, "image/png", "inline"),
        ("a.png", "image/png", b"<script>alert(1)</script>", "application/octet-stream", "attachment"),
        ("a.svg", "image/svg+xml", b"<svg onload='alert(1)'/>", "application/octet-stream", "attachment"),
        ("a.html", "text/html", b"<script>alert(1)</script>", "application/octet-stream", "attachment"),
        ("zip.zip", "application/zip", b"PK\x03\x04", "application/octet-stream", "attachment"),
        ("empty", "text/plain", b"", "application/octet-stream", "attachment"),
    ],
)
def test_a_browser_draws_images_and_runs_nothing(
    shop: Api, parked: Run, name: str, told: str, body: bytes, type: str, way: str
) -> None:
    sent = give(shop, parked, SimpleUploadedFile(name, body, told))
    got = fetch(shop, sent.body["id"])
    assert got.getvalue() == body
    assert got.headers["Content-Type"] == type
    assert got.headers["Content-Disposition"] == f'{way}; filename="{name}"'
    assert got.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
    assert got.headers["X-Content-Type-Options"] == "nosniff"


def test_a_hostile_name_is_a_harmless_label(shop: Api, parked: Run, folder: Path) -> None:
    file = SimpleUploadedFile("x", b"x")
    file._name = "..\\..\\\u202e" + "n" * 300 + '".html'  # type: ignore[attr-defined]  # past the client's own care
    sent = give(shop, parked, file)
    assert sent.status == 201
    assert len(sent.body["name"]) == 200
    assert not {"/", "\\", "\u202e"} & set(sent.body["name"])
    with closing(fetch(shop, sent.body["id"])) as got:
        assert got.headers["Content-Disposition"].startswith("attachment; filename=")
    assert [path.relative_to(folder).parts[0] for path in folder.rglob("*") if path.is_file()] == [
        str(parked.project_id)
    ]


@pytest.mark.parametrize(
    ("files", "fields", "status", "code"),
    [
        ([], {}, 400, "bad_request"),
        ([b"a", b"b"], {}, 400, "bad_request"),
        ([b"a"], {"name": "other"}, 400, "unknown_field"),
        ([bytes(2_000_000)], {}, 413, "too_large"),
        ([bytes(1024 * 1024 + 1)], {}, 413, "too_large"),
    ],
    ids=["none", "two", "unknown", "far too large", "a byte too large"],
)
def test_what_is_refused_leaves_nothing(
    shop: Api,
    parked: Run,
    settings: Any,
    folder: Path,
    files: list[bytes],
    fields: dict[str, str],
    status: int,
    code: str,
) -> None:
    settings.HITL_ATTACHMENT_BYTES = 1024 * 1024
    sent = give(shop, parked, *(SimpleUploadedFile("a", one) for one in files), **fields)
    assert (sent.status, sent.code) == (status, code)
    assert (Content.objects.count(), list(folder.iterdir())) == (0, [])


def test_json_is_no_form(shop: Api, parked: Run) -> None:
    sent = shop.post(f"runs/{parked.pk}/attachments", {"file": "x"})
    assert (sent.status, sent.code) == (415, "unsupported_media_type")
    broken = shop.ask("POST", f"runs/{parked.pk}/attachments", raw=b"--x", content_type="multipart/form-data")
    assert (broken.status, broken.code) == (400, "bad_request")


def test_who_may(house: House, shop: Api, olga: Api, frida: Api, parked: Run) -> None:
    file = SimpleUploadedFile("a", b"a")
    for api, status in ((shop, 201), (olga, 201), (frida, 403)):
        file.seek(0)
        assert give(api, parked, file).status == status
    narrow = api_of(house.shop, ["runs:read"])
    file.seek(0)
    assert give(narrow, parked, file).code == "missing_scope"
    blind = api_of(house.shop, ["runs:submit"])
    assert blind.get(f"runs/{parked.pk}/attachments").code == "missing_scope"
    other = api_of(make_house("other").olga)
    one = Attachment.objects.first()
    assert one is not None
    assert fetch(other, str(one.pk)).status_code == 404
    file.seek(0)
    assert give(other, parked, file).code == "not_found"


def test_a_session_gives_a_file_too(house: House, parked: Run) -> None:
    client = Client()
    client.force_login(house.olga.user)
    sent = client.post(f"/api/v1/runs/{parked.pk}/attachments", {"file": SimpleUploadedFile("a", b"a")})
    assert sent.status_code == 201
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(house.olga.user)
    refused = strict.post(f"/api/v1/runs/{parked.pk}/attachments", {"file": SimpleUploadedFile("a", b"a")})
    assert refused.status_code == 403


def test_a_file_that_the_storage_has_lost_says_so(shop: Api, parked: Run, folder: Path) -> None:
    sent = give(shop, parked, SimpleUploadedFile("a", b"a"))
    for path in folder.rglob("*"):
        if path.is_file():
            path.unlink()
    got = fetch(shop, sent.body["id"])
    assert (got.status_code, got.json()["code"]) == (503, "attachment_not_stored")
