"""Reads vectors of pictures, and ids where a file has them, from the files of other programs."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from pickle import UnpicklingError
from tokenize import TokenError
from typing import Any
from zipfile import BadZipFile, is_zipfile

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError

from sightword.errors import FeaturesError, FileFormatError
from sightword.io.opening import reading
from sightword.messages import and_more, first_line, quote, short

_NAMED = ("features", "vector")
"""The names of the vectors in a file with several arrays of two dimensions."""

_DAMAGED = (ValueError, EOFError, OSError, SyntaxError, TokenError, TypeError, OverflowError, LookupError, RuntimeError,
            AttributeError, BadZipFile, UnpicklingError, SafetensorError)  # fmt: skip
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
    readers = {".npz": _npz, ".pt": _pt, ".safetensors": _safetensors, ".parquet": _parquet}
    try:
        arrays = readers.get(kind, _hdf5)(path)
    except _DAMAGED as error:
        what, expected = f"is not a whole {kind} file of arrays ({unread(error)})", "numbers and texts only"
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


def unread(error: Exception) -> str:
    """Return why a file was not read; torch's own words would advise to run the code in it."""
    return "damaged, or with code that is not run" if isinstance(error, UnpicklingError) else short(first_line(error))


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


def _pt(path: Path) -> Arrays:
    """Return the tensors, and lists of texts, of what ``torch.save`` wrote; nothing in the file is executed."""
    import torch

    with warnings.catch_warnings():  # torch warns before it refuses
        warnings.simplefilter("ignore")
        found = torch.load(path, map_location="cpu", weights_only=True)
    return _plain(found if isinstance(found, Mapping) else {"features": found})


def _safetensors(path: Path) -> Arrays:
    from safetensors.torch import load_file

    return _plain(load_file(path))


def _plain(found: Mapping[Any, Any]) -> Arrays:
    import torch

    arrays: Arrays = {}
    for name, value in found.items():
        if isinstance(value, torch.Tensor):
            value = value.detach()
            arrays[str(name)] = (value.float() if value.dtype is torch.bfloat16 else value).numpy()
        elif isinstance(value, list | tuple):
            with contextlib.suppress(ValueError):  # a list of lists of other lengths is no array
                arrays[str(name)] = np.array(value, object if all(isinstance(one, str) for one in value) else None)
    return arrays


def _parquet(path: Path) -> Arrays:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    arrays: Arrays = {}
    for name, column in zip((table := pq.read_table(path)).column_names, table.columns, strict=True):
        kind = column.type
        if not (pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind) or pa.types.is_large_list(kind)):
            arrays[name] = column.to_numpy()
        elif pa.types.is_floating(kind.value_type) and len(column):
            lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
            if (other := np.flatnonzero(lengths != lengths[0])).size:
                what = f"has {lengths[0]} numbers in the row 1 and {lengths[other[0]]} in the row {other[0] + 1}"
                raise FeaturesError(what, where=f"{path}, {name}", expected="as many in each row")
            arrays[name] = pc.list_flatten(column).to_numpy(zero_copy_only=False).reshape(len(column), -1)
    return arrays


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
