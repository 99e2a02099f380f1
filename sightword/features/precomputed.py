"""Converts precomputed features: checks them, and writes the corpus's rows as ``features.h5``."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from tokenize import TokenError
from zipfile import is_zipfile

import numpy as np
import numpy.typing as npt

from sightword.errors import FeaturesError, FileFormatError
from sightword.features.settings import HDF5_FILES, FeaturesSettings
from sightword.features.tables.table import Array, FeatureTable, Origin, Rows, read_features, write_features
from sightword.io.files import Pathish, sha256_file
from sightword.io.mapping import mapping
from sightword.io.names import Names
from sightword.io.opening import lines
from sightword.messages import and_more, first_line, short, warn_share

log = logging.getLogger(__name__)

ROWS_AT_A_TIME = 1024

_DAMAGED = (ValueError, EOFError, OSError, SyntaxError, TokenError, TypeError, OverflowError)
"""Errors of NumPy for a wrong header or size."""


def convert(path: Pathish, image_ids: Sequence[str], settings: FeaturesSettings) -> int:
    """Write ``features.h5`` from precomputed features, and return the number of rows that were left out.

    Args:
        path: the file to write.
        image_ids: the pictures of the corpus; rows of other pictures are left out.
        settings: the section ``features``, with source ``precomputed``.

    Raises:
        FileFormatError: a file is missing or of another format.
        FeaturesError: ids occur twice, more or fewer ids than rows, pictures have no row, or values are not finite.

    Rows of only zeros are mostly those of pictures that could not be read: log and file have their number.
    """
    source = Path(settings.inputs) / settings.precomputed
    if not source.is_file():
        todo = "Put the file there, or fix features.precomputed."
        raise FileFormatError("the precomputed features do not exist", where=source, todo=todo)
    if settings.precomputed.endswith(HDF5_FILES):
        named_in, table = source, read_features(source)
    else:
        named_in = Path(settings.inputs) / settings.precomputed_ids
        table = _read_npy(source, named_in)
    rejected = sorted(table.rejected.intersection(image_ids))
    wanted = sorted(set(image_ids).difference(rejected))
    rows = table.rows(_known(wanted, table.image_ids, named_in), where=named_in)
    bad = [image_id for image_id, row in zip(wanted, rows, strict=True) if not np.isfinite(table.features[row]).all()]
    if bad:
        raise FeaturesError(f"{len(bad)} rows have values that are not finite: {and_more(bad, 5)}", where=source)
    zero = [image_id for image_id, row in zip(wanted, rows, strict=True) if not table.features[row].any()]
    warn_share(log, "features: %d of %d pictures have only zeros, the first is %s", len(zero), len(wanted), *zero[:1])
    origin = f"precomputed: {settings.precomputed} (sha256 {sha256_file(source)})"
    known = {name: str(table.attributes.get(name, "")) for name in Origin.__dataclass_fields__}
    made = Origin(**known | {"origin": origin})
    hashes, dimension = [table.sha256[row] for row in rows], table.features.shape[1]
    write_features(path, wanted, hashes, dimension, _blocks(table.features, rows), made, rejected, len(zero))
    return len(table.image_ids) - len(wanted)


def _read_npy(source: Path, ids_file: Path) -> FeatureTable:
    """Return the features of a ``.npy`` file, mapped into memory, without attributes that the file does not state."""
    if is_zipfile(source):
        todo = "Save one array with numpy.save."
        raise FileFormatError("is an archive of arrays (.npz)", where=source, expected="a .npy file", todo=todo)
    try:
        features = np.lib.format.open_memmap(source, mode="r")
    except _DAMAGED as error:
        raise FileFormatError(f"is not a whole .npy file ({short(first_line(error))})", where=source) from None
    if source.stat().st_size != features.offset + features.nbytes:
        what = f"has another size than the header states (an array of shape {features.shape})"
        raise FileFormatError(what, where=source, expected=f"{features.offset + features.nbytes} bytes")
    if features.ndim != 2 or features.dtype.kind != "f" or 0 in features.shape:
        what = f"is {features.dtype} of shape {features.shape}"
        raise FeaturesError(what, where=source, expected="floats of shape (pictures, features)")
    ids = _read_ids(ids_file)
    if len(ids) != len(features):
        raise FeaturesError(f"has {len(features)} rows but {ids_file.name} has {len(ids)} ids", where=source)
    return FeatureTable(features, ids, [""] * len(ids), {"transform": "{}", "precision": str(features.dtype)})


def _read_ids(path: Path) -> list[str]:
    """Return the picture ids of a text file, one on each line; blank lines at the end are ignored."""
    ids = [line.strip() for _, line in lines(path, todo="It names the picture of each row, one a line.")]
    while ids and not ids[-1]:
        ids.pop()
    if "" in ids:
        raise FeaturesError("is blank", where=f"{path}, line {ids.index('') + 1}", expected="a picture id")
    rows = ((image_id, row, f"{path}, line {row}") for row, image_id in enumerate(ids, 1))
    return list(mapping(rows, "the picture id", "row", FeaturesError, todo="Each picture has one row."))


def _known(wanted: Sequence[str], have: Sequence[str], where: object) -> list[str]:
    """Return ids in the Unicode form of the file; FeaturesError if the file has some in another form only."""
    names = Names(have)
    found = [names.match(image_id) or image_id for image_id in wanted]
    count, remark = Names(set(have).difference(found)).remark(sorted(set(found).difference(have)))
    if count:
        what = f"{count} of {len(wanted)} pictures have no features, since their ids have another form: {remark}"
        raise FeaturesError(what, where=where, todo="Write the ids as in data/corpus/images.parquet.")
    return found


def _blocks(features: npt.NDArray[np.floating], rows: Rows) -> Iterator[tuple[Rows, Array]]:
    """Yield the wanted rows, in order, in blocks."""
    for start in range(0, len(rows), ROWS_AT_A_TIME):
        part = rows[start : start + ROWS_AT_A_TIME]
        yield np.arange(start, start + len(part)), np.asarray(features[part], np.float32)
