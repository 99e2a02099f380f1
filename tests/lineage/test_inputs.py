"""A half-done run belongs to the code and data that its stage reads: each change of them is another hash."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pipeline.lineage import facts as inputs
from pipeline.lineage.facts import stage_paths
from pipeline.lineage.lock import is_code
from pipeline.pipelines import pipelines
from sightword.errors import LineageError
from sightword.io import yaml_reader

STAGES = [
    pytest.param(pipeline, stage, id=f"{pipeline.dvc_yaml}:{name}")
    for pipeline in pipelines(Path(__file__).parents[2])
    for name, stage in pipeline.stages.items()
    if "sightword/training" in stage["deps"]
]
"""The stages that train."""


@pytest.fixture(scope="module")
def code(repository, tmp_path_factory):
    """A copy of the code."""
    folder = tmp_path_factory.mktemp("code")
    for room in ("sightword", "stages", "pipeline"):
        shutil.copytree(repository / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_stages_of_all_systems_train():
    assert len(STAGES) >= 5


@pytest.mark.parametrize(("pipeline", "described"), STAGES)
def test_each_changed_dependency_of_a_stage_is_another_hash_and_no_other_file_is(
    repository, code, tmp_path, monkeypatch, pipeline, described
):
    monkeypatch.setattr(inputs, "_CODE", code)
    monkeypatch.chdir(tmp_path)
    params = repository / pipeline.params
    deps, _ = stage_paths({"deps": described["deps"]}, yaml_reader.parse(params.read_text(), "params"))
    data = [Path(path) for path in deps if not is_code(path)]
    for path in data:
        path.mkdir(parents=True)
        (path / "one").write_text("1")

    def now():
        return inputs.inputs_hash(described, params, {})

    before = now()
    changed = [path / "one" for path in data]
    for path in (code / path for path in deps if is_code(path)):
        changed += sorted(path.rglob("*.py"))[:1] if path.is_dir() else [path]
    assert len(changed) == len(deps)
    for file in changed:
        text = file.read_text()
        file.write_text(text + "# changed\n")
        assert now() != before, file
        file.write_text(text)
        assert now() == before
    for file in (code / "sightword/search/__init__.py", code / "pipeline/cli/__init__.py"):
        assert not any(file.is_relative_to(code / path) for path in deps)
        text = file.read_text()
        file.write_text(text + "# changed\n")
        assert now() == before
        file.write_text(text)
    shutil.rmtree(data[0])
    assert now() != before


def test_large_data_count_by_the_times_of_their_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text("train: {}\n")
    Path("data").write_text("1234")
    small = inputs.inputs_hash({"deps": ["data"]}, "params.yaml", {})
    monkeypatch.setattr(inputs, "LARGE", 3)
    assert inputs.inputs_hash({"deps": ["data"]}, "params.yaml", {}) != small


def test_values_of_the_item_and_of_parameters_name_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text("text: {path: data}\n")
    described = {"deps": ["${text.path}/${item.name}"]}
    Path("data").mkdir()
    found = []
    for name in "ab":
        Path("data", name).write_text(name)
        found.append(inputs.inputs_hash(described, "params.yaml", {"name": name}))
    assert found[0] != found[1]
    with pytest.raises(LineageError, match=r"params.yaml: has no item.name, which a dependency of the stage names"):
        inputs.inputs_hash(described, "params.yaml", {})
