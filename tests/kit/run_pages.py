"""The parts of the page of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from django.test import Client

if TYPE_CHECKING:  # the pictures know the parts, and no settings
    from runs.models import Run

PARTS: Final = (
    "",
    *("timeline/", "checkpoints/", "branches/", "approvals/", "effects/", "others/"),
    *("data/", "log/", "history/", "evidence/"),
)


def everything(client: Client, run: Run) -> str:
    """What all parts of a run's page show together."""
    answers = [client.get(f"/runs/{run.pk}/{part}") for part in PARTS]
    assert {answer.status_code for answer in answers} == {200}
    return "\n".join(answer.content.decode() for answer in answers)
