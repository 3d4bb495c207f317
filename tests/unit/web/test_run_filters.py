"""The filter of the list of runs, as an address says it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from runs import runlists
from runs.operations.viewing import faults
from runs.runlists import STARTED, STATUSES, WAITS, RunFilter
from runs.web import filters

TEXT = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=200
).map(str.strip)
ADDRESS = st.fixed_dictionaries(
    {},
    optional={
        "status": st.sampled_from(STATUSES),
        "waiting_for": st.sampled_from(WAITS),
        "started": st.sampled_from(sorted(STARTED)),
        "created_from": st.dates().map(str) | st.datetimes(timezones=st.just(UTC)).map(datetime.isoformat),
        **dict.fromkeys(("q", "workflow", "version", "queue", "limit_key", "label", "state", "error"), TEXT),
    },
)


@pytest.fixture(autouse=True)
def elsewhere() -> Iterator[None]:
    with timezone.override(ZoneInfo("Europe/Berlin")):
        yield


@given(ADDRESS)
def test_an_address_means_the_same_when_it_is_said_again(told: dict[str, str]) -> None:
    which = RunFilter.of(told)
    assert RunFilter.of(which.as_dict()) == which
    assert faults("runs", which.as_dict()) == []
    assert {chip.url for chip in filters.chips(which, url=str)} == set(which.as_dict())
    shown = {field.name: field.value for field in filters.fields(which) if field.value}
    assert {**shown, **({"q": which.q} if which.q else {})} == which.as_dict()


@given(
    st.dictionaries(st.text(max_size=12) | st.sampled_from(runlists.NAMES), st.text(max_size=500), max_size=5)
)
def test_no_address_is_too_odd_to_be_read(told: dict[str, str]) -> None:
    which = RunFilter.of(told)
    assert RunFilter.of(which.as_dict()) == which
    if not faults("runs", told):
        assert set(which.as_dict()) <= set(told)


def test_a_day_begins_and_ends_on_the_readers_clock() -> None:
    which = RunFilter.of({"created_from": "2026-07-01", "created_until": "2026-07-01"})
    assert which.created_from == datetime(2026, 6, 30, 22, tzinfo=UTC)
    assert which.created_until == datetime(2026, 7, 1, 22, tzinfo=UTC), "all of the last day"
    assert which.as_dict() == {"created_from": "2026-07-01", "created_until": "2026-07-01"}
    exact = RunFilter.of({"created_from": "2026-07-01T10:30:00+00:00"})
    assert exact.as_dict() == {"created_from": "2026-07-01T10:30:00+00:00"}


def test_what_a_saved_view_may_not_say_is_told_by_name() -> None:
    told = {
        "status": "asleep",
        "nonsense": "1",
        "created_from": "soon",
        "label": "x" * 401,
        "workflow": "refund",
    }
    assert [(one.path, one.code) for one in faults("runs", told)] == [
        ("/nonsense", "unknown_field"),
        ("/status", "invalid_value"),
        ("/created_from", "invalid_value"),
        ("/label", "invalid_value"),
    ]
