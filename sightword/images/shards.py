"""Keeps resized pictures in a few Parquet files, spread by the hash of the picture's id."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from sightword.errors import FileFormatError
from sightword.images.encoding import Pixels, decode_pixels
from sightword.io.files import Pathish, atomic_file, canonical_json, check_seal, loads, parquet_file, seal

GROUP = 32
"""Pictures in a row group, the unit that a reader holds in memory."""

_KEY = b"sightword"
_LISTED = ("image_id", "sha256", "pixels_sha256")
_COLUMNS = {
    **dict.fromkeys(_LISTED, pa.string()),
    **dict.fromkeys(("width", "height"), pa.int32()),
    "encoding": pa.string(),
    "pixels": pa.binary(),
}
_FIELDS = [pa.field(name, kind, nullable=False) for name, kind in _COLUMNS.items()]
_NAMES = [*_COLUMNS]
_AGAIN = "Run the stage resize again."


@dataclass(frozen=True)
class ResizedPicture:
    """A row of a shard."""

    image_id: str
    sha256: str
    """The hash of the source file, in hex."""
    pixels_sha256: str
    """:func:`sightword.images.encoding.hash_pixels` of the pixels, in hex."""
    width: int
    height: int
    encoding: str
    pixels: bytes
    """The encoded pixels, for :meth:`array` to decode."""

    def array(self) -> Pixels:
        """Return the pixels, uint8 (height, width, 3)."""
        return decode_pixels(self.pixels, self.encoding, self.width, self.height)


@dataclass(frozen=True)
class Group:
    """A row group of a shard."""

    path: str
    index: int
    rows: int
    content: str
    """A hash of the pictures' ids, the hashes of their files and pixels, and the resize settings."""


class Listed(NamedTuple):
    """The location of a picture."""

    image_id: str
    sha256: str
    """The hash of the source file, in hex."""
    pixels_sha256: str
    """The hash of the pixels, in hex."""
    group: Group


@dataclass(frozen=True)
class Selection:
    """Pictures of one row group, as one task of a reading process."""

    group: Group
    image_ids: frozenset[str]


def shard_of(image_id: str, shards: int) -> int:
    """Return a picture's shard: the first 8 bytes of its id's sha256, modulo ``shards``."""
    return int.from_bytes(hashlib.sha256(image_id.encode()).digest()[:8], "big") % shards


def shard_path(folder: Pathish, shard: int) -> Path:
    """Return the file of a shard in its folder."""
    return Path(folder) / f"shard-{shard:02d}.parquet"


def write_shard(path: Pathish, pictures: Iterable[ResizedPicture], transform: Mapping[str, Any]) -> int:
    """Write pictures, sorted by ``image_id``, with one row group in memory at a time; return their number.

    The resize settings ``transform`` are kept in the file's metadata.
    """
    schema = pa.schema(_FIELDS, metadata={_KEY: canonical_json(transform).encode()})
    # The pixels are already compressed, or raw by choice.
    compression = {name: "NONE" if name == "pixels" else "ZSTD" for name in _NAMES}
    plain = {"use_dictionary": False, "write_statistics": False, "write_page_checksum": True}
    count = 0
    iterator = iter(pictures)
    with atomic_file(path) as temporary:
        with (
            pq.ParquetWriter(temporary, schema, compression=compression, **plain) as writer,
            ThreadPoolExecutor(1) as executor,  # one group is written while the next is prepared
        ):
            writing: Future[None] | None = None
            while rows := list(itertools.islice(iterator, GROUP)):
                if writing:
                    writing.result()
                table = pa.Table.from_pylist([*map(vars, rows)], schema)
                writing = executor.submit(writer.write_table, table, row_group_size=GROUP)
                count += len(rows)
            if writing:
                writing.result()
        seal(temporary)
    return count


def shard_paths(folder: Pathish) -> list[Path]:
    """Return the shards of a folder, in order; FileFormatError if there is none."""
    paths = sorted(Path(folder).glob("shard-*.parquet"), key=lambda path: (len(path.name), path.name))
    if not paths:
        raise FileFormatError("holds no shard-*.parquet", where=folder, todo="Run the stage resize first.")
    return paths


