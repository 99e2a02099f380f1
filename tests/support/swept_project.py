"""A small project in git, in which sweeps are run with a stand-in for DVC."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import fake_dvc

STAGES = """\
stages:
  corpus:
    cmd: none
    params: [corpus]
    deps: [code.py, "${corpus.path}"]
    outs: [data/corpus]
  features:
    cmd: none
    params: [features]
    deps: [data/corpus]
    outs: [data/features]
  captions:
    cmd: none
    params: [captions]
    deps: [data/corpus/captions.parquet]
    outs: [data/captions]
  train:
    cmd: none
    params: [train]
    deps: [data/features/features.h5, data/captions]
    outs: [models]
    metrics: [metrics.json: {cache: false}]
  report:
    cmd: none
    params: [report]
    deps: [metrics.json]
    outs: [report]
"""


def sections(params: str, stages: str) -> str:
    """The sections of a parameter file that are stages of a ``dvc.yaml``."""
    names = re.findall(r"^  (\w+):$", stages, re.MULTILINE)
    found = re.split(r"^(?=\w+:)", params, flags=re.MULTILINE)
    return "".join(part for part in found if part.partition(":")[0] in names)


class Project:
    """A project that a sweep can be run in.

    Args:
        folder: where it is.
        repository: whose recipe ``sample`` it has.
        below: the project's folder within its git repository.
    """

    def __init__(self, folder: Path, repository: Path, below: str = ".") -> None:
        self.root, self.folder = folder, folder / below
        self.calls_folder = folder.parent / "fake"
        self.calls_folder.mkdir()
        for name in ("recipes", ".dvc", "data/raw/sample"):
            (self.folder / name).mkdir(parents=True)
        for name in ("params.yaml", "recipes/sample.yaml"):
            self.write(name, sections((repository / "params.yaml").read_text(), STAGES))
        self.write(".dvc/.gitignore", "/tmp\n/config.local\n/cache\n")
        self.write(".gitignore", "/data/raw/own\n/runs/*.json\n")
        self.write("data/raw/sample/scenes.yaml", "")
        self.write("code.py", "")
        self.write("dvc.yaml", STAGES)

    def write(self, name: str, text: str) -> Path:
        (self.folder / name).write_text(text)
        return self.folder / name

    def grid(self, text: str, name: str = "g.yaml") -> str:
        """A grid file outside the project, which it does not make dirty."""
        path = self.root.parent / name
        path.write_text(text)
        return str(path)

    def git(self, *arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def commit(self) -> str:
        self.git("add", "-A")
        self.git("commit", "-qm", "state")
        return self.git("rev-parse", "HEAD").strip()

    def experiments(self) -> dict[str, str]:
        """Commit of each experiment of the last commit."""
        head = self.git("rev-parse", "HEAD").strip()
        lines = self.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/exps").splitlines()
        found = dict(line.split(" ") for line in lines)
        prefix = f"refs/exps/{head[:2]}/{head[2:]}/"
        return {ref.removeprefix(prefix): commit for ref, commit in found.items() if ref.startswith(prefix)}

    def calls(self, kind: str) -> list[dict]:
        """What the stand-in noted, ``began`` or ``ended``."""
        path = self.calls_folder / "calls.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [line for line in lines if kind in line]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """The command in a process of its own."""
        code = (
            "import sys; from pipeline.cli import main; from pipeline.experiments import clones; "
            f"clones.DVC[:] = {[sys.executable, fake_dvc.__file__]!r}; sys.exit(main(sys.argv[1:]))"
        )
        return subprocess.Popen(
            [sys.executable, "-c", code, "sweep", *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
