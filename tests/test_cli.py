"""The command line: what it prints, what it writes, how it fails."""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pipeline.cli import main
from sightword.evaluation.semantics.datasets import RatedPairs
from sightword.evaluation.semantics.results import write_pairs

SAMPLE = "# The sample.\n\nreport:\n  title: Sample\n  gallery: 13\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two recipes, of one section only, and the user in it."""
    (tmp_path / "dvc.yaml").write_text("stages:\n  report:\n    cmd: python -m stages report\n")
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "sample.yaml").write_text(SAMPLE)
    (tmp_path / "recipes" / "flickr8k.yaml").write_text(
        "# Flickr8k as published.\n\nbase: sample\n\nreport:\n  title: Flickr8k\n  gallery: 24\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_help_imports_nothing_heavy() -> None:
    """So that it answers in a blink, on a busy machine too."""
    heavy = {"torch", "pandas", "pydantic", "dvc", "numpy", "scipy", "matplotlib", "h5py", "yaml", "jinja2", "requests"}
    code = f"""
import sys, pipeline.cli
try:
    pipeline.cli.main(["--help"])
finally:
    print("heavy:", sorted({heavy} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "params" in done.stdout
    assert done.stdout.endswith("heavy: []\n")


def test_command_with_closed_standard_output_ends_well(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["params", "--list"]) == 0


def test_a_recipe_is_written_whole_with_its_comments(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["params", "--recipe", "sample"]) == 0
    text = (project / "params.yaml").read_text()
    assert text.startswith("# The sample.\n")
    assert "\n  title: Sample               # " in text
    assert "\n  # How many captions, and how many pictures, the gallery shows" in text
    assert "is now the recipe sample (The sample.)" in capsys.readouterr().out


def test_recipes_are_listed_by_pipeline_with_what_they_need_or_are(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "recipes/sample.yaml").write_text(SAMPLE.replace("\n", "\n# Needs: nothing. Time: 2 minutes.\n", 1))
    (project / "recipes/wrong.yaml").write_text(f"# {'A long word ' * 20}\nbase: nowhere\n")
    assert main(["params", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "first pipeline            needs             time on two cores"
    assert "  flickr8k                Flickr8k as published." in lines  # the project's, in place of the code's
    assert "  sample                  nothing           2 minutes" in lines
    assert "  own                     pictures          minutes" in lines  # the code's
    second = next(number for number, line in enumerate(lines) if line.startswith("cannot be used "))
    assert lines[second + 1].startswith("  wrong                   A long word")
    assert lines[second + 1].endswith(" …")
    assert len(lines[second + 1]) <= 80


def test_an_unknown_recipe_is_told_with_a_near_name(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["params", "--recipe", "flikr8k"]) == 1
    message = capsys.readouterr().err
    assert (
        message
        == "sightword: flikr8k: no such recipe (did you mean 'flickr8k'?). `sightword params --list` shows all.\n"
    )
    assert not (project / "params.yaml").exists()


OUTSIDE = "this command needs a project, and there is none here or above. Go to your project, or make one with "


@pytest.mark.parametrize(
    "argv",
    [
        *(
            ["params", "--recipe", "sample"],
            ["params"],
            ["params", "--check"],
            ["sweep"],
            ["compare", "HEAD", "smaller"],
        ),
        *(["sweep", "grid.yaml"], ["audit", "metrics/summary.json"], ["audit", "--verify", "train"]),
        *(["doctor", "--lock"], ["fetch", "senteval"], ["fetch", "weights"], ["init", "--renew"]),
    ],
)
def test_outside_of_a_project_each_command_that_needs_one_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], argv: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 1
    out, err = capsys.readouterr()
    assert err.startswith(f"sightword: {tmp_path}: {OUTSIDE}`sightword init FOLDER`.")
    assert (out, err.count("\n")) == ("", 1)
    assert not list(tmp_path.iterdir())


def test_outside_of_a_project_recipes_parameters_and_data_sets_are_known(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["params", "--list"]) == 0
    listed = capsys.readouterr().out
    assert re.search(r"^  flickr8k +pictures +7 hours$", listed, re.MULTILINE)
    assert max(map(len, listed.splitlines())) <= 80
    assert main(["params", "--explain", "train.margin"]) == 0
    assert main(["fetch"]) == 0
    capsys.readouterr()
    assert main(["fetch", "flickr8k", "--to", "elsewhere", "--dry-run"]) == 0
    assert "Flickr8k" in capsys.readouterr().out


def test_an_explained_parameter_has_its_present_value(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def first_line(name: str) -> str:
        assert main(["params", "--explain", name]) == 0
        return capsys.readouterr().out.partition("\n")[0]

    monkeypatch.chdir(repository)
    assert first_line("train.hidden").endswith("published value 1024; here 96")
    monkeypatch.chdir(tmp_path)
    assert first_line("train.margin").endswith("published value 0.2")
    shutil.copy(repository / "dvc.yaml", tmp_path)
    for wrong in ("train: [", "- train"):
        Path("params.yaml").write_text(wrong)
        assert first_line("train.margin").endswith("published value 0.2")


def test_misspelt_command_or_option_is_told_with_a_near_one(capsys: pytest.CaptureFixture[str]) -> None:
    wrong_option = ["search", "flickr8k", "--colection", "photos"]
    for argv, near in (
        (["serch", "x"], "search"),
        (["store", "verfy"], "verify"),
        (wrong_option, "--collection"),
        (["--versoin"], "--version"),
    ):
        with pytest.raises(SystemExit) as stopped:
            main(argv)
        assert stopped.value.code == 2
        assert f"(did you mean '{near}'?)" in capsys.readouterr().err


def test_without_a_command_the_help_appears(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([])
    out, err = capsys.readouterr()
    assert (stopped.value.code, out) == (2, "")
    assert "init" in err
    assert "Make a project in a new folder" in err


def test_params_are_printed_section_by_section(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["params", "--recipe", "sample"])
    capsys.readouterr()
    assert main(["params"]) == 0
    assert capsys.readouterr().out == ("report:\n  title: Sample\n  gallery: 13\n  published: true\n")
    assert main(["params", "--check"]) == 0
    assert capsys.readouterr().out == "params.yaml: all 1 sections are right\n"


def test_a_file_that_cannot_be_written_is_one_line(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "params.yaml").unlink(missing_ok=True)
    (project / "params.yaml").mkdir()
    assert main(["params", "--recipe", "sample"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


@pytest.fixture
def systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two projects, good and poor, each with a table of pairs, and the user in the folder above them."""
    for name, noise in (("good", 1.0), ("poor", 4.0)):
        judged = []
        for number, (task, subtask, count) in enumerate((("STS13", "FNWN", 189), ("STS16", "plagiarism", 230))):
            random = np.random.default_rng(number)
            gold = random.uniform(0, 5, count)
            texts = [f"sentence {place}" for place in range(count)]
            seen = (np.arange(count) < 50, np.zeros(count, bool)) if name == "good" else None
            scores = gold + noise * random.standard_normal(count)
            pairs = RatedPairs(texts, texts, gold)
            judged.append(SimpleNamespace(task=task, subtask=subtask, pairs=pairs, scores=scores, seen=seen))
        (tmp_path / name / "data" / "semantics").mkdir(parents=True)
        write_pairs(tmp_path / name / "data" / "semantics" / "pairs.parquet", judged)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_comparison_as_csv_is_the_same_twice(systems: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outs = []
    for options in (["--csv"], ["--csv"], ["--csv", "--seed", "1"]):
        assert main(["compare", "good", "poor", "--samples", "200", *options]) == 0
        outs.append(capsys.readouterr().out)
    first, again, other = outs
    assert first == again != other
    rows = list(csv.DictReader(io.StringIO(first)))
    assert [row["subtask"] for row in rows] == ["FNWN", "plagiarism", "mean of 2"]
    assert 0.4 < float(rows[0]["difference"]) < 0.9


def test_a_system_is_set_beside_a_published_one(systems: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "good", "--published", "char-gru"]) == 0
    out, err = capsys.readouterr()
    assert "B: char-GRU (Flickr8k), Merkx & Frank 2019" in out
    assert "0.238 [0.099, 0.368]" in out
    assert "A on 2, char-GRU (Flickr8k) on 0 of 2." in out
    assert "left out: STS12 MSRpar" in err
    assert main(["compare", "main", "--published", "char-gru"]) == 1
    assert "this command needs a project" in capsys.readouterr().err
    assert main(["compare", "poor", "--published", "infersent", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert (rows[1]["b"], rows[1]["b_lo"], rows[1]["b_hi"], rows[1]["better"]) == ("0.808", "0.758", "0.849", "B")


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["poor", "--published", "bow"],
        ["poor", "--samples", "0"],
        ["--published", "bow", "--unseen"],
    ],
)
def test_comparisons_that_make_no_sense_end_with_2(systems: Path, options: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["compare", "good", *options])
    assert stopped.value.code == 2


def test_comparison_with_an_unknown_side_is_one_message(systems: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (systems / "empty").mkdir()
    for options, message in (
        (["empty"], "sightword: empty: is a folder without results"),
        (["none.parquet"], "sightword: none.parquet: does not exist"),
        (["--published", "elmo"], "sightword: elmo: no such published system; expected one of bow, infersent"),
    ):
        assert main(["compare", "good", *options]) == 1
        assert capsys.readouterr().err.startswith(message)
