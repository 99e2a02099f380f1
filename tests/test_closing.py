"""The last lines of `make repro`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.cli.closing import closing
from pipeline.pipelines import Pipeline

STAGES = """\
stages:
  train:
    cmd: python -m stages train
    outs: [models/encoder]
    metrics: [metrics/train.json: {cache: false}]
  report:
    cmd: python -m stages report
    outs: [report/index.html, report/plots]
    metrics: [metrics/summary.json: {cache: false}]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for path, text in {
        "dvc.yaml": STAGES,
        "dvc.lock": "schema: '2.0'\n",
        "models/encoder/encoder.json": "{}",
        "metrics/train.json": '{"pictures": 320, "captions": 1600}',
        "metrics/summary.json": "{}",
        "report/index.html": "<p>",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *words], cwd=folder, check=True)


def test_the_lines_name_what_was_made_and_where_to_look(project):
    text = "\n".join(closing(Pipeline(project)))
    assert "  report/index.html" in text
    assert "the trained encoder, from 320 pictures with 1600 captions" in text
    assert "dvc metrics show metrics/summary.json" in text
    assert "commit" not in text  # there is no git here
    (project / "report/index.html").unlink()
    assert "report" not in "\n".join(closing(Pipeline(project)))


def test_a_run_that_git_does_not_have_is_named_with_the_line_that_commits_it(project):
    git(project, "init", "-q")
    (command,) = [line for line in closing(Pipeline(project)) if line.startswith("  git")]
    assert command == '  git add dvc.lock metrics/ && git commit -am "My first run"'
    git(project, "add", "-A")
    git(project, "commit", "-qm", "start")
    assert len(closing(Pipeline(project))) == 1

    (project / "dvc.lock").write_text("schema: '2.0'\nstages: {}\n")
    (project / "metrics/summary.json").write_text('{"image_r10": 86.75}')
    text = "\n".join(closing(Pipeline(project)))
    assert "Not committed: dvc.lock, metrics/summary.json (the record of this run)" in text
    assert "last digits of a run differ from\nmachine to machine" in text
    assert text.endswith('\n  git commit -am "My first run"')


def test_run_that_adds_to_the_ledger_alone_has_the_same_digits(project):
    (project / "metrics/scorings.csv").write_text("split\n")
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "start")
    (project / "metrics/scorings.csv").write_text("split\ntest\n")
    _, _, same, ledger, command = closing(Pipeline(project))
    assert same == "All digits are those of the last commit."
    assert ledger.startswith("Not committed: metrics/scorings.csv (how often your runs scored the test splits)")
    assert command == '  git commit -am "My first run"'


def test_the_lines_are_printed_for_the_pipeline_of_a_folder_too(project, repository):
    (project / "other").mkdir()
    stages = STAGES.replace("    outs", "    wdir: ..\n    outs").replace("report/index.html", "report/other")
    stages = stages.replace("metrics: [metrics/summary", "plots: [metrics/summary")
    (project / "other/dvc.yaml").write_text(stages)
    (project / "report/other").mkdir()
    (project / "report/other/index.html").write_text("<p>")
    command = [sys.executable, "-m", "pipeline.cli.closing", "other"]
    done = subprocess.run(command, cwd=project, env={"PYTHONPATH": str(repository)}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "  report/other/index.html" in done.stdout
    assert "models/encoder" not in done.stdout
    assert "dvc metrics show metrics/summary.json" in done.stdout  # under plots, as in all further pipelines


def test_the_line_of_a_first_run_commits_lock_metrics_and_the_removed_dvcignore(project):
    (project / "other").mkdir()
    (project / "other/dvc.yaml").write_text(STAGES.replace("    outs", "    wdir: ..\n    outs"))
    (project / "other/.dvcignore").write_text("dvc.yaml\n")
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "start")
    for path in ("other/dvc.lock", "metrics/other/summary.json", "runs/other/a.json"):
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text("{}")
    (project / "other/.dvcignore").unlink()
    lines = closing(Pipeline(project, "other"))
    assert "Not committed: other/.dvcignore, metrics/other/, other/dvc.lock" in "\n".join(lines)
    identity = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org"}
    identity |= {name.replace("AUTHOR", "COMMITTER"): value for name, value in identity.items()}
    subprocess.run(lines[-1], cwd=project, shell=True, check=True, env=os.environ | identity)
    assert len(closing(Pipeline(project, "other"))) == 1
    assert not subprocess.check_output(["git", "status", "--porcelain"], cwd=project)
