"""The command line: what it prints, what it writes, how it fails."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

import pipeline
from pipeline import params
from pipeline.cli import main

SAMPLE = """# The sample.
report:
  title: Sample  # shown at the top
  gallery: 12
  thumbnail: 128
  published: true
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two recipes, of one section only, and the user in it."""
    monkeypatch.setattr(params, "SECTIONS", {"report": params.SECTIONS["report"]})
    (tmp_path / "dvc.yaml").write_text("stages: {}\n")
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "sample.yaml").write_text(SAMPLE)
    (tmp_path / "recipes" / "flickr8k.yaml").write_text(
        SAMPLE.replace("The sample", "Flickr8k as published")
        .replace("gallery: 12", "gallery: 24")
        .replace("title: Sample", "title: Flickr8k")
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_help_answers_in_a_blink(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pipeline.cli", "--help"]
    times = []
    for _ in range(3):
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        times.append(time.perf_counter() - start)
    assert "recipe" in done.stdout
    assert min(times) < 0.5


def test_help_imports_nothing_heavy() -> None:
    heavy = {"torch", "pandas", "pydantic", "dvc", "numpy"}
    code = f"import sys, pipeline.cli; print(sorted({heavy} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"sightword {pipeline.__version__}\n"


@pytest.mark.parametrize("argv", [[], ["nonsense"], ["recipe"], ["recipe", "sample", "--nonsense"]])
def test_wrong_arguments_end_with_2(project: Path, argv: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(argv)
    assert stopped.value.code == 2


def test_a_recipe_is_written_whole_with_its_comments(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipe", "sample"]) == 0
    assert (project / "params.yaml").read_text() == SAMPLE
    assert "is now the recipe sample (The sample.)" in capsys.readouterr().out


def test_a_recipe_is_written_beside_dvc_yaml_from_a_folder_below(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "docs").mkdir()
    monkeypatch.chdir(project / "docs")
    assert main(["recipe", "sample"]) == 0
    assert (project / "params.yaml").read_text() == SAMPLE


def test_another_file_can_be_written(project: Path) -> None:
    assert main(["recipe", "sample", "--params", "other.yaml"]) == 0
    assert (project / "other.yaml").exists()
    assert not (project / "params.yaml").exists()


def test_recipes_are_listed_with_what_they_are(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipe", "--list"]) == 0
    assert capsys.readouterr().out.splitlines() == ["flickr8k  Flickr8k as published.", "sample    The sample."]


def test_an_unknown_recipe_is_told_with_a_near_name(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipe", "flikr8k"]) == 1
    message = capsys.readouterr().err
    assert message == "sightword: flikr8k: no such recipe (did you mean 'flickr8k'?); expected flickr8k, sample\n"
    assert not (project / "params.yaml").exists()


def test_outside_a_project_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["recipe", "sample"]) == 1
    assert "no dvc.yaml" in capsys.readouterr().err


def test_edits_are_kept_and_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edited = SAMPLE.replace("gallery: 12", "gallery: 13")
    (project / "params.yaml").write_text(edited)
    assert main(["recipe", "flickr8k"]) == 1
    assert "report.gallery: 13 (recipe sample: 12)" in capsys.readouterr().err
    assert (project / "params.yaml").read_text() == edited
    assert main(["recipe", "flickr8k", "--force"]) == 0
    assert "gallery: 24" in (project / "params.yaml").read_text()


def test_params_are_printed_section_by_section(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["recipe", "sample"])
    capsys.readouterr()
    assert main(["params"]) == 0
    assert capsys.readouterr().out == "report:\n  title: Sample\n  gallery: 12\n  thumbnail: 128\n  published: true\n"
    assert main(["params", "--check"]) == 0
    assert capsys.readouterr().out == "params.yaml: all 1 sections are right\n"


def test_wrong_params_end_with_1_and_one_message(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "params.yaml").write_text(SAMPLE.replace("gallery: 12", "galery: 12\n  thumbnial: 3"))
    assert main(["params", "--check"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "report.galery" in captured.err
    assert "did you mean 'gallery'?" in captured.err
    assert "Traceback" not in captured.err


def test_a_file_that_cannot_be_written_is_one_line(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "blocked").write_text("a file, no folder")
    assert main(["recipe", "sample", "--params", "blocked/params.yaml"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
