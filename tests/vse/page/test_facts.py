"""The warnings at the top of the page, every fallback in plain sentences; the few numbers that runs are compared by."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from finished_run import write_run

from sightword.report.gallery import Gallery
from sightword.report.inputs import RunFiles, RunNumbers, read_run
from sightword.vse.page.facts import notes, summary
from sightword.vse.page.facts import remarks as _facts

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


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"pictures": "none"}, "never saw a picture"),
        ({"pictures": "shuffled"}, "the features of another one"),
        ({"clusters": "shuffled"}, "dealt to pictures at random"),
    ],
)
def test_control_is_a_serious_warning(run: RunNumbers, change: dict[str, str], said: str) -> None:
    other = replace(run, description={**run.description, "training": {**run.training, **change}})
    (note,) = [note for note in notes(other, NO_GALLERY) if note.head == "A control"]
    assert note.serious
    assert said in note.text
    assert "A control" not in remarks(run)


def test_flat_and_from_the_metrics(tmp_path):
    found = summary(read_run(write_run(tmp_path)))
    assert found == {
        "dev_r10": 61.5,
        "split": "test",
        "image_r1": 33.3,
        "image_r10": 66.7,
        "caption_r1": 33.3,
        "caption_r10": 66.7,
        "sts": (0.71 + 0.42) / 2,  # STS Benchmark is not part of the mean
        "stsb": 0.6,
        "sick": 0.63,
    }


def test_other_protocols_have_names_of_their_own_and_what_is_missing_is_left_out(tmp_path):
    places = write_run(tmp_path)
    path = places.metrics / "retrieval.json"
    full = json.loads(path.read_text())["test"]["full"]
    path.write_text(json.dumps({"dev": {"full": full, "five_fold_1k": full, "querybank": full}}))
    (places.metrics / "semantics.json").write_text(json.dumps({"STS12": {"mean": {"pearson": None}}}))
    found = summary(read_run(places))
    assert found["split"] == "dev"
    assert found["caption_r10_1k"] == found["caption_r10_querybank"] == 66.7
    assert not {"sts", "stsb", "sick"} & set(found)


def test_the_mean_of_seven_needs_all_seven_tasks(tmp_path):
    places = write_run(tmp_path)
    years = {f"STS{year}": {"all": {"spearman": year / 100}} for year in range(12, 17)}
    pairs = {name: {"cosine": {"spearman": 0.7}} for name in ("STSBenchmark", "SICKRelatedness")}
    for tasks, expected in ((years | pairs, 0.3), (years, None)):
        (places.metrics / "semantics.json").write_text(json.dumps(tasks))
        assert summary(read_run(places)).get("seven") == pytest.approx(expected)
