"""Searches a collection of pictures and captions with an encoder."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from sightword import devices
from sightword.captions.table import CaptionTable
from sightword.encoder.composition import abstract, compose
from sightword.encoder.sentence_encoder import LONGEST, SentenceEncoder
from sightword.encoder.visual import VisualEncoder
from sightword.errors import EncoderError, FeaturesError, SearchError
from sightword.features.origin import DEMONSTRATION, describe, random_weights
from sightword.features.table import FeatureTable
from sightword.search.catalogue import Caption, Catalogue, build
from sightword.search.index import Found, Index
from sightword.search.query import Query, check_query

log = logging.getLogger(__name__)

MOST = 1000
"""Largest number of answers to a query."""
_AT_ONCE = 64
"""Captions that are embedded between two checks whether to stop."""

Floats = npt.NDArray[np.float32]
How = Literal["max", "min"]
"""The elementwise operation of an order: ``max`` composes, ``min`` abstracts."""


class PictureHit(NamedTuple):
    """A picture that a sentence found."""

    row: int
    picture: str
    score: float


class PictureAnswer(NamedTuple):
    """The pictures most like a sentence, best first."""

    query: Query
    hits: list[PictureHit]
    seconds: float


class Searcher:
    """Finds pictures by sentences and captions by pictures.

    Pictures are embedded at once; captions by :meth:`read_captions`, which takes long for many captions.

    Args:
        encoder: a trained encoder.
        table: the features of the pictures.
        captions: all captions, or None.
        where: the file of the features, for messages.
        split: search only pictures and captions of this split.
        threads: the number of threads for one query.

    Raises:
        EncoderError: the encoder was trained on features of another width.
        FeaturesError: the table is empty.
        SearchError: the split has no pictures.
    """

    def __init__(
        self,
        encoder: SentenceEncoder | VisualEncoder,
        table: FeatureTable,
        captions: CaptionTable | None = None,
        *,
        where: Path | None = None,
        split: str | None = None,
        threads: int = 1,
    ) -> None:
        self.encoder = encoder
        self.attributes = table.attributes
        self.catalogue: Catalogue = build(table.image_ids, captions, split)
        _check(encoder, table, where)
        pictures, texts = self.catalogue.pictures, self.catalogue.captions
        self.files = dict(zip(table.image_ids, table.sha256, strict=True))
        """The sha256 of the pictures' files, by id; empty where they are not known."""
        shape = encoder.width, encoder.similarity_name
        self._pictures = Index(len(pictures), *shape, "pictures", threads=threads)
        features = table.features if split is None else table.features[table.rows(pictures)]
        self._pictures.add(encoder.encode_images(features))
        self._captions = Index(len(texts), *shape, "captions", threads=threads)
        self._threads = threads
        self._turn = threading.Lock()  # a query has all threads; two at once would both be late

    @property
    def notes(self) -> list[str]:
        """Notes for the reader of the answers."""
        found, trained = [], self.encoder.notes.get("features")
        if random_weights(self.attributes):
            found.append(f"The pictures' features are of a network with {DEMONSTRATION}.")
        if isinstance(trained, dict) and _kind(trained) != _kind(self.attributes):
            found.append(
                f"The encoder was trained on features of another kind ({describe(trained)}) than these "
                f"({describe(self.attributes)}): scores may mean nothing."
            )
        return found

    @property
    def rows_of_files(self) -> dict[str, int]:
        """The sha256 of the pictures' files to their rows."""
        rows = self.catalogue.rows
        return {sha256: rows[picture] for picture, sha256 in self.files.items() if sha256 and picture in rows}

    @property
    def captions_read(self) -> int:
        """Captions that can be found by now, of ``len(catalogue.captions)``."""
        return len(self._captions)

    def read_captions(self, tick: Callable[[int], object] = int, *, stop: threading.Event | None = None) -> None:
        """Embed the captions that have no embedding yet, so that pictures can find them, until ``stop`` is set.

        ``tick`` is called with the number of captions that were just embedded.
        """
        texts = [caption.text for caption in self.catalogue.captions]
        for start in range(self.captions_read, len(texts), _AT_ONCE):
            if stop is not None and stop.is_set():
                return
            part = texts[start : start + _AT_ONCE]
            with devices.threads(self._threads):
                self._captions.add(self.encoder.encode(part, max_length=LONGEST))
            tick(len(part))

    def keep_reading(self, stop: threading.Event, *, pause: float = 5.0) -> None:
        """Embed the captions, in a thread with a lower priority, until ``stop`` is set.

        After an error the log has a warning, and after ``pause`` seconds the same captions are tried again, since the
        page needs them; the pause doubles after each error, up to an hour.
        """
        if sys.platform == "linux":
            thread = threading.get_native_id()  # on Linux a priority is a thread's own
            os.setpriority(os.PRIO_PROCESS, thread, min(19, os.getpriority(os.PRIO_PROCESS, thread) + 10))
        while not stop.is_set():
            try:
                return self.read_captions(stop=stop)
            except Exception as error:  # noqa: BLE001 - the next try may succeed, and queries go on meanwhile
                log.warning(
                    "reading the captions failed at %d of %d (%s: %s); trying again in %.0f s",
                    *(self.captions_read, len(self.catalogue.captions), type(error).__name__, error, pause),
                )
                stop.wait(pause)
                pause = min(2 * pause, 3600.0)
        return None

    def pictures(self, text: str, top: int) -> PictureAnswer:
        """Find the pictures most similar to a sentence.

        Raises:
            SearchError: the sentence is empty, too long, not UTF-8, or all its characters (or words) are unknown.
        """
        query = check_query(text, self.encoder.vocabulary)
        with self._turn, devices.threads(self._threads):
            begun = time.perf_counter()
            found = self._pictures.best(self.encoder.encode(query.text), top)
            seconds = time.perf_counter() - begun
        return PictureAnswer(query, self._hits(found), seconds)

    def combined(self, operands: Sequence[Query | int | Floats], top: int, *, how: How) -> list[PictureHit]:
        """Find the pictures most similar to a combination of sentences and pictures.

        Args:
            operands: sentences, pictures of the collection by their rows, and other pictures by their features (D,).
            top: the number of pictures.
            how: ``max`` composes and ``min`` abstracts (:mod:`sightword.encoder.composition`).

        Returns:
            The best pictures, best first, without the pictures of the collection that are operands.

        Raises:
            EncoderError: an abstraction by an encoder that was not trained for an order.
        """
        with self._turn, devices.threads(self._threads):
            vectors = np.stack(
                [self.encoder.encode(one.text) if isinstance(one, Query) else self.embedding(one) for one in operands]
            )
            vector = (compose if how == "max" else abstract)(vectors, self.encoder.similarity_name)
            own = {one for one in operands if isinstance(one, int)}
            found = self._pictures.best(vector, top + len(own))
        return [hit for hit in self._hits(found) if hit.row not in own][:top]

    def _hits(self, found: Found) -> list[PictureHit]:
        best = zip(found.rows.tolist(), found.scores.tolist(), strict=True)
        return [PictureHit(row, self.catalogue.pictures[row], at) for row, at in best]

    def embedding(self, picture: int | Floats) -> Floats:
        """Return the embedding (width,) of a picture, given its row in the collection or its features (D,)."""
        if isinstance(picture, int):
            return self._pictures.row(picture)
        found: Floats = self.encoder.encode_images(picture[None])[0]
        return found

    def captions(self, vector: Floats, top: int) -> list[tuple[Caption, float]]:
        """Find the captions most similar to a picture, given its :meth:`embedding`, and their scores.

        Raises:
            SearchError: there are no captions.
        """
        texts = self.catalogue.captions
        if not texts:
            raise SearchError("there are no captions to find", todo="Give --captions data/captions/captions.parquet.")
        with self._turn, devices.threads(self._threads):
            found = self._captions.best(vector, top)
        return [(texts[row], float(score)) for row, score in zip(found.rows, found.scores, strict=True)]


def _check(encoder: SentenceEncoder | VisualEncoder, table: FeatureTable, where: Path | None) -> None:
    if not table.image_ids:
        raise FeaturesError("holds no pictures", where=where, todo="Give the corpus its pictures.")
    width, trained = table.features.shape[1], encoder.notes.get("features")
    if width != encoder.features_width:
        of = f" ({describe(trained)})" if isinstance(trained, dict) else ""
        what = f"has {width} numbers a picture ({describe(table.attributes)})"
        expected = f"{encoder.features_width}, as the encoder was trained with{of}"
        raise EncoderError(what, where=where, expected=expected, todo="Give the features of the same run.")


def _kind(attributes: dict[str, object]) -> tuple[object, ...]:
    keys = ("backbone", "feature_point", "weights_sha256", "transform")
    made_here = tuple(attributes.get(key) or "" for key in keys)
    return made_here if any(made_here[::2]) else (attributes.get("origin"),)
