"""A row from a finished run in the workspace, a commit or an experiment, after checks that its numbers are its own."""

from __future__ import annotations

import io
import json
import math
import re
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from pipeline import systems
from pipeline.lineage.files import Ignored, hash_listing, hash_path, md5_of_text
from pipeline.lineage.lock import within
from pipeline.params import overlay, recipes
from pipeline.pipelines import LOCK, Pipeline, folder_of, parameter, pipelines
from sightword.errors import FileFormatError, LineageError, ParamsError
from sightword.io import yaml_reader
from sightword.io.files import loads
from sightword.messages import and_more, first_line, flat, quote
from sightword.statistics.inference import rounded
from study.origins import RAW, covers, fetched_by, find_recipe, git, recognise, texts
from study.rows import Row, Run, Score, find_row, split_key

CODE = ("sightword", "pipeline", "stages")
METRICS = "metrics"
SHARED = ("beside", "entailment", "features", "hypernyms", "pretrained", "ratings", "starts", "text")
"""The folders of raw data of which a stage reads what its own parameters name; of any other one it reads all."""
INTERVALS = ("_ci95", "_bootstrap95")
"""The endings of the names of a score's intervals; the first that is there counts."""
VERSIONS = ("numpy", "torch")
NOTE = re.compile(r"(.*/)?(README\.md|\.gitignore|[^/]*\.dvc)")
"""A file beside data that no stage reads."""


class Stage(NamedTuple):
    """An entry of ``dvc.lock``: hashes of dependencies and outputs by path, parameters by file and name."""

    name: str
    deps: dict[str, str]
    params: dict[str, dict[str, Any]]
    outs: dict[str, str]


