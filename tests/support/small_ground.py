"""A small world for the grounded space: text, its untrained encoder, captions and pictures."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.parts import Part, head, parts_of
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.grounded.skipthought.network import build, shape_of
from sightword.grounded.skipthought.settings import SkipthoughtSettings
from sightword.grounded.training.scenario import Textual, in_memory
from sightword.grounded.training.settings import Scenario
from sightword.grounded.training.task import Described
from sightword.model.encoders import Encoders
from sightword.model.settings import ModelSettings

COLOURS, THINGS = ("red", "blue", "green", "grey"), ("ball", "cup", "dog", "hat")
TEXTS = [f"a {colour} {thing} {verb}" for colour in COLOURS for thing in THINGS for verb in ("lies here", "is there")]
VOCABULARY = Vocabulary.build(TEXTS, unit="word")
SETTINGS = SkipthoughtSettings(embedding=6, hidden=8, batch=4, steps=10)


def rows(texts):
    return [np.asarray(VOCABULARY.encode(text), np.int64) for text in texts]


def textual(settings=SETTINGS):
    torch.manual_seed(5)
    network = build(settings, len(VOCABULARY))
    part = Part(build(settings, len(VOCABULARY)).captions, VOCABULARY, shape_of(settings))
    part.captions.load_state_dict(network.captions.state_dict())
    return Textual(part, settings, network, in_memory(rows(TEXTS), VOCABULARY, 30))


def described(texts=TEXTS, each=2, features=None, seed=0):
    """Pictures with ``each`` captions; by default a picture's features are near those of pictures of its colour."""
    count = -(-len(texts) // each)
    if features is None:
        random = np.random.default_rng(seed)
        colours = np.arange(count) * each // (len(TEXTS) // len(COLOURS)) % len(COLOURS)
        features = 3 * np.eye(len(COLOURS), 7)[colours] + random.random((count, 7))
    return Described.of(rows(texts), np.arange(len(texts)) // each, np.asarray(features, np.float32))


def scenario(**changes):
    small = {"batch": 4, "steps": 6, "hidden": 16, "width": 4, "rate": 0.01, "validate_every": 3, "text": 0.0}
    return Scenario(**small | changes)


def encoder(**changes):
    """An untrained encoder of all three spaces."""
    torch.manual_seed(1)
    heads = {"sentence": nn.Sequential(), "grounded": head([8, 5, 4]), "visual": head([8, 7])}
    return SentenceEncoder(
        [textual().part], "join", heads=heads, **{"default": "grounded", "notes": {"seed": 1}} | changes
    )


def saved_start(folder, members=1, **changes):
    """Write an untrained encoder of captions and pictures."""
    torch.manual_seed(2)
    shape = ModelSettings(**{"embedding": 5, "hidden": 6, "attention": 4} | changes)
    networks = [Encoders(len(VOCABULARY), 7, shape.shape) for _ in range(members)]
    SentenceEncoder(parts_of(networks, VOCABULARY, shape.shape)).save(folder)
