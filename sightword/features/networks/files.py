"""The files of a network by ``package.module:function``, which no stage names as its dependency."""

from __future__ import annotations

from pathlib import Path

from sightword.io.modules import hash_sources, imported_files


def network_sha256(backbone: str, root: Path = Path()) -> str:
    """Return the sha256 of a network's own files in a project, in hex; empty for a network that has none there.

    Args:
        backbone: the network's name: of ``package.module:function`` all files of the package are hashed, and the other
            modules of ``root`` that the module imports.
        root: the project's folder, from which both are found; or the folder of an installed package.
    """
    module, colon, _ = backbone.partition(":")
    package = root / module.partition(".")[0]
    if not colon or not (files := imported_files(module, root)):
        return ""
    inside = (path for path in package.rglob("*") if path.is_file() and path.parent.name != "__pycache__")
    return hash_sources(root, sorted({*files, *(path.relative_to(root).as_posix() for path in inside)}))
