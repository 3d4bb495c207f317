"""The card: what one approval asks, the decision, the edit of the arguments."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext

from runs import attached, operations, policies, queries, sights, tongue, workflows
from runs.engine import canonical
from runs.engine.approval import ActionDecision
from runs.engine.workflow import Workflow
from runs.errors import BadRequest, HitlError, NotFound, UnknownWorkflow, Unprocessable
from runs.models import Approval, JournalEntry, Link, Revision, Step
from runs.operations import Answer
from runs.templatetags import words
from runs.tongue import Words
from runs.web import card as cards
from runs.web import editing, inbox, once, payload, sentence
from runs.web.banner import of_decision
from runs.web.door import Request, enter, number, page, see_other, texts
from runs.web.material import Material

EVIDENCE: Final = 40
ANSWERS: Final = Words(
    {"approve": "Approved", "reject": "Rejected", "respond": "Answered", "mixed": "Decided"}
)


class NotSeen(Unprocessable):
    """Tick that you have seen the hidden characters, then approve."""

    code = "not_seen"


class NotOpened(Unprocessable):
    """Not all of it is shown on the card. Open all of it, then approve there."""

    code = "not_opened"


class NotRead(Unprocessable):
    """Tick that you have read in the file what the page has no room for, then approve."""

    code = "not_read"


LACKS: Final = Words(
    {
        "unknown_team": "There is no team {who}.",
        "unknown_person": "{who} may not decide in this project.",
        "empty_team": "{who}: nobody there may decide.",
        "only_requester": "{who} asked for the run, and nobody else is asked.",
        "too_few": "{needed} must agree, and {there} may answer.",
    }
)


# ---- reading


@page()
def show(request: Request, approval_id: UUID) -> HttpResponse:
    if inbox.wants(request, "live"):
        return _live(request, approval_id)
    context = _card_context(request, approval_id)
    if inbox.wants(request, "pane"):
        title = inbox.title(request, context["card"].title)
        return HttpResponse(title + render_to_string("inbox/_card.html", context, request))
    return inbox.desk(request, **context)


@page()
def whole(request: Request, approval_id: UUID) -> HttpResponse:
    """The card with all that would be done, however long, and the answers at its end."""
    return inbox.desk(request, **_card_context(request, approval_id, whole=True))


@page()
def file(request: Request, approval_id: UUID) -> HttpResponse:
    """The arguments, exactly, as a file; nothing that a browser would show or run."""
    approval = _approval(request, approval_id)
    policies.check_scope(request.actor, "approvals:read")
    args = {action["key"]: action["args"] for action in approval.content["actions"]}
    name = words.short_id(approval.pk, "A-")
    response = HttpResponse(canonical.dumps(args, indent=2), content_type="application/json; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}-{approval.version}.json"'
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    return response


def _live(request: Request, approval_id: UUID) -> HttpResponse:
    context = inbox.listed(request, current=approval_id)
    context["onlookers"] = inbox.onlookers(request).get(approval_id, [])
    return inbox.live(request, context | _card_news(request, approval_id, now=context["now"]))


def _card_news(request: Request, approval_id: UUID, *, now: datetime) -> dict[str, Any]:
    """What somebody did to an approval since it was shown; nothing as long as nobody did."""
    approval = _approval(request, approval_id)
    votes = [vote for vote in approval.votes.all() if vote.version == approval.version]
    mark = cards.mark_of(approval, votes)
    if request.GET.get("seen") == mark:
        return {"looked_at": approval}
    newer = None if approval.status == "open" else queries.asked_since(approval)
    return {
        "looked_at": approval,
        "card": {"approval": approval, "mark": mark, "newer": newer},
        "news": cards.news(approval, votes=votes, author=queries.author_of(approval), now=now),
    }


def by_link(request: Request, link: Link, token: str) -> HttpResponse:
    """The card of what a mail's link asks, with the link in its form: the answer uses it up."""
    cut = payload.is_cut(queries.approval(link.approval.project_id, link.approval_id))
    context = _card_context(request, link.approval_id, whole=cut)
    return inbox.desk(request, link={"token": token, "until": link.expires_at}, **context)


# ---- deciding


