"""Facts about DVC and torch, from a process of its own: ``python -m pipeline.doctor.probes dvc|torch ARGUMENT``.

Both print JSON objects, one a line, so that the first facts are known even if a remote never answers or a library
crashes. No credentials are printed.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pipeline.doctor import permissions
from sightword.messages import first_line, flat

if TYPE_CHECKING:
    import torch

RUNS = 50
"""Number of the newest entries of the run-cache that are looked for in the remote."""
SECONDS = 10.0
"""Time limit of a web server."""

_SECRET = re.compile(r"password|secret|token(?!_c)|passphrase|account_key|connection_string|customer_key|custom_auth")
_USER = re.compile(r"(\w+://)[^/@\s]*@")
_QUERY = re.compile(r"(\w+://[^\s?]*)\?\S*")


def probe_dvc(option: str) -> None:
    """Print facts about DVC in the working folder, its cache and, without the option ``--no-remote``, its remote."""
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        repo = Repo(".")
    except (DvcException, OSError) as error:
        _print(error=mask_address(first_line(error)))
        return
    config, name = repo.config, repo.config["core"].get("remote")
    _print(
        cache=repo.cache.local.path,
        shared=config["cache"].get("shared") == "group",
        remotes={one: mask_address(remote.get("url", "no address")) for one, remote in config["remote"].items()},
        remote=name,
        committed_secrets=sorted(secrets(config.load_one("repo"))),
    )
    if option == "--no-remote" or not name:
        return
    try:
        remote = repo.cloud.get_remote()
        _print(**_reach(remote))
        for facts in _contents(repo, remote):
            _print(**facts)
    except Exception as error:  # noqa: BLE001 - each kind of remote has errors of its own, all reported alike
        _print(remote_error=without_secrets(f"{type(error).__name__}: {first_line(error)}", repo.config))


def probe_torch(section: str) -> None:
    """Print facts about torch, torchvision and the weights that the section ``features``, as JSON, names."""
    import torch

    features, devices = json.loads(section), []
    for number in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        free, total = torch.cuda.mem_get_info(number)
        devices.append({"name": torch.cuda.get_device_name(number), "free": free, "total": total})
    _print(torch=torch.__version__, cuda_build=torch.version.cuda, devices=devices)
    _print(bfloat16_time=_product_seconds(torch.bfloat16) / _product_seconds(torch.float32))
    if features.get("source", "extract") == "extract":
        try:
            _print(**_torchvision(features))
        except Exception as error:  # noqa: BLE001 - torchvision fails to load in many ways
            _print(torchvision_error=first_line(error))


def _product_seconds(kind: torch.dtype) -> float:
    """Return the least time of a product of two matrices on one thread."""
    import torch

    square, times = torch.ones(512, 512, dtype=kind), []
    torch.set_num_threads(1)
    for _ in range(6):
        start = time.perf_counter()
        _ = square @ square
        times.append(time.perf_counter() - start)
    return min(times)


def _print(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def mask_address(text: str) -> str:
    """Return a text whose addresses show no user, no password and no query."""
    return _QUERY.sub(r"\1?***", _USER.sub(r"\1***@", text))


def secrets(config: Any) -> dict[str, list[str]]:
    """Return the credentials in DVC's configuration by the names of their settings."""
    found = {}
    for name, value in flat(config).items():
        last = name.rpartition(".")[2]
        if last == "url":
            address = urlsplit(value)
            if address.password or re.search(r"(sig|token|key)=", address.query):
                found[name] = [address.password or "", address.query]
        elif _SECRET.search(last) and not last.startswith("ask_"):
            found[name] = [str(value)]
    return found


def without_secrets(text: str, config: Any) -> str:
    """Return a text without the credentials of DVC's configuration."""
    values = [value for many in secrets(config).values() for value in many]
    values += [str(value) for name, value in flat(config).items() if name.endswith("access_key_id")]
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, "***") if len(value) > 2 else text
    return mask_address(text)


