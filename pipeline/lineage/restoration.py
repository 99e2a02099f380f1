"""Brings back the outputs that DVC removed before a stage failed."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from pipeline.lineage.cache import Cache
from pipeline.lineage.hashing import md5_of_text
from pipeline.lineage.repository import Repository
from sightword.errors import LineageError
from sightword.io.files import atomic_file


def restore(project: Path, address: str) -> bool:
    """Bring back all outputs of a stage as ``dvc.lock`` has them, from DVC's cache and git; or else none.

    DVC removes a stage's outputs before the stage's command starts. While the command runs, `dvc checkout` cannot bring
    them back: the outputs are locked.

    Args:
        project: the folder with ``.dvc``.
        address: DVC's name of the stage, such as ``train`` or ``hypernyms/dvc.yaml:train``.

    Returns:
        Whether the outputs are back; False where the stage has written one, never ran, or an output is in no cache.
    """
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        with Repo(str(project)) as repo:
            (stage,) = repo.stage.collect(address)
            cached = [out for out in stage.outs if out.use_cache]
            kept = {Path(out.fs_path): _kept(project, out) for out in stage.outs if not out.use_cache}
            gone = None in kept.values() or any(not out.hash_info or out.changed_cache() for out in cached)
            if gone or any(out.exists for out in stage.outs):
                return False
            with contextlib.ExitStack() as undo:
                for out in stage.outs:
                    undo.callback(out.remove)
                for out in cached:
                    out.checkout(force=True)
                for path, content in kept.items():
                    with atomic_file(path) as file:
                        file.write_bytes(content or b"")
                undo.pop_all()
    except (DvcException, OSError, ValueError):
        return False
    return True


def _kept(project: Path, out: Any) -> bytes | None:
    """Return the content of an output outside of DVC's cache: the run-cache has a copy, or the last commit has it."""
    md5 = out.hash_info.value if out.hash_info else ""
    if place := Cache(project).sound(md5 or ""):
        return place.read_bytes()
    with contextlib.suppress(LineageError), Repository(project) as repository:
        text = repository.read("HEAD", Path(out.fs_path).relative_to(project.resolve()).as_posix())
        if text is not None and md5_of_text(text) == md5:
            return text
    return None
