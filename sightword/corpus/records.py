"""The records that every reader returns, and the cleaning that all formats share.

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
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sightword.corpus.listing import PICTURE_SUFFIXES, Listing
from sightword.errors import CorpusError
from sightword.io.mapping import mapping
from sightword.io.names import COARSE, Names, composed
from sightword.messages import plural, quote, warn_share
from sightword.places.place import Place

log = logging.getLogger(__name__)

SPLITS = ("train", "dev", "test")
"""The names of the publishers' splits in all tables."""
SEALED = "sealed"
"""The name of the split of held-out training pictures (:mod:`sightword.corpus.sealing`)."""

SPLIT_OF = dict.fromkeys(("train", "restval"), "train")
SPLIT_OF |= dict.fromkeys(("dev", "val", "valid", "validation"), "dev") | {"test": "test"}
"""Sightword's names of the publishers' splits."""


@dataclass(frozen=True, slots=True)
class Image:
    """One picture: its id, its file below the folder of pictures (or None), and its split (or None)."""

    image_id: str
    path: str | None
    split: str | None
    where: str = field(default="", compare=False)
    """The place of the record, for messages."""


@dataclass(frozen=True, slots=True)
class Caption:
    """One caption as published; ``key`` identifies the caption within its picture."""

    image_id: str
    key: str
    text: str
    where: str = field(default="", compare=False)
    """The place of the record, for messages."""


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

    images: list[Image]
    positions: list[int]
    """Each kept picture's rank in the publisher's order, from 0."""
    captions: list[Caption]
    dropped: list[Dropped] = field(default_factory=list)
    drawn: list[tuple[str, str]] = field(default_factory=list)
    """Of the sample only: (picture id, plain words) of each colour, shape and background in a picture, each once."""
    places: Mapping[str, Place] = field(default_factory=dict)
    """The places of pictures that are no loose files, by ``path``."""
    drawing: str = ""
    """How splits were drawn (:mod:`sightword.corpus.drawing`), in words; empty where the corpus names its splits."""

    def counts(self) -> dict[str, int]:
        """Return the number of pictures in each split, and in the sealed one if there are any."""
        found = Counter(image.split for image in self.images)
        return {split: found[split] for split in (*SPLITS, *[SEALED] * (SEALED in found))}


def split_name(name: str | None, where: str) -> str | None:
    """Return Sightword's name of a publisher's split; None for an empty name, CorpusError for an unknown one."""
    key = (name or "").strip().lower()
    if key and key not in SPLIT_OF:
        todo = "Rename the split, or leave it empty to leave the picture out."
        expected = f"one of {', '.join(SPLIT_OF)}"
        raise CorpusError(f"unknown split {quote(name)}", where=where, expected=expected, todo=todo)
    return SPLIT_OF.get(key)


def check_path(path: str, where: str) -> str:
    """Return ``path`` if it is a plain relative path, so that each file has one spelling; else raise CorpusError."""
    parts = path.split("/")
    if path.startswith("/") or ".." in parts:
        expected = "a path relative to the folder, without `..`"
        raise CorpusError(f"the path {quote(path)} leaves the folder of pictures", where=where, expected=expected)
    if not path.strip() or "" in parts or "." in parts or any(unicodedata.category(c) == "Cc" for c in path):
        expected = "a relative path such as folder/picture.jpg"
        raise CorpusError(f"{quote(path)} is not a plain file name", where=where, expected=expected)
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


