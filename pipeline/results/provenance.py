"""What a row says of its origin: a recipe of today, settings that the recipe accepts, inputs that all can have."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from pipeline.lineage.lock import within
from pipeline.lineage.repository import Repository, git
from pipeline.results import origins
from pipeline.results.origins import RAW, covers, fetched_by
from pipeline.results.recognition import further, overridden
from pipeline.results.records import FOLDER, Row, text_of
from sightword.errors import ParamsError
from sightword.io.files import read_text
from sightword.messages import SENTENCE, and_more, short

_FILE = re.compile(r"[\w./+-]+\.(npy|h5|txt|pth|safetensors|gz|tsv|csv|json|yaml)")


def faults(project: Path, rows: Mapping[str, Row]) -> list[str]:
    """Return a line for each row whose recipe, settings or commit do not exist, or with an untold private input.

    A row without a recipe has a note (:class:`pipeline.results.records.Row`), and no settings to check.

    Raises:
        LineageError: the project is in no git repository, whose files everybody can have.
    """
    found = []
    with Repository(project) as repository:
        tracked = {f"{RAW}/{name}" for name in repository.files("HEAD", RAW)}
        known = [] if repository.shallow else git(project, "rev-list", "HEAD").split()
    for key, row in rows.items():
        where = f"{FOLDER}/{key}.json"
        if text_of(row) != read_text(project / where):
            found.append(f"{where}: is not as `sightword results add` writes it")
        commits = dict.fromkeys(run.commit for run in row.runs if run.commit)
        lost = [one for one in commits if known and not any(sha.startswith(one) for sha in known)]
        found += [f"{where}: the commit {one[:7]} of a run is not in the history of HEAD" for one in lost]
        if row.recipe is None:
            continue
        try:
            wholes = [overridden(row.recipe, row.overrides, project), *further(row.overrides, project)]
        except ParamsError as error:
            found.append(f"{where}: {short(' '.join(str(error).split()), SENTENCE)}")
            continue
        private = {name: paths for one in wholes for name, paths in _private(one.values, tracked).items()}
        if untold := [name for name, paths in private.items() if not _told(name, paths, row.private)]:
            found.append(f"{where}: private says nothing of {and_more(untold)}, which neither git nor `fetch` has")
    return found


def _private(values: Mapping[str, Any], tracked: Collection[str]) -> dict[str, list[str]]:
    """Return the raw data that parameters name and not everybody can have, each with the paths that it may have.

    A parameter names a path, or a file in one of the folders of its section.
    """
    found = {}
    for section in values.values():
        texts = origins.texts(section)
        folders = [one for one in texts if within(one, RAW)]
        for text in texts:
            inside = [f"{folder}/{text}" for folder in folders] if _FILE.fullmatch(text) else []
            paths = [text] if text in folders else inside
            if paths and not any(_is_public(path, tracked) for path in paths):
                found[text] = paths
    return found


def _is_public(path: str, tracked: Collection[str]) -> bool:
    return fetched_by(path) is not None or any(within(name, path) for name in tracked)


def _told(name: str, paths: Iterable[str], private: Collection[str]) -> bool:
    return any(covers(private, path) for path in paths) or any(one.endswith(f"/{name}") for one in private)
