"""The tables of results: numbers of rows, deviations over seeds, marks and names."""

from __future__ import annotations

import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightword.errors import ParamsError
from study.origins import EARLIER
from study.rows import Row
from study.tables import SIGNS, UNHASHED, Layout, markdown, pooled

VALUES = st.lists(st.lists(st.floats(-100, 100), min_size=1, max_size=4), min_size=1, max_size=4)
RECALL = {"title": "recall", "cell": "{recall.r1} / {recall.r10}"}
STS = {"title": "sts", "cell": "{sts}", "factor": 100}


def row(*scores: dict[str, Any], seeds: list[list[int]] | None = None, **more: Any) -> Row:
    """A row with a run for each mapping of scores, whose plain numbers are values."""
    hashes = {"inputs": {"data/raw/a": "1"}, "outputs": {"metrics/a.json": "2"}}
    runs = [
        {
            "seeds": own,
            **hashes,
            "scores": {key: one if isinstance(one, dict) else {"value": one} for key, one in values.items()},
        }
        for own, values in zip(seeds or [[number] for number in range(len(scores))], scores, strict=True)
    ]
    return Row.model_validate({"topic": "a", "name": "b", "recipe": "sample", **more, "runs": runs})


def layout(*lines: dict[str, Any], columns: tuple[Any, ...] = (RECALL, STS), **table: Any) -> Layout:
    return Layout.model_validate(
        {"tables": {"t": {"head": "system", "columns": [*columns], "rows": [*lines], **table}}}
    )


def cells(text: str) -> list[list[str]]:
    """The lines of a table without head and rule."""
    return [
        [one.strip().replace("\u00a0", " ") for one in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("| ")
    ][1:]


def explanations(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("|")]


@given(VALUES)
def test_runs_of_several_seeds_give_mean_and_deviation_of_all_seeds(values):
    """Also where a run is known by its mean and deviation only."""
    runs, seeds = [], []
    for number, own in enumerate(values):
        many = {"value": statistics.fmean(own)} | ({"sd": statistics.stdev(own)} if len(own) > 1 else {})
        runs.append({"key": many})
        seeds.append([10 * number + seed for seed in range(len(own))])
    every = [value for own in values for value in own]
    found = pooled(row(*runs, seeds=seeds), "key")
    assert found is not None
    assert found.value == pytest.approx(statistics.fmean(every), abs=1e-9)
    if len(every) > 1:
        assert found.sd == pytest.approx(statistics.stdev(every), abs=1e-6)
    else:
        assert found.sd is None


def test_cell_of_scores_is_rounded_scaled_and_says_what_is_missing():
    rows = {"a/one": row({"recall.r1": 12.34, "recall.r10": 45.67, "sts": 0.6614}), "a/two": row({"recall.r10": 50.0})}
    text = markdown("t", layout({"label": "1", "result": "a/one"}, {"label": "2", "result": "a/two"}), rows)
    assert text.splitlines()[:2] == ["| system | recall | sts |", "|---|---|---|"]
    assert cells(text) == [["1", "12.3 / 45.7", "66.1"], ["2", "– / 50.0", "–"]]


def test_mark_of_a_row_is_explained_below_the_table():
    rows = {
        "a/plain": row({"sts": 0.1}),
        "a/private": row({"sts": 0.1}, private={"data/raw/a.npy": "made in secret"}),
        "a/earlier": row({"sts": 0.1}, note=f"{EARLIER} another hash; one network"),
        "a/noted": row({"sts": 0.1}, note="one network"),
        "a/by-hand": row({"sts": 0.1}, recipe=None, note="a script"),
    }
    lines = tuple({"label": key.removeprefix("a/"), "result": key} for key in rows)
    text = markdown("t", layout(*lines, columns=(STS,)), rows)
    assert [line[0] for line in cells(text)] == ["plain", "private †", "earlier ‡¹", "noted ¹", "by-hand ²"]
    notes = ["¹ One network.", "² Not produced by a recipe: a script."]
    assert explanations(text) == [SIGNS["†"], SIGNS["‡"], *notes]
    assert not explanations(markdown("t", layout(*lines, columns=(STS,), marks=False), rows))


def test_sign_that_all_rows_have_stands_at_the_head():
    rows = {f"a/{name}": row({"sts": 0.1}, private={"data/raw/a.npy": "secret"}) for name in ("one", "two")}
    text = markdown("t", layout(*({"label": key, "result": key} for key in rows), columns=(STS,)), rows)
    assert text.splitlines()[0] == "| system † | sts |"
    assert [line[0] for line in cells(text)] == ["a/one", "a/two"]


@pytest.mark.parametrize("lacks", ["inputs", "outputs"])
def test_row_with_a_run_without_hashes_is_marked(lacks):
    first, second = row({"sts": 0.1}, {"sts": 0.2}).runs
    part = row({"sts": 0.1}).model_copy(update={"runs": [first, second.model_copy(update={lacks: {}})]})
    lines = ({"label": "whole", "result": "a/whole"}, {"label": "part", "result": "a/part"})
    text = markdown("t", layout(*lines, columns=(STS,)), {"a/whole": row({"sts": 0.1}), "a/part": part})
    assert [line[0] for line in cells(text)] == ["whole", "part §"]
    assert explanations(text) == [UNHASHED]


@pytest.mark.parametrize(
    ("line", "columns", "message"),
    [
        ({"label": "x", "result": "a/c"}, (STS,), "no such row of results"),
        ({"label": "x", "result": "a/b"}, (STS, RECALL), "column 'recall' has no score"),
        ({"label": "x", "published": {"retrieval": "char-GRU | Flikr8k"}}, (STS,), "no such published row"),
        ({"label": "x", "each": ["$"], "result": "a/$each"}, (STS,), "line 'x' has no score"),
    ],
)
def test_name_that_does_not_exist_is_refused_with_the_table(line, columns, message):
    more = {"label": "whole", "result": "a/b"}
    with pytest.raises(ParamsError, match=message) as caught:
        markdown("t", layout(line, more, columns=columns), {"a/b": row({"sts": 0.5})})
    assert "tables.yaml: t" in str(caught.value)
    with pytest.raises(ParamsError, match="no such table"):
        markdown("other", layout(more), {})
