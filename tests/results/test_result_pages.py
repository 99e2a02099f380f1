"""The pages of results are made from the rows, and each row says how anybody makes the row again."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline import cli
from pipeline.lineage.lock import within
from pipeline.results import pages, prose, provenance
from pipeline.results.marks import UNHASHED
from pipeline.results.records import Row, rows, write_row
from sightword.entailment.judging.measuring import TAKEN
from sightword.errors import ParamsError

NEEDED = re.compile(r"README\.md|docs/.*\.md|results/.*|recipes/.*|([a-z]+/)?(dvc|params)\.yaml|data/raw/.*")
NGRAMS = "results/ngrams/base.json"


def test_pages_and_rows_in_git_have_no_fault(repository: Path) -> None:
    every = rows(repository)
    faults = pages.faults(repository) + prose.faults(repository, every) + provenance.faults(repository, every)
    if faults:
        pytest.fail("\n".join(["run `sightword results pages`, and mend:", *faults]), pytrace=False)


@pytest.fixture(scope="module")
def whole(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of pages and rows, with the raw data that git has, in a repository of their own with the history."""
    folder = tmp_path_factory.mktemp("whole") / "project"
    subprocess.run(["git", "clone", "-q", "--shared", "--no-checkout", repository, folder], check=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=repository, capture_output=True, check=True, text=True)
    for name in filter(NEEDED.fullmatch, listed.stdout.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(repository / name, folder / name)
    for command in (["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a", "commit", "-qm", "all"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


@pytest.fixture
def project(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "project"))


def edit(project: Path, name: str, change: Callable[[dict[str, Any]], object]) -> None:
    values = json.loads((project / name).read_text())
    change(values)
    del values["schema"]
    write_row(project, Row(topic=Path(name).parent.name, name=Path(name).stem, **values))


def first_scores(values: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = values["runs"][0]["scores"]
    return found


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda row: row.update(recipe="flickr8k-ngram"), "no such recipe"),
        (lambda row: row.update(recipe="grid-ngrams"), "grid of a sweep"),
        (lambda row: row.update(overrides={"train.longest": 3}), "train.longest: no such key"),
        (lambda row: row.update(overrides={"train.longest_ngram": "three"}), "train.longest_ngram = 'three'"),
        (lambda row: row.pop("private"), "private says nothing of features_densenet169.npy"),
        (lambda row: row.update(private={"data/raw/beside": "no"}), "private says nothing of features_densenet169.npy"),
        (
            lambda row: row["runs"][0].update(commit="0" * 40),
            "the commit 0000000 of a run is not in the history of HEAD",
        ),
    ],
)
def test_broken_origin_of_a_row_is_a_fault_that_names_the_row(project, change, fault):
    edit(project, NGRAMS, change)
    (found,) = provenance.faults(project, {"ngrams/base": rows(project)["ngrams/base"]})
    assert re.match(f"{NGRAMS}: .*{fault}", found)


def test_row_in_another_order_or_layout_than_the_tool_writes_is_a_fault(project):
    values = json.loads((project / NGRAMS).read_text())
    (project / NGRAMS).write_text(json.dumps(values, indent=1))
    assert provenance.faults(project, {"ngrams/base": rows(project)["ngrams/base"]}) == [
        f"{NGRAMS}: is not as `sightword results add` writes it"
    ]


def test_changed_score_is_a_fault_of_the_pages_that_show_the_row(project):
    edit(
        project,
        NGRAMS,
        lambda row: first_scores(row)["semantics.STSBenchmark.cosine.pearson"].update(value=0.99, low=0.98, high=0.995),
    )
    shown = ("results/ngrams", "results", "what-pictures-add")
    expected = [f"docs/{page}.md: tables differ from the rows" for page in shown]
    assert pages.faults(project) == expected


def test_row_that_no_table_shows_is_a_fault(project):
    shutil.copy(project / NGRAMS, project / "results/ngrams/other.json")
    pages.write(project)  # the count of scorings has the row
    assert pages.faults(project) == ["results/ngrams/other.json: no table shows the row"]


def test_table_that_no_page_shows_is_a_fault(project):
    page = project / "docs/results/package.md"
    page.write_text(re.sub(r"<!-- table: small-recipe -->.*?<!-- end -->", "", page.read_text(), flags=re.DOTALL))
    assert pages.faults(project) == ["results/tables.yaml: no page shows the table small-recipe"]


def test_table_outside_of_markers_is_a_fault_in_each_of_its_spellings(project):
    spellings = {
        "docs/results.md": "| a | b |\n|---|---|",
        "docs/results/ngrams.md": "| a | b |\n| --- | ---: |",
        "docs/what-pictures-add.md": "a | b\n---|---",
        "docs/hypernyms.md": "a | b\n--|--",
    }
    for page, head in spellings.items():
        with (project / page).open("a") as file:
            file.write(f"\n{head}\n| 1 | 2 |\n")
    assert pages.faults(project) == [f"{page}: a table stands outside of markers" for page in spellings]


def test_pages_written_anew_undo_an_edited_number_and_keep_the_text(project, monkeypatch, capsys):
    faults = provenance.faults  # the origins of the other rows, most of the time, are as in the repository
    monkeypatch.setattr(provenance, "faults", lambda _, every: faults(project, {"ngrams/base": every["ngrams/base"]}))
    page = project / "docs/results/ngrams.md"
    text = page.read_text()
    page.write_text(text.replace("| 74.2", "| 99.9"))
    monkeypatch.chdir(project)
    assert cli.main(["results", "pages", "--check"]) == 1
    assert capsys.readouterr().out == "docs/results/ngrams.md: tables differ from the rows\n"
    assert page.read_text() != text
    assert cli.main(["results", "pages"]) == 0
    assert page.read_text() == text
    assert cli.main(["results", "pages", "--check"]) == 0


