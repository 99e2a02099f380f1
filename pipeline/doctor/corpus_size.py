"""How large the corpus is: from the tables a run made, or from what lies in the raw folder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.doctor.context import Situation, precomputed_shape
from sightword.errors import SightwordError

TRIED = 16
"""Pictures that are resized to see how large they become."""
SECONDS = 1.0
"""That this may take."""
SHARE = {"raw": 1.0, "png": 0.6, "webp": 0.5}
"""Of three bytes a pixel, what photographs keep; measured on a few of Flickr8k's kind."""
ASPECT = 4 / 3
DRAWN = 0.5
"""Of that, what the sample's drawings keep at most: they have plain areas."""


@dataclass(frozen=True)
class CorpusSize:
    """What determines how much room a run takes."""

    pictures: int
    id_length: int
    """The longest picture id, in bytes."""
    resized: float
    """Bytes of a resized picture."""
    longest: int
    """Tokens of the longest caption."""
    how: str
    """How the number of pictures is known."""


def measure(situation: Situation) -> CorpusSize | None:
    """The corpus that the parameters name; None where nothing of it is here, or there are no parameters."""
    if "corpus" not in situation.known:
        situation.known["corpus"] = _measure(situation)
    found: CorpusSize | None = situation.known["corpus"]
    return found


def _measure(situation: Situation) -> CorpusSize | None:
    settings = situation.section("corpus")
    if settings is None or situation.project is None:
        return None
    folder = situation.project
    longest = 60 if situation.section("captions").unit == "word" else 200
    if situation.is_current("captions"):
        longest = _longest(folder / "data/captions/captions.parquet") or longest
    found = _from_tables(situation)
    if found is not None:
        ids, paths, how = found
        resized = _resized(situation, len(ids), [folder / path for path in paths if path])
        return CorpusSize(len(ids), max((len(name.encode()) for name in ids), default=1), resized, longest, how)
    try:
        if settings.format == "sample":
            from sightword.corpus.sample.world import load_world

            planned = load_world(folder / settings.path).pictures
            count = planned.train + planned.dev + planned.test
            return CorpusSize(count, 16, _resized(situation, count, []), longest, "scenes.yaml")
        files = _files(folder / settings.pictures)
    except (SightwordError, OSError):
        return None  # told where the data sets are looked at
    if not files:
        rows = _precomputed_rows(situation)
        return CorpusSize(rows, 32, 0.0, longest, "the precomputed features") if rows else None
    length = max(len(path.name.encode()) for path in files)
    how = f"the files in {settings.pictures}"
    return CorpusSize(len(files), length, _resized(situation, len(files), files), longest, how)


def _from_tables(situation: Situation) -> tuple[list[str], list[str | None], str] | None:
    assert situation.project is not None
    path = situation.project / "data/corpus/images.parquet"
    if not situation.is_current("corpus") or not path.is_file():
        return None
    from sightword.files import read_table

    try:
        table = read_table(path, ["image_id", "path"])
    except SightwordError:
        return None
    return table["image_id"].to_pylist(), table["path"].to_pylist(), "images.parquet"


def _files(folder: Path) -> list[Path]:
    from sightword.corpus.listing import PICTURE_SUFFIXES, list_pictures

    listing = list_pictures(folder, required=False)
    names = sorted(listing.files) if listing else []
    return [folder / name for name in names if name.lower().endswith(PICTURE_SUFFIXES)]


def _longest(path: Path) -> int:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        lengths = pc.list_value_length(pq.read_table(path, columns=["ids"])["ids"])
        return int(pc.max(lengths).as_py() or 0)
    except (pa.ArrowException, OSError, KeyError):
        return 0


def _resized(situation: Situation, count: int, files: Sequence[Path]) -> float:
    """Bytes of a resized picture: of those that are there, of a few that are tried, or of photographs."""
    assert situation.project is not None
    settings = situation.section("resize")
    shards = list((situation.project / "data/resized").glob("shard-*.parquet"))
    if count and shards and situation.is_current("resize"):
        return sum(path.stat().st_size for path in shards) / count
    if tried := _try(files, settings):
        return sum(tried) / len(tried)
    drawn = situation.section("corpus").format == "sample" and settings.encoding != "raw"
    share = SHARE[settings.encoding] * (DRAWN if drawn else 1)
    return float(share * 3 * settings.side**2 * ASPECT + 256)


def _try(files: Sequence[Path], settings: Any) -> list[int]:
    from sightword.images.decode import Reject
    from sightword.images.resized import Source, resize_file

    found: list[int] = []
    end = time.monotonic() + SECONDS
    for path in files[:: max(1, len(files) // TRIED)][:TRIED]:
        if time.monotonic() > end:
            break
        picture = resize_file(Source(path.name, str(path)), settings)
        if not isinstance(picture, Reject):
            found.append(len(picture.pixels) + 128)
    return found


def _precomputed_rows(situation: Situation) -> int:
    settings = situation.section("features")
    assert situation.project is not None
    if settings.source != "precomputed":
        return 0
    shape = precomputed_shape(situation.project / settings.inputs / settings.precomputed)
    return int(shape[0]) if shape else 0
