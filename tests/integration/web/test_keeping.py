"""Pages of a run that is held, erased, compacted or removed: each says so, and none breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.test import Client

from runs import operations, workflows
from runs.models import Approval, LegalHold, Run
from runs.policies import Actor
from tests.browser.flows.workflows import asking
from tests.integration.core.conftest import House, open_approval
from tests.kit.run_pages import PARTS

ClientOf = Callable[[Actor], Client]


@pytest.fixture
def ended(house: House) -> Iterator[Run]:
    workflows.register(asking("asked"))
    run, approval = house.parked("asked", args={"secret": "anna@example.org"}, title="Ask anna")
    house.answer(approval, "approve", comment="fine, anna")
    yield house.work(run)
    workflows.unregister("asked")


def text_of(client: Client, path: str, status: int = 200) -> str:
    answer = client.get(path)
    assert answer.status_code == status, answer.content.decode()[:2000]
    return answer.content.decode()


def send(client: Client, path: str, **fields: str) -> int:
    """Fill in the form of a page and send it."""
    page = client.get(path)
    token = page.context["form_token"]
    version = str(page.context["page"]["run"].version)
    return client.post(path, {"form_token": token, "version": version, **fields}).status_code


def test_a_run_is_held_and_released_on_its_page(house: House, ended: Run, client_of: ClientOf) -> None:
    client = client_of(house.olga)
    path = f"/runs/{ended.pk}/hold/"
    assert send(client, path, reason=" ") == 422
    assert send(client, path, reason="a <b>lawsuit</b>") == 303
    page = text_of(client, f"/runs/{ended.pk}/data/")
    assert "under a legal hold since" in page
    assert "a &lt;b&gt;lawsuit&lt;/b&gt;" in page
    assert f"/runs/{ended.pk}/erase/" not in page
    assert send(client, f"/runs/{ended.pk}/erase/", reason="asked") == 409
    assert send(client, path, lift="yes") == 303
    assert not LegalHold.objects.exists()
    assert "legal hold" not in text_of(client, f"/runs/{ended.pk}/data/").replace("under no legal hold", "")


def test_an_erased_run_is_shown_without_content(house: House, ended: Run, client_of: ClientOf) -> None:
    client = client_of(house.olga)
    assert "removed some time after" in text_of(client, f"/runs/{ended.pk}/data/")
    assert "for good" in text_of(client, f"/runs/{ended.pk}/erase/")
    assert send(client, f"/runs/{ended.pk}/erase/", reason="asked by the person") == 303
    approval = Approval.objects.get(run=ended)
    for path in (
        *(f"/runs/{ended.pk}/{part}" for part in PARTS),
        f"/inbox/{approval.pk}/",
        "/runs/",
        "/inbox/",
    ):
        assert "anna" not in text_of(client, path).replace("asked by the person", ""), path
    page = text_of(client, f"/runs/{ended.pk}/data/")
    assert "asked by the person" in page
    assert "What the checkpoints held was erased" in text_of(client, f"/runs/{ended.pk}/checkpoints/")
    for path in (f"checkpoints/{ended.head}/", "checkpoints/0/", "rewind/0/"):
        assert text_of(
            client, f"/runs/{ended.pk}/{path}", 410 if path != f"checkpoints/{ended.head}/" else 200
        )


def test_a_removed_run_is_said_to_be_gone(house: House, ended: Run, client_of: ClientOf) -> None:
    """C66: the links of a removed run and of its approval tell what became of them."""
    client, approval = client_of(house.olga), Approval.objects.get(run=ended)
    Run.objects.filter(pk=ended.pk).update(finished_at="2001-01-01T00:00:00Z")
    operations.keep_house()
    for path in (f"/runs/{ended.pk}/", f"/inbox/{approval.pk}/", f"/runs/{ended.pk}/hold/"):
        assert "removed by retention" in text_of(client, path, 410)


def test_a_compacted_run_is_shown_with_what_stays(house: House, ended: Run, client_of: ClientOf) -> None:
    client = client_of(house.olga)
    Run.objects.filter(pk=ended.pk).update(
        finished_at=ended.created_at.replace(year=ended.created_at.year - 1)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("django.conf.settings.HITL_RETENTION_COMPLETED_DAYS", 0)
        operations.keep_house()
        page = text_of(client, f"/runs/{ended.pk}/data/")
    assert "start, approvals, branch points and ends are kept" in page
    assert "for ever" in page


def test_only_who_may_sees_the_ways_there(house: House, ended: Run, client_of: ClientOf) -> None:
    for actor in (house.vera, house.frida):
        client = client_of(actor)
        assert f"/runs/{ended.pk}/hold/" not in text_of(client, f"/runs/{ended.pk}/data/")
        assert client.get(f"/runs/{ended.pk}/hold/").status_code == 403
        assert client.get(f"/runs/{ended.pk}/erase/").status_code == 403


def test_a_live_run_is_not_erased(house: House, ended: Run, client_of: ClientOf) -> None:
    run, _ = house.parked("asked", args={}, title="Ask")
    client = client_of(house.olga)
    assert f"/runs/{run.pk}/erase/" not in text_of(client, f"/runs/{run.pk}/data/")
    assert send(client, f"/runs/{run.pk}/erase/", reason="asked") == 409
    assert open_approval(run).status == "open"
