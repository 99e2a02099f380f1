"""Rows made from the runs of a small project by `sightword results add`."""

from __future__ import annotations

import hashlib
import json

import pytest
from ruamel.yaml import YAML

from sightword.machine import processor

pytestmark = pytest.mark.slow


def locked(project, stage: str, path: str) -> str:
    """DVC's hash of an input or output of a stage."""
    stages = YAML(typ="safe").load(project.folder / "dvc.lock")["stages"]
    return next(one["md5"] for kind in ("deps", "outs") for one in stages[stage][kind] if one["path"] == path)


def test_run_that_lies_here_becomes_row_with_its_facts(project):
    printed = project.add("toys/plain")
    assert "recipe plain" in printed
    row = project.row("toys/plain")
    (run,) = row.pop("runs")
    assert row == {"schema": 1, "recipe": "plain"}
    assert run.pop("scores") == {
        "score.test.r10": {"value": 9.0, "low": 7.5, "high": 10.5},
        "score.mean.pearson": {"value": 0.25},
        "train.loss": {"value": 0.5},
    }
    assert run.pop("inputs") == {"data/raw/numbers": locked(project, "train", "data/raw/numbers")}
    assert run.pop("outputs") == {
        "metrics/score.json": locked(project, "score", "metrics/score.json"),
        "metrics/train.json": locked(project, "train", "metrics/train.json"),
        "models/encoder": locked(project, "train", "models/encoder"),
    }
    assert (run["seeds"], run["processor"]) == ([0], processor())
    assert run["commit"] == project.do("git", "rev-parse", "HEAD").strip()
    assert run.keys() == {"seeds", "commit", "date", "processor", "packages", "threads", "seconds"}


def test_row_keeps_the_scores_that_are_named_and_no_row_is_without_any(project):
    project.add("toys/plain", "--scores", r"r10$|^train")
    (run,) = project.row("toys/plain")["runs"]
    assert run["scores"].keys() == {"score.test.r10", "train.loss"}
    assert "no such score" in project.add("toys/none", "--scores", "recall")
    assert "--scores '[': not a regular expression: unterminated" in project.add("toys/none", "--scores", "[")
    assert not (project.folder / "results/toys/none.json").exists()


def test_run_without_facts_lacks_what_only_facts_say(project):
    project.do("rm", "-r", "runs", str(project.folder.parent / "unused-store"), ok=False)
    assert "no facts of the run" in project.add("toys/plain")
    (run,) = project.row("toys/plain")["runs"]
    assert run.keys() == {"seeds", "commit", "inputs", "outputs", "scores"}


def test_nearest_recipe_is_found_and_what_differs_stands_in_the_row(project):
    project.do("sightword", "recipe", "wide")
    project.set("hidden", 98)
    project.set("seed", 5)
    project.do("dvc", "repro", "-q")
    assert "train.hidden: 98" in project.add("toys/wide")
    assert {key: project.row("toys/wide")[key] for key in ("recipe", "overrides")} == {
        "recipe": "wide",
        "overrides": {"train.hidden": 98},
    }
    project.add("toys/plain", "--recipe", "plain")
    assert project.row("toys/plain")["overrides"] == {"train.hidden": 98, "score.factor": 2.0}


def test_seeds_of_experiments_extend_the_row_which_names_their_base(project):
    base = project.do("git", "rev-parse", "HEAD").strip()
    for seed in (2, 1):
        project.do("dvc", "exp", "run", "-q", "-S", f"train.seed={seed}", "--name", f"seed{seed}")
    project.do("git", "checkout", "-q", ".")
    for rev in ("seed2", "seed1"):
        project.add("toys/seeds", "--rev", rev)
    runs = project.row("toys/seeds")["runs"]
    assert [(run["seeds"], run["commit"]) for run in runs] == [([1], base), ([2], base)]
    assert [run["scores"]["score.test.r10"]["value"] for run in runs] == [9.1, 9.2]
    message = project.add("toys/seeds", "--rev", "seed1")
    assert "seed 1 already" in message
    assert "--replace" in message
    project.add("toys/seeds", "--rev", "seed1", "--replace", "--note", "One sentence.")
    assert project.row("toys/seeds")["runs"] == runs
    assert project.row("toys/seeds")["note"] == "One sentence."


