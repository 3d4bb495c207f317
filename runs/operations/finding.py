"""By which words an approval is found: those of its title, reasons, facts, arguments and comments, of its run's labels.

A search that finds something tells what stands in it. So only what everybody in the project may read is among them; what is
hidden from anybody is found by nobody, also not by those who may see it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from runs import sights, store
from runs.engine import finding
from runs.engine.canonical import Json
from runs.models import Approval, Revision, Run, Vote

AT_ONCE: Final = 200


def put_words(run: Run, approval: Approval, node: str, document: Mapping[str, Any]) -> Approval:
    """The words of an approval that is about to be stored."""
    approval.words = store.vector(_words(run, approval, node, dict(document), comments=()))
    return approval


def renew_words(run: Run, approval: Approval) -> None:
    """Its words, as its arguments or what people say of it have changed. Three queries, one more if it was edited."""
    comments = [
        *Revision.objects.filter(approval=approval).exclude(comment="").values_list("comment", flat=True),
        *Vote.objects.filter(approval=approval).exclude(comment="").values_list("comment", flat=True),
    ]
    words = _words(run, approval, approval.node, approval.content, comments=comments)
    Approval.objects.filter(pk=approval.pk).update(words=store.vector(words))


def forget_words(workflow: str) -> None:
    """What a new version of a workflow hides must not be found by words of before: they are made anew by the house."""
    Approval.objects.filter(run__workflow=workflow).update(words=None)


def put_missing_words() -> int:
    """For approvals that were stored before there were words, the newest first; returns how many. In the caller's transaction."""
    rows = Approval.objects.filter(words__isnull=True).select_for_update(of=("self",), skip_locked=True)
    found = list(rows.select_related("run").order_by("-opened_at")[:AT_ONCE])
    for approval in found:
        if approval.is_intact:
            renew_words(approval.run, approval)
        else:  # it can be found by nothing, but must not be looked at for ever
            Approval.objects.filter(pk=approval.pk).update(words=store.vector([]))
    return len(found)


def _words(
    run: Run, approval: Approval, node: str, document: dict[str, Any], *, comments: Iterable[str]
) -> list[str]:
    seen = sights.findable(run, document, first=approval if approval.version > 1 else None)
    actions = seen["actions"]
    exact = [finding.exactly("tool", action["tool"]) for action in actions]
    exact += [finding.exactly("label", f"{name}={value}") for name, value in run.labels.items()]
    texts = _texts(run, approval, node, seen, comments)
    return [*dict.fromkeys(exact), *finding.words_in(texts)]


def _texts(
    run: Run, approval: Approval, node: str, seen: Mapping[str, Json], comments: Iterable[str]
) -> Iterator[str]:
    """In the order of what people look for first: there is an end to how many words are kept."""
    yield str(seen["title"])
    yield f"{approval.pk} {run.pk} {run.workflow} {node}"
    yield f"A-{approval.pk.hex[:8]}"
    for name, value in run.labels.items():
        yield f"{name} {value}"
    yield from comments
    actions: Any = seen["actions"]
    for action in actions:
        yield f"{action['tool']} {action['key']}"
        yield from finding.texts_of(action["args"])
    for part in ("reason", "facts", "agent_note"):
        yield from finding.texts_of(seen.get(part))
