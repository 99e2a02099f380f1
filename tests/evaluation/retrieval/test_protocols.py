from __future__ import annotations

import json
import zlib

import numpy as np
import pytest
from pydantic import ValidationError

import sightword
from sightword.corpus.coco import Karpathy
from sightword.corpus.reading import clean
from sightword.corpus.records import write_tables
from sightword.errors import CorpusError, ScoringError
from sightword.evaluation.retrieval import protocols
from sightword.evaluation.retrieval.protocols import corpus_order, entry, fold_rows, intervals, rank_folds, score
from sightword.evaluation.retrieval.ranks import Ranks
from sightword.evaluation.retrieval.settings import RetrievalSettings
from sightword.evaluation.retrieval.similarity import NAMES


def made(to_image, to_caption):
    """Ranks of folds in which caption n belongs to picture n modulo the number of pictures."""
    return Ranks(np.array(to_image), np.array(to_caption), np.arange(len(to_image)) % len(to_caption))


def test_an_entry_has_the_keys_of_the_metrics_file():
    found = sightword.score(np.eye(3)[[2, 0, 1, 1]], np.eye(3), [2, 0, 1, 1])
    assert list(found) == ["caption_to_image", "image_to_caption", "rsum"]
    assert found["caption_to_image"] == {
        "r1": 100.0,
        "r5": 100.0,
        "r10": 100.0,
        "rsum": 300.0,
        "median_rank": 1.0,
        "mean_rank": 1.0,
        "queries": 4,
        "r1_ci95": pytest.approx([51.0100, 100.0], abs=1e-4),
        "r5_ci95": pytest.approx([51.0100, 100.0], abs=1e-4),
        "r10_ci95": pytest.approx([51.0100, 100.0], abs=1e-4),
        "r1_bootstrap95": [100.0, 100.0],
        "r5_bootstrap95": [100.0, 100.0],
        "r10_bootstrap95": [100.0, 100.0],
        "median_rank_bootstrap95": [1.0, 1.0],
    }
    assert found["image_to_caption"]["queries"] == 3
    assert found["rsum"] == 600.0


def test_numbers_by_hand():
    # 8 queries from captions to pictures, two for each picture; hits: 2, 5, 7 of 8.
    found = entry([made([1, 2, 9, 1, 5, 30, 4, 6], [1, 7, 2, 12])])
    there, back = found["caption_to_image"], found["image_to_caption"]
    assert (there["r1"], there["r5"], there["r10"], there["rsum"]) == (25.0, 62.5, 87.5, 175.0)
    assert there["r1_ci95"] == pytest.approx([7.1477, 59.0730], abs=1e-4)
    assert there["r10_ci95"] == pytest.approx([52.9105, 97.7583], abs=1e-4)
    assert (there["median_rank"], there["mean_rank"], there["queries"]) == (4.5, 7.25, 8)
    assert (back["r1"], back["r5"], back["r10"], back["median_rank"]) == (25.0, 50.0, 75.0, 4.5)
    assert found["rsum"] == 175 + 150


def test_folds_pool_their_queries_and_average_their_medians():
    found = entry([made([1, 1, 1], [1]), made([4], [3])])["caption_to_image"]
    assert (found["r1"], found["queries"], found["mean_rank"], found["median_rank"]) == (75.0, 4, 1.75, 2.5)


def test_folds_are_blocks_of_the_order():
    blocks = fold_rows(np.arange(5003))
    assert [(fold[0], fold[-1], len(fold)) for fold in blocks] == [(k * 1000, k * 1000 + 999, 1000) for k in range(5)]


def test_contiguous_folds_are_blocks_of_the_corpuss_own_order(tmp_path):
    """From Karpathy's file to the folds, against blocks cut from the test pictures as the file lists them."""
    random = np.random.default_rng(0)
    names = [f"COCO_val2014_{number:012}.jpg" for number in random.choice(600_000, 5_600, replace=False)]
    splits = random.permutation(["test"] * 5_000 + ["val"] * 300 + ["restval"] * 300)
    entries = [
        {"filename": name, "split": split, "sentences": [{"raw": "a", "tokens": ["a"], "sentid": number}]}
        for number, (name, split) in enumerate(zip(names, splits.tolist(), strict=True))
    ]
    (tmp_path / "dataset_coco.json").write_text(json.dumps({"images": entries}))
    images, captions = Karpathy(path=str(tmp_path), pictures=str(tmp_path)).read(None)
    write_tables(tmp_path, clean(images, captions, None, require_pictures=False), "pictures")

    as_listed = [entry["filename"] for entry in entries if entry["split"] == "test"]
    ids = sorted(as_listed)
    found = fold_rows(corpus_order(tmp_path / "images.parquet", ids))
    for number, fold in enumerate(found):
        assert {ids[row] for row in fold} == set(as_listed[1000 * number : 1000 * (number + 1)])
    with pytest.raises(CorpusError, match=r"images.parquet: lacks 1 of 2 pictures, first b.jpg"):
        corpus_order(tmp_path / "images.parquet", [ids[0], "b.jpg"])


