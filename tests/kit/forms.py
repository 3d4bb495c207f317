"""What a browser would send of a form: read from its HTML, with nothing filled in but what the page has filled in."""

from __future__ import annotations

from html.parser import HTMLParser


def form_of(html: str, action_ends: str) -> dict[str, str]:
    """The fields of the first form whose address ends so, without its buttons."""
    reader = _Reader(action_ends)
    reader.feed(html)
    assert reader.found, f"no form leads to …{action_ends}"
    return reader.sent


class _Reader(HTMLParser):
    def __init__(self, action_ends: str) -> None:
        super().__init__(convert_charrefs=True)
        self.action_ends, self.found, self.inside = action_ends, False, False
        self.sent: dict[str, str] = {}
        self.text: str | None = None  # the textarea or select that is being read
        self.name = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {name: value or "" for name, value in attrs}
        if tag == "form" and not self.found:
            self.found = self.inside = told.get("action", "").partition("?")[0].endswith(self.action_ends)
        if not self.inside:
            return
        if tag == "input" and told.get("type") in ("checkbox", "radio"):
            if "checked" in told:
                self.sent[told["name"]] = told.get("value", "on")
        elif tag == "input" and told.get("name"):
            self.sent[told["name"]] = told.get("value", "")
        elif tag == "textarea":
            self.name, self.text = told["name"], ""
        elif tag == "select":
            self.name = told["name"]
        elif tag == "option" and ("selected" in told or self.name not in self.sent):
            self.sent[self.name] = told.get("value", "")

    def handle_data(self, data: str) -> None:
        if self.text is not None:
            self.text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self.inside = False
        if tag == "textarea" and self.text is not None:
            self.sent[self.name] = self.text.removeprefix("\n").replace("\n", "\r\n")
            self.text = None
