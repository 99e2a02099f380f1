"""Facts about DVC, from a process of its own: ``python -m pipeline.doctor.dvc_facts``.

The program works in the project's folder and prints JSON objects, one a line, so that the first facts are known even
if a remote never answers. It prints no credentials.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sightword.text import first_line

RUNS = 50
"""Number of the newest entries of the run-cache that are looked for in the remote."""
SECONDS = 10.0
"""Time limit of a web server."""

_SECRET = re.compile(r"password|secret|token(?!_c)|passphrase|account_key|connection_string|customer_key|custom_auth")
_USER = re.compile(r"(\w+://)[^/@\s]*@")
_QUERY = re.compile(r"(\w+://[^\s?]*)\?\S*")


def main() -> None:
    """Print the facts on standard output."""
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        repo = Repo(".")
    except (DvcException, OSError) as error:
        _print({"error": mask_address(first_line(error))})
        return
    secrets = sorted(_secrets(repo.config), key=len, reverse=True)
    _print(_settings(repo))
    if "--no-remote" in sys.argv or not repo.config["core"].get("remote"):
        return
    try:
        remote = repo.cloud.get_remote()
        _print(_reach(remote))
        _print(_pushed(repo, remote))
        _print(_runs(repo, remote))
    except Exception as error:  # noqa: BLE001 - each kind of remote has errors of its own, all reported alike
        _print({"remote_error": _clean(f"{type(error).__name__}: {first_line(error)}", secrets)})


def _print(values: dict[str, Any]) -> None:
    print(json.dumps(values), flush=True)


def _clean(text: str, secrets: list[str]) -> str:
    """Return a text without credentials."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return mask_address(text)


def mask_address(text: str) -> str:
    """Return a text whose addresses show no user, no password and no query."""
    return _QUERY.sub(r"\1?***", _USER.sub(r"\1***@", text))


def _settings(repo: Any) -> dict[str, Any]:
    config = repo.config
    return {
        "cache": repo.cache.local.path,
        "shared": config["cache"].get("shared") == "group",
        "remotes": {name: mask_address(remote.get("url", "no address")) for name, remote in config["remote"].items()},
        "remote": config["core"].get("remote"),
        "committed_secrets": sorted(_secret_names(config.load_one("repo"))),
    }


def _walk(values: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _walk(value, (*names, str(name)))
        elif isinstance(value, str):
            yield (*names, str(name)), value


def _secret_names(config: Any) -> set[str]:
    """Return the names of the settings that hold credentials; ``ask_password`` and the like hold none."""
    found = set()
    for names, value in _walk(config):
        in_address = names[-1] == "url" and (urlsplit(value).password or re.search(r"[?&]\w*(sig|token|key)=", value))
        if in_address or (_SECRET.search(names[-1]) and not names[-1].startswith("ask_")):
            found.add(".".join(names))
    return found


def _secrets(config: Any) -> set[str]:
    """Return the credentials themselves, which must not appear in messages."""
    found = set()
    for names, value in _walk(config):
        if names[-1] == "url":
            address = urlsplit(value)
            found |= {address.password or "", address.query}
        elif _SECRET.search(names[-1]) or names[-1] == "access_key_id":
            found.add(value)
    return {value for value in found if len(value) > 2}


def _reach(remote: Any) -> dict[str, Any]:
    """Return whether the remote answers, and whether it is empty."""
    fs, path = remote.fs, remote.path
    if fs.protocol == "local":
        above = next(parent for parent in (Path(path), *Path(path).parents) if parent.exists())
        return {
            "reached": above.is_dir(),
            "empty": not Path(path).is_dir() or not any(Path(path).iterdir()),
            "writable": os.access(above, os.W_OK | os.X_OK),
            "exists": Path(path).is_dir(),
        }
    if fs.protocol in ("http", "https"):
        return {"reached": True, "status": _status(path)}
    try:
        return {"reached": True, "empty": not fs.ls(path, detail=False)}
    except FileNotFoundError:
        if fs.protocol not in ("ssh", "sftp", "webdav", "webdavs", "hdfs"):  # the others have buckets, which must exist
            fs.ls(path.partition("/")[0], detail=False)
        return {"reached": True, "empty": True}


def _status(address: str) -> int:
    """Return the HTTP status of a web server; any status shows that the server answers."""
    request = urllib.request.Request(address, method="HEAD")  # noqa: S310 - an address of the user's own configuration
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310 - likewise
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def _pushed(repo: Any, remote: Any) -> dict[str, Any]:
    """Return which tracked outputs are in the cache and in the remote."""
    from dvc.exceptions import DvcException

    try:
        outs = [out for out in repo.index.outs if out.use_cache and out.hash_info]
    except DvcException:
        return {}  # the check of files reports a damaged dvc.yaml or dvc.lock
    hashes = [out.hash_info.value for out in outs]
    there = remote.fs.exists([remote.odb.oid_to_path(value) for value in hashes]) if outs else []
    return {
        "outs": [
            {"path": os.path.relpath(out.fs_path, repo.root_dir),
             "cached": repo.cache.local.exists(value), "pushed": bool(found)}
            for out, value, found in zip(outs, hashes, there, strict=True)
        ]
    }  # fmt: skip


def _runs(repo: Any, remote: Any) -> dict[str, Any]:
    """Return how many of the newest entries of the run-cache are in the remote."""
    if remote.fs.protocol in ("http", "https"):
        return {"runs": None}
    folder = Path(repo.cache.legacy.path)
    files = sorted((folder / "runs").glob("*/*/*"), key=lambda path: path.stat().st_mtime, reverse=True)
    newest = list(itertools.islice(files, RUNS))
    places = [remote.fs.join(remote.path, *path.relative_to(folder).parts) for path in newest]
    there = remote.fs.exists(places) if places else []
    return {"runs": {"local": len(newest), "pushed": sum(map(bool, there))}}


if __name__ == "__main__":
    main()
