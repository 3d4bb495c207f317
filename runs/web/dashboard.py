"""How much goes through, how long people take, what fails, what it costs: the dashboard, and the same of one workflow."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext

from runs import policies, queries, stats, store
from runs.stats import Bar, Open, Overview
from runs.templatetags import words
from runs.tongue import Words, number
from runs.web import charts
from runs.web.charts import Length
from runs.web.door import Request, page
from runs.web.timeline import spent_text

SHOWN: Final = 12  # rows of a picture; the table under it has all
OUTCOMES: Final = Words(
    {
        "approve": "approved as asked",
        "edit": "approved, edited",
        "reject": "rejected",
        "respond": "answered",
        "mixed": "partly approved",
        "timeout": "by the clock",
    }
)


@page()
def dashboard(request: Request) -> HttpResponse:
    """Everybody of the project sees it: it names workflows, nodes, teams and error codes, and nothing of what is in a run."""
    policies.check_stats(request.actor)
    shown = shown_of(request, here=reverse("dashboard"), workflow=request.GET.get("workflow", "")[:100])
    context = {"page": shown, "now": shown["now"], "fragment": "dashboard/_dashboard.html"}
    live = request.htmx.target == "live"
    return render(request, "runs/_live.html" if live else "dashboard/dashboard.html", context)


def shown_of(request: Request, *, here: str, workflow: str = "") -> dict[str, Any]:
    """What the pictures are drawn from. here: the address of the page, which keeps its filter in its links."""
    project, now = request.actor.project.pk, store.now()
    wanted = stats.RANGES.get(request.GET.get("range", ""), stats.RANGES[stats.DEFAULT])
    found = stats.overview(project, wanted, workflow=workflow, now=now)
    opened = stats.open_now(project, now, workflow=workflow)
    return {
        "now": now,
        "here": _address(here, wanted.name, request),
        "mark": mark(found.until, queries.approvals_mark(project)),
        "ranges": [
            {"words": one.words, "url": _address(here, one.name, request), "current": one is wanted}
            for one in stats.RANGES.values()
        ],
        "workflow": workflow,
        "workflows": queries.workflow_names(),
        "found": found,
        "opened": opened,
        "tiles": tiles(found, opened),
        **pictures(found, opened),
    }


def _address(here: str, name: str, request: Request) -> str:
    told = {"range": name}
    if request.GET.get("workflow"):
        told["workflow"] = request.GET["workflow"]
    return f"{here}?{urlencode(told)}"


def mark(until: datetime | None, approvals: str) -> str:
    """Changes whenever the page would read otherwise; time alone is no change."""
    return f"{until.timestamp() if until else 0:.0f}-{approvals}"


# ---- tiles


def tiles(found: Overview, opened: Open) -> list[dict[str, str]]:
    whole, decisions = found.whole, found.decisions
    answered = sum(count for outcome, count in found.outcomes.items() if outcome != "timeout")
    return [
        {
            "name": gettext("Open approvals"),
            "value": number(opened.count) + ("+" if opened.more else ""),
            "note": gettext("{today} due within a day, {late} past due").format(
                today=number(opened.today), late=number(opened.late)
            ),
        },
        {
            "name": gettext("Asked to decided, p50"),
            "value": words.about(decisions.p50) if decisions.p50 is not None else gettext("none yet"),
            "note": f"p95 {words.about(decisions.p95)}" if decisions.p95 is not None else "",
        },
        {
            "name": gettext("Runs ended"),
            "value": number(whole.ended),
            "note": gettext("{begun} begun; {ended} ended in the {span} before").format(
                begun=number(whole.begun), ended=number(found.before.ended), span=found.range.words
            ),
        },
        {
            "name": gettext("Failed"),
            "value": number(whole.failed),
            "note": _compared(whole, found.before),
            "tone": "red" if _is_worse(whole, found.before) else "",
        },
        {
            "name": gettext("Edited by people"),
            "value": _percent(found.outcomes["edit"], answered),
            "note": gettext("of {decisions}; {percent} rejected").format(
                decisions=words.some(answered, "{count} decision", "{count} decisions"),
                percent=_percent(found.outcomes["reject"], answered),
            ),
        },
    ]


def _compared(now: Bar, before: Bar) -> str:
    if now.failing is None:
        return gettext("nothing has ended")
    was = (
        "" if before.failing is None else gettext(", was {share}").format(share=words.percent(before.failing))
    )
    return gettext("{share} of what ended{was}").format(share=words.percent(now.failing), was=was)


def _is_worse(now: Bar, before: Bar) -> bool:
    return (now.failing or 0.0) > 2 * (before.failing or 0.0) and now.failed > 1


def _percent(part: int, whole: int) -> str:
    return words.percent(part / whole) if whole else gettext("none")


# ---- pictures


def pictures(found: Overview, opened: Open) -> dict[str, Any]:
    return {
        "runs": charts.runs_over_time(found.bars, found.range),
        "steps": charts.steps_over_time(found.bars, found.range),
        "bars": list(zip(charts.spans(found.bars, found.range), found.bars, strict=True)),
        "teams": charts.latencies(dict(list(found.teams.items())[:SHOWN]), nobody=gettext("any reviewer")),
        "outcomes": [(OUTCOMES.get(name, name), count) for name, count in found.outcomes.most_common()],
        "ages": ages(opened),
        "failures": failures(found),
        "usage": [(name, spent_text(spent)) for name, spent in sorted(found.usage.items())],
        "spent": spent_text(found.spent),
    }


def ages(opened: Open) -> list[Length]:
    most = max(count for _, count in opened.ages)
    tones = ("t", "t", "t", "w", "f")
    return [
        Length(name, count, charts.share_of(count, most), tone)
        for (name, count), tone in zip(opened.ages, tones, strict=True)
    ]


def failures(found: Overview) -> list[Length]:
    """By workflow and error code, the most first; each leads to the runs."""
    most = max((one.count for one in found.failures), default=0)
    return [
        Length(
            words.cut(one.code or gettext("unknown"), 40),
            one.count,
            charts.share_of(one.count, most),
            "f",
            "" if found.workflow else one.workflow,
            f"{reverse('runs')}?{urlencode({'status': 'failed', 'workflow': one.workflow, 'error': one.code})}",
        )
        for one in found.failures
    ]
