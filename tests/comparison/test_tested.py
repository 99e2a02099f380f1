"""Two runs of hypernym prediction: McNemar's test on the same pairs of concepts."""

from __future__ import annotations

import csv
import io

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binomtest, chi2

from pipeline.cli import main
from sightword.io.files import write_table

PAIRS = 400


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two folders with scores of the same pairs: B is wrong on 20 direct edges more, A on two false pairs."""
    monkeypatch.chdir(tmp_path)
    label, direct = np.arange(PAIRS) < PAIRS // 2, np.arange(PAIRS) < 60
    ours, theirs = label.copy(), label.copy()
    ours[-2:] = True
    theirs[:20] = False
    for name, accepted in (("a", ours), ("b", theirs)):
        write(tmp_path / name, label=label, direct=direct, accepted=accepted)
    return tmp_path


def write(folder, **columns):
    ids = pa.array(np.arange(PAIRS), pa.int32())
    path = folder / "data/hypernyms/scores/scores.parquet"
    write_table(path, pa.table({"hyponym": ids, "hypernym": ids, "energy": np.zeros(PAIRS), **columns}))


def test_each_part_has_its_counts_and_mcnemars_p(runs, capsys):
    assert main(["compare", "a", "b", "--csv"]) == 0
    rows = {row["part"]: row for row in csv.DictReader(io.StringIO(capsys.readouterr().out))}
    assert list(rows) == ["all pairs", "direct edges", "other true pairs", "false pairs"]
    assert [rows["all pairs"][name] for name in ("pairs", "a", "b", "only_a", "only_b")] == [
        "400", "99.5", "95.0", "20", "2",
    ]  # fmt: skip
    assert float(rows["all pairs"]["mcnemar_p"]) == pytest.approx(binomtest(2, 22).pvalue)
    assert float(rows["direct edges"]["holm_p"]) == pytest.approx(4 * binomtest(0, 20).pvalue)
    assert [row["better"] for row in rows.values()] == ["A", "A", "equal", ""]


def test_terminal_shows_the_table(runs, capsys):
    assert main(["compare", "a", "b"]) == 0
    out = capsys.readouterr().out
    assert "direct edges       60     100.0  66.7" in out
    assert "McNemar" in out
    assert "A on 2, B on 0 of 4" in out


def test_other_pairs_are_not_compared(runs, capsys):
    write(runs / "b", label=np.zeros(PAIRS, bool), direct=np.zeros(PAIRS, bool), accepted=np.zeros(PAIRS, bool))
    assert main(["compare", "a", "b"]) == 1
    assert "the two were judged on other pairs of concepts" in capsys.readouterr().err


def write_sentences(folder, accepted, hypothesis="a dog"):
    label = ["entailment"] * 100 + ["neutral"] * 60 + ["contradiction"] * 40
    texts = {"premise": [str(number) for number in range(200)], "hypothesis": [hypothesis] * 200, "label": label}
    path = folder / "data/entailment/scores/scores.parquet"
    write_table(path, pa.table({**texts, "entailed": np.arange(200) < 100, "accepted": accepted}))


def test_entailment_is_compared_by_class(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ours, theirs = np.arange(200) < 103, np.arange(200) < 80
    write_sentences(tmp_path / "a", ours)
    write_sentences(tmp_path / "b", theirs)
    assert main(["compare", "a", "b", "--csv"]) == 0
    rows = {row["part"]: row for row in csv.DictReader(io.StringIO(capsys.readouterr().out))}
    assert list(rows) == ["all pairs", "entailment", "neutral", "contradiction"]
    assert [rows["all pairs"][name] for name in ("a", "b", "only_a", "only_b")] == ["98.5", "90.0", "20", "3"]
    # No two pairs have a premise in common here: then the test over premises is McNemar's, 17^2 / 23.
    assert float(rows["all pairs"]["mcnemar_p"]) == pytest.approx(chi2.sf(17**2 / 23, 1))
    assert float(rows["entailment"]["holm_p"]) == pytest.approx(4 * chi2.sf(20, 1))
    assert main(["compare", "a", "b"]) == 0
    assert "pairs of sentences" in capsys.readouterr().out
    write_sentences(tmp_path / "b", theirs, hypothesis="a cat")
    assert main(["compare", "a", "b"]) == 1
    assert "Entailment could not be tested: the two were judged on other pairs of sentences" in capsys.readouterr().err
