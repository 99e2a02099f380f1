"""DVC runs a stage again after an edit that can change its outputs, and after no other."""

from __future__ import annotations

import json

import first_party
import pytest
from checkout import Checkout

from pipeline.pipelines import pipelines

IDLE = {
    "an error text": "sightword/errors.py",
    "a log line": "stages/__main__.py",
    "the version": "pyproject.toml",
    "the command line": "pipeline/cli/__init__.py",
    "doctor": "pipeline/doctor/project.py",
    "lineage": "pipeline/lineage/facts.py",
    "the parameters' document": "pipeline/params/params_file.py",
    "the module for sentence-transformers": "sightword/export/sentence_transformers.py",
}


@pytest.fixture(scope="module")
def finished(small_run, tmp_path_factory) -> Checkout:
    """The sample on a few pictures, run and committed."""
    folder = tmp_path_factory.mktemp("reruns")
    return small_run.copy(folder / "clone", folder / "store", Checkout)


def changed(checkout: Checkout) -> dict[str, set[str]]:
    """Return the dependencies that DVC finds changed, by stage of the first pipeline, which alone was run."""
    found: dict[str, set[str]] = {}
    for stage, changes in json.loads(checkout.run("dvc", "status", "--json", "dvc.yaml").stdout).items():
        for change in changes:
            assert isinstance(change, dict), (stage, change)
            assert set(change) == {"changed deps"}, (stage, change)
            found.setdefault(stage, set()).update(change["changed deps"])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("path", IDLE.values(), ids=IDLE)
def test_an_edit_that_cannot_change_an_output_runs_nothing(finished, path):
    before = (finished.folder / path).read_text()
    (finished.folder / path).write_text(before + "# another line\n")
    try:
        assert changed(finished) == {}
    finally:
        (finished.folder / path).write_text(before)


@pytest.mark.slow
def test_an_edit_in_a_room_reruns_the_stages_that_import_it(finished, repository):
    """Every file is edited at once: the dependencies that changed tell which room reruns which stage."""
    for package in first_party.PACKAGES:
        for path in (finished.folder / package).rglob("*.py"):
            with path.open("a") as file:
                file.write("# another line\n")
    after = changed(finished)
    finished.run("git", "checkout", "--", ".")
    for name in pipelines(repository)[0].stages:
        needed = first_party.needed_files(repository, f"stages.{name}")
        assert {_room(path) for path in after[name]} == {_room(path) for path in needed}, name


def _room(path: str) -> str:
    """Return the folder of a file of a package; a file that lies beside the folders is a room of its own."""
    return "/".join(path.split("/")[:2])


@pytest.mark.slow
def test_a_wrong_parameter_leaves_models_numbers_and_lock_as_they_were(finished):
    """DVC removes the outputs of a stage before the stage can look at its parameters."""
    folder = finished.folder

    def state() -> dict[str, bytes]:
        paths = [
            folder / "dvc.lock",
            *(path for top in ("models", "plots", "metrics") for path in (folder / top).rglob("*")),
        ]
        return {str(path): path.read_bytes() for path in paths if path.is_file()}

    before = state()
    experiment = ("dvc", "exp", "run", "-S", "train.hidden=-3")
    for command in (experiment, ("env", "-C", "data", "dvc", "repro", "../dvc.yaml")):  # params.yaml stays as changed
        done = finished.run(*command, ok=False)
        assert done.returncode != 0
        assert "train.hidden = -3: expected a whole number, above 0" in done.stderr + done.stdout
        assert "To have them back: `dvc checkout models/snapshots" in done.stderr + done.stdout
        finished.run("git", "checkout", "--", "metrics")
        finished.run("dvc", "checkout", "-q", "dvc.yaml")
        assert state() == before
    finished.run("git", "checkout", "-q", "params.yaml")
