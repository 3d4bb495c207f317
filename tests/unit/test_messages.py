"""`make messages`: what is a text, and what is wrong with a catalogue."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests import messages
from tests.messages import Text

TOLD = [Text("Saved."), Text("{count} step", "{count} steps"), Text("Open", context="verb")]


@pytest.fixture
def catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(messages, "LOCALE", tmp_path)
    return tmp_path / "de" / "LC_MESSAGES" / "django.po"


def written(catalogue: Path, **told: str) -> None:
    """Translate the texts by hand, as somebody does in the file; compile it as `make messages` does."""
    messages.write("de", messages.renewed("de", TOLD))
    text = catalogue.read_text()
    lines = {
        'msgid "Saved."\nmsgstr ""': told.get("saved", "Gespeichert."),
        'msgid "Open"\nmsgstr ""': told.get("open", "Öffnen"),
        'msgstr[0] ""': told.get("one", "{count} Schritt"),
        'msgstr[1] ""': told.get("many", "{count} Schritte"),
    }
    for empty, german in lines.items():
        text = text.replace(empty, f'{empty[:-2]}"{german}"')
    catalogue.write_text(text)
    messages.write("de", messages.renewed("de", TOLD))


def test_what_is_translated_stays_and_is_in_step(catalogue: Path) -> None:
    written(catalogue)
    assert messages.faults("de", TOLD) == []
    before = catalogue.read_bytes(), catalogue.with_suffix(".mo").read_bytes()
    messages.write("de", messages.renewed("de", TOLD))
    assert (catalogue.read_bytes(), catalogue.with_suffix(".mo").read_bytes()) == before


@pytest.mark.parametrize(
    ("told", "fault"),
    [
        ({"saved": ""}, "not translated: 'Saved.'"),
        ({"many": "{anzahl} Schritte"}, "other placeholders"),
        ({"many": "Schritte"}, "other placeholders"),
        ({"open": "Öffnen "}, "begins or ends otherwise"),
    ],
)
def test_a_fault_is_named(catalogue: Path, told: dict[str, str], fault: str) -> None:
    written(catalogue, **told)
    [found] = messages.faults("de", TOLD)
    assert fault in found


def test_a_singular_may_leave_its_number_out(catalogue: Path) -> None:
    written(catalogue, one="ein Schritt")
    assert messages.faults("de", TOLD) == []


def test_what_is_new_old_fuzzy_or_not_compiled_is_named(catalogue: Path) -> None:
    written(catalogue)
    assert messages.faults("de", [*TOLD, Text("New.")]) == ["de: not in the catalogue: 'New.'"]
    assert messages.faults("de", TOLD[1:]) == ["de: nothing says this any more: 'Saved.'"]
    catalogue.write_text(catalogue.read_text().replace("Gespeichert.", "Gesichert."))
    assert messages.faults("de", TOLD) == ["de: the compiled catalogue is older than its source"]
    catalogue.write_text(catalogue.read_text().replace('msgid "Saved."', '#, fuzzy\nmsgid "Saved."'))
    assert messages.faults("de", TOLD) == ["de: fuzzy: 'Saved.'"]


def test_texts_are_found_where_they_stand(tmp_path: Path) -> None:
    source = """
words.some(n, "{count} row", "{count} rows")
TABLE = Words({"a": "Alpha", "b": other})
raise NotFound("Nothing.", errors=[Problem("/x", "code", "no x")])
raise Rejected("never shown")
pgettext("verb", "Open")
gettext(variable)
"""
    found = [
        (text.one, text.many, text.context)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        for text in messages._of_call(node, {"NotFound"})
    ]
    assert sorted(found) == [
        ("Alpha", "", ""),
        ("Nothing.", "", ""),
        ("Open", "", "verb"),
        ("no x", "", ""),
        ("{count} row", "{count} rows", ""),
    ]
