from __future__ import annotations

import csv
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError
from scipy.stats import rankdata

from sightword.errors import FileFormatError
from sightword.evaluation.published import published_rows
from sightword.evaluation.semantics.classification_data import FILES
from sightword.evaluation.semantics.datasets import RatedPairs
from sightword.evaluation.semantics.evaluation import evaluate
from sightword.evaluation.semantics.results import SCHEMA, judge_pairs, read_pairs, write_pairs
from sightword.evaluation.semantics.settings import CLASSIFICATION, TASKS, SemanticsSettings
from sightword.evaluation.semantics.tables import (
    THIS,
    bins,
    disagreement_tsv,
    system_tsv,
    worst,
)
from sightword.io.files import write_table


def rows(text, delimiter):
    return list(csv.DictReader(io.StringIO(text), delimiter=delimiter))


@pytest.fixture(scope="module")
def published_sets():
    """An encoder's scores on the 26 subtasks of the published table, of its numbers of pairs."""
    random = np.random.default_rng(0)
    found = []
    for row in published_rows():
        gold = random.uniform(0, 5, row.pairs)
        texts = ["a"] * row.pairs
        found.append(
            judge_pairs(
                row.task, row.subtask, RatedPairs(texts, texts, gold), gold + random.normal(0, 2, row.pairs), None
            )
        )
    return found


def test_the_published_scores_are_in_the_table(published_sets):
    plot = rows(system_tsv(published_sets), "\t")
    assert len(plot) == 26 * 5
    assert sum(row["system"] == THIS for row in plot) == 26
    assert all(float(row["lo"]) < float(row["pearson"]) < float(row["hi"]) for row in plot)


def test_the_worst_pairs_are_readable(data, bag_encoder):
    judged = evaluate(bag_encoder, ["STSOwn"], data).judged
    found = worst(judged, 3)
    table = rows(disagreement_tsv(found), "\t")
    assert len(table) == 3
    row, one = table[0], found[0]
    assert row["subtask"] == f"STSOwn {one.row.subtask}"
    assert row["first"] == one.row.pairs.first[one.pair]
    assert float(row["gold"]) == one.row.pairs.gold[one.pair]
    assert abs(int(row["gold_rank"]) - int(row["score_rank"])) == pytest.approx(
        100 * abs(one.gold_rank - one.score_rank), abs=1
    )


def judged_pairs(first, second, gold, scores, *, subtask="street", task="STSOwn"):
    pairs = RatedPairs(first, second, np.asarray(gold, dtype=np.float64))
    return judge_pairs(task, subtask, pairs, np.asarray(scores, dtype=np.float64), None)


def random_row(count, seed, subtask="street"):
    random = np.random.default_rng(seed)
    words = np.array(["a", "b", "c", "d", "e", "f"])
    texts = [[" ".join(random.choice(words, random.integers(1, 40))) for _ in range(count)] for _ in range(2)]
    return judged_pairs(*texts, random.integers(0, 6, count), random.standard_normal(count), subtask=subtask)


def plain_differences(row):
    n = len(row.pairs)
    return (rankdata(row.scores) - rankdata(row.pairs.gold)) / (n - 1)


def test_ranges_are_those_of_a_plain_count():
    row = random_row(400, 3)
    difference = plain_differences(row)
    texts = list(zip(row.pairs.first, row.pairs.second, strict=True))
    length = np.array([(len(a.split()) + len(b.split())) / 2 for a, b in texts])
    overlap = np.array([len(set(a.split()) & set(b.split())) / len(set(a.split() + b.split())) for a, b in texts])
    found = {(one.by, one.range): one for one in bins([row])}
    for name, inside in (
        ("up to 5", length <= 5),
        ("10 to 15", (length > 10) & (length <= 15)),
        ("over 30", length > 30),
    ):
        one = found["length", name]
        assert one.pairs == inside.sum() > 0
        assert one.difference == pytest.approx(np.abs(difference[inside]).mean())
    for name, inside in (("none", overlap == 0), ("0.2 to 0.4", (overlap > 0.2) & (overlap <= 0.4))):
        one = found["overlap", name]
        assert one.pairs == inside.sum() > 0
        assert one.lean == pytest.approx(difference[inside].mean())


