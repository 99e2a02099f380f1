"""Writes the four tables of a corpus: pictures, captions, dropped records, and the attributes that are drawn."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from sightword.corpus.records import Caption, Corpus
from sightword.io.files import Pathish, write_table
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
    folder = Path(folder)
    columns, texts = IMAGES, CAPTIONS
    places = [
        corpus.place(image) or (Place(f"{pictures}/{image.path}") if image.path else None) for image in corpus.images
    ]
    cells: list[Iterable[object]] = [
        (image.image_id for image in corpus.images),
        (place and place.path for place in places),
        (image.split for image in corpus.images),
        corpus.positions,
    ]
    if corpus.places or any(image.place for image in corpus.images):
        columns = pa.schema([*IMAGES, *PARTS_OF_FILES])
        cells += zip(*((place and place.part) or Part() for place in places), strict=True)
    if corpus.drawing:
        columns = columns.with_metadata({DRAWING: corpus.drawing})
    _write(folder / "images.parquet", columns, cells)
    every, split = [*corpus.captions, *corpus.beside], {image.image_id: image.split for image in corpus.images}
    splits = [split[one.image_id] for one in corpus.captions] + [BESIDE] * len(corpus.beside)
    cells = [(one.image_id for one in every), _numbers(every), splits, (one.text for one in every)]
    if any(one.language for one in corpus.captions):
        texts = CAPTIONS.append(pa.field("language", pa.string()))
        cells.append(one.language for one in every)
    _write(folder / "captions.parquet", texts, cells)
    rows = corpus.dropped
    _write(folder / "dropped.parquet", DROPPED, [[getattr(row, name) for row in rows] for name in DROPPED.names])
    _write(folder / "drawn.parquet", DRAWN, [[row[at] for row in corpus.drawn] for at in range(2)])


def _numbers(captions: Iterable[Caption]) -> Iterator[int]:
    """Yield the number of each caption within its picture, from 0."""
    numbers: Counter[str] = Counter()
    for caption in captions:
        yield numbers[caption.image_id]
        numbers[caption.image_id] += 1


def _write(path: Path, schema: pa.Schema, columns: Iterable[Iterable[object]]) -> None:
    arrays = [pa.array(values, kind) for values, kind in zip(columns, schema.types, strict=True)]
    write_table(path, pa.Table.from_arrays(arrays, schema=schema))


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
    without = sum(image.path is None for image in corpus.images)
    log.info(
        "%s: %d pictures (%s), %d captions%s%s",
        *(name, len(corpus.images), ", ".join(f"{count} {split}" for split, count in counts.items())),
        *(len(corpus.captions), f"; {without} pictures without a file" if without else ""),
        f", and {len(corpus.beside)} of other pictures" if corpus.beside else "",
    )
