"""POST /api/v1/runs/{id}/retry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runs import workflows
from runs.engine import START, Workflow
from runs.models import Event, Run, Step
from tests.integration.api.conftest import Api, House, denials, token_of


@pytest.fixture
def broken() -> dict[str, bool]:
    return {"B": True}


@pytest.fixture
def failed(house: House, define: Callable[..., Workflow], broken: dict[str, bool]) -> Run:
    """A and C are done, B has failed, J has not run."""
    flow = define("fragile")

    @flow.node(name="B")
    def breaks(state: Any, ctx: Any) -> dict[str, Any]:
        if broken["B"]:
            raise RuntimeError("not yet")
        return {"x": ctx.attempt}

    for name in ("start", "A", "C", "J"):
        flow.node(name=name)(lambda state, ctx: None)
    flow.edge(START, "start")
    for name in "ABC":
        flow.edge("start", name)
        flow.edge(name, "J")
    workflows.register(flow)
    run = house.submit("fragile")
    for name in ("start", "C", "A", "B"):  # B last: what is left when it fails would not have begun
        house.advance(run, name)
    return house.work(run)


def test_only_what_failed_or_had_not_run_is_run(
    house: House, olga: Api, failed: Run, broken: dict[str, bool]
) -> None:
    """C22."""
    assert failed.status == "failed"
    broken["B"] = False
    reply = olga.post(f"runs/{failed.pk}/retry", {"reason": "the flag is set"})
    assert (reply.status, reply.body["status"], reply.body["finished_at"]) == (202, "queued", None)
    assert reply.headers["Hitl-Run-Status"] == "queued"
    house.work(failed)
    assert olga.get(f"runs/{failed.pk}").body["output"]["x"] == 2
    entries = dict(Step.objects.filter(run=failed).values_list("node", "entries"))
    assert entries == {"start": 1, "A": 1, "B": 2, "C": 1, "J": 1}
    event = Event.objects.get(run=failed, kind="run_retried")
    assert '"the flag is set"' in str(event.payload)


def test_a_run_that_has_not_failed_is_not_retried(house: House, olga: Api) -> None:
    run = house.submit("echo")
    queued = olga.post(f"runs/{run.pk}/retry")
    assert (queued.status, queued.code) == (409, "event_not_allowed")
    house.work(run)
    completed = olga.post(f"runs/{run.pk}/retry")
    assert (completed.status, completed.code) == (409, "already_terminal")


def test_a_stale_version_is_refused(olga: Api, failed: Run) -> None:
    stale = olga.post(f"runs/{failed.pk}/retry", {"version": failed.version - 1})
    assert (stale.status, stale.code, stale.body["version"]) == (409, "stale_version", failed.version)
    by_header = olga.post(f"runs/{failed.pk}/retry", {}, If_Match=f'"{failed.version - 1}"')
    assert by_header.status == 412


def test_retrying_is_for_operators(house: House, failed: Run, vera: Api, frida: Api, outsider: Api) -> None:
    assert vera.post(f"runs/{failed.pk}/retry").code == "forbidden"
    assert frida.post(f"runs/{failed.pk}/retry").code == "forbidden"
    assert outsider.post(f"runs/{failed.pk}/retry").status == 404
    without = Api(token_of(house.olga, ["runs:read"]))
    assert without.post(f"runs/{failed.pk}/retry").code == "missing_scope"
    assert [entry[:2] for entry in denials()][:2] == [("vera", "retry"), ("frida", "retry")]
    failed.refresh_from_db()
    assert failed.status == "failed"
