"""Grid files: what is wrong is told whole, before anything is made of it."""

from __future__ import annotations

import pytest

from pipeline.experiments import grid
from sightword.errors import ParamsError


def load(tmp_path, text, name="mine.yaml"):
    path = tmp_path / name
    path.write_text(text)
    return grid.load(path)


BLOCK = "blocks:\n  - train.hidden: [8]\n"


def test_the_name_is_that_of_the_file_where_none_is_given(tmp_path):
    assert load(tmp_path, BLOCK, "Cells 2 (äh).yaml").name == "Cells-2-h"
    assert load(tmp_path, BLOCK, "_.yaml").name == "sweep"
    assert load(tmp_path, f"name: other\n{BLOCK}").name == "other"


def test_the_size_is_told_without_making_the_combinations(tmp_path):
    many = "[" + ", ".join(map(str, range(1000))) + "]"
    text = f"blocks:\n  - {{train.hidden: {many}, train.batch: {many}, train.epochs: {many}}}\nseeds: 3\n"
    assert load(tmp_path, text).size == 3 * 1000**3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no `blocks`"),
        (
            "blocks:\n  - train.hidden: [8]\n    train.hidden: [16]\n",
            "line 3, column 5: is not valid YAML .the key train.hidden stands twice",
        ),
        ("blocks: [\n", "is not valid YAML"),
        ("- 1\n", "has no `blocks`"),
        ("blocks: []\n", r"blocks = \[\]"),
        ("blocks:\n  - {}\n", r"blocks\[1\] = {}"),
        ("blocks: 3\n", "blocks = 3"),
        ("blocks:\n  - train.hidden: []\n", r"blocks\[1\]\.train\.hidden = \[\]"),
        ("blocks:\n  - train.hidden: 8\n", r"go in brackets \(expected \[8\]"),
        ("blocks:\n  - train.hidden: [8, 16, 8]\n", "8 stands there twice"),
        ("blocks:\n  - train.hidden: [8\n", "not valid YAML"),
        (f"{BLOCK}name: a b\n", r"name = 'a b': expected a text, of the form \^\[A-Za-z0-9\]"),
        (f"{BLOCK}name: {'a' * 41}\n", "of length 40 at most"),
        (f"{BLOCK}seed: 3\n", r"seed: no such key \(did you mean 'seeds'"),
        (f"{BLOCK}seeds: 0\n", "seeds = 0"),
        (f"{BLOCK}seeds: []\n", r"seeds = \[\]"),
        (f"{BLOCK}seeds: [1, -1]\n", r"seeds\[2\] = -1"),
        (f"{BLOCK}set: {{train.hidden: 9}}\n", r"stands under `set` and in blocks\[1\]"),
        ("blocks:\n  - train.seed: [1]\nseeds: 2\n", "`seeds` sets it too"),
        (f"{BLOCK}set: {{train.seed: 9}}\nseeds: 2\n", "`seeds` sets it too"),
        (f"{BLOCK}exclude: [{{}}]\n", r"exclude\[1\]"),
        (f"{BLOCK}base: vendrov\npipeline: hypernyms\n", "pipeline: the base names it already"),
    ],
)
def test_wrong_grid_is_refused_with_its_place(tmp_path, text, message):
    with pytest.raises(Exception, match=message) as raised:
        load(tmp_path, text)
    assert "mine.yaml" in str(raised.value)


def test_all_faults_are_told_at_once(tmp_path):
    with pytest.raises(ParamsError) as raised:
        load(tmp_path, "name: a/b\nbase: 3\nblocks:\n  - train.hidden: []\nnonsense: 1\n")
    assert len(str(raised.value).splitlines()) == 5
