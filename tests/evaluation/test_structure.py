"""Structural measures: hand-made geometry, plain loops over all pairs, and bad input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr

import sightword
from sightword.errors import ScoringError
from sightword.evaluation.structure import space, with_intervals

structure = sightword.structure


def unit(rows):
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


def by_loops(sentences, pictures, owner, k):
    """The measures by a loop over all pairs; neighbours by a full sort, ties by the picture's row."""
    s, v = unit(np.asarray(sentences, float)), unit(np.asarray(pictures, float))
    same, other, seen = [], [], []
    for i in range(len(s)):
        for j in range(i):
            (same if owner[i] == owner[j] else other).append(s[i] @ s[j])
            if owner[i] != owner[j]:
                seen.append(v[owner[i]] @ v[owner[j]])
    overlaps = []
    places = {p: [i for i in range(len(s)) if owner[i] == p] for p in sorted(set(owner))}
    for c in range(max(map(len, places.values()))):
        having = [p for p in places if len(places[p]) > c]
        if len(having) <= k:
            break
        rows = s[[places[p][c] for p in having]]
        near = [
            [set(sorted((j for j in range(len(x)) if j != i), key=lambda j: (-round(x[i] @ x[j], 8), j))[:k])
             for i in range(len(x))]
            for x in (rows, v[having])
        ]  # fmt: skip
        overlaps.append(np.mean([len(a & b) / k for a, b in zip(*near, strict=True)]))
    return {
        "mnno": np.mean(overlaps),
        "rho_vis": pearsonr(other, seen)[0],
        "c_inter": np.mean(other),
        "c_intra": np.mean(same) if same else None,
    }


def corpus(seed, counts, width=7, seen=5):
    random = np.random.default_rng(seed)
    owner = random.permutation(np.repeat(np.arange(len(counts)), counts))
    pictures = random.standard_normal((len(counts), seen))
    return random.standard_normal((len(owner), width)) + pictures[owner, :1], pictures, owner


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.integers(0, 4), min_size=6, max_size=14), st.integers(1, 3))
def test_the_measures_are_those_of_a_loop_over_all_pairs(seed, counts, k):
    counts[:4] = [max(1, count) for count in counts[:4]]
    sentences, pictures, owner = corpus(seed, counts)
    assert structure(sentences, pictures, owner, k) == pytest.approx(by_loops(sentences, pictures, owner, k), abs=1e-10)


def test_many_sentences_agree_with_matrices_of_all_pairs():
    sentences, pictures, owner = corpus(1, [3] * 1100, width=20, seen=12)
    sentences = (sentences + 5).astype(np.float32)  # in one cone, where single precision alone errs
    s, v = unit(sentences.astype(float)), unit(pictures)
    s = s[np.argsort(owner, kind="stable")]
    own = np.repeat(np.arange(1100), 3)
    x, y, apart = s @ s.T, (v @ v.T)[np.ix_(own, own)], own[:, None] != own
    near = []
    for rows in (*(s[c::3] for c in range(3)), v):
        cosines = np.round((rows @ rows.T) * 2**32)
        np.fill_diagonal(cosines, -np.inf)
        near.append(np.argsort(-cosines, axis=1, kind="stable")[:, :10])
    shared = [np.isin(a + 1100 * np.arange(1100)[:, None], near[3] + 1100 * np.arange(1100)[:, None]).mean()
              for a in near[:3]]  # fmt: skip
    found = structure(sentences, pictures, owner)
    assert found["mnno"] == pytest.approx(np.mean(shared), abs=1e-12)
    assert found["rho_vis"] == pytest.approx(np.corrcoef(x[apart], y[apart])[0, 1], abs=1e-10)
    assert found["c_inter"] == pytest.approx(x[apart].mean(), abs=1e-12)
    assert found["c_intra"] == pytest.approx(x[~apart].sum() / 6600 - 0.5, abs=1e-12)


