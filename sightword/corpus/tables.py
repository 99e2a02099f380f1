"""Writes the four tables of a corpus: pictures, captions, dropped records, and the attributes that are drawn."""

from __future__ import annotations

import functools
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sightword.corpus.arrays import Rows
from sightword.corpus.records import ALL_SPLITS, Corpus
from sightword.io.files import Pathish, write_groups, write_table
from sightword.messages import and_more, plural
from sightword.places.place import PARTS, Part, Place
from sightword.settings import BESIDE

log = logging.getLogger(__name__)

IMAGES = pa.schema([("image_id", pa.string()), ("path", pa.string()), ("split", pa.string()), ("position", pa.int32())])
CAPTIONS = pa.schema(
    [("image_id", pa.string()), ("caption", pa.int32()), ("split", pa.string()), ("text", pa.string())]
)
DROPPED = pa.schema([(name, pa.string()) for name in ("kind", "item", "reason", "detail")])
DRAWING = "drawing"
"""The key in the metadata of ``images.parquet`` that says how splits were drawn, if they were."""
LOST = ("no picture file", "unknown picture", "name is not UTF-8", "damaged")
"""Reasons for which a picture or a caption was dropped since a name leads nowhere, or to damage."""
DRAWN = pa.schema([(name, pa.string()) for name in ("image_id", "attribute")])
_AT_A_TIME = 1 << 16
_TEXTS = ("column", "version")
PARTS_OF_FILES = pa.schema([(name, pa.string() if name in _TEXTS else pa.int64()) for name in PARTS])


def write_tables(folder: Pathish, corpus: Corpus, pictures: str) -> None:
    """Write ``images.parquet``, ``captions.parquet``, ``dropped.parquet`` and ``drawn.parquet``; captions are numbered
    from 0, and have a column ``language`` if the corpus tells their languages.

    Args:
        folder: for the tables.
        corpus: the content.
        pictures: the folder of pictures, which begins the path of each loose file. If a picture is no loose file, the
            table of pictures has the columns :data:`PARTS_OF_FILES` too.
    """
    folder, texts = Path(folder), CAPTIONS
    if any(corpus.captions.languages):
        texts = CAPTIONS.append(pa.field("language", pa.string()))
    columns = pa.schema([*IMAGES, *PARTS_OF_FILES]) if corpus.places or corpus.images.placed else IMAGES
    if corpus.drawing:
        columns = columns.with_metadata({DRAWING: corpus.drawing})
    some = functools.partial(_images, corpus, columns, pictures)
    write_groups(folder / "images.parquet", columns, _parts(some, len(corpus.images)))
    owner = corpus.captions.owners(corpus.images)
    starts = np.flatnonzero(np.append(True, owner[1:] != owner[:-1]))
    number = np.arange(len(owner)) - np.repeat(starts, np.diff(np.append(starts, len(owner))))
    own, beside = len(owner), _beside(corpus, texts)

    def captions(start: int, stop: int) -> pa.Table:
        found = _captions(corpus, texts, owner, number, start, min(stop, own))
        return pa.concat_tables([found, beside.slice(max(0, start - own), max(0, stop - own) - max(0, start - own))])

    write_groups(folder / "captions.parquet", texts, _parts(captions, own + len(beside)))
    dropped = [[getattr(row, name) for row in corpus.dropped] for name in DROPPED.names]
    write_table(folder / "dropped.parquet", _table(dropped, DROPPED))
    write_table(folder / "drawn.parquet", _table([[row[at] for row in corpus.drawn] for at in range(2)], DRAWN))


def _table(columns: Sequence[Any], schema: pa.Schema) -> pa.Table:
    arrays = [
        values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, kind)
        for values, kind in zip(columns, schema.types, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _parts(some: Callable[[int, int], pa.Table], count: int) -> Iterator[pa.Table]:
    """Yield the rows of a table part by part; ``some`` makes those from a number to another."""
    return (some(start, min(start + _AT_A_TIME, count)) for start in range(0, count, _AT_A_TIME))


def _images(corpus: Corpus, schema: pa.Schema, pictures: str, start: int, stop: int) -> pa.Table:
    columns: list[list[Any]] = [[] for _ in schema]
    for at, image in enumerate(corpus.images[start:stop], start):
        place = corpus.place(image) or (image.path and Place(f"{pictures}/{image.path}")) or None
        values = image.image_id, place and place.path, image.split, corpus.positions[at]
        parts = ((place and place.part) or Part()) if len(schema) > len(values) else ()
        for column, value in zip(columns, (*values, *parts), strict=True):
            column.append(value)
    return _table(columns, schema)


def _captions(corpus: Corpus, schema: pa.Schema, owner: Rows, number: Rows, start: int, stop: int) -> pa.Table:
    """Return some captions of the corpus: with the place and number of each one's picture."""
    some, names = owner[start:stop], pa.array(ALL_SPLITS)
    columns = [
        corpus.images.ids_of(some),
        pa.array(number[start:stop]),
        names.take(pa.array(corpus.images.split[some])),
        corpus.captions.texts_of(start, stop),
        *([corpus.captions.languages_of(start, stop)] if len(schema) > len(CAPTIONS) else []),
    ]
    return _table(columns, schema)


def _beside(corpus: Corpus, schema: pa.Schema) -> pa.Table:
    """Return the captions of other pictures."""
    numbers: Counter[str] = Counter()
    rows: list[tuple[object, ...]] = []
    for one in corpus.beside:
        rows.append((one.image_id, numbers[one.image_id], BESIDE, one.text, one.language))
        numbers[one.image_id] += 1
    return _table([[row[at] for row in rows] for at in range(len(schema))], schema)


def report(name: str, corpus: Corpus) -> None:
    """Log the dropped records, one line with examples for each reason, and a line with what is kept.

    Reasons that lie in a name (:data:`LOST`) are warnings.
    """
    rows = Counter((row.kind, row.reason) for row in corpus.dropped)
    for (kind, reason), count in sorted(rows.items()):
        items = and_more(row.item for row in corpus.dropped if (row.kind, row.reason) == (kind, reason))
        level = logging.WARNING if reason in LOST else logging.INFO
        log.log(level, "%s: dropped %s: %s: %s", name, plural(count, kind), reason, items)
    counts = corpus.counts()
    if corpus.drawing:
        log.info("%s: %s", name, corpus.drawing)
    if empty := [split for split, count in counts.items() if count == 0]:
        log.warning("%s: no pictures in the split %s", name, ", ".join(empty))
    without = corpus.images.without_file()
    log.info(
        "%s: %d pictures (%s), %d captions%s%s",
        *(name, len(corpus.images), ", ".join(f"{count} {split}" for split, count in counts.items())),
        *(len(corpus.captions), f"; {without} pictures without a file" if without else ""),
        f", and {len(corpus.beside)} of other pictures" if corpus.beside else "",
    )
