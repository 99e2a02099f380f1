"""What the stage epochs reads: snapshots of untrained networks, a corpus, a small set of sentence pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from sightword.captions.table import CaptionTable, write_captions
from sightword.captions.vocabulary import Vocabulary
from sightword.features.tables.pairs import pair
from sightword.features.tables.table import Origin, read_features, write_features
from sightword.io.files import atomic_folder, sha256_file
from sightword.model.encoders import Encoders
from sightword.model.saved import write_tensors
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.snapshots import Snapshots, file_name, validate

SETTINGS = TrainSettings(embedding=4, hidden=3, attention=4, epochs=4, cycle=2)
EPOCHS = [2, 4]
PICTURES = 30
WIDTH = 5
TEXTS = [f"{a}{b} {c}" for a in "abcde" for b in "uvw" for c in ("xy", "z", "yyz", "zx")]  # two captions a picture


def write_inputs(folder: Path) -> None:
    """Write the snapshots of two epochs, features, captions of a dev split, and the set STSOwn with two subtasks."""
    ids = [f"p{number:02d}" for number in range(PICTURES)]
    random = np.random.default_rng(0)
    block = (np.arange(PICTURES), random.normal(size=(PICTURES, WIDTH)).astype(np.float32))
    path = folder / "data/features/features.h5"
    write_features(
        path, ids, [""] * PICTURES, WIDTH, [block], Origin("none", "", "none", "", "{}", "fp32", "extracted")
    )
    vocabulary = Vocabulary.build(TEXTS)
    rows = [np.asarray(vocabulary.encode(text), np.int32) for text in TEXTS]
    images, numbers = [image for image in ids for _ in (0, 1)], [0, 1] * PICTURES
    captions = CaptionTable(images, numbers, ["dev"] * len(TEXTS), TEXTS, rows)
    write_captions(folder / "data/captions/captions.parquet", captions)
    features = read_features(path)
    dev, recall = pair(features, captions, "dev"), {}
    with atomic_folder(folder / "models/snapshots") as place:
        for epoch in EPOCHS:
            torch.manual_seed(epoch)
            encoders = Encoders(len(vocabulary), WIDTH, SETTINGS.shape)
            write_tensors(place / file_name(epoch), encoders.state_dict())
            recall[epoch] = validate(encoders, dev, SETTINGS.similarity)
        sha256 = sha256_file(folder / "data/captions/captions.parquet")
        Snapshots(place, recall, SETTINGS.model_dump(), features.attributes, WIDTH, sha256, vocabulary).write_index()
    sts = folder / "senteval/downstream/STS/STSOwn-en-test"
    sts.mkdir(parents=True)
    for name, shift in (("near", 1), ("far", 7)):
        pairs = [(text, TEXTS[(place * shift + 3) % len(TEXTS)]) for place, text in enumerate(TEXTS[:24])]
        (sts / f"STS.input.{name}.txt").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
        (sts / f"STS.gs.{name}.txt").write_text("".join(f"{len(set(a) & set(b))}\n" for a, b in pairs))
