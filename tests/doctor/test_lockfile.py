"""Whether dvc.lock belongs to code, parameters and dvc.yaml: on a clone without data."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import fork_server
import pytest
from looks import states

from pipeline.doctor import lockfile
from pipeline.lineage.lock import read_lock, tracked_hashes

LOCK = """\
schema: '2.0'
stages:
  a:
    cmd: make a
    deps:
    - path: data/raw/x
      md5: '{raw}'
    - path: pipeline/a.py
      md5: 22
    params:
      params.yaml:
        a:
          size: 1
    outs:
    - path: data/a
      md5: {made}
  b:
    cmd: make b
    deps:
    - path: data/a
      md5: 33
    outs:
    - path: out/1
      md5: 44
"""
DESCRIBED = {
    "a": {"cmd": "make a", "deps": ["${a.raw}", "pipeline/a.py"], "params": ["a"], "outs": [{"data/a": {}}]},
    "b": {"cmd": "make b", "deps": ["data/a"], "outs": ["out/${b.n}"]},
}
PARAMS = {"a": {"size": 1, "raw": "data/raw/x"}, "b": {"n": 1}}


def stale(status=None, stages=DESCRIBED, params=PARAMS, *, made="33", raw="11", tracked=None):
    lock = read_lock(LOCK.format(made=made, raw=raw))
    found = lockfile.stale(status or {}, stages, {"params.yaml": params}, lock, tracked or {})
    return {name: [note.what for note in notes] for name, notes in found.items()}


def test_a_consistent_lock_and_data_that_is_not_here() -> None:
    absent = {
        "a": [{"changed deps": {"data/raw/x": "deleted"}}, {"changed outs": {"data/a": "not in cache"}}],
        "b": [{"changed deps": {"data/a": "deleted"}}, {"changed outs": {"out/1": "deleted"}}, "always changed"],
        "raw.dvc": [{"changed outs": {"data/raw/x": "deleted"}}],
    }
    assert stale() == stale(absent) == {}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("changed command", "command: differs from the one in dvc.lock"),
        ({"changed deps": {"pipeline/a.py": "modified"}}, "code: pipeline/a.py is modified"),
        ({"changed deps": {"pipeline/a.py": "deleted"}}, "code: pipeline/a.py is not there"),
        ({"changed deps": {"data/raw/x": "modified"}}, "data: data/raw/x is modified"),
        ({"changed outs": {"data/a": "modified"}}, "result: data/a is modified"),
        ({"changed deps": {"other.yaml": {"k": "modified"}}}, "parameters: k in other.yaml is modified"),
    ],
)
def test_status_of_dvc_becomes_problems(change, reason) -> None:
    assert stale({"a": [change]}) == {"a": [reason]}


def test_parameters_are_named_with_both_values() -> None:
    status = {"a": [{"changed deps": {"params.yaml": {"a": "modified"}}}]}
    found = stale(status, params={**PARAMS, "a": {"size": 2, "raw": "data/raw/x"}})
    assert "parameters: a.size is 2, in dvc.lock 1" in found["a"]
    assert "parameters: a.raw is 'data/raw/x', in dvc.lock 'absent'" in found["a"]


def test_hashes_that_were_edited_by_hand_and_data_of_another_version() -> None:
    assert stale(made="34") == {"b": ["lock: it read another data/a than the stage a wrote"]}
    tracked = tracked_hashes("outs:\n- md5: 12\n  path: x\n", "data/raw/x.dvc")
    assert stale(tracked=tracked) == {"a": ["data: it read another data/raw/x than data/raw/x.dvc tracks"]}
    assert stale(tracked=tracked, raw="12") == {}


def test_paths_that_only_one_of_both_has() -> None:
    more = json.loads(json.dumps(DESCRIBED))
    more["b"]["outs"].append("out/new")
    more["a"]["deps"].remove("pipeline/a.py")
    more["c"] = {"cmd": "make c"}
    del more["b"]["deps"]
    lock = read_lock(LOCK.format(made=33, raw=11))
    found = lockfile.stale({}, more, {"params.yaml": PARAMS}, lock, {})
    assert {name: states(notes) for name, notes in found.items()} == {
        "a": {"warning"},
        "b": {"problem", "warning"},
        "c": {"problem"},
    }
    assert "out/new stands in dvc.yaml, but not in dvc.lock" in found["b"][0].what
    assert "never ran" in found["c"][0].what


def test_a_removed_stage_and_paths_that_cannot_be_known() -> None:
    less = {"b": {"cmd": "make b", "deps": ["data/${nobody.knows}"], "outs": ["out/1"]}}
    assert stale(stages=less) == {"a": ["this stage stands in dvc.lock, but not in dvc.yaml"]}


STAGES = """\
stages:
  prepare:
    cmd: python code/prepare.py
    deps: [code/prepare.py]
    params: [prepare]
    outs: [data/prepared]
  train:
    cmd: python code/train.py
    deps: [code/train.py, data/prepared]
    outs: [data/model]
    metrics:
    - metrics/train.txt: {cache: false}
