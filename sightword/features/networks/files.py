"""The files of a network that no stage names as its dependency: a function's module, a folder of transformers."""

from __future__ import annotations

import hashlib
from pathlib import Path

from sightword.io.files import canonical_json, sha256_file
from sightword.io.modules import hash_sources, imported_files


def network_sha256(backbone: str, root: Path = Path()) -> str:
    """Return the sha256 of a network's own files in a project, in hex; empty for a network that has none there.

    Args:
        backbone: the network's name: of ``package.module:function`` the files of the module and of what it imports from
            there are hashed, of ``transformers:FOLDER`` all files.
        root: the project's folder, from which both are found; or the folder of an installed package.
    """
    library, colon, rest = backbone.partition(":")
    if not colon:
        return ""
    if library == "transformers":
        folder = root / rest
        files = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else []
        hashes = {path.relative_to(folder).as_posix(): sha256_file(path) for path in files}
        return hashlib.sha256(canonical_json(hashes).encode()).hexdigest() if hashes else ""
    names = imported_files(library, root)
    return hash_sources(root, names) if names else ""
