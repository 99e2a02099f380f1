"""Splits of sentence pairs: undecided pairs, the learning curve's parts, and the counts."""

from __future__ import annotations

import pytest

from sightword.entailment.data.pairs import premise_key, read_split, write_pairs
from sightword.entailment.data.settings import SentencePairsSettings, Source
from sightword.entailment.data.sources import split_pairs
from sightword.errors import FileFormatError, SemanticsError

HEADER = "premise\thypothesis\tlabel\n"


def test_a_premise_is_the_same_tokenised_and_plain():
    assert premise_key("A dog's ball.") == premise_key("a dog 's  ball . ")
    assert premise_key("A dog.") != premise_key("A cat.")


@pytest.fixture
def tables(tmp_path):
    """34 training pairs of 17 premises, 6 of dev; test has an undecided pair and a premise of training."""
    labels = ["entailment", "neutral"]
    rows = [f"Premise {place // 2} .\tClaim {place} .\t{labels[place % 2]}\n" for place in range(40)]
    (tmp_path / "train.tsv").write_text(HEADER + "".join(rows[:34]))
    (tmp_path / "dev.tsv").write_text(HEADER + "".join(rows[34:]))
    test = "New .\tC\tentailment\nNew .\tD\tcontradiction\nNewer .\tE\t-\npremise 3.\tF\tneutral\n"
    (tmp_path / "test.tsv").write_text(HEADER + test)
    return tmp_path


def settings_of(tables, **more):
    def source(name):
        return [Source(format="table", path=str(tables / f"{name}.tsv"))]

    given = {"train": source("train"), "dev": source("dev"), "test": source("test"), **more}
    return SentencePairsSettings(folder=str(tables), **given)


def test_undecided_pairs_are_dropped_and_counted(tables):
    splits, counts = split_pairs(settings_of(tables))
    assert (len(splits["test"]), counts["test"]["undecided"]) == (3, 1)


def test_the_counts_name_premises_that_training_has(tables):
    _, counts = split_pairs(settings_of(tables))
    assert counts["dev"] == {
        "pairs": 6, "entailed": 50.0, "labels": {"entailment": 3, "neutral": 3}, "undecided": 0, "contradictory": 0,
        "premises": 3, "sources": {f"{tables.name}/dev": 6},
        "premises_in_training": 0, "pairs_with_premise_in_training": 0.0,
    }  # fmt: skip
    assert counts["test"]["premises_in_training"] == 1
    assert counts["test"]["pairs_with_premise_in_training"] == pytest.approx(100 / 3, abs=1e-4)


def test_a_smaller_part_of_training_is_in_a_larger_one(tables):
    sizes = (5, 11, 34)
    parts = [split_pairs(settings_of(tables, size=size))[0]["train"] for size in sizes]
    assert [len(part) for part in parts] == list(sizes)
    small, middle, every = (set(part.hypotheses) for part in parts)
    assert small < middle < every
    with pytest.raises(SemanticsError, match="size = 35 is more than the 34 training pairs"):
        split_pairs(settings_of(tables, size=35))


def test_a_split_of_undecided_pairs_is_one_message(tables):
    (tables / "train.tsv").write_text(HEADER + "A\tB\t-\nA\tC\t-\n")
    with pytest.raises(SemanticsError, match=r"all pairs of the split train are undecided.*pairs.train"):
        split_pairs(settings_of(tables))


def test_a_split_of_one_class_is_one_message(tables):
    (tables / "test.tsv").write_text(HEADER + "A\tB\tneutral\nA\tC\tcontradiction\n")
    with pytest.raises(SemanticsError, match=r"the split test has no pair that is entailed; .* pairs.test"):
        split_pairs(settings_of(tables))


def test_pairs_come_back_as_they_were_written(tables, tmp_path):
    splits, counts = split_pairs(settings_of(tables))
    write_pairs(tmp_path, splits, counts)
    for name, wanted in splits.items():
        found = read_split(tmp_path, name)
        assert (found.premises, found.hypotheses, found.labels) == (wanted.premises, wanted.hypotheses, wanted.labels)
        assert (found.sources, found.entailed.tolist()) == (wanted.sources, wanted.entailed.tolist())
    with pytest.raises(SemanticsError, match="no split is called 'all'; expected train, dev, test"):
        read_split(tmp_path, "all")
    with pytest.raises(FileFormatError, match=r"Run `make entailment`"):
        read_split(tmp_path / "absent", "dev")


def test_pairs_that_stand_with_two_labels_are_counted_and_kept(tmp_path):
    rows = ["A dog .\tIt runs .\tentailment\n", "A dog .\tIt runs .\tneutral\n", "A dog .\tIt sits .\tneutral\n" * 2]
    (tmp_path / "a.tsv").write_text(HEADER + "".join(rows))
    source = Source(format="table", path=str(tmp_path / "a.tsv"))
    splits, counts = split_pairs(
        SentencePairsSettings(train=[source], dev=[source], test=[source], tables=str(tmp_path))
    )
    assert counts["train"]["contradictory"] == 2
    assert len(splits["train"]) == 4
