"""What a browser would send of a form: read from its HTML, with nothing filled in but what the page has filled in."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass(slots=True)
class Form:
    """sent: the fields as the page has filled them in. written: those that a person writes in, and would have to write again.
    boxes: what each box that could be ticked would send. buttons: name, value and where they lead instead.
    """

    action: str
    method: str = "get"
    sent: dict[str, str] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    boxes: dict[str, str] = field(default_factory=dict)
    buttons: list[tuple[str, str, str]] = field(default_factory=list)


def form_of(html: str, action_ends: str) -> dict[str, str]:
    """The fields of the first form whose address ends so, without its buttons."""
    found = [form for form in forms_of(html) if form.action.partition("?")[0].endswith(action_ends)]
    assert found, f"no form leads to …{action_ends}"
    return found[0].sent


def forms_of(html: str) -> list[Form]:
    """Every form of a page, with the fields and buttons that stand elsewhere and name it."""
    reader = _Reader()
    reader.feed(html)
    for owner, tag, told in reader.apart:
        if owner in reader.by_id:
            reader.take(reader.by_id[owner], tag, told)
    return reader.forms


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.forms: list[Form] = []
        self.by_id: dict[str, Form] = {}
        self.apart: list[tuple[str, str, dict[str, str]]] = []
        self.form: Form | None = None
        self.text: str | None = None  # the textarea that is being read
        self.name = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.form = Form(told.get("action", ""), told.get("method", "get"))
            self.forms.append(self.form)
            self.by_id[told.get("id", "")] = self.form
        elif "form" in told:
            self.apart.append((told["form"], tag, told))
        elif self.form is not None:
            self.take(self.form, tag, told)

    def take(self, form: Form, tag: str, told: dict[str, str]) -> None:
        name = told.get("name", "")
        if tag == "button":
            form.buttons.append((name, told.get("value", ""), told.get("formaction", "")))
        elif tag == "input" and told.get("type") in ("checkbox", "radio"):
            form.boxes.setdefault(name, told.get("value", "on"))
            if "checked" in told:
                form.sent[name] = told.get("value", "on")
        elif tag == "input" and name:
            form.sent[name] = told.get("value", "")
            if told.get("type", "text") not in ("hidden", "password", "file"):
                form.written.add(name)
        elif tag == "textarea":
            form.written.add(name)
            form.sent[name] = ""
            self.name, self.text = name, ""
        elif tag == "select":
            self.name = name
        elif tag == "option" and ("selected" in told or self.name not in form.sent):
            form.sent[self.name] = told.get("value", "")

    def handle_data(self, data: str) -> None:
        if self.text is not None:
            self.text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self.form = None
        if tag == "textarea" and self.text is not None and self.form is not None:
            self.form.sent[self.name] = self.text.removeprefix("\n").replace("\n", "\r\n")
            self.text = None
