"""Reads COCO's own JSON, such as ``captions_train2014.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sightword.corpus.documents import member, read_lists
from sightword.corpus.listing import Listing
from sightword.corpus.records import Caption, Image, check_path, with_names
from sightword.errors import CorpusError, ParamsError
from sightword.io.mapping import mapping

_TODO = "COCO ships captions_*.json in annotations_trainval2014.zip and annotations_trainval2017.zip."


def read_coco(
    folder: Path, files: Mapping[str, Sequence[str]], listing: Listing | None
) -> tuple[list[Image], list[Caption]]:
    """Read the captions of each split from the files listed for the split.

    COCO's archives unpack into one folder for each set, but the JSON does not name the folder: a picture of
    ``captions_val2014.json`` is looked up in ``val2014/`` first, then in the folder of pictures itself. COCO's own ids
    order the captions. The files lie in ``folder`` or in its subfolder ``annotations``.

    Raises:
        CorpusError: a file is missing or not in COCO's layout.
        FileFormatError: a file is empty or truncated.
        ParamsError: no file is listed, or one is listed twice.
    """
    named = [name for names in files.values() for name in names]
    if not named or len(set(named)) != len(named):
        what = "no file is listed" if not named else "a file is listed twice"
        raise ParamsError(what, where="corpus.coco_train, corpus.coco_dev, corpus.coco_test")
    images: list[Image] = []
    captions: list[Caption] = []
    name_of: dict[str, str] = {}
    for split, names in files.items():
        for name in names:
            paths = [path for path in (folder / name, folder / "annotations" / name) if path.is_file()]
            if not paths:
                what = f"has no {name}, neither here nor in the subfolder annotations"
                raise CorpusError(what, where=folder, todo=_TODO)
            name_of |= _read_file(paths[0], split, listing, images, captions)
    return with_names(images, captions, name_of)


def _read_file(
    path: Path, split: str, listing: Listing | None, images: list[Image], captions: list[Caption]
) -> dict[str, str]:
    """Add pictures and captions of a file, each under the picture's path; return the name of each path.

    An id is that of a picture of this file: another file may give the id to another picture.
    """
    pictures, annotations = read_lists(path, "images", "annotations", todo=_TODO)
    own_set = path.stem.removeprefix("captions_")
    name_of: dict[str, str] = {}
    ids: list[tuple[int, str, str]] = []
    for entry, where in pictures:
        name = check_path(member(entry, "file_name", str, where), where)
        picture = (listing.names.match(f"{own_set}/{name}") if listing else None) or name
        ids.append((member(entry, "id", int, where), picture, where))
        name_of[picture] = name
        images.append(Image(picture, picture, split, where))
    picture_of = mapping(ids, "the image id", "file", CorpusError, todo="Give each picture an id of its own.")
    found: list[tuple[int, Caption]] = []
    for entry, where in annotations:
        image, key = member(entry, "image_id", int, where), member(entry, "id", int, where)
        name = picture_of.get(image, f"image_id {image}")
        found.append((key, Caption(name, str(key), member(entry, "caption", str, where), where)))
    if not found:
        raise CorpusError("holds no captions: `annotations` is empty", where=path, todo=_TODO)
    captions += [caption for _, caption in sorted(found, key=lambda pair: pair[0])]
    return name_of
