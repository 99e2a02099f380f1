"""The whole pipeline through `dvc repro`, as a user runs it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from checkout import Checkout
from pages_read import check_text

from pipeline.pipelines import Pipeline
from sightword.corpus.sample.scene import load_world, scenes_of
from sightword.features.tables.origin import DEMONSTRATION

NAMES = list(Pipeline(Path(__file__).parents[1]).stages)
DIRECTIONS = ("caption_to_image", "image_to_caption")


def read(checkout, name):
    return json.loads((checkout.folder / name).read_text())


def assert_metrics_have_their_keys(checkout):
    for direction in DIRECTIONS:
        entry = read(checkout, "metrics/retrieval.json")["test"]["full"][direction]
        wanted = {"r1", "r5", "r10", "median_rank", "mean_rank", "queries", "r1_ci95", "r5_ci95", "r10_ci95"}
        assert wanted <= set(entry)
    assert {"epochs", "snapshots", "loss", "features"} <= set(read(checkout, "metrics/train.json"))
    assert {"members", "chosen_epochs", "ensemble_r10"} <= set(read(checkout, "metrics/select.json"))


def nothing_to_do(done):
    return "Data and pipelines are up to date." in done.stdout


def assert_the_test_split_was_scored_once(checkout, epochs):
    """By the one encoder of this run: a clone has no scorings of anybody else."""
    page = (checkout.folder / "report/index.html").read_text()
    assert "Scored so far: the test part of pictures with 1 encoder." in page
    snapshots = f"{epochs} snapshot{'s' if epochs > 1 else ''} of single epochs"
    assert f"STSSample with 1 encoder and {snapshots}." in page
    said = checkout.run("sightword", "audit", "metrics/summary.json:image_r10").stdout
    assert re.search(r"retrieval test of pictures \(.*\): scored once so far, with 1 encoder", said)
    assert f"scored once so far, with 1 encoder and {snapshots}" in said


def assert_the_run_can_be_answered_for(checkout):
    """An audit of what has just run knows all of it, the facts of every stage included; one stage is run again."""
    found = json.loads(checkout.run("sightword", "audit", "metrics/summary.json:image_r10", "--json").stdout)
    assert {stage["name"]: stage["status"] for stage in found["stages"]} == dict.fromkeys(NAMES, "ok")
    for stage in found["stages"]:
        assert stage["run"]["stage"] == stage["name"]
        assert stage["run"]["packages"]["torch"]
        assert len(list((checkout.folder / "runs").glob(f"{stage['entry']}.*.json"))) == 1
        assert stage["record"]["verdict"] == "run recorded"
    features = next(stage for stage in found["stages"] if stage["name"] == "features")
    assert features["run"]["notes"]["weights"] == features["weights"]["weights"] == "sample_shufflenet.safetensors"
    assert "data/retrieval: the same bytes" in checkout.run("sightword", "audit", "--verify", "retrieval").stdout


@pytest.mark.slow
def test_a_small_sample_runs_is_idle_afterwards_and_reruns_only_what_changed(small_run, tmp_path):
    assert "for demonstration" not in small_run.log
    assert small_run.log.count("device:") == 1
    assert not re.search(r"\b0 (rejected|from|in|accuracies|rows)|Missing data sets|report: CPU", small_run.log)
    checkout = small_run.copy(tmp_path / "clone", tmp_path / "store", Checkout)
    assert_metrics_have_their_keys(checkout)
    assert "sample_shufflenet" in read(checkout, "metrics/train.json")["features"]
    page = (checkout.folder / "report/index.html").read_text()
    check_text(page)
    assert "for demonstration" not in page
    assert nothing_to_do(checkout.run("dvc", "repro"))
    assert_the_run_can_be_answered_for(checkout)
    assert_the_test_split_was_scored_once(checkout, epochs=1)

    before = checkout.locked()
    assert set(before) == set(NAMES)
    checkout.change("params.yaml", train__margin=0.3)
    again = checkout.run("dvc", "repro")
    for name in NAMES[: NAMES.index("train")]:
        assert f"Running stage '{name}'" not in again.stdout
    after = checkout.locked()
    assert next(name for name in NAMES if before[name] != after[name]) == "train"


def assert_the_same_again(checkout, name, output, caches):
    """A stage that computes all anew, with two threads, gives the bytes of before."""
    anew = {"SIGHTWORD_STORE": str(caches), "SIGHTWORD_SCRATCH": str(caches / "scratch"), "SIGHTWORD_THREADS": "2"}
    assert f"{output}: the same bytes" in checkout.run("sightword", "audit", "--verify", name, **anew).stdout


@pytest.mark.full
def test_the_sample_learns_and_its_costly_stages_give_the_same_bytes_again(repository, tmp_path):
    clone = Checkout(repository, tmp_path / "clone", tmp_path / "store")
    clone.run("dvc", "repro", SIGHTWORD_THREADS="2")
    assert_the_test_split_was_scored_once(clone, epochs=4)
    assert_the_same_again(clone, "features", "data/features", tmp_path / "other")
    assert_the_same_again(clone, "train", "models/snapshots", tmp_path / "another")
    assert_metrics_have_their_keys(clone)

    retrieval = read(clone, "metrics/retrieval.json")["test"]["full"]
    for direction in DIRECTIONS:
        assert retrieval[direction]["r10"] > 90
    world = load_world(repository / "data/raw/sample")
    for query, wanted in (
        ("a red circle", r".* circle red"),
        ("three red circles in the forest", "forest 3 circle red"),
    ):
        answers = json.loads(clone.run("sightword", "search", "models/encoder", query, "--json").stdout)
        found = [Path(one["id"]).stem.split("-") for one in answers["pictures"][:3]]  # processors differ in the order
        scenes = [list(scenes_of(world, split))[int(number)] for split, number in found]
        things = [
            f"{scene.background} {group.count} {group.shape} {group.colour}"
            for scene in scenes
            for group in scene.groups
        ]
        assert any(re.fullmatch(wanted, thing) for thing in things), things

    semantics = read(clone, "metrics/semantics.json")
    for control in ("untrained", "tfidf"):
        least = semantics["controls"][control]["STSSample"]["mean"] + 0.1
        assert semantics["STSSample"]["mean"]["pearson"] > least, control


def link_real_data(real_data, checkout, pictures):
    """Flickr8k's text files, some photographs, STS files and weights where the recipes expect them."""
    corpus = checkout.folder / "data/raw/flickr8k"
    (corpus / "images").mkdir(parents=True)
    for path in (real_data / "flickr8k").glob("Flickr*.txt"):
        (corpus / path.name).symlink_to(path)
    for name in pictures:
        (corpus / "images" / name).symlink_to(real_data / "flickr8k/images" / name)
    (checkout.folder / "data/raw/senteval").symlink_to(real_data / "senteval")
    weights = "densenet169_imagenet.safetensors"
    (checkout.folder / "data/raw/features" / weights).symlink_to(real_data / "weights" / weights)


