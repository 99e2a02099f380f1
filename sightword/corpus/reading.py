"""The way from a published corpus to clean records, and to captions of pictures that are not in the corpus.

Readers only read; :func:`clean` decides for all formats what is kept. Dropped are names that no split lists (``in no
split``), captions of a picture that the corpus does not list (``unknown picture``), of white space (``empty
caption``) or of more than 10,000 characters (``too long``), repeated records (``duplicate``) and pictures without
captions (``no captions``); with ``require_pictures`` also names without a file (``no picture file``), and files that
the corpus does not name (``no captions``), whose names are not UTF-8 (``name is not UTF-8``), or that their tar does
not give (``damaged``). A name and its file may be in two Unicode forms. Equal captions of one picture stay if they are
separate records.

A hash draws dev and test where a corpus names none, and the sealed split, whose captions the readers of captions
withhold (:func:`sightword.captions.table.read_captions`).
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import logging
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from sightword.corpus.listing import PICTURE_SUFFIXES, Listing, refuse_other_forms
from sightword.corpus.records import Caption, Corpus, Dropped, Image
from sightword.corpus.settings import CorpusSettings, Drawn, read_list
from sightword.errors import CorpusError
from sightword.io.files import mapping
from sightword.io.names import composed
from sightword.io.opening import lines
from sightword.io.tables import check_bare
from sightword.machine import is_address
from sightword.messages import plural, quote, short
from sightword.places import place as places
from sightword.places.place import Place
from sightword.settings import LONGEST_TEXT, SEALED

log = logging.getLogger(__name__)

DRAWN_SALT, SEALED_SALT = "sightword drawn split 1\n", "sightword sealed split 1\n"
"""The texts before a picture's id; other texts draw other pictures."""
_LARGEST = 4_000_000_000
"""The most bytes of a picture."""
_NUMBERED = re.compile(r"(?P<name>.+?)\.\d+(?P<rest>\..+)")
_PICTURE = re.compile(r"\d+(?=[._])")
_WORD = re.compile(r"\w+")
_TODO = "Correct corpus.beside or corpus.beside_files; docs/parameters.md tells the names."
_TOO_LONG = ("too long", f"more than {LONGEST_TEXT:,} characters")


def read_corpus(settings: CorpusSettings) -> Corpus:
    """Read a published corpus; :mod:`sightword.corpus.sample` draws the sample.

    Raises:
        CorpusError: the corpus is missing, has another format, or contradicts itself.
        FileFormatError: a file is missing, damaged or of another format.
    """
    path = settings.folder
    if not path.is_dir():
        todo = "Put the corpus there (data/raw/README.md lists the files), or correct corpus.path."
        raise CorpusError("is not a folder" if path.exists() else "does not exist", where=path, todo=todo)
    try:
        listing = settings.listing()
    except CorpusError:
        is_apart = type(settings).read is not CorpusSettings.read  # captions of shards come with the listing
        if is_apart and settings.require_pictures and not Path(settings.pictures).exists():
            settings.read(None)  # a fault of the captions is told before the missing folder
        raise
    images, captions = (listing and listing.records) or settings.read(listing)
    check_bare((one.text for one in captions), path, CorpusError)
    corpus = clean(images, captions, listing, require_pictures=settings.require_pictures)
    if isinstance(settings, Drawn):
        corpus = draw(corpus, settings, listing)
    return with_beside(seal(corpus, settings.seal), settings, images)


def draw(corpus: Corpus, settings: Drawn, listing: Listing | None) -> Corpus:
    """Return a corpus with pictures drawn for the splits that it lacks.

    A picture is of dev if the number that sha256 makes of :data:`DRAWN_SALT` and its id, from 0 to 1, is below
    ``draw_dev``, and of test below the sum of both shares: a picture that comes or goes moves no other one. Pictures
    with equal bytes follow the first of them, by id.

    Raises:
        CorpusError: a drawn split, or training, has no picture.
    """
    named = corpus.counts()
    wanted = {"dev": settings.draw_dev, "test": settings.draw_test}
    shares = {split: share for split, share in wanted.items() if share and not named[split]}
    if not shares:
        return corpus
    training = [image for image in corpus.images if image.split == "train"]
    originals = _copies(training, listing) if listing else {}
    splits = {image.image_id: _split(originals.get(image.image_id, image.image_id), shares) for image in training}
    counts = Counter(splits.values())
    if empty := [split for split in ("train", *shares) if not counts[split]]:
        what = f"no picture of {len(training)} is drawn for {' and '.join(empty)}"
        todo = "Raise corpus.draw_dev and corpus.draw_test, name the splits in the data, or add pictures (to 50, say)."
        if corpus.dropped:
            lost = corpus.dropped[0]
            what += f" ({plural(len(corpus.dropped), 'record')} left out, such as {quote(lost.item)}: {lost.reason})"
        raise CorpusError(what, where=settings.path, todo=todo)
    told = " and ".join(f"{counts[split]} {split} ({100 * share:g} % asked for)" for split, share in shares.items())
    copies = f", {plural(len(originals), 'copy', 'copies')} with their originals" if originals else ""
    unseen = "" if listing else "; no picture was looked at for copies"
    words = f"{told} of {len(training)} pictures drawn by a hash of their ids{copies}{unseen}"
    return replace(corpus.with_splits(splits), drawing=words)


