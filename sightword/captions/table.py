"""The table ``captions.parquet``: each caption with its picture, split, text and ids; how it is chosen and encoded."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sightword.captions.settings import CaptionsSettings
from sightword.captions.vocabulary import Normalisation, Vocabulary
from sightword.errors import CaptionsError
from sightword.io.files import Pathish, read_table, write_table
from sightword.messages import plural, quote
from sightword.settings import BESIDE, SEALED, SPLITS

WITHHELD = (SEALED, BESIDE)
"""The splits that readers withhold unless they are asked for them."""
_TODO = "Run the stage captions again (`dvc repro captions`)."
_LOOKED_AT = 1000
_COLUMNS = {"image_id": pa.string(), "caption": pa.int32(), "split": pa.string(), "text": pa.string()}
_LANGUAGE = "language"
_SCHEMA = pa.schema([*_COLUMNS.items(), ("ids", pa.list_(pa.int32()))])


@dataclass(frozen=True)
class CaptionTable:
    """Captions by column, sorted by picture and number, those without pictures last; columns have one length."""

    image_ids: list[str]
    captions: list[int]
    """The number of each caption within its picture, from 0."""
    splits: list[str]
    texts: list[str]
    """The texts as published, before normalisation."""
    ids: list[npt.NDArray[np.int32]]
    """One array for each caption, never empty; an empty list in the corpus's own table."""
    languages: list[str] = field(default_factory=list)
    """The code of each caption's language; an empty list in a corpus of one language."""

    def __len__(self) -> int:
        return len(self.image_ids)

    def split(self, name: str) -> CaptionTable:
        """Return the captions of one split, in the same order. CaptionsError: the split is unknown or empty."""
        if name not in (*SPLITS, *WITHHELD):
            raise CaptionsError(f"no split is called {name!r}", expected=", ".join((*SPLITS, *WITHHELD)))
        rows = [row for row, split in enumerate(self.splits) if split == name]
        if not rows:
            todo = "The log of the stage corpus counts them; corpus.draw_dev and corpus.draw_test draw missing ones."
            if name == SEALED:
                todo = "Hold pictures out with corpus.seal, and run the stages from corpus on."
            if name == BESIDE:
                todo = (
                    "Name files of captions without pictures in corpus.beside_files, and run the stages from corpus on."
                )
            raise CaptionsError(f"the split {name!r} has no captions", todo=todo)
        return self.rows(rows)

    def rows(self, rows: Sequence[int]) -> CaptionTable:
        """Return the captions of these rows, in the given order."""
        return CaptionTable(*([column[row] for row in rows] if column else [] for column in vars(self).values()))


def write_captions(path: Pathish, table: CaptionTable) -> None:
    """Write the five columns, and ``language`` if the table has languages."""
    schema = _SCHEMA.append(pa.field(_LANGUAGE, pa.string())) if table.languages else _SCHEMA
    columns = [*vars(table).values()][: len(schema)]
    write_table(path, pa.Table.from_pydict(dict(zip(schema.names, columns, strict=True)), schema))


def read_captions(path: Pathish, *, withheld: Collection[str] = ()) -> CaptionTable:
    """Read a table written by the stage captions, of the splits of :data:`WITHHELD` those in ``withheld``.

    CaptionsError: a column has another type, or a caption has no ids. FileFormatError: the file is missing, not
    Parquet, or lacks a column.
    """
    table = _read(path, _SCHEMA, withheld)
    ids = table.column("ids").combine_chunks()
    values = ids.flatten().to_numpy()
    offsets = ids.offsets.to_numpy() - ids.offsets[0].as_py()
    empty = np.flatnonzero(np.diff(offsets) == 0)
    if len(empty):
        image, number = table.column("image_id")[empty[0]].as_py(), table.column("caption")[empty[0]].as_py()
        raise CaptionsError(f"{len(empty)} captions have no ids, first {image}#{number}", where=path, todo=_TODO)
    return _by_column(table, [values[start:end] for start, end in itertools.pairwise(offsets)])


def read_texts(path: Pathish, *, withheld: Collection[str] = ()) -> CaptionTable:
    """Read the corpus's own ``captions.parquet``, which has no ids yet, as :func:`read_captions` does.

    CaptionsError: a column has another type, or the table is empty. FileFormatError: the file is missing, not
    Parquet, or lacks a column.
    """
    return _by_column(_read(path, pa.schema([*_COLUMNS.items()]), withheld), [])


