"""The pages of results are made from the rows, each row says how to make it again, and README names its system."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightword.entailment.judging import TAKEN
from sightword.errors import FileFormatError, ParamsError
from sightword.io import yaml_reader
from study import __main__ as command
from study import charts, origins, prose
from study.rows import Row, read_rows, read_topic, write_row
from study.tables import UNHASHED, load

NEEDED = re.compile(r"README\.md|docs/.*\.md|study/.*|recipes/.*|([a-z]+/)?(dvc|params)\.yaml|data/raw/.*")
STSB = "semantics.STSBenchmark.cosine.pearson"


def test_pages_and_rows_in_git_have_no_fault(repository: Path) -> None:
    every = read_rows(repository)
    faults = prose.table_faults(repository) + prose.prose_faults(repository, every)
    faults += origins.faults(repository, every)
    if faults:
        pytest.fail("\n".join(["run `python -m study pages`, and mend:", *faults]), pytrace=False)


@pytest.fixture(scope="module")
def whole(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of pages and rows, with the raw data that git has, in a repository of their own with the history."""
    folder = tmp_path_factory.mktemp("whole") / "project"
    subprocess.run(["git", "clone", "-q", "--shared", "--no-checkout", repository, folder], check=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=repository, capture_output=True, check=True, text=True)
    for name in filter(NEEDED.fullmatch, listed.stdout.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(repository / name, folder / name)
    for arguments in (["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a", "commit", "-qm", "all"]):
        subprocess.run(["git", *arguments], cwd=folder, check=True)
    return folder


@pytest.fixture
def project(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "project"))


def edit(project: Path, change: Callable[[dict[str, Any]], object]) -> dict[str, Row]:
    """Change the row ngrams/base, as if it were of today's code, and return this row alone."""
    values = read_rows(project)["ngrams/base"].model_dump() | {"note": None}
    change(values)
    row = Row.model_validate(values)
    write_row(project, row)
    return {row.key: row}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda row: row.update(recipe="flickr8k-ngram"), "no such recipe"),
        (lambda row: row.update(recipe="grid-ngrams"), "grid of a sweep"),
        (lambda row: row.update(overrides={"train.longest": 3}), "train.longest: no such key"),
        (lambda row: row.update(private={}), "private says nothing of features_densenet169.npy"),
        (lambda row: row["runs"][0].update(commit="0" * 40), "the commit 0000000 of a run is not in the history"),
    ],
)
def test_broken_origin_of_a_row_is_a_fault(project, change, fault):
    alone = edit(project, change)
    found = [one for one in origins.faults(project, alone) if not one.startswith("study/")]
    assert len(found) == 1
    assert re.match(f"ngrams/base: .*{fault}", found[0])


def test_changed_score_is_a_fault_of_each_page(project):
    change = {"value": 0.99, "low": 0.98, "high": 0.995}
    edit(project, lambda row: row["runs"][0]["scores"][STSB].update(change))
    pages = ["docs/results.md", "study/pages/controls.md", "study/pages/ngrams.md"]
    assert prose.table_faults(project) == [f"{page}: tables differ from the rows" for page in pages]


def test_row_or_table_that_nobody_shows_is_a_fault(project):
    write_row(project, read_rows(project)["ngrams/base"].model_copy(update={"name": "other"}))
    page = project / "study/pages/package.md"
    page.write_text(re.sub(r"<!-- table: networks -->.*?<!-- end -->", "", page.read_text(), flags=re.DOTALL))
    prose.fill(project)  # the count of scorings has the row
    expected = ["study/pages/tables.yaml: no page shows the table networks", "ngrams/other: no table shows the row"]
    assert prose.table_faults(project) == expected


def test_pages_undo_an_edited_number_and_keep_the_text(project, monkeypatch, capsys):
    page = project / "study/pages/ngrams.md"
    text = page.read_text()
    page.write_text(text.replace("| 74.2", "| 99.9"))
    monkeypatch.chdir(project)
    assert command.main(["pages"]) == 0
    assert (capsys.readouterr().out, page.read_text() == text) == ("study/pages/ngrams.md\n", True)


def test_score_changed_in_the_text_is_a_fault(project):
    page = project / "docs/hypernyms.md"
    text = page.read_text()
    page.write_text(text.replace("the closure has 94.3", "the closure has 96.6"))
    assert page.read_text() != text
    loose, listed = prose.prose_faults(project, read_rows(project))
    assert re.match(r"docs/hypernyms\.md:\d+: 96\.6 is in no table", loose)
    assert listed == "study/pages/prose.yaml: docs/hypernyms.md has no 94.3 in its text"


TABLE = "| system | R@10 |\n|---|---|\n| 99.9 n-grams | 74.2 |"
PAGE = f"# Results\n\n{{text}}\n\n<!-- table: main -->\n\n{TABLE}\n\n<!-- end -->\n"