def seal(corpus: Corpus, count: int) -> Corpus:
    """Return a corpus in which ``count`` training pictures are of the split ``sealed``.

    The pictures with the smallest sha256 of :data:`SEALED_SALT` and their id are drawn, so the draw depends on the
    training pictures' ids alone.

    Raises:
        CorpusError: no training picture would be left.
    """
    if not count:
        return corpus
    training = [image.image_id for image in corpus.images if image.split == "train"]
    if count >= len(training):
        what, expected = f"corpus.seal is {count}", f"fewer than the {len(training)} training pictures"
        raise CorpusError(what, expected=expected, todo="Lower corpus.seal.")
    drawn = heapq.nsmallest(count, training, key=lambda image_id: _digest(SEALED_SALT, image_id))
    return corpus.with_splits(dict.fromkeys(drawn, SEALED))


def _digest(salt: str, image_id: str) -> bytes:
    return hashlib.sha256(f"{salt}{image_id}".encode()).digest()


def _split(image_id: str, shares: Mapping[str, float]) -> str:
    number = int.from_bytes(_digest(DRAWN_SALT, image_id)[:8], "big") / 2**64
    for split, share in shares.items():
        if number < share:
            return split
        number -= share
    return "train"


def _copies(images: Sequence[Image], listing: Listing) -> dict[str, str]:
    """Return the id of the first picture, by id, with the same bytes, of each picture that is not the first one.

    Only pictures of one size are read. Of an object elsewhere, its version stands for its bytes; members of a tar that
    lies elsewhere, and pictures that cannot be read, are not compared.
    """
    content = {image.image_id: image.digest for image in images if image.digest}
    sizes: dict[object, list[tuple[str, Place]]] = {}
    for image in images:
        if image.path and not image.digest:
            place = image.place or listing.place(image.path)
            with contextlib.suppress(OSError):  # the stage resize says why it cannot be read
                if not is_address(place.path):
                    sizes.setdefault(places.size(place), []).append((image.image_id, place))
                elif place.part and place.part.offset is None and place.part.version:
                    content[image.image_id] = place.part.version.encode()
    alike = [one for same in sizes.values() if len(same) > 1 for one in same]
    for image_id, place in tqdm(alike, desc="corpus: copies", unit="picture", disable=None):
        with contextlib.suppress(OSError):
            content[image_id] = hashlib.sha256(places.read(place, _LARGEST)).digest()
    first: dict[bytes, str] = {}
    originals = {image_id: first.setdefault(data, image_id) for image_id, data in sorted(content.items())}
    return {image_id: original for image_id, original in originals.items() if original != image_id}


def with_beside(corpus: Corpus, settings: CorpusSettings, named: Iterable[Image]) -> Corpus:
    """Return the corpus with the captions of ``corpus.beside``, without those of pictures of the corpus.

    A caption with the words of a caption of dev, test or the sealed split is left out too, whatever its picture.

    Two pictures are the same if their ids are equal, or begin with the same number: the part of a name of Flickr8k
    before ``_`` is the picture's name in Flickr30k and Multi30k.

    Args:
        corpus: the corpus.
        settings: the section ``corpus``.
        named: all pictures that the corpus names, also those that were dropped.

    Raises:
        CorpusError: no file fits the pattern, files of one name have unequal numbers of lines, or nothing is left.
        FileFormatError: a file is damaged.
    """
    if not settings.beside_files:
        return corpus
    in_corpus = {_key(image.image_id) for image in named}
    without = read_list(settings.beside_without) if settings.beside_without else ()
    training = {image.image_id for image in corpus.images if image.split == "train"}
    held_out = {_words(caption.text) for caption in corpus.captions if caption.image_id not in training} - {""}
    captions_of: dict[str, list[Caption]] = {}
    for caption in _read(Path(settings.beside), settings.beside_files):
        captions_of.setdefault(caption.image_id, []).append(caption)
    dropped: list[Dropped] = []
    beside: list[Caption] = []
    for picture, captions in sorted(captions_of.items()):
        if (known := _key(picture) in in_corpus) or picture in without:
            reason = "beside, and in the corpus" if known else f"beside, and in {settings.beside_without}"
            dropped.append(Dropped("picture", picture, reason, plural(len(captions), "caption")))
            continue
        for caption in captions:
            if len(caption.text) > LONGEST_TEXT:  # a NUL is an error of reading a line
                dropped.append(Dropped("caption", short(f"{picture}#{caption.key}"), *_TOO_LONG))
            elif _words(caption.text) in held_out:
                dropped.append(Dropped("caption", f"{picture}#{caption.key}", "beside, and held out", caption.text))
            else:
                beside.append(caption)
    if not beside:
        what = f"no caption is left ({plural(len(dropped), 'record')} dropped)"
        raise CorpusError(what, where=settings.beside, todo=_TODO)
    return replace(corpus, beside=beside, dropped=sorted([*corpus.dropped, *dropped]))


