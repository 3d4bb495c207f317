"""PATCH /api/v1/runs/{id}/state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runs.engine import Workflow
from runs.models import Approval, Checkpoint, Event, Run
from tests.integration.api.conftest import Api, House, denials, open_approval, pay_flow, token_of


@pytest.fixture
def parked(house: House, define: Callable[..., Workflow]) -> Approval:
    pay_flow(define("pays"))
    _, approval = house.parked("pays", x={"id": 9007199254740993, "note": "x"})
    return approval


def edit(api: Api, run: Any, **body: Any) -> Any:
    return api.patch(f"runs/{run}/state", body)


def test_an_edit_is_a_checkpoint_with_author_and_reason(house: House, olga: Api, parked: Approval) -> None:
    """C03: only what was changed is another; the digits stay."""
    run = parked.run
    run.refresh_from_db()
    reply = edit(
        olga,
        run.pk,
        version=run.version,
        changes={"x": {"id": 9007199254740993, "note": "y"}},
        reason="they called",
    )
    assert reply.status == 200
    assert reply.body["version"] > run.version
    head = olga.get(f"runs/{run.pk}/checkpoints/{reply.body['head_checkpoint']}").body
    assert (head["kind"], head["author"]["name"], head["reason"]) == ("edit", "olga", "they called")
    assert [op["path"] for op in head["patch"]] == ["/x/note"]
    house.work(run)
    assert open_approval(run).content["actions"][0]["args"] == {
        "amount": {"id": 9007199254740993, "note": "y"}
    }


def test_a_stale_version_is_refused_and_nothing_is_lost(house: House, olga: Api, parked: Approval) -> None:
    """C57."""
    run = Run.objects.get(pk=parked.run_id)
    first = edit(olga, run.pk, version=run.version, changes={"x": 10}, reason="a")
    stale = edit(olga, run.pk, version=run.version, changes={"x": 5}, reason="b")
    assert (stale.status, stale.code, stale.body["version"]) == (409, "stale_version", first.body["version"])
    by_header = olga.patch(
        f"runs/{run.pk}/state", {"changes": {"x": 5}, "reason": "b"}, If_Match=f'"{run.version}"'
    )
    assert (by_header.status, by_header.code) == (412, "stale_version")
    assert olga.get(f"runs/{run.pk}").body["state"]["x"] == 10


def test_without_a_version_nothing_is_edited(olga: Api, parked: Approval) -> None:
    """C57."""
    reply = edit(olga, parked.run_id, changes={"x": 5}, reason="b")
    assert (reply.status, reply.code) == (428, "version_required")


def test_each_edit_is_one_event(olga: Api, parked: Approval) -> None:
    """C57."""
    run = Run.objects.get(pk=parked.run_id)
    edit(olga, run.pk, version=run.version, changes={"x": 10}, reason="a")
    assert Event.objects.filter(run=run, kind="state_edited").count() == 1


@pytest.mark.parametrize(
    ("changes", "status"),
    [({}, 400), ({"unknown": 1}, 422), ({"log": "no list"}, 422), ([], 400), (None, 400)],
)
def test_an_edit_that_does_not_fit_is_refused(olga: Api, parked: Approval, changes: Any, status: int) -> None:
    run = Run.objects.get(pk=parked.run_id)
    reply = edit(olga, run.pk, version=run.version, changes=changes, reason="a")
    assert reply.status == status
    if status == 422:
        assert reply.code == "schema_violation"
        assert reply.body["errors"][0]["in"] == "changes"
    assert Checkpoint.objects.filter(kind="edit").count() == 0


@pytest.mark.parametrize("depth", [101, 1_000, 200_000])
def test_a_state_deeper_than_a_hundred_levels_is_refused(olga: Api, parked: Approval, depth: int) -> None:
    """C11."""
    raw = f'{{"version": 3, "reason": "a", "changes": {{"x": {"[" * depth + "]" * depth}}}}}'
    reply = olga.ask("PATCH", f"runs/{parked.run_id}/state", raw=raw)
    assert (reply.status, reply.codes) == (400, ["too_deep"])


@pytest.mark.parametrize(("value", "code"), [("NaN", "non_finite_number"), (r'"\u0000"', "nul_character")])
def test_a_state_that_cannot_be_kept_is_refused(olga: Api, parked: Approval, value: str, code: str) -> None:
    """C01 b, C02."""
    raw = f'{{"version": 3, "reason": "a", "changes": {{"x": [{value}]}}}}'
    reply = olga.ask("PATCH", f"runs/{parked.run_id}/state", raw=raw)
    assert (reply.status, reply.codes, reply.paths) == (400, [code], ["/x/0"])


def test_a_change_may_be_larger_than_an_input(olga: Api, parked: Approval) -> None:
    run = Run.objects.get(pk=parked.run_id)
    assert edit(olga, run.pk, version=run.version, changes={"x": "x" * 2**21}, reason="a").status == 200


def test_an_empty_reason_is_refused(olga: Api, parked: Approval) -> None:
    run = Run.objects.get(pk=parked.run_id)
    assert edit(olga, run.pk, version=run.version, changes={"x": 1}, reason=" ").code == "reason_required"


def test_an_ended_run_is_not_edited(house: House, olga: Api) -> None:
    run = house.work(house.submit("echo"))
    reply = edit(olga, run.pk, version=run.version, changes={"name": "y"}, reason="a")
    assert (reply.status, reply.code) == (409, "already_terminal")


def test_a_viewer_may_not_edit(house: House, vera: Api, parked: Approval) -> None:
    run = Run.objects.get(pk=parked.run_id)
    assert edit(vera, run.pk, version=run.version, changes={"x": 1}, reason="a").code == "forbidden"
    assert denials() == [("vera", "edit_state", "denied: forbidden")]
    without = Api(token_of(house.olga, ["runs:read"]))
    assert edit(without, run.pk, version=run.version, changes={"x": 1}, reason="a").code == "missing_scope"