@dataclass(frozen=True)
class Finished:
    """The last run of a recipe's pipeline in the workspace, or in a commit or experiment."""

    project: Path
    revision: str
    """A commit, or the name of an experiment; empty: the workspace."""
    recipe: str

    @cached_property
    def commit(self) -> str:
        """The full hash of the run's commit."""
        named = git(self.project, "for-each-ref", "refs/exps", "--format=%(objectname) %(refname)").split("\n")
        shas = [line.split()[0] for line in named if line.endswith(f"/{self.revision}")] if self.revision else []
        return shas[0] if shas else git(self.project, "rev-parse", f"{self.revision or 'HEAD'}^{{commit}}").strip()

    @cached_property
    def public(self) -> str:
        """The newest commit up to the run's that a remote has; without remotes, that the checked-out commit has."""
        remotes = git(self.project, "remote").split()
        listed = git(self.project, "for-each-ref", "refs/remotes", "--format=%(objectname)").split()
        bases = [git(self.project, "merge-base", self.commit, ref).strip() for ref in (listed if remotes else ["HEAD"])]
        if not bases:
            what = f"no commit up to {self.commit[:7]} is on a remote"
            raise LineageError(what, where=self.project, todo="`git push`.")
        return git(self.project, "rev-list", "--max-count=1", "--date-order", *bases).strip()

    def read(self, path: str) -> bytes:
        """Return the bytes of a file of the run; empty where there is none."""
        if not self.revision:
            return (self.project / path).read_bytes() if (self.project / path).is_file() else b""
        command = ["git", "show", f"{self.commit}:{path}"]
        return subprocess.run(command, cwd=self.project, capture_output=True, check=False).stdout

    def values(self, path: str) -> Any:
        """Return the values of a YAML file of the run."""
        return yaml_reader.parse(self.read(path).decode(errors="replace"), path) or {}

    @cached_property
    def published(self) -> dict[str, str]:
        """The MD5 of each file of the public commit, by path."""
        command = ["git", "archive", "--format=tar", self.public]
        packed = subprocess.run(command, cwd=self.project, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as files:
            members = [(one.name, files.extractfile(one)) for one in files if one.isfile()]
            return {name: md5_of_text(file.read()) for name, file in members if file}

    @cached_property
    def pipeline(self) -> Pipeline:
        """The pipeline of the recipe."""
        return overlay.pipeline_of(find_recipe(self.recipe, self.project), self.project)

    @cached_property
    def stages(self) -> dict[str, Stage]:
        """All entries of the locks, by address."""
        found = {}
        for one in pipelines(self.project):
            for name, entry in (self.values(one.lock).get("stages") or {}).items():
                deps, outs = ({item["path"]: item["md5"] for item in entry.get(kind, [])} for kind in ("deps", "outs"))
                found[one.address(name)] = Stage(one.address(name), deps, entry.get("params", {}), outs)
        return found

    @cached_property
    def chain(self) -> list[Stage]:
        """The stages with metrics of the pipeline, and all that they build on, of other pipelines too."""
        wanted = [
            one
            for one in self.stages.values()
            if folder_of(one.name) == self.pipeline.folder and any(within(path, METRICS) for path in one.outs)
        ]
        if not wanted:
            raise LineageError("has no run", where=self.pipeline.lock, todo=f"`{self.pipeline.command}`")
        found: dict[str, Stage] = {}
        while wanted:
            one = wanted.pop()
            found[one.name] = one
            wanted += [maker for path in one.deps if (maker := self.maker(path)) and maker.name not in found]
        return [one for one in self.stages.values() if one.name in found]

    def maker(self, path: str) -> Stage | None:
        """Return the stage that makes a path."""
        return next((one for one in self.stages.values() if any(within(path, out) for out in one.outs)), None)

    def metrics(self) -> dict[str, bytes]:
        """Return the pipeline's files of metrics by path; LineageError for a file that its stage did not write."""
        found = {}
        for stage in (one for one in self.chain if folder_of(one.name) == self.pipeline.folder):
            for path, md5 in stage.outs.items():
                if within(path, METRICS) and path.endswith(".json"):
                    found[path] = self.read(path)
                    if md5_of_text(found[path]) != md5:
                        raise LineageError("is not the file that its stage wrote", where=path, todo="Run it again.")
        return found

    def check(self) -> None:
        """Check that one run of each stage, with the parameters, code and recipe of the commit, made the metrics."""
        recipe = find_recipe(self.recipe, self.project).path.resolve().relative_to(self.project.resolve())
        for path in [*(f"{folder}/dvc.yaml".lstrip("/") for folder in self._folders), recipe.as_posix()]:
            if md5_of_text(self.read(path)) != self.published.get(path):
                raise self._refused("is not that of the commit", path)
        for stage in self.chain:
            for file, params in stage.params.items():
                now = flat(self.values(file))
                for key, then in flat(params).items():
                    if now.get(key) != then:
                        what = f"its metrics are not of its parameters: {key} is {now.get(key)}, in {LOCK} {then}"
                        raise LineageError(what, where=file, todo="Run it again.")
            for path, md5 in stage.deps.items():
                maker = self.maker(path)
                if maker and maker.outs.get(path, md5) != md5:
                    what = f"was made again by {maker.name} since {stage.name} read it"
                    raise LineageError(what, where=path, todo="Run it again.")
                if covers(CODE, path):
                    inside = inner(self.published, path)
                    if md5 != (inside.get("") or hash_listing(inside)):
                        raise self._refused(f"the code with which {stage.name} ran is not that of the commit", path)

    def _refused(self, what: str, path: str) -> LineageError:
        todo = "Commit and push it, run, and add the row then."
        return LineageError(f"{what} {self.public[:7]}", where=path, todo=todo)

    @property
    def _folders(self) -> list[str]:
        return sorted({folder_of(one.name) for one in self.chain})

    def facts(self, paths: Sequence[str]) -> dict[str, Any]:
        """Return what `sightword audit` knows of each stage's run, by address; LineageError where it contradicts."""
        found: dict[str, Any] = {}
        for path in paths:
            command = [sys.executable, "-m", "pipeline.cli", "audit", path, "--json"]
            command += ["--rev", self.revision] if self.revision else []
            done = subprocess.run(command, cwd=self.project, capture_output=True, text=True, check=False)
            if not done.stdout.startswith("{"):
                raise LineageError(done.stderr.strip().removeprefix("sightword: "))
            for stage in json.loads(done.stdout)["stages"]:
                if stage["record"]["doubted"]:
                    what = f"{stage['name']} does not agree with the records of runs: {stage['record']['verdict']}"
                    raise LineageError(what, where=path, todo="Run it again.")
                found[stage["name"]] = stage["run"]
        return found

    def inputs(self) -> tuple[dict[str, str], list[str]]:
        """Return the hashes of the raw data that the run read, and its files that neither git nor `fetch` has."""
        hashes: dict[str, str] = {}
        private: list[str] = []
        for stage in self.chain:
            for path, md5 in stage.deps.items():
                if not within(path, RAW) or self.maker(path) or path in hashes:
                    continue
                place = (self.project / path).resolve()
                hashed = hash_path(place, Ignored(self.project.resolve())) if place.exists() else None
                if hashed is None or hashed.md5 != md5:
                    raise LineageError("is not the data that the run read", where=path, todo="Put it back.")
                files = {name: one for name, one in (hashed.files or {"": md5}).items() if not NOTE.fullmatch(name)}
                read = {path: files} if files else {}
                if path.removeprefix(f"{RAW}/") in SHARED and hashed.files is not None:
                    named = {text.removeprefix(f"{path}/").rstrip("/") for text in texts(stage.params)} - {""}
                    read = {f"{path}/{name}": some for name in sorted(named) if (some := inner(files, name))}
                for part, contents in read.items():
                    hashes[part] = contents.get("") or hash_listing(contents)
                    whole = {f"{part}/{name}".rstrip("/"): one for name, one in contents.items()}
                    unknown = [name for name, one in whole.items() if self.published.get(name) != one]
                    private += [name for name in unknown if not fetched_by(name)]
        return hashes, sorted(private)

    def overrides(self) -> dict[str, Any]:
        """Return the parameters that differ from the recipe; of the pipelines that the run builds on too."""
        seed = systems.declared(self.pipeline, "SEED", None)
        found = recognise(self.values(self.pipeline.params), self.pipeline, name=self.recipe, without=seed)
        for folder in (one for one in self._folders if one != self.pipeline.folder):
            other = Pipeline(self.project, folder)
            read = [one.params.get(other.params, {}) for one in self.chain if folder_of(one.name) == folder]
            sections = {name.partition(".")[0] for names in read for name in names}
            values = self.values(other.params)
            name = nearest(values, other, sections)
            differing = recognise(values, other, name=name, sections=sections)
            found |= {other.params: name, **{f"{other.params}:{key}": value for key, value in differing.items()}}
        return found

    def run(self, keep: str = "") -> tuple[Run, list[str]]:
        """Return the checked run with the scores that match ``keep`` in some part, and its private files."""
        self.check()
        metrics = self.metrics()
        scores = {name: one for path, text in metrics.items() for name, one in read_scores(path, text).items()}
        kept = {name: one for name, one in scores.items() if re.search(keep, name)}
        if not kept:
            what = f"--scores {quote(keep)}: the run has no such score"
            raise ParamsError(what, expected=f"one of {and_more(scores, 5)}")
        facts = self.facts([*metrics])
        told = [facts.get(one.name) for one in self.chain]
        inputs, private = self.inputs()
        name = systems.declared(self.pipeline, "SEED", None)
        seeds = parameter(self.values(self.pipeline.params), name) if name else 0
        drawn = facts.get(self.pipeline.address((name or "").partition(".")[0])) or {}
        known = [one for one in told if one]
        whole = len(known) == len(told)
        packages = [{name: one["packages"].get(name, "none") for name in VERSIONS} for one in known]
        ours = [one for one in self.chain if folder_of(one.name) == self.pipeline.folder]
        outs = {path: md5 for one in ours for path, md5 in one.outs.items() if covers(("models", METRICS), path)}
        run = Run(
            seeds=seeds if isinstance(seeds, list) else [seeds],
            commit=self.public,
            date=max(str(one["started"])[:10] for one in known) if whole else None,
            processor=same([one["processor" if one["device"] == "cpu" else "device"] for one in known])
            if whole
            else None,
            packages=(whole and same(packages)) or {},
            threads=drawn.get("threads"),
            seconds=round(sum(one["seconds"] for one in known)) if whole else None,
            inputs=inputs,
            outputs=dict(sorted(outs.items())),
            scores=kept,
        )
        return run, private


def nearest(values: Mapping[str, Any], pipeline: Pipeline, sections: set[str]) -> str:
    """Return the name of the recipe of a pipeline with the fewest parameters that differ."""
    every = recipes.list_recipes(pipeline.project)
    ours = [one for one in every if overlay.pipeline_of(one, pipeline.project).folder == pipeline.folder]
    return min((len(recognise(values, pipeline, name=one.name, sections=sections)), one.name) for one in ours)[1]


def inner(files: Mapping[str, str], path: str) -> dict[str, str]:
    """Return the hashes of the files in a folder by their names within; of a file its own, by an empty name."""
    return {name[len(path) :].lstrip("/"): md5 for name, md5 in files.items() if within(name, path)}


def same(values: Sequence[Any]) -> Any:
    """Return what all values are; None where they differ."""
    return values[0] if values and all(one == values[0] for one in values) else None


def read_scores(path: str, text: bytes) -> dict[str, Score]:
    """Return the scores of a file of metrics: its numbers with fractions (counts are whole), with 95 % intervals."""
    try:
        return _scores(loads(text), path.removeprefix(f"{METRICS}/").removesuffix(".json"))
    except (ValueError, AttributeError, OverflowError) as error:
        raise FileFormatError(f"holds no scores ({first_line(error)})", where=path) from None


def _scores(values: Mapping[str, Any], above: str) -> dict[str, Score]:
    found: dict[str, Score] = {}
    for key, value in values.items():
        name = f"{above}.{key}"
        if isinstance(value, Mapping):
            found |= _scores(value, name)
        elif isinstance(value, float) and math.isfinite(value) and not key.endswith(INTERVALS):
            interval = next((values[f"{key}{end}"] for end in INTERVALS if f"{key}{end}" in values), None)
            ends = [value - interval, value + interval] if isinstance(interval, int | float) else interval
            if isinstance(ends, list) and len(ends) == 2 and all(isinstance(one, int | float) for one in ends):
                low, high = rounded([float(one) for one in ends])
                found[name] = Score(value=value, low=low, high=high)
            else:
                found[name] = Score(value=value)
    return found


def extended(
    project: Path,
    key: str,
    finished: Finished,
    *,
    private: Mapping[str, str],
    note: str | None = None,
    scores: str = "",
    replace: bool = False,
) -> Row:
    """Return a row with a run more, or a new row; nothing is written.

    Inputs that nobody else can have are explained in ``private``, by path or that of a folder above; ``scores`` is the
    regular expression of the kept names; ``replace`` leaves out earlier runs with a seed of this run.

    Raises:
        ParamsError: the row has one of the seeds, or other parameters; or a private input has no reason.
        LineageError: the numbers are not those of a run of the commit, or the runs of the row read other data.
    """
    topic, name = split_key(key)
    try:
        before: Row | None = find_row(project, key)
    except ParamsError:
        before = None
    run, files = finished.run(scores)
    overrides = finished.overrides()
    kept = [one for one in before.runs if not {*one.seeds} & {*run.seeds}] if before else []
    if before and len(kept) < len(before.runs) and not replace:
        what = f"has a run with the seed {run.seeds[0]} already"
        raise ParamsError(what, where=key, todo="--replace puts this one there.")
    if before and kept and (before.recipe, before.overrides) != (finished.recipe, overrides):
        names = [one for one in {**before.overrides, **overrides} if before.overrides.get(one) != overrides.get(one)]
        what = f"the run has another recipe or other parameters: {and_more(names) or finished.recipe}"
        raise ParamsError(what, where=key, todo="Give it a row of its own.")
    for other in [one for one in kept if one.inputs and one.inputs != run.inputs]:
        paths = [path for path in {**other.inputs, **run.inputs} if other.inputs.get(path) != run.inputs.get(path)]
        raise LineageError(f"the run read other data: {and_more(paths)}", where=key, todo="Give it a row of its own.")
    reasons = {**(before.private if before else {}), **private}
    if untold := [path for path in files if not covers(reasons, path)]:
        what = f"neither git nor `sightword fetch` has {and_more(untold, 5)}"
        todo = "Say why for each, or for a folder above: --private PATH='where it is from'."
        raise ParamsError(what, where=key, todo=todo)
    return Row(
        topic=topic, name=name, recipe=finished.recipe, overrides=overrides, private=reasons,
        note=note or (before.note if before else None), runs=[*kept, run],
    )  # fmt: skip
