"""The records that every reader returns, and the cleaning that all formats share.

Readers only read. The cleaning decides in one place what is kept, so that all formats follow the same rules:

* a name that no split lists is dropped (``in no split``);
* with ``require_pictures``, a name without a file is dropped (``no picture file``);
* a caption of a picture that the corpus does not list is dropped (``unknown picture``);
* a caption of only white space is dropped (``empty caption``);
* a repeated record is kept once (``duplicate``);
* a picture without remaining captions is dropped (``no captions``), and so is, with ``require_pictures``, a file that
  the corpus does not name, or whose name is not UTF-8 (``name is not UTF-8``).

Equal captions of one picture stay if they are separate records.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from sightword.corpus.listing import PICTURE_SUFFIXES, Listing
from sightword.errors import CorpusError
from sightword.messages import plural

SPLITS = ("train", "dev", "test")
"""The names of the splits in all tables."""

_SPLIT_OF = {"train": "train", "restval": "train", "dev": "dev", "val": "dev", "validation": "dev", "test": "test"}


@dataclass(frozen=True, slots=True)
class Image:
    """One picture: its id, its file below the folder of pictures (or None), and its split (or None)."""

    image_id: str
    path: str | None
    split: str | None


@dataclass(frozen=True, slots=True)
class Caption:
    """One caption as published; ``key`` identifies the caption within its picture."""

    image_id: str
    key: str
    text: str


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

    def counts(self) -> dict[str, int]:
        """Return the number of pictures in each split."""
        found = Counter(image.split for image in self.images)
        return {split: found[split] for split in SPLITS}


def split_name(name: str | None, where: str) -> str | None:
    """Return Sightword's name of a publisher's split; None for an empty name, CorpusError for an unknown one."""
    key = (name or "").strip().lower()
    if key and key not in _SPLIT_OF:
        todo = "Rename the split, or leave it empty to leave the picture out."
        expected = f"one of {', '.join(_SPLIT_OF)}"
        raise CorpusError(f"unknown split {name!r}", where=where, expected=expected, todo=todo)
    return _SPLIT_OF.get(key)


def check_path(path: str, where: str) -> str:
    """Return ``path`` if it is a plain relative path, so that each file has one spelling; else raise CorpusError."""
    parts = path.split("/")
    if path.startswith("/") or ".." in parts:
        expected = "a path relative to the folder, without `..`"
        raise CorpusError(f"the path {path!r} leaves the folder of pictures", where=where, expected=expected)
    if not path.strip() or "" in parts or "." in parts or any(unicodedata.category(c) == "Cc" for c in path):
        expected = "a relative path such as folder/picture.jpg"
        raise CorpusError(f"{path!r} is not a plain file name", where=where, expected=expected)
    return path


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
    files, misnamed = (listing.files, listing.misnamed) if listing else (frozenset(), frozenset())

    kept = []
    for image_id in sorted(named):
        image = named[image_id]
        count = len(texts.get(image_id, ()))
        with_captions = plural(count, "caption")
        if image.split is None:
            dropped.append(Dropped("picture", image_id, "in no split", with_captions))
        elif require_pictures and image.path not in files:
            dropped.append(Dropped("picture", image_id, "no picture file", f"{image.path}; {with_captions}"))
        elif not count:
            dropped.append(Dropped("picture", image_id, "no captions", f"split {image.split}"))
        else:
            kept.append(Image(image_id, image.path if image.path in files else None, image.split))

    if require_pictures:
        unnamed = files - {image.path for image in named.values()}
        strangers = [(file, "no captions", "a file that the corpus does not name") for file in unnamed]
        strangers += [(file, "name is not UTF-8", "rename it: no corpus can name it") for file in misnamed]
        dropped += [Dropped("picture", *row) for row in strangers if row[0].lower().endswith(PICTURE_SUFFIXES)]
    if not kept:
        reasons = Counter(row.reason for row in dropped)
        summary = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common()) or "it names no picture"
        todo = f"Check that corpus.pictures ({listing.folder if listing else ''}) is the right folder, or set "
        todo += "corpus.require_pictures to false when the features come precomputed."
        what = f"no picture with captions is left ({summary})"
        raise CorpusError(what, todo=todo if reasons["no picture file"] else None)
    kept_ids = {image.image_id for image in kept}
    place = {image_id: number for number, image_id in enumerate(name for name in named if name in kept_ids)}
    positions = [place[image.image_id] for image in kept]
    return Corpus(kept, positions, [caption for image in kept for caption in texts[image.image_id]], sorted(dropped))


def _distinct_images(images: Iterable[Image], dropped: list[Dropped]) -> dict[str, Image]:
    named: dict[str, Image] = {}
    for image in images:
        name = image.image_id
        if name not in named:
            named[name] = image
            continue
        earlier = named[name]
        if earlier.split != image.split:
            what = f"picture {name!r} is in two splits: {earlier.split} and {image.split}"
            raise CorpusError(what, todo="Remove it from one of them: test pictures must not be trained on.")
        if earlier.path != image.path:
            raise CorpusError(f"picture {name!r} has two files: {earlier.path} and {image.path}")
        dropped.append(Dropped("picture", name, "duplicate", f"named again in {image.split or 'no split'}"))
    return named


def _distinct_captions(
    captions: Iterable[Caption], named: dict[str, Image], dropped: list[Dropped]
) -> dict[str, list[Caption]]:
    texts: dict[str, list[Caption]] = {}
    seen: dict[tuple[str, str], str] = {}
    for caption in captions:
        item, text = f"{caption.image_id}#{caption.key}", caption.text
        known = (caption.image_id, caption.key) in seen
        earlier = seen.setdefault((caption.image_id, caption.key), text)
        if earlier != text:
            what = f"caption {item} occurs twice with different texts: {earlier!r} and {text!r}"
            raise CorpusError(what, todo="Give each caption of a picture a number of its own.")
        if known:
            dropped.append(Dropped("caption", item, "duplicate", text))
        elif caption.image_id not in named:
            dropped.append(Dropped("caption", item, "unknown picture", text))
        elif not text.strip():
            dropped.append(Dropped("caption", item, "empty caption", repr(text)))
        else:
            texts.setdefault(caption.image_id, []).append(caption)
    return texts