def _words(text: str) -> str:
    """Return the words of a text in folded case, with one space between them."""
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def _key(picture: str) -> str:
    number = _PICTURE.match(picture)
    return number[0] if number else picture


def _read(folder: Path, pattern: str) -> Iterator[Caption]:
    """Yield the captions of all files, with names that are their pictures' or made of file and line."""
    groups: dict[tuple[Path, str, str], list[Path]] = {}
    for path in sorted(folder.glob(pattern)):
        form = _NUMBERED.fullmatch(path.name)
        if form is None:
            raise CorpusError("has no number before its ending", where=path, expected="such as train.1.txt", todo=_TODO)
        groups.setdefault((path.parent, form["name"], form["rest"].removesuffix(".gz")), []).append(path)
    if not groups:
        raise CorpusError(f"no file fits corpus.beside_files, {pattern}", where=folder, todo=_TODO)
    several = len({above for above, _, _ in groups}) > 1
    for (above, name, rest), paths in groups.items():
        first, inner = paths[0], f"{above.relative_to(folder).as_posix()}/" * several
        listed = [path for path in (first.with_name(f"{name}_images.txt{end}") for end in ("", ".gz")) if path.exists()]
        texts = {path: [line for _, line in lines(path, CorpusError)] for path in paths + listed[:1]}
        for path, own in texts.items():
            if len(own) != len(texts[first]):
                what = f"has {len(own)} lines, and {first.name} has {len(texts[first])}"
                raise CorpusError(what, where=path, expected="a line for each picture in all files of one name")
        numbered = [f"{inner}{name}{rest}:{number}" for number in range(1, len(texts[first]) + 1)]
        pictures = texts[listed[0]] if listed else numbered
        for number, picture in enumerate(pictures):
            for path in paths:
                if text := texts[path][number].strip():
                    yield Caption(picture.strip(), path.name, text, f"{path}, line {number + 1}")


def clean(
    images: Iterable[Image], captions: Iterable[Caption], listing: Listing | None, *, require_pictures: bool
) -> Corpus:
    """Match captions, in the order of their numbers, to pictures, in the corpus's own order; record everything dropped.

    ``listing`` has the existing files, and is None without a folder of pictures. ``require_pictures`` drops pictures
    without a file; otherwise their path is None. CorpusError if records contradict each other, or nothing is left.
    """
    dropped: list[Dropped] = []
    pictures = _distinct_pictures(images, dropped)
    captions_of: dict[str, list[Caption]] = {}
    for caption in _distinct_captions(captions, pictures, dropped):
        captions_of.setdefault(caption.image_id, []).append(caption)
    files = {image_id: _file(image, listing) for image_id, image in pictures.items()}
    if others := sum(file not in (None, pictures[image_id].path) for image_id, file in files.items()):
        log.info("corpus: %s found by the name in another Unicode form", plural(others, "picture"))
    kept: list[Image] = []
    missing: list[str] = []
    for image_id, image in pictures.items():
        count = plural(len(captions_of.get(image_id, ())), "caption")
        if image.fault:
            dropped.append(Dropped("picture", image_id, "damaged", f"{image.fault}; {count}"))
        elif image.split is None:
            dropped.append(Dropped("picture", image_id, "in no split", count))
        elif require_pictures and files[image_id] is None:
            path = image.path or image_id
            dropped.append(Dropped("picture", image_id, "no picture file", f"{path}; {count}"))
            missing.append(path)
        elif image_id not in captions_of:
            dropped.append(Dropped("picture", image_id, "no captions", f"split {image.split}"))
        else:
            kept.append(replace(image, path=files[image_id]))
    if listing:
        dropped += [Dropped("picture", name, "damaged", why) for name, why in listing.damaged.items()]
        dropped += [Dropped("picture", name, "not used", what) for name, what in listing.unused.items()]
        if require_pictures:
            dropped += _unnamed(listing, {file for file in files.values() if file}, missing)
    if not kept:
        raise _nothing(dropped, missing, listing)
    ordered = sorted(enumerate(kept), key=lambda pair: pair[1].image_id)
    return Corpus(
        [image for _, image in ordered],
        [position for position, _ in ordered],
        [caption for _, image in ordered for caption in captions_of[image.image_id]],
        sorted(dropped),
        places=listing.places if listing else {},
    )


