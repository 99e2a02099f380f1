"""A project of two quick stages with settings, a seed and recipes, whose runs become rows of results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fork_server
from tiny_project import TinyProject

LAUNCHER = Path(__file__).parents[2] / "stages/__main__.py"
FILES = {
    "dvc.yaml": """\
stages:
  train:
    cmd: python -m stages train
    params: [train]
    deps: [data/raw/numbers, stages/train.py]
    outs: [models/encoder]
    plots:
      - metrics/train.json: {cache: false}
  score:
    cmd: python -m stages score
    params: [score]
    deps: [models/encoder, stages/score.py]
    plots:
      - metrics/score.json: {cache: false}
""",
    "stages/__init__.py": "",
    "stages/system.py": 'SEED = "train.seed"\n',
    "stages/train.py": """\
import json
from pathlib import Path
from sightword.settings import Settings

class SETTINGS(Settings):
    '''How the numbers are drawn.'''
    hidden: int = 8
    seed: int = 0

def work(settings):
    '''Train.'''
    numbers = [float(path.read_text()) for path in sorted(Path("data/raw/numbers").glob("*.txt"))]
    Path("models/encoder").mkdir(parents=True)
    Path("models/encoder/weight").write_text(str(sum(numbers) + settings.hidden + settings.seed / 10))
    Path("metrics").mkdir(exist_ok=True)
    Path("metrics/train.json").write_text(json.dumps({"loss": 0.5, "numbers": len(numbers)}))
""",
    "stages/score.py": """\
import json
from pathlib import Path
from sightword.settings import Settings

class SETTINGS(Settings):
    '''How the numbers are scored.'''
    factor: float = 1.0
    title: str = "numbers"

def work(settings):
    '''Score.'''
    value = settings.factor * float(Path("models/encoder/weight").read_text())
    found = {"test": {"r10": value, "r10_ci95": 1.5, "queries": 7}, "name": "x", "mean": {"pearson": 0.25}}
    Path("metrics/score.json").write_text(json.dumps(found))
""",
    "recipes/plain.yaml": "# As published\ntrain: {hidden: 8}\n",
    "recipes/wide.yaml": "# Wider\nbase: plain\ntrain: {hidden: 99}\nscore: {factor: 2.0, title: wide}\n",
    "data/raw/numbers/one.txt": "1\n",
    ".gitignore": "/models\n/runs/\n",
    ".dvcignore": (Path(__file__).parents[2] / ".dvcignore").read_text(),
}


class RowsProject(TinyProject):
    """The project in a folder; the first run, of the recipe ``plain``, is committed."""

    def __init__(self, folder: Path, *, run: bool = True) -> None:
        super().__init__(folder, run=False)
        self.environment["PYTHONPATH"] = str(Path(__file__).parents[2])
        if run:
            for name, text in {**FILES, "stages/__main__.py": LAUNCHER.read_text()}.items():
                self.write(name, text)
            self.do("git", "init", "-q", "-b", "main")
            self.do("dvc", "init", "-q")
            self.do("sightword", "params", "--recipe", "plain")
            self.commit("code")
            self.do("dvc", "repro", "-q")
            self.commit("first run")

    def programs(self) -> Path:
        """The folder of programs: the launcher of the stages loads more than a copy takes."""
        return fork_server.programs()

    def copy(self, folder: Path) -> RowsProject:
        super().copy(folder)
        return RowsProject(folder, run=False)

    def set(self, name: str, value: object) -> None:
        """Set a parameter, and let DVC run."""
        before = next(line for line in (self.folder / "params.yaml").read_text().splitlines() if f"{name}:" in line)
        self.edit("params.yaml", before, f"  {name}: {value}")

    def add(self, row: str, *options: str) -> str:
        """Run ``python -m study add``; what it printed, or its message if it fails."""
        done = self.run("python", "-m", "study", "add", row, *options)
        assert (done.returncode == 0) == (not done.stderr), done.stderr
        return done.stdout or done.stderr

    def row(self, key: str) -> Any:
        """The values in the line of a row."""
        topic, name = key.split("/")
        lines = (self.folder / f"study/results/{topic}.jsonl").read_text().splitlines()
        return next(row for row in map(json.loads, lines) if row["name"] == name)