def read_transform(folder: Pathish) -> dict[str, Any]:
    """Return ``resize``, ``interpolation`` and ``exif`` of a folder's pictures; FileFormatError if shards differ."""
    found: list[dict[str, Any]] = []
    for path in shard_paths(folder):
        with _opened(path) as file:
            text = (file.schema_arrow.metadata or {}).get(_KEY)
        if text is None:
            raise FileFormatError("does not state how its pictures were resized", where=path, todo=_AGAIN)
        found.append(loads(text))
        if found[-1] != found[0]:
            raise FileFormatError("was resized in another way than the other shards", where=path, todo=_AGAIN)
    return found[0]


def read_group(group: Group) -> list[ResizedPicture]:
    """Return the pictures of a row group, still encoded; FileFormatError if the file changed since it was listed."""
    with _opened(group.path) as file:
        there = group.index < file.num_row_groups
        table = file.read_row_group(group.index, columns=_NAMES) if there else None
    if table is None or _content(table) != group.content:
        what = "is not the file that was listed"
        todo = "Run the stage once more; on a cluster, give each node the same files (`dvc pull`)."
        raise FileFormatError(what, where=group.path, todo=todo)
    return [ResizedPicture(*row.values()) for row in table.select(_NAMES).to_pylist()]


def read_arrays(selection: Selection) -> list[tuple[str, Pixels]]:
    """Decode pictures of a row group: id and uint8 (height, width, 3); FileFormatError as of :func:`read_group`."""
    group = selection.group
    found = [picture for picture in read_group(group) if picture.image_id in selection.image_ids]
    arrays = []
    for picture in found:
        try:
            arrays.append((picture.image_id, picture.array()))
        except FileFormatError as error:
            raise FileFormatError(error.what, where=f"{group.path}, picture {picture.image_id}", todo=_AGAIN) from None
    return arrays


def find_pictures(folder: Pathish, image_ids: Iterable[str]) -> dict[str, ResizedPicture]:
    """Return the existing pictures among ``image_ids``, by id."""
    wanted = set(image_ids)
    groups = {listed.group: None for listed in list_pictures(folder) if listed.image_id in wanted}
    pictures = (picture for group in groups for picture in read_group(group))
    return {picture.image_id: picture for picture in pictures if picture.image_id in wanted}


def list_pictures(folder: Pathish) -> list[Listed]:
    """Return the location of every picture of a folder, sorted by id; FileFormatError for damage and equal ids."""
    pictures: list[Listed] = []
    for path in shard_paths(folder):
        with _opened(path) as file:
            for index in range(file.num_row_groups):
                table = file.read_row_group(index, columns=[*_LISTED])
                group = Group(str(path), index, table.num_rows, _content(table))
                columns = (table[name].to_pylist() for name in _LISTED)
                pictures += map(Listed, *columns, itertools.repeat(group))
    pictures.sort(key=lambda picture: picture.image_id)
    for one, other in itertools.pairwise(pictures):
        if one.image_id == other.image_id:
            raise FileFormatError(f"holds the picture {one.image_id} twice", where=folder, todo=_AGAIN)
    return pictures


def _content(table: pa.Table) -> str:
    found = [table[name].to_pylist() for name in _LISTED]
    settings = (table.schema.metadata or {}).get(_KEY, b"")
    return hashlib.sha256(canonical_json(found).encode() + settings).hexdigest()


@contextlib.contextmanager
def _opened(path: Pathish) -> Iterator[pq.ParquetFile]:
    """Yield a shard for reading, and report its damage as a FileFormatError: of pages where they are read."""
    check_seal(path, pages=False, todo=_AGAIN)
    with parquet_file(path, todo=_AGAIN, page_checksum_verification=True) as file:
        wrong = [name for name in _NAMES if file.schema_arrow.names.count(name) != 1]
        if wrong:
            raise FileFormatError(f"has no column {', '.join(wrong)}, or two", where=path, todo=_AGAIN)
        yield file
