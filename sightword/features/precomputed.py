"""Converts features that were made elsewhere: checks them, and writes the corpus's rows as ``features.h5``."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from tokenize import TokenError
from zipfile import is_zipfile

import numpy as np
import numpy.typing as npt

from sightword.errors import FeaturesError, FileFormatError
from sightword.features.settings import HDF5_FILES, ORDER, FeaturesSettings
from sightword.features.tables.origin import joined
from sightword.features.tables.table import LARGEST, Array, FeatureTable, Origin, Rows, read_features, write_features
from sightword.io.files import Pathish, mapping, sha256_file
from sightword.io.names import Names
from sightword.io.opening import files_in, lines, reading, require_regular
from sightword.messages import and_more, first_line, short, warn_share

log = logging.getLogger(__name__)

ROWS_AT_A_TIME = 1024
_DAMAGED = (ValueError, EOFError, OSError, SyntaxError, TokenError, TypeError, OverflowError, LookupError, RuntimeError,
            AttributeError)  # fmt: skip
"""Errors of NumPy for a wrong header or size."""

Order = Sequence[tuple[str, str]]
"""Id and split of each picture, in the order of the publisher."""


def convert(path: Pathish, image_ids: Sequence[str], settings: FeaturesSettings, order: Order = ()) -> int:
    """Write ``features.h5`` of the pictures ``image_ids``; return the number of rows of others, which are left out.

    ``order`` has the pictures in the publisher's order. Rows of only zeros are mostly those of pictures that could not
    be read: log and file have their number.

    Raises:
        FileFormatError: a file is missing or of another format.
        FeaturesError: ids occur twice, more or fewer ids than rows, pictures have no row, or values are too large.
    """
    names = [settings.precomputed] if isinstance(settings.precomputed, str) else settings.precomputed
    tables = [_read(settings, name, order) for name in names]
    table, hashes = tables[0][0], [sha256 for _, sha256 in tables]
    sha256 = hashes[0] if len(hashes) == 1 else _together(hashes)
    if len(tables) > 1:
        table = joined([one for one, _ in tables], names)
    source = Path(settings.inputs) / " + ".join(names)
    rejected = sorted(table.rejected.intersection(image_ids))
    wanted = sorted(set(image_ids).difference(rejected))
    ids = settings.precomputed_ids
    named_in = source if ids in ("", ORDER) else Path(settings.inputs) / ids
    rows = table.rows(_known(wanted, table.image_ids, named_in), where=named_in)
    # comparisons with NaN are false
    bad = [one for one, row in zip(wanted, rows, strict=True) if not (np.abs(table.features[row]) <= LARGEST).all()]
    if bad:
        what = f"{len(bad)} rows have values that are not finite, or larger than {LARGEST:g}: {and_more(bad, 5)}"
        raise FeaturesError(what, where=source)
    zero = [image_id for image_id, row in zip(wanted, rows, strict=True) if not table.features[row].any()]
    warn_share(log, "features: %d of %d pictures have only zeros, the first is %s", len(zero), len(wanted), *zero[:1])
    origin = f"precomputed: {' + '.join(names)} (sha256 {sha256})"
    known = {name: str(table.attributes.get(name, "")) for name in Origin.__dataclass_fields__}
    dimension = table.features.shape[1]
    made = Origin(**known | {"origin": origin})
    pictures = [table.sha256[row] for row in rows]
    write_features(path, wanted, pictures, dimension, _blocks(table.features, rows), made, rejected, len(zero))
    return len(table.image_ids) - len(wanted)


def _read(settings: FeaturesSettings, name: str, order: Order) -> tuple[FeatureTable, str]:
    """Return the features of a file, or of the files of a pattern, and their sha256."""
    source = Path(settings.inputs) / name
    if "*" in name:
        return _splits(source, order)
    if not source.is_file():
        todo = "Put the file there, or fix features.precomputed."
        raise FileFormatError("the precomputed features do not exist", where=source, todo=todo)
    if name.endswith(HDF5_FILES):
        if settings.precomputed_ids and isinstance(settings.precomputed, str):
            what = f"holds its ids itself, and features.precomputed_ids is {settings.precomputed_ids}"
            raise FeaturesError(what, where=source, expected="precomputed_ids: ''")
        todo = "Take the file of a stage features, or write the vectors by numpy.save."
        return read_features(source, todo), sha256_file(source)
    features = _vectors(source)
    if settings.precomputed_ids == ORDER:
        features, ids = _in_order(features, [image_id for image_id, _ in order], source)
    else:
        ids = _ids(Path(settings.inputs) / settings.precomputed_ids, source, len(features))
    return _table(features, ids), sha256_file(source)


def _vectors(path: Path) -> npt.NDArray[np.floating]:
    """Return the vectors (N, D) of a ``.npy`` file, mapped into memory."""
    with reading(path):
        require_regular(path)
    if is_zipfile(path):
        todo = "Write the vectors by numpy.save."
        raise FileFormatError("is an archive of arrays", where=path, expected="a .npy file", todo=todo)
    try:
        with np.errstate(over="ignore"):  # of a size that the header states
            vectors = np.lib.format.open_memmap(path, mode="r")
    except _DAMAGED as error:
        raise FileFormatError(f"is not a whole .npy file ({short(first_line(error))})", where=path) from None
    if path.stat().st_size != vectors.offset + vectors.nbytes:
        what = f"has another size than the header states (an array of shape {vectors.shape})"
        raise FileFormatError(what, where=path, expected=f"{vectors.offset + vectors.nbytes} bytes")
    if vectors.ndim != 2 or vectors.dtype.kind != "f" or 0 in vectors.shape:
        what = f"is {vectors.dtype} of shape {vectors.shape}"
        raise FeaturesError(what, where=path, expected="floats of shape (pictures, features)")
    return vectors


def _table(features: npt.NDArray[np.floating], ids: list[str]) -> FeatureTable:
    """Return features without attributes that no file states."""
    attributes = {"transform": "{}", "precision": str(features.dtype)}
    return FeatureTable(features, ids, [""] * len(ids), attributes)


def _ids(path: Path, source: Path, count: int) -> list[str]:
    """Return the picture ids of a text file, one on each line; blank lines at the end are ignored."""
    ids = [line.strip() for _, line in lines(path, todo="It names the picture of each row, one a line.")]
    while ids and not ids[-1]:
        ids.pop()
    if "" in ids:
        raise FeaturesError("is blank", where=f"{path}, line {ids.index('') + 1}", expected="a picture id")
    if len(ids) != count:
        raise FeaturesError(f"has {count} rows but {path.name} has {len(ids)} ids", where=source)
    rows = ((image_id, row, f"{path}, line {row}") for row, image_id in enumerate(ids, 1))
    return list(mapping(rows, "the picture id", "row", FeaturesError, todo="Each picture has one row."))


def _in_order(
    features: npt.NDArray[np.floating], ids: list[str], source: Path
) -> tuple[npt.NDArray[np.floating], list[str]]:
    """Return one row for each picture of rows in the publisher's order, where each picture may have several rows."""
    times, rest = divmod(len(features), max(len(ids), 1))
    if rest or not times:
        what = f"has {len(features)} rows for {len(ids)} pictures in the publisher's order"
        raise FeaturesError(what, where=source, expected="a row, or the same number of rows, for each picture")
    first = features[::times]
    for place in range(1, times):
        if (other := np.flatnonzero((first != features[place::times]).any(axis=1))).size:
            row = int(other[0]) * times
            what = f"has {times} rows a picture, but the rows {row} and {row + place} differ"
            raise FeaturesError(what, where=source, todo="Is the corpus whole, and in the order of the file?")
    return first, ids


