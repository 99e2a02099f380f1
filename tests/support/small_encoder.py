"""An untrained encoder of two small networks."""

from __future__ import annotations

import numpy as np
import torch

from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.parts import parts_of
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.model.encoders import Encoders
from sightword.model.settings import ModelSettings

MODEL = ModelSettings(embedding=5, hidden=6, attention=4)
TEXTS = ["a dog runs", "", "two big dogs run in the snow .", "a", "ünknöwn çharacters", "a dog runs"]


def made(model=MODEL, *, members=2, renormalise=False):
    torch.manual_seed(0)
    vocabulary = Vocabulary.build(["a dog runs in the snow .", "two big dogs"])
    networks = [Encoders(len(vocabulary), 7, model.shape) for _ in range(members)]
    for network in networks:
        network.images.standardise_by(np.random.default_rng(0).normal(3, 2, (20, 7)).astype(np.float32))
    return SentenceEncoder(
        parts_of(networks, vocabulary, model.shape), renormalise=renormalise, notes={"epochs": [8, 4]}
    )
