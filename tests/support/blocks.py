"""The fenced blocks of the pages: which a reader may type, and which of those no test can."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

COMMANDS = ("sh", "python")
SHOWN = ("text", "yaml", "mermaid")
"""Output, files and diagrams: nothing to type."""

FENCE = re.compile(
    r"(?:^<!-- not run: (?P<why>[^\n]*) -->\n)?^```(?P<language>[^\s`]*) ?(?P<who>\S*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    """Of its first line within the fence, from 1."""
    language: str
    who: str
    """The person who types it, where a page names several."""
    text: str
    why: str
    """Why no test runs it; empty where one does. The comment ``<!-- not run: WHY -->`` stands on the line before."""

    @property
    def place(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in their order."""
    text = page.read_text()
    return [
        Block(
            page, text.count("\n", 0, one.start("text")) + 1, one["language"], one["who"], one["text"], one["why"] or ""
        )
        for one in FENCE.finditer(text)
    ]


def pages(repository: Path) -> list[Path]:
    """What a reader reads: README and the documentation."""
    return [repository / "README.md", *sorted((repository / "docs").glob("*.md"))]


def to_run(page: Path) -> list[Block]:
    """The blocks that a reader types one after another, by one person and without what only they have."""
    return [one for one in blocks(page) if one.language in COMMANDS and not one.why and not one.who]
