"""A workflow whose code changes from deployment to deployment: DEPLOYED says which versions a process has (default 1).

`2` is version 2 with a migration from 1, `2-` is version 2 without one, `1x` is version 1 with another graph.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Final

from runs.engine import Workflow
from tests.kit.plain_letters import First, letters, second

NAME: Final = "deployed"
MADE: Final = {
    "1": partial(letters, 1, First, name=NAME),
    "1x": partial(letters, 1, First, ask="confirm", name=NAME),
    "2": partial(second, name=NAME),
    "2-": partial(second, leads=False, name=NAME),
}


def _now() -> Workflow:
    return MADE[os.environ.get("DEPLOYED", "1")]()


deployed = _now()
