"""The pictures and captions that are searched, by their ids."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property

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
    languages: tuple[str, ...] = ()
    """The codes of the languages that the text is in; empty in a corpus of one language."""


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
    languages_of: dict[str, list[str]] = field(default_factory=dict)
    """The code of the language of each of the captions of each picture; empty in a corpus of one language."""

    rows: dict[str, int] = field(init=False, default_factory=dict)
    """The row of each picture."""

    def __post_init__(self) -> None:
        """Number the pictures."""  # now: a query beside a reading thread would miss what the thread adds meanwhile
        self.rows.update({picture: row for row, picture in enumerate(self.pictures)})

    def add(self, pictures: Sequence[str]) -> None:
        """Add pictures without captions behind the others."""
        self.rows.update(zip(pictures, range(len(self.pictures), len(self.pictures) + len(pictures)), strict=True))
        self.pictures.extend(pictures)

    def rows_of(self, split: str | None = None) -> Collection[int]:
        """Return the rows of all pictures, or of one split; SearchError where it has none."""
        if split is None:
            return range(len(self.pictures))
        if split not in self._by_split:
            raise SearchError(
                f"no picture is of the split {quote(split)}", expected=" or ".join(self._by_split) or None
            )
        return self._by_split[split]

    @cached_property
    def _by_split(self) -> dict[str, frozenset[int]]:
        """The rows of each split that has pictures."""
        found: dict[str, set[int]] = {split: set() for split in SPLITS}
        for picture, split in self.splits.items():
            found[split].add(self.rows[picture])
        return {split: frozenset(rows) for split, rows in found.items() if rows}

    @property
    def counts(self) -> dict[str, int]:
        """The number of pictures of each split that has some."""
        return {split: len(rows) for split, rows in self._by_split.items()}

    @cached_property
    def languages(self) -> dict[str, frozenset[int]]:
        """The captions in each language, by their places; empty in a corpus of one language."""
        found: dict[str, set[int]] = {}
        for place, caption in enumerate(self.captions):
            for language in caption.languages:
                found.setdefault(language, set()).add(place)
        return {language: frozenset(places) for language, places in sorted(found.items())}

    def captions_in(self, language: str | None = None) -> Collection[int]:
        """Return the places of all captions, or of those in one language; SearchError where none is."""
        if language is None:
            return range(len(self.captions))
        if language not in self.languages:
            expected = " or ".join(self.languages) or None
            todo = None if expected else "The captions have no column `language`: all are taken for one language."
            raise SearchError(f"no caption is in the language {quote(language)}", expected=expected, todo=todo)
        return self.languages[language]

    def texts(self, picture: str, language: str | None = None) -> list[str]:
        """Return the captions of a picture, all or those in one language."""
        texts = self.captions_of.get(picture, [])
        if language is None:
            return texts
        return [text for text, own in zip(texts, self.languages_of.get(picture, []), strict=False) if own == language]

    def spread(self, count: int, split: str | None = None) -> list[int]:
        """Return the rows of some pictures, spread evenly over all, or over one split; SearchError as for its rows."""
        rows = sorted(self.rows_of(split))
        step = max(1.0, len(rows) / count)
        return [rows[int(step * place)] for place in range(min(count, len(rows)))]

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
    languages = captions.languages or [""] * len(captions)
    rows = [
        row
        for row in zip(captions.image_ids, captions.splits, captions.texts, languages, strict=True)
        if row[0] in here and split in (None, row[1])
    ]
    splits = {picture: name for picture, name, _, _ in rows}
    if split is not None and not splits:
        expected = " or ".join(name for name in SPLITS if name in set(captions.splits))
        raise SearchError(f"no picture of the split {quote(split)} has features", expected=expected)
    own, spoken = dict[str, list[str]](), dict[str, list[str]]()
    texts: dict[str, tuple[str, dict[str, None], dict[str, None]]] = {}
    for picture, _, text, language in rows:
        own.setdefault(picture, []).append(text)
        spoken.setdefault(picture, []).append(language)
    for picture, _, text, language in sorted(rows, key=lambda row: -SPLITS.index(row[1])):
        _, owners, tongues = texts.setdefault(unicodedata.normalize("NFC", text), (text, {}, {}))
        owners[picture] = tongues[language] = None
    return Catalogue(
        [picture for picture in pictures if split is None or picture in splits],
        [Caption(text, tuple(owners), tuple(filter(None, tongues))) for text, owners, tongues in texts.values()],
        own,
        splits,
        spoken if captions.languages else {},
    )
