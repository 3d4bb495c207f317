"""The database's clock, which leases, due times and the history go by."""

from __future__ import annotations

from datetime import datetime

from runs.store.prepared import ask


def now() -> datetime:
    """The database's time: of the transaction, if there is one."""
    [(moment,)] = ask("now", {})
    found: datetime = moment
    return found