"""
PREPARE = """\
from pathlib import Path
Path("data/prepared").mkdir(parents=True)
Path("data/prepared/x").write_text("x")
"""
TRAIN = """\
from pathlib import Path
Path("data/model").write_text("model")
Path("metrics").mkdir(exist_ok=True)
Path("metrics/train.txt").write_text("1")
"""


class Pipeline:
    """A project of two stages that has run, and clones of it without data."""

    def __init__(self, repository: Path, folder: Path) -> None:
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join(
                [*map(str, (fork_server.programs(), Path(sys.executable).parent)), os.environ["PATH"]]
            ),
            "PYTHONPATH": str(repository),
            "DVC_NO_ANALYTICS": "1",
            "DVC_SITE_CACHE_DIR": str(folder / "site"),
            "SIGHTWORD_STORE": str(folder / "store"),
        }
        self.folder, self.start = folder, folder / "start"
        for name, text in (
            ("dvc.yaml", STAGES), ("params.yaml", "prepare:\n  size: 1\n"), ("code/prepare.py", PREPARE),
            ("code/train.py", TRAIN), (".gitignore", "/data\n"),
        ):  # fmt: skip
            (self.start / name).parent.mkdir(parents=True, exist_ok=True)
            (self.start / name).write_text(text)
        for command in ("git init -q -b main", "dvc init -q", "dvc repro -q"):
            self.run(self.start, *command.split())
        self.commit(self.start, "start")

    def run(self, place: Path, *command: str, ok: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(command, cwd=place, env=self.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0 or not ok, done.stderr
        return done

    def commit(self, place: Path, message: str) -> None:
        self.run(place, "git", "add", "-A")
        self.run(place, "git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qam", message)

    def clone(self) -> Path:
        place = self.folder / "clone"
        shutil.rmtree(place, ignore_errors=True)
        self.run(self.folder, "git", "clone", "-q", "--depth", "1", f"file://{self.start}", str(place))
        assert not (place / "data").exists()
        return place

    def check(self, place: Path) -> tuple[int, str]:
        done = self.run(place, "sightword", "doctor", "--lock", ok=False)
        assert done.stderr == ""
        return done.returncode, done.stdout


def edit(path: Path, old: str, new: str, after: str = "") -> None:
    text = path.read_text()
    place = text.index(old, text.index(after))
    path.write_text(text[:place] + new + text[place + len(old) :])


@pytest.fixture(scope="module")
def project(repository, tmp_path_factory) -> Pipeline:
    return Pipeline(repository, tmp_path_factory.mktemp("pipeline"))


@pytest.mark.slow
def test_a_pull_request_is_checked_without_data(project) -> None:
    whole = "ok       lock:       dvc.lock belongs to the code, the parameters and the commands of all 2 stages\n"
    for folder in (project.start, project.clone()):
        code, said = project.check(folder)
        assert (code, said.partition("\n")[2]) == (0, whole)
        assert said.startswith("ok       lock:       no facts of runs are here")
    changes = [
        ("code/prepare.py", '"x"', '"y"', "", "prepare: code: code/prepare.py is modified"),
        ("params.yaml", "size: 1", "size: 2", "", "prepare: parameters: prepare.size is 2, in dvc.lock 1"),
        ("dvc.yaml", "code/train.py\n", "-B code/train.py\n", "", "train: command: differs from the one in dvc.lock"),
        ("dvc.yaml", "[data/model]", "[data/model, data/more]", "", "train: output: data/more stands in dvc.yaml"),
        ("dvc.lock", "md5: ", "md5: 0", "path: data/prepared", "it read another data/prepared than the stage prepare"),
        ("metrics/train.txt", "1", "2", "", "train: result: metrics/train.txt is modified"),
        ("dvc.lock", "stages:\n", "stages:\n<<<<<<< HEAD\n", "", "dvc.lock, line 3: has an unresolved merge conflict"),
    ]
    for file, old, new, after, words in changes:
        clone = project.clone()
        edit(clone / file, old, new, after)
        code, said = project.check(clone)
        assert code == 1, words
        assert words in said, said
        assert "->" in said
