"""docs/testing.md: its code runs, what it asserts holds, and what it prints is what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[3] / "docs" / "testing.md"


def test_the_guide_to_testing(capsys: pytest.CaptureFixture[str]) -> None:
    text = GUIDE.read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile("\n".join(blocks), str(GUIDE), "exec", dont_inherit=True), {"__name__": "guide"})
    (shown,) = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    assert capsys.readouterr().out == shown
