"""dvc.yaml says what the code does: dependencies, parameters, outputs, names."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import first_party
import pytest
from checkout import Checkout
from ruamel.yaml import YAML

from pipeline import systems
from pipeline.lineage.facts import params_files
from pipeline.params.params_file import settings_class
from pipeline.pipelines import LEDGER, pipelines

REPOSITORY = Path(__file__).parents[1]
PIPELINES = pipelines(REPOSITORY)
STAGES = [(pipeline, name) for pipeline in PIPELINES for name in pipeline.stages]
each_stage = pytest.mark.parametrize(("pipeline", "name"), STAGES, ids=[one.address(name) for one, name in STAGES])


MOST = 14
"""The most rooms and files of code in the deps of a stage."""


def code_deps(stage):
    return [dep for dep in stage["deps"] if dep.startswith(("sightword/", "pipeline/", "stages/"))]


def module(pipeline, name):
    return ".".join(filter(None, ("stages", pipeline.folder, name)))


def test_a_stage_has_one_name_within_its_pipeline(repository):
    for pipeline in PIPELINES:
        values = YAML(typ="safe", pure=True).load((repository / pipeline.params).read_text())
        assert list(values) == list(pipeline.stages)
        for name in pipeline.stages:
            assert (repository / systems.path(pipeline, name)).is_file()


@each_stage
def test_deps_name_all_the_code_and_no_more(repository, pipeline, name):
    needed = first_party.needed_files(repository, module(pipeline, name))
    deps = code_deps(pipeline.stages[name])
    missing = sorted(path for path in needed if not any(path == dep or path.startswith(f"{dep}/") for dep in deps))
    where = f"{name} in {pipeline.dvc_yaml}"
    assert not missing, f"add to the deps of {where}:\n" + "\n".join(f"      - {path}" for path in missing)
    idle = [dep for dep in deps if not any(path == dep or path.startswith(f"{dep}/") for path in needed)]
    assert not idle, f"deps of {where} that its code never imports: {idle}"


@each_stage
def test_deps_name_rooms_and_no_lists_of_files(repository, pipeline, name):
    """Two files of a room stand for the room, so that a file added to the room needs no change of dvc.yaml."""
    deps = code_deps(pipeline.stages[name])
    assert len(deps) <= MOST, f"{name} in {pipeline.dvc_yaml} has {len(deps)} code deps"
    rooms = Counter(str(Path(dep).parent) for dep in deps if (repository / dep).is_file() and dep.count("/") > 1)
    listed = [room for room, files in rooms.items() if files > 1 and not room.startswith("stages")]
    assert not listed, f"name the room in the deps of {name} in {pipeline.dvc_yaml}: {', '.join(listed)}"


@each_stage
def test_each_stage_is_described_and_reads_its_own_section_only(pipeline, name):
    stage = pipeline.stages[name]
    axes = stage.get("matrix", {})
    assert stage["cmd"] == " ".join(
        [f"python -m {module(pipeline, name)}".replace(".", " "), *(f"--{key} ${{item.{key}}}" for key in axes)]
    )
    assert len(stage["desc"]) > 20
    read = [key for keys in params_files(stage, pipeline).values() for key in keys]
    also = list(getattr(importlib.import_module(module(pipeline, name)), "ALSO", ()))
    own = read[: len(read) - len(also)]
    assert read == [*own, *also]
    if own != [name]:  # the keys that one item reads
        items = [value for value in axes.values() if value.startswith(f"${{{name}.")]
        keys = [*own, *(value.removeprefix("${").removesuffix("}") for value in items)]
        assert {key.removeprefix(f"{name}.").split(".")[0] for key in keys} == set(
            settings_class(pipeline, name).model_fields
        )


def test_nothing_persists_numbers_are_in_git_and_all_else_is_in_the_cache():
    """One plain output outside DVC's cache, and its run-cache would not remember the stage."""
    for pipeline, name in STAGES:
        stage = pipeline.stages[name]
        for out in stage.get("outs", []):
            assert isinstance(out, str), out
        for numbers in [*stage.get("metrics", []), *stage.get("plots", [])]:
            ((path, options),) = numbers.items()
            assert (path.startswith("metrics/"), path.endswith(".json"), options) == (True, True, {"cache": False})
    metrics = [path for one, name in STAGES for metric in one.stages[name].get("metrics", []) for path in metric]
    assert metrics == ["metrics/summary.json"]  # `dvc metrics show` has one row
    for one in PIPELINES:  # a plot that is a picture breaks `dvc exp run` until its stage has run
        assert all(isinstance(fields, dict) for plot in one.document["plots"] for fields in plot.values())


