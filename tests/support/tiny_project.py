"""A project of three stages that take no time, in a git repository of its own, run by DVC."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import fork_server
import pytest
from made_once import made_once

from pipeline.lineage.facts import Recorder
from sightword.machine import Machine

STAGE = """\
import json, pathlib, sys
from stages import helper
text = pathlib.Path("{source}").read_text()
number = helper.value("{name}")
"""
FILES = {
    "stages/helper.py": """\
import pathlib
from ruamel.yaml import YAML
def value(name):
    return float(YAML(typ="safe", pure=True).load(pathlib.Path("params.yaml"))[name]["factor"])
""",
    "stages/__init__.py": "",
    "pipeline/__init__.py": "",
    "pipeline/words/one.py": "WORD = 1\n",
    "pipeline/words/two.py": "WORD = 2\n",
    "data/raw/in.txt": "3\n",
    "params.yaml": "# what is varied\nfirst:\n  factor: 2\n  name: no\nsecond:\n  factor: 1e-1\nthird:\n  factor: 5\n",
    ".gitignore": "/data/first\n/data/second\n/models\n/runs/*.json\n",
    ".dvcignore": (Path(__file__).parents[2] / ".dvcignore").read_text(),
    "stages/first.py": STAGE.format(source="data/raw/in.txt", name="first")
    + "pathlib.Path('data/first').mkdir(exist_ok=True)\n"
    "pathlib.Path('data/first/out.txt').write_text(str(float(text) * number))\n"
    "pathlib.Path('data/first/same.txt').write_text('always')\n",
    "stages/second.py": STAGE.format(source="data/first/out.txt", name="second")
    + "pathlib.Path('models/encoder').mkdir(parents=True, exist_ok=True)\n"
    "pathlib.Path('models/encoder/weights').write_text(str(float(text) * number))\n",
    "stages/third.py": STAGE.format(source="models/encoder/weights", name="third")
    + "pathlib.Path('metrics').mkdir(exist_ok=True)\n"
    "found = {'test': {'r10': float(text) * number, 'surprise.OnWN': {'pearson': 0.5}}, 'surprise': {'OnWN': 7}}\n"
    "pathlib.Path('metrics/third.json').write_text(json.dumps(found))\n",
    "dvc.yaml": """\
stages:
  first:
    cmd: python -m stages.first
    params: [first]
    deps: [data/raw/in.txt, pipeline/words, stages/first.py, stages/helper.py]
    outs: [data/first]
  second:
    cmd: python -m stages.second
    params: [second]
    deps: [data/first/out.txt, stages/second.py, stages/helper.py]
    outs: [models/encoder]
  third:
    cmd: python -m stages.third
    params: [third]
    deps: [models/encoder, stages/third.py, stages/helper.py]
    metrics:
      - metrics/third.json: {cache: false}
artifacts:
  the-encoder:
    path: models/encoder
""",
}

EXTRA = {
    "extra/dvc.yaml": """\
stages:
  fourth:
    cmd: python -m stages.fourth
    wdir: ..
    params:
      - extra/params.yaml: [fourth]
    deps: [metrics/third.json, "${fourth.reads}", stages/fourth.py]
    outs: [data/fourth]
    metrics:
      - metrics/fourth.json: {cache: false}
artifacts:
  the-text:
    path: ../data/fourth
""",
    "extra/params.yaml": "fourth:\n  factor: 7\n  reads: models/encoder\n",
    "stages/fourth.py": """\
import json, pathlib
from ruamel.yaml import YAML
own = YAML(typ="safe", pure=True).load(pathlib.Path("extra/params.yaml"))["fourth"]
number = json.loads(pathlib.Path("metrics/third.json").read_text())["test"]["r10"] * own["factor"]
pathlib.Path("data/fourth").mkdir(parents=True, exist_ok=True)
pathlib.Path("data/fourth/text").write_text(pathlib.Path(own["reads"], "weights").read_text())
pathlib.Path("metrics/fourth.json").write_text(json.dumps({"total": number}))
""",
}
"""A second pipeline, in a folder of its own; it reads a metric and an encoder of the first."""

MATRIX = {
    "many/dvc.yaml": """\
stages:
  each:
    matrix: {kind: "${each.run}", seed: "${each.seeds}"}
    cmd: python -m stages.each ${item.kind} ${item.seed}
    wdir: ..
    params:
      - many/params.yaml: [each.common, "each.kinds.${item.kind}"]
    deps: [models/encoder, stages/each.py]
    outs: ["data/each/${item.kind}-${item.seed}"]
    metrics:
      - "metrics/${item.kind}-${item.seed}.json": {cache: false}
  all:
    cmd: python -m stages.all
    wdir: ..
    params:
      - many/params.yaml: [all, each.run]
    deps: [data/each, stages/all.py]
    metrics:
      - metrics/all.json: {cache: false}
""",
    "many/params.yaml": """\
each:
  run: [plain, big-one]
  seeds: [0, 1]
  common: {factor: 1, add: 0.5}
  kinds:
    plain: {}
    big-one: {factor: 10}
all: {title: sums}
""",
    "stages/each.py": """\
