"""One encoder is judged in all its spaces from one reading of each sentence; ratings of concreteness."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import replace

import pytest
from grounded_project import StandIn, split
from threadpoolctl import threadpool_limits

import sightword
from sightword.errors import ScoringError, SemanticsError
from sightword.evaluation.semantics.evaluation import evaluate
from sightword.evaluation.semantics.relatedness import TfIdf
from sightword.grounded.judging.measuring import (
    by_genre,
    concreteness,
    mean_rating,
    measure,
    read,
    read_parts,
    read_ratings,
)
from sightword.grounded.judging.settings import JudgeSettings


@pytest.fixture(scope="module")
def settings(senteval, ratings):
    return JudgeSettings(
        resamples=100, data=str(senteval), tasks=["STS12", "STSBenchmark", "SICKRelatedness"],
        transfer=["MR", "MRPC"], missing="skip", kfold=2, ratings=str(ratings),
        neighbours=["a red dog runs"],
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


def test_resamples_are_paired_over_encoders(found, settings, splits):
    other = measure(StandIn(seed=1), read(settings, splits, None), settings).tables["structure"].to_pandas()
    own = found.tables["structure"].to_pandas()
    assert list(own.columns) == ["space", "split", "resample", "mnno", "rho_vis", "c_inter", "c_intra"]
    assert (own[["space", "split", "resample"]] == other[["space", "split", "resample"]]).all(axis=None)
    assert len(own) == 2 * 2 * 100
    redrawn = settings.model_copy(update={"seed": 5})
    moved = measure(StandIn(), read(redrawn, splits, None), redrawn).tables["structure"].to_pandas()
    assert (moved.c_inter != own.c_inter).all()


def test_missing_tasks_are_named_and_all_is_plain_json(found, settings, splits):
    assert found.metrics["judge"].items() >= {"seed": 1111, "kfold": settings.kfold}.items()
    others = {name: replace(pairs, features=pairs.features + 1) for name, pairs in splits.items()}
    moved = measure(StandIn(), read(settings, others, None), settings).metrics["judge"]
    assert moved["pictures"] != found.metrics["judge"]["pictures"]
    assert found.metrics["skipped"] == {"STS12": "downstream/STS/STS12-en-test does not exist"}
    json.dumps(found.metrics, allow_nan=False)
    with pytest.raises(SemanticsError, match="STS12"):
        read(settings.model_copy(update={"missing": "error"}), splits, None)


def test_too_few_pictures_are_refused_before_a_sentence_is_read(settings, splits):
    with pytest.raises(ScoringError, match=r"the split test: there are 9 .*too few for 10.*11\. Leave the split"):
        read(settings, splits | {"test": split(9, 2)}, None)


HEAD = "Word\tBigram\tConc.M\n"


def test_words_are_folded_and_tokens_count_as_often_as_they_occur(tmp_path):
    path = tmp_path / "ratings.txt.gz"
    path.write_bytes(gzip.compress((HEAD + "I\t0\t3.9\r\ndog\t0\t5\nhot dog\t1\t4\n").encode()))
    ratings = read_ratings(path)
    assert ratings == {"i": 3.9, "dog": 5.0, "hot dog": 4.0}
    found = mean_rating(ratings, ["I saw a dog.", "Dog's dog!"])
    assert found == {"mean": pytest.approx((3.9 + 3 * 5) / 4), "tokens": 7, "rated": 4}
    assert mean_rating(ratings, ["..."]) == {"mean": None, "tokens": 0, "rated": 0}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"Word\tMean\ndog\t4\n",
            "line 1: has no column Conc.M .it has: Word, Mean.. The published file has",
        ),
        (
            b"Word\tConc.M\ndog\t4\nDog\t3\n",
            "line 3: the word 'dog' stands twice, with the rating 4.0 .*, line 2. and the rating 3.0",
        ),
        (b"Word\tConc.M\ndog\t5.5\n", "line 2: the rating is '5.5'; expected a number from 1 to 5"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(tmp_path, content, message):
    (tmp_path / "ratings.txt").write_bytes(content)
    with pytest.raises(SemanticsError, match=message):
        read_ratings(tmp_path / "ratings.txt")


def test_published_pairs_and_ratings_give_the_papers_means(real_data):
    """The paper prints 3.10, 2.61 and 2.39, with other tokens."""
    parts, _ = read_parts(["STSBenchmark"], real_data / "senteval")
    counts = {genre: len(pairs) for genre, _, pairs in by_genre(parts[0])}
    assert counts == {"captions": 625, "news": 500, "forums": 254}
    ratings = read_ratings(real_data / "concreteness/brysbaert2014_concreteness.txt.gz")
    assert len(ratings) == 39_954
    found = concreteness(parts, ratings)
    assert {genre: round(one["mean"], 2) for genre, one in found.items()} == {
        "captions": 3.14,
        "news": 2.72,
        "forums": 2.49,
    }
    shares = {genre: round(one["rated"] / one["tokens"], 2) for genre, one in found.items()}
    assert shares == {"captions": 0.93, "news": 0.73, "forums": 0.90}