def test_git_has_results_of_the_first_pipeline_alone_and_dvc_ignores_the_others(repository):
    """DVC ends some commands with an error where a stage has no outputs, or outputs that nobody has."""
    for pipeline in PIPELINES[1:]:
        assert pipeline.hidden
        described = subprocess.run(
            ["make", "-n", "-o", "install", pipeline.folder], cwd=repository, capture_output=True, text=True
        )
        assert f"rm -f {pipeline.ignore}\ndvc repro {pipeline.dvc_yaml}\n" in described.stdout
    tracked = subprocess.run(["git", "ls-files"], cwd=repository, capture_output=True, text=True).stdout.split()
    assert [path for path in tracked if path.endswith("dvc.lock")] == ["dvc.lock"]
    further = [path for path in tracked if path.startswith("metrics/") and path.count("/") > 1]
    assert sorted(further) == sorted(one.ledger for one in PIPELINES[1:])  # a dependency that a first run needs


@pytest.mark.slow
def test_the_lock_belongs_to_this_code_and_these_parameters(repository, tmp_path):
    """A stale dvc.lock would make a fresh clone's first run rewrite it."""
    copy = Checkout(repository, tmp_path / "copy", tmp_path / "store")
    stale = []
    for name, changes in json.loads(copy.run("dvc", "status", "--json").stdout).items():
        for change in changes:
            if change in ("always changed", "changed command", "changed checksum"):
                stale.append(f"{name}: {change}")
                continue
            for path, state in change.get("changed deps", {}).items():
                made_by_a_stage = path.startswith(("data/", "models/", "metrics/", "plots/")) and state == "deleted"
                if not made_by_a_stage and Path(path).name != LEDGER:  # empty in a clone
                    stale.append(f"{name}: {path} {state}")
    assert not stale, "run `dvc repro` and commit dvc.lock:\n" + "\n".join(stale)


def test_no_output_of_a_stage_is_ever_added_to_git_by_mistake(repository):
    for path in ("data/corpus/x", "report/index.html", "models/encoder/encoder.json", "data/raw/flickr8k/x"):
        assert subprocess.run(["git", "check-ignore", "-q", path], cwd=repository).returncode == 0, path
    for path in ("metrics/train.json", "data/raw/flickr8k.dvc", "data/raw/sample/scenes.yaml", "dvc.lock"):
        assert subprocess.run(["git", "check-ignore", "-q", path], cwd=repository).returncode == 1, path


def floors(root):
    """The number of each room's floor, from the ground: the plan in CONTRIBUTING.md, from its last line."""
    plan = (root / "CONTRIBUTING.md").read_text().partition("```text\n")[2].partition("```")[0].splitlines()
    return {room: number for number, line in enumerate(reversed(plan)) for room in line.partition("#")[0].split()}


def test_dependencies_point_one_way(repository):
    """Only settings, which are plain values, may be read from anywhere."""
    floor = floors(repository)

    def room_of(path):
        return "stages" if path.startswith("stages/") else "/".join(path.split("/")[:2]).removesuffix(".py")

    wrong = []
    for path in sorted(
        str(path.relative_to(repository)) for name in first_party.PACKAGES for path in (repository / name).rglob("*.py")
    ):
        own = room_of(path)
        if own.endswith("/__init__"):
            continue
        for name in first_party.imports(repository, path):
            room = room_of(name.replace(".", "/") + "/")
            if (
                room not in (own, "sightword/", "pipeline/")
                and not name.endswith("settings")
                and floor[room] >= floor[own]
            ):
                wrong.append(f"{path} imports {name}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_raw_data_that_is_added_to_dvc_is_seen_by_it_and_not_by_git(repository, tmp_path):
    """DVC ignores folders it takes for ignored by git, and says nothing: then no experiment finds the data."""
    copy = Checkout(repository, tmp_path / "copy", tmp_path / "store")
    (copy.folder / "data/raw/own").mkdir()
    (copy.folder / "data/raw/own/captions.csv").write_text("image,caption,split\n")
    (copy.folder / "data/raw/features/w.npy").write_text("weights")
    copy.run("dvc", "add", "-q", "data/raw/own", "data/raw/features/w.npy")
    copy.run("git", "add", "-A")
    tracked = copy.run("git", "ls-files", "data/raw").stdout.split()
    assert {"data/raw/own.dvc", "data/raw/features/w.npy.dvc"} <= set(tracked)
    assert not {"data/raw/own/captions.csv", "data/raw/features/w.npy"} & set(tracked)
    (copy.folder / "data/raw/features/w.npy").unlink()
    shutil.rmtree(copy.folder / "data/raw/own")
    copy.run("dvc", "checkout", "--allow-missing", ok=False)
    assert (copy.folder / "data/raw/own/captions.csv").is_file()
    assert (copy.folder / "data/raw/features/w.npy").is_file()
