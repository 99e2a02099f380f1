"""Bad input to train and select: one clear error before costly work, earlier outputs as they were."""

from __future__ import annotations

import errno
import json
import logging
import shutil
from pathlib import Path

import pytest
from small_project import PICTURES, begin, write_corpus, write_pictures
from sums import renew

from sightword.captions.vocabulary import Vocabulary
from sightword.errors import CaptionsError, EncoderError, FeaturesError, FileFormatError, TrainingError
from sightword.vse.selection.settings import SelectSettings
from sightword.vse.training import task
from sightword.vse.training.settings import TrainSettings
from stages import select, train

SETTINGS = TrainSettings(embedding=3, hidden=4, attention=3, batch=4, epochs=2, cycle=1)


OUTPUTS = ("models", "metrics", "plots")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A project whose stages captions, train and select have run."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        begin(folder, patch)
        train.work(SETTINGS)
        select.work(SelectSettings())
    return folder


@pytest.fixture
def project(finished, tmp_path, monkeypatch):
    shutil.copytree(finished, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("SIGHTWORD_DEVICE", "cpu")
    monkeypatch.setenv("SIGHTWORD_THREADS", "1")
    return tmp_path / "project"


def contents(folder):
    paths = [path for output in OUTPUTS for path in sorted((folder / output).rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def larger_batch():
    return SETTINGS.model_copy(update={"batch": 9, "last_batch": "drop"})


def other_caption():
    path = Path("data/captions/captions.parquet")
    whole = path.read_bytes()
    path.write_bytes(whole[:99] + bytes([whole[99] ^ 1]) + whole[100:])


def captions_without_features():
    write_pictures([number for number in range(PICTURES) if number not in (4, 7)])


def smaller_vocabulary():
    Vocabulary.build(["red"]).save("data/captions/vocabulary.json")
    renew(Path("data/captions"))


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (larger_batch, TrainingError, r"at least 9 pictures, and training has 8; .*smaller train\.batch"),
        (other_caption, FileFormatError, "captions.parquet: is damaged or was changed.*`dvc repro captions`"),
        (captions_without_features, FeaturesError, r"2 of 8 pictures have no features: 04\.jpg, 07\.jpg"),
        (smaller_vocabulary, CaptionsError, r"expected ids below 5.*`dvc repro captions`"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_train_refuses_bad_input_and_leaves_earlier_outputs(project, spoil, error, message):
    before = contents(project)
    with pytest.raises(error, match=message):
        train.work(spoil() or SETTINGS)
    assert contents(project) == before


def test_curves_that_cannot_be_written_do_not_stop_training(project, monkeypatch, caplog):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(task, "write_tsv", fail)
    with pytest.raises(OSError, match="No space"):  # at the end they are outputs
        train.work(SETTINGS.model_copy(update={"seed": 1}))
    assert caplog.messages.count("train: the curves cannot be written now ([Errno 28] No space left on device)") == 3


def test_train_reports_pictures_without_captions(project, caplog):
    write_pictures(range(PICTURES + 7))
    with caplog.at_level(logging.WARNING):
        train.work(SETTINGS)
    messages = [
        message for message in caplog.messages if "no caption" in message
    ]  # once, though train reads two splits
    assert messages == [
        "7 pictures have features and no caption in any split: 12.jpg, 13.jpg, 14.jpg, 15.jpg, 16.jpg and 2 more"
    ]


def other_network():
    write_pictures(backbone="vgg19")


def other_run_s_snapshot():
    """Replace one file by that of a training run of another size, whose sum is renewed."""
    from sightword.model.encoders import Encoders
    from sightword.model.saved import write_tensors

    path = Path("models/snapshots/epoch-002.safetensors")
    tokens = len(Vocabulary.load("models/snapshots/vocabulary.json"))
    write_tensors(path, Encoders(tokens, 6, SETTINGS.model_copy(update={"hidden": 5}).shape).state_dict())
    renew(path.parent)


def exchanged_recalls():
    path = Path("models/snapshots/snapshots.json")
    index = json.loads(path.read_text())
    first, second = index["snapshots"]
    first["dev"], second["dev"] = second["dev"], first["dev"]
    path.write_text(json.dumps(index))


def no_captions_of_dev():
    write_corpus(without=("dev",))


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (other_network, EncoderError, "backbone is 'vgg19'; expected 'resnet152', as in training.*dvc repro train"),
        (exchanged_recalls, EncoderError, "snapshots.json: is not the file that was saved: .* `dvc repro train`"),
        (other_run_s_snapshot, EncoderError, "epoch-002.safetensors: belongs to another network"),
        (no_captions_of_dev, CaptionsError, "the split 'dev' has no captions"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_select_refuses_bad_input_and_leaves_earlier_outputs(project, spoil, error, message):
    spoil()
    before = contents(project)
    with pytest.raises(error, match=message):
        select.work(SelectSettings())
    assert contents(project) == before
