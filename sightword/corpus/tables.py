"""Writes the four tables of a corpus: pictures, captions, dropped records, and the attributes that are drawn."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

from sightword.corpus.records import Corpus
from sightword.io.files import Pathish, write_table
from sightword.messages import and_more, plural
from sightword.places.place import PARTS, Part, Place

log = logging.getLogger(__name__)

IMAGES = pa.schema([("image_id", pa.string()), ("path", pa.string()), ("split", pa.string()), ("position", pa.int32())])
CAPTIONS = pa.schema(
    [("image_id", pa.string()), ("caption", pa.int32()), ("split", pa.string()), ("text", pa.string())]
)
DROPPED = pa.schema([(name, pa.string()) for name in ("kind", "item", "reason", "detail")])
LOST = ("no picture file", "unknown picture", "name is not UTF-8", "damaged")
"""Reasons for which a picture or a caption was dropped since a name leads nowhere, or to damage."""
DRAWN = pa.schema([(name, pa.string()) for name in ("image_id", "attribute")])
_TEXTS = ("column", "version")
PARTS_OF_FILES = pa.schema([(name, pa.string() if name in _TEXTS else pa.int64()) for name in PARTS])


def write_tables(folder: Pathish, corpus: Corpus, pictures: str) -> None:
    """Write ``images.parquet``, ``captions.parquet``, ``dropped.parquet`` and ``drawn.parquet``; captions are numbered
    from 0.

    Args:
        folder: for the tables.
        corpus: the content.
        pictures: the folder of pictures, which begins the path of each loose file. If a picture is no loose file, the
            table of pictures has the columns :data:`PARTS_OF_FILES` too.
    """
    places = corpus.places
    split = {image.image_id: image.split for image in corpus.images}
    numbers: Counter[str] = Counter()
    captions = []
    for caption in corpus.captions:
        own = caption.image_id
        captions.append({"image_id": own, "caption": numbers[own], "split": split[own], "text": caption.text})
        numbers[own] += 1
    images = []
    for image, position in zip(corpus.images, corpus.positions, strict=True):
        loose = None if image.path is None else Place(f"{pictures}/{image.path}")
        path, part = places.get(image.path or "", loose) or (None, None)
        row = {"image_id": image.image_id, "path": path, "split": image.split, "position": position}
        images.append(row | (part or Part())._asdict() if places else row)
    dropped = [asdict(row) for row in corpus.dropped]
    drawn = [dict(zip(DRAWN.names, row, strict=True)) for row in corpus.drawn]
    columns = pa.schema([*IMAGES, *PARTS_OF_FILES]) if places else IMAGES
    tables = {"images": (images, columns), "captions": (captions, CAPTIONS)}
    tables |= {"dropped": (dropped, DROPPED), "drawn": (drawn, DRAWN)}
    for name, (rows, schema) in tables.items():
        write_table(Path(folder) / f"{name}.parquet", pa.Table.from_pylist(rows, schema=schema))


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
    if empty := [split for split, count in counts.items() if count == 0]:
        log.warning("%s: no pictures in the split %s", name, ", ".join(empty))
    without = sum(image.path is None for image in corpus.images)
    log.info(
        "%s: %d pictures (%s), %d captions%s",
        *(name, len(corpus.images), ", ".join(f"{count} {split}" for split, count in counts.items())),
        *(len(corpus.captions), f"; {without} pictures without a file" if without else ""),
    )