def learned(table: CaptionTable, notes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the texts that an encoder with these notes of its parts learned from: with captions of other pictures if
    any was trained with them (``train.beside_batch``), which the table was then read with.
    """
    splits = ("train", *[BESIDE] * any(one.get("training", {}).get("beside_batch") for one in notes))
    return [text for text, split in zip(table.texts, table.splits, strict=True) if split in splits]


def sealed_pictures(path: Pathish) -> frozenset[str]:
    """Return the ids of the sealed split's pictures in a table of captions; errors are those of :func:`read_texts`."""
    table = _read(path, pa.schema([(name, _COLUMNS[name]) for name in ("image_id", "split")]), WITHHELD)
    return frozenset(table.filter(pc.equal(table.column("split"), SEALED)).column("image_id").to_pylist())


def check_vocabulary(table: CaptionTable, vocabulary: Vocabulary, *, where: object = None) -> None:
    """Refuse captions whose ids come from another vocabulary.

    All ids must be in its range, and a thousand captions, evenly spread, must encode to their stored ids.

    CaptionsError: a caption does not fit; the message names the caption and ``where``.
    """
    largest = max((int(ids.max()) for ids in table.ids), default=0)
    wrong, what, expected = None, "has ids that differ from the vocabulary's", None
    if largest >= len(vocabulary):
        wrong = next(row for row, ids in enumerate(table.ids) if ids.max() == largest)
        what, expected = f"has the id {largest}, which the vocabulary lacks", f"ids below {len(vocabulary)}"
    else:
        looked_at = range(0, len(table), max(1, len(table) // _LOOKED_AT))
        fits = (vocabulary.encode(table.texts[row]) == table.ids[row].tolist() for row in looked_at)
        wrong = next((row for row, fit in zip(looked_at, fits, strict=True) if not fit), None)
    if wrong is not None:
        caption = f"{table.image_ids[wrong]}#{table.captions[wrong]}"
        todo = f"It belongs to another vocabulary or corpus. {_TODO}"
        raise CaptionsError(f"{caption} {what}", where=where, expected=expected, todo=todo)


def _read(path: Pathish, schema: pa.Schema, withheld: Collection[str]) -> pa.Table:
    table = read_table(path, schema.names, optional=[_LANGUAGE], todo=_TODO)
    if _LANGUAGE in table.column_names:
        schema = schema.append(pa.field(_LANGUAGE, pa.string()))
    for column in schema:
        found = table.column(column.name)
        # Types with other names of the inner field of a list, as Parquet writes them, are equal for Arrow.
        if found.type != column.type:
            what = f"the column {column.name} is {found.type}"
            raise CaptionsError(what, where=path, expected=str(column.type), todo=_TODO)
        if found.null_count:
            raise CaptionsError(f"the column {column.name} has empty cells", where=path, todo=_TODO)
    if table.num_rows == 0:
        raise CaptionsError("holds no captions", where=path, todo=_TODO)
    left_out = pa.array([split for split in WITHHELD if split not in withheld], pa.string())
    return table.filter(pc.invert(pc.is_in(table.column("split"), left_out))) if len(left_out) else table


def _by_column(table: pa.Table, ids: list[npt.NDArray[np.int32]]) -> CaptionTable:
    image_ids, captions, splits, texts = (table.column(name).to_pylist() for name in _COLUMNS)
    languages = table.column(_LANGUAGE).to_pylist() if _LANGUAGE in table.column_names else []
    return CaptionTable(image_ids, captions, splits, texts, ids, languages)


SALT = "sightword training pictures 1\n"
"""The text before a picture's id; another text keeps other pictures."""


def subset(table: CaptionTable, settings: CaptionsSettings) -> CaptionTable:
    """Keep the training captions of ``train_pictures`` and ``train_captions``, in the corpus's order, and other splits.

    CaptionsError: the corpus has fewer training pictures than ``train_pictures``.
    """
    wanted, most = settings.train_pictures, settings.train_captions
    if not wanted and not most:
        return table
    captions = [*zip(table.image_ids, table.captions, table.splits, strict=True)]
    pictures: dict[str, list[tuple[str, int]]] = {}
    for name, number, split in captions:
        if split == "train":
            pictures.setdefault(name, []).append((name, number))
    if wanted > len(pictures):
        what = f"captions.train_pictures is {wanted}, and the corpus has {plural(len(pictures), 'training picture')}"
        expected = f"at most {len(pictures)}, or 0 for all"
        raise CaptionsError(what, expected=expected, todo="Set captions.train_pictures.")

    def place(caption: tuple[str, int]) -> bytes | int:
        name, number = caption
        return _hash(f"{settings.draw_seed}\n{name}\n{number}") if settings.draw == "hash" else number

    kept: set[tuple[str, int]] = set()
    salt = f"{SALT}{settings.draw_seed}\n" if settings.draw == "hash" else SALT
    for name in sorted(pictures, key=lambda name: _hash(f"{salt}{name}"))[: wanted or None]:
        kept.update(sorted(pictures[name], key=place)[: most or None])
    return table.rows(
        [row for row, (name, number, split) in enumerate(captions) if split != "train" or (name, number) in kept]
    )


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def build_vocabulary(table: CaptionTable, settings: CaptionsSettings) -> Vocabulary:
    """Build the vocabulary from the training captions alone; CaptionsError if the corpus has none."""
    normalise = Normalisation(settings.unicode, settings.case, settings.whitespace, settings.full_stop)
    train = (text for text, split in zip(table.texts, table.splits, strict=True) if split == "train")
    return Vocabulary.build(train, normalise=normalise, min_count=settings.min_count, unit=settings.unit)


def with_ids(table: CaptionTable, vocabulary: Vocabulary) -> CaptionTable:
    """Return the captions with the ids of a vocabulary; CaptionsError if one is empty after normalisation."""
    ids = [row.astype(np.int32) for row in vocabulary.rows(table.texts)]
    empty = next((row for row, own in enumerate(ids) if not len(own)), None)
    if empty is not None:
        what = f"the caption {quote(table.texts[empty])} is empty after normalisation"
        where = f"{table.image_ids[empty]}#{table.captions[empty]}"
        raise CaptionsError(what, where=where, todo="Remove it from the corpus, or normalise less.")
    return replace(table, ids=ids)
