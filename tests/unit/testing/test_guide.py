"""docs/testing.md and docs/approvals.md: their code runs, what it asserts holds, and what it prints is what is shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize("name", ["testing", "approvals"])
def test_a_guide(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    guide = DOCS / f"{name}.md"
    text = guide.read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile("\n".join(blocks), str(guide), "exec", dont_inherit=True), {"__name__": "guide"})
    (shown,) = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    assert capsys.readouterr().out == shown
