"""Each line of README's table names the published system whose recipe the row "here" ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from study.rows import read_rows
from study.tables import load

RECIPES = {
    "char-GRU": ("flickr8k", ("retrieval.test.full.", "summary.sts")),
    "order-embeddings": ("vendrov-released", ("hypernyms/evaluate.test.order.",)),
    "order-embeddings, SNLI": ("snli-small", ("entailment/evaluate.test.order.",)),
    "C_g + P_g": ("grounded-flickr8k", ("grounded/summary.cg_only-pg_only.",)),
}
"""By published system its recipe, and the beginning of its scores' names in the metrics of a run."""


@pytest.fixture(scope="module")
def lines(repository: Path):
    return load(repository).tables["readme"].rows


def test_readme_line_names_system_of_its_recipe(repository, lines):
    every = read_rows(repository)
    assert {next(iter(line.sources[0].published)) for line in lines} >= {"retrieval", "hypernyms", "structure"}
    for line in lines:
        published, here, _ = line.sources
        system = next(iter(published.published.values())).partition(" | ")[0]
        assert line.label.startswith(system), f"{line.label}: names another system than {system}"
        recipe, scores = RECIPES[f"{system}, SNLI" if "entailment" in published.published else system]
        assert every[here.result].recipe == recipe, f"{line.label}: {here.result} is another recipe than {recipe}"
        assert any(name in line.cell for name in scores), f"{line.label}: {line.cell} is another system's score"


def test_readme_line_says_why_in_ten_words(lines):
    assert all(0 < len(line.why.split()) <= 10 for line in lines), [line.why for line in lines]
