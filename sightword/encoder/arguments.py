"""The arguments of encoders: texts, numbers and options, checked and converted."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import torch

from sightword.captions.units import NOUN
from sightword.captions.vocabulary import UNKNOWN, Vocabulary
from sightword.errors import EncoderError
from sightword.messages import quote, warn_share
from sightword.model.embedding import Floats, Precision

log = logging.getLogger(__name__)

MAX_LENGTH = 5_000
"""Default ``max_length``, which takes seconds. Captions have fewer than 500 tokens."""
LONGEST = 200_000
"""Largest ``max_length``. With 2,048 numbers a state, 100,000 tokens take 3 GB and two minutes."""


_PRECISIONS: dict[str, Precision] = {"fp32": "fp32", "float32": "fp32", "bf16": "bf16"}
_VECTORS = "Take the vectors of encode and encode_images."
_FEATURES = "Take features of the network that the encoder was trained with (sightword.extract), not pictures or paths."


@dataclass(frozen=True, kw_only=True)
class EncodeOptions:
    """The options of ``encode``, by the names of sentence-transformers where it has them."""

    space: str | None = None
    """The name of a space; None for the encoder's own."""
    batch_size: int = 256
    """Sentences encoded together, fewer if they are very long; changes the last bits only, except for an encoder that
    was trained with ``mask_padding: false``."""
    show_progress_bar: bool | None = False
    """Show a progress bar on a terminal."""
    normalize_embeddings: bool = False
    """Divide each vector by its length."""
    max_length: int = MAX_LENGTH
    """The most tokens of a sentence, at most 200,000; a longer sentence is refused before any is encoded, never cut."""
    precision: str = "fp32"
    """``fp32`` (or ``float32``), or ``bf16``: bfloat16, faster on a CPU or GPU with units for it. The cosine of a
    vector and the one of ``fp32`` is above 0.9999 in trained GRUs; the log warns on a CPU without such units."""
    convert_to_numpy: bool = True
    """False asks for a tensor, by ``convert_to_tensor``; a list of tensors is not returned."""
    convert_to_tensor: bool = False
    """Return a tensor on the encoder's device instead of an array."""
    lexical: bool = True
    """False leaves out the parts that weigh n-grams by their frequency: their numbers are 0. Retrieval of pictures is
    the same."""
    prompt: None = None
    """Callers of sentence-transformers give this option and those below; each has its neutral value only."""
    prompt_name: None = None
    output_value: str = "sentence_embedding"
    device: object = None
    """The encoder's own device, if any: :meth:`SentenceEncoder.load` takes another."""
    truncate_dim: None = None
    pool: None = None
    chunk_size: int | None = None

    def check(self) -> Precision:
        """Return the precision; EncoderError if an option has a wrong value."""
        for name in ("prompt", "prompt_name", "output_value", "truncate_dim", "pool", "chunk_size"):
            neutral = EncodeOptions.__dataclass_fields__[name].default
            given = getattr(self, name)
            if given is not neutral and not (isinstance(given, str) and given == neutral):
                raise EncoderError(f"{name} is {quote(given)}", expected=quote(neutral))
        if not self.convert_to_numpy and not self.convert_to_tensor:
            raise EncoderError("convert_to_numpy and convert_to_tensor are False", expected="one of them True")
        if not isinstance(self.batch_size, int | np.integer) or self.batch_size < 1:
            raise EncoderError(f"batch_size is {quote(self.batch_size)}", expected="at least 1")
        if not isinstance(self.max_length, int | np.integer) or not 1 <= self.max_length <= LONGEST:
            raise EncoderError(f"max_length is {quote(self.max_length)}", expected=f"1 to {LONGEST:,}")
        precision = _PRECISIONS.get(self.precision) if isinstance(self.precision, str) else None
        if precision is None:
            raise EncoderError(f"precision is {quote(self.precision)}", expected=" or ".join(get_args(Precision)))
        return precision


