"""A small project of the grounded space, up to the stage evaluate: random encoders, drawn pictures, scores."""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image as Picture
from stand_in import WORDS, sentences

from sightword.captions.vocabulary import Vocabulary
from sightword.corpus.cleaning import clean
from sightword.corpus.records import Caption, Image
from sightword.corpus.tables import write_tables
from sightword.encoder.parts import Part, head
from sightword.encoder.sentence_encoder import SentenceEncoder
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
