"""The texts that are translated, and whether they are. `python -m tests.messages` (make messages) takes them from code and
templates into each catalogue of runs/locale and compiles it; `--check` says what is not in step.

Needs no gettext on the machine: Babel reads Python, Django itself turns a template into what Babel can read.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hitl.settings")

import django
from babel.messages import mofile, pofile
from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_python
from django.utils.translation.template import templatize

ROOT = Path(__file__).resolve().parent.parent
LOCALE = ROOT / "runs" / "locale"
CODE = ("runs",)
ENGLISH = {
    "api",
    "management",
    "migrations",
    "testing",
    "styleguide.py",
}  # what programs, operators and authors read
TEMPLATES = ("templates",)
HEADER = """\
# What pages and mails say. `make messages` takes the texts from code and templates; see docs/translating.md.
#"""
WIDTH = 110
UNDATED = datetime(2000, 1, 1, tzinfo=UTC)

# Which arguments of a call are texts, by its name. "c" is the context of the one after it, a pair a singular and its plural.
CALLS: dict[str, tuple[int | str | tuple[int, int], ...]] = {
    "gettext": (0,),
    "gettext_lazy": (0,),
    "gettext_noop": (0,),
    "ngettext": ((0, 1),),
    "pgettext": ("c", 1),
    "npgettext": ("c", (1, 2)),
    "some": ((1, 2),),
    "Told": (0,),
    "Problem": (2,),
    "Sign": (2,),
    "Verb": (0,),
    "Rule": (1, 3),
    "Service": (1,),
    "Range": (1,),
    "_check_role": (2,),
    "check_administer": (1,),
}
TABLES = ("HEADLINES",)  # of the engine, which knows no Django: all their values are texts
OF_TEMPLATES = ("_", "gettext", "ngettext", "pgettext", "npgettext")  # as Django writes what it finds in one
NEVER_SHOWN = ("StepError", "WorkflowError")  # what authors read, in logs and in what is stored of a run
# What is the same in every language: values, and the markup of a page.
PLACEHOLDER = re.compile(r"""%\([a-z_]+\)[a-z]|%[sd%]|\{[a-z_]*[^{}]*\}|</?[a-z][^<>]*>|["<>]""")


@dataclass(frozen=True, slots=True)
class Text:
    """A text that somebody wrote: a singular with its plural, if it counts; context tells two meanings apart."""

    one: str
    many: str = ""
    context: str = ""
    file: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.context, self.one, self.many


def texts() -> list[Text]:
    """Every text of code and templates, in the order of files; one that stands in several is of the first."""
    found: dict[tuple[str, str, str], Text] = {}
    for text in (*_of_code(), *_of_templates()):
        if text.one:
            found.setdefault(text.key, text)
    return list(found.values())


def _of_code() -> Iterator[Text]:
    trees = {
        path: ast.parse(path.read_text())
        for path in _files(CODE, "*.py")
        if not ENGLISH & set(path.relative_to(ROOT).parts)
    }
    errors = _errors(trees.values())
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name in errors:
                yield Text(ast.get_docstring(node) or "", file=_name(path))
            if isinstance(node, ast.AnnAssign) and _called(node.target) in TABLES:
                yield from (Text(told, file=_name(path)) for told in _values(node.value))
            if isinstance(node, ast.Call):
                yield from (replace(text, file=_name(path)) for text in _of_call(node, errors))


def _errors(trees: Iterable[ast.Module]) -> set[str]:
    """The errors that people read; what one says where nothing else is said stands in its docstring."""
    found, left = (
        {"HitlError"},
        [node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)],
    )
    while True:
        more = {
            node.name
            for node in left
            if node.name not in NEVER_SHOWN and found & {_called(base) for base in node.bases}
        }
        if more <= found:
            return found
        found |= more


def _of_call(node: ast.Call, errors: set[str]) -> Iterator[Text]:
    name = _called(node.func)
    if name == "Words" and node.args:
        yield from (Text(told) for told in _values(node.args[0]))
    # What a role lets one do: a part of what is said when it is refused.
    if name == "administration":
        yield from (Text(_literal(word.value)) for word in node.keywords if word.arg == "what")
    said = [_literal(argument) for argument in node.args] + [""] * 5
    context = ""
    for place in (0,) if name in errors else CALLS.get(name, ()):
        if place == "c":
            context = said[0]
        elif isinstance(place, tuple) and said[place[0]]:
            yield Text(said[place[0]], said[place[1]], context)
        elif isinstance(place, int) and said[place]:
            yield Text(said[place], "", context)


def _values(node: ast.expr | None) -> list[str]:
    """The texts of a table."""
    found = [_literal(value) for value in node.values] if isinstance(node, ast.Dict) else []
    return [told for told in found if told]


