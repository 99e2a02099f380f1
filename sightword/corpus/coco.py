"""Reads COCO's own JSON, such as ``captions_train2014.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from sightword.corpus.listing import Listing
from sightword.corpus.records import Caption, Image, check_path, with_names
from sightword.corpus.settings import CorpusSettings
from sightword.errors import CorpusError
from sightword.io.files import mapping, member, read_lists

_TODO = "COCO ships captions_*.json in annotations_trainval2014.zip and annotations_trainval2017.zip."


class Coco(CorpusSettings):
    """COCO's own JSON: the captions of each split from the files listed for the split."""

    format: Literal["coco"] = "coco"
    """COCO's own JSON, ``captions_*.json``."""

    coco_train: list[str] = Field(["captions_train2014.json"])
    """The files, below ``path`` or in its subfolder ``annotations``, whose pictures are for training."""

    coco_dev: list[str] = Field(["captions_val2014.json"])
    """The files for choosing."""

    coco_test: list[str] = Field([])
    """The files for testing (the captions of COCO's own test pictures are not public)."""

    @model_validator(mode="after")
    def _listed_once(self) -> Self:
        named = [*self.coco_train, *self.coco_dev, *self.coco_test]
        if not named or len(set(named)) != len(named):
            what = "no file is listed" if not named else "a file is listed twice"
            raise ValueError(f"{what} in coco_train, coco_dev and coco_test")
        return self

    def files(self) -> list[str]:
        """Return the listed files where they lie."""
        return [_place(self.folder, name) for name in (*self.coco_train, *self.coco_dev, *self.coco_test)]

    def read(self, listing: Listing | None, /) -> tuple[list[Image], list[Caption]]:
        """Read the files.

        COCO's archives unpack into one folder for each set, but the JSON does not name the folder: a picture of
        ``captions_val2014.json`` is looked up in ``val2014/`` first, then in the folder of pictures itself. COCO's own
        ids order the captions.

        Raises:
            CorpusError: a file is missing or not in COCO's layout.
            FileFormatError: a file is empty or truncated.
        """
        images: list[Image] = []
        captions: list[Caption] = []
        name_of: dict[str, str] = {}
        for split, names in (("train", self.coco_train), ("dev", self.coco_dev), ("test", self.coco_test)):
            for name in names:
                file = self.folder / _place(self.folder, name)
                if not file.is_file():
                    what = f"has no {name}, neither here nor in the subfolder annotations"
                    raise CorpusError(what, where=self.folder, todo=_TODO)
                name_of |= _read_file(file, split, listing, images, captions)
        return with_names(images, captions, name_of)


def _place(folder: Path, name: str) -> str:
    within = f"annotations/{name}"
    return within if (folder / within).is_file() and not (folder / name).is_file() else name


def _read_file(
    path: Path, split: str, listing: Listing | None, images: list[Image], captions: list[Caption]
) -> dict[str, str]:
    """Add pictures and captions of a file, each under the picture's path; return the name of each path.

    An id is that of a picture of this file: another file may give the id to another picture.
    """
    pictures, annotations = read_lists(path, "images", "annotations", error=CorpusError, todo=_TODO)
    own_set = path.stem.removeprefix("captions_")
    name_of: dict[str, str] = {}
    ids: list[tuple[int, str, str]] = []
    for entry, where in pictures:
        name = check_path(member(entry, "file_name", str, where, CorpusError), where)
        picture = (listing.names.match(f"{own_set}/{name}") if listing else None) or name
        ids.append((member(entry, "id", int, where, CorpusError), picture, where))
        name_of[picture] = name
        images.append(Image(picture, picture, split, where))
    picture_of = mapping(ids, "the image id", "file", CorpusError, todo="Give each picture an id of its own.")
    found: list[tuple[int, Caption]] = []
    for entry, where in annotations:
        image, key = member(entry, "image_id", int, where, CorpusError), member(entry, "id", int, where, CorpusError)
        name = picture_of.get(image, f"image_id {image}")
        found.append((key, Caption(name, str(key), member(entry, "caption", str, where, CorpusError), where)))
    if not found:
        raise CorpusError("holds no captions: `annotations` is empty", where=path, todo=_TODO)
    captions += [caption for _, caption in sorted(found, key=lambda pair: pair[0])]
    return name_of
