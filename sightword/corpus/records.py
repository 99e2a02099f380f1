"""The records that every reader returns, the corpus that is made of them, and its four tables."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from sightword.errors import CorpusError
from sightword.io.files import Pathish, write_table
from sightword.io.opening import is_inside
from sightword.messages import and_more, plural, quote
from sightword.places.place import PARTS, Part, Place
from sightword.settings import BESIDE, SEALED, SPLITS

log = logging.getLogger(__name__)

SPLIT_OF = dict.fromkeys(("train", "restval"), "train")
SPLIT_OF |= dict.fromkeys(("dev", "val", "valid", "validation"), "dev") | {"test": "test"}
"""Sightword's names of the publishers' splits."""
_WORD = re.compile(r"[A-Za-z]+")

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


@dataclass(frozen=True, slots=True)
class Image:
    """One picture: its id, its file below the folder of pictures (or None), and its split (or None)."""

    image_id: str
    path: str | None
    split: str | None
    where: str = field(default="", compare=False)
    """The place of the record, for messages."""
    place: Place | None = field(default=None, compare=False)
    """The place of the picture, if the record itself tells it."""
    digest: bytes = field(default=b"", compare=False)
    """The sha256 of the picture's bytes, if they were read."""
    fault: str = field(default="", compare=False)
    """Why the picture cannot be used; empty for a picture that can."""


@dataclass(frozen=True, slots=True)
class Caption:
    """One caption as published; ``key`` identifies the caption within its picture."""

    image_id: str
    key: str
    text: str
    where: str = field(default="", compare=False)
    """The place of the record, for messages."""
    language: str = ""
    """The code of the caption's language; empty in a corpus of one language."""


@dataclass(frozen=True, slots=True, order=True)
class Dropped:
    """A record that is not in the tables, and the reason."""

    kind: str
    """``picture`` (with all its captions) or ``caption``."""
    item: str
    reason: str
    detail: str


@dataclass(frozen=True)
class Corpus:
    """The content of the tables: pictures sorted by id, captions by picture and then in published order."""

    images: Sequence[Image]
    positions: Sequence[int]
    """Each kept picture's rank in the publisher's order, from 0."""
    captions: Sequence[Caption]
    dropped: list[Dropped] = field(default_factory=list)
    drawn: list[tuple[str, str]] = field(default_factory=list)
    """Of the sample only: (picture id, plain words) of each colour, shape and background in a picture, each once."""
    places: Mapping[str, Place] = field(default_factory=dict)
    """The places of pictures that are no loose files and have no place of their own, by ``path``."""
    drawing: str = ""
    """How splits were drawn, in words; empty where the corpus names its splits."""

    beside: list[Caption] = field(default_factory=list)
    """Captions of pictures that are not in the corpus (:func:`sightword.corpus.reading.with_beside`), by picture."""

    def counts(self) -> dict[str, int]:
        """Return the number of pictures in each split, and in the sealed one if there are any."""
        counts = Counter(image.split for image in self.images)
        return {split: counts[split] for split in (*SPLITS, SEALED) if counts[split] or split != SEALED}

    def with_splits(self, splits: Mapping[str, str]) -> Corpus:
        """Return the corpus with other splits of some pictures, by id."""
        images = [
            replace(image, split=splits[image.image_id]) if image.image_id in splits else image for image in self.images
        ]
        return replace(self, images=images)

    def place(self, image: Image) -> Place | None:
        """Return the place of a picture that is no loose file."""
        return image.place or self.places.get(image.path or "")


def split_name(name: str | None, where: str) -> str | None:
    """Return Sightword's name of a publisher's split; None for an empty name, CorpusError for an unknown one."""
    key = (name or "").strip().lower()
    if key and key not in SPLIT_OF:
        todo = "Rename the split, or leave it empty to leave the picture out."
        expected = f"one of {', '.join(SPLIT_OF)}"
        raise CorpusError(f"unknown split {quote(name)}", where=where, expected=expected, todo=todo)
    return SPLIT_OF.get(key)


def split_of(path: str) -> str | None:
    """Return the split that the last telling part of a path names, such as ``data/train-00000-of-00005.parquet`` or
    ``val/0.parquet``; None if no part names a split, or the part names two.
    """
    for part in reversed(Path(path).parts):
        if splits := {SPLIT_OF[word] for word in map(str.lower, _WORD.findall(part)) if word in SPLIT_OF}:
            return splits.pop() if len(splits) == 1 else None
    return None


def check_path(path: str, where: str) -> str:
    """Return ``path`` if it is a plain relative path, so that each file has one spelling; else raise CorpusError."""
    if not path.strip() or not is_inside(path):
        kind = "an absolute path" if path.startswith("/") else "no plain path inside the folder of pictures"
        expected = "a relative path such as folder/picture.jpg, without `..`"
        raise CorpusError(f"{kind}: {quote(path)}", where=where, expected=expected)
    return path


def with_names(
    images: Iterable[Image], captions: Iterable[Caption], name_of: Mapping[str, str]
) -> tuple[list[Image], list[Caption]]:
    """Return records whose ids are paths with the publisher's names as ids.

    Pictures of one name in several folders, such as ``train/1.jpg`` and ``val/1.jpg``, keep their paths.
    """
    shared = Counter(name_of.values())
    ids = {path: path if shared[name] > 1 else name for path, name in name_of.items()}
    return (
        [replace(image, image_id=ids[image.image_id]) for image in images],
        [replace(caption, image_id=ids.get(caption.image_id, caption.image_id)) for caption in captions],
    )


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
