"""The cleaning that all formats share.

Readers only read. The cleaning decides in one place what is kept, so that all formats follow the same rules:

* a name that no split lists is dropped (``in no split``);
* a name and its file may be in two Unicode forms;
* with ``require_pictures``, a name without a file is dropped (``no picture file``), but is an error if a file that the
  corpus does not name has a name that differs in form only (in folder or ending: unless most missing names have no such
  file, or most found pictures have one as well, as with a folder of thumbnails);
* a caption of a picture that the corpus does not list is dropped (``unknown picture``);
* a caption of only white space is dropped (``empty caption``);
* a repeated record is kept once (``duplicate``);
* a picture without remaining captions is dropped (``no captions``), and so is, with ``require_pictures``, a file that
  the corpus does not name, or whose name is not UTF-8 (``name is not UTF-8``), or that its tar does not give
  (``damaged``).

Equal captions of one picture stay if they are separate records.
"""

from __future__ import annotations

import logging
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from sightword.corpus.arrays import Rows
from sightword.corpus.compact import Captions, Pictures
from sightword.corpus.listing import PICTURE_SUFFIXES, Listing
from sightword.corpus.records import Caption, Corpus, Dropped, Image
from sightword.errors import CorpusError
from sightword.io.mapping import mapping
from sightword.io.names import COARSE, Names, composed
from sightword.messages import plural, quote, warn_share

log = logging.getLogger(__name__)

_MIXED = np.uint64(0x9E3779B97F4A7C15)
"""An odd number, by which numbers of pictures are spread over 64 bits."""


def clean(
    images: Iterable[Image], captions: Iterable[Caption], listing: Listing | None, *, require_pictures: bool
) -> Corpus:
    """Match captions, in the order of their numbers, to pictures, in the corpus's own order; record everything dropped.

    ``listing`` has the existing files, and is None without a folder of pictures. ``require_pictures`` drops pictures
    without a file; otherwise their path is None. CorpusError if records contradict each other, or nothing is left.
    """
    dropped: list[Dropped] = []
    pictures = Pictures.of(images)
    spoken = Captions.of(captions, pictures)
    code, first = pictures.groups
    _distinct_pictures(pictures, dropped)
    owner = _owners(spoken, code)
    _distinct_captions(spoken, owner, dropped)
    counts = np.bincount(owner[owner >= 0], minlength=len(first))
    found = _found(pictures, listing)

    splits = pictures.split[first]
    missing = (splits >= 0) & ~found.has if require_pictures else np.zeros(len(first), bool)
    kept = (splits >= 0) & ~missing & (counts > 0)
    lost = []
    for number in np.flatnonzero(~kept):
        image, with_captions = pictures[first[number]], plural(int(counts[number]), "caption")
        if image.split is None:
            dropped.append(Dropped("picture", image.image_id, "in no split", with_captions))
        elif missing[number]:
            dropped.append(Dropped("picture", image.image_id, "no picture file", f"{image.path}; {with_captions}"))
            lost.append(str(image.path))
        else:
            dropped.append(Dropped("picture", image.image_id, "no captions", f"split {image.split}"))
    if require_pictures and listing:
        dropped += _unnamed(listing, found.files, lost)
    if not kept.any():
        raise _nothing(dropped, lost, listing)

    place = np.flatnonzero(kept)
    order = np.argsort(first[place])
    positions = np.empty(len(order), np.int32)
    positions[order] = np.arange(len(order), dtype=np.int32)
    owner[owner >= 0] = np.where(kept, np.cumsum(kept) - 1, -1)[owner[owner >= 0]]
    rows = np.flatnonzero(owner >= 0)
    every = spoken.select(rows[np.argsort(owner[rows], kind="stable")])
    images = pictures.select(found.row[place], splits[place], found.other)
    return Corpus(
        images, array("i", positions.tobytes()), every, sorted(dropped), places=listing.places if listing else {}
    )


def _is_picture(file: str) -> bool:
    return file.lower().endswith(PICTURE_SUFFIXES)


