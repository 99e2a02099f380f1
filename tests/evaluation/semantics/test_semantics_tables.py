from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from pydantic import ValidationError

from sightword.evaluation.published import published_rows
from sightword.evaluation.semantics.datasets import RatedPairs
from sightword.evaluation.semantics.evaluation import judge
from sightword.evaluation.semantics.relatedness import TfIdf
from sightword.evaluation.semantics.results import judge_pairs
from sightword.evaluation.semantics.settings import SemanticsSettings
from sightword.evaluation.semantics.tables import (
    COLUMNS,
    THIS,
    bin_tsv,
    bins,
    disagreement_tsv,
    pair_tsv,
    score_csv,
    score_tsv,
    system_tsv,
    worst,
)


def rows(text, delimiter):
    return list(csv.DictReader(io.StringIO(text), delimiter=delimiter))


def test_the_table_has_a_row_a_subtask(data, bag_encoder):
    found = judge(bag_encoder, ["STSOwn", "SICKRelatedness"], data, ["a man"])
    table = rows(score_csv(found.judged, {}), ",")
    assert [(row["task"], row["subtask"], row["pairs"]) for row in table] == [
        ("STSOwn", "park.life", "30"),
        ("STSOwn", "street", "28"),
        ("SICKRelatedness", "cosine", "40"),
        ("SICKRelatedness", "trained", "40"),
    ]
    street = found.metrics["STSOwn"]["street"]
    assert float(table[1]["pearson"]) == pytest.approx(street["pearson"], abs=1e-6)
    assert [float(table[1][end]) for end in ("lo", "hi")] == pytest.approx(street["pearson_ci95"], abs=1e-6)
    assert float(table[1]["seen_in_training"]) == street["seen_in_training"]
    assert [row["name"] for row in rows(score_tsv(found.judged), "\t")][1] == "STSOwn street"


def test_an_undefined_value_is_an_empty_cell(data):
    found = judge(lambda sentences: np.ones((len(sentences), 2)), ["STSOwn"], data)
    row = rows(score_csv(found.judged, {}), ",")[0]
    assert [row[key] for key in ("pearson", "lo", "hi", "spearman", "seen_in_training")] == [""] * 5


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
    table = rows(score_csv(published_sets, {}), ",")
    assert len(table) == 26
    assert tuple(table[0]) == COLUMNS
    assert [float(table[0][name]) for name in ("char_gru", "char_gru_lo", "char_gru_hi")] == [0.491, 0.435, 0.543]
    assert [float(table[1][name]) for name in ("bow", "infersent", "char_gru_coco")] == [0.662, 0.836, 0.827]
    plot = rows(system_tsv(published_sets), "\t")
    assert len(plot) == 26 * 5
    assert sum(row["system"] == THIS for row in plot) == 26
    assert plot[0]["pearson"] == table[0]["pearson"]
    assert all(float(row["lo"]) < float(row["pearson"]) < float(row["hi"]) for row in plot)


def test_an_incomplete_published_set_has_no_published_scores(published_sets):
    row = published_sets[0]
    part = RatedPairs(row.pairs.first[:40], row.pairs.second[:40], row.pairs.gold[:40])
    table = rows(score_csv([judge_pairs(row.task, row.subtask, part, row.scores[:40], None)], {}), ",")
    assert table[0]["char_gru"] == ""


def test_controls_stand_beside_the_rows_that_they_have(data, bag_encoder):
    found = judge(bag_encoder, ["STSOwn", "SICKRelatedness"], data, controls={"tfidf": TfIdf(["a red bus", "a dog"])})
    table = rows(score_csv(found.judged, found.metrics["controls"]), ",")
    floor = found.metrics["controls"]["tfidf"]
    expected = {(task, name): r for task, entry in floor.items() for name, r in entry.items() if name != "mean"}
    assert {(row["task"], row["subtask"]): float(row["tfidf"]) for row in table if row["tfidf"]} == pytest.approx(
        expected
    )
    assert {row["subtask"] for row in table if not row["tfidf"]} == {"trained"}
    assert {row["untrained"] for row in table} == {""}


def test_custom_sets_have_no_published_scores(data, bag_encoder):
    judged = judge(bag_encoder, ["STSOwn"], data).judged
    assert {row["char_gru"] for row in rows(score_csv(judged, {}), ",")} == {""}
    assert [row["system"] for row in rows(system_tsv(judged), "\t")] == [THIS, THIS]


def test_the_disagreement_is_a_table(data, bag_encoder):
    judged = judge(bag_encoder, ["STSOwn", "SICKRelatedness"], data).judged
    table = rows(bin_tsv(bins(judged)), "\t")
    assert sum(int(row["pairs"]) for row in table if row["name"].startswith("length ")) == 98
    assert all((row["rank_difference"] == "") == (row["pairs"] == "0") for row in table)


def test_the_worst_pairs_are_readable(data, bag_encoder):
    judged = judge(bag_encoder, ["STSOwn"], data).judged
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


@pytest.mark.parametrize(("most", "count"), [(1000, 98), (98, 98), (10, 10), (0, 0)])
def test_pairs_are_taken_evenly(data, bag_encoder, most, count):
    found = judge(bag_encoder, ["STSOwn", "SICKRelatedness"], data)
    taken = rows(pair_tsv(found.judged, most), "\t")
    assert len(taken) == count
    if most == 10:
        assert {(row["task"], row["subtask"]) for row in taken} == {
            ("STSOwn", "park.life"),
            ("STSOwn", "street"),
            ("SICKRelatedness", "cosine"),
        }


def test_settings_accept_published_tasks_and_custom_sets():
    assert SemanticsSettings().tasks[-1] == "SICKRelatedness"
    assert SemanticsSettings(tasks=["STSOwn"]).seed == 1111


@pytest.mark.parametrize("tasks", [[], ["STS12", "STS12"], ["SICK"], ["STS/../x"]])
def test_settings_refuse_other_tasks(tasks):
    with pytest.raises(ValidationError):
        SemanticsSettings(tasks=tasks)
