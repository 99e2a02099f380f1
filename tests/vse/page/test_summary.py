"""The few numbers that runs are compared by."""

from __future__ import annotations

import json

import pytest
from finished_run import write_run

from sightword.report.inputs import read_run
from sightword.vse.page.summary import summary


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
