"""Pages as the helper makes them, read as a browser would."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

import msgspec

from anew.web.lab.computing import Ask
from anew.web.lab.page import make


@dataclass
class Element:
    """One start tag."""

    name: str
    attributes: dict[str, str | None]
    text: str = ""


@dataclass
class Page(HTMLParser):
    """A page's elements, in order, each with the text directly behind its start."""

    html: str
    elements: list[Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.elements:
            self.elements[-1].text += data

    def named(self, name: str) -> list[Element]:
        """Elements by their tag."""
        return [one for one in self.elements if one.name == name]

    def error(self, name: str) -> str:
        """What is said beside a field."""
        (place,) = [one for one in self.elements if one.attributes.get("data-error") == name]
        return place.text.strip()

    def value(self, name: str) -> str | None:
        """What a box holds."""
        (box,) = [
            one
            for one in self.elements
            if one.attributes.get("name") == name and one.name in ("input", "textarea")
        ]
        return box.text if box.name == "textarea" else box.attributes["value"]

    @property
    def ids(self) -> set[str]:
        """Names of its places."""
        return {one.attributes["id"] or "" for one in self.elements if "id" in one.attributes}

    @property
    def url(self) -> str:
        """The address that gives this state again."""
        return str(self.data["url"])

    @property
    def data(self) -> Any:
        """What the browser draws."""
        (block,) = [one for one in self.elements if one.attributes.get("id") == "data"]
        return msgspec.json.decode(block.text)

    @property
    def notice(self) -> str:
        """What is wrong with the page as a whole."""
        (place,) = [one for one in self.elements if one.attributes.get("id") == "notice"]
        return place.text.strip()


def page(query: str | dict[str, str] = "", **how: Any) -> Page:
    """Make a page from a query, or from its texts by name; `how` are further fields of `Ask`."""
    text = query if isinstance(query, str) else urlencode(query)
    made = make(Ask(text.encode(), **how))
    return Page(made.html.decode())
