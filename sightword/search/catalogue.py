"""The pictures and captions that are searched, by their ids."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from sightword.captions.table import SPLITS, CaptionTable
from sightword.errors import SearchError

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
    """Ids, sorted; a picture's place here is its row in the index."""
    captions: list[Caption] = field(default_factory=list)
    """Each text once: the captions of test first, then dev, then train, each split in the order of the table."""
    captions_of: dict[str, list[str]] = field(default_factory=dict)
    """The captions of each picture."""
    splits: dict[str, str] = field(default_factory=dict)
    """The split of each picture."""

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {picture: row for row, picture in enumerate(self.pictures)}

    def row(self, picture: str) -> int | None:
        """Return the row of a picture; None for an unknown id."""
        return self._rows.get(picture)

    def find(self, picture: str) -> int:
        """Return the row of a picture.

        Raises:
            SearchError: no picture has this id; the message names similar ids.
        """
        row = self.row(picture)
        if row is None:
            near = self.near(picture)
            todo = f"Did you mean {' or '.join(near)}?" if near else None
            raise SearchError(f"no picture has the id {picture[:200]!r}", todo=todo)
        return row

    def near(self, picture: str, count: int = 3) -> list[str]:
        """Return ids similar to one that does not exist, the most similar first."""
        # A close comparison takes a millisecond for ten ids: only ids that share most triples of letters are compared.
        picture = picture[:200]
        wanted = _triples(picture)
        shared = Counter({other: len(wanted & _triples(other)) for other in self.pictures})
        few = [other for other, triples in shared.most_common(_NEAR) if triples]
        return difflib.get_close_matches(picture, few, n=count, cutoff=0.6)


def _triples(text: str) -> set[str]:
    text = text.lower()
    return {text[start : start + 3] for start in range(max(1, len(text) - 2))}


def build(pictures: Sequence[str], captions: CaptionTable | None, split: str | None = None) -> Catalogue:
    """Build the catalogue.

    Args:
        pictures: ids of pictures with features, sorted.
        captions: all captions, or None; captions of pictures without features are left out.
        split: keep only pictures and captions of this split.

    Raises:
        SearchError: the split has no pictures.
    """
    if captions is None:
        return Catalogue(list(pictures))
    here = set(pictures)
    splits, own = {}, dict[str, list[str]]()
    by_split: dict[str, dict[str, list[str]]] = {}
    for picture, name, text in zip(captions.image_ids, captions.splits, captions.texts, strict=True):
        if picture not in here or (split is not None and name != split):
            continue
        splits[picture] = name
        own.setdefault(picture, []).append(text)
        by_split.setdefault(name, {}).setdefault(text, []).append(picture)
    if split is not None and not splits:
        raise SearchError(
            f"no picture of the split {split!r} has features",
            expected=" or ".join(name for name in SPLITS if name in set(captions.splits)),
        )
    texts: dict[str, list[str]] = {}
    for name in reversed(SPLITS):
        for text, owners in by_split.get(name, {}).items():
            texts.setdefault(text, []).extend(owners)
    return Catalogue(
        [picture for picture in pictures if split is None or picture in splits],
        [Caption(text, tuple(dict.fromkeys(owners))) for text, owners in texts.items()],
        own,
        splits,
    )
