"""Embeddings of captions and pictures by one encoder, kept in the store of features, so that each is computed once.

The store has a kind of its own for each encoder. Its keys are the sha256 of the texts and of the features, so captions
and pictures that are added, removed or put in another order leave the other embeddings valid.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sightword.errors import StoreError
from sightword.io.files import Pathish, sha256_file
from sightword.io.saved import SUMS
from sightword.storage.store import KindIdentity, Store, Writer

log = logging.getLogger(__name__)

VERSION = 2
"""The version of the computation. A change that moves more than the last bits of an embedding increases the number."""

Floats = npt.NDArray[np.float32]
Save = Callable[[Sequence[bytes], Floats], None]
"""Keeps embeddings (n, width) by their keys."""


@dataclass(frozen=True)
class EmbeddingKind(KindIdentity):
    """All that determines an embedding besides the text or the features."""

    encoder: str
    """The sha256 of the encoder's ``SHA256SUMS``."""
    device: str
    """The kind of device: devices differ in the last bits."""
    embeddings: int = VERSION


def kind_of(folder: Pathish, device: str) -> EmbeddingKind:
    """Return the kind of the embeddings by the encoder of a folder, whose sums were checked when it was loaded."""
    return EmbeddingKind(sha256_file(Path(folder) / SUMS), device)


def caption_key(text: str) -> bytes:
    """Return the key of a caption's embedding."""
    return hashlib.sha256(b"caption\0" + text.encode()).digest()


def picture_key(features: Floats) -> bytes:
    """Return the key of a picture's embedding, given its features (D,)."""
    return hashlib.sha256(b"picture\0" + features.astype("<f4", copy=False).tobytes()).digest()


class KeptEmbeddings:
    """The embeddings of one kind in a store. A store that cannot be read or written causes one warning."""

    def __init__(self, store: Store, kind: EmbeddingKind) -> None:
        self._store, self._kind, self._useless = store, kind, False

    def read(self, keys: Sequence[bytes], width: int) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Return embeddings, float32 (n, width), and which of them were kept, bool (n,); the others are not filled."""
        values, known = np.empty((len(keys), width), np.float32), np.zeros(len(keys), bool)
        rows: dict[bytes, list[int]] = {}
        for row, key in enumerate(keys):
            rows.setdefault(key, []).append(row)
        with self._tolerant():
            for found, vectors in self._store.read(self._kind, width, rows.keys()):
                for key, vector in zip(found, vectors, strict=True):
                    values[rows[key]], known[rows[key]] = vector, True
        return values, known

    @contextlib.contextmanager
    def saving(self) -> Iterator[Save]:
        """Yield a function that keeps embeddings; what it was given is kept also if the block raises an error."""
        with self._tolerant(), contextlib.ExitStack() as stack:
            writer: Writer | None = None

            def save(keys: Sequence[bytes], vectors: Floats) -> None:
                nonlocal writer
                with self._tolerant():
                    if not self._useless:
                        writer = writer or stack.enter_context(self._store.writer(self._kind))
                        for key, vector in zip(keys, vectors, strict=True):
                            writer.put(key, vector)

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
