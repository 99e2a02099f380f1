"""The encoder of ``train.cell: tfidf``, and the part of ``select.lexical``: weights that are counted, not trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from tqdm import tqdm

from sightword.captions.vocabulary import PAD, UNKNOWN, Vocabulary
from sightword.model.encoders import Encoders, pad
from sightword.model.ngrams import Tfidf
from sightword.model.settings import ModelSettings
from sightword.model.shape import Shape, TfidfShape

BATCH = 256
"""Captions that are counted together."""


def shape_of(settings: ModelSettings, vocabulary: Vocabulary) -> Shape:
    """Return the shape of the network; n-grams that are counted begin and end with the vocabulary's space, if any."""
    return framed(settings.shape, vocabulary) if isinstance(settings.shape, TfidfShape) else settings.shape


def framed(shape: TfidfShape, vocabulary: Vocabulary) -> TfidfShape:
    """Return the shape whose rows begin and end with the vocabulary's space, if any."""
    tokens = vocabulary.tokens
    return replace(shape, frame=tokens.index(" ") + UNKNOWN + 1 if " " in tokens else PAD)


def count(
    shape: Shape, rows: Sequence[npt.NDArray[np.int64]], vocabulary: Vocabulary, *, progress: bool = False
) -> Encoders:
    """Return a network without a side of pictures, whose n-grams have the weights of these captions.

    The order of the captions changes nothing.

    Args:
        shape: the shape, as :func:`shape_of` or :func:`framed` returns it.
        rows: the token ids of the training captions.
        vocabulary: the vocabulary of the ids.
        progress: show a progress bar on a terminal.
    """
    encoders = Encoders(len(vocabulary), 0, shape)
    assert isinstance(encoders.captions.embedding, Tfidf)
    order = sorted(range(len(rows)), key=lambda place: len(rows[place]))  # saves padding

    def batches() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        with tqdm(
            total=len(rows), desc="train", unit="caption", leave=False, disable=None if progress else True
        ) as bar:
            for start in range(0, len(order), BATCH):
                chosen = [rows[place] for place in order[start : start + BATCH]]
                yield pad(chosen)
                bar.update(len(chosen))

    encoders.captions.embedding.count(batches())
    return encoders.eval()
