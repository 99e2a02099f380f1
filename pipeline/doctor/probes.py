"""Facts about DVC and torch, from a separate process: ``python -m pipeline.doctor.probes dvc|torch OPTION``.

Both print JSON objects, one a line, so that the first facts are known even if a remote never answers or a library
crashes. No credentials are printed.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sightword.messages import first_line, without_credentials


def probe_dvc(option: str) -> None:
    """Print facts about DVC in the working folder, its cache and, without the option ``--no-remote``, its remote."""
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        repo = Repo(".")
    except (DvcException, OSError) as error:
        _print(error=without_credentials(first_line(error)))
        return
    config, name = repo.config, repo.config["core"].get("remote")
    remotes = {key: without_credentials(remote.get("url", "no address")) for key, remote in config["remote"].items()}
    shared = config["cache"].get("shared") == "group"
    _print(cache=repo.cache.local.path, shared=shared, remotes=remotes, remote=name)
    if option == "--no-remote" or name not in config["remote"]:
        return
    try:
        remote = repo.cloud.get_remote()
        if remote.fs.protocol == "local":
            folder = Path(remote.path)
            above = next(parent for parent in (folder, *folder.parents) if parent.exists())
            _print(exists=folder.is_dir(), writable=os.access(above, os.W_OK | os.X_OK))
            outs = [out.hash_info.value for out in repo.index.outs if out.use_cache and out.hash_info]
            if folder.is_dir() and (closed := _closed(folder, [Path(remote.odb.oid_to_path(oid)) for oid in outs])):
                _print(closed=closed, folder=str(folder), readers=readers(folder))
        with contextlib.suppress(FileNotFoundError):
            remote.fs.ls(remote.path, detail=False)  # an empty project would not ask the remote
        status = repo.data_status(not_in_remote=True, remote_refresh=True)
        _print(answers=True, lacks=status["not_in_remote"], gone=status["not_in_cache"])
    except Exception as error:  # noqa: BLE001 - each kind of remote raises other errors, all reported alike
        _print(remote_error=without_credentials(f"{type(error).__name__}: {first_line(error)}"))


def probe_torch(_option: str) -> None:
    """Print facts about torch, its graphics cards, and torchvision."""
    import torch

    devices = []
    for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        free, total = torch.cuda.mem_get_info(number)
        devices.append({"name": torch.cuda.get_device_name(number), "free": free, "total": total})
    _print(torch=torch.__version__, cuda_build=torch.version.cuda, devices=devices)
    try:
        from sightword.features import vision

        _print(torchvision=vision.torchvision.__version__)
    except Exception as error:  # noqa: BLE001 - torchvision fails to load in many ways
        _print(torchvision_error=first_line(error))


def _print(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def readers(folder: Path) -> str:
    """Return who except its owner may read a folder, in the letters of `chmod`: g for the group, o for all others.

    A folder in which the group may write and all others may not is the group's.
    """
    mode = folder.stat().st_mode
    of_group = mode & stat.S_IWGRP and not mode & stat.S_IWOTH
    return "g" * bool(mode & stat.S_IRGRP) + "o" * bool(mode & stat.S_IROTH and not of_group)


def _closed(folder: Path, paths: Sequence[Path]) -> list[dict[str, str]]:
    """Return the first file or folder on the way to each path that not all readers of a folder may read, by owner."""
    wanted = sum({"g": stat.S_IRWXG, "o": stat.S_IRWXO}[letter] for letter in readers(folder))
    closed: dict[Path, str] = {}
    for path in paths:
        below = path.relative_to(folder)
        for here in (folder / part for part in (*reversed(below.parents), below)):
            with contextlib.suppress(FileNotFoundError):
                mode = here.stat().st_mode
                needed = wanted & (0o055 if stat.S_ISDIR(mode) else 0o044)
                if mode & needed != needed:
                    try:
                        closed[here] = here.owner()
                    except KeyError:  # this machine has no such user
                        closed[here] = str(here.stat().st_uid)
                    break
    return [{"path": str(path), "owner": owner} for path, owner in closed.items()]


if __name__ == "__main__":
    {"dvc": probe_dvc, "torch": probe_torch}[sys.argv[1]](sys.argv[2])