def clean(
    images: Iterable[Image], captions: Iterable[Caption], listing: Listing | None, *, require_pictures: bool
) -> Corpus:
    """Match captions, in the order of their numbers, to pictures, in the corpus's own order; record everything dropped.

    ``listing`` has the existing files, and is None without a folder of pictures. ``require_pictures`` drops pictures
    without a file; otherwise their path is None. CorpusError if records contradict each other, or nothing is left.
    """
    dropped: list[Dropped] = []
    named = _distinct_images(images, dropped)
    texts = _distinct_captions(captions, named, dropped)
    files = listing.files if listing else frozenset()
    paths = _paths(named, listing)

    kept, lost = [], []
    for image_id in sorted(named):
        image, path = named[image_id], paths[image_id]
        count = len(texts.get(image_id, ()))
        with_captions = plural(count, "caption")
        if image.split is None:
            dropped.append(Dropped("picture", image_id, "in no split", with_captions))
        elif require_pictures and path is None:
            dropped.append(Dropped("picture", image_id, "no picture file", f"{image.path}; {with_captions}"))
            lost.append(str(image.path))
        elif not count:
            dropped.append(Dropped("picture", image_id, "no captions", f"split {image.split}"))
        else:
            kept.append(Image(image_id, path, image.split))

    if require_pictures:
        unnamed = {file for file in files.difference(paths.values()) if _is_picture(file)}
        matched = [path for path in paths.values() if path is not None]
        refuse_other_forms(lost, unnamed, matched, listing.folder if listing else "")
        dropped += [Dropped("picture", file, "no captions", "a file that the corpus does not name") for file in unnamed]
        dropped += [
            Dropped("picture", name, "damaged", why) for name, why in (listing.damaged if listing else {}).items()
        ]
        misnamed = filter(_is_picture, listing.misnamed if listing else ())
        todo = "rename it: no corpus can name it"
        dropped += [Dropped("picture", file, "name is not UTF-8", todo) for file in misnamed]
    if not kept:
        reasons = Counter(row.reason for row in dropped)
        summary = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common()) or "it names no picture"
        todo = f"Check that corpus.pictures ({listing.folder if listing else ''}) is the right folder, or set "
        todo += "corpus.require_pictures to false when the features come precomputed."
        what = f"no picture with captions is left ({summary})"
        if lost:
            there = quote(min(files)) if files else "nothing"
            what += f"; the corpus names {quote(lost[0])}, the folder has {there}"
        raise CorpusError(what, todo=todo if reasons["no picture file"] else None)
    kept_ids = {image.image_id for image in kept}
    place = {image_id: number for number, image_id in enumerate(name for name in named if name in kept_ids)}
    positions = [place[image.image_id] for image in kept]
    every = [caption for image in kept for caption in texts[image.image_id]]
    return Corpus(kept, positions, every, sorted(dropped), places=listing.places if listing else {})


def _is_picture(file: str) -> bool:
    return file.lower().endswith(PICTURE_SUFFIXES)


def _paths(named: Mapping[str, Image], listing: Listing | None) -> dict[str, str | None]:
    """Return the file of each picture, by its name or by the same name in another Unicode form; None without a file."""
    if listing is None:
        return dict.fromkeys(named)
    paths = {name: None if image.path is None else listing.names.match(image.path) for name, image in named.items()}
    if other := sum(path not in (None, named[name].path) for name, path in paths.items()):
        log.info("corpus: %s found by the name in another Unicode form", plural(other, "picture"))
    return paths


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


def _distinct_images(images: Iterable[Image], dropped: list[Dropped]) -> dict[str, Image]:
    every = list(images)
    todo = "Remove the picture from one of them: test pictures must not be trained on."
    mapping(((one.image_id, one.split, one.where) for one in every), "the picture", "split", CorpusError, todo=todo)
    todo = "Write the name in one Unicode form everywhere."
    mapping(
        ((composed(one.image_id), one.image_id, one.where) for one in every),
        "the picture",
        "spelling",
        CorpusError,
        todo=todo,
    )
    todo = "Give each picture a name of its own."
    mapping(((one.image_id, one.path, one.where) for one in every), "the picture", "file", CorpusError, todo=todo)
    named: dict[str, Image] = {}
    again = [image for image in every if named.setdefault(image.image_id, image) is not image]
    dropped += [
        Dropped("picture", one.image_id, "duplicate", f"named again in {one.split or 'no split'}") for one in again
    ]
    return named


def _distinct_captions(
    captions: Iterable[Caption], named: Mapping[str, Image], dropped: list[Dropped]
) -> dict[str, list[Caption]]:
    every = list(captions)
    records = (((caption.image_id, caption.key), caption.text, caption.where) for caption in every)
    mapping(records, "the caption", "text", CorpusError, todo="Give each caption of a picture a number of its own.")
    texts: dict[str, list[Caption]] = {}
    seen: set[tuple[str, str]] = set()
    for caption in every:
        item, text = f"{caption.image_id}#{caption.key}", caption.text
        if (caption.image_id, caption.key) in seen:
            dropped.append(Dropped("caption", item, "duplicate", text))
        elif caption.image_id not in named:
            dropped.append(Dropped("caption", item, "unknown picture", text))
        elif not text.strip():
            dropped.append(Dropped("caption", item, "empty caption", repr(text)))
        else:
            texts.setdefault(caption.image_id, []).append(caption)
        seen.add((caption.image_id, caption.key))
    return texts
