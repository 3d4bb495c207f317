"""POST /api/v1/runs/{id}/migrate and what the API says of versions (C80, C84 a)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import pytest

from runs import operations
from runs.engine import Sensitive
from runs.errors import NeedsMigration
from runs.models import Run, WorkerChild
from tests.integration.api.conftest import Api, House, every_row
from tests.integration.core.conftest import by_sql
from tests.kit.letters import NAME, First, deploy, forgotten, letters, parked, second


@pytest.fixture(autouse=True)
def only_here(house: House) -> Iterator[None]:
    with forgotten():
        yield


def test_a_preview_shows_what_a_migration_would_come_to_and_writes_nothing(house: House, olga: Api) -> None:
    run, _ = parked(house, note="hello")
    deploy(letters(1, First), second())
    before = every_row()
    reply = olga.post(f"runs/{run.pk}/migrate/preview", {})
    assert reply.status == 200
    assert (reply.body["way"], reply.body["next"]) == (["1", "2"], ["ask"])
    assert reply.body["before"] == {"log": ["begin 1"], "note": "hello"}
    assert reply.body["state"] == {"log": ["begin 1"], "remark": "hello", "risk": "low"}
    assert {"op": "remove", "path": "/note"} in reply.body["patch"]
    assert every_row() == before
    done = olga.post(
        f"runs/{run.pk}/migrate", {"to": "2", "reason": "better", "version": reply.body["version"]}
    )
    assert (done.status, done.body["workflow_version"], done.body["status"]) == (202, "2", "waiting")
    kinds = [one["kind"] for one in olga.get(f"runs/{run.pk}/checkpoints").body["items"]]
    assert kinds == ["input", "step", "migration"]


def test_what_speaks_against_it_is_told_by_code_and_pointer(house: House, olga: Api) -> None:
    run, _ = parked(house)
    deploy(second(leads=False))
    missing = olga.post(f"runs/{run.pk}/migrate", {"reason": "x"})
    assert (missing.status, missing.code) == (409, "migration_missing")
    flow = second(leads=False)
    flow.migrate(from_version=1)(lambda document: document)
    deploy(flow)
    failed = olga.post(f"runs/{run.pk}/migrate/preview", {})
    assert (failed.status, failed.code) == (409, "migration_failed")
    assert set(failed.paths) == {"/remark", "/note"}
    unknown = olga.post(f"runs/{run.pk}/migrate", {"to": "1", "reason": "x"})
    assert (unknown.status, unknown.code) == (409, "unknown_version")
    stale = olga.post(f"runs/{run.pk}/migrate", {"reason": "x", "version": 99})
    assert (stale.status, stale.code) == (409, "stale_version")
    assert olga.post(f"runs/{run.pk}/migrate", {"reason": " "}).code == "reason_required"


def test_migrating_is_for_operators(house: House, olga: Api, frida: Api, vera: Api, outsider: Api) -> None:
    run, _ = parked(house)
    deploy(second())
    for path, body in (("migrate", {"reason": "x"}), ("migrate/preview", {})):
        assert frida.post(f"runs/{run.pk}/{path}", body).code == "forbidden"
        assert vera.post(f"runs/{run.pk}/{path}", body).code == "forbidden"
        assert outsider.post(f"runs/{run.pk}/{path}", body).code == "not_found"


def test_c84_whoever_only_looks_sees_the_migrated_state_and_changes_nothing(house: House, vera: Api) -> None:
    run, _ = parked(house, note="hello")
    deploy(second())
    before = every_row()
    shown = vera.get(f"runs/{run.pk}").body
    assert (shown["state"]["remark"], shown["stored_as"], shown["workflow_version"]) == ("hello", "1", "1")
    point = vera.get(f"runs/{run.pk}/checkpoints/0").body
    assert (point["state"]["remark"], point["stored_as"], point["not_migrated"]) == ("hello", "1", "")
    assert vera.get(f"runs/{run.pk}/compare").status == 200
    assert every_row() == before
    deploy(letters(1, First), second())
    assert vera.get(f"runs/{run.pk}").body["stored_as"] == ""
    assert vera.get(f"runs/{run.pk}").body["state"]["note"] == "hello"


def test_what_cannot_be_migrated_is_shown_as_it_is_stored_and_says_so(house: House, vera: Api) -> None:
    run, _ = parked(house, note="hello")
    flow = second(leads=False)
    flow.migrate(from_version=1)(lambda document: {"log": document["missing"]})
    deploy(flow)
    point = vera.get(f"runs/{run.pk}/checkpoints/1").body
    assert point["state"]["note"] == "hello"
    assert (point["stored_as"], "KeyError" in point["not_migrated"]) == ("1", True)


class Kept(First):
    note: Annotated[str, Sensitive("operator")] = ""


def test_what_a_migration_quotes_of_a_state_is_hidden_with_it(house: House, olga: Api, vera: Api) -> None:
    deploy(letters(1, Kept))
    run, approval = house.parked(NAME, note="DE02 1203")
    flow = second(leads=False)

    @flow.migrate(from_version=1)
    def raises(document: dict[str, Any]) -> dict[str, Any]:
        raise ValueError(f"cannot read {document['note']}")

    deploy(flow)
    with pytest.raises(NeedsMigration):
        house.answer(approval, "approve")
    places = [f"runs/{run.pk}", "runs", f"runs/{run.pk}/checkpoints/1"]
    for place in places:
        assert "DE02" in olga.get(place).text, place
        assert "DE02" not in vera.get(place).text, place
    [told] = [one for one in vera.get("runs").body["items"][0]["waiting_for"] if "code" in one]
    assert (told["code"], told["detail"]) == ("migration_failed", "(redacted)")


def test_a_decision_without_code_is_a_conflict_and_the_run_is_found_by_a_filter(
    house: House, olga: Api, frida: Api
) -> None:
    run, approval = parked(house)
    other = house.submit("echo")
    deploy(second(leads=False))
    reply = frida.post(f"approvals/{approval.pk}/decide", {"version": 1, "type": "approve"})
    assert (reply.status, reply.code) == (409, "migration_missing")
    found = olga.get("runs?waiting_for=needs_migration").body["items"]
    assert [one["id"] for one in found] == [str(run.pk)]
    assert found[0]["waiting_for"][1]["code"] == "migration_missing"
    assert found[0]["waiting_for"][1]["version"] == "1"
    assert str(other.pk) not in str(found)
    assert olga.get(f"runs?workflow={NAME}&workflow_version=1").body["items"][0]["id"] == str(run.pk)
    assert olga.get("runs?waiting_for=anything").status == 400


def test_versions_stand_side_by_side_with_their_live_runs(house: House, olga: Api) -> None:
    parked(house)
    deploy(second())
    house.submit(NAME, remark="x")
    flow = second()
    code = {"has": [[NAME, "2", flow.fingerprint]], "takes": []}
    WorkerChild.objects.create(host="h", pid=1, code=code)
    [told] = [one for one in olga.get("workflows?versions=true").body["items"] if one["name"] == NAME]
    assert [(row["version"], row["live_runs"]) for row in told["versions"]] == [("2", 1), ("1", 1)]
    newest, old = told["versions"]
    assert (newest["is_newest"], newest["is_here"], newest["has_worker"]) == (True, True, True)
    assert (old["is_newest"], old["is_here"], old["has_worker"], old["leads_to"]) == (
        False,
        False,
        False,
        ["2"],
    )
    assert "versions" not in olga.get("workflows").body["items"][0]


def test_a_refused_registration_is_told_with_what_was_different(house: House, olga: Api) -> None:
    run, _ = parked(house)
    deploy(letters(1, First, ask="confirm"))
    with pytest.raises(SystemExit):
        operations.register_or_stop()
    [told] = [one for one in olga.get("workflows?versions=true").body["items"] if one["name"] == NAME]
    assert "node ask is now confirm (renamed?)" in told["versions"][0]["refused"]["changes"]
    by_sql("UPDATE runs_run SET updated_at = now() - interval '1 hour'")
    house.sweep()
    reasons = {reason["kind"]: reason for reason in Run.objects.get(pk=run.pk).waiting_for}
    assert reasons["needs_migration"]["code"] == "graph_changed_without_version"
    assert olga.post("runs", {"workflow": NAME, "input": {}}).code in (
        "forbidden",
        "graph_changed_without_version",
    )
