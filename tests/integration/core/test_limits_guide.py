"""docs/limits.md: its code blocks run, and come to what the text says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from runs.models import Run
from tests.integration.core.conftest import House
from tests.kit.guides import shown


@pytest.fixture
def guide() -> Iterator[dict[str, Any]]:
    with shown("limits") as names:
        yield names


def let_in(house: House, workflow: str, *inputs: dict[str, Any]) -> list[bool]:
    """Which of these submissions are let in at once."""
    runs = [house.submit(workflow, **given).pk for given in inputs]
    found = {run.pk: run.admitted_at is not None for run in Run.objects.filter(pk__in=runs)}
    return [found[run_id] for run_id in runs]


def test_what_the_guide_says_of_limits(house: House, guide: dict[str, Any]) -> None:
    acme, zeta = {"customer": "acme"}, {"customer": "zeta"}
    assert let_in(house, "film", acme, acme, acme) == [True, True, False]
    assert let_in(house, "per_customer", acme, acme, zeta) == [True, False, True]
    assert let_in(house, "both", {**acme, "scenes": 101}, {**zeta, "scenes": 102}, zeta) == [
        True,
        False,
        True,
    ]
    assert let_in(house, "mailing", *([acme] * 101), zeta) == [True] * 100 + [False, True]
    assert let_in(house, "heavy", acme) == [True]
    assert Run.objects.get(workflow="heavy").queue == "gpu"
    assert house.submit("urgent", customer="acme").priority == 50


def test_a_licence_is_held_for_the_whole_run(guide: dict[str, Any]) -> None:
    (limit,) = guide["licensed"].limits
    assert limit.holds == "run"
