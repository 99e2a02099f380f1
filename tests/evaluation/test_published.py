"""The published table: that it is the published one, and that its authors' counts come out of the rule."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from sightword.errors import SemanticsError
from sightword.evaluation.published import (
    _FILES,
    beside_published,
    published,
    published_rows,
    published_scores,
    score_of,
    wins,
)
from sightword.evaluation.semantics.datasets import read_task
from sightword.evaluation.semantics.results import PairTable, ScoredPairs
from sightword.statistics.inference import fisher_interval

COLUMNS = {
    "bow": "bow_glove",
    "infersent": "infersent",
    "char-gru": "chargru_flickr8k",
    "char-gru-coco": "chargru_mscoco",
}


def recomputed(system):
    return {(row.task, row.subtask): score_of(row.scores[system].r, row.pairs) for row in published_rows()}


def test_the_table_is_the_published_one(real_data):
    text = (real_data / "reference/merkx2019_supplement.csv").read_text()
    expected = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
    assert len(expected) == len(published_rows()) == 26
    for row, line in zip(published_rows(), expected, strict=True):
        supervised = row.task in ("STSBenchmark", "SICKRelatedness")
        assert (row.task, row.subtask) == (
            line["senteval_task"],
            "trained" if supervised else line["senteval_dataset"],
        )
        for system, column in COLUMNS.items():
            r, up, down = (float(line[f"{column}{end}"]) for end in ("", "_ci_up", "_ci_down"))
            score = row.scores[system]
            assert (score.r, score.high - score.r, score.r - score.low) == pytest.approx(
                (r / 100, up / 100, down / 100), abs=1e-9
            )


def test_pairs_are_those_of_the_files(real_data):
    tasks = {task: read_task(task, real_data / "senteval") for task in {row.task for row in published_rows()}}
    for row in published_rows():
        task = tasks[row.task]
        assert row.pairs == len(task.test if row.subtask == "trained" else task.subtasks[row.subtask])


def test_fisher_reproduces_all_104_intervals_to_the_printed_digit():
    for row in published_rows():
        for system, score in row.scores.items():
            low, high = fisher_interval(score.r, row.pairs)
            printed = round(100 * (score.high - score.r), 1), round(100 * (score.r - score.low), 1)
            assert (round(100 * (high - score.r), 1), round(100 * (score.r - low), 1)) == printed, (row, system)


@pytest.mark.parametrize("scores", [published_scores, recomputed], ids=["printed", "recomputed"])
@pytest.mark.parametrize(
    ("a", "b", "count", "back"),
    [("char-gru", "bow", 20, 1), ("infersent", "bow", 22, 0), ("infersent", "char-gru", 7, 3)],
)
def test_the_rule_gives_the_papers_counts(scores, a, b, count, back):
    assert len(wins(scores(a), scores(b))) == count
    assert len(wins(scores(b), scores(a))) == back


def test_coco_over_flickr8k_is_3_and_the_reverse_5_or_6():
    """The paper counts 6, which Fisher's intervals give; a printed end is rounded onto the other's r."""
    assert len(wins(published_scores("char-gru-coco"), published_scores("char-gru"))) == 3
    assert len(wins(recomputed("char-gru-coco"), recomputed("char-gru"))) == 3
    printed = wins(published_scores("char-gru"), published_scores("char-gru-coco"))
    exact = wins(recomputed("char-gru"), recomputed("char-gru-coco"))
    assert (len(printed), len(exact)) == (5, 6)
    assert set(exact) - set(printed) == {("STS15", "belief")}


def test_an_unknown_system_is_refused_with_the_known_names():
    with pytest.raises(SemanticsError, match=r"gru: no such published system; expected one of bow, infersent"):
        published_scores("gru")


def scored(pairs, noise=0.5, seed=0):
    random = np.random.default_rng(seed)
    gold = random.uniform(0, 5, pairs)
    texts = [f"sentence {number}" for number in range(pairs)]
    return ScoredPairs(texts, texts, gold, gold + noise * random.standard_normal(pairs), None, None)


def test_a_system_is_compared_on_the_rows_it_has():
    table = PairTable({("STS13", "FNWN"): scored(189), ("STSBenchmark", "cosine"): scored(1379)})
    beside = beside_published(table, "bow")
    ((row, a, b),) = beside.rows
    assert (row.task, row.subtask, b) == ("STS13", "FNWN", published_scores("bow")["STS13", "FNWN"])
    pairs = table.subtasks["STS13", "FNWN"]
    assert a.r == pytest.approx(np.corrcoef(pairs.score, pairs.gold)[0, 1])
    assert len(beside.left_out) == 25
    assert "STSBenchmark trained" in beside.left_out


def test_other_data_than_the_published_is_refused():
    with pytest.raises(SemanticsError, match=r"STS13 FNWN: has 188 pairs; expected the 189"):
        beside_published(PairTable({("STS13", "FNWN"): scored(188)}), "bow")
    with pytest.raises(SemanticsError, match="no score for any"):
        beside_published(PairTable({("STSOwn", "x"): scored(188)}), "bow")


READ = ("Merkx & Frank 2019", "Vendrov et al. 2016", "Bordes et al. 2019")
"""The papers with which rows were compared; every other source needs a note."""


@pytest.mark.parametrize("name", _FILES)
def test_row_of_a_file_has_a_place_and_stands_there_once(name):
    rows = published(name)
    assert rows
    assert len({(row.system, row.setting) for row in rows}) == len(rows)
    for row in rows:
        assert row.source
        assert row.table or row.note
        assert row.scores
        assert row.cited.startswith(row.source)


@pytest.mark.parametrize("name", _FILES)
def test_row_from_elsewhere_says_so(name):
    released = "ganea2018-50"  # the released code of Ganea et al. states the rows of 5 dimensions
    silent = [
        row
        for row in published(name)
        if not row.source.endswith(READ) and not row.note and not (row.setting == released and "5 dim" in row.system)
    ]
    assert not silent
