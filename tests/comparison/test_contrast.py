"""Two revisions side by side: what is compared, where it comes from, and what is said where something is missing."""

from __future__ import annotations

import csv
import io
import json
import shutil

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from pipeline.cli import main
from pipeline.comparison.contrast import contrast, opened
from sightword.io.files import write_table


def compared(project, a="good", b="poor", **options):
    with opened(a, b, project.folder) as (one, other):
        return contrast(one, other, project=project.folder, samples=500, **options)


def test_two_revisions_make_tables_and_change_nothing(project, capsys):
    assert main(["compare", "good", "poor", "--samples", "500"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("A: good (")
    assert ": a poor run)" in out
    lines = [line.split() for line in out.splitlines()]
    assert ["caption", "R@1", "80", "35.0", "0.0"] in [line[:5] for line in lines]
    assert [line[-1] for line in lines if line[:1] in (["caption"], ["picture"])] == ["A"] * 6
    assert "A on 3, B on 0 of 4." in out
    assert "why\n  copy differs by parameters (train.kind)" in out
    assert project.do("git", "status", "--porcelain") == ""
    assert project.do("git", "describe", "--tags").strip() == "poor"
    assert main(["compare", "good", "--published", "char-gru"]) == 1
    assert "STS15 headlines: has 60 pairs; expected the 750" in capsys.readouterr().err  # its table was read


def test_numbers_are_those_of_the_files(project):
    found = compared(project)
    metrics = [json.loads(project.do("git", "show", f"{tag}:metrics/retrieval.json")) for tag in ("good", "poor")]
    for row in found.recalls:
        known = [one["test"]["full"][row.direction][f"r{row.depth}"] for one in metrics]
        assert [row.a, row.b] == pytest.approx(known)
    assert ("retrieval test.full.caption_to_image.median_rank", 6.0, 11.0) in found.numbers
    assert ("retrieval test.short_queries.one_word.map", 27.5, 27.5) in found.numbers
    assert "retrieval test.full.caption_to_image.r1" not in [name for name, _, _ in found.numbers]
    assert found.semantics is not None
    assert not [name for name, _, _ in found.numbers if "pearson" in name and "STS15" in name]
    assert found.notes == []


def test_the_workspace_and_a_project_elsewhere_are_sides_too(project, tmp_path, capsys):
    project.clone(tmp_path / "other")
    shutil.copytree(project.folder / "data", tmp_path / "other/data", dirs_exist_ok=True)
    for a, b in (("good", "workspace"), ("good", "."), (str(tmp_path / "other"), ".")):
        assert main(["compare", a, b, "--samples", "500"]) == 0
        out = capsys.readouterr().out
        assert ("A on 6, B on 0 of 6" in out) == (a == "good")


def test_csv_is_a_table_alone(project, capsys):
    assert main(["compare", "good", "poor", "--samples", "200", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["subtask"] for row in rows] == ["images", "headlines", "cosine", "trained", "mean of 2"]


def test_a_run_beside_itself_differs_in_nothing(project, capsys):
    found = compared(project, "good", "good")
    assert {row.better for row in (*found.recalls, *found.semantics.rows)} == {"equal"}
    assert found.because == []
    assert main(["compare", "good", "good", "--samples", "100"]) == 0
    out = capsys.readouterr().out
    assert "Both have as many right answers to the queries of each picture" in out
    assert "A on 0" not in out


def drop(project, tag, path):
    """Take an output's object out of DVC's cache."""
    with opened(tag, tag, project.folder) as (side, _):
        found = (side.folder / path).resolve()
    found.unlink()


def test_without_answers_and_pairs_in_the_cache_the_metrics_are_compared(project, capsys):
    drop(project, "poor", "data/retrieval/top.parquet")
    drop(project, "poor", "data/semantics/pairs.parquet")
    assert main(["compare", "good", "poor", "--samples", "200"]) == 0
    out, err = capsys.readouterr()
    assert "Retrieval is not tested: B has no data/retrieval/top.parquet in DVC's cache (`dvc fetch" in err
    assert "Sentence similarity is not tested: B has no data/semantics/pairs.parquet in DVC's cache" in err
    assert "retrieval test.full.caption_to_image.r10" in out
    assert "These scores have no test." in out


def test_a_damaged_object_ends_the_comparison(project, capsys):
    with opened("poor", "poor", project.folder) as (side, _):
        damaged = side.pairs.resolve()
    damaged.chmod(0o600)
    damaged.write_bytes(damaged.read_bytes()[:-9])
    assert main(["compare", "good", "poor"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "data/semantics/pairs.parquet of" in err
    assert "is damaged in DVC's cache" in err


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere", "sightword: nowhere: no commit, branch or experiment has this name. `git log` and"),
        ("--help-me", "unrecognized arguments"),
        ("", "does not exist"),
        ("HEAD~1..HEAD", "no commit, branch"),
        ("HEAD:params.yaml", "no commit, branch"),
        ("stages", "stages: is a folder without results"),
    ],
)
def test_name_that_is_no_path_and_no_revision_is_refused(project, name, message, capsys):
    try:
        code = main(["compare", "good", name])
    except SystemExit as wrong_arguments:
        code = wrong_arguments.code
    assert code in (1, 2)
    assert message in capsys.readouterr().err


def test_a_file_of_another_form_is_told_with_its_revision(project, capsys):
    path = project.folder / "data/retrieval/top.parquet"
    table = pq.read_table(path)
    path.unlink()
    write_table(path, table.drop_columns(["position"]))
    project.do("dvc", "commit", "-q", "-f", "copy")
    project.commit("another form")
    assert main(["compare", "good", "HEAD"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("sightword: HEAD:data/retrieval/top.parquet: has no column position")
    assert err.count("\n") == 1


def test_of_shorter_lists_the_deeper_recalls_stay_numbers(project):
    path = project.folder / "data/retrieval/top.parquet"
    table = pq.read_table(path)
    path.unlink()
    write_table(path, table.filter(pc.less_equal(table["position"], 5)))
    found = compared(project, "good", "workspace")
    assert [row.depth for row in found.recalls] == [1, 5, 1, 5]
    names = [name for name, _, _ in found.numbers]
    for direction in ("caption_to_image", "image_to_caption"):
        assert f"retrieval test.full.{direction}.r10" in names
        assert f"retrieval test.full.{direction}.r5" not in names


def test_other_queries_are_no_comparison(project, tmp_path):
    table = pq.read_table(project.folder / "data/retrieval/top.parquet")
    half = table.filter([image < "scene-020.png" for image in table["query_image"].to_pylist()])
    (project.folder / "data/retrieval/top.parquet").unlink()
    write_table(project.folder / "data/retrieval/top.parquet", half)
    found = compared(project, "good", "workspace")
    assert found.recalls == []
    assert "Retrieval is not tested: caption_to_image: the two were asked other queries: 40 only in A" in found.notes[0]


def test_runs_without_pairs_have_no_note_on_them(project):
    path = project.folder / "data/semantics/pairs.parquet"
    table = pq.read_table(path)
    path.unlink()
    write_table(path, table.slice(0, 0))
    assert "the two were judged on other data sets" in compared(project, "good", "workspace").notes[0]
    assert compared(project, "workspace", "workspace").notes == []
