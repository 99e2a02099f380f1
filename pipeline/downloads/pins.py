"""The pinned hashes of a laboratory: a file in the format of ``sha256sum``, committed with the project."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from sightword.errors import DownloadError
from sightword.io.files import read_text, write_text

NAME = "checksums.txt"

_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](\S.*)")


def read_pins(path: Path) -> dict[str, str]:
    """Return the sha256 by ``data set/file``; empty if the file does not exist.

    DownloadError if a line is not a pinned hash, or two lines give one file different hashes; FileFormatError if the
    file is not UTF-8.
    """
    if not path.exists():
        return {}
    pins: dict[str, str] = {}
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line.rstrip())
        where = f"{path}, line {number}"
        if not found:
            expected = "64 hex digits, two spaces, DATA SET/FILE"
            raise DownloadError("is not a pinned hash", where=where, expected=expected)
        digest, name = found.group(1).lower(), found.group(2)
        if pins.setdefault(name, digest) != digest:
            raise DownloadError(f"pins another hash of {name} than a line above", where=where)
    return pins


def add_pins(path: Path, found: Mapping[str, str]) -> list[str]:
    """Pin files that are not pinned yet, leave the other lines as they are, and return the new names."""
    have = read_pins(path)
    new = sorted(name for name in found if name not in have)
    if new:
        text = read_text(path) if path.exists() else "# sha256 of downloaded files, as this laboratory found them\n"
        ended = text if text.endswith("\n") or not text else text + "\n"
        write_text(path, ended + "".join(f"{found[name]}  {name}\n" for name in new))
    return new
