"""Who works on an approval, who sees it later, how long it may take; several decided together; who is away."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpResponse
from django.urls import reverse
from django.utils.timezone import get_current_timezone
from django.utils.translation import gettext

from runs import inboxes, operations, policies, queries, sights, store
from runs.engine.stages import candidates
from runs.errors import BadRequest, HitlError, NothingDecided
from runs.models import Approval
from runs.operations import Chosen, Together
from runs.templatetags import pretty, words
from runs.tongue import Words, said
from runs.web import clocks
from runs.web.door import Request, number, page
from runs.web.sheet import Done, draw, fields_of, forms

SNOOZES: Final = Words({"1": "an hour", "4": "four hours", "24": "a day", "168": "a week"})
MOST: Final = 100  # decided together


# ---- one approval


def _attend_page(request: Request, approval_id: UUID, *, error: HitlError | None = None) -> HttpResponse:
    approval = queries.approval(request.actor.project.pk, approval_id)
    policies.check_direct(request.actor, approval.run, approval)
    others = _others(request, approval)
    sights.approval(approval, sights.of(request.actor, approval.run))
    now = store.now()
    taken = approval.is_worked_on(now)
    shown = {
        "approval": approval,
        "taken": taken,
        "mine": taken and approval.assignee_id == request.user.pk,
        "may_decide": policies.can_decide(request.actor, approval.run, approval),
        "others": others,
        "snoozes": SNOOZES,
        "typed": {name: request.POST.get(name, "") for name in ("to", "due_at")},
        "reasons": {request.POST.get("do", ""): request.POST.get("reason", "")},
    }
    return draw(request, "inbox/attend.html", shown, error)


def _others(request: Request, approval: Approval) -> list[str]:
    """Whom an approval may be given to: who is asked now, and did not ask for the run."""
    found = candidates(queries.stage_of(approval), queries.known_people(request.actor.project.pk))
    barred = queries.barred_names(approval.run, approval.options)
    return sorted(found - barred - {request.user.username})


@forms(_attend_page)
def attend(request: Request, approval_id: UUID) -> Done:
    """Claim, release, take over, give, snooze, extend: one form each."""
    return Done(_do(request, approval_id), reverse("approval", args=[approval_id]))


def _do(request: Request, approval_id: UUID) -> str:
    what, reason = request.POST.get("do", ""), request.POST.get("reason", "")
    name = words.short_id(approval_id, "A-")
    given: dict[str, Any] = {"actor": request.actor, "approval_id": approval_id}
    if what == "assign":
        operations.assign(**given, reason=reason)
        return gettext("You work on {name}; others cannot answer it for an hour.").format(name=name)
    if what == "give":
        done = operations.assign(**given, to=request.POST.get("to", ""), reason=reason)
        return gettext("{assignee} works on {name} now.").format(assignee=done.assignee, name=name)
    if what == "unassign":
        operations.unassign(**given, reason=reason)
        return gettext("{name} is released.").format(name=name)
    if what == "snooze":
        hours = number(request.POST.get("hours"))
        until = store.now() + timedelta(hours=hours) if hours else None
        operations.snooze(**given, until=until)
        return (
            gettext("{name} is out of your list for {span}.").format(
                name=name, span=words.span(timedelta(hours=hours))
            )
            if hours
            else gettext("{name} is back.").format(name=name)
        )
    if what == "extend":
        done = operations.extend(**given, due_at=_instant(request, "due_at"), reason=reason)
        return gettext("{name} is due {when}.").format(name=name, when=_said(done.due_at))
    raise BadRequest("Say what is to be done.")


def _instant(request: Request, name: str) -> datetime:
    """A date and time as a form sends it, on the clock of who typed it."""
    return clocks.instant(request.POST.get(name, ""), request.user.clock, path=f"/{name}")


def _said(at: datetime | None) -> str:
    return words.moment(at, store.now(), get_current_timezone()) if at else ""


# ---- several together


def _together_page(request: Request, error: HitlError | None = None) -> HttpResponse:
    chosen = _ids(request.GET.getlist("only"))
    groups = _groups(request, chosen)
    shape = request.POST.get("shape") or request.GET.get("shape") or next(iter(groups), "")
    facts = error.facts.get("items", []) if isinstance(error, NothingDecided) else []
    refused: Any = {item["approval"]: said(item["detail"]) for item in facts}
    rows = groups.get(shape, [])
    shown = {
        "groups": [
            {"shape": key, "first": some[0], "count": len(some), "url": _group_url(key, chosen)}
            for key, some in groups.items()
        ],
        "shape": shape,
        "rows": [_row(request, row, refused.get(str(row.pk), "")) for row in rows],
        "left_out": _left_out(request, chosen - {row.pk for row in rows}),
        "reason": request.POST.get("reason", ""),
    }
    return draw(request, "inbox/together.html", shown, error)


@page(methods="GET POST", refused=_together_page)
def together(request: Request) -> HttpResponse:
    """Approvals of one shape and low risk: choose, look, then decide."""
    if request.method != "POST":
        return _together_page(request)
    word, reason = request.POST.get("word", ""), request.POST.get("reason", "")
    sure = request.POST.get("sure") == "yes"
    chosen = [_chosen(text) for text in request.POST.getlist("approval")]
    done = operations.decide_together(
        actor=request.actor, chosen=chosen, word=word, comment=reason, dry=not sure
    )
    return _done_page(request, done, word=word, reason=reason, chosen=request.POST.getlist("approval"))


def _done_page(
    request: Request, done: Together, *, word: str, reason: str, chosen: list[str]
) -> HttpResponse:
    shown = {
        "items": [
            {
                "item": item,
                "why": said(item.error.detail) if item.error else "",
                "sent": sent,
                "row": _row(request, item.approval, "") if item.approval else None,
            }
            for item, sent in zip(done.items, chosen, strict=True)
        ],
        "possible": len(done.items) - len(done.refused),
        "refused": len(done.refused),
        "dry": done.dry,
        "word": word,
        "reason": reason,
    }
    return draw(request, "inbox/together_done.html", shown, None)


def _groups(request: Request, chosen: set[UUID]) -> dict[str, list[Approval]]:
    """What this person may decide together, by shape; if they have chosen some in the list, of these."""
    found: dict[str, list[Approval]] = {}
    now = store.now()
    mine = inboxes.page(request.actor.project.pk, inboxes.Wanted(), inboxes.asked(request.actor), limit=MOST)
    for approval in mine.rows if not chosen else queries.approvals(request.actor.project.pk, chosen):
        if not _why_alone(request, approval, now):
            found.setdefault(operations.shape_of(approval), []).append(approval)
    return {shape: rows for shape, rows in found.items() if len(rows) > 1 or chosen}


def _why_alone(request: Request, approval: Approval, now: datetime) -> str:
    """Why somebody cannot decide this one together with others, or nothing."""
    if approval.status != "open":
        return gettext("is closed")
    if not policies.can_decide(request.actor, approval.run, approval):
        return gettext("does not ask you")
    if not operations.is_low_risk(approval):
        return gettext("is not said to be of low risk, or cannot be undone")
    if approval.is_worked_on(now) and approval.assignee_id != request.user.pk:
        return gettext("is what {assignee} works on").format(assignee=approval.assignee)
    return ""


def _left_out(request: Request, ids: set[UUID]) -> list[dict[str, Any]]:
    """What was chosen, and is not among those that are shown, with the reason."""
    now = store.now()
    found = queries.approvals(request.actor.project.pk, ids) if ids else []
    return [
        {
            "approval": sights.approval(row, sights.of(request.actor, row.run)),
            "why": _why_alone(request, row, now) or gettext("asks something else than the others"),
        }
        for row in found
    ]


def _group_url(shape: str, chosen: set[UUID]) -> str:
    return "?" + urlencode({"shape": shape, "only": sorted(map(str, chosen))}, doseq=True)


def _ids(texts: list[str]) -> set[UUID]:
    """What was chosen in the list. What is no id was not."""
    found = set()
    for text in texts[:MOST]:
        with suppress(ValueError):
            found.add(UUID(text))
    return found


def _row(request: Request, approval: Approval, refusal: str) -> dict[str, Any]:
    """As its reader may see it."""
    sent = f"{approval.pk} {approval.version} {approval.digest}"
    seen = sights.approval(approval, sights.of(request.actor, approval.run))
    args = [action["args"] for action in seen.content["actions"]]
    return {
        "approval": seen,
        "args": pretty.inline(args[0] if len(args) == 1 else args),
        "sent": sent,
        "refusal": refusal,
    }


def _chosen(text: str) -> Chosen:
    parts = text.split(" ")
    if len(parts) != 3:
        raise BadRequest("Choose approvals.")
    return Chosen(parts[0], number(parts[1]), parts[2])


# ---- who is away


def _away_page(request: Request, *, error: HitlError | None = None) -> HttpResponse:
    names = queries.known_people(request.actor.project.pk).people
    wrong = fields_of(error)
    shown = {
        "errors": wrong,
        "absences": queries.absences(request.actor.project.pk),
        "others": sorted(names - {request.user.username}),
        "typed": {
            name: request.POST.get(name, "") for name in ("substitute", "starts_at", "ends_at", "note")
        },
        "decides": request.user.username in names,
        "admin": "admin" in request.actor.roles,
    }
    return draw(request, "account/away.html", shown, None if wrong else error)


@forms(_away_page)
def away(request: Request) -> Done:
    if request.POST.get("back"):
        ended = operations.be_back(actor=request.actor, absence_id=request.POST["back"])
        return Done(gettext("{user} answers again.").format(user=ended.user), reverse("away"))
    made = operations.be_away(
        actor=request.actor,
        substitute=request.POST.get("substitute", ""),
        starts_at=_instant(request, "starts_at"),
        ends_at=_instant(request, "ends_at"),
        note=request.POST.get("note", ""),
    )
    said = gettext("{substitute} answers in your place from {when}.").format(
        substitute=made.substitute, when=_said(made.starts_at)
    )
    return Done(said, reverse("away"))
