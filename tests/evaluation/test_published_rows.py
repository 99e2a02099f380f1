"""Published rows of all files: each has a place, and a row that is known from elsewhere only says so."""

from __future__ import annotations

import pytest

from sightword.evaluation.published import _FILES, published

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


def test_sentence_encoder_of_today_has_one_measure_a_setting():
    for row in published("sentences"):
        (measure,) = row.scores
        assert measure == ("pearson" if row.setting == "STS Benchmark" else "spearman_mean")
        assert 0 < row.scores[measure] < 100
