"""Reads vectors of pictures, and ids where a file has them, from the files of other programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tokenize import TokenError
from typing import Any
from zipfile import BadZipFile, is_zipfile

import numpy as np
import numpy.typing as npt

from sightword.errors import FeaturesError, FileFormatError
from sightword.io.opening import reading
from sightword.messages import and_more, first_line, quote, short

_NAMED = ("features", "vector")
"""The names of the vectors in a file with several arrays of two dimensions."""

_DAMAGED = (ValueError, EOFError, OSError, SyntaxError, TokenError, TypeError, OverflowError, LookupError, RuntimeError,
            AttributeError, BadZipFile)  # fmt: skip
"""Errors of NumPy and other readers for a wrong header or size."""

Arrays = dict[str, npt.NDArray[Any]]


def read_vectors(path: Path) -> tuple[npt.NDArray[np.floating], Arrays]:
    """Return the vectors (N, D) of a file, and its columns (N,) of texts or whole numbers by name.

    A file with a vector (D,) for each picture, under the picture's id, gives one column, ``id``.

    Raises:
        FileFormatError: the file is missing or damaged.
        FeaturesError: the file has no vectors, or several of which none is called ``features`` or ``vector``.
    """
    kind = path.suffix.lower()
    with reading(path):
        path.stat()
    if kind == ".npy":
        return _npy(path), {}
    try:
        arrays = (_npz if kind == ".npz" else _hdf5)(path)
    except _DAMAGED as error:
        what, expected = f"is not a whole {kind} file of arrays ({short(first_line(error))})", "numbers and texts only"
        raise FileFormatError(what, where=path, expected=expected) from None
    tables = {name: array for name, array in arrays.items() if array.ndim == 2}
    rows = {name: array for name, array in arrays.items() if array.ndim == 1 and array.dtype.kind == "f"}
    if not tables and rows and len({len(array) for array in rows.values()}) == 1:
        return np.stack([*rows.values()]), {"id": np.array([*rows], object)}
    chosen = next((name for name in _NAMED if name in tables), next(iter(tables), None) if len(tables) == 1 else None)
    if chosen is None:
        expected = f"one array of floats (pictures, features), or one called {' or '.join(_NAMED)}"
        expected += ", or a vector for each id, all of one length"
        raise FeaturesError(f"has {_described(arrays)}", where=path, expected=expected)
    columns = {name: array for name, array in arrays.items() if array.ndim == 1 and _may_be_ids(array)}
    return check(tables[chosen], f"{path}, {chosen}"), columns


def check(vectors: npt.NDArray[Any], where: object) -> npt.NDArray[np.floating]:
    """Return vectors; FeaturesError unless they are floats (N, D)."""
    if vectors.ndim != 2 or vectors.dtype.kind != "f" or 0 in vectors.shape:
        what = f"is {vectors.dtype} of shape {vectors.shape}"
        raise FeaturesError(what, where=where, expected="floats of shape (pictures, features)")
    return vectors


def _may_be_ids(array: npt.NDArray[Any]) -> bool:
    return array.dtype.kind in "SUiu" or any(isinstance(one, str | bytes) for one in array.tolist())


def _described(arrays: Arrays) -> str:
    return and_more((f"{name} {array.dtype} {array.shape}" for name, array in arrays.items()), 8) or "no array"


def _npy(path: Path) -> npt.NDArray[np.floating]:
    """Return the vectors of a ``.npy`` file, mapped into memory."""
    if is_zipfile(path):
        raise FileFormatError("is an archive of arrays", where=path, expected="a .npy file", todo="Call it .npz.")
    try:
        found = np.lib.format.open_memmap(path, mode="r")
    except _DAMAGED as error:
        raise FileFormatError(f"is not a whole .npy file ({short(first_line(error))})", where=path) from None
    if path.stat().st_size != found.offset + found.nbytes:
        what = f"has another size than the header states (an array of shape {found.shape})"
        raise FileFormatError(what, where=path, expected=f"{found.offset + found.nbytes} bytes")
    return check(found, path)


def _npz(path: Path) -> Arrays:
    with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
        return {name: array for name in file.files if isinstance(array := file[name], np.ndarray)}


def _hdf5(path: Path) -> Arrays:
    import h5py

    arrays: Arrays = {}

    def note(name: str, one: object) -> None:
        if isinstance(one, h5py.Dataset) and one.shape:  # not a single value
            arrays[name] = one[()]

    with h5py.File(path, "r") as file:
        file.visititems(note)
    return arrays


def texts(column: npt.NDArray[Any], where: str) -> Iterator[str]:
    """Yield the ids of a column: texts, bytes in UTF-8, or whole numbers; FeaturesError for anything else."""
    for row, one in enumerate(column.tolist(), 1):
        try:
            text = one.decode() if isinstance(one, bytes) else one
        except UnicodeDecodeError:
            text = None
        if not isinstance(text, str | int):
            raise FeaturesError(f"is {quote(one)}", where=f"{where}, row {row}", expected="a text in UTF-8")
        yield str(text)