def test_check_refuses_a_score_changed_in_the_text(project, monkeypatch, capsys):
    monkeypatch.setattr(provenance, "faults", lambda *_: [])
    monkeypatch.chdir(project)
    page = project / "docs/hypernyms.md"
    text = page.read_text()
    page.write_text(text.replace("The published scores of 90.6", "The published scores of 96.6"))
    assert page.read_text() != text
    assert cli.main(["results", "pages", "--check"]) == 1
    loose, listed = capsys.readouterr().out.splitlines()
    assert re.match(r"docs/hypernyms\.md:\d+: 96\.6 is in no table", loose)
    assert listed == "results/prose.yaml: docs/hypernyms.md has no 90.6 in its text"


def test_check_refuses_a_score_moved_with_its_interval(project, monkeypatch, capsys):
    monkeypatch.setattr(provenance, "faults", lambda *_: [])
    monkeypatch.chdir(project)
    name = "retrieval.test.full.caption_to_image.r10"

    def move(values: dict[str, Any]) -> None:
        first_scores(values)[name] = {end: value + 20.0 for end, value in first_scores(values)[name].items()}

    edit(project, NGRAMS, move)
    assert cli.main(["results", "pages"]) == 0
    capsys.readouterr()
    assert cli.main(["results", "pages", "--check"]) == 1
    assert f"{NGRAMS}: {name} = 90: its 95 % interval" in capsys.readouterr().out


def test_score_moved_out_of_its_interval_is_refused(project, monkeypatch, capsys):
    monkeypatch.chdir(project)
    path = project / NGRAMS
    path.write_text(
        path.read_text().replace('caption_to_image.r10": {"value": 70.0,', 'caption_to_image.r10": {"value": 90.0,')
    )
    for command in (["results"], ["results", "pages"], ["results", "pages", "--check"]):
        assert cli.main(command) == 1
        error = capsys.readouterr().err
        assert "ngrams/base.json" in error
        assert "retrieval.test.full.caption_to_image.r10: the value 90.0 is outside of its 95 % interval" in error


@pytest.mark.parametrize("marker", ["<!-- table: ngrams -->", "<!-- table: -->\n<!-- end -->"])
def test_marker_without_an_end_or_a_name_is_refused_and_nothing_is_written(project, marker):
    page = project / "docs/what-pictures-add.md"
    page.write_text(f"{page.read_text()}\n{marker}\n")
    edit(project, NGRAMS, lambda row: first_scores(row)["summary.sts"].update(value=0.9))
    before = {path: path.read_bytes() for path in project.rglob("*.md")}
    fault = "docs/what-pictures-add.md: a marker of a table has no end, or no name"
    with pytest.raises(ParamsError, match=re.escape(fault)):
        pages.write(project)
    assert fault in pages.faults(project)
    assert {path: path.read_bytes() for path in project.rglob("*.md")} == before


def test_tables_that_cannot_be_made_are_all_named_and_nothing_is_written(project):
    marker = "\n<!-- table: {} -->\n<!-- end -->\n"
    for page, name in {"docs/results.md": "lost", "docs/what-pictures-add.md": "gone"}.items():
        with (project / page).open("a") as file:
            file.write(marker.format(name))
    (project / "results/ngrams/embedding-512.json").unlink()
    found = [one for one in pages.faults(project) if ": no such" in one]
    assert [re.findall(r"^(docs/\S+\.md): .*tables\.yaml: ([a-z]+)", one) for one in found] == [
        [("docs/results/ngrams.md", "ngrams")],
        [("docs/results.md", "lost")],
        [("docs/what-pictures-add.md", "gone")],
    ]
    assert "ngrams/embedding-512" in found[0]
    before = {path: path.read_bytes() for path in project.rglob("*.md")}
    with pytest.raises(ParamsError, match="3 of the tables cannot be made") as error:
        pages.write(project)
    assert all(one in str(error.value) for one in found)
    assert {path: path.read_bytes() for path in project.rglob("*.md")} == before


def test_input_that_git_has_needs_no_reason(project):
    """The sample's features and weights are in git; of Flickr8k's pictures `sightword fetch` has the source."""
    edit(project, NGRAMS, lambda row: row.update(recipe="sample", private={}))
    every = rows(project)
    assert not provenance.faults(project, {"ngrams/base": every["ngrams/base"]})


def test_row_with_scores_of_other_encoders_names_them_among_its_inputs(repository):
    found = set()
    for row in rows(repository).values():
        for run in row.runs:
            names = {name.split(".")[2] for name in run.scores if re.match(r"entailment/evaluate\.(dev|test)\.", name)}
            if {re.sub("_untrained|_classifier", "", name) for name in names} - TAKEN:
                found.add(row.key)
                assert "data/raw/encoders" in row.private, row.key
                listed = [path for path in run.inputs if within(path, "data/raw/encoders")]
                assert listed or not run.inputs, row.key
    assert "entailment/three-classes" in found


def test_audit_page_has_the_number_of_rows_without_hashes(repository):
    every = rows(repository)
    unhashed, all_rows = re.findall(r"of (\d+) of the (\d+) rows", (repository / "docs/audit.md").read_text())[0]
    assert (int(unhashed), int(all_rows)) == (sum(not row.hashed for row in every.values()), len(every))
    first = (repository / "docs/results.md").read_text().split("<!-- end -->")[0]
    assert first.count(UNHASHED) == 1


def test_reason_of_a_private_input_stands_on_each_page_that_shows_the_row(repository):
    every = rows(repository)
    text = (repository / "docs/results/ngrams.md").read_text()
    reasons = set(every["ngrams/base"].private.values())
    assert reasons
    assert all(reason in text for reason in reasons)