def _reach(remote: Any) -> dict[str, Any]:
    """Return whether the remote answers, and whether it is empty."""
    fs, path = remote.fs, remote.path
    if fs.protocol == "local":
        folder = Path(path)
        above = next(parent for parent in (folder, *folder.parents) if parent.exists())
        return {
            "reached": above.is_dir(),
            "empty": not folder.is_dir() or not any(folder.iterdir()),
            "writable": os.access(above, os.W_OK | os.X_OK),
            "exists": folder.is_dir(),
        }
    if fs.protocol in ("http", "https"):
        import requests

        # Any status shows that the server answers.
        return {"reached": True, "status": requests.head(path, timeout=SECONDS, allow_redirects=True).status_code}
    try:
        return {"reached": True, "empty": not fs.ls(path, detail=False)}
    except FileNotFoundError:
        if fs.protocol not in ("ssh", "sftp", "webdav", "webdavs", "hdfs"):  # the others have buckets, which must exist
            fs.ls(path.partition("/")[0], detail=False)
        return {"reached": True, "empty": True}


def _contents(repo: Any, remote: Any) -> Iterator[dict[str, Any]]:
    """Yield which tracked outputs are in the cache and in the remote, which runs are there, and what is closed."""
    from dvc.exceptions import DvcException

    shut: list[Path] = []

    def there(places: list[str]) -> list[bool]:
        found = remote.fs.exists(places) if places else []
        hidden = [_closed(remote, place) for place in places]
        shut.extend(filter(None, hidden))
        return [bool(one or path) for one, path in zip(found, hidden, strict=True)]

    try:
        outs = [out for out in repo.index.outs if out.use_cache and out.hash_info]
    except DvcException:
        outs = []  # the check of files reports a damaged dvc.yaml or dvc.lock
    hashes = [out.hash_info.value for out in outs]
    pushed = there([remote.odb.oid_to_path(value) for value in hashes])
    known = zip(outs, map(repo.cache.local.exists, hashes), pushed, strict=True)
    yield {
        "outs": [
            {
                "path": os.path.relpath(out.fs_path, repo.root_dir),
                "file": out.stage.path_in_repo,
                "cached": cached,
                "pushed": one,
            }
            for out, cached, one in known
        ]
    }
    if remote.fs.protocol not in ("http", "https"):
        folder = Path(repo.cache.legacy.path)
        files = sorted((folder / "runs").glob("*/*/*"), key=lambda path: path.stat().st_mtime, reverse=True)[:RUNS]
        runs = there([remote.fs.join(remote.path, *path.relative_to(folder).parts) for path in files])
        yield {"runs": {"local": len(runs), "pushed": sum(runs)}}
    closed = [{"path": str(path), "owner": permissions.owner(path)} for path in dict.fromkeys(shut)]
    if closed:
        yield {"closed": closed, "folder": remote.path, "readers": permissions.readers(Path(remote.path))}


def _closed(remote: Any, place: str) -> Path | None:
    """Return what is closed on the way to a place in a remote that is a folder (:func:`permissions.closed`)."""
    folder = Path(remote.path)
    return permissions.closed(folder, Path(place)) if remote.fs.protocol == "local" and folder.is_dir() else None


def _torchvision(features: dict[str, Any]) -> dict[str, Any]:
    import torch

    from sightword.features import vision
    from sightword.features.settings import HUB, PACKAGE, RANDOM, is_weights_file

    found: dict[str, Any] = {"torchvision": vision.torchvision.__version__, "patched": bool(vision._libraries)}
    weights = features.get("weights", RANDOM)
    if weights not in (HUB, PACKAGE, RANDOM) and not is_weights_file(weights):
        known = features["backbone"] in vision.classifiers()
        accepted = vision.models.get_model_weights(features["backbone"]) if known else []
        found["accepted"] = [entry.name for entry in accepted]
        if weights in found["accepted"]:
            found["url"] = accepted[weights].url
            found["hub"] = torch.hub.get_dir()
            found["weights_bytes"] = int(accepted[weights].meta.get("_file_size", 0) * 2**20)
    return found


if __name__ == "__main__":
    {"dvc": probe_dvc, "torch": probe_torch}[sys.argv[1]](sys.argv[2])
