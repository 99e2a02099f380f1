"""Searches a collection of pictures and captions with an encoder."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from sightword.captions.table import CaptionTable
from sightword.captions.units import split as split_units
from sightword.compute import devices
from sightword.encoder.arguments import LONGEST
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import FeaturesError, SearchError, StoreError
from sightword.evaluation.retrieval.index import Found, Index
from sightword.features.tables.origin import DEMONSTRATION, random_weights
from sightword.features.tables.table import FeatureTable
from sightword.io.files import Pathish, read_text, sha256_file
from sightword.io.saved import SUMS
from sightword.model.shape import ComparisonName
from sightword.model.similarity import abstract, compose
from sightword.search.catalogue import Caption, Catalogue, build
from sightword.search.networks import UploadedPictures, check_width, difference
from sightword.search.query import Query, check_query
from sightword.storage.store import KindIdentity, Store, Writer

if TYPE_CHECKING:
    from sightword.search.collection import PictureFolder, Piece

log = logging.getLogger(__name__)

MOST = 1000
"""Largest number of answers to a query."""
WEAK = "Weak matches: perhaps no picture fits this sentence."
QUANTILE = 0.7
"""A match is weak unless it is better than this part of the best matches of sentences about what no photograph shows;
chosen on dev, see ``docs/searching.md``."""
VERSION = 2
"""The version of the embeddings. A change that moves more than the last bits of an embedding increases the number."""
_AT_ONCE = 64
"""Captions that are embedded between two checks whether to stop."""
_FEW = 20
"""New pictures that are read by all crops at once."""
_LOOKED_UP = 4096
"""Captions whose kept embeddings are read together."""

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Save = Callable[[Sequence[str], Floats], None]
"""Keeps the embeddings (n, width) of texts."""
How = Literal["max", "min"]
"""The elementwise operation of an order: ``max`` composes, ``min`` abstracts."""


@dataclass(frozen=True)
class EmbeddingKind(KindIdentity):
    """All that determines an embedding besides the text."""

    encoder: str
    """The sha256 of the encoder's ``SHA256SUMS``."""
    device: str
    """The kind of device: devices differ in the last bits."""
    embeddings: int = VERSION


