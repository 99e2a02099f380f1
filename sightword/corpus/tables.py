"""Writes the four tables of a corpus: pictures, captions, dropped records, and the attributes that are drawn."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from sightword.corpus.records import BESIDE, Corpus, Image
from sightword.io.files import Pathish, write_table
from sightword.messages import and_more, plural
from sightword.places.place import PARTS, Part, Place

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
    split = {image.image_id: image.split for image in corpus.images}
    numbers: Counter[str] = Counter()
    counted, written = [], [*corpus.captions, *corpus.beside]
    for caption in written:
        counted.append(numbers[caption.image_id])
        numbers[caption.image_id] += 1
    own = [caption.image_id for caption in written]
    captions: list[Sequence[object]] = [
        own,
        counted,
        [split[caption.image_id] for caption in corpus.captions] + [BESIDE] * len(corpus.beside),
        [caption.text for caption in written],
    ]
    texts = CAPTIONS
    if any(caption.language for caption in corpus.captions):
        captions.append([caption.language for caption in written])
        texts = CAPTIONS.append(pa.field("language", pa.string()))
    found = [_place(image, corpus, pictures) for image in corpus.images]
    ids, splits = [image.image_id for image in corpus.images], [image.split for image in corpus.images]
    # By columns: a million rows as mappings would take a gigabyte.
    images: list[Sequence[object]] = [ids, [place and place.path for place in found], splits, corpus.positions]
    columns = IMAGES
    if corpus.places:
        parts = [(place and place.part) or Part() for place in found]
        images += map(list, zip(*parts, strict=True))
        columns = pa.schema([*IMAGES, *PARTS_OF_FILES])
    if corpus.drawing:
        columns = columns.with_metadata({DRAWING: corpus.drawing})
    tables: dict[str, tuple[Sequence[Sequence[object]], pa.Schema]] = {
        "images": (images, columns),
        "captions": (captions, texts),
        "dropped": ([[getattr(row, name) for row in corpus.dropped] for name in DROPPED.names], DROPPED),
        "drawn": ([[row[place] for row in corpus.drawn] for place in range(len(DRAWN))], DRAWN),
    }
    for name, (values, schema) in tables.items():
        arrays = [pa.array(column, kind) for column, kind in zip(values, schema.types, strict=True)]
        write_table(Path(folder) / f"{name}.parquet", pa.Table.from_arrays(arrays, schema=schema))


def _place(image: Image, corpus: Corpus, pictures: str) -> Place | None:
    if image.path is None:
        return None
    return corpus.places.get(image.path) or Place(f"{pictures}/{image.path}")


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
