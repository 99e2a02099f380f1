"""Where a row is from: its recipe, what differs from it, and inputs that neither git nor `sightword fetch` has."""

from __future__ import annotations

import functools
import re
import subprocess
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pipeline.downloads.sources import Source, data_sets
from pipeline.lineage.lock import within
from pipeline.params import overlay, params_file, recipes
from pipeline.pipelines import PARAMS, Pipeline
from sightword.errors import LineageError, ParamsError
from sightword.io.files import read_text
from sightword.messages import SENTENCE, and_more, flat, short
from sightword.report.departures import merged
from study.rows import FOLDER, Row, text_of

RECIPES = "study/recipes"
RAW = "data/raw"
EARLIER = "Earlier code:"
"""The beginning of the note of a row that today's code does not make by the row's recipe: the reason, then after
a semicolon what else the reader needs."""
TITLE = ".title"
"""The ending of the parameters that only name a page."""
_FILE = re.compile(r"[\w./+-]+\.(npy|h5|txt|pth|safetensors|gz|tsv|csv|json|yaml)")


def git(project: Path, *arguments: str) -> str:
    """Return what a command of git prints; LineageError where it fails."""
    done = subprocess.run(["git", *arguments], cwd=project, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LineageError(f"git {arguments[0]}: {done.stderr.strip()}", where=project)
    return done.stdout


def find_recipe(name: str, project: Path) -> recipes.Recipe:
    """Return a recipe of the project or of the study; ParamsError for an unknown one."""
    path = project / RECIPES / f"{name}.yaml"
    return recipes.find(str(path) if path.is_file() else name, project)


@functools.cache  # many rows share a recipe
def _resolved(name: str, project: Path) -> overlay.Whole:
    return overlay.resolve(find_recipe(name, project), project)


def recognise(
    values: Mapping[str, Any],
    pipeline: Pipeline,
    *,
    name: str,
    without: str | None = None,
    sections: Collection[str] = (),
) -> dict[str, Any]:
    """Return the parameters that differ from a recipe by full name.

    Titles do not count, nor the seed ``without``, nor parameters newer than the values; empty ``sections`` mean all.
    """

    def chosen(all_values: Mapping[str, Any]) -> dict[str, Any]:
        counted = {key: value for key, value in all_values.items() if not sections or key in sections}
        return {key: value for key, value in flat(counted).items() if key != without and not key.endswith(TITLE)}

    whole = _resolved(name, pipeline.project)
    if whole.pipeline.folder != pipeline.folder:
        raise ParamsError(f"{pipeline.params} has the parameters of another pipeline than the recipe", where=name)
    ours, theirs = chosen(values), chosen(whole.values)
    full = chosen({name: one.model_dump() for name, one in whole.sections.items()})  # as a sweep writes lists
    return {key: ours[key] for key in ours if key not in theirs or ours[key] not in (theirs[key], full.get(key))}


def overridden(recipe: str, overrides: Mapping[str, Any], project: Path) -> overlay.Whole:
    """Return the checked parameters of a recipe with some others of its file; ParamsError where they do not fit."""
    whole = _resolved(recipe, project)
    values: dict[str, Any] = whole.values
    for key, value in overrides.items():
        if PARAMS not in key:
            *above, last = key.split(".")
            nested: dict[str, Any] = {last: value}
            for part in reversed(above):
                nested = {part: nested}
            values = merged(values, nested)
    checked = params_file.check(values, where=f"{recipe} with overrides", pipeline=whole.pipeline)
    return whole._replace(values=values, sections=checked)


def wholes(recipe: str, overrides: Mapping[str, Any], project: Path) -> list[overlay.Whole]:
    """Return the checked parameters of a row's recipe, and of the further files that its overrides name."""
    files = [key for key in overrides if key.endswith(PARAMS)]
    inner = {
        file: {key.removeprefix(f"{file}:"): one for key, one in overrides.items() if key.startswith(f"{file}:")}
        for file in files
    }
    return [
        overridden(recipe, overrides, project),
        *(overridden(str(overrides[file]), inner[file], project) for file in files),
    ]


def fetched_by(path: str) -> str | None:
    """Return the name of the data set that has a file, or a whole folder, by their path; None for another path."""
    for data_set in data_sets().values():
        folder = f"{RAW}/{data_set.folder}".rstrip("/")
        if data_set.folder and within(path, folder):
            inside = path.removeprefix(folder).lstrip("/")
            if not inside or any(_has(source, inside) for source in data_set.sources):
                return data_set.name
    return None


def _has(source: Source, path: str) -> bool:
    """Return whether a published file, unpacked, has a path of the data set's folder, or something below it."""
    if path in source.wanted() or any(one.startswith(f"{path}/") for one in source.wanted()):
        return True
    for pattern, folder in source.into.items():
        below = path if folder == "." else path.removeprefix(f"{folder}/")
        inside = folder == "." or within(path, folder)
        name = pattern.rpartition("/")[2]
        if inside and (path == folder or name == "**" or ("/" not in below and fnmatchcase(below, name))):
            return True
    return False


def faults(project: Path, rows: Mapping[str, Row]) -> list[str]:
    """Return a line for each row whose recipe, settings or commit do not exist, or with an untold private input.

    The settings of a row of earlier code need not exist any more: its note says so.
    """
    tracked = git(project, "ls-files", RAW).splitlines()
    shallow = git(project, "rev-parse", "--is-shallow-repository").strip() == "true"
    known = [] if shallow else git(project, "rev-list", "HEAD").split()
    found = [
        f"{path.relative_to(project)}: is not as `python -m study add` writes it"
        for path in sorted((project / FOLDER).glob("*.jsonl"))
        if text_of({key: row for key, row in rows.items() if row.topic == path.stem}) != read_text(path)
    ]
    for key, row in rows.items():
        commits = dict.fromkeys(run.commit for run in row.runs if run.commit)
        lost = [one for one in commits if known and not any(sha.startswith(one) for sha in known)]
        found += [f"{key}: the commit {one[:7]} of a run is not in the history of HEAD" for one in lost]
        if row.recipe is None:
            continue
        try:
            every = wholes(row.recipe, row.overrides, project)
        except ParamsError as error:
            if not (row.note or "").startswith(EARLIER):
                found.append(f"{key}: {short(' '.join(str(error).split()), SENTENCE)}")
            continue
        private = {name: paths for one in every for name, paths in _private(one.values, tracked).items()}
        untold = [
            name
            for name, paths in private.items()
            if not any(covers(row.private, path) for path in paths)
            if not any(one.endswith(f"/{name}") for one in row.private)
        ]
        if untold:
            found.append(f"{key}: private says nothing of {and_more(untold)}, which neither git nor `fetch` has")
    return found


def texts(value: Any) -> list[str]:
    """Return all texts in nested values."""
    if isinstance(value, Mapping):
        return [text for one in flat(value).values() for text in texts(one)]
    if isinstance(value, list):
        return [text for one in value for text in texts(one)]
    return [value] if isinstance(value, str) else []


def _private(values: Mapping[str, Any], tracked: Collection[str]) -> dict[str, list[str]]:
    """Return the raw data that parameters name and not everybody can have, each with the paths that it may have.

    A parameter names a path, or a file in one of the folders of its section.
    """
    found = {}
    for section in values.values():
        named = texts(section)
        folders = [one for one in named if within(one, RAW)]
        for text in named:
            inside = [f"{folder}/{text}" for folder in folders] if _FILE.fullmatch(text) else []
            paths = [text] if text in folders else inside
            if paths and not any(fetched_by(path) or any(within(name, path) for name in tracked) for path in paths):
                found[text] = paths
    return found


def covers(paths: Iterable[str], file: str) -> bool:
    """Return whether one of some paths is a file, or a folder above it."""
    return any(within(file, path) for path in paths)
