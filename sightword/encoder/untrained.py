"""The network of an encoder before any training, a control."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TypeVar

from sightword.compute.devices import OwnRandom
from sightword.encoder.combination import Combination
from sightword.encoder.parts import Part
from sightword.model.encoders import CaptionEncoder

Kind = TypeVar("Kind", bound=Combination)


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
