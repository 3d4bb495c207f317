"""Files of runs in an S3 bucket: over HTTP, by boto3, as the settings of an installation make it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.test import Client

from hitl import env
from runs import attached, operations
from runs.engine import Workflow
from runs.errors import AttachmentNotStored
from runs.models import Attachment, Content, Run
from tests.integration.core.conftest import House, history_is_whole, pay_flow
from tests.kit.bucket import Bucket, bucket

MEGA = 1024 * 1024


@pytest.fixture(scope="module")
def server() -> Iterator[Bucket]:
    with bucket() as made:
        yield made


@pytest.fixture
def papers(server: Bucket, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "who")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "what")
    told = env.attachments(env.Environment(attachments_s3_bucket="papers"))
    settings.STORAGES = {**settings.STORAGES, "attachments": told}
    yield server
    server.objects.clear()
    server.down = False


@pytest.fixture
def parked(house: House, define: Callable[..., Workflow]) -> Run:
    pay_flow(define("pay"))
    return house.parked("pay", x=1)[0]


def give(house: House, run: Run, body: bytes, name: str = "a.bin") -> Attachment:
    return operations.attach(actor=house.shop, run_id=run.pk, name=name, body=body)


def shown(house: House, file: Attachment) -> bytes:
    with closing(attached.served(attached.one(house.frida, file.pk))) as answer:
        return answer.getvalue()


@pytest.mark.parametrize("size", [0, 10, 9 * MEGA], ids=["nothing", "small", "in parts"])
def test_a_file_is_given_shown_and_goes_with_an_erase(
    house: House, parked: Run, papers: Bucket, size: int
) -> None:
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)
    file = give(house, parked, body)
    assert list(papers.objects.values()) == [body]
    assert list(papers.objects) == [file.content.path]
    assert shown(house, file) == body
    Content.objects.update(touched_at=F("touched_at") - timedelta(days=1))
    operations.cancel(actor=house.olga, run_id=parked.pk)
    operations.erase(actor=house.olga, run_id=parked.pk, reason="asked")
    assert not papers.objects


def test_nothing_is_lost_while_the_bucket_does_not_answer(house: House, parked: Run, papers: Bucket) -> None:
    file = give(house, parked, b"before")
    papers.down = True
    with pytest.raises(AttachmentNotStored, match="did not take the file"):
        give(house, parked, b"meanwhile")
    client = Client()
    client.force_login(house.frida.user)
    refused = client.get(f"/attachments/{file.pk}/")
    assert refused.status_code == 503
    assert "The storage does not give the file" in refused.text
    operations.cancel(actor=house.olga, run_id=parked.pk)
    Content.objects.update(touched_at=F("touched_at") - timedelta(days=1))
    operations.erase(actor=house.olga, run_id=parked.pk, reason="asked")
    assert (len(papers.objects), Attachment.objects.count()) == (1, 0)
    papers.down = False
    assert operations.keep_house().files == 2, "the erased one, and what was half stored"
    assert (len(papers.objects), Content.objects.count()) == (0, 0)
    assert history_is_whole(parked)


def test_a_bucket_that_cannot_be_reached_is_told_within_seconds(
    house: House, parked: Run, papers: Bucket, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")  # nobody listens
    told = env.attachments(env.Environment(attachments_s3_bucket="papers"))
    settings.STORAGES = {**settings.STORAGES, "attachments": told}
    with pytest.raises(AttachmentNotStored, match="EndpointConnectionError"):
        give(house, parked, b"x")
    assert not Attachment.objects.exists()
