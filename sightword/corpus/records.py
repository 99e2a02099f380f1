"""Pictures and captions as every reader hands them over, and the cleaning they all share.

A reader only reads. What is kept, what is dropped and why is decided here, in one
place, so that all formats follow the same rules:

* a name that no split lists is dropped (``in no split``);
* with ``require_pictures``, a name without a file is dropped (``no picture file``);
* a caption whose picture the corpus does not know is dropped (``unknown picture``);
* a caption of nothing but white space is dropped (``empty caption``);
* the same record twice is kept once (``duplicate``);
* a picture that is left without captions is dropped (``no captions``), and so is, with ``require_pictures``, a file
  that nothing names, or that nothing can name (``name is not UTF-8``).

Equal captions of one picture are real and stay, as long as they are records of their own.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from sightword.corpus.listing import PICTURE_SUFFIXES, Listing
from sightword.errors import CorpusError

SPLITS = ("train", "dev", "test")
"""The names of the splits in all tables."""

_SPLIT_OF = {"train": "train", "restval": "train", "dev": "dev", "val": "dev", "validation": "dev", "test": "test"}


@dataclass(frozen=True, slots=True)
class Image:
    """One picture: its id, its file below the folder of pictures (or none), and its split (or none)."""

    image_id: str
    path: str | None
    split: str | None


@dataclass(frozen=True, slots=True)
class Caption:
    """One caption as the publisher wrote it; ``key`` tells two captions of one picture apart."""

    image_id: str
    key: str
    text: str


@dataclass(frozen=True, slots=True, order=True)
class Dropped:
    """Something that did not go into the tables, and why."""

    kind: str
    """``picture`` (with all its captions) or ``caption``."""
    item: str
    reason: str
    detail: str


@dataclass(frozen=True)
class Corpus:
    """What the tables will hold: pictures sorted by id, captions by picture and then as published."""

    images: list[Image]
    positions: list[int]
    """Each picture's place in the publisher's own order, from 0; what was dropped has none."""
    captions: list[Caption]
    dropped: list[Dropped] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """The number of pictures in each split."""
        found = Counter(image.split for image in self.images)
        return {split: found[split] for split in SPLITS}


def split_name(name: str | None, where: str) -> str | None:
    """Our name of a publisher's split; none for an empty one.

    Raises:
        CorpusError: nobody knows such a split.
    """
    if name is None or not name.strip():
        return None
    split = _SPLIT_OF.get(name.strip().lower())
    if split is None:
        raise CorpusError(
            f"unknown split {name!r}",
            where=where,
            expected="one of " + ", ".join(_SPLIT_OF),
            todo="Rename the split, or leave it empty to have the picture left out.",
        )
    return split


def check_path(path: str, where: str) -> str:
    """Return ``path`` if it is a plain relative one, one spelling for one file.

    Raises:
        CorpusError: it is absolute, leaves the folder, or is no plain path.
    """
    parts = path.split("/")
    if path.startswith("/") or ".." in parts:
        raise CorpusError(
            f"the path {path!r} leaves the folder of pictures",
            where=where,
            expected="a path relative to that folder, without `..`",
        )
    if not path.strip() or "" in parts or "." in parts or any(unicodedata.category(c) == "Cc" for c in path):
        raise CorpusError(
            f"{path!r} is no plain file name", where=where, expected="a relative path such as folder/picture.jpg"
        )
    return path


def clean(
    images: Iterable[Image], captions: Iterable[Caption], listing: Listing | None, *, require_pictures: bool
) -> Corpus:
    """Keep what belongs together, tell what was dropped, and sort.

    Args:
        images: the pictures the corpus names, in its own order.
        captions: the captions, in the order in which they are to be numbered.
        listing: the files there are; none where there is no folder of pictures.
        require_pictures: drop pictures without a file (otherwise their path is none).

    Raises:
        CorpusError: records that contradict each other, or nothing left.
    """
    dropped: list[Dropped] = []
    named = _distinct_images(images, dropped)
    texts = _distinct_captions(captions, named, dropped)
    files = frozenset() if listing is None else listing.files
    misnamed = frozenset() if listing is None else listing.misnamed

    kept = []
    for image_id in sorted(named):
        image = named[image_id]
        own = texts.get(image_id, [])
        with_captions = f"{len(own)} caption{'' if len(own) == 1 else 's'}"
        if image.split is None:
            dropped.append(Dropped("picture", image_id, "in no split", with_captions))
        elif require_pictures and image.path not in files:
            dropped.append(Dropped("picture", image_id, "no picture file", f"{image.path}; {with_captions}"))
        elif not own:
            dropped.append(Dropped("picture", image_id, "no captions", f"split {image.split}"))
        else:
            kept.append(Image(image_id, image.path if image.path in files else None, image.split))

    claimed = {image.path for image in named.values()}
    if require_pictures:
        strangers = [(file, "no captions", "a file that the corpus does not name") for file in files - claimed]
        strangers += [(file, "name is not UTF-8", "rename it: no corpus can name it") for file in misnamed]
        dropped += [Dropped("picture", *row) for row in strangers if row[0].lower().endswith(PICTURE_SUFFIXES)]
    _check_something_left(kept, dropped, listing)
    kept_ids = {image.image_id for image in kept}
    place = {image_id: number for number, image_id in enumerate(name for name in named if name in kept_ids)}
    positions = [place[image.image_id] for image in kept]
    return Corpus(kept, positions, [caption for image in kept for caption in texts[image.image_id]], sorted(dropped))


def _distinct_images(images: Iterable[Image], dropped: list[Dropped]) -> dict[str, Image]:
    named: dict[str, Image] = {}
    for image in images:
        earlier = named.get(image.image_id)
        if earlier is None:
            named[image.image_id] = image
            continue
        if earlier.split != image.split:
            raise CorpusError(
                f"picture {image.image_id!r} is in two splits: {earlier.split} and {image.split}",
                todo="Take it out of one of them: what is tested on must not be trained on.",
            )
        if earlier.path != image.path:
            raise CorpusError(f"picture {image.image_id!r} has two files: {earlier.path} and {image.path}")
        dropped.append(Dropped("picture", image.image_id, "duplicate", f"named again in {image.split or 'no split'}"))
    return named


def _distinct_captions(
    captions: Iterable[Caption], named: dict[str, Image], dropped: list[Dropped]
) -> dict[str, list[Caption]]:
    texts: dict[str, list[Caption]] = {}
    seen: dict[tuple[str, str], str] = {}
    for caption in captions:
        record = (caption.image_id, caption.key)
        earlier = seen.get(record)
        seen.setdefault(record, caption.text)
        item = f"{caption.image_id}#{caption.key}"
        if earlier is not None:
            if earlier != caption.text:
                raise CorpusError(
                    f"caption {item} is there twice with different texts: {earlier!r} and {caption.text!r}",
                    todo="Give each caption of a picture a number of its own.",
                )
            dropped.append(Dropped("caption", item, "duplicate", caption.text))
        elif caption.image_id not in named:
            dropped.append(Dropped("caption", item, "unknown picture", caption.text))
        elif not caption.text.strip():
            dropped.append(Dropped("caption", item, "empty caption", repr(caption.text)))
        else:
            texts.setdefault(caption.image_id, []).append(caption)
    return texts


def _check_something_left(kept: list[Image], dropped: list[Dropped], listing: Listing | None) -> None:
    if kept:
        return
    reasons = Counter(row.reason for row in dropped)
    told = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common()) or "it names no picture"
    todo = None
    if reasons["no picture file"] and listing is not None:
        todo = (
            f"Look whether corpus.pictures ({listing.folder}) is the right folder, or set corpus.require_pictures to "
            "false when the features come precomputed."
        )
    raise CorpusError(f"no picture with captions is left ({told})", todo=todo)
