"""Runs of rows made again in a small project by `sightword results check`."""

from __future__ import annotations

import fcntl
import importlib.metadata
import json
import os

import pytest

pytestmark = pytest.mark.slow


def check(project, *options: str) -> tuple[int, str, str]:
    """Exit code, output and messages."""
    done = project.run("sightword", "results", "check", "toys/plain", *options)
    return done.returncode, done.stdout, done.stderr


def change_row(project, change) -> None:
    row = project.row("toys/plain")
    change(row)
    project.write("results/toys/plain.json", json.dumps(row))


@pytest.fixture
def with_row(project):
    project.add("toys/plain")
    return project


def test_run_made_again_is_equal_and_leaves_the_project_as_it_was(with_row):
    with_row.write("notes.txt", "not committed")
    before = (
        with_row.do("git", "status", "--porcelain"),
        with_row.do("find", ".dvc/cache", "runs", "models", "-type", "f"),
    )
    code, table, messages = check(with_row)
    assert (code, table) == (0, "")
    assert "3 scores equal, 0 differ, 0 beyond the bounds (all must be equal)" in messages
    assert "> python -m stages train" in messages
    after = (
        with_row.do("git", "status", "--porcelain"),
        with_row.do("find", ".dvc/cache", "runs", "models", "-type", "f"),
    )
    assert after == before
    assert with_row.do("git", "for-each-ref", "refs/exps") == ""
    assert list((with_row.folder / ".dvc/tmp").glob("results-*")) == []


def test_score_that_differs_is_shown_and_fails(with_row):
    def change(row):
        scores = row["runs"][0]["scores"]
        scores["score.mean.pearson"]["value"] = 0.250001
        scores["score.test.lost"] = {"value": 3.0}

    change_row(with_row, change)
    code, table, messages = check(with_row, "--csv")
    assert code == 1
    assert table.splitlines() == [
        "score,row,again,allowed,",
        "score.test.lost,3,none,3 to 3,BEYOND",
        "score.mean.pearson,0.250001,0.25,0.250001 to 0.250001,BEYOND",
    ]
    assert "2 scores equal, 2 differ, 2 beyond the bounds" in messages


def test_scores_of_another_machine_must_be_within_their_intervals(with_row):
    def change(row):
        row["runs"][0]["processor"] = "another"
        row["runs"][0]["scores"]["score.test.r10"] = {"value": 9.9, "low": 8.4, "high": 11.4}
        row["runs"][0]["scores"]["train.loss"] = {"value": 0.9, "low": 0.8, "high": 1.0}

    change_row(with_row, change)
    code, table, messages = check(with_row)
    assert code == 1
    assert [line.split() for line in table.splitlines()[1:]] == [
        ["train.loss", "0.9", "0.5", "0.8", "to", "1", "BEYOND"],
        ["score.test.r10", "9.9", "9", "8.4", "to", "11.4"],
    ]
    assert "1 score equal, 2 differ, 1 beyond the bounds (machine, packages or data are not the row's" in messages


def test_scores_of_other_packages_must_be_within_their_intervals(with_row):
    packages = with_row.row("toys/plain")["runs"][0]["packages"]
    assert packages == {name: importlib.metadata.version(name) for name in ("numpy", "torch")}
    change_row(with_row, lambda row: row["runs"][0].update(packages={**packages, "torch": "1.0"}))
    change_row(with_row, lambda row: row["runs"][0]["scores"].update({"train.loss": {"value": 0.6}}))
    code, table, messages = check(with_row)
    assert (code, [line.split() for line in table.splitlines()[1:]]) == (
        0,
        [["train.loss", "0.6", "0.5", "not", "known"]],
    )
    assert "machine, packages or data are not the row's" in messages


def test_clone_of_a_killed_process_is_deleted_and_that_of_one_at_work_stays(with_row):
    folders = [with_row.folder / ".dvc/tmp" / name for name in ("results-killed", "results-working")]
    for folder in folders:
        (folder / "clone").mkdir(parents=True)
    working = os.open(folders[1], os.O_RDONLY)
    fcntl.flock(working, fcntl.LOCK_EX)
    assert check(with_row)[0] == 0
    os.close(working)
    assert [folder.exists() for folder in folders] == [False, True]


def test_run_with_another_seed_and_overrides_is_made_of_them(with_row):
    with_row.set("hidden", 9)
    with_row.set("seed", 4)
    with_row.do("dvc", "repro", "-q")
    with_row.do("rm", "results/toys/plain.json")
    with_row.add("toys/plain")
    with_row.do("git", "checkout", "-q", ".")
    assert check(with_row)[0] == 0
    code, _, messages = check(with_row, "--seed", "3")
    assert code == 1
    assert "has no run with the seed 3; expected 4" in messages