@pytest.mark.slow
def test_real_photographs_captions_and_sts_files(repository, tmp_path, real_data):
    checkout = Checkout(repository, tmp_path / "clone", tmp_path / "store")
    have = {path.name for path in (real_data / "flickr8k/images").iterdir()}
    pictures = []
    for split, count in (("train", 4), ("dev", 2), ("test", 2)):
        listed = (real_data / f"flickr8k/Flickr_8k.{split}Images.txt").read_text().split()
        pictures += sorted(have.intersection(listed))[:count]
    link_real_data(real_data, checkout, pictures)
    checkout.run("sightword", "params", "--recipe", "flickr8k-part", "--force")
    checkout.change("params.yaml", features__crops="one", train__epochs=2, train__cycle=1, train__hidden=16)
    checkout.change("params.yaml", train__batch=4, semantics__tasks=["STS15"], epochs__tasks=["STS15"])
    done = checkout.run("dvc", "repro")
    assert "8 pictures" in done.stderr
    assert_metrics_have_their_keys(checkout)
    semantics = read(checkout, "metrics/semantics.json")
    assert set(semantics["STS15"]) >= {"answers-forums", "images", "mean", "weighted_mean", "all"}
    assert semantics["STS15"]["images"]["pairs"] == 750
    assert DEMONSTRATION not in (checkout.folder / "report/index.html").read_text()
