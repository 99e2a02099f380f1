"""A small training run of each system, all with the same call: ``run(name, checkpoint)`` returns weights and curves."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from small_ground import described, scenario, textual
from small_text import text_of

from sightword.captions.vocabulary import Vocabulary
from sightword.entailment.settings import EntailSettings
from sightword.entailment.training import task as entail
from sightword.entailment.training.task import EncodedPairs
from sightword.features.tables.pairs import Pairs
from sightword.grounded.skipthought import task as skipthought
from sightword.grounded.skipthought.settings import SkipthoughtSettings
from sightword.grounded.training.scenario import Inputs, ground
from sightword.grounded.training.task import GroundingTask
from sightword.hypernyms.data.pairs import ConceptPairs
from sightword.hypernyms.settings import EmbedSettings
from sightword.hypernyms.training import task as embed
from sightword.training.checkpoint import Checkpoint, Progress
from sightword.training.engine import Task
from sightword.vse.training import task as vse
from sightword.vse.training.settings import TrainSettings

CPU = torch.device("cpu")
Result = tuple[dict[str, torch.Tensor], Progress]
TRAIN = TrainSettings(
    embedding=5, hidden=8, attention=6, batch=6, epochs=4, cycle=2, rate_max=0.02, clip_images=None, clip_captions=0.5,
    loss="infonce", dropout_features=0.2, dropout_states=0.2, standardise="training",
)  # fmt: skip
TEXT = SkipthoughtSettings(
    embedding=6, hidden=8, batch=16, steps=30, validate_every=8, rate=0.01, bucket=3, validation=12
)
PAIRS = EntailSettings(embedding=8, hidden=12, epochs=3, batch=50, validate_every=4, rate=0.01)
VOCABULARY = Vocabulary(tuple("abcdefghijklm"))
CONCEPTS = EmbedSettings(dimension=4, batch=60, epochs=5, rate=0.03, validate_every=7)


@functools.cache
def pictures() -> Pairs:
    """Twenty pictures with two captions each."""
    random = np.random.default_rng(0)
    return Pairs(
        image_ids=[f"{place:02d}" for place in range(20)],
        features=random.normal(size=(20, 7)).astype(np.float32),
        texts=[""] * 40,
        ids=[random.integers(2, 15, random.integers(2, 9)) for _ in range(40)],
        numbers=np.tile([0, 1], 20),
        image_of_caption=np.repeat(np.arange(20), 2),
    )


def captions_and_pictures(checkpoint: Checkpoint | None, device: torch.device = CPU, **changes: Any) -> Result:
    kept: dict[str, torch.Tensor] = {}

    def keep(epoch: int, encoders: torch.nn.Module) -> None:
        kept.update({f"{epoch}.{name}": value.clone() for name, value in encoders.state_dict().items()})

    task = vse.train(
        TRAIN.model_copy(update=changes), vse.Data(pictures(), pictures(), VOCABULARY), device=device, keep=keep,
        checkpoint=checkpoint,
    )  # fmt: skip
    return {name: value for name, value in kept.items() if name.startswith("4.")}, task.progress


def text(checkpoint: Checkpoint | None, device: torch.device = CPU, **changes: Any) -> Result:
    random = np.random.default_rng(5)
    rows = [random.integers(1, 20, random.integers(1, 12)) for _ in range(300)]
    read = text_of(rows, words=20, passages=np.arange(300) // 10, held_out=range(280, 300), max_tokens=12)
    task = skipthought.train(TEXT.model_copy(update=changes), read, device=device, checkpoint=checkpoint)
    return task.network.state_dict(), task.progress


def sentence_pairs(checkpoint: Checkpoint | None, device: torch.device = CPU, **changes: Any) -> Result:
    random = np.random.default_rng(0)
    sentences = [random.integers(2, 20, random.integers(2, 8)) for _ in range(200)]
    places = random.integers(0, 200, (2, 400))
    entailed = np.array([len(sentences[one]) >= len(sentences[two]) for one, two in places.T])
    parts = [EncodedPairs(sentences, *places[:, cut], entailed[cut]) for cut in (slice(300), slice(300, 400))]
    settings = PAIRS.model_copy(update=changes)
    task = entail.train(settings, *parts, tokens=20, device=device, checkpoint=checkpoint)
    return task.captions.state_dict(), task.progress


def scenes(checkpoint: Checkpoint | None, device: torch.device = CPU, **changes: Any) -> Result:
    found = ground(
        scenario(**changes), 0, Inputs(textual(), described(), described(seed=1)), device=device, checkpoint=checkpoint
    )
    weights = {f"{n}.{name}": one for n, part in enumerate(found.encoder.parts)
               for name, one in part.captions.state_dict().items()}  # fmt: skip
    heads = found.encoder.heads.items()
    return weights | {f"{n}.{name}": v for n, one in heads for name, v in one.state_dict().items()}, found.progress


def concepts(checkpoint: Checkpoint | None, **changes: Any) -> Result:
    low = np.arange(1, 200, dtype=np.int32)
    yes = np.ones(len(low), bool)
    true = ConceptPairs(low, (low - 1) // 4, yes, yes, np.zeros(len(low), np.int8))
    false = ConceptPairs(true.hypernyms, low, ~yes, ~yes, true.replaced)
    dev = ConceptPairs(*(np.concatenate([getattr(part, name) for part in (true, false)]) for name in vars(true)))
    found = embed.train(CONCEPTS.model_copy(update=changes), true, dev, 200, checkpoint=checkpoint)
    weights = {name: torch.from_numpy(value) for name, value in found.weights.items()}
    return {"vectors": torch.from_numpy(found.vectors), **weights}, found.progress


EVERY_LOSS = dict.fromkeys(
    ("cluster", "perceptual", "projection", "ranking", "text", "cap2cap", "captions_as_text"), 0.5
)
TASKS: dict[str, tuple[type[Task[Any]], Callable[..., Result], dict[str, Any]]] = {
    "train": (vse.CaptionTask, captions_and_pictures, {}),
    "train, hinge": (vse.CaptionTask, captions_and_pictures, {"loss": "hinge", "dropout_states": 0.0}),
    "train, hardest": (
        vse.CaptionTask, captions_and_pictures, {"loss": "hardest", "similarity": "order"}
    ),
    "train, second captions": (
        vse.CaptionTask, captions_and_pictures, {"second_caption": True, "schedule": "cosine"}
    ),
    "train, n-grams": (
        vse.CaptionTask, captions_and_pictures, {"cell": "ngrams", "ngram_buckets": 64, "second_caption": True}
    ),
    "train, one caption": (
        vse.CaptionTask, captions_and_pictures,
        {"captions_per_epoch": "one", "schedule": "step", "bidirectional": False, "pooling": "last"},
    ),
    "skipthought": (skipthought.TextTask, text, {}),
    "skipthought, infonce": (skipthought.TextTask, text, {"objective": "infonce"}),
    "entail": (entail.PairTask, sentence_pairs, {}),
    "ground": (GroundingTask, scenes, {"cluster": 1, "perceptual": 1}),
    "ground, every loss": (GroundingTask, scenes, EVERY_LOSS),
    "embed": (embed.ConceptsTask, concepts, {}),
    "embed, bilinear": (embed.ConceptsTask, concepts, {"energy": "bilinear"}),
    "embed, cone": (embed.ConceptsTask, concepts, {"energy": "cone", "rate": 0.3}),
}  # fmt: skip
"""The class of a task, the run, and its settings, by name."""
PLAIN = ("train", "skipthought", "entail", "ground", "embed")


def run(name: str, checkpoint: Checkpoint | None = None, **changes: Any) -> Result:
    """Train, or go on; return the weights and the curves."""
    _, train, settings = TASKS[name]
    return train(checkpoint, **settings | changes)
