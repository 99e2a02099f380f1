"""Pictures of colours and shapes with captions that spell both, which small networks learn."""

from __future__ import annotations

import numpy as np

from sightword.captions.vocabulary import Vocabulary
from sightword.features.tables.pairs import Pairs

VOCABULARY = Vocabulary(tuple("abcdefghijklmnopqr"))


def spelled(colours: int = 3, *, base: float = 0.0, spread: float = 1.0) -> Pairs:
    """Eight shapes in each of 3 to 5 colours, two captions a picture; features differ by ``spread`` around ``base``."""
    random = np.random.default_rng(0)
    looks = random.normal(size=(colours, 10)), random.normal(size=(8, 10))
    places = np.arange(8 * colours)
    features = np.hstack([looks[0][places % colours], looks[1][places // colours]])
    fillers = colours + 12, colours + 13
    return Pairs(
        image_ids=[f"{place:02d}" for place in places],
        features=(base + spread * features).astype(np.float32),
        texts=[""] * (2 * len(places)),
        ids=[
            np.array([2 + p % colours, word, colours + 3 + p // colours], np.int64) for p in places for word in fillers
        ],
        numbers=np.tile([0, 1], len(places)),
        image_of_caption=np.repeat(places, 2),
    )
