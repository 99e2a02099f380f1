"""The place of a picture: a file or an address, and the part that is the picture."""

from __future__ import annotations

from typing import NamedTuple

PARTS = ("offset", "length", "row", "column", "version")
"""The columns of ``images.parquet`` that say which part of a file is the picture; a corpus of whole files has none."""


class Part(NamedTuple):
    """The part of a file that is the picture; without any value, the whole file."""

    offset: int | None = None
    """The first byte, such as of a member of a tar."""
    length: int | None = None
    """The number of bytes, of a part or of a whole object."""
    row: int | None = None
    """The row of a Parquet file, from 0, over all row groups."""
    column: str | None = None
    """The column of the row: ``image``, or ``image.bytes`` of a struct."""
    version: str | None = None
    """The version of the object at an address, such as its ETag."""


class Place(NamedTuple):
    """Where a picture is."""

    path: str
    """A file, or an address such as ``s3://bucket/key``."""
    part: Part | None = None

    def __str__(self) -> str:
        if self.part is None:
            return self.path
        if self.part.row is not None:
            return f"{self.path}, row {self.part.row + 1}"
        return self.path if self.part.offset is None else f"{self.path}, byte {self.part.offset}"
