"""Reads tar shards of WebDataset, img2dataset and tar: the files of one key are a picture and its captions."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import Field
from tqdm import tqdm

from sightword import machine
from sightword.compute.processes import ordered_map
from sightword.corpus.listing import PICTURE_SUFFIXES, Listing, list_pictures
from sightword.corpus.records import Caption, Image, split_name, split_of
from sightword.corpus.splits import Drawn
from sightword.errors import CorpusError
from sightword.io.files import mapping, parse_object, read_table
from sightword.machine import is_address
from sightword.messages import and_more, first_line, plural, quote
from sightword.places.place import Part, Place
from sightword.places.tar import members

_TODO = "A shard holds the files of one key side by side: 0001.jpg, and 0001.txt or 0001.json with its captions."
_PICTURES = tuple(suffix.removeprefix(".") for suffix in PICTURE_SUFFIXES)


@dataclass
class Content:
    """What a shard holds, by the keys of the shard."""

    pictures: dict[str, tuple[str, Place]] = field(default_factory=dict)
    """The ending and place of each picture."""
    captions: dict[str, list[str]] = field(default_factory=dict)
    splits: dict[str, str | None] = field(default_factory=dict)
    """The splits that the JSON files name."""
    damaged: dict[str, str] = field(default_factory=dict)
    """Files that cannot be used, each with the fault; the shard itself is ``.tar``."""
    unused: Counter[str] = field(default_factory=Counter)
    """The number of files of each ending that is neither that of a picture nor that of a text."""


class Shards(Drawn):
    """Tar shards; a picture's id is ``SHARD/KEY``, such as ``train/00000/000000012``.

    The key of a file is its name up to the first full stop after the last slash, as in WebDataset; the rest is the
    ending. A key with two pictures is dropped, since nothing says which picture is meant.
    """

    format: Literal["shards"] = "shards"
    """Tar shards of WebDataset or img2dataset: ``pictures`` itself, in its folders, or in the bucket that it lists."""

    caption: str = Field("txt", pattern=r"^(txt|json:.+|parquet:.+)$")
    """Where the captions are: ``txt``, the text files; ``json:KEY``, a text or a list of texts in the JSON files;
    ``parquet:COLUMN``, the table with a column ``key`` that img2dataset writes beside each shard."""

    split_key: str | None = Field(None, min_length=1)
    """The key of the JSON files with the split. Without it, a shard is of the split that its name or the name of a
    folder has as a word (``val-00000.tar``, ``test/00000.tar``)."""

    def files(self) -> list[str]:
        """Return the shards, or the listing; CorpusError if there is none."""
        root = Path(self.pictures)
        if root.is_file():
            return [root.relative_to(self.folder).as_posix()]
        return [f"{root.relative_to(self.folder).as_posix()}/{name}".removeprefix("./") for name in self.shards()]

    def listing(self) -> Listing:
        """Read the headers and texts of all shards, in order, with the machine's workers.

        Raises:
            CorpusError: a shard is missing or no tar, or names an unknown split; or no shard has pictures, or captions.
            PictureError: a shard in a bucket changed since it was listed, or the bucket cannot be read.
        """
        shards = self.shards()
        self._check_splits([name.removesuffix(".tar") for name in shards])
        workers = machine.current().workers if len(shards) > 1 else 0
        contents = ordered_map(functools.partial(read_shard, settings=self), shards.values(), workers=workers)
        bar = tqdm(contents, total=len(shards), desc="corpus", unit="shard", disable=None)
        images: list[Image] = []
        captions: list[Caption] = []
        damaged: dict[str, str] = {}
        unused: dict[str, str] = {}
        for name, content in zip(shards, bar, strict=True):
            shard = name.removesuffix(".tar")
            split = split_of(shard) or "train"
            for key in dict.fromkeys([*content.pictures, *content.captions]):  # failed downloads have no picture
                image_id, (ending, place) = f"{shard}/{key}", content.pictures.get(key, ("jpg", None))
                told = content.splits.get(key) if self.split_key else split
                images.append(Image(image_id, f"{image_id}.{ending}", told, name, place))
                texts = content.captions.get(key, [])
                captions += [Caption(image_id, str(number), text, name) for number, text in enumerate(texts)]
            damaged |= {f"{shard}/{file}".replace("/.tar", ".tar"): why for file, why in content.damaged.items()}
            unused |= {f"{shard}/*.{ending}": plural(count, "file") for ending, count in content.unused.items()}
        pictures = any(image.place for image in images)
        if not pictures or not captions:
            what = f"the shards hold no {f'captions in {self.caption}' if pictures else 'pictures'}"
            faults = [f"{item} {why}" for item, why in {**damaged, **unused}.items()]
            what += f" ({and_more(faults, 3)})" if faults else ""
            expected = "corpus.caption of another kind, such as json:KEY" if pictures else "files such as 0001.jpg"
            raise CorpusError(what, where=self.pictures, expected=expected, todo=_TODO)
        records = images, captions
        return Listing(Path(self.pictures), frozenset(), damaged=damaged, unused=unused, records=records)

    def _check_splits(self, shards: Sequence[str]) -> None:
        """Raise CorpusError if some shards name a split and others do not."""
        named = {shard: split_of(shard) for shard in shards}
        without = [shard for shard, split in named.items() if split is None]
        if not self.split_key and 0 < len(without) < len(named):
            other = next(shard for shard, split in named.items() if split)
            what = f"{quote(f'{without[0]}.tar')} names no split, and {quote(f'{other}.tar')} does"
            todo = "Rename the shards, such as train-00000.tar, or put them into folders named by splits."
            raise CorpusError(what, where=self.pictures, todo=todo)

    def shards(self) -> dict[str, Place]:
        """Return the places of the shards, by their names below the folder of pictures, in order."""
        root = Path(self.pictures)
        if root.suffix == ".csv":
            listed = list_pictures(root, required=True)
            found = dict(listed.places) if listed else {}
        else:
            above, files = (root.parent, [root]) if root.is_file() else (root, [*root.rglob("*.tar")])
            found = {path.relative_to(above).as_posix(): Place(str(path)) for path in files}
        shards = sorted(name for name in found if name.endswith(".tar") and not Path(name).name.startswith("._"))
        if not shards:
            todo = "Put the .tar files there and name the folder in corpus.pictures, or list those of a bucket."
            raise CorpusError("holds no .tar", where=root, expected="a folder of tar shards", todo=todo)
        return {name: found[name] for name in shards}


def read_shard(shard: Place, settings: Shards) -> Content:
    """Return the content of a shard.

    Raises:
        CorpusError: the shard is missing or no tar, or names an unknown split.
        PictureError: the shard changed since it was listed, or its bucket cannot be read.
    """
    kind, _, name = settings.caption.partition(":")
    texts = {kind, "json"} if settings.split_key else {kind}
    tar = members(shard, lambda file: split_key(file)[1] in texts)
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
        elif ending not in texts:
            content.unused[ending] += 1
    for key in twice:
        del content.pictures[key]
        content.damaged[key] = "the key has two pictures"
    for file, data in tar.texts.items():
        key, ending = split_key(file)
        try:
            text = data.decode("utf-8-sig")
            record = parse_object(text, CorpusError, file) if ending == "json" else {}
            if ending == kind:
                content.captions[key] = _captions(text, record.get(name), settings)
        except (ValueError, CorpusError) as error:
            content.damaged[file] = first_line(error)
            continue
        if settings.split_key and record:
            content.splits[key] = split_name(str(record.get(settings.split_key) or ""), f"{shard}, {file}")
    if kind == "parquet":
        content.captions = _table(shard, name)
    return content


def split_key(name: str) -> tuple[str, str]:
    """Return the key of a member of a shard, and its ending without the full stop."""
    folder, slash, file = name.rpartition("/")
    key, _, ending = file.partition(".")
    return f"{folder}{slash}{key}", ending


def _captions(text: str, value: object, settings: Shards) -> list[str]:
    if settings.caption == "txt":
        return [text.strip()]
    values = value if isinstance(value, list) else [] if value is None else [value]
    texts = [one for one in values if isinstance(one, str)]
    if len(texts) < len(values):
        raise ValueError(f"{settings.caption.partition(':')[2]} is {quote(value)}, no text or list of texts")
    "".join(texts).encode()  # half a character is no text
    return texts


def _table(shard: Place, column: str) -> dict[str, list[str]]:
    """Return the captions of img2dataset's table next to a shard, by key."""
    path = shard.path.removesuffix(".tar") + ".parquet"
    if is_address(path):
        todo = "Use the texts within the shards: corpus.caption = txt, or json:KEY."
        raise CorpusError("a table beside a shard is read from a folder only", where=path, todo=todo)
    todo = "img2dataset writes it beside the shard; corpus.caption names it."
    table = read_table(path, ["key", column], todo=todo, foreign=True)
    rows = zip(table["key"].to_pylist(), table[column].to_pylist(), strict=True)
    texts = mapping(
        ((str(key), text, f"{path}, row {number}") for number, (key, text) in enumerate(rows, 1)),
        "the key", column, CorpusError, todo="Give each picture a key of its own.",
    )  # fmt: skip
    return {key: [] if text is None else [str(text)] for key, text in texts.items()}