class _Found(NamedTuple):
    """The files of the pictures of each id."""

    has: npt.NDArray[np.bool_]
    """Whether there is a file."""
    row: Rows
    """The row that tells the picture's place."""
    other: dict[int, str | None] | None
    """The file of each such row, if its name is not that of the record; None without a file, of one row or all."""
    files: set[str]
    """All files, for pictures that have no places of their own."""


def _found(pictures: Pictures, listing: Listing | None) -> _Found:
    """Return the file of each picture, by its name or by the same name in another Unicode form."""
    code, first = pictures.groups
    row = first.copy()
    if pictures.placed:
        placed = np.flatnonzero(pictures.has_place(np.arange(len(code))))
        numbers, at = np.unique(code[placed], return_index=True)
        row[numbers] = placed[at]
        has = pictures.has_place(row)
        return _Found(has, row, dict.fromkeys(row[~has].tolist()), set())
    other: dict[int, str | None] = {}
    files: set[str] = set()
    has = np.zeros(len(first), bool)
    if listing is None:
        return _Found(has, row, None, files)
    for number, one in enumerate(first.tolist()):
        path = pictures.path(one)
        file = None if path is None else listing.names.match(path)
        has[number] = file is not None
        if file is not None:
            files.add(file)
        if file != path:
            other[one] = file
    if count := sum(file is not None for file in other.values()):
        log.info("corpus: %s found by the name in another Unicode form", plural(count, "picture"))
    return _Found(has, row, other, files)


def _unnamed(listing: Listing, used: Collection[str], lost: Sequence[str]) -> list[Dropped]:
    """Return the files that are no pictures of the corpus; CorpusError as of :func:`refuse_other_forms`."""
    unnamed = {file for file in listing.files.difference(used) if _is_picture(file)}
    refuse_other_forms(lost, unnamed, used, listing.folder)
    dropped = [Dropped("picture", file, "no captions", "a file that the corpus does not name") for file in unnamed]
    dropped += [Dropped("picture", name, "damaged", why) for name, why in listing.damaged.items()]
    todo = "rename it: no corpus can name it"
    misnamed = filter(_is_picture, listing.misnamed)
    return dropped + [Dropped("picture", file, "name is not UTF-8", todo) for file in misnamed]


def _nothing(dropped: list[Dropped], lost: list[str], listing: Listing | None) -> CorpusError:
    reasons = Counter(row.reason for row in dropped)
    summary = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common()) or "it names no picture"
    todo = f"Check that corpus.pictures ({listing.folder if listing else ''}) is the right folder, or set "
    todo += "corpus.require_pictures to false when the features come precomputed."
    what = f"no picture with captions is left ({summary})"
    if lost:
        there = quote(min(listing.files)) if listing and listing.files else "nothing"
        what += f"; the corpus names {quote(lost[0])}, the folder has {there}"
    return CorpusError(what, todo=todo if reasons["no picture file"] else None)


def refuse_other_forms(missing: Sequence[str], others: Iterable[str], matched: Collection[str], where: object) -> None:
    """Raise CorpusError if missing names differ from other names, which nothing uses, in form only.

    A difference in folder or ending is a warning instead if it explains not even most of the missing names, or if most
    of the ``matched`` names have such another name too: the others are then copies.
    """
    names = Names(others)
    count, remark = names.remark(missing) if missing else (0, "")
    total, first = count, remark
    if count and matched and (2 * count <= len(missing) or 2 * names.remark(matched)[0] > len(matched)):
        count, remark = names.remark(missing, without=COARSE)
    if count:
        what = f"{plural(count, 'name')} of the corpus cannot be found, since another spelling is there: {remark}"
        todo = "Correct the names in the corpus, rename what is there, or take the pictures out of the corpus."
        raise CorpusError(what, where=where, todo=todo)
    warn_share(
        log, "corpus: of %d of %d missing names a similar one is there, the first: %s", total, len(missing), first
    )


