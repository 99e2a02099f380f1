"""The pictures and captions that are searched, by their ids."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from sightword.captions.table import CaptionTable
from sightword.errors import SearchError
from sightword.messages import did_you_mean, quote, short
from sightword.settings import SPLITS

_NEAR = 200
"""Number of ids that are compared closely with one that does not exist."""


@dataclass(frozen=True)
class Caption:
    """A text and its pictures; several pictures may share a text."""

    text: str
    pictures: tuple[str, ...]


@dataclass(frozen=True)
class Catalogue:
    """The pictures and captions that can be found."""

    pictures: list[str]
    """Ids; a picture's place here is its row in the index. Those of a table are sorted."""
    captions: list[Caption] = field(default_factory=list)
    """Each text once, in whatever Unicode form: the captions of test first, then dev, then train, each split in the
    order of the table."""
    captions_of: dict[str, list[str]] = field(default_factory=dict)
    """The captions of each picture."""
    splits: dict[str, str] = field(default_factory=dict)
    """The split of each picture."""
    rows: dict[str, int] = field(init=False, default_factory=dict)
    """The row of each picture."""

    def __post_init__(self) -> None:
        """Number the pictures."""  # now: a query beside a reading thread would miss what the thread adds meanwhile
        self.rows.update({picture: row for row, picture in enumerate(self.pictures)})

    def add(self, pictures: Sequence[str]) -> None:
        """Add pictures without captions behind the others."""
        start = len(self.pictures)
        self.pictures.extend(pictures)  # first: a query beside the reading thread looks up what rows names
        self.rows.update({picture: row for row, picture in enumerate(pictures, start)})

    def find(self, picture: str) -> int:
        """Return the row of a picture; a SearchError names ids like an unknown one."""
        if picture in self.rows:
            return self.rows[picture]
        # A close comparison takes a millisecond for ten ids: only ids that share most triples of letters are near.
        begin = short(picture)
        shared = Counter({other: len(_triples(begin) & _triples(other)) for other in self.pictures})
        near = [other for other, triples in shared.most_common(_NEAR) if triples]
        raise SearchError(f"no picture has the id {quote(picture)}", todo=did_you_mean(begin, near))


def _triples(text: str) -> set[str]:
    text = text.lower()
    return {text[start : start + 3] for start in range(max(1, len(text) - 2))}


def build(pictures: Sequence[str], captions: CaptionTable | None, split: str | None = None) -> Catalogue:
    """Build the catalogue of pictures with features, by their sorted ids, and of their captions; of one split if given.

    Raises:
        SearchError: the split has no pictures.
    """
    if captions is None:
        return Catalogue(list(pictures))
    here = set(pictures)
    every = zip(captions.image_ids, captions.splits, captions.texts, strict=True)
    rows = [row for row in every if row[0] in here and split in (None, row[1])]
    splits = {picture: name for picture, name, _ in rows}
    if split is not None and not splits:
        expected = " or ".join(name for name in SPLITS if name in set(captions.splits))
        raise SearchError(f"no picture of the split {quote(split)} has features", expected=expected)
    captions_of: dict[str, list[str]] = {}
    for picture, _, text in rows:
        captions_of.setdefault(picture, []).append(text)
    texts: dict[str, tuple[str, dict[str, None]]] = {}
    for picture, _, text in sorted(rows, key=lambda row: -SPLITS.index(row[1])):
        texts.setdefault(unicodedata.normalize("NFC", text), (text, {}))[1][picture] = None
    return Catalogue(
        [picture for picture in pictures if split is None or picture in splits],
        [Caption(text, tuple(owners)) for text, owners in texts.values()],
        captions_of,
        splits,
    )
