"""The table of what can be fetched: addresses, sizes, hashes, terms, and where each file goes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from sightword.errors import DownloadError
from sightword.io import yaml_reader
from sightword.messages import guess
from sightword.settings import Settings

TABLE = Path(__file__).with_name("sources.yaml")
WEIGHTS = "weights"
"""The data set whose files go where torch looks for them."""

LARGEST = 10**13
"""The most bytes of a file."""
_BEGINNING = re.compile(r"-([0-9a-f]{8,})\.pth$")


class Source(Settings):
    """One published file: an archive, or a file that is used as it is."""

    part: str
    """The name after ``--only``; several files may be one part."""
    what: str
    """The content, in a few words."""
    file: str = Field(pattern=r"^[\w.+-]+$")
    """The file's name, also at a mirror."""
    urls: list[str] = Field(default=[])
    """Published addresses, the best first; none for a file on request."""
    request: str = ""
    """How to request the file; empty for one that can be downloaded."""
    optional: bool = False
    """Fetched only if its part is named."""
    size: int | None = Field(default=None, le=LARGEST)
    """Bytes."""
    about: int | None = Field(default=None, le=LARGEST)
    """Bytes in round numbers, where the size is not known."""
    sha256: str = Field(default="", pattern="^([0-9a-f]{64})?$")
    md5: str = Field(default="", pattern="^([0-9a-f]{32})?$")
    into: dict[str, str] = Field(default={})
    """Folders by the patterns of an archive's members. A pattern ending in ``/**`` keeps the folders below
    it, any other one only the last part of the name. Empty: no archive."""
    to: str = "."
    """The folder of a file that is not an archive."""
    prepare: Literal["", "quotes", "snli"] = ""
    """The preparation of the files (:data:`pipeline.downloads.fetching.PREPARATIONS`)."""
    needs: list[str] = Field(default=[])
    """The files of a complete data set; ``{a,b}`` stands for either. Default: the file itself."""
    counts: dict[str, int] = Field(default={})
    """The least number of files in each folder of a complete data set."""

    @model_validator(mode="after")
    def _can_be_fetched_and_found(self) -> Source:
        if bool(self.urls) == bool(self.request) or (self.into and not self.needs and not self.counts):
            raise ValueError(f"{self.file}: needs either urls or request; and, as an archive, needs or counts")
        return self

    @property
    def begins(self) -> str:
        """The first digits of the sha256, if the name contains them (torch.hub's rule)."""
        beginning = _BEGINNING.search(self.file)
        return beginning.group(1) if beginning else ""

    @property
    def checked(self) -> bool:
        """Whether a hash, or its first digits, is published."""
        return bool(self.sha256 or self.md5 or self.begins)

    def wanted(self) -> list[str]:
        """Return the files of the complete data set, without counted folders, relative to the data set's folder."""
        names = [name for pattern in self.needs for name in _braces(pattern)]
        return names or ([] if self.into else [f"{self.to}/{self.file}".removeprefix("./")])

    def missing(self, target: Path) -> list[str]:
        """Return what is missing in a folder, in words; an empty list for a complete data set."""
        lacking = [name for name in self.wanted() if not (target / name).is_file()]
        short = {folder: least - _count(target / folder) for folder, least in self.counts.items()}
        return lacking + [
            f"{few} of {self.counts[folder]} files in {folder}" for folder, few in short.items() if few > 0
        ]

    def state(self, target: Path) -> Literal["there", "partly", "missing"]:
        """Return whether a folder has all files, some or none."""
        if not self.missing(target):
            return "there"
        some = any((target / name).is_file() for name in self.wanted())
        return "partly" if some or any(_count(target / folder) for folder in self.counts) else "missing"


class DataSet(Settings):
    """The files that are fetched under one name."""

    name: str
    what: str
    folder: str
    """Below the folder of raw data."""
    page: str
    terms: str
    sources: list[Source] = Field(min_length=1)
    """In the table, ``files`` (the sha256 by name) in place of ``file``, and an address that ends in ``/``, stand for
    several sources."""

    @model_validator(mode="before")
    @classmethod
    def _one_source_a_file(cls, entry: dict[str, Any]) -> dict[str, Any]:
        return {**entry, "sources": [one for source in entry["sources"] for one in _single(source)]}

    def choose(self, only: Sequence[str] = ()) -> list[Source]:
        """Return the files of the named parts, or all that are not optional; DownloadError for an unknown part."""
        parts = list(dict.fromkeys(source.part for source in self.sources))
        for name in only:
            _check_name(name, parts, f"{self.name} has no such part")
        return [source for source in self.sources if (source.part in only if only else not source.optional)]


@cache
def data_sets() -> dict[str, DataSet]:
    """Return the whole table, by name."""
    entries = yaml_reader.parse(TABLE.read_text(encoding="utf-8"), TABLE)
    return {entry["name"]: DataSet.model_validate(entry) for entry in entries}


def find(name: str) -> DataSet:
    """Return the data set of a name; DownloadError, with the nearest name, for an unknown one."""
    _check_name(name, list(data_sets()), "no such data set")
    return data_sets()[name]


def _single(source: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the sources of an entry of the table, one a file."""
    if "files" not in source:
        yield source
        return
    shared = {key: value for key, value in source.items() if key not in ("files", "urls")}
    for name, sha256 in source["files"].items():
        yield {**shared, "file": name, "sha256": sha256, "urls": [f"{url}{name}" for url in source["urls"]]}


def _check_name(name: str, names: Sequence[str], what: str) -> None:
    if name not in names:
        raise DownloadError(f"{what}{guess(name, names)}", where=name, expected=", ".join(names))


def _braces(pattern: str) -> list[str]:
    """Return ``a.x`` and ``a.y`` for ``a.{x,y}``."""
    head, brace, rest = pattern.partition("{")
    choices, _, tail = rest.partition("}")
    return [name for choice in choices.split(",") for name in _braces(f"{head}{choice}{tail}")] if brace else [pattern]


def _count(folder: Path) -> int:
    return sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0
