"""One encoder is judged in all its spaces from one reading of each sentence."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from grounded_project import StandIn, split
from threadpoolctl import threadpool_limits

import sightword
from sightword.errors import ScoringError, SemanticsError
from sightword.evaluation.semantics.evaluation import evaluate
from sightword.evaluation.semantics.relatedness import TfIdf
from sightword.grounded.judging.measuring import measure, read
from sightword.grounded.judging.relatedness import read_parts
from sightword.grounded.judging.settings import JudgeSettings


@pytest.fixture(scope="module")
def settings(senteval, ratings):
    return JudgeSettings(
        curve=[1, 10, 50], resamples=100, data=str(senteval), tasks=["STS12", "STSBenchmark", "SICKRelatedness"],
        transfer=["MR", "MRPC"], missing="skip", kfold=2, ratings=str(ratings),
        neighbours=["a red dog runs"], groups=["dog", "cat"], points=6,
    )  # fmt: skip


@pytest.fixture(scope="module")
def splits():
    return {"dev": split(20, 1), "test": split(12, 2)}


@pytest.fixture(scope="module")
def encoder():
    return StandIn()


@pytest.fixture(scope="module")
def found(settings, splits, encoder):
    return measure(encoder, read(settings, splits, ["A red ball."]), settings)


def test_each_sentence_is_read_once_for_all_spaces(found, encoder, splits, senteval):
    related = read_parts(["STSBenchmark", "SICKRelatedness"], senteval)[0]
    texts = {text for part in related for text in (*part.pairs.first, *part.pairs.second)}
    texts |= {"a red dog runs"} | {text for pairs in splits.values() for text in pairs.texts}
    first = StandIn()
    settings = JudgeSettings(resamples=0, data=str(senteval), tasks=["STSBenchmark", "SICKRelatedness"],
                             transfer=[], neighbours=["a red dog runs"])  # fmt: skip
    measure(first, read(settings, splits, None), settings)
    assert first.read == len(texts)


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one processor has one thread")
def test_the_number_of_numpys_threads_changes_no_digit(senteval):
    settings = JudgeSettings(resamples=100, data=str(senteval), tasks=["STSBenchmark"], transfer=[])
    splits, encoder = {name: split(300, seed) for seed, name in enumerate(("dev", "test"))}, StandIn(widths=(200, 150))
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            found.append(measure(encoder, read(settings, splits, None), settings).metrics)
    assert found[0] == found[1]


def test_the_numbers_are_those_of_the_librarys_own_functions(found, settings, splits, encoder, senteval):
    for space in encoder.spaces:
        one = found.metrics["spaces"][space]

        def encode(texts, space=space):
            return encoder.encode_spaces(texts)[space]

        for name, pairs in splits.items():
            measured = sightword.structure(encode(pairs.texts), pairs.features, pairs.image_of_caption, 10)
            assert {key: one["structure"][name][key] for key in measured} == pytest.approx(measured)
            assert one["structure"][name]["curve"]["10"] == pytest.approx(measured["mnno"])
        tasks = ["STSBenchmark", "SICKRelatedness"]
        theirs = evaluate(encode, tasks, senteval, ["A red ball."], trained_head=False)
        assert one["relatedness"]["STSBenchmark"]["all"] == theirs["STSBenchmark"]["cosine"]
        assert one["relatedness"]["SICKRelatedness"] == theirs["SICKRelatedness"]["cosine"]
    theirs = evaluate(
        lambda texts: encoder.encode_spaces(texts)["sentence"], ["MR", "MRPC"], senteval, ["A red ball."],
        kfold=2,
    )  # fmt: skip
    ours = found.metrics["spaces"]["sentence"]["transfer"]
    for task in ("MR", "MRPC"):
        assert ours[task] == {key: theirs[task][key] for key in ours[task]}
    assert "f1" in ours["MRPC"]
    assert "transfer" not in found.metrics["spaces"]["grounded"]


def test_tfidf_of_the_training_captions_stands_beside_as_a_control(found, encoder, senteval):
    control = found.metrics["controls"]["tfidf"]
    tasks = ["STS12", "STSBenchmark", "SICKRelatedness"]
    options = {"missing": "skip", "controls": {"tfidf": TfIdf(["A red ball."])}}
    theirs = evaluate(lambda texts: encoder.encode_spaces(texts)["sentence"], tasks, senteval, **options)
    expected = theirs["controls"]["tfidf"]
    assert control["STSBenchmark"]["all"]["pearson"] == expected["STSBenchmark"]["cosine"]
    assert control["SICKRelatedness"]["pearson"] == expected["SICKRelatedness"]["cosine"]
    assert control["STSBenchmark"].keys() == {"all", "captions", "news", "forums"}


def test_the_genres_of_sts_benchmark_have_their_own_pairs(found):
    entry = found.metrics["spaces"]["grounded"]["relatedness"]["STSBenchmark"]
    assert {name: one["pairs"] for name, one in entry.items()} == {"all": 30, "captions": 10, "news": 10, "forums": 10}
    table = found.tables["relatedness"].to_pandas()
    rows = table[(table.space == "grounded") & (table.genre == "news")]
    assert np.corrcoef(rows.gold, rows.score)[0, 1] == pytest.approx(entry["news"]["pearson"])


def test_examples_that_are_right_give_the_accuracy(found):
    table = found.tables["transfer"].to_pandas()
    rights = 100 * table[table.task == "MRPC"].right.mean()
    assert rights == pytest.approx(found.metrics["spaces"]["sentence"]["transfer"]["MRPC"]["accuracy"], abs=0.01)
    counts = table.groupby(["space", "task"]).size().to_dict()
    assert counts == {("sentence", "MR"): 50, ("sentence", "MRPC"): 40}


def test_resamples_are_paired_over_encoders(found, settings, splits):
    other = measure(StandIn(seed=1), read(settings, splits, None), settings).tables["structure"].to_pandas()
    own = found.tables["structure"].to_pandas()
    assert list(own.columns) == ["space", "split", "resample", "mnno", "rho_vis", "c_inter", "c_intra"]
    assert (own[["space", "split", "resample"]] == other[["space", "split", "resample"]]).all(axis=None)
    assert len(own) == 2 * 2 * 100
    longer = StandIn()
    longer.scale = 2.0  # the same directions, so that the measures are equal where the draws are
    alike = measure(longer, read(settings, splits, None), settings).tables["structure"].to_pandas()
    np.testing.assert_allclose(alike.iloc[:, 3:], own.iloc[:, 3:], atol=1e-6)
    redrawn = settings.model_copy(update={"seed": 5})
    moved = measure(StandIn(), read(redrawn, splits, None), redrawn).tables["structure"].to_pandas()
    assert (moved.c_inter != own.c_inter).all()


def test_neighbours_points_and_concreteness(found):
    near = found.tables["neighbours"].to_pandas()
    ranks = near.groupby("space")["rank"].apply(list).to_dict()
    assert ranks == {name: [1, 2, 3, 4, 5] for name in ("grounded", "sentence")}
    assert (near.groupby("space").cosine.diff().dropna() <= 0).all()
    points = found.tables["points"].to_pandas()
    assert points.groupby("space").size().nunique() == 1
    for row in points.itertuples():
        assert row.group in row.sentence.split()
    genres = found.metrics["concreteness"]
    assert set(genres) == {"captions", "news", "forums"}
    assert all(1 <= one["mean"] <= 5 and one["rated"] < one["tokens"] for one in genres.values())


def test_missing_tasks_are_named_and_all_is_plain_json(found, settings, splits):
    assert found.metrics["judge"] == {"seed": 1111}
    assert found.metrics["skipped"] == {"STS12": "downstream/STS/STS12-en-test does not exist"}
    json.dumps(found.metrics, allow_nan=False)
    with pytest.raises(SemanticsError, match="STS12"):
        read(settings.model_copy(update={"missing": "error"}), splits, None)


def test_too_few_pictures_are_refused_before_a_sentence_is_read(settings, splits):
    with pytest.raises(ScoringError, match=r"the split test: there are 9 .*too few for 10.*11\. Leave the split"):
        read(settings, splits | {"test": split(9, 2)}, None)


def test_undefined_structure_names_the_space_and_the_split(settings, splits):
    flat = StandIn()
    flat.scale = 0.0
    with pytest.raises(ScoringError, match=r"space sentence, split dev: sentences: .* undefined.* Look at"):
        measure(flat, read(settings, splits, None), settings)


def test_a_group_without_captions_is_refused(settings, splits):
    with pytest.raises(SemanticsError, match=r"evaluate\.groups: 0 captions hold the word 'unicorn'"):
        read(settings.model_copy(update={"groups": ["dog", "unicorn"]}), splits, None)
