"""C97: the page of a run of 20,000 events, 2,000 checkpoints of 50 kB, a payload of 5 MB and 500 sibling branches.

Each part costs the same few questions as that of a short run, sends little, and leads to all the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from runs import workflows
from runs.engine import Workflow
from runs.models import Run
from tests.browser.flows.workflows import asking
from tests.integration.core.conftest import House
from tests.kit.longrun import CHECKPOINTS, EVENTS, FIRST_ERROR, LARGE, PAYLOAD, SIBLINGS, lengthen

MOST_QUERIES = 12
MOST_SENT = 300_000  # bytes
ClientOf = Callable[..., Client]


@pytest.fixture
def flow() -> Workflow:
    made = asking("asked", quorum=2)
    workflows.register(made)
    return made


@pytest.fixture
def run(house: House, flow: Workflow) -> Iterator[Run]:
    found, _ = house.parked("asked", args={"n": 1}, title="A long one")
    lengthen(found)
    yield found
    workflows.unregister("asked")


class Asked:
    """What a page came to: its text, and what it cost."""

    def __init__(self, client: Client, path: str, **headers: str) -> None:
        with CaptureQueriesContext(connection) as captured:
            answer = client.get(path, headers=headers)
        assert answer.status_code == 200, answer
        self.queries, self.size = len(captured), len(answer.content)
        self.text = answer.content.decode()

    def seqs(self) -> list[int]:
        return [int(found) for found in re.findall(r'<tr id="event-(\d+)"', self.text)]


def test_every_part_is_small_and_cheap_and_leads_to_the_rest(
    house: House, run: Run, client_of: ClientOf
) -> None:
    """C97, all of its parts on one run, which takes a second to make."""
    client, root = client_of(house.olga), f"/runs/{run.pk}/"
    client.get("/tokens/")  # what the first request of a process caches
    parts = {
        "": "Waiting for finance (0 of 2)",
        "timeline/": f"of {EVENTS + 2}",
        "timeline/?from=7000": "failed",
        "checkpoints/": f"head {CHECKPOINTS}",
        "checkpoints/1000/?against=999": "Checkpoint 1000 against 999",
        "checkpoints/1000/?show=tree": "more: find in them",
        "checkpoints/1000/?find=line+77+of": "log.77",
        "branches/": "Older branches",
        "approvals/": "A long one",
        "effects/": "Older",
        "others/": "submitted by itself",
        "data/": "Input",
        "log/": "No node has said anything",
        "history/": "First error",
        "history/?node=node_7": "and more",
        "history/?find=NODE_59&kind=step_failed": "found",
        "evidence/": str(run.pk),
    }
    for path, said in parts.items():
        page = Asked(client, root + path)
        assert said in page.text, path
        assert page.queries <= MOST_QUERIES, (path, page.queries)
        assert page.size < MOST_SENT, (path, page.size)
        part = Asked(client, root + path, **{"HX-Request": "true", "HX-Target": "part"})
        assert part.queries <= page.queries, path
        live = Asked(client, root + path, **{"HX-Request": "true", "HX-Target": "live"})
        assert live.queries <= MOST_QUERIES, (path, live.queries)
    _the_history(client, root)
    _the_timeline(client, root)
    _the_checkpoints(client, root)
    _the_branches(client, root)


def _the_history(client: Client, root: str) -> None:
    newest = Asked(client, f"{root}history/")
    assert newest.seqs() == list(range(EVENTS, EVENTS - 100, -1))
    older = re.search(r'href="([^"]*before=[^"]*)">Older', newest.text)
    assert older is not None
    assert Asked(client, older[1]).seqs() == list(range(EVENTS - 100, EVENTS - 200, -1))
    jump = re.search(r'href="([^"#]*)(#[^"]*)"[^>]*><svg[^>]*><use[^>]*/></svg>First error', newest.text)
    assert jump is not None
    assert jump[2] == f"#event-{FIRST_ERROR}"
    assert FIRST_ERROR in Asked(client, jump[1]).seqs()
    of_step = Asked(client, f"{root}history/?node=node_7").seqs()
    assert len(of_step) == 100
    assert {seq % 60 for seq in of_step} == {7}
    assert Asked(client, f"{root}history/?kind=step_failed").seqs() == [15_000, FIRST_ERROR]
    assert "5.0 MB, not shown whole" in newest.text
    whole = client.get(f"{root}history/{LARGE}.json")
    assert len(json.loads(whole.content)["output"]) == PAYLOAD
    heard = {"HX-Request": "true", "HX-Target": "live"}
    added = Asked(client, f"{root}history/?seen={EVENTS - 3}&from={EVENTS - 99}", **heard)
    assert added.seqs() == [EVENTS, EVENTS - 1, EVENTS - 2]


def _the_timeline(client: Client, root: str) -> None:
    newest = Asked(client, f"{root}timeline/")
    assert newest.text.count('<li class="step') == 200
    assert newest.text.count('class="c-failed"') == 1
    column = re.search(r'<a href="([^"]*)"[^>]*><rect class="c-failed"', newest.text)
    assert column is not None
    there = Asked(client, column[1].replace("&amp;", "&"))
    assert "node_40" in there.text  # the one that failed is the 7,000th of 60 nodes in turn
    assert "Later" in there.text
    assert "Earlier" in there.text
    first = Asked(client, f"{root}timeline/?from=1")
    assert 'rel="prev"' not in first.text
    assert "waiting to try again" in first.text


def _the_checkpoints(client: Client, root: str) -> None:
    held = Asked(client, f"{root}checkpoints/1000/?against=990&show=difference").text
    assert "From <b>990</b> to <b>1000</b>" in held
    assert held.count('<div class="add"') == held.count('<div class="del"') == 1
    exact = client.get(f"{root}checkpoints/1000/state.json")
    assert json.loads(exact.content)["x"] == 1000
    assert client.get(f"{root}checkpoints/1000/?against=99999").status_code == 404


def _the_branches(client: Client, root: str) -> None:
    newest = Asked(client, f"{root}branches/").text
    assert f"Branch {SIBLINGS + 1}" in newest
    older = re.search(r'href="([^"]*)">Older branches', newest)
    assert older is not None
    assert f"Branch {SIBLINGS - 99}</b>" in Asked(client, older[1]).text
