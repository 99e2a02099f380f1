"""Searches a collection of pictures and captions with an encoder."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from sightword.captions.table import CaptionTable
from sightword.captions.units import split as split_units
from sightword.captions.vocabulary import Vocabulary
from sightword.compute import devices
from sightword.encoder.arguments import LONGEST
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import FeaturesError, SearchError
from sightword.evaluation.retrieval.index import Found, Index
from sightword.features.tables.origin import DEMONSTRATION, random_weights
from sightword.features.tables.table import FeatureTable
from sightword.io.files import read_text
from sightword.model.shape import ComparisonName
from sightword.model.similarity import abstract, compose
from sightword.search.catalogue import Caption, Catalogue, build
from sightword.search.embeddings import KeptEmbeddings, Save, caption_key, picture_key
from sightword.search.networks import UploadedPictures, check_width, difference
from sightword.search.query import Query, check_query

if TYPE_CHECKING:
    from sightword.search.collection import PictureFolder, Piece  # loads torchvision

MOST = 1000
"""Largest number of answers to a query."""
WEAK = "Weak matches: perhaps no picture fits this sentence."
QUANTILE = 0.9
"""A match is weak unless it is better than this part of the best matches of sentences about what no photograph shows;
chosen on dev, see ``docs/searching.md``."""
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
    """The cosine, or minus the order error. Of a sum of embeddings, which is ranked by the dot product, the cosine of
    a later picture can be a little higher."""
    share: float
    """The score on a scale from 0 to 1, for drawing: the cosine, or what is left of the largest order error."""


class PictureAnswer(NamedTuple):
    """The pictures most like a sentence, best first."""

    query: Query
    hits: list[PictureHit]
    seconds: float
    weak: bool
    """Whether the best picture fits the sentence no better than sentences about what no photograph shows."""


class Searcher:
    """Finds pictures by sentences and captions by pictures.

    Pictures of a table are embedded at once; those of a folder by :meth:`read_pictures`, and captions by
    :meth:`read_captions`, which take long. What was read by then is found.

    Args:
        encoder: a trained encoder.
        pictures: the features of the pictures, or a folder of picture files.
        captions: all captions, or None.
        where: the file of the features, for messages.
        split: search only pictures and captions of this split.
        threads: the number of threads for one query.
        kept: embeddings of earlier searches with this encoder; None computes all.
        weights: the files of the image networks' weights for new pictures, as :class:`UploadedPictures` takes them.

    Raises:
        EncoderError: the encoder was trained on features of another width.
        FeaturesError: the table is empty.
        SearchError: the split has no pictures.
    """

    def __init__(
        self,
        encoder: SentenceEncoder,
        pictures: FeatureTable | PictureFolder,
        captions: CaptionTable | None = None,
        *,
        where: Path | None = None,
        split: str | None = None,
        threads: int = 1,
        kept: KeptEmbeddings | None = None,
        weights: Sequence[Path | None] | None = None,
    ) -> None:
        self.encoder, self._kept, self._threads = encoder, kept, threads
        self.attributes = pictures.attributes
        self.folder = None if isinstance(pictures, FeatureTable) else pictures
        """The folder of the pictures; None for a table."""
        ids = pictures.image_ids if isinstance(pictures, FeatureTable) else []
        self.catalogue: Catalogue = build(ids, captions, split)
        self.files: dict[str, str] = {}
        """The sha256 of the pictures' files, by id; empty where they are not known."""
        self.rows_of_files: dict[str, int] = {}
        """The rows of the pictures by the sha256 of their files."""
        self.uploads = UploadedPictures(self.attributes, self.rows_of_files, weights=weights, device=encoder.device)
        """Computes the features of new pictures."""
        shape, texts = (encoder.width, encoder.similarity_name), len(self.catalogue.captions)
        room = len(self.catalogue.pictures) if self.folder is None else len(self.folder.sources)
        self._pictures = Index(room, *shape, "pictures", threads=threads)
        self._captions = Index(texts, *shape, "captions", threads=threads)
        self._bounds: dict[str | None, tuple[int, float]] = {}  # by the split: of so many pictures
        self._turn = threading.Lock()  # a query has all threads; two at once would both be late
        self.problem = ""
        """The error that :func:`sightword.search.serving.keep_reading` met last, until something is read again."""
        if not isinstance(pictures, FeatureTable):
            check_width(encoder, pictures.dimension, self.attributes, where)
            return
        if not ids:
            raise FeaturesError("holds no pictures", where=where, todo="Give the corpus its pictures.")
        check_width(encoder, pictures.features.shape[1], self.attributes, where)
        self._know(zip(ids, pictures.sha256, strict=True))
        rows = slice(None) if split is None else pictures.rows(self.catalogue.pictures)
        self._pictures.add(self._embedded(pictures.features[rows]))

    @property
    def notes(self) -> list[str]:
        """Notes for the reader of the answers."""
        found, trained = [], self.encoder.notes.get("features")
        if random_weights(self.attributes):
            found.append(f"The pictures' features are of a network with {DEMONSTRATION}.")
        if isinstance(trained, dict) and (other := difference(trained, self.attributes)):
            found.append(f"The encoder was trained on features of {other}.")
        return found

    def _know(self, files: Iterable[tuple[str, str]]) -> None:
        """Take in the sha256 of pictures' files."""
        for picture, sha256 in files:
            self.files[picture] = sha256
            if sha256 and picture in self.catalogue.rows:
                self.rows_of_files[sha256] = self.catalogue.rows[picture]

    @property
    def vectors(self) -> Floats:
        """The embeddings of the pictures read so far, a copy, (N, ``encoder.width``); ``catalogue.pictures`` are their
        ids.
        """
        return self._pictures.rows(0, len(self._pictures)).copy()

    @property
    def pictures_read(self) -> int:
        """Pictures that can be found by now."""
        return len(self._pictures)

    @property
    def pictures_left(self) -> int:
        """Pictures of the folder that are not read yet."""
        return 0 if self.folder is None else len(self.folder.sources) - len(self.folder.rejected) - self.pictures_read

    def read_pictures(self, *, progress: bool = False, stop: threading.Event | None = None) -> None:
        """Read the pictures of the folder that were not read yet; errors as :meth:`PictureFolder.read`."""
        if self.folder is not None:
            self.folder.read(self._add, progress=progress, stop=stop)

    def _add(self, piece: Piece) -> None:
        """Let pictures be found."""
        vectors = self.encoder.encode_images(piece.features)
        self.catalogue.add(piece.ids)
        self._know(zip(piece.ids, piece.sha256, strict=True))
        self._pictures.add(vectors)
        self.problem = ""

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

    def pictures(self, text: str, top: int = 10, *, split: str | None = None) -> PictureAnswer:
        """Find the ``top`` pictures most similar to a sentence, of all splits or of one.

        Raises:
            SearchError: the sentence cannot be asked (:func:`check_query`), or no picture is of the split.
        """
        return self.answers([check_query(text, self.encoder.vocabulary)], top, split=split)[0]

    def answers(self, queries: Sequence[Query], top: int, *, split: str | None = None) -> list[PictureAnswer]:
        """Find the pictures of each of several checked queries, as :meth:`pictures` does."""
        among = None if split is None else self.catalogue.rows_of(split)
        with self._turn, devices.threads(self._threads):
            begun = time.perf_counter()
            # one by one: the last bits of a sentence's embedding would depend on the others
            vectors = np.stack([self.encoder.encode(query.text) for query in queries])
            if among is None:
                found = [*map(Found, *self._pictures.search(vectors, top))]
            else:
                found = [_best(self._pictures, vector, top, among) for vector in vectors]
            seconds = (time.perf_counter() - begun) / len(queries)
            weak = self._weak_bound(split, among)
        return [
            PictureAnswer(query, self._hits(own, vector), seconds, bool((own.scores[:1] <= weak).any()))
            for query, own, vector in zip(queries, found, vectors, strict=True)
        ]

    def _weak_bound(self, split: str | None, among: Collection[int] | None) -> float:
        """Return the score that a match must exceed, by the best matches of :func:`unrelated` on the same pictures."""
        count, bound = self._bounds.get(split, (0, -np.inf))
        if count == len(self._pictures) or not readable(self.encoder.vocabulary):
            return bound
        texts = unrelated()
        keys, known = [caption_key(text) for text in texts], np.zeros(len(texts), bool)
        if self._kept:
            vectors, known = self._kept.read(keys, self.encoder.width)
        if not known.all():
            vectors = self.encoder.encode(texts)
            if self._kept:
                with self._kept.saving() as save:
                    save(keys, vectors)
        best = [_best(self._pictures, vector, 1, among).scores for vector in vectors]
        bound = float(np.quantile(np.concatenate(best), QUANTILE))
        self._bounds[split] = len(self._pictures), bound
        return bound

    def combined(self, operands: Sequence[Query | int | Floats], top: int, *, how: How) -> list[PictureHit]:
        """Find the ``top`` pictures most similar to a combination of operands, without those that are operands.

        Operands are sentences, pictures by their rows, and other pictures by their features (D,); one picture alone
        finds the pictures like it. ``max`` composes and ``min`` abstracts (:mod:`sightword.model.similarity`); an
        EncoderError refuses an abstraction by an encoder that was not trained for an order.
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
        scores, shares = _shown(found.scores, query, rows, self.encoder.similarity_name)
        best = zip(found.rows.tolist(), scores.tolist(), shares.tolist(), strict=True)
        return [PictureHit(row, self.catalogue.pictures[row], at, share) for row, at, share in best]

    def embedding(self, picture: int | Floats) -> Floats:
        """Return the embedding (width,) of a picture, given its row in the collection or its features (D,)."""
        if isinstance(picture, int):
            return self._pictures.row(picture)
        found: Floats = self.encoder.encode_images(picture[None])[0]
        return found

    def captions(self, vector: Floats, top: int, *, language: str | None = None) -> list[tuple[Caption, float]]:
        """Find the captions most similar to a picture, given its :meth:`embedding`, and their scores as those of
        :class:`PictureHit`; in all languages or in one.

        Raises:
            SearchError: there are no captions, or none in the language.
        """
        texts = self.catalogue.captions
        if not texts:
            raise SearchError(
                "there are no captions to find", todo="Give the captions, such as data/captions/captions.parquet."
            )
        among = None if language is None else self.catalogue.captions_in(language)
        with self._turn, devices.threads(self._threads):
            found = _best(self._captions, vector, top, among)
            rows = [self._captions.row(row) for row in found.rows.tolist()]
        if not rows:
            return []
        scores, _ = _shown(found.scores, vector, np.stack(rows), self.encoder.similarity_name)
        return [(texts[row], float(score)) for row, score in zip(found.rows, scores, strict=True)]


@functools.lru_cache
def unrelated() -> list[str]:
    """Return sentences about what no photograph shows: economy, law, science, computers, language, history, letters."""
    return read_text(Path(__file__).with_name("unrelated.txt")).splitlines()


def readable(vocabulary: Vocabulary) -> bool:
    """Return whether an encoder knows most tokens of :func:`unrelated`; to one of another script all are alike."""
    tokens = [token for text in unrelated() for token in split_units(vocabulary.normalise(text), vocabulary.unit)]
    return sum(map(set(vocabulary.tokens).__contains__, tokens)) > len(tokens) / 2


def _best(index: Index, vector: Floats, top: int, among: Collection[int] | None) -> Found:
    """Find the best of some rows: the index ranks all, so more are asked for until enough are among them."""
    if among is None:
        return index.best(vector, top)
    count, wanted = len(index), min(top, len(among))
    asked = top * count // len(among) + top
    while True:
        found = index.best(vector, asked)
        chosen = np.array([row in among for row in found.rows.tolist()], bool)
        if chosen.sum() >= wanted or asked >= count:
            return Found(found.rows[chosen][:wanted], found.scores[chosen][:wanted])
        asked = min(4 * asked, count)


def _shown(scores: Doubles, query: Floats, rows: Floats, similarity: ComparisonName) -> tuple[Doubles, Doubles]:
    """Return scores (K,) of a query (D,) and rows (K, D), of a dot product the cosine; and on a scale from 0 to 1."""
    ours, theirs = float(np.linalg.norm(query.astype(float))) or 1.0, np.linalg.norm(rows.astype(float), axis=1)
    theirs[theirs == 0] = 1.0
    if similarity == "dot":
        scores = scores / (ours * theirs)
    shares = scores
    if similarity not in ("cosine", "dot"):  # the most that one side can exceed the other by is its own length
        shares = 1 + scores / (ours if similarity == "order" else theirs) ** 2
    return scores, np.clip(shares, 0.0, 1.0)
