"""What a model card is made from, and the head of a card."""

from __future__ import annotations

import re

import torch
from ruamel.yaml import YAML

from sightword import score
from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.parts import parts_of
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.model.encoders import Encoders
from sightword.model.settings import ModelSettings
from sightword.vse.selection.choice import Choice
from sightword.vse.selection.model_card import Amount

TEXTS = ["a red dog | runs `fast`", "two: 'big' dogs\tin \N{SNOWMAN}", "---", "#1"]
FEATURES = {"backbone": "resnet152", "weights": "IMAGENET1K_V1", "origin": "extracted", "transform": '{"crop":224}'}


def made(*, unit="character", features=FEATURES, training=None, **change) -> tuple[Choice, Amount]:
    torch.manual_seed(0)
    model = ModelSettings(embedding=5, hidden=6, attention=4).model_copy(update=change)
    vocabulary = Vocabulary.build(TEXTS, unit=unit)
    members = [Encoders(len(vocabulary), 7, model.shape) for _ in range(2)]
    notes = {"epochs": [8, 4], "training": training or {"margin": 0.2, "clip_images": None}, "features": features}
    encoder = SentenceEncoder(parts_of(members, vocabulary, model.shape), notes=notes)
    captions = torch.randn(40, 12, generator=torch.Generator().manual_seed(1)).numpy()
    ensemble = score(captions, captions[::2], torch.arange(40).numpy() // 2)
    amount = Amount(20, 40, [len(vocabulary.encode(text)) for text in TEXTS])
    return Choice(encoder, [8, 4], {4: 61.25, 8: 63.5}, {4: 61.25, 8: 63.5}, ensemble, 64.0), amount


def head(text: str) -> dict:
    found = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    assert found
    return YAML(typ="safe", pure=True).load(found[1])
