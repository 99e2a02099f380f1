"""The experiments of a grid: against plain loops, and against what git takes for a name."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from ruamel.yaml import YAML

from pipeline.experiments import grid, plan, sweep
from pipeline.experiments.grid import Grid
from pipeline.params import params_file
from sightword.errors import ParamsError


@pytest.fixture(scope="module")
def base(repository):
    return (repository / "params.yaml").read_text()


def expand(base, **values):
    return plan.expand(Grid.model_validate({"name": "g", **values}), base, "g.yaml")


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
    unchanged = params_file.check(YAML(typ="safe", pure=True).load(base))
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
    found = plan._names("g", [{"report.title": title, "train.hidden": 8} for title in titles])
    assert len(set(found)) == len(titles)
    for name in found:
        assert len(name) <= plan.LONGEST + 7
        assert not name.startswith("-")
        subprocess.run(["git", "check-ref-format", f"refs/exps/ab/{name}"], check=True)


@settings(max_examples=15)
@given(some.lists(some.floats(0.001, 1e6), min_size=1, max_size=3, unique=True), some.text(min_size=1, max_size=30))
def test_what_is_written_is_read_as_it_was_checked(base, rates, title):
    if any(not character.isprintable() for character in title):
        title = repr(title)
    for run in expand(base, set={"report.title": title}, blocks=[{"train.rate_max": rates}]):
        text = plan.written(base, run)
        sections = params_file.check(YAML(typ="safe", pure=True).load(text))
        assert {name: section.model_dump() for name, section in sections.items()} == run.params
        assert "# States of each direction" in text


def test_only_the_lines_that_differ_are_written_anew(base):
    (run,) = expand(base, blocks=[{"train.hidden": [8], "train.clip_images": [0.5]}])
    before, after = base.splitlines(), plan.written(base, run).splitlines()
    assert [line.split() for line, other in zip(after, before, strict=True) if line.split() != other.split()] == [
        ["hidden:", "8"],
        ["clip_images:", "0.5"],
    ]


def test_values_that_are_lists_are_values(base):
    runs = expand(base, blocks=[{"retrieval.protocols": [["full"], ["full", "five_fold_1k"]]}])
    assert [run.params["retrieval"]["protocols"] for run in runs] == [["full"], ["full", "five_fold_1k"]]
    assert len({run.name for run in runs}) == 2


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"blocks": [{"train.hiden": [8]}]}, r"train\.hiden: no such parameter \(did you mean 'train\.hidden'\?\)"),
        ({"blocks": [{"hidden": [8]}]}, r"hidden: no such parameter \(did you mean 'train\.hidden'"),
        ({"blocks": [{"train": [8]}]}, "train: no such parameter"),
        ({"blocks": [{"train.hidden.x": [8]}]}, "no such parameter"),
        ({"blocks": [{"train.hidden": ["8"]}]}, r"train\.hidden = '8'"),
        ({"blocks": [{"train.hidden": [8, -1]}]}, r"train\.hidden = -1.*\n    in train\.hidden=-1"),
        ({"blocks": [{"train.cell": ["gru", "rnn"]}]}, r"train\.cell = 'rnn'"),
        ({"blocks": [{"train.epochs": [2]}], "set": {"select.members": 9}}, r"select\.members = 9: there are 2"),
        ({"blocks": [{"train.hidden": [8]}], "set": {"train.cel": 1}}, "train.cel: no such"),
        ({"blocks": [{"train.hidden": [8]}], "exclude": [{"train.hidden": 9}]}, "leaves nothing out"),
        ({"blocks": [{"train.hidden": [8]}], "exclude": [{"train.hidden": 8}]}, "leaves no experiment"),
        ({"blocks": [{"train.hidden": [8]}, {"train.hidden": [8], "train.cell": ["gru"]}]}, "is the same as"),
        ({"blocks": [{"train.margin": [1, 1.0]}]}, "is the same as"),
        ({"blocks": [{"train.hidden": list(range(400)), "train.batch": list(range(400))}]}, "160,000 experiments"),
    ],
)  # fmt: skip
def test_what_no_stage_accepts_is_told_before_anything_runs(base, values, message):
    with pytest.raises(ParamsError, match=message):
        expand(base, **values)


def test_each_fault_is_told_once_however_many_experiments_have_it(base):
    with pytest.raises(ParamsError) as raised:
        expand(base, blocks=[{"train.margin": [0.1, 0.2, 0.3], "train.cell": ["rnn"], "train.hidden": [8, 16]}])
    assert str(raised.value).count("rnn'") == 1


@pytest.mark.parametrize(
    "path", sorted(Path(__file__).parents[2].rglob("recipes/grid*.yaml")), ids=lambda path: path.stem
)
def test_each_grid_of_the_repository_is_valid(repository, path):
    wanted = grid.load(path)
    base, _ = sweep.base_params(wanted, repository)
    assert plan.expand(wanted, base, path.name)
