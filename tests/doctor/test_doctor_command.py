"""``sightword doctor`` as a user runs it."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from pathlib import Path

import pytest
from checkout import Checkout

from pipeline.cli import main
from pipeline.doctor import needs
from pipeline.doctor.checks import CHECKS
from pipeline.doctor.context import Situation
from pipeline.doctor.corpus_size import measure
from sightword import machine

MACHINE = {check.name for check in CHECKS if not check.needs_project}


@pytest.fixture
def copy(repository: Path, tmp_path: Path) -> Checkout:
    found = Checkout(repository, tmp_path / "copy", tmp_path / "store", forked=False)
    for name in [*found.environment]:
        if name.startswith("SIGHTWORD_") and name not in ("SIGHTWORD_STORE", "SIGHTWORD_SCRATCH"):
            del found.environment[name]
    return found


def doctor(copy: Checkout, *options: str, ok: bool = True) -> list[dict[str, str]]:
    done = copy.run(sys.executable, "-m", "pipeline.cli", "doctor", "--json", *options, ok=False)
    found: list[dict[str, str]] = json.loads(done.stdout)
    bad = [finding for finding in found if finding["state"] == "problem"]
    assert done.stderr == ""
    assert done.returncode == (1 if bad else 0)
    assert bool(bad) is not ok, bad
    assert all(finding["todo"] for finding in found if finding["state"] != "ok"), found
    return found


@pytest.mark.slow
def test_a_healthy_checkout(copy: Checkout) -> None:
    start = time.monotonic()
    found = doctor(copy)
    assert time.monotonic() - start < 60  # 4 s alone on two cores; the other tests may have them
    assert list(found[0]) == ["check", "state", "what", "todo"]
    assert {finding["check"] for finding in found} == {check.name for check in CHECKS}
    # What is not ok is so: no remote, perhaps other versions than the pinned ones, a busy machine.
    warned = {finding["check"] for finding in found if finding["state"] == "warning"}
    assert "remote" in warned
    assert warned <= {"remote", "packages", "settings", "places", "device", "memory"}, found
    done = copy.run(sys.executable, "-m", "pipeline.cli", "doctor", "--quick", ok=False)
    assert done.returncode == 0
    assert re.search(r"0 problems, \d+ warnings, \d+ ok$", done.stdout.strip())
    assert copy.run("git", "status", "--porcelain").stdout == ""  # nothing was changed


@pytest.mark.slow
def test_everything_in_disorder_at_once(copy: Checkout, tmp_path: Path) -> None:
    """Each thing is told, and nothing ends in a traceback."""
    (copy.folder / "params.yaml").write_text("a: [\n")
    (copy.folder / "dvc.yaml").write_text("stages: [\n")
    (copy.folder / "dvc.lock").write_text("<<<<<<< HEAD\n")
    (copy.folder / ".dvc/config").write_text("[core\n")
    shutil.rmtree(copy.folder / ".git")
    found = doctor(copy, ok=False)
    problems = [finding["what"] for finding in found if finding["state"] == "problem"]
    for words in ("params.yaml", "dvc.yaml", "dvc.lock", "DVC cannot work here"):
        assert any(words in what for what in problems), words
    assert not any("could not be checked" in what for what in problems), problems
    assert any("no git repository" in finding["what"] for finding in found)
    done = copy.run(sys.executable, "-m", "pipeline.cli", "doctor", "--lock", ok=False)
    assert (done.returncode, done.stderr) == (1, "")


def test_outside_of_a_project(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    main(["doctor", "--quick", "--json"])
    checks = {finding["check"] for finding in json.loads(capsys.readouterr().out)}
    assert checks <= MACHINE
    assert {"python", "packages", "settings", "folders"} <= checks
    main(["doctor", "--quick"])
    assert "there is no project here" in capsys.readouterr().out
    assert main(["doctor", "--lock"]) == 1
    assert "no dvc.yaml here" in capsys.readouterr().err


def test_options_that_make_no_sense(capsys) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["doctor", "--lock", "--quick"])
    assert stopped.value.code == 2


def test_every_check_stands_on_its_page(repository) -> None:
    page = (repository / "docs/doctor.md").read_text()
    assert not [check.name for check in CHECKS if f"| `{check.name}` |" not in page]


@pytest.mark.full
def test_what_was_reckoned_is_what_a_run_writes(copy: Checkout, tmp_path: Path, monkeypatch) -> None:
    """A smaller sample, run as far as the encoder; then a remote, and what others would find there."""
    for split, count in (("train", 64), ("dev", 16), ("test", 16)):
        copy.change("data/raw/sample/scenes.yaml", **{f"pictures__{split}": count})
    copy.change("params.yaml", train__epochs=2, train__cycle=1, resize__encoding="png")
    for name, value in copy.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SIGHTWORD_WORKERS", "0")
    with Situation(copy.folder, copy.folder, dvc="pipeline.doctor.dvc_facts") as before:
        corpus = measure(before)
        assert corpus is not None
        assert corpus.pictures == 96
        reckoned = {item.path: item.bytes for item in needs.disk(before, corpus) if item.path}
        held = {item.stage for item in needs.memory(before, corpus, machine.current())}
    assert set(reckoned) == {"data/corpus", "data/resized", "data/features", "models/snapshots", "models/encoder"}
    assert held == {"resize", "features", "train"}
    copy.run("dvc", "repro", "-q", "select", PYTHONPATH=str(copy.folder))
    written = {path: _size(copy.folder / path) for path in reckoned}
    exact = {"data/features": 0.02, "models/snapshots": 0.02, "models/encoder": 0.02, "data/corpus": 0.5}
    for path, tolerance in exact.items():
        assert reckoned[path] == pytest.approx(written[path], rel=tolerance), path
    # Drawings are smaller than the photographs that are assumed before any picture is there.
    assert written["data/resized"] < reckoned["data/resized"]
    again = Situation(copy.folder, copy.folder)
    after = measure(again)
    assert after is not None
    assert (after.pictures, after.how) == (96, "images.parquet")
    assert after.pictures * after.resized == pytest.approx(written["data/resized"], rel=0.02)
    store = sum(path.stat().st_size for path in Path(os.environ["SIGHTWORD_STORE"]).rglob("*.parquet"))
    expected = next(item.bytes for item in needs.disk(_with_width(again), after) if item.place == "the store")
    assert expected == pytest.approx(store, rel=0.05)


def _with_width(situation: Situation) -> Situation:
    situation.known["torch"] = {"dimension": 1024}
    return situation


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
