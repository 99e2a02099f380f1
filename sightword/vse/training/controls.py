"""Control conditions: training with shuffled pictures or shuffled captions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sightword.features.tables.pairs import Pairs
from sightword.vse.training.settings import TrainSettings

_PICTURES, _CLUSTERS = 1, 2


def controlled(training: Pairs, settings: TrainSettings) -> Pairs:
    """Return the training split with shuffled pictures or clusters, where the settings have these controls.

    The seed of the settings determines both orders. Each picture keeps its number of captions.
    """
    features, owners = training.features, training.image_of_caption
    if settings.pictures == "shuffled":
        features = features[_random(settings.seed, _PICTURES).permutation(len(features))]
    if settings.clusters == "shuffled":
        owners = _random(settings.seed, _CLUSTERS).permutation(owners)
    return replace(training, features=features, image_of_caption=owners)


def _random(seed: int, what: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, 0, 0, what])))
