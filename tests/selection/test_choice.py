"""The best snapshots on dev become the encoder."""

import numpy as np
import pytest
import torch

from pipeline.captions.vocabulary import Vocabulary
from pipeline.errors import EncoderError, TrainingError
from pipeline.files import atomic_folder
from pipeline.model.encoders import Encoders
from pipeline.model.saved import save_weights
from pipeline.pairs import Pairs
from pipeline.selection.choice import choose, mean_r10
from pipeline.selection.settings import SelectSettings
from pipeline.training.settings import TrainSettings
from pipeline.training.snapshots import file_name, read_snapshots, write_index

SETTINGS = TrainSettings(embedding=4, hidden=3, attention=4, epochs=4, cycle=4)
TEXTS = [f"{first}{second}" for first in "abcdef" for second in "uvwxyz"]
CPU = torch.device("cpu")


@pytest.fixture
def snapshots(tmp_path):
    """Four snapshots of a network that was never trained, so each has its own recall."""
    vocabulary = Vocabulary.build(TEXTS)
    with atomic_folder(tmp_path / "snapshots") as folder:
        for epoch in (1, 2, 3, 4):
            torch.manual_seed(epoch)
            save_weights(folder / file_name(epoch), Encoders(len(vocabulary), 5, SETTINGS))
        write_index(
            folder,
            [1, 2, 3, 4],
            settings=SETTINGS,
            vocabulary=vocabulary,
            features={"backbone": "none"},
            features_width=5,
        )
    return read_snapshots(tmp_path / "snapshots")


@pytest.fixture
def dev(snapshots):
    rows = [np.asarray(snapshots.vocabulary.encode(text)) for text in TEXTS]
    features = np.random.default_rng(0).normal(size=(36, 5)).astype(np.float32)
    return Pairs([f"{n}" for n in range(36)], features, TEXTS, rows, np.zeros(36, np.int64), np.arange(36))


def test_the_best_by_mean_recall_at_10_are_taken_the_best_first(snapshots, dev):
    choice = choose(snapshots, dev, SelectSettings(members=2), device=CPU)
    assert list(choice.recall) == [1, 2, 3, 4]
    assert len(set(choice.recall.values())) > 1
    ordered = sorted(choice.recall.values(), reverse=True)
    assert [choice.recall[epoch] for epoch in choice.epochs] == ordered[:2]
    assert choice.encoder.notes["epochs"] == choice.epochs
    best = choose(snapshots, dev, SelectSettings(members=1), device=CPU)
    assert mean_r10(best.ensemble) == pytest.approx(ordered[0])


def test_of_equals_the_later_one_is_taken(snapshots, dev, tmp_path):
    first = (snapshots.folder / file_name(1)).read_bytes()
    for epoch in (2, 3, 4):
        (snapshots.folder / file_name(epoch)).write_bytes(first)
    assert choose(snapshots, dev, SelectSettings(members=2), device=CPU).epochs == [4, 3]


def test_more_members_than_snapshots_are_refused(snapshots, dev):
    with pytest.raises(TrainingError, match=r"select.members = 5 snapshots are wanted, training kept 4"):
        choose(snapshots, dev, SelectSettings(members=5), device=CPU)


def test_a_snapshot_that_changed_since_is_refused(snapshots):
    path = snapshots.folder / file_name(3)
    path.write_bytes((snapshots.folder / file_name(1)).read_bytes())
    with pytest.raises(EncoderError, match=r"epoch-003.safetensors: is not the file that was written"):
        read_snapshots(snapshots.folder)


def test_a_damaged_index_is_refused(snapshots):
    (snapshots.folder / "snapshots.json").write_text('{"schema": 1, "snapshots": []}')
    with pytest.raises(EncoderError, match="is damaged"):
        read_snapshots(snapshots.folder)