def _distinct_pictures(pictures: Pictures, dropped: list[Dropped]) -> None:
    """Record repeated pictures; CorpusError if an id has two splits, two files, or two spellings."""
    code, first = pictures.groups
    again = np.flatnonzero(first[code] != np.arange(len(code)))
    other_split = again[pictures.split[again] != pictures.split[first[code[again]]]]
    other_file = (
        []
        if pictures.rows_of_table
        else [row for row in again.tolist() if pictures.path(row) != pictures.path(int(first[code[row]]))]
    )
    for rows, value, todo in (
        (other_split.tolist(), "split", "Remove the picture from one of them: test pictures must not be trained on."),
        (_spelled_twice(pictures), "spelling", "Write the name in one Unicode form everywhere."),
        (other_file, "file", "Give each picture a name of its own."),
    ):
        some = [pictures[row] for row in sorted({*rows, *first[code[rows]].tolist()})] if rows else []
        if value == "spelling":
            records = [(composed(one.image_id), one.image_id, one.where) for one in some]
        else:
            records = [(one.image_id, one.split if value == "split" else one.path, one.where) for one in some]
        mapping(records, "the picture", value, CorpusError, todo=todo)
    if not pictures.rows_of_table:
        for row in again.tolist():
            one = pictures[row]
            dropped.append(Dropped("picture", one.image_id, "duplicate", f"named again in {one.split or 'no split'}"))


def _spelled_twice(pictures: Pictures) -> list[int]:
    """Return the first rows of ids that may differ in the Unicode form only."""
    decomposed: set[str] = set()
    for chunk in pictures.ids.chunks():
        others = chunk.filter(pc.invert(pc.string_is_ascii(chunk))).to_pylist()
        decomposed |= {composed(one) for one in others if composed(one) != one}
    if not decomposed:
        return []
    return [row for row in pictures.groups.first.tolist() if composed(str(pictures.ids[row])) in decomposed]


def _owners(captions: Captions, code: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return the number of the picture's id for each caption; -1 for an unknown picture."""
    picture: npt.NDArray[np.int32] = captions.picture.array()
    if not len(code):
        return np.full(len(picture), -1, np.int32)
    return np.where(picture < 0, np.int32(-1), code[np.maximum(picture, 0)])


def _distinct_captions(captions: Captions, owner: npt.NDArray[np.int32], dropped: list[Dropped]) -> None:
    """Take repeated and empty captions, and those of unknown pictures, out of ``owner``.

    CorpusError if a caption has two texts.
    """
    who = owner.astype(np.int64)
    strangers = np.flatnonzero(owner < 0)
    who[strangers] = [hash(captions[row].image_id) for row in strangers.tolist()]
    mixed = who.view(np.uint64) * _MIXED ^ captions.hashes.array().view(np.uint64)
    order = np.argsort(mixed, kind="stable")
    alike = np.flatnonzero(mixed[order][1:] == mixed[order][:-1])
    repeated = np.unique(np.concatenate([order[alike], order[alike + 1]])).tolist()
    some = {row: captions[row] for row in repeated}
    records = (((one.image_id, one.key), one.text, one.where) for one in some.values())
    mapping(records, "the caption", "text", CorpusError, todo="Give each caption of a picture a number of its own.")
    seen: set[tuple[str, str]] = set()
    blank = {*captions.blank}
    for row in np.unique(np.concatenate([repeated, strangers, captions.blank]).astype(np.int64)).tolist():
        one = some.get(row) or captions[row]
        item, text = f"{one.image_id}#{one.key}", one.text
        if (one.image_id, one.key) in seen:
            dropped.append(Dropped("caption", item, "duplicate", text))
        elif owner[row] < 0:
            dropped.append(Dropped("caption", item, "unknown picture", text))
        elif row in blank:
            dropped.append(Dropped("caption", item, "empty caption", repr(text)))
        else:
            seen.add((one.image_id, one.key))
            continue
        seen.add((one.image_id, one.key))
        owner[row] = -1
