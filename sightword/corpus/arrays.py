"""Columns that grow by a value: texts, numbers, and places of records in files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Rows = npt.NDArray[np.int64]

_CHUNK = 1 << 14
_NUMBER = re.compile(r"(?<!\d)(?:[1-9]\d{0,8})$")


class Texts:
    """Texts or None, in Arrow arrays of equal lengths."""

    def __init__(self) -> None:
        self._full: list[pa.Array] = []
        self._last: list[str | None] = []

    def __len__(self) -> int:
        return len(self._full) * _CHUNK + len(self._last)

    def __getitem__(self, row: int) -> str | None:
        chunk, place = divmod(int(row), _CHUNK)
        return self._last[place] if chunk == len(self._full) else self._full[chunk][place].as_py()

    def append(self, text: str | None) -> None:
        """Add a text."""
        self._last.append(text)
        if len(self._last) == _CHUNK:
            self._full.append(_exact(self._last))
            self._last = []

    def chunks(self) -> list[pa.Array]:
        """Return all texts."""
        return [*self._full, _exact(self._last)]

    def take(self, rows: Rows) -> pa.Array:
        """Return the texts of some rows, in one array."""
        if not len(rows):
            return pa.array([], pa.large_string())
        order = np.argsort(rows // _CHUNK, kind="stable")
        chunks, starts = np.unique(rows[order] // _CHUNK, return_index=True)
        every = self.chunks()
        parts = [
            every[chunk].take(pa.array(rows[part] % _CHUNK))
            for chunk, part in zip(chunks, np.split(order, starts[1:]), strict=True)
        ]
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return pa.concat_arrays(parts).take(pa.array(back))


def _exact(texts: Sequence[str | None]) -> pa.Array:
    """Return texts as an array that has no more memory than they need, which Arrow's own arrays have."""
    data = [b"" if text is None else text.encode() for text in texts]
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([*map(len, data)], out=offsets[1:])
    nulls = pa.array([text is not None for text in texts]).buffers()[1] if None in texts else None
    return pa.LargeStringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(b"".join(data)), nulls)


class Numbers:
    """Whole numbers of one type, in arrays of equal lengths: one array that grows would leave holes in memory."""

    def __init__(self, kind: type[np.signedinteger[Any]]) -> None:
        self._kind, self._full, self._last = kind, [np.zeros(0, kind)][:0], [0][:0]

    def __len__(self) -> int:
        return len(self._full) * _CHUNK + len(self._last)

    def __getitem__(self, row: int) -> int:
        chunk, place = divmod(row, _CHUNK)
        return self._last[place] if chunk == len(self._full) else int(self._full[chunk][place])

    def append(self, number: int) -> None:
        """Add a number."""
        self._last.append(number)
        if len(self._last) == _CHUNK:
            self._full.append(np.array(self._last, self._kind))
            self._last = []

    def array(self) -> npt.NDArray[Any]:
        """Return all numbers."""
        return np.concatenate([*self._full, np.array(self._last, self._kind)])


class Wheres:
    """Places of records in files, such as ``all.csv, line 7``: a number, and which of some texts stands before it."""

    def __init__(self) -> None:
        self._texts: dict[str, int] = {}
        self._known: list[str] = []
        self._text, self._number = Numbers(np.int32), Numbers(np.int32)

    def append(self, where: str) -> None:
        """Add a place."""
        found = _NUMBER.search(where)
        text = where[: found.start()] if found else where
        known = self._texts.setdefault(text, len(self._known))
        if known == len(self._known):
            self._known.append(text)
        self._text.append(known)
        self._number.append(int(found[0]) if found else -1)

    def __getitem__(self, row: int) -> str:
        number = self._number[row]
        return self._known[self._text[row]] + ("" if number < 0 else str(number))