def test_rows_of_any_length_and_order_give_the_same_numbers():
    sentences, pictures, owner = corpus(6, [2, 3, 1, 4, 2, 2, 5, 1])
    found = structure(sentences, pictures, owner, 2)
    scale = 10.0 ** np.random.default_rng(7).integers(-150, 150, len(sentences))
    order = np.argsort(owner, kind="stable")
    assert structure(sentences * scale[:, None], pictures * 1e-200, owner, 2) == pytest.approx(found, abs=1e-12)
    assert structure(sentences[order], pictures, owner[order], 2) == pytest.approx(found, abs=1e-12)


class TestIntervals:
    def test_a_resample_is_the_sample_with_pictures_left_out_or_repeated(self):
        """Copies of a picture are no pair of different pictures: by a loop over all pairs of a resample."""
        sentences, pictures, owner = corpus(11, [2, 3, 1, 4, 2, 2])
        found = space(sentences, pictures, owner)
        values, drawn = with_intervals(found, 2, resamples=5, seed=3)
        from sightword.statistics.bootstrap import draws

        s, v, own = found.sentences, found.pictures, np.repeat(np.arange(6), found.counts)
        for times, *resample in zip(next(draws(6, 5, 3, "pictures")), *drawn, strict=True):
            i, j = np.nonzero(own[:, None] != own)
            weight = times[own[i]] * times[own[j]]
            x, y = (s[i] * s[j]).sum(axis=1), (v[own[i]] * v[own[j]]).sum(axis=1)
            covariance = np.cov(x, y, aweights=weight, ddof=0)
            rho = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
            i, j = np.nonzero((own[:, None] == own) & ~np.eye(len(own), dtype=bool))
            intra = np.average((s[i] * s[j]).sum(axis=1), weights=times[own[i]])
            assert resample[1:] == pytest.approx([rho, np.average(x, weights=weight), intra], abs=1e-10)
        assert values["pictures"] == 6
        assert values["captions"] == 14

    def test_resamples_of_one_picture_alone_are_left_out(self):
        values, drawn = with_intervals(space(*corpus(14, [2, 2, 2])), 1, resamples=300, seed=0)
        assert np.isnan(drawn.c_inter).mean() == pytest.approx(3 / 27, abs=0.06)
        assert np.isnan(drawn.rho_vis).mean() == pytest.approx(21 / 27, abs=0.08)  # two pictures have one cosine
        assert values["rho_vis_ci95"] is None
        assert not np.isnan(drawn.c_intra).any()
        assert values["c_inter_ci95"][0] < values["c_inter_ci95"][1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"owner": [0, 0, 1]}, r"shape \(3,\)"),
        ({"owner": [0, 0, 1, 9]}, "sentence 3 belongs to picture row 9"),
        ({"owner": [0.0, 0, 1, 1]}, "float64"),
        ({"owner": [1, 1, 1, 1]}, "all sentences belong to one picture"),
        ({"sentences": [[1.0, np.nan]] * 4}, "sentences: 4 of 4 rows have values that are not finite"),
        ({"pictures": [1.0, 2.0, 3.0]}, r"pictures: has shape \(3,\)"),
        ({"pictures": np.ones((3, 2))}, "Pearson's correlation is undefined"),
        ({"sentences": np.ones((4, 2))}, "Pearson's correlation is undefined"),
        ({"k": 3}, "too few for 3 neighbours; expected at least 4"),
        ({"k": 0}, "k is 0"),
    ],
)
def test_wrong_input_is_refused_with_its_reason(change, message):
    random = np.random.default_rng(13)
    given = {
        "sentences": random.standard_normal((4, 2)),
        "pictures": random.standard_normal((3, 2)),
        "owner": [0, 1, 2, 2],
        "k": 1,
    } | change
    with pytest.raises(ScoringError, match=message):
        structure(given["sentences"], given["pictures"], np.array(given["owner"]), given["k"])
