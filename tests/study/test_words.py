"""Pairs of words of the sample's taxonomy: what a reader of letters may not know, and labels by brute force."""

from __future__ import annotations

import csv

import pytest

from sightword.hypernyms.data.taxonomy import closure, read_scenes
from study.words import word_pairs, write_words

SIZES = {"train": 300, "dev": 100, "test": 200}


@pytest.fixture(scope="module")
def taxonomy(repository):
    return read_scenes(repository / "data/raw/sample")


@pytest.fixture(scope="module")
def pairs(taxonomy):
    return word_pairs(taxonomy, SIZES, seed=1)


def test_hyponyms_of_dev_and_test_stand_in_no_training_pair(pairs):
    trained = {word for low, high, _ in pairs["train"] for word in (low, high)}
    asked = {name: {low for low, _, _ in pairs[name]} for name in ("dev", "test")}
    assert not trained & (asked["dev"] | asked["test"])
    assert not asked["dev"] & asked["test"]


def test_word_pairs_are_true_and_false_as_the_closure_says(taxonomy, pairs):
    first = [words.split(", ")[0] for words in taxonomy.words]
    true = {(first[low], first[high]) for low, high in zip(*closure(taxonomy), strict=True)}
    for name, rows in pairs.items():
        assert len(set(rows[::2])) == len(rows) / 2 <= SIZES[name]
        for low, high, label in rows:
            assert ((low, high) in true) == (label == "entailment")
        assert [high for _, high, _ in rows[::2]] == [high for _, high, _ in rows[1::2]]


def test_word_tables_of_dev_and_test_are_divided_by_known_words(pairs, tmp_path):
    known = {word for low, _, _ in pairs["test"][:40] for word in low.lower().split()}
    write_words(tmp_path, pairs, known=known)
    for name in ("dev", "test"):
        tables = {}
        for kind in ("known", "other"):
            with open(tmp_path / f"{name}-{kind}.tsv", newline="") as file:
                header, *tables[kind] = map(tuple, csv.reader(file, delimiter="\t"))
            assert header == ("premise", "hypothesis", "label")
            assert all((set(low.lower().split()) <= known) == (kind == "known") for low, _, _ in tables[kind])
        assert sorted(tables["known"] + tables["other"]) == sorted(pairs[name])
