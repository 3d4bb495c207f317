"""docs/retention.md: its code runs, its commands are understood, and its table is what the environment says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

from django.core.management import call_command

from hitl import env
from runs.engine import Workflow
from tests.integration.core.conftest import House, history_is_whole, pay_flow
from tests.integration.core.test_retention import aged, completed

GUIDE = (Path(__file__).parents[3] / "docs" / "retention.md").read_text()


def test_the_code_of_the_guide_does_what_it_says(house: House, define: Callable[..., Workflow]) -> None:
    pay_flow(define("pay"))
    run, old = aged(completed(house)), aged(completed(house), 40)
    names: dict[str, Any] = {"olga": house.olga, "run": run, "old": old}
    first, *others = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    # The hold is shown with a run that would go, compacting with one that is younger.
    aged(old, -40)
    exec(first, names)
    aged(old, 40)
    for block in others:
        exec(block, names)
    assert history_is_whole(old)


def test_the_commands_of_the_guide_are_understood(house: House) -> None:
    [block] = re.findall(r"```console\n(.*?)```", GUIDE, re.DOTALL)
    for line in block.splitlines():
        program, *words = shlex.split(line)
        assert program == "manage.py"
        call_command(*words, stdout=StringIO(), stderr=StringIO())


def test_the_table_of_the_guide_is_the_environments() -> None:
    told = dict(re.findall(r"`(HITL_RETENTION_\w+_DAYS)` \| (\d+) \|", GUIDE))
    fields = {
        env.variable(name): str(field.default)
        for name, field in env.Environment.model_fields.items()
        if name.startswith("retention_") and name.endswith("_days")
    }
    assert told == fields
