"""Reads tar shards of WebDataset, img2dataset and tar: the files of one key are a picture and its captions."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import Field
from tqdm import tqdm

from sightword import machine
from sightword.compute.processes import ordered_map
from sightword.corpus.listing import PICTURE_SUFFIXES, Listing, list_pictures, walk
from sightword.corpus.records import Caption, Image, split_of
from sightword.corpus.settings import Drawn
from sightword.errors import CorpusError
from sightword.io.files import parse_object
from sightword.io.opening import files_in
from sightword.messages import and_more, first_line, plural, quote
from sightword.places.place import Part, Place
from sightword.places.tar import members

_TABLES = ("*.parquet", "*.csv", "*.json", "*.jsonl")
_TODO = "A shard holds the files of one key, which ends at the first full stop: 0001.jpg, and 0001.txt or 0001.json."
_PICTURES = tuple(suffix.removeprefix(".") for suffix in PICTURE_SUFFIXES)


@dataclass
class Content:
    """What a shard holds, by the keys of the shard."""

    pictures: dict[str, tuple[str, Place]] = field(default_factory=dict)
    """The ending and place of each picture."""
    captions: dict[str, list[str]] = field(default_factory=dict)
    damaged: dict[str, str] = field(default_factory=dict)
    """Files that cannot be used, each with the fault; the shard itself is ``.tar``."""
    unused: Counter[str] = field(default_factory=Counter)
    """The number of files of each ending that is neither that of a picture nor that of a text."""


class Shards(Drawn):
    """Tar shards; a picture's id is ``SHARD/KEY``, such as ``train/00000/000000012``.

    The key of a file is its name up to the first full stop after the last slash, as in WebDataset; the rest is the
    ending. A key with two pictures is dropped, since nothing says which picture is meant. A shard is of the split that
    its name or the name of a folder has as a word (``val-00000.tar``, ``test/00000.tar``).
    """

    format: Literal["shards"] = "shards"
    """Tar shards of WebDataset or img2dataset: ``pictures`` itself, in its folders, or in the bucket that it lists."""

    caption: str = Field("txt", pattern=r"^(txt|json:.+)$")
    """Where the captions are: ``txt``, the text files; ``json:KEY``, a text or a list of texts in the JSON files."""

    def files(self) -> list[str]:
        """Return the shards, or the listing; CorpusError if there is none."""
        root = Path(self.pictures)
        if root.is_file():
            return [root.relative_to(self.folder).as_posix()]
        return [f"{root.relative_to(self.folder).as_posix()}/{name}".removeprefix("./") for name in self.shards()]

    def listing(self) -> Listing:
        """Read the headers and texts of all shards, in order, with the machine's workers.

        Raises:
            CorpusError: a shard is missing or no tar, only some shards name a split, or none has pictures or captions.
            PictureError: a shard in a bucket changed since it was listed, or the bucket cannot be read.
        """
        shards = self.shards()
        named = {name: split_of(name.removesuffix(".tar")) for name in shards}
        if without := [name for name, split in named.items() if split is None and any(named.values())]:
            what = f"{quote(without[0])} names no split, and {quote(next(filter(named.get, named)))} does"
            todo = "Rename the shards, such as train-00000.tar, or put them into folders named by splits."
            raise CorpusError(what, where=self.pictures, todo=todo)
        workers = machine.current().workers if len(shards) > 1 else 0
        contents = ordered_map(functools.partial(read_shard, settings=self), shards.values(), workers=workers)
        bar = tqdm(contents, total=len(shards), desc="corpus", unit="shard", disable=None)
        images: list[Image] = []
        captions: list[Caption] = []
        damaged: dict[str, str] = {}
        unused: dict[str, str] = {}
        for name, content in zip(shards, bar, strict=True):
            shard = name.removesuffix(".tar")
            split = named[name] or "train"
            for key in dict.fromkeys([*content.pictures, *content.captions]):  # failed downloads have no picture
                image_id, (ending, place) = f"{shard}/{key}", content.pictures.get(key, ("jpg", None))
                images.append(Image(image_id, f"{image_id}.{ending}", split, name, place))
                texts = content.captions.get(key, [])
                captions += [Caption(image_id, str(number), text, name) for number, text in enumerate(texts)]
            damaged |= {f"{shard}/{file}".replace("/.tar", ".tar"): why for file, why in content.damaged.items()}
            unused |= {f"{shard}/*.{ending}": plural(count, "file") for ending, count in content.unused.items()}
        pictures = any(image.place for image in images)
        if not pictures or not captions:
            what = f"the shards hold no {f'captions in {self.caption}' if pictures else 'pictures'}"
            faults = [f"{item} {why}" for item, why in {**damaged, **unused}.items()]
            faults += [f"{path.name} is not read" for path in files_in(Path(self.pictures), *_TABLES)]
            what += f" ({and_more(faults, 3)})" if faults else ""
            expected = "corpus.caption of another kind, such as json:KEY" if pictures else "files such as 0001.jpg"
            raise CorpusError(what, where=self.pictures, expected=expected, todo=_TODO)
        records = images, captions
        return Listing(Path(self.pictures), frozenset(), damaged=damaged, unused=unused, records=records)

    def shards(self) -> dict[str, Place]:
        """Return the places of the shards, by their names below the folder of pictures, in order."""
        root = Path(self.pictures)
        if root.suffix == ".csv":
            listed = list_pictures(root, required=True)
            found = dict(listed.places) if listed else {}
        else:
            above = root.parent if root.is_file() else root
            names = [root.name] if root.is_file() else [name for name, _ in walk(root, linked=False)]
            found = {name: Place(str(above / name)) for name in names}
        shards = sorted(name for name in found if name.endswith(".tar") and not Path(name).name.startswith("._"))
        if not shards:
            todo = "Put the .tar files there and name the folder in corpus.pictures, or list those of a bucket."
            raise CorpusError("holds no .tar", where=root, expected="a folder of tar shards", todo=todo)
        return {name: found[name] for name in shards}


def read_shard(shard: Place, settings: Shards) -> Content:
    """Return the content of a shard.

    Raises:
        CorpusError: the shard is missing or no tar.
        PictureError: the shard changed since it was listed, or its bucket cannot be read.
    """
    kind, _, name = settings.caption.partition(":")
    tar = members(shard, lambda file: split_key(file)[1] == kind)
    content = Content(damaged=dict(tar.faults))
    if tar.damage:
        content.damaged[".tar"] = tar.damage
    version = shard.part.version if shard.part else None
    twice: set[str] = set()
    for file, span in tar.files.items():
        key, ending = split_key(file)
        if ending.lower() in _PICTURES:
            twice |= {key} & content.pictures.keys()
            content.pictures[key] = ending, Place(shard.path, Part(*span, version=version))
        elif ending != kind:
            content.unused[ending] += 1
    for key in twice:
        del content.pictures[key]
        content.damaged[key] = "the key has two pictures"
    for file, data in tar.texts.items():
        key, _ = split_key(file)
        try:
            text = data.decode("utf-8-sig")
            content.captions[key] = _texts(parse_object(text, CorpusError, file), name) if name else [text.strip()]
        except (ValueError, CorpusError) as error:
            content.damaged[file] = first_line(error)
    return content


def split_key(name: str) -> tuple[str, str]:
    """Return the key of a member of a shard, and its ending without the full stop."""
    folder, slash, file = name.rpartition("/")
    key, _, ending = file.partition(".")
    return f"{folder}{slash}{key}", ending


def _texts(record: Mapping[str, object], name: str) -> list[str]:
    value = record.get(name)
    values = value if isinstance(value, list) else [] if value is None else [value]
    texts = [one for one in values if isinstance(one, str)]
    if len(texts) < len(values):
        raise ValueError(f"{name} is {quote(value)}, no text or list of texts")
    "".join(texts).encode()  # half a character is no text
    return texts
