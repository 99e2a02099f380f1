"""The arguments of encoders: texts, numbers and options, checked and converted."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import TypedDict, get_args

import numpy as np
import numpy.typing as npt
import torch

from sightword.captions.units import NOUN
from sightword.captions.vocabulary import UNKNOWN, Vocabulary
from sightword.errors import EncoderError
from sightword.messages import quote, short, warn_share
from sightword.model.embedding import Floats, Precision

log = logging.getLogger(__name__)

MAX_LENGTH = 5_000
"""Default ``max_length``, which takes seconds. Captions have fewer than 500 tokens."""
LONGEST = 200_000
"""Largest ``max_length``. With 2,048 numbers a state, 100,000 tokens take 3 GB and two minutes."""


_VECTORS = "Take the vectors of encode and encode_images."
_FEATURES = "Take features of the network that the encoder was trained with (sightword.extract), not pictures or paths."


class EncodeOptions(TypedDict, total=False):
    """The options of ``encode`` that its two return types have in common."""

    space: str | None
    batch_size: int
    show_progress_bar: bool | None
    normalize_embeddings: bool
    max_length: int
    precision: Precision
    convert_to_numpy: bool
    device: torch.device | str | None
    prompt: str | None
    prompt_name: str | None
    lexical: bool
    output_value: str | None


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


def check_options(
    batch_size: object,
    max_length: object,
    own: torch.device,
    device: torch.device | str | None = None,
    prompts: Mapping[str, str | None] = MappingProxyType({}),
    precision: object = "fp32",
) -> None:
    """Check the options of ``encode``; those of sentence-transformers that mean nothing here may be None.

    Args:
        batch_size: sentences encoded together.
        max_length: the largest number of tokens of a sentence.
        own: the device of the weights.
        device: where to compute; only ``own``, or None.
        prompts: each option for a prompt; only None or an empty text.
        precision: ``fp32`` or ``bf16``.

    Raises:
        EncoderError: an option has another value.
    """
    if not isinstance(batch_size, int | np.integer) or batch_size < 1:
        raise EncoderError(f"batch_size is {quote(batch_size)}", expected="at least 1")
    if not isinstance(max_length, int | np.integer) or not 1 <= max_length <= LONGEST:
        raise EncoderError(f"max_length is {quote(max_length)}", expected=f"1 to {LONGEST:,}")
    if device is not None and str(device) not in (str(own), own.type if not own.index else ""):
        todo = "Load the encoder with this device, from_pretrained(NAME, device=...), or leave it out."
        raise EncoderError(f"device is {short(device)}, and the weights are on {own}", todo=todo)
    if precision not in get_args(Precision):
        raise EncoderError(f"precision is {quote(precision)}", expected=" or ".join(get_args(Precision)))
    for name, value in prompts.items():
        if value:
            todo = f"Leave {name} out, or write the prompt before each sentence."
            raise EncoderError(f"{name} is {quote(value)}, and the encoder was trained without prompts", todo=todo)


def check_output(name: object) -> None:
    """Raise EncoderError if another output of sentence-transformers than the embedding of a sentence is asked for."""
    if name != "sentence_embedding":
        what = f"output_value is {quote(name)}, and a sentence has one vector here, none for its tokens"
        raise EncoderError(what, expected="'sentence_embedding'", todo="Leave output_value out.")


def refuse_name(arguments: Sequence[object], loader: str) -> None:
    """Raise EncoderError for a class whose constructor got the name or the folder of an encoder."""
    if arguments and isinstance(arguments[0], str | os.PathLike):
        name = quote(os.fspath(arguments[0]))
        todo = f"To load an encoder, call {loader}({name})."
        raise EncoderError(f"{name} is a name, and the constructor takes networks", todo=todo)


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
    texts = list(sentences)
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
