"""One verb for many runs: a look at what would come of it, then what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse

from runs import operations, sights, store
from runs.errors import BadRequest, HitlError, Told
from runs.operations import Bulk, Item, Order
from runs.runlists import RunFilter
from runs.templatetags import words
from runs.tongue import said
from runs.web import filters, once, signs
from runs.web.door import Request, identity, number, page, see_other
from runs.web.runs import url_of
from runs.web.sheet import draw


@dataclass(frozen=True, slots=True)
class Row:
    """detail: what came of it, as this reader may read it."""

    item: Item
    sign: signs.Sign
    detail: str


def _again(request: Request, error: HitlError) -> HttpResponse:
    return _look(request, request.POST, error=error)


@page(methods="GET POST", refused=_again)
def bulk(request: Request) -> HttpResponse:
    """GET: how many, which, and which would be refused. POST: do it to those that were shown, and say what came of each."""
    if request.method != "POST":
        return _look(request, request.GET)
    seen = once.first_result(request)
    if seen:
        return see_other(seen)
    order, ids = _order(request.POST), _ids(request.POST)
    if not ids:
        raise BadRequest("No run is chosen.")
    result = operations.bulk(
        actor=request.actor, order=order, which=RunFilter(ids=ids), dry=False, expect=ids
    )
    back = url_of(_filter(request.POST))
    once.remember(request, back)
    shown = {"verb": order.verb, "word": signs.BULK[order.verb], "back": back, **_rows(request, result)}
    return render(request, "runs/bulk_done.html", {"page": shown, "now": store.now()})


def _look(request: Request, told: QueryDict, *, error: HitlError | None = None) -> HttpResponse:
    order, chosen, which = _order(told), _ids(told), _filter(told)
    asks = order.verb != "rewind" or bool(order.node) or order.checkpoint is not None
    result = Bulk([], None, dry=True)
    if asks:
        result = operations.bulk(
            actor=request.actor,
            order=replace(order, reason=order.reason or "a look"),
            which=RunFilter(ids=chosen) if chosen else which,
            dry=True,
            after=identity(told.get("after", "")),
        )
    shown = {
        "verb": order.verb,
        "word": signs.BULK[order.verb],
        "said": filters.said(which),
        "filter": which.as_dict(),
        "chosen": chosen,
        "back": url_of(which),
        "order": order,
        "asks": asks,
        "next": _next(order, which, result.next),
        "reason": told.get("reason", ""),
        **_rows(request, result),
    }
    return draw(request, "runs/bulk.html", shown, error)


def _next(order: Order, which: RunFilter, after: UUID | None) -> str:
    if after is None:
        return ""
    told = {"node": order.node, "checkpoint": order.checkpoint, "calls": order.calls}
    more = {"verb": order.verb, **which.as_dict(), **{k: v for k, v in told.items() if v}, "after": after}
    return f"{reverse('runs-bulk')}?{urlencode(more)}"


def _rows(request: Request, result: Bulk) -> dict[str, Any]:
    sight_of = sights.of_many(request.actor, [item.run for item in result.items])
    rows = [
        Row(item, signs.RUN[item.run.status], sight_of(item.run).text(said(item.detail)))
        for item in result.items
    ]
    return {
        "done": [row for row in rows if not row.item.is_refused],
        "refused": [row for row in rows if row.item.is_refused],
    }


def _order(told: Mapping[str, str]) -> Order:
    verb = told.get("verb", "")
    if verb not in signs.BULK:
        raise BadRequest(
            Told("Many runs at once can be told to {listing}.", listing=words.listing(list(signs.BULK)))
        )
    rewinds = verb == "rewind"
    return Order(
        verb,
        told.get("reason", ""),
        _checkpoint(told.get("checkpoint", "")) if rewinds else None,
        told.get("node", "").strip() if rewinds else "",
        "again" if rewinds and told.get("calls") == "again" else "reuse",
    )


def _filter(told: QueryDict) -> RunFilter:
    return RunFilter.of({name: str(told[name]) for name in told})


def _checkpoint(text: str) -> int | None:
    no = number(text.strip())
    return no if no is None or no < 2**31 else None


def _ids(told: QueryDict) -> list[UUID]:
    return [found for text in told.getlist("run") if (found := identity(text))]
