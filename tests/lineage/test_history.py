"""A number across commits and experiments, and why two results differ."""

from __future__ import annotations

import hashlib
import json

import pytest

from pipeline.doctor.lockfile import check_lock
from pipeline.doctor.machine import check_lists
from pipeline.lineage import code_lists
from pipeline.lineage.audit import audit
from pipeline.lineage.history import difference, history

KEY = "metrics/third.json:test.r10"


def read(project, *arguments):
    done = project.audit(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def grown(ran, tmp_path_factory):
    """Three commits and three experiments, of which one began from the second commit."""
    project = ran.copy(tmp_path_factory.mktemp("grown") / "project")
    project.do("dvc", "exp", "run", "-q", "-n", "wide", "-S", "second.factor=0.5")
    project.do("git", "checkout", "-q", "--", ".")
    project.edit("params.yaml", "factor: 5", "factor: 50")
    project.do("dvc", "repro", "-q")
    project.commit("ten times")
    project.do("dvc", "exp", "run", "-q", "--temp", "-n", "deep", "-S", "first.factor=7", "-S", "third.factor=1")
    project.write("README.md", "nothing to do with it\n")
    project.commit("words")
    project.edit("stages/helper.py", "return float", "return 2 * float")
    project.write("data/raw/in.txt", "4\n")
    project.do("dvc", "repro", "-q")
    project.commit("other code and data")
    project.do("dvc", "exp", "run", "-q", "--temp", "-n", "late", "-S", "second.factor=0.2")
    return project


def test_each_commit_and_experiment_stands_with_its_value_and_what_changed(grown):
    found = read(grown, "--history", KEY)
    assert read(grown, "--history", f"./{KEY}") == found
    points = [(one.get("experiment") or one["subject"], round(one["value"], 6)) for one in found["points"]]
    assert points == [("first run", 3), ("wide", 15), ("ten times", 30), ("deep", 2.1), ("other code and data", 320),
                      ("late", 640)]  # fmt: skip
    changed = {one.get("experiment") or one["subject"]: one for one in found["points"]}
    assert changed["wide"]["params"] == {"second.factor": [0.1, 0.5]}
    assert changed["ten times"]["params"] == {"third.factor": [5, 50]}
    assert changed["deep"]["params"] == {"first.factor": [2, 7], "third.factor": [50, 1]}
    assert changed["late"]["params"] == {"second.factor": [0.1, 0.2]}
    last = changed["other code and data"]
    assert (last["params"], last["code"], last["data"]) == ({}, ["stages/helper.py"], ["data/raw/in.txt"])
    assert not changed["wide"]["code"]
    text = grown.audit("--history", KEY).stdout
    assert "second.factor: 0.1 -> 0.5" in text
    assert text.index("wide") < text.index("ten times") < text.index("deep")


def test_a_branch_elsewhere_is_seen_when_all_are_asked_for(project):
    project.do("git", "checkout", "-qb", "side")
    project.edit("params.yaml", "factor: 5", "factor: 9")
    project.do("dvc", "repro", "-q")
    project.commit("aside")
    project.do("git", "checkout", "-q", "main")
    assert len(read(project, "--history", KEY)["points"]) == 1
    assert [one["subject"] for one in read(project, "--history", KEY, "--all")["points"]] == ["first run", "aside"]


def test_two_experiments_differ_by_what_was_varied_and_nothing_else(grown):
    found = read(grown, "--diff", "wide", "deep")
    own = {stage["name"]: stage for stage in found["stages"]}
    assert {name: set(stage["params"]) for name, stage in own.items()} == {
        "first": {"first.factor"}, "second": {"second.factor"}, "third": {"third.factor"},
    }  # fmt: skip
    assert found["values"] == {KEY: [pytest.approx(15), pytest.approx(2.1)]}
    assert [line.split()[0] for line in found["because"]] == ["first", "second", "third"]


def test_code_and_data_that_differ_are_named_file_by_file(grown):
    found = read(grown, "--diff", "HEAD~1", "HEAD", KEY)
    first = next(stage for stage in found["stages"] if stage["name"] == "first")
    assert (first["code"], first["data"]) == (["stages/helper.py"], ["data/raw/in.txt"])
    assert found["because"][0] == "first differs by code (1 file) and raw data (data/raw/in.txt)"
    assert next(stage for stage in found["stages"] if stage["name"] == "third")["inputs"] == ["models/encoder"]


def test_change_without_a_changed_output_is_no_reason(project):
    project.write("pipeline/words/two.py", "WORD = 2  # the same\n")
    project.do("dvc", "repro", "-q")
    project.commit("a remark")
    found = read(project, "--diff", "HEAD~1", "HEAD")
    assert found["because"] == ["these differ too, with the same outputs: first by code (1 file)"]
    assert found["stages"][0]["code"] == ["pipeline/words/two.py"]
    assert not found["values"]


def test_ledger_is_no_raw_data_of_a_difference(project):
    project.edit("dvc.yaml", "deps: [models/encoder,", "deps: [metrics/scorings.csv, models/encoder,")
    for text in ("one\n", "one\ntwo\n"):
        project.write("metrics/scorings.csv", text)
        project.do("dvc", "repro", "-q")
        project.commit(text)
    (third,) = read(project, "--diff", "HEAD~1", "HEAD")["stages"]
    assert (third["data"], third["inputs"]) == ([], ["metrics/scorings.csv"])
    assert read(project, "--history", KEY)["points"][-1]["data"] == []


def test_the_same_inputs_with_other_bytes_are_put_down_to_machine_and_packages(project, tmp_path):
    """As on a machine with another release of a package: the facts of both runs tell."""
    project.keep_facts("third", project.folder / "runs", packages={"torch": "2.11", "numpy": "2"})
    before = (project.folder / "metrics/third.json").read_bytes()
    project.edit("metrics/third.json", "0.5", "0.6")
    after = (project.folder / "metrics/third.json").read_bytes()
    old, new = (hashlib.md5(text, usedforsecurity=False).hexdigest() for text in (before, after))
    project.edit("dvc.lock", old, new)
    unknown = project.audited("--diff", "HEAD", "workspace")
    assert "facts of the runs are not known" in unknown["because"][0]
    assert unknown["doubts"] == []  # of other versions
    project.keep_facts("third", tmp_path / "unused-store/runs", packages={"torch": "2.13", "numpy": "2"})
    found = read(project, "--diff", "HEAD", "workspace")
    assert found["because"][0] == (
        "third gave other bytes for the same command, parameters, code and data: packages (torch)"
    )
    assert found["stages"][0]["packages"] == {"torch": ["2.11", "2.13"]}
    assert "torch: 2.11 -> 2.13" in project.audit("--diff", "HEAD", "workspace").stdout


def test_difference_of_equal_revisions_says_so(ran):
    done = ran.audit("--diff", "HEAD", "workspace")
    assert "are the same" in done.stdout
    assert "not run yet" in done.stdout  # a parameter that was edited since made no number
    assert "not run yet" not in ran.audit("--diff", "HEAD", "HEAD").stdout


def test_a_stage_that_only_one_has_is_told(project):
    project.edit("dvc.yaml", "artifacts:", "  fourth:\n    cmd: echo 1 > x\n    outs: [x]\nartifacts:")
    project.do("dvc", "repro", "-q")
    found = read(project, "--diff", "HEAD", "workspace")
    assert [(stage["name"], stage["command"]) for stage in found["stages"]] == [("fourth", [None, "echo 1 > x"])]
    assert found["because"] == ["fourth is only in the second"]
    assert read(project, "--diff", "workspace", "HEAD")["because"] == ["fourth is only in the first"]


def test_a_commit_with_a_broken_lock_does_not_end_the_history(project):
    text = (project.folder / "dvc.lock").read_text()
    project.write("dvc.lock", text.replace("stages:\n", "<<<<<<< a\nstages:\n>>>>>>> b\n"))
    project.commit("a conflict was committed")
    project.write("dvc.lock", text)
    project.commit("mended")
    found = read(project, "--history", KEY)
    assert [one["value"] for one in found["points"]] == pytest.approx([3, 3, 3])
    assert not any(one["params"] or one["code"] or one["data"] for one in found["points"])
    assert any("dvc.lock cannot be read" in line for line in found["not_known"])


def test_of_a_list_of_code_the_files_that_differ_are_named(project, monkeypatch):
    program = {"sightword/one.py": "1" * 64, "sightword/two.py": "2" * 64}
    monkeypatch.setattr(code_lists, "installed", lambda path: dict(program))
    project.edit("dvc.yaml", "deps: [data/raw/in.txt", "deps: [code/first.sha256, data/raw/in.txt")
    for change in ({}, {"sightword/two.py": "3" * 64}):
        program |= change
        project.write("code/first.sha256", code_lists.text(program))
        project.do("dvc", "repro", "-q")
        project.commit(f"a program with {len(change)} changes")
    folder = project.folder
    found = audit("first", folder).links[0].deps[0]
    assert (found.path, found.kind, found.state, found.files) == ("code/first.sha256", "code", "ok", program)
    earlier = audit("first", folder, revision="HEAD~1").links[0].deps[0]
    assert (earlier.state, earlier.differing) == ("changed since", ["sightword/two.py"])
    assert difference("HEAD~1", "HEAD", folder).stages[0].code == ["sightword/two.py"]
    assert history(KEY, folder).points[-1].code == ["sightword/two.py"]
    project.write("code/first.sha256", code_lists.text(program | {"sightword/one.py": "5" * 64}))
    said = [one.what for one in check_lock(folder) if one.state == "problem"]
    assert "first: code: code/first.sha256 is modified" in said
    project.do("git", "checkout", "-q", ".")
    program["sightword/three.py"] = "4" * 64  # an upgrade that the project has not taken over
    now = audit("first", folder).links[0].deps[0]
    assert (now.state, now.differing) == ("changed since", ["sightword/three.py"])
    assert [one.what for one in check_lists(folder)] == [
        "the installed sightword has other code than the lists in code/: sightword/three.py"
    ]
