"""Starting a run from a form that its workflow's input describes, or from JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext

from runs import operations, policies, workflows
from runs.engine import Workflow, canonical
from runs.errors import BadRequest, HitlError, InvalidJson, Problem, Told, UnknownVersion
from runs.operations import Idempotency
from runs.templatetags import words
from runs.web import editing, fields, filling, once, pointing
from runs.web.door import Request, page, see_other, texts
from runs.web.sheet import draw, fields_of

NUMBER: Final = 0  # under which its fields are sent, as those of an action are
EVERYTHING: Final = [""]  # a pointer to the whole: all of it is the submitter's to say

Post = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Form:
    """mode: `form` or `json`. text: the input as JSON, as it was typed. errors: what no field shows."""

    mode: str
    drawable: bool
    fields: Sequence[fields.Field]
    text: str
    errors: Sequence[pointing.Found]


def _start_page(
    request: Request, name: str, *, post: Post | None = None, error: HitlError | None = None
) -> HttpResponse:
    post = texts(request) if post is None else post
    gone = isinstance(error, UnknownVersion)
    flow = _flow(name, "" if gone else post.get("version") or request.GET.get("version", ""))
    told = isinstance(error, BadRequest) and not isinstance(
        error, InvalidJson
    )  # of what stands beside the input
    shown = {
        "flow": flow,
        "versions": [other.version for other in workflows.every_version() if other.name == name][::-1],
        "form": _form(flow, post, [] if error is None or told else error.errors),
        "labels": post.get("labels", ""),
        "deadline": post.get("deadline", ""),
        "priority": post.get("priority", ""),
        "wrong": fields_of(error) if told else {},
    }
    return draw(request, "runs/start.html", shown, error)


def _again(request: Request, error: HitlError, name: str) -> HttpResponse:
    return _start_page(request, name, error=error)


@page(methods="GET POST", refused=_again)
def start(request: Request, name: str) -> HttpResponse:
    """A form that is sent twice starts one run: its token is the key by which the second is known."""
    policies.check_submit(request.actor)
    if request.method != "POST":
        return _start_page(request, name)
    post = texts(request)
    flow = _flow_sent(name, post.get("version", ""))
    anew = editing.drawn_anew(post)
    if anew is not None:
        return _start_page(request, name, post=anew)
    typed = _typed(flow, post)
    if typed.problems:
        first = typed.problems[0].message
        raise InvalidJson(f"{first[:1].upper()}{first[1:]}.", errors=typed.problems)
    told: dict[str, Any] = {
        "input": typed.args,
        "labels": _labels(post.get("labels", "")),
        "deadline": post.get("deadline", "").strip() or None,
        "priority": _priority(post.get("priority", "")),
    }
    run = operations.submit(
        actor=request.actor,
        workflow=flow.name,
        version=flow.version,
        idempotency=_idempotency(post, {**told, "workflow": flow.name, "version": flow.version}),
        **told,
    ).run
    messages.success(
        request,
        gettext("{id} of {title} has started.").format(id=words.short_id(run.pk, "R-"), title=flow.title),
    )
    return see_other(reverse("run", args=[run.pk]))


def _flow(name: str, version: str) -> Workflow:
    return workflows.get(name, version or None)


def _flow_sent(name: str, version: str) -> Workflow:
    """A version may go while its form is being filled in: what was typed then stands in the form of the newest."""
    newest = _flow(name, "")
    found = workflows.find(name, version) if version else newest
    if found is None:
        raise UnknownVersion(
            Told(
                "Version {version} is here no more. This is the form of the newest: look at it and send it.",
                version=version,
            )
        )
    return found


# ---- the input


def _typed(flow: Workflow, post: Post) -> filling.Read:
    if "json" in post:
        return editing.parsed(post["json"])
    return filling.read({}, flow.input_schema.json_schema, EVERYTHING, editing.sent(post, NUMBER))


def _form(flow: Workflow, post: Post, problems: Sequence[Problem]) -> Form:
    schema = flow.input_schema.json_schema
    sent = editing.sent(post, NUMBER)
    typed = _typed(flow, post) if post else filling.Read({}, [])
    known = typed.args if not typed.problems else {}
    drawable = fields.drawable(known, schema)
    wanted = post.get("show") or post.get("mode") or "form"
    mode = "json" if wanted == "json" or not drawable or ("json" in post and typed.problems) else "form"
    problems = problems or ([] if {"draw", "grow", "drop"} & set(post) else typed.problems)
    text = post["json"] if "json" in post else canonical.dumps(known, indent=2)
    if mode == "json":
        return Form(mode, drawable, (), text, pointing.found_in(text, problems))
    base = {} if sent else known
    drawn = fields.draw(base, schema, EVERYTHING, typed=sent, problems=problems, prefix="input-")
    return Form(mode, drawable, drawn, text, editing.beside(problems, drawn))


# ---- what stands beside it


def _labels(text: str) -> dict[str, str]:
    """A line each, `name=value`."""
    found = {}
    for line in filter(None, (line.strip() for line in text.splitlines())):
        name, has_value, value = line.partition("=")
        if not has_value or not name.strip():
            told = gettext("{line!r} is not of the form name=value").format(line=words.cut(line, 40))
            raise BadRequest(f"{told}.", errors=[Problem("/labels", "invalid_value", told)])
        found[name.strip()] = value.strip()
    return found


def _priority(text: str) -> int | None:
    told = text.strip()
    if not told:
        return None
    if not told.removeprefix("-").isdecimal() or len(told) > 5:
        message = gettext("a priority is a whole number")
        raise BadRequest(f"{message.capitalize()}.", errors=[Problem("/priority", "invalid_value", message)])
    return int(told)


def _idempotency(post: Post, told: Any) -> Idempotency | None:
    token = post.get(once.FIELD, "")
    return Idempotency("start", canonical.digest(token), canonical.digest(told)) if token else None