def test_the_worst_pairs_come_first_over_all_subtasks():
    agree = judged_pairs(["a", "b", "c"], ["a", "b", "c"], [0, 1, 2], [0.1, 0.2, 0.3])
    differ = judged_pairs(["high", "mid", "low"], ["x", "y", "z"], [5, 3, 1], [0.1, 0.2, 0.9], subtask="park")
    found = worst([agree, differ], 4)
    assert [(one.row.subtask, one.row.pairs.first[one.pair]) for one in found[:2]] == [
        ("park", "high"),
        ("park", "low"),
    ]
    assert (found[0].gold_rank, found[0].score_rank) == (1.0, 0.0)
    assert len(found) == 4
    assert worst([agree, differ], 0) == []


def test_trained_rows_and_constant_encoders_are_left_out():
    constant = judged_pairs(["a", "b"], ["c", "d"], [1, 2], [1, 1])
    trained = judged_pairs(["a", "b"], ["c", "d"], [1, 2], [1, 2], subtask="trained")
    assert worst([constant, trained], 5) == []
    assert all(one.pairs == 0 and one.difference is None for one in bins([constant, trained]))
    assert bins([])


@pytest.fixture
def found(data, bag_encoder):
    return evaluate(bag_encoder, ["STSOwn", "SICKRelatedness"], data, ["a man"])


def test_a_written_table_is_read_back(found, tmp_path):
    write_pairs(tmp_path / "pairs.parquet", found.judged)
    table = read_pairs(tmp_path / "pairs.parquet")
    assert list(table.subtasks) == [(row.task, row.subtask) for row in found.judged]
    for row, pairs in zip(found.judged, table.subtasks.values(), strict=True):
        assert pairs.first == row.pairs.first
        assert pairs.second == row.pairs.second
        assert np.array_equal(pairs.gold, row.pairs.gold)
        assert np.array_equal(pairs.score, row.scores)
        assert np.array_equal(pairs.first_seen, row.seen[0])
        assert np.array_equal(pairs.second_seen, row.seen[1])


def test_a_table_out_of_order_is_refused(found, tmp_path):
    write_pairs(tmp_path / "pairs.parquet", found.judged)
    table = pq.read_table(tmp_path / "pairs.parquet")
    write_table(tmp_path / "mixed.parquet", table.take([1, 0, *range(2, len(table))]))
    with pytest.raises(FileFormatError, match=r"the pairs of STSOwn park\.life are repeated or not in order"):
        read_pairs(tmp_path / "mixed.parquet")
    write_table(tmp_path / "twice.parquet", pa.concat_tables([table, table]))
    with pytest.raises(FileFormatError, match="are repeated or not in order"):
        read_pairs(tmp_path / "twice.parquet")


def test_columns_of_another_type_are_refused(found, tmp_path):
    write_pairs(tmp_path / "pairs.parquet", found.judged)
    table = pq.read_table(tmp_path / "pairs.parquet")
    text = pa.array([str(score) for score in table["score"].to_pylist()])
    write_table(tmp_path / "text.parquet", table.set_column(SCHEMA.get_field_index("score"), "score", text))
    with pytest.raises(FileFormatError, match="the column score is of string; expected double"):
        read_pairs(tmp_path / "text.parquet")
    none = pa.array([None, *table["first"].to_pylist()[1:]], pa.string())
    write_table(tmp_path / "none.parquet", table.set_column(SCHEMA.get_field_index("first"), "first", none))
    with pytest.raises(FileFormatError, match="the column first has empty cells"):
        read_pairs(tmp_path / "none.parquet")
    write_table(tmp_path / "less.parquet", table.drop_columns(["gold"]))
    with pytest.raises(FileFormatError, match="has no column gold"):
        read_pairs(tmp_path / "less.parquet")


def test_the_classification_tasks_are_accepted_but_not_in_the_defaults():
    assert set(CLASSIFICATION) == set(FILES)
    assert SemanticsSettings().tasks == list(TASKS)
    assert not set(TASKS) & set(CLASSIFICATION)
    named = [*TASKS, *CLASSIFICATION]
    assert SemanticsSettings(tasks=named).tasks == named


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"tasks": ["MR", "SST5"]}, "no such task: 'SST5' .accepted: STSBenchmark, STS12 and other STS.*MR, CR"),
        ({"tasks": ["MR", "MR"]}, "a task is named twice"),
        ({"kfold": 1}, "kfold"),
    ],
)
def test_wrong_values_are_refused(wrong, message):
    with pytest.raises(ValidationError, match=message):
        SemanticsSettings(**wrong)
