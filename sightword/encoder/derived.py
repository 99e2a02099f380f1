"""Encoders made of encoders: the start of another training, and a network without training."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from sightword.captions.units import NOUN, Unit
from sightword.captions.vocabulary import UNKNOWN
from sightword.compute.devices import OwnRandom
from sightword.encoder.combination import Combination
from sightword.encoder.parts import Part, head, widths_of
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import EncoderError
from sightword.io.files import Pathish
from sightword.model.encoders import CaptionEncoder
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
    if name in ("", "..") or name != Path(name).name or not place.is_dir():
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
    kept = {f"train.{name}": fields[name] for name in fields if name not in ("reader", "similarity", "scaled", "frame")}
    return {"captions.unit": unit, **kept}


def untrained(encoder: Kind, seed: int) -> Kind:
    """Return the same combination of networks with random weights, that read sentences only.

    The weights are PyTorch's own; n-grams that are weighted by their frequency weigh 1. The network with number k, from
    0, has the seed ``seed + k``; the maps into spaces come after all networks.
    """
    seeds = itertools.count(seed)

    def drawn(part: Part) -> Part:
        with OwnRandom(next(seeds)):
            captions = CaptionEncoder(len(part.vocabulary), part.shape)
        return replace(part, captions=captions.to(encoder.device), images=None)

    other, heads = encoder.with_parts(drawn), {}
    for name, trained in encoder.heads.items():
        with OwnRandom(next(seeds)):
            heads[name] = head(widths_of(trained)).to(encoder.device)
    return replace(other, heads=heads)