@pytest.mark.parametrize(
    ("text", "listed", "faults"),
    [
        ("The n-grams have 74.2, gain 3.1, in version 12.0.1 by `--margin 12.5`.", "", []),
        ("The GRU has\n1,031.5.", "", ["docs/results.md:4: 1,031.5 is in no table of its section"]),
        ("The label has 99.9.", "", ["docs/results.md:3: 99.9 is in no table"]),
        ("On dev 73.1.", 'docs/results.md: {ngrams/base dev.sick: "73.1"}', []),
        (
            "On dev 73.2.",
            'docs/results.md: {ngrams/base dev.sick: "73.2"}',
            ["study/pages/prose.yaml: docs/results.md: 73.2"],
        ),
        ("On dev.", 'docs/results.md: {trials: "62.5"}', ["study/pages/prose.yaml: docs/results.md has no 62.5"]),
    ],
)
def test_score_in_the_text_has_a_table_or_a_source(tmp_path, text, listed, faults):
    for folder in ("docs", "study/pages"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "docs/results.md").write_text(PAGE.format(text=text))
    (tmp_path / "study/pages/prose.yaml").write_text(listed)
    run = {"seeds": [0], "scores": {"dev.sick": {"value": 0.7312}}}
    row = Row.model_validate({"topic": "ngrams", "name": "base", "recipe": "sample", "runs": [run]})
    found = prose.prose_faults(tmp_path, {row.key: row})
    assert len(found) == len(faults)
    assert all(one.startswith(fault) for one, fault in zip(found, faults, strict=True))


def document(**changes: Any) -> dict[str, Any]:
    run = {"seeds": [0], "scores": {"r10": {"value": 70.0, "low": 68.5, "high": 71.5}}}
    return {"name": "plain", "recipe": "flickr8k", "runs": [run], **changes}


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@given(
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), NUMBERS, min_size=1, max_size=3),
    st.text('é\\\n"'),
)
def test_row_written_is_read_as_it_was(tmp_path_factory, scores, note):
    folder = tmp_path_factory.mktemp("rows")
    run = {"seeds": [1], "scores": {name: {"value": value} for name, value in scores.items()}}
    row = Row.model_validate(document(topic="a", runs=[run], note=note))
    path = write_row(folder, row)
    assert read_topic(path) == {"a/plain": row}


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([[]], "is not a row of results"),
        ([document(colour="red")], "colour: no such key"),
        ([document(recipe=None)], "without a recipe needs a note"),
        (
            [document(runs=[{"seeds": [0], "scores": {"r10": {"value": 94.0, "low": 68.5, "high": 71.5}}}])],
            "outside of its 95 % interval",
        ),
        ([document(), document()], "plain stands twice"),
    ],
)
def test_wrong_row_gives_a_message(tmp_path, lines, words):
    path = tmp_path / "ngrams.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises((FileFormatError, ParamsError), match=words):
        read_topic(path)


def test_row_with_scores_of_other_encoders_names_them(repository):
    found = set()
    for row in read_rows(repository).values():
        for run in row.runs:
            names = {name.split(".")[2] for name in run.scores if re.match(r"entailment/evaluate\.(dev|test)\.", name)}
            if {re.sub("_untrained|_classifier", "", name) for name in names} - TAKEN:
                found.add(row.key)
                assert "data/raw/encoders" in row.private, row.key
                assert not run.inputs or any(path.startswith("data/raw/encoders") for path in run.inputs), row.key
    assert "entailment/three-classes" in found


def test_study_has_the_number_of_rows_without_hashes(repository):
    every = read_rows(repository)
    unhashed, all_rows = re.findall(r"of (\d+) of the (\d+) rows", (repository / "study/README.md").read_text())[0]
    assert (int(unhashed), int(all_rows)) == (sum(not row.hashed for row in every.values()), len(every))
    assert (repository / "docs/results.md").read_text().split("<!-- end -->")[0].count(UNHASHED) == 1


def test_charts_have_the_numbers_of_the_tables(repository):
    def texts(svg: str) -> list[str]:
        return re.findall(r"<text [^>]*>([^<]+)</text>", svg)

    for file, chart in yaml_reader.parse((repository / charts.LAYOUT).read_text("utf-8"), charts.LAYOUT)[
        "recall"
    ].items():
        rows = charts.dots((repository / chart["page"]).read_text("utf-8"), chart)
        committed = texts((repository / file).read_text("utf-8"))
        numbers = [f"{value:.1f}" for row in rows for value in row[1:]]
        assert [text for text in committed if re.fullmatch(r"\d+\.\d", text)] == numbers, "run `python -m study.charts`"


RECIPES = {
    "char-GRU": ("flickr8k", ("retrieval.test.full.", "summary.sts")),
    "order-embeddings": ("vendrov-released", ("hypernyms/evaluate.test.order.",)),
    "order-embeddings, SNLI": ("snli-small", ("entailment/evaluate.test.order.",)),
    "C_g + P_g": ("grounded-flickr8k", ("grounded/summary.cg_only-pg_only.",)),
}
"""By published system its recipe, and the beginning of its scores' names in the metrics of a run."""


@pytest.fixture(scope="module")
def lines(repository: Path):
    return load(repository).tables["readme"].rows


def test_readme_line_names_system_of_its_recipe(repository, lines):
    every = read_rows(repository)
    assert {next(iter(line.sources[0].published)) for line in lines} >= {"retrieval", "hypernyms", "structure"}
    for line in lines:
        published, here, _ = line.sources
        system = next(iter(published.published.values())).partition(" | ")[0]
        assert line.label.startswith(system), f"{line.label}: names another system than {system}"
        recipe, scores = RECIPES[f"{system}, SNLI" if "entailment" in published.published else system]
        assert every[here.result].recipe == recipe, f"{line.label}: {here.result} is another recipe than {recipe}"
        assert any(name in line.cell for name in scores), f"{line.label}: {line.cell} is another system's score"


def test_readme_line_says_why_in_ten_words(lines):
    assert all(0 < len(line.why.split()) <= 10 for line in lines), [line.why for line in lines]