def test_commit_is_the_newest_that_a_remote_has(project, tmp_path):
    pushed = project.do("git", "rev-parse", "HEAD").strip()
    project.do("git", "clone", "-q", "--bare", ".", str(tmp_path / "remote"))
    project.do("git", "remote", "add", "origin", str(tmp_path / "remote"))
    project.do("git", "fetch", "-q", "origin")
    project.write("notes.txt", "of this laboratory alone")
    project.commit("not pushed")
    project.add("toys/plain")
    assert project.row("toys/plain")["runs"][0]["commit"] == pushed
    project.edit("stages/score.py", "0.25", "0.75")
    project.commit("new code, not pushed")
    project.do("dvc", "repro", "-q")
    assert "which no remote has. `git push`" in project.add("toys/new")


def test_file_that_nobody_else_has_needs_a_reason(project):
    project.write("data/raw/numbers/own.txt", "30\n")
    project.do("dvc", "repro", "-q")
    message = project.add("toys/private")
    assert "neither git nor `sightword fetch` has data/raw/numbers/own.txt" in message
    assert not (project.folder / "results").exists()
    message = project.add("toys/private", "--private", "data/raw/elsewhere=by hand")
    assert "data/raw/elsewhere: is no input of the run; expected one of data/raw/numbers" in message
    project.add("toys/private", "--private", "data/raw/numbers/own.txt=measured by hand")
    assert project.row("toys/private")["private"] == {"data/raw/numbers/own.txt": "measured by hand"}
    project.add("toys/private", "--replace")
    assert project.row("toys/private")["private"] == {"data/raw/numbers/own.txt": "measured by hand"}


def test_inputs_are_the_files_that_parameters_name_without_notes(project):
    own = "data/raw/features/own.npy"
    project.edit("stages/train.py", "    seed: int", "    file: str = 'own.npy'\n    seed: int")
    project.edit("dvc.yaml", "[data/raw/numbers,", "[data/raw/numbers, data/raw/features,")
    for name in (own, "data/raw/features/other.npy", "data/raw/features/README.md", "data/raw/numbers/README.md"):
        project.write(name, name)
    project.do("sightword", "recipe", "plain", "--force")
    project.commit("features")
    numbers = locked(project, "train", "data/raw/numbers")
    project.do("dvc", "repro", "-q")
    project.add("toys/plain")
    expected = {own: hashlib.md5(own.encode()).hexdigest(), "data/raw/numbers": numbers}
    assert project.row("toys/plain")["runs"][0]["inputs"] == expected
    project.write("data/raw/features/README.md", "other words")
    project.commit("words")
    done = project.run("sightword", "results", "check", "toys/plain", "--dry-run")
    assert (done.returncode, "other data" in done.stderr) == (0, False)


def test_inputs_are_those_of_the_stages_that_read_them(project):
    """A folder of encoders is read whole; of a shared one the stage's own parameters name the files, not another's."""
    project.edit("stages/train.py", "    seed: int", "    start: str = 'own'\n    seed: int")
    project.edit("dvc.yaml", "[data/raw/numbers,", "[data/raw/numbers, data/raw/starts,")
    project.edit("dvc.yaml", "[models/encoder,", "[models/encoder, data/raw/encoders, data/raw/features,")
    for name in ("starts/own/weight", "starts/other/weight", "encoders/other/weight", "features/own"):
        project.write(f"data/raw/{name}", name)
    project.do("sightword", "recipe", "plain", "--force")
    project.do("git", "add", "-A")
    project.do("git", "reset", "-q", "data/raw/encoders")
    project.do("git", "commit", "-qm", "starts")
    project.do("dvc", "repro", "-q")
    assert "neither git nor `sightword fetch` has data/raw/encoders/other/weight" in project.add("toys/plain")
    project.add("toys/plain", "--private", "data/raw/encoders=ours")
    (run,) = project.row("toys/plain")["runs"]
    assert [*run["inputs"]] == ["data/raw/encoders", "data/raw/numbers", "data/raw/starts/own"]
    assert run["inputs"]["data/raw/encoders"] == locked(project, "score", "data/raw/encoders")


def of_other_parameters(project) -> None:
    project.set("hidden", 9)


def of_edited_metrics(project) -> None:
    project.edit("metrics/score.json", "9.0", "99.0")


def of_uncommitted_code(project) -> None:
    project.edit("stages/score.py", "0.25", "0.75")
    project.do("dvc", "repro", "-q")


def of_code_since_changed(project) -> None:
    project.edit("stages/score.py", "0.25", "0.75")
    project.commit("another score")