class KeptCaptions:
    """The embeddings of captions by the encoder in ``folder``, in the store of features, so that each is computed once.

    A store that cannot be read or written causes one warning.
    """

    def __init__(self, store: Store, folder: Pathish, device: str) -> None:
        self._store, self._kind = store, EmbeddingKind(sha256_file(Path(folder) / SUMS), device)
        self._useless = False

    def read(self, texts: Sequence[str], width: int) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Return embeddings, float32 (n, width), and which of them were kept, bool (n,); the others are not filled."""
        values, known = np.empty((len(texts), width), np.float32), np.zeros(len(texts), bool)
        rows = {_key(text): row for row, text in enumerate(texts)}
        with self._tolerant():
            for keys, vectors in self._store.read(self._kind, width, rows.keys()):
                places = [rows[key] for key in keys]
                values[places], known[places] = vectors, True
        return values, known

    @contextlib.contextmanager
    def saving(self) -> Iterator[Save]:
        """Yield a function that keeps embeddings; what it was given is kept also if the block raises an error."""
        with self._tolerant(), contextlib.ExitStack() as stack:
            writer: Writer | None = None

            def save(texts: Sequence[str], vectors: Floats) -> None:
                nonlocal writer
                with self._tolerant():
                    if not self._useless:
                        writer = writer or stack.enter_context(self._store.writer(self._kind))
                        for text, vector in zip(texts, vectors, strict=True):
                            writer.put(_key(text), vector)

            yield save

    @contextlib.contextmanager
    def _tolerant(self) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            if not self._useless:
                what = "%s: %s. Embeddings are not kept: the next start computes them again."
                log.warning(what, error.where, error.what)
            self._useless = True


def _key(text: str) -> bytes:
    return hashlib.sha256(b"caption\0" + text.encode()).digest()


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
        kept: embeddings of captions of earlier searches with this encoder; None computes all.
        weights: the files of the image networks' weights for new pictures, as :class:`UploadedPictures` takes them.
        quick: opens the folder with features of the centre crop alone, for :meth:`read_quickly`.

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
        kept: KeptCaptions | None = None,
        weights: Sequence[Path | None] | None = None,
        quick: Callable[[], PictureFolder] | None = None,
    ) -> None:
        self.encoder, self._kept, self._threads = encoder, kept, threads
        self._quick = quick and functools.cache(quick)
        self.attributes = pictures.attributes
        self.folder = None if isinstance(pictures, FeatureTable) else pictures
        """The folder of the pictures; None for a table."""
        ids = pictures.image_ids if isinstance(pictures, FeatureTable) else []
        self.catalogue: Catalogue = build(ids, captions, split)
        self.rows_of_files: dict[str, int] = {}
        """The rows of the pictures by the sha256 of their files."""
        self.uploads = UploadedPictures(self.attributes, self.rows_of_files, weights=weights, device=encoder.device)
        """Computes the features of new pictures."""
        shape, texts = (encoder.width, encoder.similarity_name), len(self.catalogue.captions)
        room = len(self.catalogue.pictures) if self.folder is None else len(self.folder.sources)
        self._new_index = functools.partial(Index, room, *shape, "pictures", threads=threads)
        self._pictures = self._new_index()
        self._is_quick = False  # the index has embeddings by the centre crop
        self._whole: dict[str, tuple[str, Floats]] = {}  # by all crops: the file's sha256, the embedding
        self._captions = Index(texts, *shape, "captions", threads=threads)
        self._bound = 0, -np.inf  # the score of a weak match among so many pictures
        self._turn = threading.Lock()  # a query has all threads; two at once would both be late
        self.problem = ""
        """The error that ended :func:`sightword.search.serving.keep_reading`."""
        if not isinstance(pictures, FeatureTable):
            check_width(encoder, pictures.dimension, self.attributes, where)
            return
        if not ids:
            raise FeaturesError("holds no pictures", where=where, todo="Give the corpus its pictures.")
        check_width(encoder, pictures.features.shape[1], self.attributes, where)
        self._know(zip(ids, pictures.sha256, strict=True))
        rows = slice(None) if split is None else pictures.rows(self.catalogue.pictures)
        self._pictures.add(encoder.encode_images(pictures.features[rows]))

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
        if self.folder is None:
            return 0
        return max(0, len(self.folder.sources) - len(self.rejected) - self.pictures_read)  # a read file may be lost

    @property
    def pictures_quick(self) -> int:
        """Pictures that are compared by the centre crop alone, and whose other crops are not computed yet."""
        return max(1, self.pictures_read - len(self._whole)) if self._is_quick else 0  # at least 1 until the exchange

    @property
    def rejected(self) -> dict[str, str]:
        """The files that cannot be used, by id, with the reason."""
        reader = self._quick() if self._quick and self._is_quick else self.folder
        return {} if reader is None else reader.rejected

    def read_quickly(self, *, progress: bool = False, stop: threading.Event | None = None) -> bool:
        """Read the pictures by their centre crop, in a tenth of the time, if many are new; return whether it was so.

        :meth:`read_pictures` then computes all crops, and exchanges all embeddings at its end. Errors as
        :meth:`PictureFolder.read`.
        """
        if self.folder is None or self._quick is None:
            return False
        if not self._is_quick:
            left = self.folder.read_kept(self._keep)
            if left <= max(_FEW, len(self.folder.sources) // 10):
                self._exchange()
                return False
        quick = self._quick()  # before others see the flag, and ask for it too
        self._is_quick = True
        quick.read(self._add, progress=progress, stop=stop)
        return True

    def read_pictures(self, *, progress: bool = False, stop: threading.Event | None = None) -> None:
        """Read the pictures of the folder that were not read yet; errors as :meth:`PictureFolder.read`."""
        if self.folder is None:
            return
        self.folder.read(self._keep if self._is_quick else self._add, progress=progress, stop=stop)
        if self._is_quick and len(self._whole) + len(self.folder.rejected) == len(self.folder.sources):
            self._exchange()

    def _add(self, piece: Piece) -> None:
        """Let pictures be found."""
        vectors = self.encoder.encode_images(piece.features)
        self.catalogue.add(piece.ids)
        self._know(zip(piece.ids, piece.sha256, strict=True))
        self._pictures.add(vectors)

    def _keep(self, piece: Piece) -> None:
        """Keep the embeddings of pictures by all crops until :meth:`_exchange`."""
        vectors = self.encoder.encode_images(piece.features)
        self._whole.update(zip(piece.ids, zip(piece.sha256, vectors, strict=True), strict=True))

    def _exchange(self) -> None:
        """Put the embeddings by all crops in place of those by the centre crop; rows stay what they are."""
        order, index = [*self.catalogue.pictures], self._new_index()
        order += sorted(self._whole.keys() - self.catalogue.rows.keys())
        for start in range(0, len(order), _LOOKED_UP):
            rows = enumerate(order[start : start + _LOOKED_UP], start)
            index.add(
                np.stack([self._whole[one][1] if one in self._whole else self._pictures.row(n) for n, one in rows])
            )
        with self._turn:
            self.catalogue.add(order[len(self.catalogue.pictures) :])
            self._know((picture, sha256) for picture, (sha256, _) in self._whole.items())
            self._pictures, self._is_quick, self._bound = index, False, (0, -np.inf)
        self._whole.clear()

    @property
    def captions_read(self) -> int:
        """Captions that can be found by now, of ``len(catalogue.captions)``."""
        return len(self._captions)

    def read_captions(self, tick: Callable[[int], object] = int, *, stop: threading.Event | None = None) -> None:
        """Embed the captions that have no embedding yet, so that pictures can find them, until ``stop`` is set.

        ``tick`` is called with the number of captions that were just embedded.
        """
        texts = [caption.text for caption in self.catalogue.captions]
        with self._kept.saving() if self._kept else contextlib.nullcontext() as save:
            for start in range(self.captions_read, len(texts), _LOOKED_UP):
                block = texts[start : start + _LOOKED_UP]
                vectors, known = np.empty((len(block), self.encoder.width), np.float32), np.zeros(len(block), bool)
                if self._kept:
                    vectors, known = self._kept.read(block, self.encoder.width)
                for part in (slice(at, at + _AT_ONCE) for at in range(0, len(block), _AT_ONCE)):
                    if stop is not None and stop.is_set():
                        return
                    if not known[part].all():
                        with devices.threads(self._threads):
                            vectors[part] = self.encoder.encode(block[part], max_length=LONGEST)
                        if save:
                            save(block[part], vectors[part])
                    self._captions.add(vectors[part])
                    tick(len(block[part]))

    def pictures(self, text: str, top: int = 10) -> PictureAnswer:
        """Find the ``top`` pictures most similar to a sentence.

        Raises:
            SearchError: the sentence cannot be asked (:func:`check_query`).
        """
        return self.answers([check_query(text, self.encoder.vocabulary)], top)[0]

    def answers(self, queries: Sequence[Query], top: int) -> list[PictureAnswer]:
        """Find the pictures of each of several checked queries, as :meth:`pictures` does."""
        with self._turn, devices.threads(self._threads):
            begun = time.perf_counter()
            # one by one: the last bits of a sentence's embedding would depend on the others
            vectors = np.stack([self.encoder.encode(query.text) for query in queries])
            found = [*map(Found, *self._pictures.search(vectors, top))]
            seconds = (time.perf_counter() - begun) / len(queries)
            weak = self._weak_bound()
        return [
            PictureAnswer(query, self._hits(own, vector), seconds, bool((own.scores[:1] <= weak).any()))
            for query, own, vector in zip(queries, found, vectors, strict=True)
        ]

    def _weak_bound(self) -> float:
        """Return the score that a match must exceed, by the best matches of :func:`unrelated` on the same pictures."""
        count = len(self._pictures)
        if self._bound[0] < count and len(self._unrelated):
            best = self._pictures.search(self._unrelated, 1).scores
            self._bound = count, float(np.quantile(best, QUANTILE))
        return self._bound[1]

    @functools.cached_property
    def _unrelated(self) -> Floats:
        """The embeddings of :func:`unrelated`; none for an encoder of another script, to which all are alike."""
        vocabulary, texts = self.encoder.vocabulary, unrelated()
        tokens = [token for text in texts for token in split_units(vocabulary.normalise(text), vocabulary.unit)]
        readable = sum(map(set(vocabulary.tokens).__contains__, tokens)) > len(tokens) / 2
        return self.encoder.encode(texts) if readable else np.empty((0, self.encoder.width), np.float32)

    def combined(self, operands: Sequence[Query | str | int | Floats], top: int, *, how: How) -> list[PictureHit]:
        """Find the ``top`` pictures most similar to a combination of operands, without those that are operands.

        Operands are sentences, pictures by their rows, and other pictures by their features (D,); one picture alone
        finds the pictures like it. ``max`` composes and ``min`` abstracts (:mod:`sightword.model.similarity`); an
        EncoderError refuses an abstraction by an encoder that was not trained for an order.
        """
        if not operands or how not in get_args(How):
            raise SearchError(f"{len(operands)} operands and how {how!r}", expected="one or more, and max or min")
        things = [check_query(one, self.encoder.vocabulary) if isinstance(one, str) else one for one in operands]
        with self._turn, devices.threads(self._threads):
            vectors = np.stack(
                [self.encoder.encode(one.text) if isinstance(one, Query) else self.embedding(one) for one in things]
            )
            combine = compose if how == "max" else abstract
            vector = vectors[0] if len(vectors) == 1 else combine(vectors, self.encoder.similarity_name)
            own = {int(one) for one in operands if isinstance(one, int | np.integer)}
            found = self._pictures.best(vector, top + len(own))
        return [hit for hit in self._hits(found, vector) if hit.row not in own][:top]

    def _hits(self, found: Found, query: Floats) -> list[PictureHit]:
        if not len(found.rows):
            return []
        rows = np.stack([self._pictures.row(row) for row in found.rows.tolist()])
        scores, shares = _shown(found.scores, query, rows, self.encoder.similarity_name)
        best = zip(found.rows.tolist(), scores.tolist(), shares.tolist(), strict=True)
        return [PictureHit(row, self.catalogue.pictures[row], at, share) for row, at, share in best]

    def row(self, picture: str) -> int:
        """Return the row of a picture by its id; a SearchError says why there is none (yet)."""
        if picture not in self.catalogue.rows:
            if why := self.rejected.get(picture):
                raise SearchError(f"the picture cannot be used: {why}", where=picture)
            if self.folder and any(source.image_id == picture for source in self.folder.sources):
                raise SearchError("the picture is not read yet", where=picture)
        return self.catalogue.find(picture)

    def embedding(self, picture: int | Floats) -> Floats:
        """Return the embedding (width,) of a picture, given its row in the collection or its features (D,)."""
        if isinstance(picture, int | np.integer):
            if not 0 <= picture < self.pictures_read:
                raise SearchError(f"no picture has the row {picture}", expected=f"0 to {self.pictures_read - 1}")
            return self._pictures.row(int(picture))
        found: Floats = self.encoder.encode_images(np.asarray(picture)[None])[0]
        return found

    def captions(self, vector: Floats, top: int) -> list[tuple[Caption, float]]:
        """Find the captions most similar to a picture, given its :meth:`embedding`, and their scores as those of
        :class:`PictureHit`; SearchError if there are no captions.
        """
        texts = self.catalogue.captions
        if not texts:
            todo = "Give the captions, such as data/captions/captions.parquet."
            raise SearchError("there are no captions to find", todo=todo)
        with self._turn, devices.threads(self._threads):
            found = self._captions.best(vector, top)
            rows = [self._captions.row(row) for row in found.rows.tolist()]
        if not rows:
            return []
        scores, _ = _shown(found.scores, vector, np.stack(rows), self.encoder.similarity_name)
        return [(texts[row], float(score)) for row, score in zip(found.rows, scores, strict=True)]


@functools.lru_cache
def unrelated() -> list[str]:
    """Return sentences about what no photograph shows: economy, law, science, computers, language, history, letters."""
    return read_text(Path(__file__).with_name("unrelated.txt")).splitlines()


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
