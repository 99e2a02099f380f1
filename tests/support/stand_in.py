"""A stand-in for an encoder of grounded spaces, with sentences and pictures to judge it."""

from __future__ import annotations

import zlib

import numpy as np

from sightword.features.tables.pairs import Pairs

_LIST = "a the red blue green dog cat ball box runs sits lies on under near small large"
WORDS = _LIST.split()


class StandIn:
    """Vectors are sums of random vectors of words; each space has other vectors. ``read`` counts the sentences."""

    scale = 1.0

    def __init__(self, seed=0, spaces=("sentence", "grounded"), widths=(12, 8), default="grounded"):
        self.spaces, self.widths, self.default, self.seed, self.read = tuple(spaces), widths, default, seed, 0

    def encode_spaces(self, sentences, *, batch_size=256, max_length=100):
        self.read += len(sentences)
        return {
            space: np.array([self._vector(text, space, width) for text in sentences], np.float32)
            for space, width in zip(self.spaces, self.widths, strict=True)
        }

    def _vector(self, text, space, width):
        keys = [zlib.crc32(f"{space} {self.seed} {word}".encode()) for word in text.lower().split()]
        return self.scale * sum(np.random.default_rng(key).standard_normal(width) for key in keys)


def sentences(count, seed):
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, random.integers(4, 9))) for _ in range(count)]


def split(pictures, seed, captions=2):
    random = np.random.default_rng(seed)
    owner = np.repeat(np.arange(pictures), captions)
    return Pairs(
        image_ids=[f"{seed}-{number:03}.png" for number in range(pictures)],
        features=random.standard_normal((pictures, 6)).astype(np.float32),
        texts=sentences(len(owner), seed),
        ids=[],
        numbers=np.tile(np.arange(captions), pictures),
        image_of_caption=owner,
    )
