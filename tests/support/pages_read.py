"""Reading pages as readers and browsers do: visible words, tags, links."""

from __future__ import annotations

import re
from html.parser import HTMLParser

INSIDE = re.compile(
    r"\b(?:Macro|None|nan|NaN|Undefined)\b|<function|<bound|<built-in|object at 0x|\{\{|\{%|± 0\.0\b|\{[\"']\w"
)
"""What a program leaves in place of a value, such as a mapping; and an interval of no width, which no sample has."""


class _Text(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.hidden, self.words = False, list[str]()
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.hidden = tag in ("style", "script")
        self.words += [value for key, value in attrs if value and key in ("alt", "title", "aria-label", "placeholder")]

    def handle_endtag(self, tag: str) -> None:
        self.hidden = False

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.words.append(data)


def visible_text(page: str) -> str:
    """Return the text of an HTML page with the descriptions of its pictures, its white space folded."""
    text = " ".join(" ".join(_Text(page).words).split())
    assert text, "the page has no text"
    return text


def check_text(page: str) -> None:
    """Fail if a page shows a reader what no reader should see, such as ``None`` or a macro of its template."""
    text = visible_text(page)
    found = [text[max(0, hit.start() - 40) : hit.end() + 40] for hit in INSIDE.finditer(text)]
    assert not found, found


VOID = {"meta", "img", "br", "wbr", "path"}


class Page(HTMLParser):
    """Tags, links, ids and plain text of a page; unbalanced tags are an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for key, value in attrs if key in ("src", "href", "xlink:href", "srcset", "action")]
        self.ids += [value or "" for key, value in attrs if key == "id"]
        if tag == "img":
            self.images.append(dict(attrs))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("style", "script"):
            self.words.append(data)