def test_data_that_is_not_at_hand_is_named_with_its_hash(with_row):
    (md5,) = with_row.row("toys/plain")["runs"][0]["inputs"].values()
    with_row.write("data/raw/numbers/two.txt", "2\n")
    with_row.commit("other data")
    code, _, messages = check(with_row, "--dry-run")
    assert code == 0
    assert f"other data: data/raw/numbers: expected {md5}, found " in messages
    change_row(with_row, lambda row: row.update(private={"data/raw/numbers/own.txt": "Measured by hand."}))
    code, _, messages = check(with_row)
    assert code == 1
    assert "data/raw/numbers/own.txt (expected any version, found none). Measured by hand." in messages
    with_row.do("git", "rm", "-rq", "data/raw/numbers")
    with_row.commit("no data")
    code, _, messages = check(with_row)
    assert code == 1
    assert "its data is not at hand" in messages
    assert f"data/raw/numbers (expected {md5}, found none). Neither git nor `sightword fetch` has it." in messages


def test_data_that_git_does_not_have_is_taken_from_the_project(with_row):
    with_row.do("git", "rm", "-rq", "--cached", "data/raw/numbers")
    with_row.write(".git/info/exclude", "/data/raw\n")
    with_row.do("git", "commit", "-qm", "without data")
    code, _, messages = check(with_row)
    assert code == 0, messages
    assert (with_row.folder / "data/raw/numbers/one.txt").read_text() == "1\n"


def test_change_of_the_code_that_is_in_no_commit_is_refused(with_row):
    with_row.edit("stages/score.py", "0.25", "0.75")
    code, _, messages = check(with_row)
    assert code == 1
    assert "these changes are in no commit" in messages
    with_row.commit("another score")
    code, table, _ = check(with_row)
    assert code == 1
    assert "score.mean.pearson" in table


def test_row_without_recipe_or_with_a_wrong_one_is_refused(with_row):
    change_row(with_row, lambda row: row.update(recipe=None, note="By hand."))
    code, _, messages = check(with_row)
    assert (code, messages) == (1, "sightword: toys/plain: no recipe makes this row. By hand.\n")
    change_row(with_row, lambda row: row.update(recipe="plain", overrides={"train.hiden": 3}))
    code, _, messages = check(with_row)
    assert code == 1
    assert "train.hiden: no such key" in messages


def test_stage_that_fails_is_an_error_without_a_traceback(with_row):
    with_row.edit("stages/score.py", "    value =", "    raise SystemExit('broken')\n    value =")
    with_row.commit("broken")
    code, _, messages = check(with_row)
    assert code == 1
    assert "broken" in messages
    assert "dvc.yaml: the run failed (dvc repro: exit code " in messages
    assert "Traceback" not in messages


LEDGER = "metrics/scorings.csv"
SCORING = """\
SCORES = True

def work(settings, *, enter):
    '''Score.'''
    from sightword.evaluation.ledger import Scoring
    weight = Path("models/encoder/weight").read_text()
    enter([Scoring("test", "pictures", 5, "a" * 16, weight.replace(".", "").rjust(16, "0"))])
"""
SUMMARY = """\
  summary:
    cmd: cp metrics/score.json metrics/summary.json
    deps: [metrics/score.json, metrics/scorings.csv]
    plots:
      - metrics/summary.json: {cache: false}
  score:
"""
NAMES = """\
from sightword.settings import Settings

class SETTINGS(Settings):
    '''Names.'''
    title: str = "x"
"""


@pytest.fixture
def scoring(project):
    """A project whose score enters a scoring in the ledger, on which a summary of numbers depends."""
    project.edit("stages/score.py", "def work(settings):\n    '''Score.'''\n", SCORING)
    project.edit("dvc.yaml", "  score:\n", SUMMARY)
    project.write("stages/summary.py", NAMES)
    project.do("sightword", "recipe", "plain", "--force")
    project.write(LEDGER, "split,of,items,rows,encoder,recipe,stage\n")
    project.commit("a ledger")
    project.do("dvc", "repro", "-q")
    return project


def test_ledger_is_no_input_of_a_row_and_grows_by_a_run_made_again_on_another_encoder(scoring):
    assert len((scoring.folder / LEDGER).read_text().splitlines()) == 2
    scoring.add("toys/plain")  # with a new scoring that is in no commit
    assert [*scoring.row("toys/plain")["runs"][0]["inputs"]] == ["data/raw/numbers"]
    entered = (scoring.folder / LEDGER).read_text()
    assert check(scoring)[0] == 0
    assert (scoring.folder / LEDGER).read_text() == entered
    scoring.write("data/raw/numbers/two.txt", "2\n")
    scoring.do("git", "add", "data")
    scoring.do("git", "commit", "-qm", "other data")
    assert check(scoring)[0] == 1
    (first, second) = (scoring.folder / LEDGER).read_text().splitlines()[1:]
    assert f"{first}\n" in entered
    assert first.split(",")[4] != second.split(",")[4]
