"""The hash of all code and data that a stage reads: a half-done run goes on with the same inputs only."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.lineage import code_lists, documents
from pipeline.lineage.facts import LARGE, stage_paths
from pipeline.lineage.hashing import Ignored, hash_path, md5_of, measure, stamp
from pipeline.lineage.lock import is_code
from sightword.errors import LineageError
from sightword.io.files import Pathish, canonical_json, read_text

_CODE = Path(__file__).resolve().parents[2]
"""The folder of the code that runs, which need not be the project's."""


def inputs_hash(described: Mapping[str, Any], params: Pathish, item: Mapping[str, Any]) -> str:
    """Return the sha256, as hex digits, of the dependencies of a stage that is about to run in the current folder.

    Data above :data:`LARGE` bytes counts by the names, sizes and times of the files.

    Args:
        described: the stage as in ``dvc.yaml``.
        params: the file of the parameters.
        item: the values of the stage's matrix.

    Raises:
        LineageError: a dependency names a parameter that the file lacks.
        OSError: the file system's error.
    """
    values = documents.parse(read_text(params), str(params))
    try:
        deps, _ = stage_paths({"deps": described.get("deps", [])}, {**values, "item": item})
    except KeyError as error:
        raise LineageError(f"has no {error.args[0]}, which a dependency of the stage names", where=params) from None
    rooms = [path for path in deps if is_code(path) and not code_lists.is_list(path)]  # a list is the program's
    found = {path: _of_code(_CODE / path) if path in rooms else _of_data(Path(path).absolute()) for path in deps}
    return hashlib.sha256(canonical_json(found).encode()).hexdigest()


def _of_code(path: Path) -> Any:
    """Return the hashes of the files of a room, or of one file, by name."""
    files = path.rglob("*") if path.is_dir() else [path]
    return {
        file.relative_to(_CODE).as_posix(): md5_of(file)
        for file in sorted(files)
        if file.is_file() and "__pycache__" not in file.parts
    }


def _of_data(path: Path) -> str | None:
    """Return the hash of a file or folder; None where it is missing, which the stage itself reports."""
    if not path.exists():
        return None
    ignored = Ignored(Path.cwd())
    return stamp(path, ignored) if measure(path, ignored) > LARGE else hash_path(path, ignored).md5