def card_again(request: Request, error: HitlError, approval_id: UUID) -> HttpResponse:
    """The card as it is now, with the reason of the refusal and the text that was typed."""
    seen = number(request.POST.get("version"))
    context = _card_context(request, approval_id, error=error, seen=seen, whole="opened" in request.POST)
    typed: dict[str, Any] = {name: request.POST.get(name, "") for name in ("reason", "seen", "read")}
    typed["presets"] = request.POST.getlist("preset")
    return inbox.desk(request, typed=typed, typed_wrong=isinstance(error, Unprocessable), **context)


@page(methods="GET POST", refused=card_again)
def decide(request: Request, approval_id: UUID) -> HttpResponse:
    if request.method != "POST":  # a reload of the address after a refusal
        return see_other(reverse("approval", args=[approval_id]) + inbox.view_query(request))
    _come_by_link(request)
    approval = _approval(request, approval_id)
    decisions = _decisions(request)
    if any(decision.type == "edit" for decision in decisions):
        return _edit_page(request, approval)
    _check_seen(request, approval, decisions)
    return _send(request, approval, decisions)


def _come_by_link(request: Request) -> None:
    """Whoever answers by a link works in its project, and the audit says how they came."""
    token = request.POST.get("link", "")
    if token:
        enter(request, operations.find_link(token).approval.project)
        request.actor = replace(request.actor, method="link")


# ---- editing


def edit_again(request: Request, error: HitlError, approval_id: UUID) -> HttpResponse:
    return _edit_page(request, _approval(request, approval_id), error=error)


@page(methods="GET POST", refused=edit_again)
def edit(request: Request, approval_id: UUID) -> HttpResponse:
    approval = _approval(request, approval_id)
    if request.method != "POST":
        policies.check_decide(request.actor, approval.run, approval)
        return _edit_page(request, approval)
    anew = editing.drawn_anew(texts(request))
    if anew is not None or inbox.wants(request, "_difference"):
        return _edit_page(request, approval, post=anew)
    typed = editing.read(approval, texts(request))
    typed.check()
    if approval.status == "open" and not editing.changed(approval, typed):
        raise Unprocessable("Nothing differs from the proposal. To approve it as it is, go back to the card.")
    if request.POST.get("save") == "revise":
        return _revise(request, approval, typed)
    if request.POST.get("save") != "vote":
        raise BadRequest("Say whether the edit is saved with your vote or without.")
    if payload.is_cut(approval) and not approval.options.get("recheck"):
        raise NotOpened("Not all of it is shown here. Save it without your vote, then open all of it.")
    return _send(request, approval, editing.decisions(approval, texts(request), typed))


def _revise(request: Request, approval: Approval, typed: editing.Typed) -> HttpResponse:
    revised = operations.revise(
        actor=request.actor,
        approval_id=approval.pk,
        version=number(request.POST.get("version")),
        args=editing.changed(approval, typed),
        comment=request.POST.get("reason", ""),
    )
    name = words.short_id(approval.pk, "A-")
    messages.success(
        request,
        gettext("Version {version} of {name} is saved, without your vote.").format(
            version=revised.version, name=name
        ),
    )
    return _done(request, reverse("approval", args=[approval.pk]) + inbox.view_query(request))


# ---- inside: answers


def _decisions(request: Request) -> list[ActionDecision]:
    """One button for the only action, or a choice for each of several."""
    reason = request.POST.get("reason", "")
    chosen = {
        name.removeprefix("decision:"): request.POST.get(name, "")
        for name in request.POST
        if name.startswith("decision:")
    }
    if "decision" in request.POST:
        chosen = {request.POST.get("action", ""): request.POST.get("decision", "")}
    if not chosen:
        raise BadRequest("Choose an answer.")
    return [
        ActionDecision(key, kind, None, reason if kind in ("reject", "respond") else "")
        for key, kind in chosen.items()
    ]


def _check_seen(request: Request, approval: Approval, decisions: list[ActionDecision]) -> None:
    """What cannot be seen at a glance is seen before it is approved."""
    approves = any(decision.type == "approve" for decision in decisions)
    if not approves or approval.status != "open":
        return
    if request.POST.get("seen") != "yes" and payload.hidden_in(approval):
        raise NotSeen()
    if request.POST.get("opened") != approval.digest and payload.is_cut(approval):
        raise NotOpened()
    if request.POST.get("read") != "yes" and payload.is_cut(approval, whole=True):
        raise NotRead()


