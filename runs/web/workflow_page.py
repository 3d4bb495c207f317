"""One workflow: its picture, how its runs and its nodes do, its versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext, pgettext

from runs import policies, queries, workflows
from runs.engine import Workflow
from runs.errors import NotFound
from runs.stats import Node, Overview
from runs.templatetags import words
from runs.tongue import number
from runs.web import charts, dashboard, picture, ways
from runs.web.door import Request, page
from runs.web.versions import row_of


@page()
def show(request: Request, name: str) -> HttpResponse:
    policies.check_stats(request.actor)
    versions = queries.versions(request.actor.project.pk, name).get(name)
    if not versions:
        raise NotFound()
    newest = next((flow for flow in workflows.every() if flow.name == name), None)
    shown = dashboard.shown_of(request, here=reverse("workflow", args=[name]), workflow=name)
    found: Overview = shown["found"]
    shown |= {
        "name": name,
        "title": newest.title if newest else "",
        "versions": [row_of(version) for version in versions],
        "picture": picture.build(newest, tallies(found.nodes), ended=found.whole.ended > 0)
        if newest
        else None,
        "nodes": in_order(newest, found.nodes),
        "took": charts.latencies({pgettext("run", "whole"): found.took, **_slowest(found.nodes)}),
        "runs_of": [
            (word, f"{reverse('runs')}?{urlencode({'workflow': name, **told})}")
            for word, told in (
                (gettext("All runs"), {}),
                (gettext("Waiting"), {"status": "waiting"}),
                (gettext("Failed"), {"status": "failed"}),
            )
        ],
    }
    context = {"page": shown, "now": shown["now"], "fragment": "workflows/_workflow.html"}
    live = request.htmx.target == "live"
    return render(request, "runs/_live.html" if live else "workflows/workflow.html", context)


def tallies(nodes: Mapping[str, Node]) -> dict[str, picture.Tally]:
    """How the nodes of the outermost workflow did, for the picture: how long half of their visits took at most."""
    return {
        name: picture.Tally("done" if node.took.count else "failed", node.took.count, _said(node))
        for name, node in nodes.items()
        if "/" not in name
    }


def _said(node: Node) -> str:
    half = f"p50 {words.about(node.took.p50)}" if node.took.p50 is not None else ""
    failed = gettext("{failed} failed").format(failed=number(node.failed)) if node.failed else ""
    return ", ".join(part for part in (half, failed) if part)


def in_order(workflow: Workflow | None, nodes: Mapping[str, Node]) -> list[Node]:
    """As one comes to them; nodes that the newest version does not have come last."""
    places = ways.order_of(workflow)
    return sorted(nodes.values(), key=lambda node: (places.get(node.name, len(places)), node.name))


def _slowest(nodes: Mapping[str, Node]) -> dict[str, Any]:
    rows = sorted(nodes.values(), key=lambda node: -(node.took.p95 or 0.0))
    return {node.name: node.took for node in rows[: dashboard.SHOWN] if node.took.count}
