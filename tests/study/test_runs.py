"""Rows made from the runs of a small project, and made again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import fork_server
import pytest
from made_once import made_once
from ruamel.yaml import YAML
from tiny_project import TinyProject

from sightword.machine import processor
from study.remake import compare
from study.rows import Row, Score
from study.runs import read_scores

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


pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def ran(tmp_path_factory) -> RowsProject:
    """A project that was run once; whoever changes it takes a copy."""
    made = RowsProject(made_once(tmp_path_factory, "rows", RowsProject), run=False)
    return made.copy(tmp_path_factory.mktemp("rows") / "project")


@pytest.fixture
def project(ran, tmp_path) -> RowsProject:
    """A copy of one's own."""
    return ran.copy(tmp_path / "project")


def locked(project, stage: str, path: str) -> str:
    stages = YAML(typ="safe").load(project.folder / "dvc.lock")["stages"]
    return next(one["md5"] for kind in ("deps", "outs") for one in stages[stage][kind] if one["path"] == path)


def test_run_that_lies_here_becomes_a_row_with_its_facts(project):
    printed = project.add("toys/plain", "--recipe", "plain")
    assert "toys/plain, recipe plain, seeds [0]" in printed
    row = project.row("toys/plain")
    (run,) = row.pop("runs")
    assert row == {"name": "plain", "recipe": "plain"}
    assert run["scores"] == {
        "score.test.r10": {"value": 9.0, "low": 7.5, "high": 10.5},
        "score.mean.pearson": {"value": 0.25},
        "train.loss": {"value": 0.5},
    }
    assert run["inputs"] == {"data/raw/numbers": locked(project, "train", "data/raw/numbers")}
    assert [*run["outputs"]] == ["metrics/score.json", "metrics/train.json", "models/encoder"]
    assert (run["seeds"], run["processor"]) == ([0], processor())
    assert run["commit"] == project.do("git", "rev-parse", "HEAD").strip()
    assert run.keys() >= {"date", "packages", "threads", "seconds"}


def test_seeds_of_experiments_extend_the_row(project):
    base = project.do("git", "rev-parse", "HEAD").strip()
    for seed in (2, 1):
        project.do("dvc", "exp", "run", "-q", "-S", f"train.seed={seed}", "--name", f"seed{seed}")
    project.do("git", "checkout", "-q", ".")
    for rev in ("seed2", "seed1"):
        project.add("toys/seeds", "--rev", rev, "--recipe", "plain", "--scores", r"r10$")
    runs = project.row("toys/seeds")["runs"]
    assert [(run["seeds"], run["commit"]) for run in runs] == [([1], base), ([2], base)]
    assert [run["scores"]["score.test.r10"]["value"] for run in runs] == [9.1, 9.2]
    assert "seed 1 already" in project.add("toys/seeds", "--rev", "seed1")
    project.add("toys/seeds", "--rev", "seed1", "--replace", "--note", "A sentence.")
    assert project.row("toys/seeds")["note"] == "A sentence."


def test_file_that_nobody_else_has_needs_a_reason(project):
    project.write("data/raw/numbers/own.txt", "30\n")
    project.do("dvc", "repro", "-q")
    message = project.add("toys/private", "--recipe", "plain")
    assert "neither git nor `sightword fetch` has data/raw/numbers/own.txt" in message
    project.add("toys/private", "--recipe", "plain", "--private", "data/raw/numbers/own.txt=measured by hand")
    assert project.row("toys/private")["private"] == {"data/raw/numbers/own.txt": "measured by hand"}


def of_other_parameters(project) -> None:
    project.set("hidden", 9)


def of_edited_metrics(project) -> None:
    project.edit("metrics/score.json", "9.0", "99.0")


def of_uncommitted_code(project) -> None:
    project.edit("stages/score.py", "0.25", "0.75")
    project.do("dvc", "repro", "-q")


def of_edited_metrics_saved_by_dvc(project) -> None:
    project.edit("metrics/score.json", "9.0", "99.0")
    project.do("dvc", "commit", "-q", "-f")