def _distinct_pictures(images: Iterable[Image], dropped: list[Dropped]) -> dict[str, Image]:
    """Return the pictures by id, and record repeated ones; CorpusError for two splits, two files or two spellings."""
    distinct: dict[str, Image] = {}
    for image in images:
        first = distinct.setdefault(image.image_id, image)
        if first is image:
            continue
        for value, todo in (
            ("split", "Remove the picture from one of them: test pictures must not be trained on."),
            ("path", "Give each picture a name of its own."),
        ):
            records = [(one.image_id, getattr(one, value), one.where) for one in (first, image)]
            mapping(records, "the picture", value.replace("path", "file"), CorpusError, todo=todo)
        dropped.append(Dropped("picture", image.image_id, "duplicate", f"named again in {image.split or 'no split'}"))
    names = [(composed(name), name, image.where) for name, image in distinct.items() if not name.isascii()]
    mapping(names, "the picture", "spelling", CorpusError, todo="Write the name in one Unicode form everywhere.")
    return distinct


def _distinct_captions(
    captions: Iterable[Caption], pictures: Collection[str], dropped: list[Dropped]
) -> Iterable[Caption]:
    """Yield the captions, without repeated, empty and long ones and those of unknown pictures.

    CorpusError for two texts, or a NUL.
    """
    distinct: dict[tuple[str, str], Caption] = {}
    for caption in captions:
        first = distinct.setdefault((caption.image_id, caption.key), caption)
        item = f"{caption.image_id}#{caption.key}"
        if first is not caption:
            records = [((one.image_id, one.key), one.text, one.where) for one in (first, caption)]
            todo = "Give each caption of a picture a number of its own."
            mapping(records, "the caption", "text", CorpusError, todo=todo)
            dropped.append(Dropped("caption", item, "duplicate", caption.text))
        elif caption.image_id not in pictures:
            dropped.append(Dropped("caption", item, "unknown picture", caption.text))
        elif not caption.text.strip():
            dropped.append(Dropped("caption", item, "empty caption", repr(caption.text)))
        elif len(caption.text) > LONGEST_TEXT:
            dropped.append(Dropped("caption", short(item), *_TOO_LONG))
        elif "\0" in caption.text:
            raise CorpusError("the caption has a NUL", where=caption.where, expected="plain text")
        else:
            yield caption


def _file(image: Image, listing: Listing | None) -> str | None:
    """Return the file of a picture, by its name or by the same name in another Unicode form; None without a file."""
    if listing is None or image.path is None:
        return None
    if listing.records is not None:  # the records themselves tell the places of pictures
        return image.path if image.place else None
    return listing.names.match(image.path)


def _is_picture(file: str) -> bool:
    return file.lower().endswith(PICTURE_SUFFIXES)


def _unnamed(listing: Listing, used: Collection[str], lost: Sequence[str]) -> list[Dropped]:
    """Return the files that are no pictures of the corpus; CorpusError as of :func:`refuse_other_forms`."""
    unnamed = {file for file in listing.files.difference(used) if _is_picture(file)}
    refuse_other_forms(lost, unnamed, used, listing.folder)
    dropped = [Dropped("picture", file, "no captions", "a file that the corpus does not name") for file in unnamed]
    todo = "rename it: no corpus can name it"
    misnamed = filter(_is_picture, listing.misnamed)
    return dropped + [Dropped("picture", file, "name is not UTF-8", todo) for file in misnamed]


def _nothing(dropped: list[Dropped], missing: list[str], listing: Listing | None) -> CorpusError:
    first = {row.reason: row for row in reversed(dropped)}
    reasons = [
        f"{count} {reason}, such as {quote(first[reason].item)} ({short(first[reason].detail)})"
        for reason, count in Counter(row.reason for row in dropped).most_common()
    ]
    what, todo = f"no picture with captions is left: {'; '.join(reasons) or 'the corpus names no picture'}", None
    if missing and not (listing and listing.records):
        there = quote(min(listing.files)) if listing and listing.files else "nothing"
        todo = (
            f"Check that corpus.pictures ({listing.folder if listing else ''}) is the right folder, which has {there}"
        )
        todo += ", or set corpus.require_pictures to false when the features come precomputed."
    return CorpusError(what, todo=todo)
