"""What pages say for the codes of the API. A code is a contract and stays as it is; its word is the reader's."""

from __future__ import annotations

from typing import Final

from runs.tongue import ANSWERS, STATUSES, Words

EFFECTS: Final = Words(
    {
        "none": "no effect",
        "reversible": "reversible",
        "irreversible": "irreversible",
    }
)
RISKS: Final = Words(
    {
        "low": "low",
        "medium": "medium",
        "high": "high",
        "critical": "critical",
    }
)
ROLES: Final = Words(
    {
        "viewer": "viewer",
        "submitter": "submitter",
        "reviewer": "reviewer",
        "operator": "operator",
        "admin": "admin",
    }
)
DELIVERIES: Final = Words(
    {
        "pending": "pending",
        "delivered": "delivered",
        "dead": "dead",
        "blocked": "blocked",
        "refused": "refused",
        "gone": "gone",
        "timeout": "timeout",
        "connection_failed": "connection failed",
        "redirect_refused": "redirect refused",
        "mailbox_refused": "mailbox refused",
        "secret_unreadable": "secret unreadable",
        "endpoint_deleted": "endpoint deleted",
        "endpoint_disabled": "endpoint disabled",
        "person_left": "person left",
        "no_address": "no address",
        "nothing_open": "nothing open",
        "approval_closed": "approval closed",
        "not_asked": "not asked",
    }
)
WAYS: Final = Words(
    {
        "timeout": "time-out",
        "limit": "limit",
        "recheck": "recheck",
        "error": "error",
        "input": "input",
        "fork": "fork",
        "state": "state",
        "version": "version",
        "answer": "answer",
        "signal": "signal",
    }
)
_TABLES: Final = (WAYS, STATUSES, ANSWERS, EFFECTS, RISKS, ROLES, DELIVERIES)


def word(code: str) -> str:
    """A code in the reader's language; one that has no word of its own as it is, without underscores."""
    return next((table[code] for table in _TABLES if code in table), code.replace("_", " "))