def _splits(pattern: Path, order: Order) -> tuple[FeatureTable, str]:
    """Return the features of a file for each split, such as VSE++'s ``*_ims.npy``: the star stands for the split."""
    before, _, after = pattern.name.partition("*")
    files = {
        file.name.removeprefix(before).removesuffix(after): file for file in files_in(pattern.parent, pattern.name)
    }
    splits = sorted({split for _, split in order}.intersection(files))
    if not splits:
        expected = f"a file such as {before}train{after}"
        raise FileFormatError("no file of a split has this name", where=pattern, expected=expected)
    if others := sorted(files.keys() - splits):
        log.warning(
            "features: no picture of the corpus is in the split of %s", and_more(files[one].name for one in others)
        )
    parts = [
        _in_order(_vectors(files[split]), [image_id for image_id, own in order if own == split], files[split])
        for split in splits
    ]
    if len(widths := {part.shape[1] for part, _ in parts}) > 1:
        raise FeaturesError(f"the files have {' and '.join(map(str, sorted(widths)))} features", where=pattern)
    ids = [image_id for _, some in parts for image_id in some]
    return _table(np.concatenate([part for part, _ in parts]), ids), _together(
        [sha256_file(files[one]) for one in splits]
    )


def _together(hashes: Sequence[str]) -> str:
    return hashlib.sha256(" ".join(hashes).encode()).hexdigest()


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
