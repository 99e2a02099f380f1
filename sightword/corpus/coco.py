"""Reads COCO's JSON, such as ``captions_train2014.json``, and Karpathy's, such as ``dataset_coco.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from sightword.corpus.listing import Listing
from sightword.corpus.records import Caption, Image, check_path, split_name, with_names
from sightword.corpus.settings import CorpusSettings
from sightword.errors import CorpusError
from sightword.io.files import mapping, member, read_lists
from sightword.messages import and_more

_ARCHIVE = "caption_datasets.zip holds dataset_flickr8k.json, dataset_flickr30k.json and dataset_coco.json."
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
        found.append((key, Caption(name, str(key), _text(entry, "caption", where), where)))
    if not found:
        raise CorpusError("holds no captions: `annotations` is empty", where=path, todo=_TODO)
    captions += [caption for _, caption in sorted(found, key=lambda pair: pair[0])]
    return name_of


class Karpathy(CorpusSettings):
    """Karpathy's JSON: pictures with splits and captions; the split ``val`` becomes dev."""

    format: Literal["karpathy"] = "karpathy"
    """Karpathy's JSON, ``dataset_*.json``."""

    file: str | None = Field(None, min_length=1)
    """The name of the file in ``path``, where it is not the only ``dataset_*.json`` there."""

    text: Literal["raw", "tokens"] = "raw"
    """``raw``: the caption as it was written; ``tokens``: its tokens joined by single spaces, with a full stop as the
    last one (Merkx & Frank 2019 for COCO)."""

    restval: Literal["train", "none"] = "train"
    """COCO's 30,504 pictures of the set ``restval`` are for training, or in no split (VSE++'s code without its
    flag)."""

    def files(self) -> list[str]:
        """Return the file ``file``, or the only ``dataset_*.json``; CorpusError without it, or among several."""
        if self.file and not (self.folder / self.file).is_file():
            raise CorpusError(f"has no file {self.file} (corpus.file)", where=self.folder, todo=_ARCHIVE)
        found = [self.file] if self.file else sorted(path.name for path in self.folder.glob("dataset_*.json"))
        if len(found) != 1:
            what = f"must have one file dataset_*.json but has {and_more(found, 5) or 'none'}"
            todo = "Name the right one in corpus.file." if found else _ARCHIVE
            raise CorpusError(what, where=self.folder, todo=todo)
        return found

    def read(self, _listing: Listing | None, /) -> tuple[list[Image], list[Caption]]:
        """Read the file; CorpusError if an entry does not follow the format."""
        file = self.folder / self.files()[0]
        (entries,) = read_lists(file, "images", error=CorpusError, todo=_ARCHIVE)
        images: list[Image] = []
        captions: list[Caption] = []
        name_of: dict[str, str] = {}
        for entry, where in entries:
            name = check_path(member(entry, "filename", str, where, CorpusError), where)
            # COCO's entries name one of two folders.
            subfolder = member(entry, "filepath", str, where, CorpusError) if entry.get("filepath") else ""
            picture = check_path(f"{subfolder}/{name}" if subfolder else name, where)
            split = member(entry, "split", str, where, CorpusError)
            left_out = self.restval == "none" and split.strip().lower() == "restval"
            name_of[picture] = name
            images.append(Image(picture, picture, None if left_out else split_name(split, where), where))
            for position, sentence in enumerate(member(entry, "sentences", list, where, CorpusError)):
                place = f"{where}.sentences[{position}]"
                words = _words(sentence, self.text, place)
                key = str(sentence["sentid"]) if "sentid" in sentence else f"position {position}"
                captions.append(Caption(picture, key, words, place))
        if not images:
            raise CorpusError("names no pictures: `images` is empty", where=file, todo=_ARCHIVE)
        return with_names(images, captions, name_of)


def _text(entry: Any, key: str, where: str) -> str:
    """Return a caption; that of null is empty, as in tables, and is dropped."""
    if isinstance(entry, dict) and key in entry and entry[key] is None:
        return ""
    return member(entry, key, str, where, CorpusError)


def _words(sentence: Any, text: Literal["raw", "tokens"], where: str) -> str:
    if text == "raw":
        return _text(sentence, "raw", where)
    tokens = member(sentence, "tokens", list, where, CorpusError)
    if not all(isinstance(token, str) for token in tokens):
        raise CorpusError("tokens is not a list of texts", where=where)
    return " ".join([*tokens, "."]) if tokens else ""
