"""Searches a collection of pictures and captions with an encoder."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from sightword.captions.table import CaptionTable
from sightword.compute import devices
from sightword.encoder.arguments import LONGEST
from sightword.encoder.composition import abstract, compose
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError, FeaturesError, SearchError
from sightword.evaluation.retrieval.index import Found, Index
from sightword.features.tables.origin import DEMONSTRATION, random_weights
from sightword.features.tables.table import FeatureTable
from sightword.model.shape import ComparisonName
from sightword.search.catalogue import Caption, Catalogue, build
from sightword.search.embeddings import KeptEmbeddings, Save, caption_key, picture_key
from sightword.search.query import Query, check_query

log = logging.getLogger(__name__)

MOST = 1000
"""Largest number of answers to a query."""
_AT_ONCE = 64
"""Captions that are embedded between two checks whether to stop."""
_LOOKED_UP = 4096
"""Captions whose kept embeddings are read together."""

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
How = Literal["max", "min"]
"""The elementwise operation of an order: ``max`` composes, ``min`` abstracts."""


class PictureHit(NamedTuple):
    """A picture that a sentence found."""

    row: int
    picture: str
    score: float
    share: float
    """The score on a scale from 0 to 1, for drawing: the cosine, or what is left of the largest order error."""


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
        kept: embeddings of earlier searches with this encoder; None computes all.

    Raises:
        EncoderError: the encoder was trained on features of another width.
        FeaturesError: the table is empty.
        SearchError: the split has no pictures.
    """

    def __init__(
        self,
        encoder: SentenceEncoder,
        table: FeatureTable,
        captions: CaptionTable | None = None,
        *,
        where: Path | None = None,
        split: str | None = None,
        threads: int = 1,
        kept: KeptEmbeddings | None = None,
    ) -> None:
        self.encoder, self._kept = encoder, kept
        self.attributes = table.attributes
        self.catalogue: Catalogue = build(table.image_ids, captions, split)
        _check(encoder, table, where)
        pictures, texts = self.catalogue.pictures, self.catalogue.captions
        self.files = dict(zip(table.image_ids, table.sha256, strict=True))
        """The sha256 of the pictures' files, by id; empty where they are not known."""
        shape = encoder.width, encoder.similarity_name
        self._pictures = Index(len(pictures), *shape, "pictures", threads=threads)
        features = table.features if split is None else table.features[table.rows(pictures)]
        self._pictures.add(self._embedded(features))
        self._captions = Index(len(texts), *shape, "captions", threads=threads)
        self._threads = threads
        self._turn = threading.Lock()  # a query has all threads; two at once would both be late
        self.problem = ""
        """The error that :meth:`keep_reading` met last, until captions are read again."""

    @property
    def notes(self) -> list[str]:
        """Notes for the reader of the answers."""
        found, trained = [], self.encoder.notes.get("features")
        if random_weights(self.attributes):
            found.append(f"The pictures' features are of a network with {DEMONSTRATION}.")
        if isinstance(trained, dict) and (difference := _difference(trained, self.attributes)):
            found.append(f"The encoder was trained on features of {difference}.")
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
        with contextlib.ExitStack() as stack:
            save = stack.enter_context(self._kept.saving()) if self._kept else None
            for start in range(self.captions_read, len(texts), _LOOKED_UP):
                if not self._read_some(texts[start : start + _LOOKED_UP], save, tick, stop):
                    return

    def _read_some(
        self, texts: list[str], save: Save | None, tick: Callable[[int], object], stop: threading.Event | None
    ) -> bool:
        """Embed the next captions as :meth:`read_captions` does; return False when ``stop`` is set."""
        keys = [caption_key(text) for text in texts]
        vectors, known = np.empty((len(texts), self.encoder.width), np.float32), np.zeros(len(texts), bool)
        if self._kept:
            vectors, known = self._kept.read(keys, self.encoder.width)
        for start in range(0, len(texts), _AT_ONCE):
            if stop is not None and stop.is_set():
                return False
            part = slice(start, start + _AT_ONCE)
            if not known[part].all():
                with devices.threads(self._threads):
                    vectors[part] = self.encoder.encode(texts[part], max_length=LONGEST)
                if save:
                    save(keys[part], vectors[part])
            self._captions.add(vectors[part])
            self.problem = ""
            tick(len(texts[part]))
        return True

    def _embedded(self, features: Floats) -> Floats:
        """Return the embeddings of features (N, D); only those that are not kept are computed."""
        # The space of pictures takes features as they are: nothing is worth keeping.
        if self._kept is None or self.encoder.spaces:
            return self.encoder.encode_images(features)
        keys = [picture_key(row) for row in features]
        vectors, known = self._kept.read(keys, self.encoder.width)
        missing = np.flatnonzero(~known)
        if len(missing):
            vectors[missing] = self.encoder.encode_images(features[missing])
            with self._kept.saving() as save:
                save([keys[row] for row in missing], vectors[missing])
        return vectors

    def keep_reading(self, stop: threading.Event, *, pause: float = 5.0) -> None:
        """Embed the captions, in a thread with a lower priority, until ``stop`` is set.

        After an error the log has a warning, :attr:`problem` is set, and after ``pause`` seconds the same captions are
        tried again, since the page needs them; the pause doubles after each error, up to an hour.
        """
        if sys.platform == "linux":
            thread = threading.get_native_id()  # on Linux a priority is a thread's own
            os.setpriority(os.PRIO_PROCESS, thread, min(19, os.getpriority(os.PRIO_PROCESS, thread) + 10))
        while not stop.is_set():
            try:
                return self.read_captions(stop=stop)
            except Exception as error:  # noqa: BLE001 - the next try may succeed, and queries go on meanwhile
                self.problem = f"{type(error).__name__}: {error}"
                log.warning(
                    "reading the captions failed at %d of %d (%s: %s); trying again in %.0f s",
                    *(self.captions_read, len(self.catalogue.captions), type(error).__name__, error, pause),
                )
                stop.wait(pause)
                pause = min(2 * pause, 3600.0)
        return None

    def pictures(self, text: str, top: int, *, split: str | None = None) -> PictureAnswer:
        """Find the pictures most similar to a sentence, of all splits or of one.

        Raises:
            SearchError: the sentence is empty, too long, not UTF-8, or all its characters (or words) are unknown; or
                no picture is of the split.
        """
        query, rows = check_query(text, self.encoder.vocabulary), self.catalogue.rows_of(split)
        with self._turn, devices.threads(self._threads):
            begun = time.perf_counter()
            vector = self.encoder.encode(query.text)
            found = self._best(vector, top, rows)
            seconds = time.perf_counter() - begun
        return PictureAnswer(query, self._hits(found, vector), seconds)

    def _best(self, vector: Floats, top: int, among: Collection[int]) -> Found:
        """Find the best of some rows: the index ranks all, so more are asked for until enough are among them."""
        count, wanted = len(self._pictures), min(top, len(among))
        asked = top if len(among) == count else top * count // len(among) + top
        while True:
            found = self._pictures.best(vector, asked)
            if len(among) == count:
                return found
            chosen = np.array([row in among for row in found.rows.tolist()], bool)
            if chosen.sum() >= wanted or asked >= count:
                return Found(found.rows[chosen][:wanted], found.scores[chosen][:wanted])
            asked = min(4 * asked, count)

    def combined(self, operands: Sequence[Query | int | Floats], top: int, *, how: How) -> list[PictureHit]:
        """Find the pictures most similar to a combination of sentences and pictures.

        Args:
            operands: sentences, pictures of the collection by their rows, and other pictures by their features (D,);
                one picture alone finds the pictures like it.
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
            combine = compose if how == "max" else abstract
            vector = vectors[0] if len(vectors) == 1 else combine(vectors, self.encoder.similarity_name)
            own = {one for one in operands if isinstance(one, int)}
            found = self._pictures.best(vector, top + len(own))
        return [hit for hit in self._hits(found, vector) if hit.row not in own][:top]

    def _hits(self, found: Found, query: Floats) -> list[PictureHit]:
        if not len(found.rows):
            return []
        rows = np.stack([self._pictures.row(row) for row in found.rows.tolist()])
        shares = _shares(found.scores, query, rows, self.encoder.similarity_name).tolist()
        best = zip(found.rows.tolist(), found.scores.tolist(), shares, strict=True)
        return [PictureHit(row, self.catalogue.pictures[row], at, share) for row, at, share in best]

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


def _shares(scores: Doubles, query: Floats, rows: Floats, similarity: ComparisonName) -> Doubles:
    """Return the scores (K,) on a scale from 0 to 1, given the query (D,) and the pictures (K, D)."""
    ours, theirs = float(np.linalg.norm(query)) or 1.0, np.linalg.norm(rows, axis=1)
    theirs[theirs == 0] = 1.0
    if similarity == "cosine":
        shares = scores
    elif similarity == "dot":
        shares = scores / (ours * theirs)
    else:  # the most that the lower side can exceed the upper side by is its own length
        shares = 1 + scores / (ours if similarity == "order" else theirs) ** 2
    return np.clip(shares, 0.0, 1.0)


def _check(encoder: SentenceEncoder, table: FeatureTable, where: Path | None) -> None:
    if not table.image_ids:
        raise FeaturesError("holds no pictures", where=where, todo="Give the corpus its pictures.")
    width, trained = table.features.shape[1], encoder.notes.get("features")
    if width != encoder.features_width:
        of = f" ({_network(trained)})" if isinstance(trained, dict) else ""
        what = f"has {width} numbers a picture ({_network(table.attributes)})"
        expected = f"{encoder.features_width}, as the encoder was trained with{of}"
        raise EncoderError(what, where=where, expected=expected, todo="Give the features of the same run.")


def _network(attributes: Mapping[str, Any]) -> str:
    """Return the name of the network that made features, or of the file they came from, without its sha256."""
    if not attributes.get("backbone"):
        return str(attributes.get("origin") or "of unknown origin").partition(" (sha256")[0]
    weights = DEMONSTRATION if random_weights(attributes) else f"weights {attributes.get('weights', '')}"
    return f"{attributes['backbone']}, {weights}"


def _difference(trained: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Describe the features of the training where they may be of another kind than these; empty otherwise."""
    parts = [key for key in ("backbone", "feature_point", "weights_sha256") if trained.get(key) != here.get(key)]
    if not trained.get("backbone") and not here.get("backbone"):
        parts = ["origin"] if trained.get("origin") != here.get("origin") else []
    elif _transform(trained) != _transform(here):
        parts.append("transform")
    if not parts:
        return ""
    names = _network(trained), _network(here)
    if here.get("backbone") and not trained.get("backbone"):
        return f"an unknown network ({names[0]}): scores mean nothing if these ({names[1]}) are of another one"
    if names[0] != names[1]:
        return f"another kind ({names[0]}) than these ({names[1]}): scores may mean nothing"
    words = {"feature_point": "points of the network", "transform": "crops or normalisation", "origin": "contents"}
    others = ", ".join(words.get(part, "weights") for part in parts)
    return f"another kind ({names[0]}, but other {others}): scores may mean nothing"


def _transform(attributes: Mapping[str, Any]) -> object:
    """Return the transform without ``exif``, which changes rotated photographs only."""
    try:
        values = json.loads(str(attributes.get("transform") or "{}"))
    except ValueError:
        return attributes.get("transform")
    return {key: value for key, value in values.items() if key != "exif"} if isinstance(values, dict) else values
