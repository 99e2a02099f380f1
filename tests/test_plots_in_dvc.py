"""DVC reads the curves: every plot of a training and of semantic scores, and the folder laid out as DVCLive's."""

from __future__ import annotations

import json
import shutil
import subprocess

import fork_server
import pytest
from ruamel.yaml import YAML

from sightword.io.files import write_tsv
from sightword.training.checkpoint import Progress
from sightword.vse.selection.choice import Measured, rows
from sightword.vse.training.task import write_curves

DIRECTIONS = ("caption_to_image", "image_to_caption")
TASKS = ["STSSample", "SICKRelatedness"]
RANKS = ["1", "2", "3-4", "5-8", "9-16", "17-32"]


@pytest.fixture
def project(repository, tmp_path):
    """A DVC project with the plots of dvc.yaml, and the curves of a run of two epochs."""
    values = {"r1": 1.0, "r5": 5.5, "r10": 10.0}
    recall = {
        f"{side}/{name}": [(0, 0.0), (5, value), (10, value)] for side in DIRECTIONS for name, value in values.items()
    }
    loss, rate = {"loss": [(5, 3.0), (10, 2.0)]}, {"learning_rate": [(5, 0.1), (10, 0.2)]}
    write_curves(tmp_path / "plots/train", Progress(10, {"loss": loss, "learning_rate": rate, "recall": recall}))
    r10 = dict.fromkeys(DIRECTIONS, 10.0)
    measured = [Measured(1, r10, dict.fromkeys(TASKS, 50.0)), Measured(2, r10, {TASKS[0]: None, TASKS[1]: 60.0})]
    header, lines = rows(measured, TASKS)
    write_tsv(tmp_path / "plots/epochs/epochs.tsv", header, lines)
    semantics = tmp_path / "plots/semantics"
    write_tsv(semantics / "systems.tsv", ("name", "system", "pearson", "lo", "hi"), [("a", "x", 0.5, 0.4, 0.6)])
    write_tsv(semantics / "breakdown.tsv", ("name", "pairs", "rank_difference", "lean"), [("overlap none", 9, 0.3, 0)])
    shutil.copy(repository / "params.yaml", tmp_path / "params.yaml")
    yaml = YAML(typ="safe", pure=True)
    everything = yaml.load((repository / "dvc.yaml").read_text())
    retrieval = tmp_path / "plots/retrieval"
    write_tsv(retrieval / "ranks.tsv", ("rank", *DIRECTIONS), [(rank, 20.0, 25.0) for rank in RANKS])
    write_tsv(retrieval / "recall.tsv", ("k", *DIRECTIONS), [(1, 20.0, 25.0), (2, 40.0, 50.0)])
    words = ("/train/", "/epochs/", "/semantics/", "/retrieval/")
    drawn = [plot for plot in everything["plots"] if any(word in str(plot) for word in words)]
    with (tmp_path / "dvc.yaml").open("w") as file:
        yaml.dump({"plots": drawn}, file)
    for command in (["git", "init", "-q"], [fork_server.python(), "-m", "dvc", "init", "-q"]):
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    shutil.copytree(repository / ".dvc/plots", tmp_path / ".dvc/plots", dirs_exist_ok=True)
    return tmp_path


def dvc(folder, *arguments):
    command = [fork_server.python(), "-m", "dvc", *arguments, "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert not found.get("errors"), found["errors"]
    return found


def values(plot):
    content = plot[0]["content"]
    return (json.loads(content) if isinstance(content, str) else content)["data"]["values"]


@pytest.mark.slow
def test_plots_of_dvc_yaml_are_drawn_by_dvc(project):
    plots = dvc(project, "plots", "show")["data"]
    assert len(plots) == 9
    assert [point["loss"] for point in values(plots["Loss"])] == ["3", "2"]
    recall = values(plots["Recall on dev"])
    assert {point["field"] for point in recall} == {f"{direction}_r10" for direction in DIRECTIONS}
    (ranks,) = plots["Ranks of the right picture"]
    assert [point["rank"] for point in values([ranks])] == RANKS
    content = json.loads(ranks["content"]) if isinstance(ranks["content"], str) else ranks["content"]
    assert content["encoding"]["y"]["sort"] is None  # Vega would sort 17-32 before 2
    for plot in plots.values():
        assert "<DVC_METRIC" not in str(plot[0].get("content"))  # every blank of a template is filled
