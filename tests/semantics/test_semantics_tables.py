from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from pydantic import ValidationError

from pipeline.semantics.evaluation import judge
from pipeline.semantics.settings import SemanticsSettings
from pipeline.semantics.tables import pair_tsv, score_csv, score_tsv


def rows(text, delimiter):
    return list(csv.DictReader(io.StringIO(text), delimiter=delimiter))


def test_the_table_has_a_row_a_subtask(data, bag_encoder):
    found = judge(bag_encoder, ["STSOwn", "SICKRelatedness"], data, ["a man"])
    table = rows(score_csv(found.judged), ",")
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


def test_what_is_not_defined_is_an_empty_cell(data):
    found = judge(lambda sentences: np.ones((len(sentences), 2)), ["STSOwn"], data)
    row = rows(score_csv(found.judged), ",")[0]
    assert [row[key] for key in ("pearson", "lo", "hi", "spearman", "seen_in_training")] == [""] * 5


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


def test_settings_accept_published_tasks_and_ones_own():
    assert SemanticsSettings().tasks[-1] == "SICKRelatedness"
    assert SemanticsSettings(tasks=["STSOwn"]).seed == 1111


@pytest.mark.parametrize("tasks", [[], ["STS12", "STS12"], ["SICK"], ["STS/../x"]])
def test_settings_refuse_other_tasks(tasks):
    with pytest.raises(ValidationError):
        SemanticsSettings(tasks=tasks)
