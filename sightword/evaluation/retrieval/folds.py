"""Divides pictures into five folds of 1,000; each fold is ranked alone."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sightword.errors import CorpusError, ScoringError
from sightword.evaluation.retrieval.settings import RetrievalSettings
from sightword.io.files import Pathish, read_table

log = logging.getLogger(__name__)

FOLDS = 5
FOLD_SIZE = 1000
PICTURES = FOLDS * FOLD_SIZE
_TODO = "Make it anew with the stage corpus (`dvc repro corpus`)."

Folds = list[NDArray[np.int64]]
"""The picture rows of each fold."""


def corpus_order(path: Pathish, image_ids: Sequence[str]) -> NDArray[np.int64]:
    """Return the (N,) rows of N pictures in the order of the corpus's ``images.parquet``.

    Raises:
        CorpusError: a picture is not in the table.
        FileFormatError: the table is missing, damaged, or of a version without the column ``position``.
    """
    table = read_table(path, ["image_id", "position"], todo=_TODO)
    position = dict(zip(table["image_id"].to_pylist(), table["position"].to_pylist(), strict=True))
    if missing := [image_id for image_id in image_ids if image_id not in position]:
        raise CorpusError(f"lacks {len(missing)} of {len(image_ids)} pictures, first {missing[0]}", where=path)
    return np.argsort([position[image_id] for image_id in image_ids], kind="stable").astype(np.int64)


def drawn_splits(images: Pathish) -> str:
    """Return how splits were drawn, in words, as ``images.parquet`` says; empty where the corpus names its splits."""
    if not Path(images).exists():
        return ""
    words: bytes = (read_table(images, ["image_id"], todo=_TODO).schema.metadata or {}).get(b"drawing", b"")
    return words.decode()


def fold_rows(order: NDArray[np.int64], how: Literal["contiguous", "random"], seed: int = 0) -> list[NDArray[np.int64]]:
    """Return the picture rows of each of five folds of 1,000, sorted.

    Args:
        order: (N,) the rows in the corpus's own order.
        how: "contiguous" takes the first 1,000 of the order, the next 1,000 and so on (Vendrov et al. 2016, VSE++);
            "random" draws 5,000 of all rows (Merkx & Frank 2019). Other pictures are in no fold.
        seed: the seed of random folds.

    Raises:
        ScoringError: fewer than 5,000 pictures.
    """
    if len(order) < PICTURES:
        raise ScoringError(f"{len(order)} pictures are too few for five folds", expected=f"at least {PICTURES}")
    rows = order if how == "contiguous" else np.random.default_rng(seed).permutation(len(order))
    return [np.sort(fold) for fold in rows[:PICTURES].reshape(FOLDS, FOLD_SIZE).astype(np.int64)]


def choose_folds(settings: RetrievalSettings, image_ids: Sequence[str], images: Pathish) -> tuple[Folds | None, str]:
    """Return the folds, if the protocol five_fold_1k is asked for, and the reason why it is left out.

    Args:
        settings: of the stage.
        image_ids: the pictures of the split.
        images: the corpus's table of pictures, which has their order.

    Raises:
        ScoringError: there are too few pictures, and no other protocol is asked for.
    """
    if "five_fold_1k" not in settings.protocols:
        return None, ""
    if len(image_ids) >= PICTURES:
        return fold_rows(corpus_order(images, image_ids), settings.folds, settings.fold_seed), ""
    few = f"the split {settings.split} has {len(image_ids)} pictures, five folds need {PICTURES}"
    if settings.protocols == ["five_fold_1k"]:
        what, todo = f"{few}, and no other protocol is asked for", "Add full to retrieval.protocols."
        raise ScoringError(what, where="retrieval.protocols", todo=todo)
    log.warning("protocol five_fold_1k left out: %s", few)
    return None, few
