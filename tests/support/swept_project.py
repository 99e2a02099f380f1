"""A small project in git, that sweeps start from."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

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

    def keep(self, name: str, params: Mapping[str, object], *, later: bool = False) -> None:
        """Keep an experiment of the last commit as DVC does, with these parameters; ``later`` at :meth:`keep_now`."""
        self._kept = (name, params)
        if not later:
            self.keep_now()

    def keep_now(self) -> None:
        name, params = self._kept
        path = self.folder / "params.yaml"
        before = path.read_text()
        path.write_text(json.dumps(params))
        head = self.git("rev-parse", "HEAD").strip()
        self.git("add", "params.yaml")
        commit = self.git("commit-tree", self.git("write-tree").strip(), "-p", head, "-m", name).strip()
        self.git("update-ref", f"refs/exps/{head[:2]}/{head[2:]}/{name}", commit)
        path.write_text(before)
        self.git("reset", "-q")
