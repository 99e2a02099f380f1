"""What only DVC can say, in a process of its own: ``python -m pipeline.doctor.dvc_facts``.

It works in the project's folder and writes JSON objects, one a line, so that what is known stays known where a
remote never answers. No credential is ever in them.
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

RUNS = 50
"""Remembered runs that are looked for in the remote, the newest first."""
SECONDS = 10.0
"""That a web server may take to answer."""

_SECRET = re.compile(r"password|secret|token(?!_c)|passphrase|account_key|connection_string|customer_key|custom_auth")
_USER = re.compile(r"(\w+://)[^/@\s]*@")
_QUERY = re.compile(r"(\w+://[^\s?]*)\?\S*")


def main() -> None:
    """Answer on standard output."""
    from dvc.exceptions import DvcException
    from dvc.repo import Repo

    try:
        repo = Repo(".")
    except (DvcException, OSError) as error:
        _say({"error": _masked(_first(error))})
        return
    secrets = sorted(_secrets(repo.config), key=len, reverse=True)
    _say(_settings(repo))
    if "--no-remote" in sys.argv or not repo.config["core"].get("remote"):
        return
    try:
        remote = repo.cloud.get_remote()
        _say(_reach(remote))
        _say(_pushed(repo, remote))
        _say(_runs(repo, remote))
    except Exception as error:  # noqa: BLE001 - each kind of remote has errors of its own, and all are told alike
        _say({"remote_error": _clean(f"{type(error).__name__}: {_first(error)}", secrets)})


def _say(values: dict[str, Any]) -> None:
    print(json.dumps(values), flush=True)


def _first(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _clean(text: str, secrets: list[str]) -> str:
    """A text without credentials."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return _masked(text)


def _masked(text: str) -> str:
    """Addresses without a user's name, a password, or what stands behind a question mark."""
    return _QUERY.sub(r"\1?***", _USER.sub(r"\1***@", text))


def _settings(repo: Any) -> dict[str, Any]:
    config = repo.config
    cache = repo.cache.local
    committed = repo.config.load_one("repo")
    return {
        "cache": cache.path,
        "cache_types": config["cache"].get("type"),
        "shared": config["cache"].get("shared") == "group",
        "links": _links(repo, cache),
        "site_cache": repo.site_cache_dir,
        "temporary": repo.tmp_dir,
        "hardlink_lock": bool(config["core"].get("hardlink_lock")),
        "remotes": {name: _masked(remote.get("url", "no address")) for name, remote in config["remote"].items()},
        "remote": config["core"].get("remote"),
        "committed_secrets": sorted(_secret_names(committed)),
    }


def _links(repo: Any, cache: Any) -> list[str] | None:
    """The kinds of links that are possible from the cache into the workspace; None where nothing can be written."""
    from dvc_objects.fs.generic import test_links

    if not Path(cache.path).is_dir() or repo.tmp_dir is None:
        return None
    try:
        found: list[str] = test_links(
            ["reflink", "hardlink", "symlink"], cache.fs, cache.path, repo.fs, str(Path(repo.tmp_dir) / "link")
        )
    except OSError:
        return None
    return found


def _walk(values: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _walk(value, (*names, str(name)))
        elif isinstance(value, str):
            yield (*names, str(name)), value


def _secret_names(config: Any) -> set[str]:
    """The settings that hold credentials; ``ask_password`` and the like hold none."""
    found = set()
    for names, value in _walk(config):
        in_address = names[-1] == "url" and (urlsplit(value).password or re.search(r"[?&]\w*(sig|token|key)=", value))
        if in_address or (_SECRET.search(names[-1]) and not names[-1].startswith("ask_")):
            found.add(".".join(names))
    return found


def _secrets(config: Any) -> set[str]:
    """The credentials themselves, to be kept out of messages."""
    found = set()
    for names, value in _walk(config):
        if names[-1] == "url":
            address = urlsplit(value)
            found |= {address.password or "", address.query}
        elif _SECRET.search(names[-1]) or names[-1] == "access_key_id":
            found.add(value)
    return {value for value in found if len(value) > 2}


def _reach(remote: Any) -> dict[str, Any]:
    """Whether the remote answers, and whether anything is in it."""
    fs, path = remote.fs, remote.path
    if fs.protocol == "local":
        above = next(parent for parent in (Path(path), *Path(path).parents) if parent.exists())
        return {
            "reached": above.is_dir(),
            "empty": not Path(path).is_dir() or not any(Path(path).iterdir()),
            "writable": os.access(above, os.W_OK | os.X_OK),
            "folder": path,
            "exists": Path(path).is_dir(),
        }
    if fs.protocol in ("http", "https"):
        return {"reached": True, "status": _status(path)}
    try:
        return {"reached": True, "empty": not fs.ls(path, detail=False)}
    except FileNotFoundError:
        if fs.protocol not in ("ssh", "sftp", "webdav", "webdavs", "hdfs"):  # what has buckets must have this one
            fs.ls(path.partition("/")[0], detail=False)
        return {"reached": True, "empty": True}


def _status(address: str) -> int:
    """What a web server answers, whatever it is: that it does is enough."""
    request = urllib.request.Request(address, method="HEAD")  # noqa: S310 - an address of the user's own configuration
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310 - likewise
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def _pushed(repo: Any, remote: Any) -> dict[str, Any]:
    """Which tracked outputs are in the cache, and in the remote."""
    from dvc.exceptions import DvcException

    try:
        outs = [out for out in repo.index.outs if out.use_cache and out.hash_info]
    except DvcException:
        return {}  # dvc.yaml or dvc.lock cannot be read, which is told where they are looked at
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
    """How many of the newest remembered runs the remote has."""
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