def token_rows(texts: Sequence[str], vocabulary: Vocabulary, most: int) -> list[npt.NDArray[np.int64]]:
    """Return the token ids of each text, and log texts without a known token.

    Raises:
        EncoderError: a text has more than ``most`` tokens.
    """
    different = list(dict.fromkeys(texts))
    rows = vocabulary.rows(different)
    long = next((place for place, ids in enumerate(rows) if len(ids) > most), None)
    if long is not None:
        more = f", or give max_length, which may be {LONGEST:,} and takes long" if most < LONGEST else ""
        what = f"sentence {texts.index(different[long])} has {len(rows[long]):,} tokens"
        raise EncoderError(what, expected=f"at most {most:,}", todo=f"Cut it{more}.")
    lengths = np.array([len(ids) for ids in rows], np.int64)
    known = np.append(0, np.cumsum(np.concatenate(rows or [np.empty(0, np.int64)]) != UNKNOWN))  # up to each token
    ends = np.cumsum(lengths)
    strange = np.flatnonzero(known[ends] == known[ends - lengths])
    first = quote(different[strange[0]]) if len(strange) else ""
    what = f"%d of %d sentences have no {NOUN[vocabulary.unit]} that the encoder knows (the first: %s)"
    warn_share(log, f"{what}: their embeddings mean nothing", len(strange), len(different), first)
    ids_of = dict(zip(different, rows, strict=True))
    return [ids_of[text] for text in texts]


def as_texts(sentences: object) -> list[str]:
    """Return one text, or many, as a list of texts."""
    if isinstance(sentences, str):
        return [sentences]
    table = hasattr(sentences, "columns")  # of pandas, polars or Arrow, which iterates over columns
    unordered = table or isinstance(sentences, bytes | bytearray | memoryview | Mapping | Set)
    if unordered or not isinstance(sentences, Iterable) or getattr(sentences, "ndim", 1) != 1:
        todo = 'Give one column, such as table["caption"].' if table else None
        raise EncoderError(
            f"got the type {type(sentences).__name__}",
            where="sentences",
            expected="a string or a list of strings",
            todo=todo,
        )
    column: Any = sentences
    texts = column.to_pylist() if hasattr(column, "to_pylist") else list(column)  # of Arrow
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise EncoderError(f"sentence {place} is {type(text).__name__}, not a text")
    return texts


def as_numbers(values: object, name: str, todo: str | None = None) -> Floats:
    """Convert numbers of any type to float32; values beyond float32 become infinite."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().float().numpy()
    try:
        array = np.asarray(values)
    except ValueError:
        raise EncoderError(f"{name} are not rows of equal length", todo=todo) from None
    if array.dtype.kind not in "fiu":
        raise EncoderError(f"{name} are {array.dtype}, not numbers", todo=todo)
    with np.errstate(over="ignore"):
        return array.astype(np.float32, copy=False)


def as_features(features: object, width: int) -> Floats:
    """Return features of pictures (N, width), or of one (width,), as float32 in this shape."""
    values = as_numbers(features, "features", _FEATURES)
    if values.ndim not in (1, 2) or values.shape[-1] != width:
        raise EncoderError(f"features have the shape {values.shape}", expected=f"(pictures, {width})", todo=_FEATURES)
    return values


def as_vectors(vectors: object, name: str, width: int) -> torch.Tensor:
    """Return vectors (N, width), or one (width,), as a float32 tensor (N, width)."""
    tensor = vectors
    if not isinstance(tensor, torch.Tensor):  # torch refuses negative strides, and warns about read-only arrays
        tensor = torch.from_numpy(np.require(as_numbers(vectors, name, _VECTORS), requirements=["C", "W"]))
    if tensor.ndim not in (1, 2) or tensor.shape[-1] != width:
        raise EncoderError(f"{name} have the shape {tuple(tensor.shape)}", expected=f"(.., {width})", todo=_VECTORS)
    return tensor.to(torch.float32).reshape(-1, width)