def _send(request: Request, approval: Approval, decisions: list[ActionDecision]) -> HttpResponse:
    answer = Answer(
        approval.pk,
        number(request.POST.get("version")),
        request.POST.get("digest") or None,
        decisions,
        request.POST.get("reason", ""),
        request.POST.get("link", ""),
        request.POST.getlist("preset"),
    )
    [decided] = operations.decide(actor=request.actor, answers=[answer])
    messages.success(request, _said(decided), extra_tags=reverse("approval", args=[approval.pk]))
    return _done(request, inbox.onward(request, approval.pk))


def _said(decided: operations.Decided) -> str:
    approval = decided.approval
    assert approval is not None
    name = words.short_id(approval.pk, "A-")
    if approval.closed_reason == "edited":
        node = approval.options.get("recheck", "the check")
        return gettext("Your edit of {name} goes through {node}; then people are asked anew.").format(
            name=name, node=node
        )
    if approval.status == "open":
        return gettext("Your vote on {name} is recorded; more people must agree.").format(name=name)
    again = gettext(" Your answer had been recorded before.") if decided.replayed else ""
    return gettext("{answered} {name}; the run goes on.{again}").format(
        answered=ANSWERS.get(approval.outcome, gettext("Decided")), name=name, again=again
    )


def _done(request: Request, url: str) -> HttpResponse:
    """303 for a plain form; for htmx the place where it leads, drawn."""
    once.remember(request, url)
    if not request.htmx:
        return see_other(url)
    path = url.partition("?")[0]
    opened = path.rstrip("/").rsplit("/", 1)[-1]
    context = _card_context(request, UUID(opened)) if opened != "inbox" else {}
    response = inbox.desk(request, **context)
    response["HX-Push-Url"] = url
    return response


# ---- inside: pages


def _card_context(
    request: Request,
    approval_id: UUID,
    *,
    error: HitlError | None = None,
    seen: int | None = None,
    whole: bool = False,
) -> dict[str, Any]:
    approval = queries.approval(request.actor.project.pk, approval_id)
    policies.check_scope(request.actor, "approvals:read")
    listed = inbox.listed(request, current=approval.pk)
    now = listed["now"]
    revisions = queries.revisions(approval.pk)
    steps = queries.steps_before(approval, limit=EVIDENCE)
    previous, newer = queries.asked_before(approval), None
    if approval.status != "open":
        newer = queries.asked_since(approval)
    edit = queries.edit_of(previous) if previous else None
    journal = queries.calls_in(approval.run_id, steps)
    hidden = _hide(
        request, approval, previous=previous, edit=edit, revisions=revisions, steps=steps, journal=journal
    )
    material = Material(
        approval=approval,
        hidden=hidden,
        run=approval.run,
        workflow=_workflow(approval),
        votes=list(approval.votes.all()),
        revisions=revisions,
        steps=steps,
        journal=journal,
        previous=previous,
        edit=edit,
        newer=newer,
        seen=seen,
        spent=queries.spent_in(approval.run_id, [step.address for step in steps]) if steps else {},
    )
    context: dict[str, Any] = {
        "card": cards.build(
            material,
            now=now,
            refusal=_refusal(request, approval, now),
            reader=request.user.pk,
            may_direct=policies.can_direct(request.actor, approval.run, approval),
            lack=_lack(request, approval),
            whole=whole,
        ),
        **listed,
        "files": attached.of_run(request.actor, approval.run),
        "onlookers": inbox.onlookers(request).get(approval.pk, []),
    }
    if error is not None:
        wanted = request.POST.get("decision", "")
        context["banner"] = of_decision(
            error, approval, wanted=wanted, seen=seen, revisions=revisions, now=now
        )
    return context


def _approval(request: Request, approval_id: UUID) -> Approval:
    """An approval as this reader sees it."""
    found = queries.approval(request.actor.project.pk, approval_id)
    return sights.approval(found, sights.of(request.actor, found.run))


