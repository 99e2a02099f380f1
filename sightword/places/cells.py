"""Reads pictures in the rows of Parquet files, in pieces: a row group of pandas or polars holds all rows."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sightword.messages import first_line

_AT_A_TIME = 64
"""Pictures in memory at a time."""


def cells(path: str, column: str) -> Iterator[bytes | None]:
    """Yield the bytes in each row of a column, or of a field such as ``image.bytes``; None where there are none.

    Raises:
        OSError: the file is missing or damaged.
    """
    try:
        with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            for batch in file.iter_batches(_AT_A_TIME, columns=[column]):
                values = batch.column(0)
                if isinstance(values.type, pa.StructType):
                    values = pc.struct_field(values, column.rpartition(".")[2])
                yield from (value.as_py() for value in values)
    except pa.ArrowInvalid as error:
        raise OSError(errno.EIO, f"it is not a whole Parquet file ({first_line(error)})", path) from None


class _Cursor:
    """The next row of the column that was read last: rows in order cost one look at the file."""

    def __init__(self) -> None:
        self._at, self._column = 0, ("", "")
        self._cells: Iterator[bytes | None] = iter(())

    def read(self, path: str, row: int, column: str) -> bytes | None:
        """Return the bytes in a row."""
        if self._column != (path, column) or row < self._at:
            self._at, self._column, self._cells = 0, (path, column), cells(path, column)
        for value in self._cells:
            self._at += 1
            if self._at > row:
                return value
        self._column = ("", "")
        raise OSError(errno.EIO, f"the file ends before row {row + 1}", path)


_cursor = _Cursor()


def read_cell(path: str, row: int, column: str) -> bytes:
    """Return the bytes in a row; FileNotFoundError if there are none, OSError if the file is missing or damaged."""
    data = _cursor.read(path, row, column)
    if data is None:
        raise FileNotFoundError(errno.ENOENT, "there is no picture in the row", path)
    return data
