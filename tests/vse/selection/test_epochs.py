"""What each kept epoch reaches, against plain loops over the very same embeddings."""

from __future__ import annotations

import logging
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from sightword.captions.table import CaptionTable, read_captions, write_captions
from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.parts import parts_of
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.errors import SemanticsError
from sightword.features.tables.pairs import pair
from sightword.features.tables.table import Origin, read_features, write_features
from sightword.io.files import atomic_folder, sha256_file
from sightword.model.encoders import Encoders
from sightword.model.saved import write_tensors
from sightword.report.inputs import read_tsv
from sightword.vse.selection.choice import measure_epochs, rows
from sightword.vse.selection.settings import EpochsSettings
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.snapshots import Snapshots, file_name, read_snapshots, validate
from stages import epochs

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


CPU = torch.device("cpu")


@pytest.fixture
def inputs(tmp_path):
    write_inputs(tmp_path)
    features = read_features(tmp_path / "data/features/features.h5")
    dev = pair(features, read_captions(tmp_path / "data/captions/captions.parquet"), "dev")
    return read_snapshots(tmp_path / "models/snapshots"), dev, tmp_path / "senteval"


def settings(data, **changes):
    return EpochsSettings(**{"data": str(data), "tasks": ["STSOwn"], **changes})


def alone(snapshots, epoch):
    return SentenceEncoder(parts_of([snapshots.load(epoch)], snapshots.vocabulary, snapshots.model))


def cosine(a, b):
    dot = norm_a = norm_b = 0.0
    for x, y in zip(a.astype(np.float64), b.astype(np.float64), strict=True):
        dot, norm_a, norm_b = dot + x * y, norm_a + x * x, norm_b + y * y
    return dot / math.sqrt(norm_a * norm_b)


def recall_at_10(encoder, dev):
    """Percent of captions whose picture has at most nine others that score as high, and the same the other way."""
    images, captions = encoder.encode_images(dev.features), encoder.encode(dev.texts)
    table = [[cosine(caption, image) for image in images] for caption in captions]
    owner = dev.image_of_caption
    found = [
        sum(row[i] >= row[owner[c]] for i in range(len(images)) if i != owner[c]) < 10 for c, row in enumerate(table)
    ]
    back = []
    for image in range(len(images)):
        best = max(table[c][image] for c in range(len(captions)) if owner[c] == image)
        back.append(sum(table[c][image] >= best for c in range(len(captions)) if owner[c] != image) < 10)
    return {"caption_to_image": 100 * np.mean(found), "image_to_caption": 100 * np.mean(back)}


def mean_pearson(encoder, data):
    """Over both subtasks, read and correlated without the library."""
    found = []
    for name in ("near", "far"):
        folder = data / "downstream/STS/STSOwn-en-test"
        pairs = [line.split("\t") for line in (folder / f"STS.input.{name}.txt").read_text().splitlines()]
        gold = [float(line) for line in (folder / f"STS.gs.{name}.txt").read_text().splitlines()]
        scores = [cosine(*encoder.encode([first, second])) for first, second in pairs]
        found.append(np.corrcoef(scores, gold)[0, 1])
    return 100 * np.mean(found)


def test_recall_and_pearson_of_each_epochs_encoder_alone(inputs):
    snapshots, dev, data = inputs
    measured = measure_epochs(snapshots, settings(data), device=CPU)
    assert [one.epoch for one in measured] == EPOCHS
    for one in measured:
        encoder = alone(snapshots, one.epoch)
        assert one.r10 == pytest.approx(recall_at_10(encoder, dev))
        assert one.pearson["STSOwn"] == pytest.approx(mean_pearson(encoder, data), abs=1e-3)
    assert measured[0].pearson != measured[1].pearson


def test_a_task_without_files_stops_or_leaves_its_column_empty(inputs, caplog):
    snapshots, _, data = inputs
    tasks = ["STS12", "STSOwn"]
    with pytest.raises(SemanticsError, match=r"STS12-en-test: task STS12: does not exist"):
        measure_epochs(snapshots, settings(data, tasks=tasks), device=CPU)
    measured = measure_epochs(snapshots, settings(data, tasks=tasks, missing="skip"), device=CPU)
    header, lines = rows(measured, tasks)
    assert header[3:] == ["semantics", "STS12", "STSOwn"]
    assert all(line[4] is None and line[3] == line[5] for line in lines)
    assert caplog.text.count("STS12 left out") == 1
    measured = measure_epochs(snapshots, settings(data, tasks=["STS12"], missing="skip"), device=CPU)
    assert rows(measured, ["STS12"])[1] == [[one.epoch, *one.r10.values(), None, None] for one in measured]


def test_stage_writes_a_row_an_epoch_and_the_same_bytes_again(tmp_path, monkeypatch, caplog):
    write_inputs(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SIGHTWORD_DEVICE", "cpu")
    table, texts = Path("plots/epochs/epochs.tsv"), []
    for _ in range(2):
        with caplog.at_level(logging.INFO):
            epochs.work(EpochsSettings(data="senteval", tasks=["STSOwn"]))
        texts.append(table.read_bytes())
    columns = read_tsv(table)
    assert list(columns) == ["epoch", "caption_to_image_r10", "image_to_caption_r10", "semantics", "STSOwn"]
    assert columns["epoch"] == [str(epoch) for epoch in EPOCHS]
    assert columns["semantics"] == columns["STSOwn"]
    assert "epochs: evaluated 2 snapshots on STSOwn" in caplog.text
    assert texts[0] == texts[1]
    assert [path.name for path in table.parent.iterdir()] == [table.name]
