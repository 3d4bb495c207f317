"""The log of a process: one JSON object a line, with what a node said, and without what is secret."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from hitl.logging import JsonFormatter, TextFormatter
from runs.driver import secrets

VALUE = 'p4ss"word\\with-everything'


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    secrets._remember("shop", VALUE)
    yield
    secrets.forget()


def record(message: str, **more: str) -> logging.LogRecord:
    made = logging.LogRecord("runs.node", logging.INFO, __file__, 1, message, (), None)
    made.__dict__.update(more)
    return made


def test_a_line_of_a_node_carries_run_step_node_and_facts() -> None:
    said = record("found", run="r", step="s", node="look", facts='{"pages":3}')
    line = json.loads(JsonFormatter().format(said))
    assert {name: line[name] for name in ("message", "run", "step", "node", "facts")} == {
        "message": "found",
        "run": "r",
        "step": "s",
        "node": "look",
        "facts": {"pages": 3},
    }
    assert '{"pages": 3}' in TextFormatter().format(said)
    assert "node" not in json.loads(JsonFormatter().format(record("plain")))


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_no_message_makes_a_second_line_or_steers_the_terminal(formatter: logging.Formatter) -> None:
    """C90: an address, or what a model said, is logged as it came."""
    line = formatter.format(record("GET /x\n12:00:00 INFO forged\x1b[2J\0\x85\u2028 é 🎉"))
    assert len(line.splitlines()) == 1
    assert not {"\x1b", "\0"} & set(line)
    assert "é 🎉" in line


def test_a_secret_of_several_lines_is_drawn_out_of_a_line_too() -> None:
    secrets._remember("key", '-----BEGIN "KEY"-----\nMIIEvgIBADANBg\n')
    for formatter in (JsonFormatter(), TextFormatter()):
        assert "MIIE" not in formatter.format(record('sent -----BEGIN "KEY"-----\nMIIEvgIBADANBg\n.'))


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_no_line_of_whomever_shows_a_secret(formatter: logging.Formatter) -> None:
    """A library may log what it was given; the form in which JSON writes it is drawn out too."""
    line = formatter.format(record(f"POST /pay Authorization: {VALUE} 401"))
    assert VALUE not in line
    assert json.dumps(VALUE)[1:-1] not in line
    assert "[secret shop]" in line
