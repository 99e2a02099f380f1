"""The warnings at the top of the page: every fallback, in plain sentences."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sightword.report.gallery import Gallery
from sightword.report.inputs import RunFiles, RunNumbers, read_run
from sightword.vse.page.notes import notes
from sightword.vse.page.notes import remarks as _facts
from sightword.vse.page.story import chips, story

NO_GALLERY = Gallery("test", 0, [], [], 0, 0)


def remarks(run: RunNumbers) -> dict[str, str]:
    return {note.head: note.text for note in notes(run, NO_GALLERY)}


@pytest.fixture
def run(run_folder: RunFiles) -> RunNumbers:
    return read_run(run_folder)


def test_dropped_captions_are_reported(run: RunNumbers) -> None:
    assert remarks(run)["Left out of the corpus"] == "1 picture (1 no picture file); 1 caption (1 empty caption)."
    only = replace(run, dropped={"picture": {}, "caption": {"duplicate": 1200, "empty caption": 3}})
    assert remarks(only)["Left out of the corpus"] == "1,203 captions (1,200 duplicate, 3 empty caption)."
    assert "Left out of the corpus" not in remarks(replace(run, dropped={"picture": {}, "caption": {}}))


def test_pictures_without_features_are_reported_once(run: RunNumbers) -> None:
    lost = replace(run, train={**run.train, "rejected_pictures": 7})
    assert remarks(lost)["Pictures without features"].startswith("7 of them")
    texts = remarks(replace(lost, rejects={"truncated": 7}))  # the same seven, with the reason
    assert "Pictures without features" not in texts
    assert "7 pictures (7 truncated)" in texts["Skipped pictures"]
    assert "Pictures without features" not in remarks(replace(run, train={**run.train, "rejected_pictures": 0}))


def test_only_random_weights_are_for_demonstration(run: RunNumbers) -> None:
    assert "random weights: for demonstration" in remarks(run)
    features = {**run.description["features"], "weights": "sample_shufflenet.safetensors"}
    assert "random weights: for demonstration" not in remarks(
        replace(run, description={**run.description, "features": features})
    )


def test_long_hashes_are_left_out(run: RunNumbers) -> None:
    features = {"origin": f"precomputed: theirs.npy (sha256 {'0a' * 32})", "weights": "", "backbone": ""}
    other = replace(run, description={**run.description, "features": features})
    assert remarks(other)["Precomputed features"].endswith("used unchanged: theirs.npy.")
    assert "features computed elsewhere" in chips(other)


def test_the_encoder_that_training_started_from_is_reported(run: RunNumbers) -> None:
    training = {**run.training, "start": "seen"}
    other = replace(run, description={**run.description, "training": training})
    assert "started from the encoder seen" in chips(other)
    assert "started from" not in str(chips(run))


def test_another_similarity_than_the_cosine_is_reported(run: RunNumbers) -> None:
    assert "cosine" not in str(chips(replace(run, description={**run.description, "similarity": "cosine"})))
    assert "dot product of captions and pictures, cosine of sentences" in chips(run)
    other = replace(run, description={**run.description, "similarity": "reversed_order"})
    assert "reversed order of captions and pictures, cosine of sentences" in chips(other)


def test_a_skipped_protocol_is_reported_with_the_reason(run: RunNumbers) -> None:
    assert "Skipped protocols" not in remarks(run)
    full = run.retrieval["test"]["full"]
    why = "the split test has 11 pictures, five folds need 5000"
    other = replace(run, retrieval={"test": {"full": full, "skipped": {"five_fold_1k": why}}})
    assert remarks(other)["Skipped protocols"] == f"five folds of 1,000 pictures, averaged: {why}."


def test_only_data_sets_that_the_run_asked_for_are_missing(run: RunNumbers) -> None:
    one = replace(run, semantics={**run.semantics, "skipped": {"STS12": "STS12-en-test does not exist"}})
    assert remarks(one)["Missing data sets"] == "STS12: STS12-en-test does not exist."
    assert "Missing data sets" not in remarks(run)
    facts = {note.head: note.text for note in _facts(one)}
    assert facts["Not evaluated"] == "STS13, STS14, STS16: not among the run's tasks."


def test_the_device_is_a_fact_and_no_warning(run: RunNumbers) -> None:
    for device in ("cpu", "cuda"):
        other = replace(run, train={**run.train, "device": device})
        assert "CPU" not in remarks(other)
        assert ("CPU" in {note.head for note in _facts(other)}) is (device == "cpu")


@pytest.mark.parametrize(
    ("change", "said", "saw"),
    [
        ({"pictures": "none"}, "never saw a picture", False),
        ({"pictures": "shuffled"}, "the features of another one", True),
        ({"clusters": "shuffled"}, "dealt to pictures at random", True),
    ],
)
def test_a_control_is_told_first(run: RunNumbers, change, said, saw) -> None:
    training = {**run.training, **change}
    other = replace(run, description={**run.description, "training": training})
    (note,) = [note for note in notes(other, NO_GALLERY) if note.head == "A control"]
    assert note.serious
    assert said in note.text
    assert any(said in one for one in chips(other))
    assert any("features" in one and "control" not in one for one in chips(other)) == saw
    assert "control" not in str(chips(run))
    assert "A control" not in remarks(run)


def test_one_is_singular(run: RunNumbers) -> None:
    one = replace(run, train={"captions": 1, "pictures": 1, "epochs": 1, "parameters": 1}, select={"members": 1})
    assert "learned from 1 caption of 1 picture," in story(one)
    assert {"1 parameter", "1 epoch", "one snapshot, chosen by recall on dev"} < {*chips(one)}
    assert "1,500 captions of 300 pictures," in story(run)
    assert {"8 epochs", "sum of 2 snapshots, chosen by recall on dev"} < {*chips(run)}
    with_others = chips(replace(run, select={**run.select, "beside": "gru+lstm"}))
    assert "joined with the encoders of other training runs (gru, lstm)" in with_others
    lexical = chips(replace(run, select={"members": 1, "criterion": "stsb_dev", "lexical": 1024}))
    assert {"joined with 1,024 numbers of weighted n-grams", "one snapshot, chosen by sentence similarity on dev"} < {
        *lexical
    }
