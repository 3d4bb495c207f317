"""The guides in docs/: tests run the code that they show."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from runs import workflows
from runs.engine import Workflow

DOCS = Path(__file__).parents[2] / "docs"


@contextmanager
def shown(guide: str) -> Iterator[dict[str, Any]]:
    """What the Python blocks of `docs/GUIDE.md` define, with their workflows registered meanwhile."""
    file, module = DOCS / f"{guide}.md", ModuleType("guide")
    blocks = re.findall(r"```python\n(.*?)```", file.read_text(), re.DOTALL)
    sys.modules[module.__name__] = module  # so that what a call is taken back with is found by its name
    try:
        exec(compile("\n".join(blocks), str(file), "exec", dont_inherit=True), module.__dict__)
        workflows.register_module(module)
        yield module.__dict__
    finally:
        del sys.modules[module.__name__]
        for flow in vars(module).values():
            if isinstance(flow, Workflow):
                workflows.unregister(flow.name)
