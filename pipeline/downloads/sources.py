"""The table of what can be fetched: addresses, sizes, hashes, terms, and where each file goes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from sightword import yaml_reader
from sightword.errors import DownloadError
from sightword.settings import Settings

TABLE = Path(__file__).with_name("sources.yaml")
WEIGHTS = "weights"
"""The data set whose files go where torch looks for them."""

_BEGINNING = re.compile(r"-([0-9a-f]{8,})\.pth$")


class Source(Settings):
    """One published file: an archive, or a file that is used as it is."""

    part: str
    """What ``--only`` calls it; several files may be one part."""
    what: str
    """In a few words."""
    file: str = Field(pattern=r"^[\w.+-]+$")
    """Its name, at a mirror too."""
    urls: list[str] = Field(default=[])
    """Published addresses, the best first; none where it must be asked for."""
    request: str = ""
    """How it is asked for; empty where it can be downloaded."""
    optional: bool = False
    """Fetched only where it is asked for by its part."""
    size: int | None = None
    """In bytes."""
    about: int | None = None
    """The same in round numbers, where it is not known better."""
    sha256: str = Field(default="", pattern="^([0-9a-f]{64})?$")
    md5: str = Field(default="", pattern="^([0-9a-f]{32})?$")
    into: dict[str, str] = Field(default={})
    """Of an archive: which members are kept, and in which folder. A pattern ending in ``/**`` keeps the folders below
    it, any other one keeps the last part of the name only. Empty: no archive."""
    to: str = "."
    """The folder of a file that is no archive."""
    prepare: Literal["", "quotes", "snli"] = ""
    """What is done to the files before anybody sees them (:mod:`pipeline.downloads.preparation`)."""
    needs: list[str] = Field(default=[])
    """Files that are there when it is complete; ``{a,b}`` stands for either. Default: the file itself."""
    counts: dict[str, int] = Field(default={})
    """How many files each folder holds at least when it is complete."""

    @model_validator(mode="after")
    def _can_be_had_and_told(self) -> Source:
        if bool(self.urls) == bool(self.request):
            raise ValueError(f"{self.file}: needs either urls or request")
        if self.into and not self.needs and not self.counts:
            raise ValueError(f"{self.file}: an archive needs needs or counts")
        return self

    @property
    def begins(self) -> str:
        """The first digits of the sha256, where the name carries them (torch.hub's rule)."""
        found = _BEGINNING.search(self.file)
        return found.group(1) if found else ""

    def wanted(self) -> list[str]:
        """The files that make it complete, counted folders aside, relative to the data set's folder."""
        names = [name for pattern in self.needs for name in _braces(pattern)]
        return names or ([] if self.into else [f"{self.to}/{self.file}".removeprefix("./")])

    def missing(self, target: Path) -> list[str]:
        """What is not there, in words; an empty list when it is complete."""
        lacking = [name for name in self.wanted() if not (target / name).is_file()]
        for folder, least in self.counts.items():
            count = _count(target / folder)
            if count < least:
                lacking.append(f"{least - count} of {least} files in {folder}")
        return lacking

    def state(self, target: Path) -> Literal["there", "partly", "missing"]:
        """How much of it is there."""
        if not self.missing(target):
            return "there"
        some = any((target / name).is_file() for name in self.wanted())
        return "partly" if some or any(_count(target / folder) for folder in self.counts) else "missing"


class DataSet(Settings):
    """What is fetched under one name."""

    name: str
    what: str
    folder: str
    """Below the folder of raw data."""
    page: str
    terms: str
    sources: list[Source] = Field(min_length=1)

    def choose(self, only: Sequence[str] = ()) -> list[Source]:
        """The files of the parts that were named, or of all that are not optional.

        Raises:
            DownloadError: there is no such part.
        """
        parts = list(dict.fromkeys(source.part for source in self.sources))
        for name in only:
            _known(name, parts, f"{self.name} has no such part")
        return [source for source in self.sources if (source.part in only if only else not source.optional)]


@cache
def data_sets() -> dict[str, DataSet]:
    """The whole table, by name."""
    entries = yaml_reader.parse(TABLE.read_text(encoding="utf-8"), TABLE)
    return {entry["name"]: DataSet.model_validate(entry) for entry in entries}


def find(name: str) -> DataSet:
    """The data set of this name.

    Raises:
        DownloadError: there is none, with the nearest name.
    """
    known = data_sets()
    _known(name, list(known), "no such data set")
    return known[name]


def _known(name: str, names: Sequence[str], what: str) -> None:
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise DownloadError(f"{what}{hint}", where=name, expected=", ".join(names))


def _braces(pattern: str) -> list[str]:
    """``a.{x,y}`` as ``a.x`` and ``a.y``."""
    found = re.search(r"\{([^{}]*)\}", pattern)
    if not found:
        return [pattern]
    head, tail = pattern[: found.start()], pattern[found.end() :]
    return [name for choice in found.group(1).split(",") for name in _braces(f"{head}{choice}{tail}")]


def _count(folder: Path) -> int:
    return sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0
