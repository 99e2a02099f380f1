"""Two systems side by side: on tables made here, whose answer is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pipeline.comparison.correlations import compare, pairs_file
from pipeline.comparison.table import lines, verdict
from sightword.errors import FileFormatError, SemanticsError
from sightword.evaluation.semantics.results import PairTable, ScoredPairs
from sightword.statistics.bootstrap import pearson_differences, resampled
from sightword.statistics.inference import fisher_interval, holm

SIZES = {
    ("STS12", "MSRpar"): 120,
    ("STS12", "MSRvid"): 90,
    ("STSOwn", "street"): 60,
    ("STSBenchmark", "cosine"): 200,
    ("STSBenchmark-de", "cosine"): 40,  # a translation is no subtask of STS12 to STS16
}


def table(noise, seed, sizes=SIZES):
    """Scores that follow the gold scores, which are the same for every seed, with some noise."""
    subtasks = {}
    for number, (key, count) in enumerate(sizes.items()):
        gold = np.random.default_rng(number).integers(0, 6, count).astype(float)
        score = gold + noise * np.random.default_rng([seed, number]).standard_normal(count)
        first = [f"{key[1]} first {i}" for i in range(count)]
        second = [f"{key[1]} second {i}" for i in range(count)]
        subtasks[key] = ScoredPairs(first, second, gold, score, None, None)
    return PairTable(subtasks)


def changed(of, key, **fields):
    return PairTable({**of.subtasks, key: replace(of.subtasks[key], **fields)})


@pytest.fixture(scope="module")
def tables():
    return table(1.0, 1), table(1.6, 2)


@pytest.fixture(scope="module")
def found(tables):
    return compare(*tables, samples=600, seed=3)


def test_each_row_is_what_its_parts_say(tables, found):
    assert [(row.task, row.subtask) for row in found.rows] == list(SIZES)
    for row in found.rows:
        a, b = (side.subtasks[row.task, row.subtask] for side in tables)
        r = np.corrcoef([a.gold, a.score, b.score])
        assert row.pairs == len(a)
        assert (row.a, row.b, row.difference) == pytest.approx((r[0, 1], r[0, 2], r[0, 1] - r[0, 2]))
        assert (row.a_score.low, row.a_score.high) == fisher_interval(row.a, row.pairs)
        assert (row.b_score.low, row.b_score.high) == fisher_interval(row.b, row.pairs)
        assert row.bootstrap.low < row.difference < row.bootstrap.high
    assert [row.holm for row in found.rows] == holm([row.bootstrap.p for row in found.rows])
    assert {row.better for row in found.rows} <= {"A", None}
    assert "A" in {row.better for row in found.rows}


def test_the_mean_is_over_sts_and_resampled_within_each_subtask(tables, found):
    sts = found.rows[:3]
    assert found.mean.subtasks == 3
    assert found.mean.a == pytest.approx(np.mean([row.a for row in sts]))
    assert found.mean.difference == pytest.approx(np.mean([row.difference for row in sts]))
    draws = [
        pearson_differences(
            tables[0].subtasks[key].gold,
            tables[0].subtasks[key].score,
            tables[1].subtasks[key].score,
            samples=600,
            seed=3,
            name="\t".join(key),
        )
        for key in list(SIZES)[:3]
    ]
    assert found.mean.bootstrap == resampled(np.mean(draws, axis=0))


def test_a_subtask_alone_has_the_same_draws(tables, found):
    sizes = {("STSOwn", "street"): 60}
    alone = PairTable({key: tables[0].subtasks[key] for key in sizes})
    (row,) = compare(alone, tables[1], samples=600, seed=3).rows
    assert row.bootstrap == found.rows[2].bootstrap
    assert row.holm == row.bootstrap.p


def test_subtask_of_one_system_is_left_out_by_name(tables):
    fewer = PairTable({key: pairs for key, pairs in tables[1].subtasks.items() if key[0] != "STS12"})
    found = compare(tables[0], fewer, samples=50)
    assert found.left_out == ["STS12 MSRpar (only in A)", "STS12 MSRvid (only in A)"]
    assert found.mean is None
    assert compare(fewer, tables[0], samples=50).left_out[0] == "STS12 MSRpar (only in B)"
    with pytest.raises(SemanticsError, match="no subtask in common"):
        compare(tables[0], PairTable({}))


@pytest.mark.parametrize("field", ["first", "second", "gold"])
def test_other_pairs_are_refused_with_subtask_and_pair(tables, field):
    key = ("STS12", "MSRvid")
    values = list(getattr(tables[1].subtasks[key], field))
    values[6] = 17.25 if field == "gold" else "another ' s sentence"
    other = changed(tables[1], key, **{field: np.array(values) if field == "gold" else values})
    with pytest.raises(SemanticsError, match=r"STS12 MSRvid, pair 7: the tables are of other pairs") as told:
        compare(tables[0], other)
    assert ("17.25" if field == "gold" else "another ' s sentence") in str(told.value)


def test_scores_that_are_no_numbers_are_refused(tables):
    key = ("STS12", "MSRvid")
    scores = np.where(np.arange(90) == 4, np.nan, 1.0)
    with pytest.raises(SemanticsError, match=r"STS12 MSRvid, pair 5: the score is nan"):
        compare(tables[0], changed(tables[1], key, score=scores))
    with pytest.raises(SemanticsError, match=r"STS12 MSRvid, pair 5: the gold score is nan"):
        compare(changed(tables[0], key, gold=scores), tables[1])


def test_a_constant_system_has_no_difference_and_no_row_is_lost(tables):
    key = ("STS12", "MSRvid")
    flat = changed(tables[1], key, score=np.ones(90))
    found = compare(tables[0], flat, samples=100)
    row = found.rows[1]
    assert row.a is not None
    assert {row.b, row.difference, row.bootstrap, row.holm, row.better} == {None}
    assert found.mean is None
    assert lines(found)[2][4:] == ["-", "-", "", "-", "-", ""]
    others = [row.bootstrap.p for row in found.rows if row.bootstrap]
    assert [row.holm for row in found.rows if row.bootstrap] == holm(others)


def test_a_subtask_with_three_pairs_left_is_shown_and_does_not_count():
    """The correlation of three pairs is next to nothing, and would move the mean by as much as any other."""
    found = compare(*(table(noise, seed, {**SIZES, ("STS15", "images"): 3}) for noise, seed in ((1, 1), (2, 2))))
    row = found.rows[-1]
    assert row.pairs == 3
    assert row.difference is not None
    assert (row.a_score, row.bootstrap, row.holm, row.better) == (None,) * 4
    assert found.mean.subtasks == 3


def test_the_text_is_rounded_and_the_exact_table_is_not(found):
    header, *rows = lines(found)
    assert header[:3] == ["task", "subtask", "pairs"]
    assert rows[-1][:2] == ["STS", "mean of 3"]
    first = found.rows[0]
    assert rows[0][3] == f"{first.a:.3f} [{first.a_score.low:.3f}, {first.a_score.high:.3f}]"
    assert rows[0][5].startswith(f"{first.difference:+.3f} [")
    assert (header[6].index("0"), {len(row[6]) for row in rows}) == (8, {17})
    drawn = {row[6].index("●") - 8: float(row[5].split()[0]) for row in rows}
    assert all(place * difference >= 0 for place, difference in drawn.items())
    assert any(drawn)
    names, *exact = lines(found, exact=True)
    assert {len(line) for line in exact} == {len(names)}
    cells = dict(zip(names, exact[0], strict=True))
    assert float(cells["a"]) == first.a
    assert float(cells["bootstrap_p"]) == first.bootstrap.p
    assert float(cells["holm_p"]) == first.holm


def test_the_verdict_counts_and_says_when_resamples_are_too_few(tables, found):
    better = [row.better for row in found.rows]
    assert f"over 5 rows (bootstrap, p below 0.05): A on {better.count('A')}, B on 0 of 5." in verdict(found)[0]
    assert len(verdict(found)) == 1
    assert verdict(compare(*tables, samples=100))[1].startswith("With 100 resamples no corrected p can be below 0.099")


def test_a_project_a_folder_or_a_file_can_be_named(tmp_path):
    file = tmp_path / "data" / "semantics" / "pairs.parquet"
    with pytest.raises(FileFormatError, match=r"holds no data/semantics/pairs\.parquet"):
        pairs_file(tmp_path)
    file.parent.mkdir(parents=True)
    file.touch()
    assert pairs_file(tmp_path) == pairs_file(file.parent) == pairs_file(str(file)) == file
    assert pairs_file(tmp_path / "none.parquet") == tmp_path / "none.parquet"
