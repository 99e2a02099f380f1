"""Looks at a folder or a file, and says which settings read the corpus that is there."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sightword.corpus.columns import BINARY, NAMES, Role, columns_of, layout
from sightword.corpus.flickr8k import CAPTIONS
from sightword.corpus.listing import PICTURE_SUFFIXES, list_pictures, walk
from sightword.corpus.reading import read_corpus
from sightword.corpus.records import Corpus, split_of
from sightword.corpus.settings import CorpusSettings, NoSplitError
from sightword.corpus.shards import Shards, read_shard
from sightword.corpus.table import ARROW, TEXT
from sightword.errors import CorpusError
from sightword.messages import and_more, plural, short
from sightword.places.place import is_listing
from sightword.settings import SPLITS

SHARE = 0.1
"""The share of pictures drawn for dev, and for test, where the data name no split."""
_KARPATHY = re.compile(r"dataset_(?!dict|info).+\.json")
"""Karpathy's files, and not what ``save_to_disk`` of ``datasets`` writes beside its Arrow files."""
_ENOUGH = 100
"""Pictures of dev or test, below which the words have a warning."""
_TODO = "docs/data.md shows the forms; a table with the columns image and caption can be made of any other."
_EXPECTED = "tables of pictures and captions (.csv, .tsv, .parquet), dataset_*.json, captions_*.json, or .tar"


class Found(NamedTuple):
    """What was found."""

    values: dict[str, Any]
    """The keys of the section ``corpus``."""
    words: list[str]
    """What is there, in sentences: pictures, captions, splits."""


def look(path: Path, columns: Mapping[Role, str] = {}) -> Found:
    """Look at the corpus in a folder, or in a file, and read it.

    Args:
        path: the folder, or one file of it, relative to the project's folder.
        columns: the columns of tables that have no usual name, as ``corpus.columns``.

    Raises:
        SightwordError: there is no corpus, or it cannot be read; the message is that of the format's reader.
    """
    folder = path if path.is_dir() else path.parent
    if not path.exists():
        raise CorpusError("does not exist", where=path, expected=_EXPECTED)
    values: dict[str, Any] = {"path": str(folder), "pictures": str(folder), **_format(path, folder)}
    if columns and values["format"] != "table":
        what = f"has the format {values['format']}, whose columns have no other names"
        raise CorpusError(what, where=path, todo="Leave the names of columns out.")
    if columns:
        values["columns"] = {**columns}
    if values["format"] == "shards":
        values["pictures"] = str(path)
        values["caption"] = _caption(Shards(**values))
    elif pictures := _pictures(folder):
        values["pictures"] = pictures
    elif not BINARY.fullmatch(first := CorpusSettings(**values).files()[0]) or not layout(folder / first, columns).data:
        values |= {"pictures": str(folder / "images"), "require_pictures": False}
    try:
        corpus, values = _read(values)
    except CorpusError as error:
        if values["format"] != "table":
            raise
        try:  # a table may name its pictures by the path from the table
            corpus, values = _read(values | {"pictures": str(folder)})
        except CorpusError:
            raise error from None
    named = []
    if values["format"] == "table":
        first = CorpusSettings(**values).files()[0]
        if taken := columns_of(folder / first, columns):
            others = (f"{role} = {short(name)}" for role, name in taken._asdict().items() if isinstance(name, str))
            named = [f"Columns of {first}: captions = {and_more(taken.captions)}; {'; '.join(others)}."]
    return Found(values, [*_words(corpus), *named])


def _read(values: Mapping[str, Any]) -> tuple[Corpus, dict[str, Any]]:
    """Return the corpus, and the settings with the draw of the splits that the data do not name."""
    corpus: Corpus | None = None
    try:
        corpus = read_corpus(CorpusSettings(**values))
        if values["format"] in ("table", "shards") and 0 in corpus.counts().values():
            raise NoSplitError("lacks a split")
    except NoSplitError:
        drawn = {**values, "draw_dev": SHARE, "draw_test": SHARE}
        try:
            return read_corpus(CorpusSettings(**drawn)), drawn
        except CorpusError:
            if corpus is None or sum(map(bool, corpus.counts().values())) < 2:
                raise  # the corpus has one split alone
    return corpus, {**values}


