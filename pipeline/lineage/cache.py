"""DVC's cache, read only: its place and its content."""

from __future__ import annotations

import configparser
import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from pipeline.lineage.hashing import FOLDER, md5_of, md5_of_text
from pipeline.lineage.lock import Artefact, Entry, changes, within
from sightword import machine


class Cache:
    """The cache of the project in a folder, which several projects may share; of None, an empty one."""

    def __init__(self, project: Path | None) -> None:
        # Nothing can lie below the null device.
        self.folder = (_configured(project) if project else Path(os.devnull)) / "files" / "md5"
        self._listings: dict[str, dict[str, str]] = {}

    def file(self, md5: str) -> Path | None:
        """Return the place of an object; None where the cache does not have it."""
        path = self.folder / md5[:2] / md5[2:]
        return path if len(md5) > 2 and path.is_file() else None

    def sound(self, md5: str) -> Path | None:
        """Return the place of an object whose bytes have its hash; None where it is absent or damaged."""
        path = self.file(md5)
        with contextlib.suppress(OSError):
            if path and md5_of(path) == md5.removesuffix(FOLDER):
                return path
        return None

    def files(self, artefact: Artefact) -> dict[str, str]:
        """Return the MD5 of each file by its path in a folder; of a file its own, by an empty path.

        The result is empty where the cache does not have the folder, or has a damaged one.
        """
        if not artefact.folder:
            return {"": artefact.md5}
        if artefact.md5 not in self._listings:
            path = self.sound(artefact.md5)
            try:
                items = json.loads(path.read_text(encoding="utf-8")) if path else []
                self._listings[artefact.md5] = {item["relpath"]: item["md5"] for item in items}
            except (OSError, ValueError, KeyError, TypeError):
                return {}
        return self._listings[artefact.md5]

    def differing(self, artefact: Artefact, now: Mapping[str, str] | None) -> list[str] | None:
        """Return the files of a folder that differ from a listing; None where one of both is not known."""
        before = self.files(artefact) if artefact.folder else {}
        return sorted(changes(before, now)) if before and now is not None else None

    def wrote(self, maker: Entry, path: str) -> str | None:
        """Return the hash of a stage's output, or of a file in it, as the stage wrote it; None where not known."""
        out = next(out for out in maker.outs if within(path, out.path))
        return out.md5 if out.path == path else self.files(out).get(path.removeprefix(f"{out.path}/"))

    def edited(self, text: bytes, maker: Entry, path: str) -> bool:
        """Return whether a file is known to differ from the one that a stage wrote."""
        return self.wrote(maker, path) not in (None, md5_of_text(text))


def _configured(project: Path) -> Path:
    """Return ``cache.dir`` of DVC's configuration; the project's own settings win over the user's and the machine's."""
    home = Path(os.environ.get("XDG_CONFIG_HOME") or machine.home() / ".config")
    files = [Path("/etc/xdg/dvc/config"), home / "dvc/config", project / ".dvc/config", project / ".dvc/config.local"]
    found = project / ".dvc/cache"
    for file in files:
        parser = configparser.RawConfigParser(strict=False)
        # DVC itself reports a file that cannot be read.
        with contextlib.suppress(configparser.Error, UnicodeDecodeError):
            parser.read(file, encoding="utf-8")
            if named := parser.get("cache", "dir", fallback=""):
                found = file.parent / machine.expanded(named)
    return found