def of_half_a_run(project) -> None:
    project.set("hidden", 9)
    project.do("dvc", "repro", "-q", "train")


def of_a_project_that_was_never_pushed(project) -> None:
    project.do("git", "remote", "add", "origin", "elsewhere")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (of_other_parameters, "train.hidden is 9, in dvc.lock 8"),
        (of_edited_metrics, "metrics/score.json: is not the file that its stage wrote"),
        (of_uncommitted_code, "stages/score.py: the code with which score ran is not that of the commit"),
        (of_edited_metrics_saved_by_dvc, "score does not agree with the records of runs"),
        (of_half_a_run, "models/encoder: was made again by train since score read it"),
        (of_a_project_that_was_never_pushed, "is on a remote. `git push`"),
    ],
)
def test_run_whose_numbers_are_not_its_own_is_refused(project, change, words):
    change(project)
    assert words in project.add("toys/plain", "--recipe", "plain")
    assert not (project.folder / "study/results").exists()


def remake(project, *options: str) -> tuple[int, str, str]:
    done = project.run("python", "-m", "study", "remake", "toys/plain", *options)
    return done.returncode, done.stdout, done.stderr


def test_run_made_again_is_equal_and_leaves_the_project(project):
    project.add("toys/plain", "--recipe", "plain")
    project.commit("row")
    before = project.do("git", "status", "--porcelain"), project.do("find", ".dvc/cache", "models", "-type", "f")
    code, _, messages = remake(project)
    assert code == 0, messages
    assert "3 scores equal, 0 differ, 0 beyond the bounds (all must be equal)" in messages
    assert (
        project.do("git", "status", "--porcelain"),
        project.do("find", ".dvc/cache", "models", "-type", "f"),
    ) == before
    file = project.folder / "study/results/toys.jsonl"
    file.write_text(file.read_text().replace('"value": 0.25', '"value": 0.250001'))
    code, table, _ = remake(project)
    assert code == 1
    assert table == "score.mean.pearson: row 0.250001, again 0.25, allowed 0.250001 to 0.250001, BEYOND\n"
    shutil.rmtree(project.folder / "data/raw/numbers")
    code, _, messages = remake(project, "--dry-run")
    assert code == 1
    assert "its data is not at hand" in messages


def row(*values: float, **about: object) -> Row:
    runs = [{"seeds": [seed], "scores": {"r10": {"value": value, **about}}} for seed, value in enumerate(values)]
    return Row.model_validate({"topic": "a", "name": "b", "recipe": "c", "runs": runs})


@pytest.mark.parametrize(
    ("one", "value", "equal", "beyond"),
    [
        (row(70.0), 70.0, True, []),
        (row(70.0, low=68.0, high=72.0), 72.1, False, [True]),
        (row(70.0), 12.0, False, [False]),  # nothing is known of its spread
        (row(69.0, 70.0, 71.0), 72.4, False, [False]),  # mean 70, deviation 1
        (row(69.0, 70.0, 71.0), 72.6, False, [True]),
        (row(69.0, 71.0, low=68.0, high=72.0), 72.5, False, [True]),  # two seeds are too few
    ],
)
def test_difference_counts_beyond_the_bounds_alone(one, value, equal, beyond):
    found = compare(one, one.runs[0], {"r10": Score(value=value)}, equal=equal)
    assert [difference.beyond for difference in found] == beyond


def test_scores_have_their_intervals_and_counts_are_left_out():
    values = {
        "r1": 93.75, "r1_ci95": 2.5, "r1_bootstrap95": [90.0, 97.0], "r5": 99.75, "r5_ci95": [98.5, 99.9],
        "queries": 400, "note": "text", "undefined": None, "best": True, "surprise.OnWN": {"pearson": 0.5, "pairs": 3},
    }  # fmt: skip
    assert read_scores("metrics/retrieval.json", json.dumps(values).encode()) == {
        "retrieval.r1": Score(value=93.75, low=91.25, high=96.25),
        "retrieval.r5": Score(value=99.75, low=98.5, high=99.9),
        "retrieval.surprise.OnWN.pearson": Score(value=0.5),
    }
