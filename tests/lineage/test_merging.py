"""Merges of dvc.lock by git, with whole entries."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from dvc.utils.serialize import dumps_yaml
from hypothesis import given
from hypothesis import strategies as st

from pipeline.lineage.lock import read_lock
from pipeline.lineage.merging import merge_locks
from sightword.errors import LineageError

STAGES = ("first", "second@1", "third")


def lock(**versions):
    """A lock in which each stage has an input, a parameter and an output of some version; 0 for no entry."""
    stages = {}
    for name, (made, factor) in ((name.replace("_", "@"), divmod(number, 10)) for name, number in versions.items()):
        deps = [{"path": "in", "md5": f"{made}", "size": 3}, {"path": "code.py", "md5": "c", "size": 8}]
        params = {"params.yaml": {"a": {"factor": factor, "name": "n"}}}
        outs = [{"path": f"out/{name}", "md5": f"{made}{factor}", "size": 3}]
        if made or factor:
            stages[name] = {"cmd": f"run {name}", "deps": deps, "params": params, "outs": outs}
    return dumps_yaml({"schema": "2.0", "stages": stages}) if stages else ""


class Branches:
    """A repository with two branches that have a lock each, and a merge driver."""

    def __init__(self, folder: Path, base: str, ours: str, theirs: str, *, driver: bool = True) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "-b", "main")
        if driver:
            (folder / ".gitattributes").write_text("dvc.lock merge=sightword-lock\n")
            self.git("config", "merge.sightword-lock.driver", "sightword merge-lock %O %A %B")
        self.commit(base)
        for name, text in (("theirs", theirs), ("ours", ours)):
            self.git("checkout", "-q", "-b", name, "main")
            self.commit(text)

    def commit(self, text: str) -> None:
        (self.folder / "dvc.lock").unlink(missing_ok=True)
        if text:
            (self.folder / "dvc.lock").write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "a commit")

    def git(self, *words: str, code: int = 0) -> str:
        own = {
            f"GIT_{role}_{what}": "ada@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        done = subprocess.run(
            ["git", *words], cwd=self.folder, env=os.environ | own, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    @property
    def text(self) -> str:
        return (self.folder / "dvc.lock").read_text()


def test_entries_that_one_side_changed_are_taken_whole(tmp_path):
    base = lock(first=11, second_1=11, third=11)
    branches = Branches(
        tmp_path / "r", base, lock(first=23, second_1=11), lock(first=11, second_1=45, third=11, fourth=1)
    )
    branches.git("merge", "-q", "theirs", "-m", "merged")
    assert read_lock(branches.text) == read_lock(lock(first=23, second_1=45, fourth=1))


@pytest.mark.parametrize("options", [[], ["-X", "ours"], ["-X", "theirs"]])
def test_an_entry_with_a_parameter_that_both_sides_changed_is_a_conflict(tmp_path, options):
    sides = lock(first=11, third=11), lock(first=12, third=11), lock(first=13, third=41)
    branches = Branches(tmp_path / "r", *sides)
    said = branches.git("merge", "theirs", *options, "-m", "merged", code=1)
    assert "both sides have changed first." in said
    assert "git checkout --ours dvc.lock" in said
    with pytest.raises(LineageError, match="unresolved merge conflict"):
        read_lock(branches.text)
    assert lock(third=41).partition("stages:\n")[2] in branches.text
    branches.git("checkout", "-q", "--theirs", "dvc.lock")
    assert branches.text == sides[2]


@pytest.mark.parametrize("options", [[], ["-X", "ours"], ["-X", "theirs"]])
def test_an_entry_that_ran_on_neither_side_with_the_merged_inputs_is_left_out(tmp_path, options):
    """One has another input, the other another parameter: git alone makes a third entry of them, without a word."""
    sides = lock(first=11, third=11), lock(first=12, third=11), lock(first=31, third=41)
    if options:
        alone = Branches(tmp_path / "alone", *sides, driver=False)
        alone.git("merge", "-q", "theirs", *options, "-m", "merged")
        assert read_lock(alone.text).entries["first"] not in [read_lock(side).entries["first"] for side in sides]
    branches = Branches(tmp_path / "r", *sides)
    said = branches.git("merge", "theirs", *options, "-m", "merged")
    assert "dvc.lock: first ran on neither side as after the merge: `dvc repro` runs them" in said
    assert read_lock(branches.text) == read_lock(lock(third=41))


def test_two_first_locks_are_merged(tmp_path):
    branches = Branches(tmp_path / "r", "", lock(first=11), lock(third=22))
    branches.git("merge", "-q", "theirs", "-m", "merged")
    assert read_lock(branches.text) == read_lock(lock(first=11, third=22))


@pytest.mark.parametrize(
    "odd",
    ["stages: [\n", "schema: '2.0'\nstages:\n    first: {cmd: x}\n", "<<<<<<< a\nstages:\n"],
)
def test_what_dvc_did_not_write_is_left_to_the_user(tmp_path, odd):
    branches = Branches(tmp_path / "r", lock(first=11), lock(first=12), odd)
    said = branches.git("merge", "theirs", "-m", "merged", code=1)
    assert "sightword: dvc.lock, theirs" in said
    assert "Traceback" not in said
    assert branches.text == lock(first=12)


VERSIONS = st.fixed_dictionaries({name.replace("@", "_"): st.sampled_from([0, 11, 12, 21]) for name in STAGES})


def runs(train: int, judge: int, report: int = 0, code: str = "c") -> str:
    """A lock of three stages that read each other, each with a parameter, as if each had run with these."""
    stages = {
        "report": {"params": report, "deps": {"trained": train, "scores": (train, judge), "sightword": code}},
        "judge": {"params": judge, "deps": {"trained": train}},
        "train": {"params": train, "deps": {"pictures": 0}},
    }
    outs = {"report": (train, judge, report, code), "judge": (train, judge), "train": train}
    paths = {"report": "page", "judge": "scores", "train": "trained"}
    return dumps_yaml(
        {
            "schema": "2.0",
            "stages": {
                name: {
                    "cmd": name,
                    "deps": [{"path": path, "md5": str(of)} for path, of in stage["deps"].items()],
                    "params": {"params.yaml": {name: {"factor": stage["params"], "name": "n"}}},
                    "outs": [{"path": paths[name], "md5": str(outs[name])}],
                }
                for name, stage in stages.items()
            },
        }
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "left", "conflicts"),
    [
        (runs(2, 1), runs(1, 2), ["report", "judge"], []),
        (runs(2, 1), runs(1, 1, 2), ["report"], []),
        (runs(2, 1), runs(2, 2), [], []),  # theirs has all that ours has
        (runs(2, 1), runs(3, 1), [], ["report", "judge", "train"]),
        (runs(1, 2), runs(1, 3), [], ["report", "judge"]),
        (runs(1, 1, 1, "d"), runs(1, 1, 1, "e"), ["report"], []),  # git merges code
        (runs(1, 2, 1, "d"), runs(1, 1, 1, "e"), ["report"], []),
    ],
)
def test_what_two_people_change_is_merged_the_same_in_both_orders(ours, theirs, left, conflicts):
    base = runs(1, 1)
    for one, other in ((ours, theirs), (theirs, ours)):
        merged = merge_locks(base, one, other)
        assert (merged.left_out, merged.conflicts) == (left, conflicts)
        if not conflicts:
            sides = [read_lock(text).entries for text in (one, other)]
            for name, entry in read_lock(merged.text).entries.items():
                assert entry in [side[name] for side in sides]


@given(VERSIONS, VERSIONS, VERSIONS)
def test_an_entry_that_one_side_changed_is_taken_and_no_other_entry_is_made_up(base, ours, theirs):
    merged = merge_locks(lock(**base), lock(**ours), lock(**theirs))
    wanted = {}
    for name in base:
        old, own, other = base[name], ours[name], theirs[name]
        wanted[name] = own if other in (own, old) else other if own == old else None
    if not merged.conflicts:
        found = read_lock(merged.text).entries
        settled = read_lock(lock(**{name: version for name, version in wanted.items() if version is not None})).entries
        assert {name: found[name] for name in settled} == settled
        sides = [read_lock(lock(**side)).entries for side in (ours, theirs)]
        assert all(entry in [side.get(name) for side in sides] for name, entry in found.items())


@pytest.mark.full
@pytest.mark.parametrize(("ours", "theirs", "cache"), [("a", "b", True), ("b", "a", False)])
def test_two_people_who_changed_other_parameters_merge_without_a_conflict(project, repository, ours, theirs, cache):
    """Both changed `third`: one by its input, the other by its parameter, and both its metrics."""
    attributes = (repository / ".gitattributes").read_text().splitlines()
    project.write(".gitattributes", "\n".join(line for line in attributes if "merge=" in line))
    project.commit("attributes")
    for driver in ("merge.sightword-lock.driver", "sightword merge-lock %O %A %B"), ("merge.ours.driver", "true"):
        project.do("git", "config", *driver)
    for name, old, new in (("a", "second:\n  factor: 1e-1", "second:\n  factor: 4"), ("b", "factor: 5", "factor: 6")):
        project.do("git", "checkout", "-q", "-b", name, "main")
        project.do("dvc", "checkout", "-q")
        project.edit("params.yaml", old, new)
        project.do("dvc", "repro", "-q")
        project.commit(name)
    project.do("git", "checkout", "-q", ours)
    project.do("git", "merge", "-q", theirs, "-m", "merged")
    assert [*read_lock((project.folder / "dvc.lock").read_text()).entries] == ["first", "second"]
    if not cache:
        for folder in (".dvc/cache", "data/first", "models"):
            shutil.rmtree(project.folder / folder)
    project.do("dvc", "repro", "-q")
    assert json.loads((project.folder / "metrics/third.json").read_text())["test"]["r10"] == 3 * 2 * 4 * 6
    assert project.do("dvc", "status").strip() == "Data and pipelines are up to date."