def _format(path: Path, folder: Path) -> Mapping[str, Any]:
    """Return the format, and the file where one of several is meant."""
    names = [path.name] if path.is_file() else sorted(one.name for one in folder.iterdir())
    own = {"file": path.name} if path.is_file() else {}
    if CAPTIONS in names:
        return {"format": "flickr8k"}
    if any(_KARPATHY.fullmatch(name) for name in names):
        return {"format": "karpathy", **own}
    below = [] if path.is_file() else sorted(one.name for one in folder.glob("annotations/captions_*.json"))
    if captions := [one for one in dict.fromkeys([*names, *below]) if re.fullmatch(r"captions_.*\.json", one)]:
        splits = {name: split_of(name) for name in captions}
        if None in splits.values():
            lost = next(name for name, split in splits.items() if split is None)
            todo = "Call the files captions_train.json, captions_val.json and captions_test.json."
            raise CorpusError(f"the name of {lost} has no split, and COCO's JSON is not divided", where=path, todo=todo)
        listed = {split: [name for name, one in splits.items() if one == split] for split in SPLITS}
        return {"format": "coco", **{f"coco_{split}": some for split, some in listed.items()}}
    every = names if path.is_file() else [one.name for _, one in walk(folder, linked=False)]
    stems = {name.removesuffix(".tar") for name in every if name.endswith(".tar")}
    if any(f"{stem}.parquet" in every for stem in stems):  # img2dataset's shards, each with its table
        return {"format": "shards"}
    if any(TEXT.fullmatch(name) for name in names) or any(BINARY.fullmatch(name) for name in every):
        return {"format": "table", **own}
    if stems:
        return {"format": "shards"}
    what = f"holds no captions that are known (it has {and_more(names, 5) or 'nothing'})"
    raise CorpusError(
        what, where=path, expected=_EXPECTED, todo=ARROW if any(name.endswith(".arrow") for name in every) else _TODO
    )


def _caption(settings: Shards) -> str:
    """Return where the first shard has captions: in its text files, or under a usual name in its JSON files."""
    first = next(iter(settings.shards().values()))
    for kind in ("txt", *(f"json:{name}" for name in NAMES["caption"])):
        if any(read_shard(first, settings.model_copy(update={"caption": kind})).captions.values()):
            return kind
    return settings.caption


def _pictures(folder: Path) -> str | None:
    """Return the folder of loose pictures, the one that is or has below it all folders with pictures; else the tar, or
    the listing of a bucket.
    """
    listed = list_pictures(folder, required=True)
    files = listed.files if listed else frozenset()
    having = {str(Path(name).parent) for name in files if name.lower().endswith(PICTURE_SUFFIXES)}
    tars = [name for name in files if name.endswith(".tar")]
    if having:
        return str(folder / os.path.commonpath(having))
    listings = [str(one) for one in sorted(folder.glob("*.csv")) if is_listing(one)]
    places = [str(folder / name) for name in tars] or listings
    return places[0] if len(places) == 1 else None


def _words(corpus: Corpus) -> list[str]:
    counts = ", ".join(f"{count} {split}" for split, count in corpus.counts().items())
    words = [f"{plural(len(corpus.images), 'picture')} ({counts}), {plural(len(corpus.captions), 'caption')}."]
    if all(image.path is None for image in corpus.images):
        words.append("No picture has a file here: its features must come precomputed.")
    if corpus.drawing:
        words.append(f"{corpus.drawing}.")
    if few := [split for split in ("dev", "test") if corpus.counts()[split] < _ENOUGH]:
        has = f"{' and '.join(few).capitalize()} {'have' if len(few) > 1 else 'has'} few pictures"
        words.append(f"{has}: recall among fewer than {_ENOUGH} is high by chance.")
    if corpus.dropped:
        reasons = Counter(row.reason for row in corpus.dropped)
        words.append(f"Left out: {', '.join(f'{count} {reason}' for reason, count in reasons.most_common())}.")
    return words
