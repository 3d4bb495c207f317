"""Pages about versions, without script: the three ways out, what a migration comes to, versions side by side."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client

from runs.errors import MigrationMissing
from runs.models import Run
from runs.policies import Actor
from tests.integration.core.conftest import House
from tests.kit.letters import NAME, First, deploy, forgotten, letters, parked, second

ClientOf = Callable[[Actor], Client]


@pytest.fixture(autouse=True)
def only_here(house: House) -> Iterator[None]:
    with forgotten():
        yield


def text_of(answer: Any) -> str:
    assert answer.status_code in (200, 409), answer
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode()))


def stuck(house: House) -> Run:
    run, approval = parked(house, note="hello")
    deploy(second(leads=False))
    with pytest.raises(MigrationMissing):
        house.answer(approval, "approve")
    return run


def test_a_run_without_code_says_so_with_its_three_ways_out(house: House, client_of: ClientOf) -> None:
    run = stuck(house)
    page = client_of(house.olga).get(f"/runs/{run.pk}/")
    text = text_of(page)
    assert f"Needs a migration from version 1 of {NAME}" in text
    for way in ("Old version", "Migrate", "Rewind"):
        assert way in text
    assert f"/runs/{run.pk}/migrate/" in page.content.decode()
    reader = client_of(house.vera).get(f"/runs/{run.pk}/").content.decode()
    assert f'href="/runs/{run.pk}/migrate/"' not in reader
    assert "An operator can take it to another version" in reader


def test_the_list_finds_runs_without_code(house: House, client_of: ClientOf) -> None:
    run = stuck(house)
    other = house.submit("echo")
    client = client_of(house.olga)
    found = client.get("/runs/?waiting_for=needs_migration").content.decode()
    assert str(run.pk) in found
    assert str(other.pk) not in found
    assert "Needs migration" in text_of(client.get("/runs/"))
    by_version = client.get(f"/runs/?workflow={NAME}&version=2").content.decode()
    assert str(run.pk) not in by_version


def test_a_decision_page_says_why_it_was_refused_and_keeps_what_was_typed(
    house: House, client_of: ClientOf
) -> None:
    _, approval = parked(house)
    deploy(second(leads=False))
    answer = client_of(house.frida).post(
        f"/inbox/{approval.pk}/decide/",
        {
            "action": "send",
            "decision": "approve",
            "version": "1",
            "digest": approval.digest,
            "reason": "my words",
        },
    )
    assert answer.status_code == 409
    assert "no migration leads from it" in text_of(answer)


def test_a_migration_is_looked_at_and_then_done(house: House, client_of: ClientOf) -> None:
    run, approval = parked(house, note="<b>hello</b>")
    deploy(letters(1, First), second())
    client = client_of(house.olga)
    page = client.get(f"/runs/{run.pk}/migrate/")
    text = text_of(page)
    assert "from version 1 to 2" in text
    assert "3 differences" in text
    assert "&lt;b&gt;hello&lt;/b&gt;" in page.content.decode()
    run.refresh_from_db()
    token = re.search(r'name="form_token" value="([^"]+)"', page.content.decode())
    form = {
        "to": "2",
        "reason": "better",
        "version": str(run.version),
        "form_token": token[1] if token else "",
    }
    done = client.post(f"/runs/{run.pk}/migrate/", form)
    assert (done.status_code, done.headers["Location"]) == (303, f"/runs/{run.pk}/")
    run.refresh_from_db()
    approval.refresh_from_db()
    assert (run.workflow_version, approval.status) == ("2", "open")
    shown = text_of(client.get(f"/runs/{run.pk}/"))
    assert "is at version 2, by checkpoint 2" in shown
    assert "migrated, by olga" in text_of(client.get(f"/runs/{run.pk}/checkpoints/"))
    old = text_of(client.get(f"/runs/{run.pk}/checkpoints/1/"))
    assert "Stored as version 1" in old
    assert "remark" in text_of(client.get(f"/runs/{run.pk}/checkpoints/1/?show=state"))


def test_what_speaks_against_a_migration_stands_on_its_page(house: House, client_of: ClientOf) -> None:
    run, _ = parked(house)
    flow = second(leads=False, ask="confirm")
    flow.migrate(from_version=1)(lambda document: document)
    deploy(flow)
    text = text_of(client_of(house.olga).get(f"/runs/{run.pk}/migrate/"))
    assert "It cannot be migrated like this" in text
    assert "/remark" in text
    assert "Migrate to version" not in text


def test_a_migration_needs_a_reason_and_what_was_seen(house: House, client_of: ClientOf) -> None:
    run, _ = parked(house)
    deploy(second())
    client = client_of(house.olga)
    refused = client.post(f"/runs/{run.pk}/migrate/", {"to": "2", "reason": "", "version": str(run.version)})
    assert "Give a reason" in text_of(client.get(f"/runs/{run.pk}/")) or refused.status_code in (409, 422)
    stale = client.post(f"/runs/{run.pk}/migrate/", {"to": "2", "reason": "x", "version": "99"})
    assert stale.status_code == 409
    run.refresh_from_db()
    assert run.workflow_version == "1"


def test_versions_stand_side_by_side(house: House, client_of: ClientOf) -> None:
    parked(house)
    deploy(second())
    house.submit(NAME, remark="x")
    page = client_of(house.vera).get("/workflows/")
    text = text_of(page)
    assert f"{NAME} letters" in text
    assert "gone, a migration leads on" in text
    assert f"/runs/?workflow={NAME}&amp;version=1" in page.content.decode()
