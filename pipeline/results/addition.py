"""A row made from a finished run, or extended by the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.experiments.results import compiled
from pipeline.lineage.evidence import facts_folders
from pipeline.lineage.files import Workspace, snapshot
from pipeline.lineage.lock import changes
from pipeline.lineage.repository import Repository
from pipeline.params import overlay, recipes
from pipeline.pipelines import PARAMS, Pipeline, folder_of, pipelines
from pipeline.results.origins import covers, files_read, hash_of, private_files
from pipeline.results.recognition import Recognised, recognise
from pipeline.results.records import Row, Run, path_of, read_row, split_key
from pipeline.results.runs import FinishedRun, check_code, check_recipes, public_commit
from sightword.errors import LineageError, ParamsError
from sightword.messages import and_more, quote


@dataclass(frozen=True)
class Found:
    """A finished run, the recipe that it followed, and its files that nobody else can have."""

    recognised: Recognised
    run: Run
    private: list[str]


def find_run(project: Path, revision: str = "", recipe: str | None = None, scores: str = "") -> Found:
    """Return the run whose results lie in the workspace, or in a commit or experiment.

    Args:
        project: the project's folder.
        revision: a commit or experiment; empty: the workspace.
        recipe: the name of the recipe that the run followed; None finds the nearest one.
        scores: the regular expression that the names of the kept scores match in some part; empty: all scores.

    Raises:
        LineageError: nothing has run; or the metrics are not of the parameters, of one run, or of a commit's code,
            stages and recipe.
        ParamsError: no recipe has this name, or several pipelines have run and none is named; or no score matches.
    """
    if recipe is not None and recipes.find(recipe, project).name != recipe:
        raise ParamsError("is a file, and a row has the name of a recipe", where=recipe, expected="a name in recipes/")
    matches = compiled(scores, "--scores").search
    facts = facts_folders(project)
    with Repository(project) as repository:
        then = snapshot(revision, project, repository)
        head = then.commit or repository.head()
        if head is None:
            raise LineageError("has no commit", where=project, todo="`git commit` the code, and run the pipeline.")
        ran = FinishedRun(then, _pipeline(project, {folder_of(name) for name in then.lock.entries}, recipe))
        public = public_commit(project, head.sha)
        ran.check(facts)
        check_code(ran.chain, repository, public, head.sha)
        ran.check_stages(repository, public)
        recognised = _recognised(ran, recipe)
        further = (str(value) for name, value in recognised.overrides.items() if name.endswith(PARAMS))
        check_recipes([recognised.recipe, *further], project, repository, public)
        read = files_read(ran.chain, ran.inputs, Workspace(project), repository, head=head.sha)
        run = ran.described(facts, public, {path: hash_of(files) for path, files in read.items()})
        kept = {name: score for name, score in run.scores.items() if matches(name)}
        if scores and not kept:
            known = and_more(run.scores, 5)
            raise ParamsError(f"--scores {quote(scores)}: the run has no such score", expected=f"one of {known}")
        run = run.model_copy(update={"scores": kept})
        return Found(recognised, run, private_files(read, repository, public))


def _pipeline(project: Path, folders: set[str], recipe: str | None) -> Pipeline:
    """Return the pipeline of a recipe; without one, the only pipeline that has run."""
    ran = [one for one in pipelines(project) if one.folder in folders]
    if recipe is not None:
        wanted = overlay.resolve(recipes.find(recipe, project), project).pipeline
        if wanted not in ran:
            what = f"its pipeline ({wanted.dvc_yaml}) has not run here"
            raise LineageError(what, where=recipe, todo=f"`{wanted.command}`")
        return wanted
    if len(ran) != 1:
        names = ", ".join(one.dvc_yaml for one in ran)
        what = f"several pipelines have run: {names}" if ran else "no pipeline has run"
        raise ParamsError(what, where=project, todo="Name a recipe of the one that you mean with --recipe.")
    return ran[0]


def _recognised(ran: FinishedRun, recipe: str | None) -> Recognised:
    """Return recipe and overrides of a run; of the other pipelines that it builds on too, by their parameter files."""
    own = recognise(ran.params, ran.pipeline, name=recipe, without=ran.seed)
    others: dict[str, Any] = {}
    for folder in sorted({folder_of(entry.name) for entry in ran.chain} - {ran.pipeline.folder}):
        one = Pipeline(ran.pipeline.project, folder)
        entries = [entry for entry in ran.chain if folder_of(entry.name) == folder]
        sections = {name.partition(".")[0] for entry in entries for name in entry.params.get(one.params, ())}
        found = recognise(ran.values(one.params), one, sections=sections)
        others |= {one.params: found.recipe}
        others |= {f"{one.params}:{key}": value for key, value in found.overrides.items()}
    return Recognised(own.recipe, own.overrides | others)


def extended(
    project: Path, key: str, found: Found, *, private: Mapping[str, str], note: str | None = None, replace: bool = False
) -> Row:
    """Return a row with a run more, or a new row; nothing is written.

    Args:
        project: the project's folder.
        key: ``topic/name``.
        found: the run.
        private: why nobody else can have an input, by its path or that of a folder above.
        note: a sentence that a reader needs; None keeps that of the row.
        replace: leave out earlier runs with a seed of this run.

    Raises:
        ParamsError: the row has one of the seeds, or other parameters; or a private input has no reason.
        LineageError: the runs of the row read other data.
        FileFormatError: the file of the row cannot be read.
    """
    topic, name = split_key(key)
    before = read_row(path_of(project, key)) if path_of(project, key).exists() else None
    kept = _kept(before, found, key, replace=replace) if before else []
    if before and kept:
        _check_same(before, found, key)
        _check_data(kept, found, key)
    reasons = {**(before.private if before else {}), **private}
    for path in private:
        if not any(covers([path], one) or covers([one], path) for one in found.run.inputs):
            inputs = and_more(found.run.inputs, 20)
            raise ParamsError("is no input of the run", where=path, expected=f"one of {inputs}, or a file in it")
    if unexplained := [path for path in found.private if not covers(reasons, path)]:
        what = f"neither git nor `sightword fetch` has {and_more(unexplained, 5)}"
        todo = "Say why for each, or for a folder above: --private PATH='where it is from'."
        raise ParamsError(what, where=key, todo=todo)
    note = note or (before.note if before else None)
    recipe, overrides = found.recognised
    return Row(
        topic=topic, name=name, recipe=recipe, overrides=overrides, private=reasons, note=note, runs=[*kept, found.run]
    )


def _kept(before: Row, found: Found, key: str, *, replace: bool) -> Sequence[Run]:
    """Return the runs of a row that stay."""
    doubled = [run for run in before.runs if {*run.seeds} & {*found.run.seeds}]
    if doubled and not replace:
        seeds = and_more(sorted({seed for run in doubled for seed in run.seeds} & {*found.run.seeds}))
        raise ParamsError(f"has a run with the seed {seeds} already", where=key, todo="--replace puts this one there.")
    return [run for run in before.runs if run not in doubled]


def _check_same(before: Row, found: Found, key: str) -> None:
    recipe, overrides = found.recognised
    if (before.recipe, before.overrides) == (recipe, overrides):
        return
    pairs = {one: (before.overrides.get(one), overrides.get(one)) for one in {**before.overrides, **overrides}}
    differing = [
        f"{one} is {quote(now)}, in the row {quote(then)}" for one, (then, now) in pairs.items() if then != now
    ]
    what = and_more(differing, 5, between="; ") or f"the recipe is {recipe}, in the row {before.recipe}"
    raise ParamsError(f"the run has other parameters: {what}", where=key, todo="Give it a row of its own.")


def _check_data(kept: Sequence[Run], found: Found, key: str) -> None:
    for run in (run for run in kept if run.inputs):
        for path, (then, now) in changes(run.inputs, found.run.inputs).items():
            what = f"the run read other data: {path} is {(now or 'absent')[:8]}, in the row {(then or 'absent')[:8]}"
            raise LineageError(what, where=key, todo="Give it a row of its own, or --replace all runs.")
