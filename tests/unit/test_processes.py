"""What an app of workflows brings along: services, and what is done before they start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hitl import processes

MakeApp = Callable[[str], str]

SHOP = """
PROCESSES = [{"name": "till", "args": ["--data", "{data}", "--port", "{port}"], "env": {"TILL": ":{port}"}}]
SETUP = [["open_shop", "--verbosity", "0"]]
"""


@pytest.fixture
def make_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeApp:
    """A package whose `processes` has this text; its name."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(text: str) -> str:
        name = f"app_{tmp_path.name}"
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
        (tmp_path / name / "processes.py").write_text(text)
        return name

    return make


def test_an_app_names_its_services_and_its_set_up(make_app: MakeApp, tmp_path: Path) -> None:
    app = make_app(SHOP)
    (service,) = processes.services([app])
    placed = service.placed(tmp_path)
    assert placed.args[:2] == ["--data", str(tmp_path / "till")]
    assert placed.env == {"TILL": f":{placed.args[3]}"}
    assert processes.setups([f"{app}.apps.ShopConfig"]) == [["open_shop", "--verbosity", "0"]]


def test_an_app_may_bring_neither(make_app: MakeApp) -> None:
    for app in (make_app(""), "examples"):
        assert (processes.services([app]), processes.setups([app])) == ([], [])


def test_the_examples_bring_what_they_need() -> None:
    assert [service.name for service in processes.services(["examples.refund"])] == ["payments"]
    assert processes.setups(["examples.refund", "examples.sql_change"]) == [["sql_change_setup"]]
