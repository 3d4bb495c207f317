"""The list of runs. The page of one is in `run`, verbs for many in `bulk`, what people do to one in `steering` and `keeping`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext

from runs import cursors, policies, queries, runlists, saved, sights, store
from runs.engine.redaction import Sight
from runs.models import Run, SavedView
from runs.runlists import Listing, Place, RunFilter
from runs.templatetags import words
from runs.tongue import Words, number
from runs.web import filters, sentence, signs
from runs.web.addresses import addresses
from runs.web.door import Request, page
from runs.web.fragments import drawn
from runs.web.narrowing import Chip, View
from runs.web.run_page import Link

ROWS: Final = 50
VIEWS: Final[dict[str, RunFilter]] = {
    "all": RunFilter(),
    "running": RunFilter(status="running"),
    "waiting_for_people": RunFilter(waiting_for="approval"),
    "waiting_for_time": RunFilter(waiting_for="timer"),
    "retrying": RunFilter(status="retrying"),
    "stalled": RunFilter(status="stalled"),
    "needs_migration": RunFilter(waiting_for="needs_migration"),
    "paused": RunFilter(status="paused"),
    "failed": RunFilter(status="failed"),
    "completed": RunFilter(status="completed"),
    "cancelled": RunFilter(status="cancelled"),
}
NAMES: Final = Words(
    {
        "all": "All",
        "running": "Running",
        "waiting_for_people": "Waiting for people",
        "waiting_for_time": "Waiting for time",
        "retrying": "Retrying",
        "stalled": "Stalled",
        "needs_migration": "Needs migration",
        "paused": "Paused",
        "failed": "Failed",
        "completed": "Completed",
        "cancelled": "Cancelled",
    }
)


@dataclass(frozen=True, slots=True)
class At:
    """Which part of which list an address asks for."""

    which: RunFilter
    before: Place | None = None
    after: Place | None = None

    @classmethod
    def of(cls, request: Request) -> At:
        """What the address cannot mean is left out: a link of yesterday still leads somewhere."""
        told = {name: request.GET[name] for name in request.GET}
        return cls(RunFilter.of(told), _place(told.get("older_than", "")), _place(told.get("newer_than", "")))

    def rows(self, request: Request) -> Listing:
        return runlists.page(
            request.actor.project.pk, self.which, before=self.before, after=self.after, limit=ROWS
        )

    @property
    def query(self) -> str:
        """As an address says it, with its question mark; what an open page is kept up to date with."""
        ends = {"older_than": self.before, "newer_than": self.after}
        told = {**self.which.as_dict(), **{name: _text(place) for name, place in ends.items() if place}}
        return f"?{urlencode(told)}" if told else ""


@page()
def index(request: Request) -> HttpResponse:
    at = At.of(request)
    found = at.rows(request)
    mark = runlists.mark(found.rows)  # before what is hidden is taken out
    now = store.now()
    live = queries.live([run.pk for run in found.rows])
    sight_of = sights.of_many(request.actor, found.rows)
    for run in found.rows:
        hide(run, live[run.pk], sight_of(run))
    values, told = runlists.terms(found.rows), at.which.as_dict()
    shown = {
        "mark": mark,
        "query": at.query,
        "rows": _rows(found.rows, live, values, now),
        "count": _count(request, at, found),
        "newer": _beside(at, after=found.rows[0]) if found.rows and found.newer else "",
        "older": _beside(at, before=found.rows[-1]) if found.rows and found.older else "",
        "newest": url_of(at.which) if at.before or at.after else "",
        "full": found.older,
        "here": reverse("runs") + at.query,
        "narrowed": bool(told),
        "save": f"{reverse('views')}?{urlencode({'page': 'runs', **told})}",
        "saved_of": "runs",
        "verbs": _verbs(request),
        "exports": _exports(at.which),
        "may_start": policies.can_submit(request.actor),
        "nothing": _nothing(at),
        "saved": [_saved(view, at.which) for view in saved.of(request.actor, "runs")],
        **_narrowing(at.which),
    }
    return drawn(request, {"page": shown, "now": now}, "runs/runs.html", "runs/_runs.html")


def url_of(which: RunFilter) -> str:
    told = which.as_dict()
    return reverse("runs") + (f"?{urlencode(told)}" if told else "")


def hide(run: Run, live: queries.Live, sight: Sight) -> None:
    """What is hidden from a reader is taken out of what was read."""
    sights.run(run, sight)
    sights.live(live.steps, live.approvals, sight)


# ---- what is shown


def _rows(
    found: Sequence[Run],
    live: Mapping[UUID, queries.Live],
    values: Mapping[UUID, Mapping[str, str]],
    now: datetime,
) -> list[dict[str, Any]]:
    address = addresses("run")
    return [
        {
            "id": str(run.pk),
            "short": words.short_id(run.pk, "R-"),
            "url": address(run.pk),
            "workflow": run.workflow,
            "node": _node(run, live[run.pk]),
            "found_by": _found_by(run, values.get(run.pk, {})),
            "created_at": run.created_at,
            **_status(run, live[run.pk], now),
        }
        for run in found
    ]


def _status(run: Run, live: queries.Live, now: datetime) -> dict[str, Any]:
    said = sentence.of_run(run, now=now, steps=live.steps, waits=live.waits, approvals=live.approvals)
    return {"sign": said.sign, "why": said.text}


def _node(run: Run, live: queries.Live) -> str:
    nodes = list(dict.fromkeys(step.node for step in live.steps))
    return words.listing(nodes) or (
        gettext("end") if run.status == "completed" else str((run.error or {}).get("step", ""))
    )


def _found_by(run: Run, values: Mapping[str, str]) -> list[Chip]:
    labels = [
        Chip(name, value, url_of(RunFilter(label=f"{name}={value}"))) for name, value in run.labels.items()
    ]
    fields = [
        Chip(name, value, url_of(RunFilter(state=f"{name}={value}")))
        for name, value in values.items()
        if run.labels.get(name) != value  # a label says it already
    ]
    return [*labels, *fields]


def _verbs(request: Request) -> dict[str, str]:
    mine = policies.verbs_for_many(request.actor)
    return {verb: word for verb, word in signs.BULK.items() if verb in mine}


def _narrowing(which: RunFilter) -> dict[str, Any]:
    """Tabs, chips and the form: three ways to say the same filter."""
    rest = replace(which, status="", waiting_for="")
    views = [
        View(
            NAMES[name],
            url_of(replace(rest, status=view.status, waiting_for=view.waiting_for)),
            _is(which, view),
        )
        for name, view in VIEWS.items()
    ]
    tab = next((view for view in VIEWS.values() if view != RunFilter() and _is(which, view)), None)
    left = rest if tab else which
    return {
        "views": views,
        "which": which,
        "chips": filters.chips(
            left, url=lambda name: url_of(replace(which, **{name: filters.nothing(name)}))
        ),
        "filters": filters.fields(which),
        "carried": {name: value for name, value in which.as_dict().items() if name not in filters.SHOWN},
    }


def _saved(view: SavedView, which: RunFilter) -> View:
    kept = RunFilter.of(view.query)
    return View(view.name, url_of(kept), kept == which, shared=view.team_id is not None)


def _is(which: RunFilter, view: RunFilter) -> bool:
    return (which.status, which.waiting_for) == (view.status, view.waiting_for)


def _count(request: Request, at: At, found: Listing) -> str:
    """How many match: those that are shown, if that is all of them, else counted to a thousand."""
    if not found.newer and not found.older:
        return str(len(found.rows))
    count = runlists.count(request.actor.project.pk, at.which)
    return f"{number(runlists.COUNTED)}+" if count > runlists.COUNTED else number(count)


def _nothing(at: At) -> str:
    if at.before or at.after:
        return gettext("There are no runs beyond these.")
    return gettext("No run is like this.") if at.which.as_dict() else gettext("No run was submitted yet.")


def _exports(which: RunFilter) -> list[Link]:
    """The same filter, as the API names it."""
    told = which.as_dict()
    if which.version:
        told["workflow_version"] = told.pop("version")
    for name in ("created_from", "created_until"):
        moment = getattr(which, name)
        if moment:
            told[name] = moment.astimezone(UTC).isoformat()
    address = reverse("api runs/export")
    return [
        Link(word, f"{address}?{urlencode({**told, 'format': kind})}")
        for word, kind in (("CSV", "csv"), ("JSON", "json"))
    ]


# ---- where a page begins


def _beside(at: At, *, before: Run | None = None, after: Run | None = None) -> str:
    place = At(
        at.which,
        before=runlists.place_of(before) if before else None,
        after=runlists.place_of(after) if after else None,
    )
    return reverse("runs") + place.query


def _text(place: Place) -> str:
    moment, last = place
    return f"{moment.isoformat()}.{last.hex}"


def _place(text: str) -> Place | None:
    moment, _, last = text.rpartition(".")
    try:
        return cursors.moment(moment).astimezone(UTC), UUID(last)
    except (ValueError, OverflowError):
        return None
