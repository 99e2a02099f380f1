"""Features that a laboratory has already: checked, cut to the corpus, in the one file format."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

import numpy as np
import numpy.typing as npt

from sightword.errors import FeaturesError, FileFormatError
from sightword.features.settings import HDF5_FILES, FeaturesSettings
from sightword.features.table import (
    ROWS_AT_A_TIME,
    Array,
    Origin,
    Rows,
    missing_features,
    read_features,
    write_features,
)
from sightword.files import Pathish, read_text, sha256_file

log = logging.getLogger(__name__)


def convert(path: Pathish, image_ids: Sequence[str], settings: FeaturesSettings) -> int:
    """Write ``features.h5`` from precomputed features.

    Args:
        path: the file to write.
        image_ids: the pictures of the corpus; rows of others are left out.
        settings: the section ``features``, with source ``precomputed``.

    Returns:
        The number of rows that were left out.

    Raises:
        FileFormatError: a file is missing or of another format.
        FeaturesError: ids twice, more or fewer ids than rows, pictures without a row,
            or values that are not finite.
    """
    source = Path(settings.inputs) / settings.precomputed
    if not source.is_file():
        raise FileFormatError(
            "the precomputed features do not exist",
            where=source,
            todo="Put the file there, or fix features.precomputed.",
        )
    wanted = sorted(image_ids)
    origin = f"precomputed: {settings.precomputed} (sha256 {sha256_file(source)})"
    if settings.precomputed.endswith(HDF5_FILES):
        return _from_hdf5(path, source, wanted, origin)
    return _from_npy(path, source, Path(settings.inputs) / settings.precomputed_ids, wanted, origin)


def _from_hdf5(path: Pathish, source: Path, wanted: list[str], origin: str) -> int:
    table = read_features(source)
    rejected = sorted(table.rejected.intersection(wanted))
    wanted = [image_id for image_id in wanted if image_id not in table.rejected]
    _check_all_there(wanted, table.image_ids, source)
    rows = table.rows(wanted)
    known = Origin(**{name: str(table.attributes[name]) for name in Origin.__dataclass_fields__})
    write_features(
        path,
        wanted,
        [table.sha256[row] for row in rows],
        table.features.shape[1],
        _blocks(table.features, rows),
        replace(known, origin=origin),
        rejected,
    )
    return len(table.image_ids) - len(wanted)


def _from_npy(path: Pathish, source: Path, ids_file: Path, wanted: list[str], origin: str) -> int:
    features = _open_npy(source)
    ids = _read_ids(ids_file)
    if len(ids) != len(features):
        raise FeaturesError(f"has {len(features)} rows but {ids_file.name} has {len(ids)} ids", where=source)
    _check_all_there(wanted, ids, ids_file)
    places = {image_id: row for row, image_id in enumerate(ids)}
    rows = np.array([places[image_id] for image_id in wanted], np.int64)
    bad = [image_id for image_id, row in zip(wanted, rows, strict=True) if not np.isfinite(features[row]).all()]
    if bad:
        raise FeaturesError(f"{len(bad)} rows have values that are not finite: {', '.join(bad[:5])}", where=source)
    # How they were made is not in the file, so the attributes do not claim it.
    unknown = Origin(
        backbone="",
        feature_point="",
        weights="",
        weights_sha256="",
        transform="{}",
        precision=str(features.dtype),
        origin=origin,
    )
    write_features(path, wanted, [""] * len(wanted), features.shape[1], _blocks(features, rows), unknown)
    return len(ids) - len(wanted)


def _open_npy(source: Path) -> npt.NDArray[np.floating]:
    try:
        features: npt.NDArray[np.floating] = np.load(source, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise FileFormatError(f"is not a whole .npy file ({error})", where=source) from None
    if features.ndim != 2 or features.dtype.kind != "f" or 0 in features.shape:
        raise FeaturesError(
            f"is {features.dtype} of shape {features.shape}",
            where=source,
            expected="floats of shape (pictures, features)",
        )
    return features


def _read_ids(path: Path) -> list[str]:
    ids = [line.strip() for line in read_text(path, todo="It names the picture of each row, one a line.").splitlines()]
    while ids and not ids[-1]:
        ids.pop()
    blank = [number for number, image_id in enumerate(ids, 1) if not image_id]
    if blank:
        raise FeaturesError("is blank", where=f"{path}, line {blank[0]}", expected="a picture id")
    twice = [image_id for image_id, count in Counter(ids).items() if count > 1]
    if twice:
        lines = [number for number, image_id in enumerate(ids, 1) if image_id == twice[0]]
        raise FeaturesError(
            f"{len(twice)} ids stand there more than once, {twice[0]} on lines {lines[0]} and {lines[1]}", where=path
        )
    return ids


def _check_all_there(wanted: Sequence[str], have: Sequence[str], where: Path) -> None:
    present = set(have)
    missing = [image_id for image_id in wanted if image_id not in present]
    if not missing:
        return
    stems = {PurePosixPath(image_id).stem for image_id in have}
    if all(PurePosixPath(image_id).stem in stems for image_id in missing):
        log.warning("with the file endings left out, all ids would be there: %s and %s differ", missing[0], have[0])
    raise missing_features(missing, len(wanted), where=where)


def _blocks(features: npt.NDArray[np.floating], rows: Rows) -> Iterator[tuple[Rows, Array]]:
    """The rows wanted, in order, a thousand at a time."""
    for start in range(0, len(rows), ROWS_AT_A_TIME):
        part = rows[start : start + ROWS_AT_A_TIME]
        yield np.arange(start, start + len(part)), np.asarray(features[part], np.float32)