def test_five_folds_are_five_rankings_of_a_thousand():
    random = np.random.default_rng(4)
    images = random.standard_normal((5001, 6))
    owner = random.permutation(np.concatenate([np.arange(5001), random.integers(0, 5001, 2000)]))
    captions = images[owner] + random.standard_normal((7001, 6))
    found = entry(rank_folds(captions, images, owner, fold_rows(np.arange(5001))))
    alone = []
    for first in range(0, 5000, 1000):
        inside = (owner >= first) & (owner < first + 1000)
        alone.append(score(captions[inside], images[first : first + 1000], owner[inside] - first))
    for direction in ("caption_to_image", "image_to_caption"):
        queries = np.array([part[direction]["queries"] for part in alone])
        assert found[direction]["queries"] == queries.sum()
        for name in ("r1", "r10", "mean_rank"):
            values = np.array([part[direction][name] for part in alone])
            assert found[direction][name] == pytest.approx((values * queries).sum() / queries.sum())
        assert found[direction]["median_rank"] == np.mean([part[direction]["median_rank"] for part in alone])
    assert found["image_to_caption"]["queries"] == 5000
    everything = score(captions, images, owner)
    assert everything["caption_to_image"]["r10"] < found["caption_to_image"]["r10"]


def test_too_few_pictures_have_no_folds():
    with pytest.raises(ScoringError, match="4999 pictures are too few for five folds; expected at least 5000"):
        fold_rows(np.arange(4999))


@pytest.mark.parametrize("similarity", NAMES)
def test_the_order_of_the_captions_does_not_matter(similarity):
    random = np.random.default_rng(6)
    images, owner = random.standard_normal((20, 5)), np.repeat(np.arange(20), 3)
    captions = images[owner] + random.standard_normal((60, 5))
    shuffled = random.permutation(60)
    assert score(captions, images, owner, similarity) == score(captions[shuffled], images, owner[shuffled], similarity)


def one_by_one(folds, resamples, seed):
    """Every resample written out query by query."""
    randoms = [np.random.default_rng([seed, zlib.crc32(f"fold {n}".encode())]) for n in range(len(folds))]
    found = []
    for _ in range(resamples):
        queries, medians = [], []
        for random, (ranks, picture) in zip(randoms, folds, strict=True):
            pictures = max(picture) + 1
            mine = [
                r for p in random.integers(0, pictures, pictures) for r, q in zip(ranks, picture, strict=True) if q == p
            ]
            medians.append(np.median(mine))
            queries += mine
        found.append([100 * sum(r <= k for r in queries) / len(queries) for k in (1, 5, 10)] + [np.mean(medians)])
    ends = np.percentile(np.array(found), [2.5, 97.5], axis=0).T.tolist()
    return dict(zip(("r1", "r5", "r10", "median_rank"), ends, strict=True))


@pytest.mark.parametrize("numbers", [1, 1 << 21])
@pytest.mark.parametrize("spread", [3, 1000])
@pytest.mark.parametrize("sizes", [[1], [9], [6, 11], [150]])
def test_intervals_are_those_of_a_plain_loop(monkeypatch, sizes, spread, numbers):
    monkeypatch.setattr(protocols, "_NUMBERS", numbers)
    random = np.random.default_rng(len(sizes))
    directions = [[], []]
    for size in sizes:
        picture = random.permutation(np.repeat(np.arange(size), random.integers(1, 8, size)))
        directions[0].append((random.integers(1, spread, len(picture)), picture))
        directions[1].append((random.integers(1, spread, size), np.arange(size)))
    for found, folds in zip(intervals(directions, resamples=40, seed=3), directions, strict=True):
        expected = one_by_one(folds, 40, 3)
        assert list(found) == list(expected)
        for name, ends in expected.items():
            assert found[name] == pytest.approx(ends, abs=1e-12)


def test_a_middle_far_from_the_samples_is_found_too():
    # One picture has nearly all the queries: a resample without it has its middle elsewhere.
    picture = np.array([0] * 400 + list(range(1, 30)))
    folds = [(np.array([1] * 400 + list(range(2, 31))), picture)]
    found, expected = intervals([folds], resamples=60)[0], one_by_one(folds, 60, 0)
    assert expected["median_rank"][1] > 10
    for name, ends in expected.items():
        assert found[name] == pytest.approx(ends)


def test_the_query_bank_is_no_judge_of_its_own_split():
    with pytest.raises(ValidationError, match="its bank from the split train: score dev or test"):
        RetrievalSettings(split="train", protocols=["full", "querybank"])