import json, pathlib, sys
from ruamel.yaml import YAML
kind, seed = sys.argv[1:]
section = YAML(typ="safe", pure=True).load(pathlib.Path("many/params.yaml"))["each"]
own = section["common"] | section["kinds"][kind]
number = float(pathlib.Path("models/encoder/weights").read_text()) * own["factor"] + own["add"] + int(seed)
folder = pathlib.Path("data/each", f"{kind}-{seed}")
folder.mkdir(parents=True, exist_ok=True)
(folder / "number").write_text(str(number))
pathlib.Path("metrics").mkdir(exist_ok=True)
pathlib.Path("metrics", f"{kind}-{seed}.json").write_text(json.dumps({"number": number}))
""",
    "stages/all.py": """\
import json, pathlib
found = {path.parent.name: float(path.read_text()) for path in sorted(pathlib.Path("data/each").glob("*/number"))}
pathlib.Path("metrics/all.json").write_text(json.dumps(found))
""",
}
"""A pipeline with a stage that runs once for each kind and seed, and a stage that reads the results of all runs."""


class TinyProject:
    """The project in a folder; its first run is committed.

    Args:
        folder: where it goes.
        run: let DVC run it.
    """

    def __init__(self, folder: Path, *, run: bool = True) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(self.programs()), str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONDONTWRITEBYTECODE": "1",  # Python takes what was edited twice in a second for the same
            "DVC_NO_ANALYTICS": "1",
            "SIGHTWORD_STORE": str(folder.parent / "unused-store"),
            "GIT_AUTHOR_NAME": "Ada",
            "GIT_AUTHOR_EMAIL": "ada@example.org",
            "GIT_COMMITTER_NAME": "Ada",
            "GIT_COMMITTER_EMAIL": "ada@example.org",
        }
        if run:
            for name, text in FILES.items():
                self.write(name, text)
            self.do("git", "init", "-q", "-b", "main")
            self.do("dvc", "init", "-q")
            self.do("dvc", "repro", "-q")
            self.commit("first run")

    def programs(self) -> Path:
        """The folder of programs: the stages are small, and a Python of their own takes less than a copy."""
        return fork_server.without_python()

    def copy(self, folder: Path) -> TinyProject:
        """The same project elsewhere, with its data and cache."""
        shutil.copytree(self.folder, folder, symlinks=True)
        return TinyProject(folder, run=False)

    def clone(self, folder: Path, *options: str) -> TinyProject:
        """A git clone: no data, no cache."""
        self.do("git", "clone", "-q", *options, f"file://{self.folder}", str(folder))
        return TinyProject(folder, run=False)

    def write(self, name: str, text: str) -> None:
        """Write a file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace a text that is there."""
        text = (self.folder / name).read_text()
        assert old in text
        self.write(name, text.replace(old, new))

    def add_second_pipeline(self) -> None:
        """Add the pipeline ``extra``, which is not run."""
        for name, text in EXTRA.items():
            self.write(name, text)
        self.edit(".gitignore", "/models", "/data/fourth\n/models")

    def add_matrix_pipeline(self) -> None:
        """Add the pipeline ``many``, which is not run."""
        for name, text in MATRIX.items():
            self.write(name, text)
        self.edit(".gitignore", "/models", "/data/each\n/models")

    def commit(self, subject: str) -> str:
        """Commit all there is; the sha."""
        self.do("git", "add", "-A")
        self.do("git", "commit", "-qm", subject)
        return self.do("git", "rev-parse", "HEAD").strip()

    def do(self, *command: str, ok: bool = True) -> str:
        """Run a command here; what it printed."""
        done = self.run(*command)
        if ok:
            assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command here, however it ends."""
        return subprocess.run(
            command, cwd=self.folder, env=self.environment | environment, capture_output=True, text=True, check=False
        )

    def keep_facts(self, stage: str, folder: Path, **values: object) -> None:
        """Write the facts of a stage's run, as the launcher does, into a folder alone; with some other values."""
        store = self.folder.parent / "facts"
        machine = Machine(device="cpu", workers=1, threads=1, store=str(store), cache=store, scratch=store)
        with (
            mock.patch.dict(os.environ, DVC_ROOT=str(store)),
            mock.patch.object(Recorder, "_keep_in_git"),
        ):
            path = Recorder(stage, self.folder, machine).finish()
        assert path is not None
        facts = json.loads(path.read_text()) | values
        shutil.rmtree(store)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / path.name).write_text(json.dumps(facts))

    def audited(self, *arguments: str) -> Any:
        """Return what ``sightword audit --json`` prints, whatever its exit code."""
        done = self.audit(*arguments, "--json")
        assert done.stdout, done.stderr
        return json.loads(done.stdout[done.stdout.index("{") :])

    def audit(self, *arguments: str, store: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run ``sightword audit``."""
        return self.run("sightword", "audit", *arguments, **({"SIGHTWORD_STORE": str(store)} if store else {}))


def tiny_project(factory: pytest.TempPathFactory) -> TinyProject:
    """Return the project, run once for all processes of the tests; a test works in a copy."""
    return TinyProject(made_once(factory, "tiny-project", TinyProject), run=False)
