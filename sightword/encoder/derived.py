"""Encoders made of encoders: the start of another training, a network without training, fewer axes, more words."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike

from sightword.captions.units import NOUN, Unit, is_token
from sightword.captions.vocabulary import PAD, UNKNOWN, Vocabulary
from sightword.compute.devices import OwnRandom
from sightword.encoder.combination import Combination
from sightword.encoder.parts import Part, blank
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError
from sightword.io.files import Pathish
from sightword.model.embedding import Floats
from sightword.model.encoders import CaptionEncoder, ImageEncoder
from sightword.model.shape import NgramShape, Shape, TfidfShape, shape_as_json

log = logging.getLogger(__name__)

Kind = TypeVar("Kind", bound=Combination)


def read_start(
    folder: Pathish, name: str, *, others: Sequence[str] = (), like: tuple[Shape, Unit] | None = None
) -> Part:
    """Return the network of a saved encoder in a folder of encoders.

    Args:
        folder: the folder with encoders, each in a folder of its own.
        name: the name of the encoder's folder.
        others: names that mean no saved encoder, for the message.
        like: the shape that the network must have, whatever compares its vectors, and the unit that it must read, as
            ``train`` and ``captions.unit`` name them; None: any.

    Raises:
        EncoderError: there is no such encoder, it is damaged, it has several networks, or is tf-idf, which
            is not trained; or it has another shape or unit (the message has both values).
    """
    place = Path(folder) / name
    if not place.is_dir():
        known = sorted(path.name for path in Path(folder).glob("*/")) if Path(folder).is_dir() else []
        expected = ", ".join([*others, *known]) or f"a folder in {Path(folder)}, which has none"
        raise EncoderError(f"start {name!r} is no folder of an encoder", where=place, expected=expected)
    parts = SentenceEncoder.load(place).leaves
    if len(parts) != 1:
        raise EncoderError(f"has {len(parts)} networks", where=place, expected="one, to train on")
    if isinstance(parts[0].shape, TfidfShape):
        raise EncoderError("counts n-grams (tf-idf)", where=place, expected="a network, to train on")
    if like is not None:
        own, wanted = _parameters(parts[0].shape, parts[0].vocabulary.unit), _parameters(*like)
        differing = sorted(key for key in {*own, *wanted} if own.get(key) != wanted.get(key))
        if differing:
            found, expected = (", ".join(f"{key} {of[key]}" for key in differing if key in of) for of in (own, wanted))
            todo = "Set these parameters to the values of the start, or choose another start."
            raise EncoderError(f"has {found}", where=place, expected=expected, todo=todo)
    return parts[0]


def report_unknown(name: str, start: Part, ids: Iterable[ArrayLike]) -> None:
    """Log a warning if the vocabulary of a start lacks tokens of the training sentences.

    Args:
        name: the name of the start.
        start: the network.
        ids: (L,) ids of each sentence, by the vocabulary of the start.
    """
    total = unknown = 0
    for row in ids:
        total += np.size(row)
        unknown += int(np.count_nonzero(np.asarray(row) == UNKNOWN))
    if unknown:
        noun = NOUN[start.vocabulary.unit]
        message = "the vocabulary of the start %s lacks %d of the %d %ss of the training sentences (%.1f %%)"
        log.warning(message, name, unknown, total, noun, 100.0 * unknown / total)


def _parameters(shape: Shape, unit: Unit) -> dict[str, Any]:
    """Return the parameters of a network's weights and of its reader."""
    fields = shape_as_json(shape) | ({"cell": "ngrams"} if isinstance(shape, NgramShape) else {})
    kept = {f"train.{name}": fields[name] for name in fields if name not in ("reader", "similarity", "scaled")}
    return {"captions.unit": unit, **kept}


def untrained(encoder: Kind, seed: int) -> Kind:
    """Return the same combination of networks with random weights, that read sentences only.

    The weights are PyTorch's own; n-grams that are weighted by their frequency weigh 1. The network with number k, from
    0, has the seed ``seed + k``.
    """
    seeds = itertools.count(seed)

    def drawn(part: Part) -> Part:
        with OwnRandom(next(seeds)):
            captions = CaptionEncoder(len(part.vocabulary), part.shape)
        return replace(part, captions=captions.to(encoder.device), images=None)

    return encoder.with_parts(drawn)


