"""The arguments of encoders: texts, numbers, and folders, checked and converted."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from sightword.captions.units import NOUN
from sightword.captions.vocabulary import UNKNOWN, Vocabulary
from sightword.errors import EncoderError
from sightword.messages import warn_share
from sightword.model.embedding import Floats

log = logging.getLogger(__name__)

LONGEST = 200_000
"""Largest ``max_length``. With 2,048 numbers a state, 100,000 tokens take 3 GB and two minutes."""


def token_rows(texts: Sequence[str], vocabulary: Vocabulary, most: int) -> list[npt.NDArray[np.int64]]:
    """Return the token ids of each text, and log texts without a known token.

    Raises:
        EncoderError: a text has more than ``most`` tokens.
    """
    ids_of: dict[str, npt.NDArray[np.int64]] = {}
    strange = []
    for place, text in enumerate(texts):
        if text not in ids_of:
            ids_of[text] = ids = np.asarray(vocabulary.encode(text), np.int64)
            if len(ids) > most:
                more = f", or give max_length, which may be {LONGEST:,} and takes long" if most < LONGEST else ""
                raise EncoderError(
                    f"sentence {place} has {len(ids):,} tokens", expected=f"at most {most:,}", todo=f"Cut it{more}."
                )
            if (ids == UNKNOWN).all():
                strange.append(place)
    first = ascii(texts[strange[0]][:40]) if strange else ""
    what = f"%d of %d sentences have no {NOUN[vocabulary.unit]} that the encoder knows (the first: %s)"
    warn_share(log, f"{what}: their embeddings mean nothing", len(strange), len(ids_of), first)
    return [ids_of[text] for text in texts]


def as_place(folder: object) -> Path:
    """Check a path that a user gave."""
    if isinstance(folder, str | os.PathLike):
        with contextlib.suppress(UnicodeEncodeError):
            if b"\0" not in os.fsencode(folder):
                return Path(folder)
    found = ascii(folder) if isinstance(folder, str) else type(folder).__name__
    raise EncoderError(f"the folder is {found}", expected="the path of a folder")


def as_texts(sentences: object) -> list[str]:
    """Return one text, or many, as a list of texts."""
    if isinstance(sentences, str):
        return [sentences]
    table = hasattr(sentences, "columns")  # of pandas, polars or Arrow, which iterates over columns
    unordered = table or isinstance(sentences, bytes | bytearray | memoryview | Mapping | Set)
    if unordered or not isinstance(sentences, Iterable) or getattr(sentences, "ndim", 1) != 1:
        todo = 'Give one column, such as table["caption"].' if table else None
        raise EncoderError(
            f"sentences are {type(sentences).__name__}", expected="a text, or a list of texts", todo=todo
        )
    texts = list(sentences)
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise EncoderError(f"sentence {place} is {type(text).__name__}, not a text")
    return texts


def as_numbers(values: object, name: str) -> Floats:
    """Convert numbers of any type to float32; values beyond float32 become infinite."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().float().numpy()
    try:
        array = np.asarray(values)
    except ValueError:
        raise EncoderError(f"{name} are not rows of equal length") from None
    if array.dtype.kind not in "fiu":
        raise EncoderError(f"{name} are {array.dtype}, not numbers")
    with np.errstate(over="ignore"):
        return array.astype(np.float32, copy=False)