def of_a_dependency_left_out(project) -> None:
    project.edit("dvc.yaml", "[models/encoder, stages/score.py]", "[models/encoder]")
    project.edit("stages/score.py", "0.25", "0.75")
    project.do("dvc", "repro", "-q", "--force")


def of_another_command(project) -> None:
    project.edit("dvc.yaml", "cmd: python -m stages score", "cmd: PYTHONHASHSEED=1 python -m stages score")
    project.do("dvc", "repro", "-q")


def of_an_edited_recipe(project) -> None:
    project.edit("recipes/plain.yaml", "hidden: 8", "hidden: 9")
    project.set("hidden", 9)
    project.do("dvc", "repro", "-q")


def of_edited_metrics_saved_by_dvc(project) -> None:
    project.edit("metrics/score.json", "9.0", "99.0")
    project.do("dvc", "commit", "-q", "-f")


def of_an_edited_model_saved_by_dvc(project) -> None:
    """The metrics are then of a run, on a model that no run made, by a stage without metrics."""
    project.edit("dvc.yaml", "    plots:\n      - metrics/train.json: {cache: false}\n", "")
    project.commit("train has no metrics")
    project.do("dvc", "repro", "-q")
    project.write("models/encoder/weight", "99")
    project.do("dvc", "commit", "-q", "-f", "train")
    project.do("dvc", "repro", "-q", "score")


def of_a_project_that_was_never_pushed(project) -> None:
    project.do("git", "remote", "add", "origin", "elsewhere")


def of_half_a_run(project) -> None:
    project.set("hidden", 9)
    project.do("dvc", "repro", "-q", "train")


def of_another_run(project) -> None:
    project.set("hidden", 9)
    project.edit("dvc.lock", "hidden: 8", "hidden: 9")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (of_other_parameters, "train.hidden is 9, in dvc.lock 8"),
        (of_edited_metrics, "metrics/score.json: is not the file that its stage wrote"),
        (of_uncommitted_code, "stages/score.py: the code with which score ran is not that of the commit"),
        (of_code_since_changed, "stages/score.py: the code with which score ran is not that of the commit"),
        (of_a_dependency_left_out, "dvc.yaml: the stage score ran with another command, dependency"),
        (of_another_command, "dvc.yaml: the stage score ran with another command, dependency"),
        (of_an_edited_recipe, "recipes/plain.yaml: the recipe plain is not that of the commit"),
        (of_edited_metrics_saved_by_dvc, "score does not agree with the records of runs: CONTRADICTED"),
        (of_an_edited_model_saved_by_dvc, "train does not agree with the records of runs: CONTRADICTED"),
        (of_a_project_that_was_never_pushed, "is on a remote. `git push`"),
        (of_half_a_run, "models/encoder: was made again by train since score read it"),
        (of_another_run, "does not agree with the records of runs"),
    ],
)
def test_run_whose_numbers_are_not_its_own_is_refused(project, change, words):
    change(project)
    assert words in project.add("toys/plain")
    assert not (project.folder / "results").exists()


def test_run_of_other_parameters_or_data_than_the_row_is_refused(project):
    project.add("toys/plain")
    project.set("hidden", 9)
    project.set("seed", 1)
    project.do("dvc", "repro", "-q")
    message = project.add("toys/plain")
    assert "toys/plain: the run has other parameters: train.hidden is 9, in the row None" in message
    project.set("hidden", 8)
    project.write("data/raw/numbers/one.txt", "2\n")
    project.commit("other data")
    project.do("dvc", "repro", "-q")
    assert "the run read other data: data/raw/numbers is " in project.add("toys/plain")
    row = project.row("toys/plain")
    row["runs"][0]["inputs"] = {"data/raw/other": "1" * 32}
    project.write("results/toys/plain.json", json.dumps(row))
    assert "the run read other data: data/raw/other is absent, in the row 11111111" in project.add("toys/plain")


def test_project_or_pipeline_without_a_run_is_refused(project):
    assert "no such recipe (did you mean 'plain'?)" in project.add("toys/plain", "--recipe", "plane")
    assert "a row has the name of a recipe" in project.add("toys/plain", "--recipe", "recipes/plain.yaml")
    assert "names no row of results" in project.add("toys")
    (project.folder / "dvc.lock").unlink()
    assert "nothing was run here yet" in project.add("toys/plain")
