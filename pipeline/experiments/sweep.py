"""The steps of a sweep around its run: base parameters, state, and the table of results."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from pathlib import Path

from pipeline.experiments import results, runner
from pipeline.experiments.baseline import Baseline
from pipeline.experiments.clones import run_dvc
from pipeline.experiments.grid import Grid
from pipeline.experiments.plan import Trial
from pipeline.lineage.evidence import facts_folders
from pipeline.params import overlay, recipes, writing
from pipeline.pipelines import Pipeline, of_sections
from sightword.errors import FileFormatError
from sightword.io.files import read_json, read_text


def pipeline_of(grid: Grid, project: Path) -> Pipeline:
    """Return the pipeline whose parameters a grid sets: its base's, the named one, or that of most of its sections.

    Raises:
        ParamsError: there is no such base or pipeline, or the project does not have the pipeline.
        FileFormatError: the base or a ``dvc.yaml`` cannot be read.
    """
    if grid.base is not None:
        found = overlay.resolve(_recipe(grid.base, project), project).pipeline
    elif grid.pipeline is not None:
        found = overlay.named_pipeline(grid.pipeline, project, f"the grid {grid.name}: pipeline")
    else:
        keys = [key for one in (grid.set, *grid.axes) for key in one]
        found = of_sections((key.partition(".")[0] for key in keys), project)
    overlay.check_added(found, project)
    return found


def base_params(grid: Grid, project: Path) -> tuple[str, str]:
    """Return the text of the parameters that all experiments start from, and their source."""
    if grid.base is None:
        params = pipeline_of(grid, project).params
        return read_text(project / params, todo="Write one with `sightword recipe NAME`."), params
    recipe = _recipe(grid.base, project)
    return writing.text(recipe, project), f"the recipe {recipe.name}"


def _recipe(base: str, project: Path) -> recipes.Recipe:
    own = os.sep in base or base.endswith((".yaml", ".yml"))
    return recipes.find(str(project / base) if own else base, project)


def states(folder: Path, runs: Sequence[Trial], done: Collection[str], taken: Collection[str]) -> dict[str, str]:
    """Return the state of each run that was begun: done, running, half done, failed, or other parameters.

    ``done`` names runs that are experiments already, ``taken`` experiments with other parameters.
    """
    try:
        recorded = read_json(folder / runner.STATE)
    except FileFormatError:
        recorded = {}
    begun = "half done" if runner.find_process(folder) is None else "running"
    words = {"started": begun, "again": begun, "failed": "failed"}
    last = {run.name: words.get(recorded.get(run.name, {}).get("state")) for run in runs}
    found = dict.fromkeys(taken, "other parameters") | {name: word for name, word in last.items() if word}
    return {run.name: "done" if run.name in done else found[run.name] for run in runs if run.name in {*done, *found}}


def run_table(runs: Sequence[Trial], states: dict[str, str]) -> list[list[str]]:
    """Return the header and one row for each run: name, state, values."""
    keys = list(dict.fromkeys(key for run in runs for key in run.values))
    rows = [[run.name, states.get(run.name, "to do"), *(str(run.values.get(key, "-")) for key in keys)] for run in runs]
    return [["experiment", "state", *keys], *rows]


def outcome(
    baseline: Baseline, names: Collection[str], metrics: Sequence[str]
) -> tuple[list[results.Group], list[str]]:
    """Return the sweep's results, seeds together, and the names of runs whose numbers do not count, with the reason.

    ParamsError for no such metric.
    """
    shown = run_dvc("exp", "show", "--json", "--rev", baseline.commit, folder=baseline.project)
    listing = results.read(json.loads(shown), baseline.project, facts_folders(baseline.project))
    found = [one for one in listing.experiments if one.name in names]
    groups = results.groups(found, metrics) if found else []
    return groups, results.left_out(results.Listing(found, []), groups)
