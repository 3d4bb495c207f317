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
from dataclasses import dataclass
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
CODE = ("hitl", "runs")
TEMPLATES = ("templates",)
HEADER = """\
# What pages and mails say. `make messages` takes the texts from code and templates; see docs/translating.md.
#"""
WIDTH = 110

# What a call of this name holds, and in which places: (place, "c") is the context.
CALLS: dict[str, tuple[int | tuple[int, str], ...]] = {
    "gettext": (1,),
    "gettext_lazy": (1,),
    "gettext_noop": (1,),
    "ngettext": (1, 2),
    "ngettext_lazy": (1, 2),
    "pgettext": ((1, "c"), 2),
    "pgettext_lazy": ((1, "c"), 2),
    "npgettext": ((1, "c"), 2, 3),
    "Told": (1,),
    "_": (1,),  # what Django makes of a template says it so
}
PLACEHOLDER = re.compile(r"%\([a-z_]+\)[a-z]|%[sd%]|\{[a-z_]*[^{}]*\}")


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
    for text in (*_of_code(), *_of_errors(), *_of_templates()):
        found.setdefault(text.key, text)
    return list(found.values())


def _of_code() -> Iterator[Text]:
    for path in _files(CODE, "*.py"):
        source = path.read_bytes()
        if any(name.encode() in source for name in CALLS if name != "_"):
            yield from _taken(source, path)


def _of_templates() -> Iterator[Text]:
    for path in (*_files(TEMPLATES, "*.html"), *_files(TEMPLATES, "*.txt")):
        source = path.read_text()
        if "translate" in source or "_(" in source:
            for line in templatize(source, origin=str(path)).splitlines():
                yield from _taken(line.strip().encode(), path)


def _of_errors() -> Iterator[Text]:
    """The docstring of an error is what it says where nothing else is said."""
    errors = {"HitlError"}
    for path in (ROOT / "runs" / "errors.py", *_files(CODE, "*.py")):
        for node in ast.parse(path.read_text()).body:
            bases = {base.id for base in getattr(node, "bases", ()) if isinstance(base, ast.Name)}
            if isinstance(node, ast.ClassDef) and (node.name == "HitlError" or bases & errors):
                errors.add(node.name)
                said = ast.get_docstring(node)
                yield from [Text(said, file=_name(path))] if said else []


def _taken(source: bytes, path: Path) -> Iterator[Text]:
    for _, name, said, _ in extract_python(BytesIO(source), list(CALLS), (), {"encoding": "utf-8"}):
        words = list(said) if isinstance(said, tuple) else [said]
        context = str(words.pop(0)) if isinstance(CALLS[name][0], tuple) else ""
        one, many = [*words, "", ""][:2]
        if one:  # else it is a variable, whose text was marked where it stands
            yield Text(one, (many or "") if name.startswith("n") else "", context, _name(path))


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
    lean = Catalog(locale=catalog.locale, charset="utf-8", fuzzy=False)
    lean.mime_headers = [
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Plural-Forms", catalog.plural_forms),
    ]
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
    one, many = message.id if isinstance(message.id, tuple) else (message.id, "")
    return message.context or "", str(one), str(many)


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
    ids = message.id if isinstance(message.id, tuple) else (message.id,)
    strings = message.string if isinstance(message.string, tuple) else (message.string,)
    if message.fuzzy:
        yield f"fuzzy: {ids[0]!r}"
    if not all(strings):
        yield f"not translated: {ids[0]!r}"
        return
    wanted = _placeholders(ids[-1])
    for string in strings:
        # A singular may leave the number out: "one step".
        if _placeholders(str(string)) != wanted and not (len(ids) > 1 and string == strings[0]):
            yield f"other placeholders than {sorted(wanted)}: {string!r}"
        if (
            ids[0][:1].isspace() != str(string)[:1].isspace()
            or ids[0][-1:].isspace() != str(string)[-1:].isspace()
        ):
            yield f"begins or ends otherwise: {string!r}"


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
        missing = sum(1 for message in catalog if message.id and not all(_strings(message)))
        print(f"{language}: {len(told)} texts, {missing} without a translation")
    return 0


def _strings(message: Message) -> tuple[str, ...]:
    return message.string if isinstance(message.string, tuple) else (str(message.string or ""),)


if __name__ == "__main__":
    sys.exit(main())
