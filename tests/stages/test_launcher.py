"""A stage as a program: help, errors, exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import fork_server
import numpy as np
import pytest
import torch
from finished_run import write_run
from stage_here import run_here

from pipeline.params import params_file
from sightword.report.departures import departures_of
from sightword.vse.page import page
from stages.report import MADE_BY

NAMES = ("features", "train", "semantics")


SIGNALS = (signal.SIGINT, signal.SIGTERM)


def start(repository, folder, name, *arguments, **environment):
    return subprocess.run(
        [fork_server.python(), "-m", "stages", name, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(repository), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def project(repository, tmp_path):
    (tmp_path / "params.yaml").write_text((repository / "params.yaml").read_text())
    return tmp_path


@pytest.mark.parametrize("name", NAMES)
def test_help_describes_the_stage_and_loads_nothing_heavy(repository, project, name):
    code = (
        f"import runpy, sys; sys.argv = ['x', '{name}', '--help']\n"
        f"try: runpy.run_module('stages', run_name='__main__')\n"
        f"except SystemExit as stop: assert stop.code == 0\n"
        f"heavy = {{'torch', 'torchvision', 'pandas', 'pyarrow', 'h5py', 'matplotlib', 'dvc'}} & set(sys.modules)\n"
        f"assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"The stage {name} of dvc.yaml." in done.stdout


def test_lines_of_the_log_and_a_progress_bar_do_not_collide(repository):
    code = """if True:
        import logging
        from tqdm import tqdm
        from stages import __main__ as launcher
        launcher._start_logging(quiet=False)
        for number in tqdm(range(3), mininterval=0):
            logging.getLogger("sightword").info("line %d", number)
    """
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, check=True)
    shown = [line.rpartition("\r")[2] for line in done.stderr.decode().split("\n")]
    assert shown[:3] == ["line 0", "line 1", "line 2"]
    assert shown[3].startswith("100%")


def test_under_dvc_the_message_explains_how_to_restore_removed_outputs(repository, project):
    (project / "dvc.yaml").write_text((repository / "dvc.yaml").read_text())
    for lock in (None, "schema: '2.0'\nstages: {select: {cmd: x}}\n"):  # the stage never ran
        if lock:
            (project / "dvc.lock").write_text(lock)
        done = start(repository, project, "train", DVC_STAGE="train")
        assert done.returncode == 1
        assert "To have them back" not in done.stderr
    (project / "dvc.lock").write_text("schema: '2.0'\nstages: {train: {cmd: x}, captions: {cmd: x}}\n")
    done = start(repository, project, "train", DVC_STAGE="train")
    commands = "`dvc checkout models/snapshots plots/train` and `git checkout -- metrics/train.json`"
    assert f"To have them back: {commands}" in done.stderr
    (project / "plots/train").mkdir(parents=True)  # as a run that has begun leaves it
    done = start(repository, project, "train", DVC_STAGE="train")
    assert f"To have them back: {commands.replace('dvc checkout', 'dvc checkout --force')}" in done.stderr
    done = start(repository, project, "captions", DVC_STAGE="captions")
    assert done.returncode == 1
    assert "captions: data/corpus/captions.parquet: does not exist" in done.stderr
    assert "To have them back: `dvc checkout data/captions`" in done.stderr


@pytest.mark.parametrize(("old", "new", "code"), [("case: keep", "case: lower", 1), ("margin: 0.2", "margin: 0.3", 0)])
def test_a_run_whose_parameters_change_meanwhile_fails(repository, project, monkeypatch, old, new, code):
    """DVC would record the new ones with the outputs of the old ones."""
    (project / "dvc.yaml").write_text((repository / "dvc.yaml").read_text())

    def work(settings):
        text = (project / "params.yaml").read_text()
        assert text.count(old) == 1
        (project / "params.yaml").write_text(text.replace(old, new))

    monkeypatch.setattr("stages.captions.work", work)
    done = run_here(repository, project, "captions", DVC_STAGE="captions", SIGHTWORD_STORE=str(project / "store"))
    assert done.returncode == code, done.stderr
    assert ("captions: captions.case changed while the stage ran" in done.stderr) == bool(code)


@pytest.mark.parametrize("library", [torch, np])
def test_lack_of_memory_is_one_message(repository, project, monkeypatch, library):
    monkeypatch.setattr("stages.captions.work", lambda _: library.empty(1 << 57))
    done = run_here(repository, project, "captions")
    assert done.returncode == 1
    assert re.match(r"captions: memory does not suffice \(.*allocate.*\)\. Choose smaller widths", done.stderr)
    assert done.stderr.count("\n") == 1


def test_fault_of_a_named_file_is_one_message(repository, project, monkeypatch):
    (project / "plain").touch()
    monkeypatch.setattr("stages.captions.work", lambda _: (project / "plain/in").mkdir())
    done = run_here(repository, project, "captions")
    assert done.returncode == 1
    assert re.match(r"captions: Not a directory \(.*plain/in\)\. Nothing half-written is left\.", done.stderr)
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("number", SIGNALS)
def test_after_an_interruption_the_message_tells_the_way_back(repository, project, monkeypatch, number):
    (project / "dvc.yaml").write_text((repository / "dvc.yaml").read_text())
    (project / "dvc.lock").write_text("schema: '2.0'\nstages: {captions: {cmd: x}}\n")

    def interrupted(_):
        os.kill(os.getpid(), number)
        time.sleep(9)

    monkeypatch.setattr("stages.captions.work", interrupted)
    before = {one: signal.getsignal(one) for one in SIGNALS}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job in the background ignores it
    try:
        done = run_here(repository, project, "captions", DVC_STAGE="captions")
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    assert done.returncode == 130
    first, second = done.stderr.splitlines()
    assert first == "captions: interrupted"
    assert second.endswith("To have them back: `dvc checkout data/captions`")


def test_a_stage_with_a_matrix_runs_for_one_item(repository, tmp_path):
    done = start(repository, repository, "grounded", "train", "--scenario", "t")
    assert done.returncode == 2
    message = "one run of train is for one item: give --scenario and --seed; items are t-0, cg-0, pg-0, cg-pg-0"
    assert message in done.stderr
    done = start(repository, repository, "grounded", "train", "--scenario", "cgg", "--seed", "0")
    assert done.returncode == 1
    assert "grounded/dvc.yaml:train: train: no scenario is called 'cgg' (did you mean 'cg'?)" in done.stderr
    for folder in ("grounded", ".dvc"):
        (tmp_path / folder).mkdir()
    for file in ("dvc.yaml", "params.yaml", "grounded/dvc.yaml", "grounded/params.yaml"):
        (tmp_path / file).write_bytes((repository / file).read_bytes())
    entry = "train@cg-pg-0"
    (tmp_path / "grounded/dvc.lock").write_text(f"schema: '2.0'\nstages: {{{entry}: {{cmd: x}}}}\n")
    item = ("--scenario", "cg-pg", "--seed", "0")
    done = start(repository, tmp_path, "grounded", "train", *item, DVC_STAGE=f"grounded/dvc.yaml:{entry}")
    assert done.returncode == 1
    commands = (
        "`dvc checkout models/grounded/cg-pg-0 plots/grounded/cg-pg-0` and "
        "`git checkout -- metrics/grounded/cg-pg-0/train.json`"
    )
    removed = "DVC removed this stage's earlier outputs before it ran. To have them back"
    assert f"grounded/dvc.yaml:{entry}: {removed}: {commands}" in done.stderr


def test_another_interpreter_is_reported_in_one_line(repository, tmp_path):
    """-S leaves out site-packages: an interpreter in which nothing is installed."""
    done = subprocess.run(
        [sys.executable, "-S", "-m", "stages", "train"],
        cwd=repository,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "has no Sightword installed (it lacks h5py" in done.stderr


def test_the_stage_writes_the_librarys_page_and_logs_the_fallbacks(tmp_path: Path, repository: Path) -> None:
    places = write_run(tmp_path)
    done = start(repository, tmp_path, "report", "--params", str(repository / "params.yaml"))
    assert done.returncode == 0, done.stderr
    assert "report: random weights: for demonstration" in done.stderr
    assert "report: report/index.html" in done.stderr
    sections = params_file.load(repository / "params.yaml")
    departed = departures_of(sections, MADE_BY)
    page.write(places, sections["report"], tmp_path / "same.html", None, departed)
    assert '<td class="prose">infonce</td><td class="prose">hinge</td>' in (tmp_path / "same.html").read_text()
    assert (tmp_path / "report" / "index.html").read_bytes() == (tmp_path / "same.html").read_bytes()
    assert (tmp_path / "report" / "plots" / "scatter.svg").read_text().startswith("<?xml")
    assert json.loads((tmp_path / "metrics" / "summary.json").read_text())["dev_r10"] == 61.5
