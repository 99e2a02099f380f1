"""The files of a network that no stage names as its dependency: a function's module, a folder of transformers."""

from __future__ import annotations

import hashlib
from pathlib import Path

from sightword.io.files import canonical_json, sha256_file


def network_sha256(backbone: str, root: Path = Path()) -> str:
    """Return the sha256 of a network's own files in a project, in hex; empty for a network that has none there.

    Args:
        backbone: the network's name: of ``package.module:function`` the module's file is hashed, of
            ``transformers:FOLDER`` the names and hashes of all files. Installed modules are not: their versions are
            among the facts of a run.
        root: the project's folder, from which both are found.
    """
    library, colon, rest = backbone.partition(":")
    if not colon:
        return ""
    if library == "transformers":
        folder = root / rest
        files = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else []
        hashes = {path.relative_to(folder).as_posix(): sha256_file(path) for path in files}
        return hashlib.sha256(canonical_json(hashes).encode()).hexdigest() if hashes else ""
    module = root.joinpath(*library.split("."))
    found = [path for path in (module.with_suffix(".py"), module / "__init__.py") if path.is_file()]
    return sha256_file(found[0]) if found else ""
