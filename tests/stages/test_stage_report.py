"""The stage report as a program."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import fork_server
from finished_run import write_run
from stage_here import run_here

from pipeline.params import params_file
from sightword.vse.page import page


def start(folder: Path, repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    recipe = str(repository / "params.yaml")
    command = [fork_server.python(), "-m", "stages", "report", "--params", recipe, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_stage_writes_the_librarys_page_and_logs_the_fallbacks(tmp_path: Path, repository: Path) -> None:
    places = write_run(tmp_path)
    done = start(tmp_path, repository)
    assert done.returncode == 0, done.stderr
    assert "report: random weights: for demonstration" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("report: report/index.html")
    page.write(places, params_file.section(repository / "params.yaml", "report"), tmp_path / "same.html")
    assert (tmp_path / "report" / "index.html").read_bytes() == (tmp_path / "same.html").read_bytes()
    assert (tmp_path / "report" / "plots" / "scatter.svg").read_text().startswith("<?xml")
    assert json.loads((tmp_path / "metrics" / "summary.json").read_text())["dev_r10"] == 61.5


def test_damaged_input_leaves_the_earlier_page(tmp_path: Path, repository: Path) -> None:
    places = write_run(tmp_path)
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "index.html").write_text("earlier")
    places.top.write_bytes(places.top.read_bytes()[:100])
    done = run_here(repository, tmp_path, "report", "--params", str(repository / "params.yaml"))
    assert done.returncode == 1
    assert done.stderr.startswith("report: data/retrieval/top.parquet: is damaged or was changed")
    assert "Traceback" not in done.stderr
    assert (tmp_path / "report" / "index.html").read_text() == "earlier"
    assert list((tmp_path / "report").iterdir()) == [tmp_path / "report" / "index.html"]
