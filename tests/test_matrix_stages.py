"""A stage with a matrix runs once for each item: each run has an entry of its own, and is traced and checked alone."""

from __future__ import annotations

import re

import pytest
from tiny_project import tiny_project

from pipeline import pipelines
from pipeline.lineage.lock import lock_here
from sightword.errors import FileFormatError

ITEMS = [f"many/dvc.yaml:each@{item}" for item in ("plain-0", "plain-1", "big-one-0", "big-one-1")]
ALL = "many/dvc.yaml:all"
KEY = "metrics/all.json:big-one-1"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The project of three stages with a pipeline of four items, run once and committed."""
    project = tiny_project(tmp_path_factory).copy(tmp_path_factory.mktemp("matrix") / "project")
    project.add_matrix_pipeline()
    project.do("dvc", "repro", "-q", "many/dvc.yaml")
    project.commit("four items")
    return project


@pytest.fixture
def changed(run, tmp_path):
    """A copy of one's own."""
    return run.copy(tmp_path / "project")


def test_the_entries_are_those_of_dvc(run):
    lock = lock_here(run.folder)
    described = pipelines.by_entry(run.folder)
    assert list(described) == ["first", "second", "third", *ITEMS, ALL]
    assert lock.entries.keys() >= {*ITEMS, ALL}
    for name in ITEMS:
        entry = lock.entries[name]
        assert described[name]["cmd"] == entry.command
        assert [described[name]["outs"][0], *described[name]["metrics"][0]] == sorted(out.path for out in entry.outs)
    assert list(pipelines.by_stage(run.folder)) == ["first", "second", "third", "many/dvc.yaml:each", ALL]


def test_an_audit_goes_back_through_all_items(run):
    found = run.audited(KEY)
    names = [stage["name"] for stage in found["stages"]]
    assert (names[0], set(names[1:5]), names[5:]) == (ALL, set(ITEMS), ["second", "first"])
    assert (found["state"], found["value"]) == ("ok", pytest.approx(0.6 * 10 + 0.5 + 1))
    assert {stage["record"]["verdict"] for stage in found["stages"]} == {"never seen to run"}
    assert [dep["kind"] for dep in found["stages"][0]["deps"]] == ["output", "code"]  # a folder with their outputs
    plain = run.audit(KEY, "--full")
    assert (plain.returncode, plain.stderr) == (0, "")
    assert re.search(r"reads +data/each  [0-9a-f]{32}\.dir .*  ok\n", plain.stdout)
    assert "from" not in next(line for line in plain.stdout.splitlines() if " data/each  " in line)
    one = run.audited("metrics/big-one-1.json:number")["stages"][0]
    assert one["name"] == ITEMS[3]
    assert one["params"] == {
        f"many/params.yaml:each.{name}": value
        for name, value in (("common.factor", 1), ("common.add", 0.5), ("kinds.big-one.factor", 10))
    }


def test_one_changed_item_runs_alone_and_is_reported_alone(changed):
    changed.edit("many/params.yaml", "big-one: {factor: 10}", "big-one: {factor: 20}")
    states = {stage["name"]: stage for stage in changed.audited(KEY)["stages"]}
    differ = [name for name, stage in states.items() if stage["state"] != "ok"]
    assert sorted(differ) == ITEMS[2:]
    assert states[ITEMS[2]]["changed_params"] == {"many/params.yaml:each.kinds.big-one.factor": [10, 20]}
    said = changed.run("sightword", "doctor", "--lock").stdout
    assert f"{ITEMS[3]}: parameters: many/params.yaml:each.kinds.big-one.factor is 20, in dvc.lock 10" in said
    assert "each@plain" not in said
    ran = changed.do("dvc", "repro", "many/dvc.yaml")
    assert [line for line in ran.splitlines() if line.startswith("Running")] == [
        f"Running stage '{name}':" for name in (*ITEMS[2:], ALL)
    ]
    changed.commit("twice the factor")
    assert [point["value"] for point in changed.audited("--history", KEY)["points"]] == pytest.approx([7.5, 13.5])
    found = changed.audited("--diff", "HEAD~1", "HEAD", KEY)
    assert [stage["name"] for stage in found["stages"]] == [*ITEMS[2:], ALL]


def test_the_doctor_finds_items_without_an_entry_and_entries_without_an_item(changed):
    assert "the commands of all 8 stages" in changed.do("sightword", "doctor", "--lock")
    changed.edit("many/params.yaml", "run: [plain, big-one]", "run: [big-one]")
    changed.edit("many/params.yaml", "seeds: [0, 1]", "seeds: [0, 1, 2]")
    said = changed.run("sightword", "doctor", "--lock").stdout
    assert "each@big-one-2: dvc.lock has no entry" in said
    assert "each@plain-1: this stage stands in dvc.lock, but not in dvc.yaml" in said
    assert f"{ALL}: parameters: many/params.yaml:each.run is" in said


@pytest.mark.parametrize("axis", ["${each.nothing}", "${each.common}", [{"a": 1}], 3])
def test_a_matrix_without_items_is_one_message(axis):
    stages = {"each": {"matrix": {"kind": axis}, "cmd": "x"}}
    with pytest.raises(FileFormatError, match=r"many/dvc.yaml: each.matrix.kind: has no items"):
        pipelines.expanded(stages, {"each": {"common": {}}}, "many/dvc.yaml")