def keep_axes(encoder: SentenceEncoder, axes: int, sentences: Sequence[str]) -> SentenceEncoder:
    """Return an encoder whose trained vectors have ``axes`` numbers, along the principal axes of sentences' vectors.

    Cosines lose least in the mean over the sentences (principal components, Pearson 1901, without centring: cosines are
    of the vectors themselves). A bag of n-grams stays one, with a table of shorter rows, since the projection of a mean
    is the mean of projections. A part of weighted n-grams stays as it is.

    Args:
        encoder: an encoder with one trained network, of the kind ``ngrams``, and of the cosine.
        axes: the numbers to keep.
        sentences: such as the training captions.

    Raises:
        EncoderError: the encoder has other networks, or no more numbers than ``axes``.
    """
    trained = [part for part in encoder.leaves if not isinstance(part.shape, TfidfShape)]
    if len(trained) != 1 or type(trained[0].shape) is not NgramShape or encoder.similarity_name != "cosine":
        what = f"{encoder.reads}, {encoder.similarity_name}: axes can be kept of one network of n-grams and the cosine"
        raise EncoderError(what, todo="Keep all axes, or train with train.cell: ngrams and select.members: 1.")
    part = trained[0]
    if axes >= part.shape.width:
        raise EncoderError(f"has {part.shape.width} trained numbers a vector", expected=f"more than the {axes} to keep")
    vectors = SentenceEncoder([part]).encode(list(sentences)).astype(np.float64)
    spectrum, directions = np.linalg.eigh(vectors.T @ vectors)
    kept = directions[:, np.argsort(-spectrum, kind="stable")[:axes]]  # (width, axes)
    kept *= np.where(kept[np.abs(kept).argmax(axis=0), np.arange(axes)] < 0, -1.0, 1.0)  # one sign on any machine
    projection = torch.from_numpy(kept)

    def projected(one: Part) -> Part:
        if one is not part:
            return one
        shape = replace(part.shape, embedding=axes)
        captions = CaptionEncoder(len(part.vocabulary), shape)
        images = ImageEncoder(part.features_width, shape) if part.images else None
        with torch.no_grad():
            captions.embedding.weight.copy_(part.captions.embedding.weight.double() @ projection)
            if images and part.images:
                images.load_state_dict({**part.images.state_dict(), **images.linear.state_dict(prefix="linear.")})
                images.linear.weight.copy_(projection.T @ part.images.linear.weight.double())
                images.linear.bias.copy_(projection.T @ part.images.linear.bias.double())
        return Part(captions, part.vocabulary, shape, images)

    return encoder.with_parts(projected)


@dataclass(frozen=True)
class Expanded:
    """A part with a larger vocabulary."""

    part: Part
    shared: int
    """Words of the file that were in the vocabulary, from which the map was learned."""
    added: int
    """Words of the file that are new."""


def expand(part: Part, words: Sequence[str], vectors: Floats, *, where: object = None) -> Expanded:
    """Return the part with the words of a file in its vocabulary, whose own words keep their embeddings: vocabulary
    expansion (Kiros et al. 2015, section 2.2).

    The embedding of a new word is an affine map of its vector, fitted to the shared words by least squares. Words that
    are no single token after normalisation are left out.

    Args:
        part: the part.
        words: W words, each once.
        vectors: (W, width) their vectors.
        where: the file, for messages.

    Raises:
        EncoderError: the part reads characters or n-grams, or the file shares too few words with the vocabulary.
    """
    vocabulary, captions = part.vocabulary, part.captions
    if vocabulary.unit == "character":
        raise EncoderError("words cannot be added to an encoder that reads characters", where=where)
    if isinstance(part.shape, NgramShape):
        raise EncoderError("words cannot be added to an encoder that reads n-grams", where=where)
    own = dict(zip(vocabulary.tokens, range(UNKNOWN + 1, len(vocabulary)), strict=True))
    shared = [(row, own[word]) for row, word in enumerate(words) if word in own]
    width = vectors.shape[1]
    if len(shared) <= width:
        raise EncoderError(
            f"shares {len(shared)} words with the vocabulary, too few for a map from {width} numbers",
            where=where,
            expected=f"more than {width}",
            todo="Take a file of the same language and case, or of shorter vectors.",
        )
    table = captions.embedding.weight.detach().cpu().numpy()
    known, embedded = (list(side) for side in zip(*shared, strict=True))
    inputs = np.column_stack([vectors[known], np.ones(len(known))]).astype(np.float64)
    map_, *_ = np.linalg.lstsq(inputs, table[embedded].astype(np.float64), rcond=None)  # (width + 1, embedding)
    new = {
        word: row
        for row, word in enumerate(words)
        if word not in own and is_token(word, vocabulary.unit) and vocabulary.normalise(word) == word
    }
    larger = Vocabulary(tuple(sorted([*own, *new])), vocabulary.normalise, vocabulary.unit)
    values = np.empty((len(larger), table.shape[1]), np.float32)
    values[: UNKNOWN + 1] = table[: UNKNOWN + 1]
    for place, word in enumerate(larger.tokens, start=UNKNOWN + 1):
        values[place] = table[own[word]] if word in own else vectors[new[word]] @ map_[:-1] + map_[-1]
    grown = blank(len(larger), part.shape)["captions"]
    assert isinstance(grown, CaptionEncoder)
    state = captions.state_dict() | {"embedding.weight": torch.from_numpy(values).to(captions.embedding.weight.device)}
    grown.load_state_dict(state, assign=True)
    assert grown.embedding.padding_idx == PAD
    return Expanded(replace(part, captions=grown.eval(), vocabulary=larger), len(shared), len(new))
