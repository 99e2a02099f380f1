"""Pictures and captions by column: ten million rows as Python objects would take 15 GB."""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple, Self, TypeVar, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sightword.corpus.arrays import Numbers, Rows, Texts, Wheres
from sightword.corpus.records import ALL_SPLITS, Caption, Image
from sightword.places.place import Part, Place

Record = TypeVar("Record")

DIGEST = 16
"""The bytes of a picture's hash that are kept."""
_AT_A_TIME = 1 << 20


class _Records(Sequence[Record]):
    """Records that are equal to any sequence of the same ones."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(operator.eq, self, other))


class Groups(NamedTuple):
    """The different ids among pictures, in the order of the ids."""

    code: npt.NDArray[np.int32]
    """The number of each row's id."""
    first: Rows
    """The first row of each id."""


class Pictures(_Records[Image]):
    """Pictures, of which :meth:`select` takes some."""

    def __init__(self, *, placed: bool = False, hashed: bool = False, rows_of_table: bool = False) -> None:
        """Make a list without pictures.

        Args:
            placed: the pictures have places of their own; a picture without one has no file.
            hashed: the pictures have hashes of their bytes.
            rows_of_table: a repeated record, such as for each caption, is the same picture.
        """
        self.placed, self.hashed, self.rows_of_table = placed, hashed, rows_of_table
        self.ids, self.paths, self.wheres = Texts(), Texts(), Wheres()
        self.rows: Rows | None = None
        self._published, self._splits = Numbers(np.int8), np.zeros(0, np.int8)
        self._sources: list[tuple[str, str | None, str | None]] = []
        self._source, self._start, self._length = Numbers(np.int32), Numbers(np.int64), Numbers(np.int64)
        self._digests = bytearray()
        self._files: dict[int, str | None] | None = {}

    @classmethod
    def of(cls, images: Iterable[Image]) -> Pictures:
        """Return pictures by column."""
        if isinstance(images, Pictures):
            return images
        made = cls()
        for image in images:
            made.add(image)
        return made

    def add(self, image: Image, digest: bytes | None = None) -> None:
        """Add a picture."""
        self.ids.append(image.image_id)
        self.paths.append("" if image.path == image.image_id else image.path)
        self.wheres.append(image.where)
        self._published.append(-1 if image.split is None else ALL_SPLITS.index(image.split))
        if self.placed:
            path, part = image.place or ("", None)
            source = path, part and part.column, part and part.version
            if image.place and source not in self._sources[-1:]:
                self._sources.append(source)
            self._source.append(len(self._sources) - 1 if image.place else -1)
            start = part and (part.offset if part.row is None else part.row)
            self._start.append(-1 if start is None else start)
            self._length.append(-1 if part is None or part.length is None else part.length)
        if self.hashed:
            self._digests += digest[:DIGEST] if digest else bytes(DIGEST)

    def __len__(self) -> int:
        return len(self.ids) if self.rows is None else len(self.rows)

    @overload
    def __getitem__(self, place: int) -> Image: ...
    @overload
    def __getitem__(self, place: slice) -> list[Image]: ...
    def __getitem__(self, place: int | slice) -> Image | list[Image]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        place = range(len(self))[place]
        row = place if self.rows is None else int(self.rows[place])
        split = self._published[row] if self.rows is None else int(self._splits[place])
        image_id = str(self.ids[row])
        return Image(image_id, self.path(row), None if split < 0 else ALL_SPLITS[split],
                     self.wheres[row], self._place(row))  # fmt: skip

    def select(self, rows: Rows, splits: npt.NDArray[np.int8], files: dict[int, str | None] | None) -> Pictures:
        """Return the pictures of some rows, in these splits.

        ``files`` has other paths of some rows; None: no picture has a file.
        """
        made = copy.copy(self)
        made.rows, made._splits, made._files = rows, splits, files
        return made

    def with_splits(self, splits: npt.NDArray[np.int8]) -> Pictures:
        """Return the same pictures in other splits."""
        made = copy.copy(self)
        made.rows, made._splits = np.arange(len(self)) if self.rows is None else self.rows, splits
        return made

    @property
    def split(self) -> npt.NDArray[np.int8]:
        """The split of each picture, a number in :data:`ALL_SPLITS`; -1: in none."""
        return self._published.array() if self.rows is None else self._splits.copy()

    def image_id(self, place: int) -> str:
        """Return the id of a picture."""
        return str(self.ids[place if self.rows is None else int(self.rows[place])])

    def ids_of(self, places: Rows) -> pa.Array:
        """Return the ids of some pictures."""
        return self.ids.take(places if self.rows is None else self.rows[places])

    def without_file(self) -> int:
        """Return the number of pictures without a file."""
        if self._files is None:
            return len(self)
        if self.placed:
            return 0 if self.rows is None else int((~self.has_place(self.rows)).sum())
        return sum(one.path is None for one in self)

    def has_place(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Return whether the pictures of some rows have places of their own."""
        found: npt.NDArray[np.bool_] = self._source.array()[rows] >= 0
        return found

    def digests(self) -> npt.NDArray[np.uint64]:
        """Return the hashes, shape (pictures, 2); zeros where there are no bytes."""
        every = np.frombuffer(bytes(self._digests), np.uint64).reshape(-1, 2)
        return every if self.rows is None else every[self.rows]

    @cached_property
    def groups(self) -> Groups:
        """Return which rows have one id."""
        order = np.asarray(pc.sort_indices(pa.chunked_array(self.ids.chunks())), np.int64)
        new = np.ones(len(order), bool)
        for start in range(1, len(order), _AT_A_TIME):
            ids = self.ids.take(order[start - 1 : start + _AT_A_TIME])
            new[start : start + _AT_A_TIME] = pc.not_equal(ids[1:], ids[:-1])
        code = np.empty(len(order), np.int32)
        code[order] = np.cumsum(new, dtype=np.int32) - 1
        return Groups(code, order[new])

    def path(self, row: int) -> str | None:
        """Return the path of the picture in a row of the columns."""
        if self._files is None or row in self._files:
            return None if self._files is None else self._files[row]
        path = self.paths[row]
        return str(self.ids[row]) if path == "" else path

    def _place(self, row: int) -> Place | None:
        if not self.placed or self._source[row] < 0:
            return None
        path, column, version = self._sources[self._source[row]]
        start, length = self._start[row], self._length[row]
        return Place(path, Part(row=start, column=column) if length < 0 else Part(start, length, version=version))


class Captions(_Records[Caption]):
    """Captions of pictures, of which :meth:`select` takes some."""

    def __init__(self, pictures: Pictures) -> None:
        """Make a list without captions of some pictures."""
        self.pictures = pictures
        self.strangers: list[str] = []
        """Ids that are no pictures'."""
        self.texts, self._keys, self._wheres = Texts(), Texts(), Wheres()
        self.picture, self.hashes = Numbers(np.int32), Numbers(np.int64)
        """The row of each caption's picture, or -1 less the number of a stranger; and the hash of each key."""
        self.blank: list[int] = []
        """The captions of only white space."""
        self.languages: list[str] = []
        self._language = Numbers(np.int32)
        self.rows: Rows | None = None

    @classmethod
    def of(cls, captions: Iterable[Caption], pictures: Pictures) -> Captions:
        """Return captions by column."""
        if isinstance(captions, Captions):
            return captions
        made = cls(pictures)
        row_of = {str(pictures.ids[row]): row for row in reversed(range(len(pictures.ids)))}
        for caption in captions:
            picture = row_of.get(caption.image_id)
            if picture is None:
                made.strangers.append(caption.image_id)
                picture = -len(made.strangers)
            made.add(picture, caption.key, caption.text, caption.where, caption.language)
        return made

    def add(self, picture: int, key: str, text: str, where: str, language: str) -> None:
        """Add a caption of the picture in a row."""
        if not text.strip():
            self.blank.append(len(self.picture))
        self.picture.append(picture)
        self.texts.append(text)
        self._keys.append(None if key == text else key)
        self.hashes.append(hash(key))
        self._wheres.append(where)
        if language not in self.languages:
            self.languages.append(language)
        self._language.append(self.languages.index(language))

    def __len__(self) -> int:
        return len(self.picture) if self.rows is None else len(self.rows)

    @overload
    def __getitem__(self, place: int) -> Caption: ...
    @overload
    def __getitem__(self, place: slice) -> list[Caption]: ...
    def __getitem__(self, place: int | slice) -> Caption | list[Caption]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        place = range(len(self))[place]
        row = place if self.rows is None else int(self.rows[place])
        picture, text, key = self.picture[row], str(self.texts[row]), self._keys[row]
        image_id = self.strangers[-1 - picture] if picture < 0 else str(self.pictures.ids[picture])
        language = self.languages[self._language[row]]
        return Caption(image_id, text if key is None else key, text, self._wheres[row], language)

    def select(self, rows: Rows) -> Self:
        """Return the captions of some rows."""
        made = copy.copy(self)
        made.rows = rows
        return made

    def owners(self, pictures: Pictures) -> Rows:
        """Return the place of each caption's picture among some pictures."""
        code, first = self.pictures.groups
        place = np.zeros(len(first), np.int64)
        place[code if pictures.rows is None else code[pictures.rows]] = np.arange(len(pictures))
        found: Rows = place[code[self.picture.array()[self._rows()]]]
        return found

    def texts_of(self, start: int, stop: int) -> pa.Array:
        """Return the texts of some captions."""
        return self.texts.take(self._rows()[start:stop])

    def languages_of(self, start: int, stop: int) -> list[str]:
        """Return the languages of some captions."""
        return [self.languages[self._language[row]] for row in self._rows()[start:stop].tolist()]

    def _rows(self) -> Rows:
        return np.arange(len(self.picture)) if self.rows is None else self.rows
