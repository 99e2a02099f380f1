"""A table of texts, header first, as text, as Markdown or as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence


def to_text(lines: Sequence[Sequence[str]]) -> str:
    """Columns side by side."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def to_markdown(lines: Sequence[Sequence[str]]) -> str:
    """A table for a page."""
    header, *rows = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([header, "|" + "---|" * len(lines[0]), *rows])


def to_csv(lines: Sequence[Sequence[str]]) -> str:
    """Values separated by commas."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue().rstrip("\n")
