"""Prints the answers of a search: as text, as lines of JSON, or as CSV."""

from __future__ import annotations

import argparse
import bisect
import csv
import itertools
import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from unicodedata import category, east_asian_width

if TYPE_CHECKING:
    from sightword.search.catalogue import Caption
    from sightword.search.searcher import PictureHit, Searcher

_NARROWEST = 40
"""Letters of the narrowest line that is cut for a terminal."""
PICTURES = ("query", "rank", "picture", "score", "split", "captions")
"""Columns of a table of pictures."""
CAPTIONS = ("picture", "rank", "caption", "score", "own")
"""Columns of a table of captions; ``own`` is 1 for a caption of the picture, else 0."""
BETWEEN = " | "
"""Separates the captions of a picture in a cell."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Printer:
    """Prints answers in the layout that the options ``--json`` and ``--csv`` name.

    Args:
        arguments: the options.
        searcher: what found the answers.
        headed: print each query above its answers, where they are text.
    """

    def __init__(self, arguments: argparse.Namespace, searcher: Searcher, *, headed: bool = False) -> None:
        self._json, self._csv, self._searcher, self._headed = arguments.json, arguments.csv, searcher, headed
        self._answers = 0

    def pictures(
        self, query: str, hits: Sequence[PictureHit], first: dict[str, Any], *, notes: Sequence[str] = ()
    ) -> None:
        """Print pictures; ``first`` are the first values of the object in JSON, ``notes`` stand above a text."""
        from sightword.search.query import shown

        captions, splits = self._searcher.catalogue.captions_of, self._searcher.catalogue.splits
        if self._json:
            found = [
                {
                    "id": hit.picture,
                    "score": hit.score,
                    "split": splits.get(hit.picture),
                    "captions": captions.get(hit.picture, []),
                }
                for hit in hits
            ]
            self._print_json(first, {"pictures": found})
        elif self._csv:
            rows = [
                (
                    query,
                    rank,
                    hit.picture,
                    hit.score,
                    splits.get(hit.picture, ""),
                    BETWEEN.join(captions.get(hit.picture, [])),
                )
                for rank, hit in enumerate(hits, start=1)
            ]
            self._print_csv(PICTURES, rows)
        else:
            self._print_heading(query)
            print_notes(notes)
            wide = max((len(_plain(hit.picture)) for hit in hits), default=0)
            widest = max(map(len, splits.values()), default=0)
            for place, hit in enumerate(hits, start=1):
                split = f"  {splits.get(hit.picture, ''):{widest}}" if splits else ""
                caption = shown(next(iter(captions.get(hit.picture, [])), ""))
                _print_line(f"{place:4}  {hit.score:8.4f}{split}  {_plain(hit.picture):{wide}}", caption)
        self._answers += 1

    def captions(self, name: str, picture: str | None, found: Sequence[tuple[Caption, float]]) -> None:
        """Print the captions that a picture found: one of the collection, or the file ``name``."""
        from sightword.search.query import shown

        if self._json:
            hits = [{"text": one.text, "score": score, "pictures": list(one.pictures)} for one, score in found]
            self._print_json({"picture": picture or name}, {"captions": hits})
        elif self._csv:
            rows = [
                (picture or name, rank, one.text, score, int(picture in one.pictures))
                for rank, (one, score) in enumerate(found, start=1)
            ]
            self._print_csv(CAPTIONS, rows)
        else:
            for place, (caption, score) in enumerate(found, start=1):
                own = "  (its own)" if picture in caption.pictures else ""
                _print_line(f"{place:4}  {score:8.4f}", shown(caption.text), own)

    def _print_json(self, first: dict[str, Any], last: dict[str, Any]) -> None:
        similarity = self._searcher.encoder.similarity_name
        print(json.dumps({**first, "similarity": similarity, **last}, ensure_ascii=False))

    def _print_csv(self, header: Sequence[str], rows: Sequence[Sequence[str | int | float]]) -> None:
        """Print rows as CSV, with an apostrophe before a text that a spreadsheet would take for a formula."""
        writer = csv.writer(sys.stdout, lineterminator="\n")
        for row in [*([] if self._answers else [header]), *rows]:
            writer.writerow(
                [f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell for cell in row]
            )

    def _print_heading(self, query: str) -> None:
        if self._headed:
            print(f"{'' if not self._answers else chr(10)}{_plain(query)}", flush=True)  # before notes


def print_notes(notes: Iterable[str]) -> None:
    """Print notes on standard error; empty ones are left out."""
    for note in filter(None, notes):
        print(f"note: {note}", file=sys.stderr)


def _print_line(start: str, text: str, end: str = "") -> None:
    """Print a line, whose text is cut at the width of a terminal, and not elsewhere."""
    text = _plain(text)
    if sys.stdout.isatty():
        text = cut(text, max(shutil.get_terminal_size().columns, _NARROWEST) - len(start) - len(end) - 2)
    print(f"{start}  {text}{end}".rstrip())


def _plain(text: str) -> str:
    """Replace control characters, which could move the cursor of a terminal, by spaces; letters keep their joiners."""
    from sightword.captions.units import is_mark

    return "".join(character if character.isprintable() or is_mark(character) else " " for character in text)


def cut(text: str, room: int) -> str:
    """Return a text within so many columns of a terminal, of which a cut text ends in ``…``.

    A letter of Chinese, Japanese or Korean and an emoji take two columns. A letter keeps its marks, and joined signs
    stay together.
    """
    from sightword.captions.units import is_mark

    widths = [0 if category(one) in ("Mn", "Me", "Cf") else 1 + (east_asian_width(one) in "WF") for one in text]
    if sum(widths) <= room:
        return text
    end = bisect.bisect_right(list(itertools.accumulate(widths)), max(room - 1, 0))
    while end and (is_mark(text[end]) or text[end - 1] == "\N{ZERO WIDTH JOINER}"):
        end -= 1
    return f"{text[:end]}…"