def _hide(
    request: Request,
    approval: Approval,
    *,
    previous: Approval | None,
    edit: Revision | None,
    revisions: Sequence[Revision],
    steps: Sequence[Step],
    journal: Sequence[JournalEntry],
) -> dict[str, list[str]]:
    """What is hidden from this reader is taken out of what was read. Returns, by action, which arguments are."""
    sight = sights.of(request.actor, approval.run)
    hidden = {action["key"]: sight.hidden_args(action) for action in approval.content["actions"]}
    sights.revisions([*revisions, *([edit] if edit else [])], sight, now=approval)
    if previous is not None:
        sights.approval(previous, sight, beside=approval)
    sights.approval(approval, sight)
    sights.steps(steps, sight)
    sights.calls(journal, sight)
    return hidden


def _edit_page(
    request: Request,
    approval: Approval,
    *,
    error: HitlError | None = None,
    post: dict[str, str] | None = None,
) -> HttpResponse:
    """post: what was typed, with what a button changed in the form."""
    policies.check_decide(request.actor, approval.run, approval)
    if not any("edit" in action["allowed"] for action in approval.content["actions"]):
        raise NotFound("Nothing of this approval may be edited.")
    post = texts(request) if post is None else post
    typed = editing.read(approval, post) if "mode" in post else None
    if inbox.wants(request, "_difference"):
        return _difference(request, approval, post=post, typed=typed)
    mode = editing.choose_mode(approval, post.get("show") or post.get("mode") or request.GET.get("mode", ""))
    if typed and typed.problems:
        mode = post["mode"]  # a text that cannot be read stays where it can be corrected
    if mode != post.get("mode"):
        post = {name: text for name, text in post.items() if not name.startswith(("json:", "arg:"))}
    context = _card_context(request, approval.pk, error=error, seen=number(post.get("version")))
    context["edit"] = editing.build(approval, mode=mode, post=post, typed=typed, error=error)
    return inbox.desk(request, **context)


def _difference(
    request: Request, approval: Approval, *, post: dict[str, str], typed: editing.Typed | None
) -> HttpResponse:
    """While somebody types: what differs from the proposal, and what is wrong with it so far."""
    mode = post.get("mode", "json")
    sight = sights.of(request.actor, approval.run)
    sees_all = not any(sight.hidden_args(action) for action in approval.content["actions"])
    made = editing.build(approval, mode=mode, post=post, typed=typed, checks=sees_all)
    return render(
        request, "inbox/_difference.html", {"card": {"approval": approval}, "edit": made, "live": True}
    )


def _workflow(approval: Approval) -> Workflow | None:
    """The workflow's graph, for where each answer leads; None where it is not registered here."""
    with suppress(UnknownWorkflow):
        return workflows.get(approval.run.workflow, approval.run.workflow_version)
    return None


def _refusal(request: Request, approval: Approval, now: datetime) -> str:
    """Why this reader may not answer, or nothing."""
    if policies.can_decide(request.actor, approval.run, approval):
        mine = [
            vote
            for vote in approval.votes.all()
            if vote.user_id == request.user.pk and vote.version == approval.version
        ]
        if mine:
            return gettext("You have said {outcome} about this version; others may still answer.").format(
                outcome=tongue.ANSWERS.get(mine[0].outcome, mine[0].outcome)
            )
        if approval.is_worked_on(now) and approval.assignee_id != request.user.pk:
            return gettext("{assignee} works on this; take it over to answer.").format(
                assignee=approval.assignee
            )
        return ""
    if policies.is_requester(request.user, approval.run):
        return gettext("You asked for this run. Whoever asks does not decide.")
    return gettext("Asked are {whom}; you may read this.").format(whom=sentence.whom(approval))


def _lack(request: Request, approval: Approval) -> str:
    """For operators: why nobody can answer it, or nothing. No query for others."""
    if approval.status != "open" or "operator" not in request.actor.roles:
        return ""
    lack = queries.lack_of(approval, queries.known_people(request.actor.project.pk))
    return (
        LACKS[lack.code].format(who=words.listing(list(lack.who)), needed=lack.needed, there=lack.there)
        if lack
        else ""
    )
