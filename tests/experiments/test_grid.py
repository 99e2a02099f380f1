"""Grids: wrong files are refused whole; experiments against plain loops, and against what git takes for a name."""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path

import pytest
from dvc.utils.hydra import apply_overrides
from hypothesis import given, settings
from hypothesis import strategies as some
from ruamel.yaml import YAML

from pipeline.experiments import grid, queue
from pipeline.experiments.grid import Grid
from pipeline.params import params_file
from sightword.errors import ParamsError


@pytest.fixture(scope="module")
def base(repository):
    return YAML(typ="safe", pure=True).load(repository / "params.yaml")


def expand(base, **values):
    return grid.expand(Grid.model_validate({"name": "g", **values}), base, "g.yaml")


def names(base, **values):
    return [run.name for run in expand(base, **values)]


def test_every_combination_of_each_block_and_seed_is_there_once(base):
    cells, hiddens, seeds = ["gru", "lstm"], [8, 16, 32], [3, 1]
    runs = expand(
        base,
        set={"train.epochs": 4},
        blocks=[{"train.cell": cells, "train.hidden": hiddens}, {"train.pooling": ["max"], "train.hidden": [8]}],
        seeds=seeds,
        exclude=[{"train.cell": "lstm", "train.hidden": 32}],
    )
    wanted = [
        *((cell, hidden, "attention", seed) for cell, hidden, seed in itertools.product(cells, hiddens, seeds)
          if (cell, hidden) != ("lstm", 32)),
        *(("gru", 8, "max", seed) for seed in seeds),
    ]  # fmt: skip
    got = [run.params["train"] for run in runs]
    assert [(one["cell"], one["hidden"], one["pooling"], one["seed"]) for one in got] == wanted
    assert {one["epochs"] for one in got} == {4}
    unchanged = params_file.check(base)
    assert all(run.params["report"] == unchanged["report"].model_dump() for run in runs)


def test_names_say_the_values_and_do_not_change_with_the_rest_of_the_grid(base):
    block = {"train.cell": ["gru"], "train.hidden": [8], "train.bidirectional": [False], "train.clip_images": [None]}
    few = names(base, blocks=[block], seeds=1)
    assert few == ["g-gru-hidden8-bidirectional-false-clip_images-none-seed0"]
    more = names(base, blocks=[{"train.margin": [0.1]}, {**block, "train.cell": ["lstm", "gru"]}], seeds=3)
    assert set(few) < set(more)


TITLES = some.lists(some.text(max_size=120), min_size=1, max_size=12, unique=True)


@settings(max_examples=30)
@given(TITLES)
def test_any_values_make_names_that_are_distinct_and_that_git_takes(base, titles):
    found = grid._names("g", [{"report.title": title, "train.hidden": 8} for title in titles])
    assert len(set(found)) == len(titles)
    for name in found:
        assert len(name) <= grid.LONGEST + 7
        assert not name.startswith("-")
        subprocess.run(["git", "check-ref-format", f"refs/exps/ab/{name}"], check=True)


# DVC's ruamel.yaml writes "?0" within braces without quotes, as a key.
TEXTS = some.text(some.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp"), exclude_characters="\ufeff?"))
VALUES = some.none() | some.booleans() | some.integers() | some.floats(0.001, 1e6) | TEXTS
MAPPINGS = some.dictionaries(some.sampled_from(["a", "cg-pg", "c_1"]), VALUES | some.lists(VALUES | some.lists(VALUES)))


@settings(max_examples=50)
@given(
    some.dictionaries(some.sampled_from(["x", "y"]), MAPPINGS),
    some.dictionaries(some.sampled_from(["x", "y"]), MAPPINGS),
)
def test_overrides_of_dvc_turn_parameters_into_others(tmp_path_factory, before, after):
    path = tmp_path_factory.mktemp("params") / "params.yaml"
    before, after = (
        {"first": 1} | {key: {"kept": 0} | one for key, one in values.items()} for values in (before, after)
    )
    path.write_text(json.dumps(before, ensure_ascii=False), encoding="utf-8")
    apply_overrides(path, queue.overrides(before, after))
    assert YAML(typ="safe", pure=True).load(path) == after


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"blocks": [{"train.hiden": [8]}]}, r"train\.hiden: no such parameter \(did you mean 'train\.hidden'\?\)"),
        ({"blocks": [{"train.hidden": [8, -1]}]}, r"train\.hidden = -1.*\n    in train\.hidden=-1"),
        ({"blocks": [{"train.cell": ["gru", "rnn"]}]}, r"train\.cell = 'rnn'"),
        ({"blocks": [{"train.epochs": [2]}], "set": {"select.members": 9}}, r"select\.members = 9: there are 2"),
        ({"blocks": [{"train.hidden": [8]}], "exclude": [{"train.hidden": 9}]}, "leaves nothing out"),
        ({"blocks": [{"train.hidden": [8]}], "exclude": [{"train.hidden": 8}]}, "leaves no experiment"),
        ({"blocks": [{"train.hidden": [8]}, {"train.hidden": [8], "train.cell": ["gru"]}]}, "is the same as"),
        ({"blocks": [{"train.hidden": list(range(400)), "train.batch": list(range(400))}]}, "160,000 experiments"),
    ],
)  # fmt: skip
def test_what_no_stage_accepts_is_told_before_anything_runs(base, values, message):
    with pytest.raises(ParamsError, match=message):
        expand(base, **values)


@pytest.mark.parametrize(
    "path", sorted(Path(__file__).parents[2].rglob("*recipes/grid*.yaml")), ids=lambda path: path.stem
)
def test_each_grid_of_the_repository_is_valid(repository, path):
    wanted = grid.load(path)
    _, base, _ = grid.base_params(wanted, repository)
    assert grid.expand(wanted, base, path.name)


def load(tmp_path, text, name="mine.yaml"):
    path = tmp_path / name
    path.write_text(text)
    return grid.load(path)


BLOCK = "blocks:\n  - train.hidden: [8]\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no `blocks`"),
        (
            "blocks:\n  - train.hidden: [8]\n    train.hidden: [16]\n",
            "line 3, column 5: is not valid YAML .the key train.hidden stands twice",
        ),
        ("blocks: []\n", r"blocks = \[\]"),
        ("blocks:\n  - train.hidden: []\n", r"blocks\[1\]\.train\.hidden = \[\]"),
        ("blocks:\n  - train.hidden: 8\n", r"go in brackets \(expected \[8\]"),
        ("blocks:\n  - train.hidden: [8, 16, 8]\n", "8 stands there twice"),
        (f"{BLOCK}name: a b\n", r"name = 'a b': expected a text, of the form \^\[A-Za-z0-9\]"),
        (f"{BLOCK}name: {'a' * 41}\n", "of length 40 at most"),
        (f"{BLOCK}seed: 3\n", r"seed: no such key \(did you mean 'seeds'"),
        (f"{BLOCK}seeds: [1, -1]\n", r"seeds\[2\] = -1"),
        (f"{BLOCK}set: {{train.hidden: 9}}\n", r"stands under `set` and in blocks\[1\]"),
        ("blocks:\n  - train.seed: [1]\nseeds: 2\n", "`seeds` sets it too"),
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