def _called(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _literal(node: ast.expr) -> str:
    """A text that stands there, or nothing: one that is a variable was marked where it was written."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _of_templates() -> Iterator[Text]:
    for path in (*_files(TEMPLATES, "*.html"), *_files(TEMPLATES, "*.txt")):
        source = path.read_text()
        if "translate" in source or "_(" in source:
            for line in templatize(source, origin=str(path)).splitlines():
                yield from _taken(line.strip().encode(), path)


def _taken(source: bytes, path: Path) -> Iterator[Text]:
    calls = dict.fromkeys(OF_TEMPLATES)
    for _, called, found, _ in extract_python(BytesIO(source), calls, (), {"encoding": "utf-8"}):
        name, words = str(called), list(_forms(found))
        context = words.pop(0) if "p" in name[:2] else ""
        yield Text(words[0], words[1] if name.startswith("n") else "", context, _name(path))


def _files(folders: Iterable[str], pattern: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob(pattern))


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


# ---- catalogues


def languages() -> list[str]:
    return sorted(folder.name for folder in LOCALE.iterdir() if folder.is_dir())


def read(language: str) -> Catalog:
    path = _po(language)
    if not path.exists():
        return Catalog(locale=language)
    with path.open("rb") as file:
        return pofile.read_po(file, locale=language)


def renewed(language: str, told: Iterable[Text]) -> Catalog:
    """The catalogue with exactly these texts; what was translated before still is."""
    old = {_key(message): message for message in read(language) if message.id}
    new = Catalog(locale=language, header_comment=HEADER, fuzzy=False, charset="utf-8")
    for text in told:
        before = old.get(text.key)
        new.add(
            (text.one, text.many) if text.many else text.one,
            before.string if before else None,
            locations=[(text.file, None)],  # type: ignore[list-item]  # without a line number: it would change with every edit
            context=text.context or None,
            user_comments=before.user_comments if before else (),
        )
    return new


def write(language: str, catalog: Catalog) -> None:
    _po(language).parent.mkdir(parents=True, exist_ok=True)
    _po(language).write_bytes(po_bytes(catalog))
    _mo(language).write_bytes(mo_bytes(read(language)))


def po_bytes(catalog: Catalog) -> bytes:
    """Without dates and names: the same texts are the same bytes."""
    written = BytesIO()
    pofile.write_po(written, catalog, width=WIDTH, omit_header=True)
    head = (
        f'{HEADER}\nmsgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=utf-8\\n"\n'
        f'"Language: {catalog.locale_identifier}\\n"\n"Plural-Forms: {catalog.plural_forms}\\n"\n\n'
    )
    return head.encode() + written.getvalue()


def mo_bytes(catalog: Catalog) -> bytes:
    """Without dates and names here too."""
    lean = Catalog(
        locale=catalog.locale, charset="utf-8", fuzzy=False, creation_date=UNDATED, revision_date=UNDATED
    )
    for message in catalog:
        if message.id:
            lean.add(message.id, message.string, context=message.context)
    written = BytesIO()
    mofile.write_mo(written, lean)
    return written.getvalue()


def _po(language: str) -> Path:
    return LOCALE / language / "LC_MESSAGES" / "django.po"


def _mo(language: str) -> Path:
    return _po(language).with_suffix(".mo")


def _key(message: Message) -> tuple[str, str, str]:
    one, many = [*_forms(message.id), ""][:2]
    return message.context or "", one, many


# ---- what is wrong with one


def faults(language: str, told: Iterable[Text]) -> list[str]:
    """What a reader of this language would see that is not of it, one line each."""
    catalog = read(language)
    there = {_key(message): message for message in catalog if message.id}
    wanted = {text.key for text in told}
    said = [f"not in the catalogue: {one!r}" for _, one, _ in sorted(wanted - there.keys())]
    said += [f"nothing says this any more: {one!r}" for _, one, _ in sorted(there.keys() - wanted)]
    said += [fault for key, message in there.items() if key in wanted for fault in _faults_of(message)]
    if not said and _mo(language).read_bytes() != mo_bytes(catalog):
        said.append("the compiled catalogue is older than its source")
    return [f"{language}: {fault}" for fault in said]


def _faults_of(message: Message) -> Iterator[str]:
    ids, strings = _forms(message.id), _forms(message.string)
    if message.fuzzy:
        yield f"fuzzy: {ids[0]!r}"
    if not all(strings):
        yield f"not translated: {ids[0]!r}"
        return
    wanted = _placeholders(ids[-1])
    for place, string in enumerate(strings):
        counts = len(ids) > 1 and place == 0  # "one step" may leave its number out
        if not (_placeholders(string) == wanted or (counts and _placeholders(string) < wanted)):
            yield f"other placeholders than {sorted(wanted)}: {string!r}"
        if (string[0].isspace(), string[-1].isspace()) != (ids[0][0].isspace(), ids[0][-1].isspace()):
            yield f"begins or ends otherwise: {string!r}"


def _forms(told: object) -> tuple[str, ...]:
    """A text as it is said of one and of several, or the one way in which it is said."""
    return tuple(str(form or "") for form in told) if isinstance(told, (tuple, list)) else (str(told or ""),)


def _placeholders(text: str) -> set[str]:
    return set(PLACEHOLDER.findall(text))


def main() -> int:
    django.setup()
    told = texts()
    if "--check" in sys.argv:
        wrong = [fault for language in languages() for fault in faults(language, told)]
        print(
            "\n".join(wrong[:40]), *([f"… and {len(wrong) - 40} more"] if len(wrong) > 40 else []), sep="\n"
        )
        return 1 if wrong else 0
    for language in languages():
        catalog = renewed(language, told)
        write(language, catalog)
        missing = sum(1 for message in catalog if message.id and not all(_forms(message.string)))
        print(f"{language}: {len(told)} texts, {missing} without a translation")
    return 0


if __name__ == "__main__":
    sys.exit(main())
