"""The published tables of Bordes et al. (2019), against their own means and the paper."""

from __future__ import annotations

import numpy as np
import pytest

from sightword.evaluation.published import published
from sightword.grounded.judging.results import KEYS, TRANSFER


def test_the_means_of_table_3_are_those_of_its_accuracies_but_for_two():
    wrong = {}
    for row in published("transfer"):
        mean = np.mean([row.scores[task] for task in TRANSFER])
        assert row.scores["transfer_mean"] == pytest.approx(mean, abs=0.0501)
        if row.misprinted:
            wrong[row.system] = row.misprinted["transfer_mean"], row.scores["transfer_mean"]
    assert wrong == {"GS-Cap": (78.4, 78.9), "T + CM": (81.1, 81.2)}
    assert len(published("transfer")) == 13


def test_table_1_has_nine_rows_of_nine_numbers():
    rows = {row.system: row.scores for row in published("structure") if "Figure 3" not in row.system}
    assert len(rows) == 9
    assert all(set(scores) | {"transfer_mean"} == set(KEYS) for scores in rows.values())
    assert rows["T"]["c_inter"] == 54.2
    assert rows["C_g + P_g"] == {"mnno": 28.9, "rho_vis": 29.1, "c_inter": 4.7, "c_intra": 87.5, "stsb": 63,
                                 "stsb_captions": 84, "stsb_news": 48, "stsb_forums": 33, "sick": 60}  # fmt: skip


def test_figure_3_has_c_inter_and_c_intra_of_two_encoders():
    rows = {row.system: row.scores for row in published("structure") if "Figure 3" in row.system}
    assert rows == {
        "T, five scenes (Figure 3)": {"c_inter": 19, "c_intra": 22},
        "C_g + P_g, five scenes (Figure 3)": {"c_inter": 11, "c_intra": 27},
    }
