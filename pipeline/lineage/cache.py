"""DVC's cache, read only: where it is, and what is in it."""

from __future__ import annotations

import configparser
import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.lineage.hashing import FOLDER
from pipeline.lineage.lock import Artefact, Entry, within


class Cache:
    """The cache of a project, which several may share.

    Args:
        project: the folder with ``.dvc``; None where there is none: then it has nothing.
    """

    def __init__(self, project: Path | None) -> None:
        # Below the null device nothing is ever found.
        whole = _configured(project) if project else Path(os.devnull)
        self.folder, self.runs = whole / "files" / "md5", whole / "runs"
        self._listings: dict[str, Mapping[str, str]] = {}

    def file(self, md5: str) -> Path | None:
        """Where the cache has an object; None where it has not."""
        path = self.folder / md5[:2] / md5[2:]
        return path if len(md5) > 2 and path.is_file() else None

    def sound(self, md5: str) -> Path | None:
        """Where the cache has an object whose bytes have its hash; None where it has not, or it is damaged."""
        path = self.file(md5)
        try:
            with path.open("rb") if path else contextlib.nullcontext() as file:
                found = hashlib.file_digest(file, _md5).hexdigest() if file else None
        except OSError:
            return None
        return path if found == md5.removesuffix(FOLDER) else None

    def wrote(self, maker: Entry, path: str) -> str | None:
        """The hash that a stage's output had, or a file in its output; None where that is not known."""
        out = next(out for out in maker.outs if within(path, out.path))
        return out.md5 if out.path == path else self.listing(out).get(path.removeprefix(f"{out.path}/"))

    def edited(self, text: bytes, maker: Entry, path: str) -> bool:
        """Whether a file is not what a stage wrote; only what is known to be another one counts."""
        return self.wrote(maker, path) not in (None, _md5(text).hexdigest())

    def listing(self, artefact: Artefact) -> Mapping[str, str]:
        """The MD5 of each file of a folder, by its path within; empty where the cache has not the folder."""
        if not artefact.folder:
            return {}
        if artefact.md5 not in self._listings:
            path = self.sound(artefact.md5)
            try:
                items = json.loads(path.read_text(encoding="utf-8")) if path else []
                self._listings[artefact.md5] = {item["relpath"]: item["md5"] for item in items}
            except (OSError, ValueError, KeyError, TypeError):
                return {}  # a damaged object is as good as none
        return self._listings[artefact.md5]


def _md5(data: bytes = b"") -> Any:
    return hashlib.md5(data, usedforsecurity=False)


def _configured(project: Path) -> Path:
    """``cache.dir`` of DVC's configuration; the project's own settings before the user's, before the machine's."""
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser())
    files = [Path("/etc/xdg/dvc/config"), home / "dvc/config", project / ".dvc/config", project / ".dvc/config.local"]
    found = project / ".dvc/cache"
    for file in files:
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read(file, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError):
            continue  # DVC itself will complain of it
        if named := parser.get("cache", "dir", fallback=""):
            found = file.parent / Path(named).expanduser()
    return found
