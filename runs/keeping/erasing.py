"""What a run says can be taken out of it; that it ran, when, for whom and under which hashes stays."""

from __future__ import annotations

from typing import Any, Final

from django.db import connection
from django.db.models import CharField, F, Model
from django.db.models.functions import Cast, Now

from runs import store
from runs.engine import canonical
from runs.keeping.removing import say_retention
from runs.models import (
    Approval,
    Attachment,
    Attempt,
    Branch,
    Checkpoint,
    Child,
    Delivery,
    Event,
    JournalEntry,
    Link,
    LogLine,
    Message,
    OperationalNote,
    Revision,
    Run,
    RunTerm,
    Signal,
    Slot,
    Step,
    Usage,
    Vote,
    Wait,
)

ERASED_DOCUMENT: Final = canonical.dumps(
    {"title": "Erased", "reason": "", "agent_note": "", "facts": [], "actions": []}
)
ERASED_DIGEST: Final = canonical.digest(canonical.loads(ERASED_DOCUMENT))
NOTHING: Final = "null"

# What holds content, and what is put in its place. Digests are content too: one of a small document, without salt, can be
# guessed. A test looks at every column of text, so that none is forgotten.
CONTENT: Final[dict[type[Model], dict[str, Any]]] = {
    Event: {"payload": None, "salt": None},
    Checkpoint: {"snapshot": store.ERASED, "patch": None, "snapshot_no": F("no"), "reason": ""},
    Branch: {"reason": "", "label": "", "exceptions": [], "generations": {}},
    Approval: {
        "title": "Erased",
        "document": ERASED_DOCUMENT,
        "digest": ERASED_DIGEST,
        "occurrence": "",
        "words": store.vector([]),
    },
    Revision: {"document": ERASED_DOCUMENT, "digest": ERASED_DIGEST, "comment": ""},
    Vote: {
        "decisions": "[]",
        "comment": "",
        "signature": "",
        "digest": "",
        "request_digest": "",
        "approved_digest": "",
    },
    Signal: {"payload": NOTHING, "digest": "", "sent_id": Cast(F("no"), CharField())},
    Wait: {"occurrence": "", "race": "", "digest": "", "schema": None, "facts": None},
    Child: {"occurrence": "", "digest": ""},
    Usage: {"occurrence": ""},
    Step: {"progress": None},
    Message: {"title": "Erased", "body": NOTHING},
    Attempt: {"detail": "", "answer": ""},
    Link: {"digest": ""},
}
WAYS: Final[dict[type[Model], str]] = {
    Revision: "approval__run",
    Vote: "approval__run",
    Link: "approval__run",
    Attempt: "delivery__message__run",
}  # from a row to its run, where it is not the next step
DROPPED: Final[tuple[type[Model], ...]] = (
    OperationalNote,
    LogLine,
    Attachment,  # the round clears what nobody refers to any more
    RunTerm,  # what it was found by
    Slot,  # its key is made of the input; the run has ended
)  # operational: of no use without what they tell


def erase(run: Run, *, by: Any, reason: str) -> None:
    """Take the content out of a locked run, in the caller's transaction: what is left says what happened, when, by whom and
    under which hash, and nothing of what it was about."""
    say_retention()
    for model, blank in CONTENT.items():
        way = WAYS.get(model, "run")
        model._default_manager.filter(**{way: run}).update(**blank)
    Delivery.objects.filter(message__run=run, status="pending").update(
        status="cancelled", reason="erased", token=None, ended_at=Now()
    )
    for model in DROPPED:
        model._default_manager.filter(run=run).delete()
    Step.objects.filter(run=run, error__isnull=False).update(error=_without_words(None))
    _erase_journal(run)
    Run.objects.filter(pk=run.pk).update(
        input=NOTHING,
        output=None if run.output is None else NOTHING,
        error=_without_words(run.error) if run.error else None,
        labels={},
        line="",
        version=F("version") + 1,
        erased_at=Now(),
        erasure={"by": by, "reason": reason},
    )


def _without_words(error: dict[str, Any] | None) -> dict[str, Any]:
    """What is left of an error: its code is ours, its message may quote anything."""
    told: dict[str, Any] = {key: value for key, value in (error or {}).items() if key in ("code", "step")}
    return {"code": "erased", **told, "message": "Erased."}


def _erase_journal(run: Run) -> None:
    """What did something to the world stays as an entry of the ledger, with its key, by which the other side knows it."""
    JournalEntry.objects.filter(run=run, effect="none").delete()
    with connection.cursor() as cursor:
        # An author may have made the occurrence of content; it is part of the key, so it gets a number, also where a step
        # says that it took the call back.
        cursor.execute(
            f"""
            UPDATE runs_step step SET undoes = jsonb_set(undoes, '{{3}}', to_jsonb('erased ' || counted.no))
            FROM ({_COUNTED}) counted
            WHERE step.run_id = %(run)s AND step.undoes
              = jsonb_build_array(counted.branch, counted.address, counted.name, counted.occurrence)
            """,  # our own text
            {"run": run.pk},
        )
        cursor.execute(
            f"""
            UPDATE runs_journalentry entry
            SET result = 'null', args_digest = '', arguments = '', occurrence = 'erased ' || counted.no,
              undo = CASE WHEN undo IS NOT NULL THEN '{{}}' END
            FROM ({_COUNTED}) counted
            WHERE entry.run_id = %(run)s AND entry.branch = counted.branch AND entry.address = counted.address
              AND entry.name = counted.name AND entry.occurrence = counted.occurrence
            """,
            {"run": run.pk},
        )
        cursor.execute(
            "UPDATE runs_step SET undoes = jsonb_set(undoes, '{3}', '\"erased\"')"
            " WHERE run_id = %s AND undoes->>3 NOT LIKE 'erased %%'",
            [run.pk],
        )


_COUNTED: Final = """
    SELECT branch, address, name, occurrence, row_number() OVER (ORDER BY ended_at, ordinal) AS no
    FROM runs_journalentry WHERE run_id = %(run)s
"""
