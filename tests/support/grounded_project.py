"""A small project of the grounded space up to the stage evaluate, with stand-ins for encoders."""

from __future__ import annotations

import zlib

import numpy as np
import torch
from PIL import Image as Picture

from sightword.captions.vocabulary import Vocabulary
from sightword.corpus.reading import clean
from sightword.corpus.records import Caption, Image, write_tables
from sightword.encoder.parts import Part, head
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.features.tables.pairs import Pairs
from sightword.features.tables.table import Origin, write_features
from sightword.grounded.training.settings import Scenario
from sightword.images import shards
from sightword.images.encoding import encode
from sightword.io.files import write_json, write_text, write_tsv
from sightword.model.encoders import CaptionEncoder
from sightword.model.shape import RecurrentShape
from stages.grounded import evaluate, report

SCENARIOS = {"t": {}, "cg-pg": {"cluster": 0.01, "perceptual": 0.01, "judged": "grounded"}}
FEATURES = {"backbone": "resnet152", "weights": "random:0", "origin": "extracted"}


def encoder(scenario, seed, training=None):
    torch.manual_seed(10 * seed + sum(map(ord, scenario)))
    vocabulary = Vocabulary.build([" ".join(WORDS)], unit="word")
    shape = RecurrentShape(6, 8, scaled=False)
    captions = CaptionEncoder(len(vocabulary), shape)
    chosen = Scenario(**(SCENARIOS[scenario] if training is None else training))
    heads = {"sentence": head([])} | ({chosen.judged: head([8, 5, 4])} if chosen.judged != "sentence" else {})
    notes = {"training": chosen.model_dump(), "features": FEATURES}
    part = Part(captions, vocabulary, shape)
    return SentenceEncoder([part], "join", notes=notes, heads=heads, default=chosen.judged)


def write_project(settings, summing_up, *, scenarios=SCENARIOS, seeds=(0, 1)):
    """Write the inputs and run evaluate and report, in the working folder."""
    names = [f"{number:02}.png" for number in range(36)]
    images = [Image(name, name, ("train", "dev", "test")[n % 3]) for n, name in enumerate(names)]
    said = zip(np.repeat(names, 2), np.tile(["0", "1"], 36), sentences(72, 3), strict=True)
    captions = [Caption(*map(str, one)) for one in said]
    write_tables("data/corpus", clean(images, captions, None, require_pictures=False), "pictures")
    values = np.random.default_rng(0).normal(size=(36, 5)).astype(np.float32)
    origin = Origin("resnet152", "", "w", "", "{}", "fp32", "extracted")
    write_features("data/features/features.h5", names, [""] * 36, 5, [(np.arange(36), values)], origin)
    drawn = [(name, encode(Picture.new("RGB", (9, 6), (7 * n, 90, 90)), "png")) for n, name in enumerate(names)]
    rows = [shards.ResizedPicture(name, "", "", 9, 6, *one) for name, one in drawn]
    shards.write_shard(shards.shard_path("data/resized", 0), rows, {})
    write_text("grounded/params.yaml", f"train: {{run: [{', '.join(scenarios)}], seeds: {list(seeds)}}}\n")
    counts = {"format": "sample", "sentences": 5000, "captions": {"train": {"captions": 24}}}
    write_json("metrics/grounded/text.json", counts)
    write_json("metrics/grounded/skipthought.json", {"objective": "skipthought", "held_out_perplexity": 42.5})
    write_tsv("plots/grounded/skipthought/loss.tsv", ("batch", "loss"), [(50, 3.0), (100, 2.0)])
    for name, training in scenarios.items():
        for seed in seeds:
            encoder(name, seed, training).save(f"models/grounded/{name}-{seed}")
            evaluate.work(settings, scenario=name, seed=seed)
            chosen = Scenario(**training)
            parts = [part for part in ("text", "cluster", "perceptual") if chosen.trains and getattr(chosen, part)]
            lines = [(batch, *(1.0 / batch for _ in parts)) for batch in (20, 40, 60)]
            for table in ("loss", "dev"):
                write_tsv(f"plots/grounded/{name}-{seed}/{table}.tsv", ("batch", *parts), lines if parts else [])
            norms = [(20, 0.5, 0.01), (40, 0.25, 0.02)] if parts else []
            write_tsv(f"plots/grounded/{name}-{seed}/norms.tsv", ("batch", "text", "grounded"), norms)
    report.work(summing_up, run=list(scenarios), seeds=list(seeds))


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
