"""Reads some columns of a Parquet or Arrow file, piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet as pq

from sightword.errors import CorpusError, FileFormatError
from sightword.io.files import check_text
from sightword.io.opening import reading, require_regular
from sightword.messages import first_line

ARROW = ".arrow"
_TODO = "Download or write the file again."
_Batches = Callable[[Sequence[str], int], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Piece:
    """Some rows of a file."""

    file: Path
    start: int
    """The number of the first row, from 0."""
    batch: pa.RecordBatch
    base: int | None
    """The address of the file's first byte in memory, if the file is mapped."""

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.batch.num_rows)

    def values(self, name: str) -> list[Any]:
        """Return the values of a column."""
        return list(column(self.batch, name).to_pylist())

    def spans(self, name: str) -> list[tuple[int, int]]:
        """Return the first byte in the mapped file, and the length, of each value of a column of bytes."""
        values = column(self.batch, name)
        large = pa.types.is_large_binary(values.type)
        _, offsets, data = values.buffers()
        start = (data.address if data else 0) - (self.base or 0)
        bounds = memoryview(offsets).cast("q" if large else "i")[values.offset : values.offset + len(values) + 1]
        if data and not 0 <= start < self.file.stat().st_size:
            todo = "Write it without compression, or as Parquet."
            raise CorpusError("is a compressed Arrow file", where=self.file, todo=todo)
        return [(start + bounds[row], bounds[row + 1] - bounds[row]) for row in range(len(values))]


def column(batch: pa.RecordBatch, name: str) -> pa.Array[Any]:
    """Return a column, or a field of one, such as ``image.bytes``."""
    if name in batch.schema.names:
        return batch.column(name)
    above, _, inner = name.rpartition(".")
    return pc.struct_field(batch.column(above), inner)


@contextmanager
def opened(file: Path) -> Iterator[tuple[pa.Schema, int]]:
    """Yield the schema of a Parquet or Arrow file, and the number of its rows (of Arrow: -1, not known)."""
    with _opened(file) as (schema, count, _, _):
        yield schema, count


def count_without(file: Path, name: str) -> int | None:
    """Return how many rows have no value in a column of bytes, by the statistics of a Parquet file; None if unknown."""
    if file.suffix.lower() == ARROW:
        return None
    with _opened(file):
        metadata = pq.read_metadata(str(file))
    total = 0
    for group in range(metadata.num_row_groups):
        chunks = (metadata.row_group(group).column(number) for number in range(metadata.num_columns))
        chunk = next(chunk for chunk in chunks if chunk.path_in_schema == name)
        if chunk.statistics is None or not chunk.statistics.has_null_count:
            return None
        total += chunk.statistics.null_count
    return total


def pieces(file: Path, names: Sequence[str], count: int) -> Iterator[Piece]:
    """Yield some columns of a file, ``count`` rows at a time or fewer.

    Raises:
        CorpusError: there are no rows.
        FileFormatError: the file is damaged, or a text is not UTF-8.
    """
    start = 0
    with _opened(file) as (_, _, base, batches):
        for batch in batches(names, count):
            texts = [
                name for name, kind in zip(batch.schema.names, batch.schema.types, strict=True) if _may_hold_text(kind)
            ]
            check_text(file, pa.Table.from_batches([batch.select(texts)]), _TODO, first=start + 1)
            yield Piece(file, start, batch, base)
            start += batch.num_rows
    if not start:
        raise CorpusError("has no rows", where=file)


def _may_hold_text(kind: pa.DataType) -> bool:
    return not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


@contextmanager
def _opened(file: Path) -> Iterator[tuple[pa.Schema, int, int | None, _Batches]]:
    try:
        with reading(file, todo=_TODO), ExitStack() as stack:
            require_regular(file)
            if file.suffix.lower() == ARROW:
                mapped = stack.enter_context(pa.memory_map(str(file)))
                base = mapped.read_buffer().address if mapped.size() else 0
                mapped.seek(0)
                whole = mapped.read(6) == b"ARROW1"
                mapped.seek(0)
                reader = pa.ipc.open_file(mapped) if whole else pa.ipc.open_stream(mapped)
                yield reader.schema, -1, base, lambda names, count: _sliced(reader, names, count)
            else:
                parquet = stack.enter_context(pq.ParquetFile(str(file), buffer_size=1 << 20, pre_buffer=False))
                rows = parquet.metadata.num_rows
                yield parquet.schema_arrow, rows, None, lambda names, count: parquet.iter_batches(count, columns=names)
    except pa.ArrowInvalid as error:
        kind = "Arrow" if file.suffix.lower() == ARROW else "Parquet"
        raise FileFormatError(f"is not a whole {kind} file ({first_line(error)})", where=file, todo=_TODO) from None
    except UnicodeDecodeError:
        raise FileFormatError("has a column whose name is not UTF-8 text", where=file, todo=_TODO) from None


def _sliced(reader: Any, names: Sequence[str], count: int) -> Iterator[pa.RecordBatch]:
    of_file = isinstance(reader, pa.ipc.RecordBatchFileReader)
    for batch in (reader.get_batch(at) for at in range(reader.num_record_batches)) if of_file else reader:
        some = pa.RecordBatch.from_arrays([column(batch, name) for name in names], names=[*names])
        for start in range(0, some.num_rows, count):
            yield some.slice(start, count)
