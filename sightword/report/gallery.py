"""The gallery: captions with their retrieved pictures, and pictures with their retrieved captions."""

from __future__ import annotations

import base64
import hashlib
import io
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from PIL import Image

from sightword.images.shards import find_pictures
from sightword.io.files import read_table
from sightword.report.inputs import TODO

if TYPE_CHECKING:
    import pandas as pd

Item = TypeVar("Item")

OUTCOMES = ("first", "found", "missed")
"""The right answer came first, later in the list, or not in the list."""
SHOWN = 5
"""The number of captions to show for a picture; right captions further down are shown too."""

QUALITY = 80
"""The WebP quality of a thumbnail."""

QueryKey = tuple[str, int]
"""The picture and the number of a caption; -1 for the picture itself."""


class Tile(NamedTuple):
    """A picture or a caption in the gallery."""

    image_id: str
    text: str
    """The caption; the first one of a picture, shown in place of a missing picture."""
    position: int
    """1 for the best answer; 0 for a query, or for a right answer beyond the list."""
    right: bool
    thumbnail: str | None = None
    """A data URI; None for a caption, or without a resized picture."""


class Query(NamedTuple):
    """A caption with its retrieved pictures, or a picture with its retrieved captions."""

    asked: Tile
    outcome: str
    rank: int
    answers: list[Tile]
    truth: Tile | None
    """A right answer, if none is among the answers."""


class Gallery(NamedTuple):
    """All queries of the gallery."""

    split: str
    depth: int
    """The number of known answers to each query."""
    captions: list[Query]
    pictures: list[Query]
    with_thumbnails: int
    """The number of pictures with a thumbnail."""
    without_thumbnails: int


@dataclass(frozen=True)
class Captions:
    """The captions of the scored splits."""

    texts: Mapping[QueryKey, str] = field(default_factory=dict)
    first: Mapping[str, str] = field(default_factory=dict)
    """The first caption of each picture."""
    each: Mapping[str, list[int]] = field(default_factory=dict)
    """For each split, the number of captions of each picture."""

    def text(self, key: QueryKey) -> str:
        """Return a caption's text, or a description of an unknown caption."""
        return self.texts.get(key, f"{key[0]}, caption {key[1]}")

    def picture(self, image_id: str, thumbnails: Mapping[str, str], position: int = 0, *, right: bool = True) -> Tile:
        """Return the tile of a picture."""
        return Tile(image_id, self.first.get(image_id, ""), position, right, thumbnails.get(image_id))


def read_captions(path: Path, splits: list[str]) -> Captions:
    """Read the captions of the given splits; FileFormatError if the file cannot be read."""
    table = read_table(path, ["image_id", "caption", "split", "text"], todo=TODO).to_pandas()
    table = table[table["split"].isin(splits)]
    keys = zip(table["image_id"], table["caption"].astype(int), strict=True)
    texts = dict(zip(keys, table["text"], strict=True))
    first = {image_id: text for (image_id, _), text in sorted(texts.items(), reverse=True)}
    each = {str(split): rows.groupby("image_id").size().tolist() for split, rows in table.groupby("split")}
    return Captions(texts, first, each)


def read_top(path: Path) -> pd.DataFrame:
    """Read the best answers to each query; FileFormatError if the file cannot be read."""
    columns = ["split", "direction", "query_image", "query_caption", "position", "image_id", "caption", "right"]
    frame: pd.DataFrame = read_table(path, columns, todo=TODO).to_pandas()
    return frame.sort_values(["split", "direction", "query_image", "query_caption", "position"], kind="stable")


def build(top: pd.DataFrame, captions: Captions, resized: Path, *, number: int, thumbnail: int) -> Gallery:
    """Choose ``number`` captions and as many pictures, with their answers and thumbnails.

    ``resized`` is the folder of resized pictures, ``thumbnail`` the longest side of an answer's picture in pixels; a
    query's picture is twice as large.
    """
    split = headline_split(set(top["split"]))
    here = top[top["split"] == split]
    depth = int(here["position"].max()) if len(here) else 0
    asked, answers = [], []
    for direction in ("caption_to_image", "image_to_caption"):
        rows = here[here["direction"] == direction]
        asked.append(choose(first_right(rows), number))
        answers.append(answers_of(rows, asked[-1]))
    sizes = {image: thumbnail for rows in answers[0].values() for image, *_ in rows}
    sizes |= dict.fromkeys((image for image, _ in asked[0]), thumbnail)
    sizes |= dict.fromkeys((image for image, _ in asked[1]), 2 * thumbnail)
    shown = thumbnails(resized, sizes)

    to_pictures, to_captions = [], []
    for query, rank in asked[0].items():
        pictures = [captions.picture(image, shown, at, right=right) for image, _, at, right in answers[0][query]]
        own = None if rank else captions.picture(query[0], shown)
        caption = Tile(query[0], captions.text(query), 0, right=True)
        to_pictures.append(Query(caption, outcome(rank), rank, pictures, own))
    for query, rank in asked[1].items():
        lines = [Tile(image, captions.text((image, which)), at, right) for image, which, at, right in answers[1][query]]
        lines = [line for line in lines if line.position <= SHOWN or line.right]
        picture = captions.picture(query[0], shown)
        to_captions.append(Query(picture, outcome(rank), rank, lines, None if rank else picture))
    return Gallery(split, depth, to_pictures, to_captions, len(shown), len(sizes) - len(shown))


def answers_of(rows: pd.DataFrame, queries: Iterable[QueryKey]) -> dict[QueryKey, list[tuple[str, int, int, bool]]]:
    """Return the answers to some queries, best first: image_id, caption, position, and whether it is right."""
    answers: dict[QueryKey, list[tuple[str, int, int, bool]]] = {query: [] for query in queries}
    names = ("query_image", "query_caption", "image_id", "caption", "position", "right")
    for asked, caption, *answer in zip(*(rows[name].tolist() for name in names), strict=True):
        if (asked, caption) in answers:
            answers[asked, caption].append(tuple(answer))
    return answers


def thumbnails(folder: Path, sizes: Mapping[str, int]) -> dict[str, str]:
    """Return WebP data URIs of resized pictures by image id, at most ``sizes`` pixels wide or high; none if missing.

    The folder may be empty, as with precomputed features; FileFormatError without shards, or with a damaged one.
    """
    uris = {}
    for image_id, picture in sorted(find_pictures(folder, sizes).items()):
        small = Image.fromarray(picture.array()).convert("RGB")
        small.thumbnail((sizes[image_id], sizes[image_id]), Image.Resampling.LANCZOS)
        buffer = io.BytesIO()
        small.save(buffer, "WEBP", quality=QUALITY, method=6)
        uris[image_id] = "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
    return uris


def evenly(items: Sequence[Item], number: int) -> list[Item]:
    """Return at most ``number`` items, evenly over their order: of queries, over their outcomes."""
    return [items[place * len(items) // number] for place in range(number)] if len(items) > number else list(items)


def first_right(rows: pd.DataFrame) -> dict[QueryKey, int]:
    """Return each query with the position of its first right answer, or 0 without a right answer."""
    right = rows["position"].where(rows["right"]).groupby([rows["query_image"], rows["query_caption"]])
    best = right.min().fillna(0).astype(int).to_dict()
    return cast("dict[QueryKey, int]", best)


def choose(ranks: Mapping[QueryKey, int], number: int) -> dict[QueryKey, int]:
    """Choose queries deterministically: a third of each outcome, as far as possible.

    Within an outcome a hash of the query sets the order; a picture is used once, as long as there are others.
    """
    used: set[str] = set()
    sizes: Counter[tuple[bool, int]] = Counter()
    turns = {}
    """Whether the picture is used again, the place within the outcome, and the outcome: the outcomes take turns."""
    for query in sorted(ranks, key=by_hash):
        again, kind = query[0] in used, OUTCOMES.index(outcome(ranks[query]))
        turns[query] = (again, sizes[again, kind], kind)
        sizes[again, kind] += 1
        used.add(query[0])
    chosen = sorted(turns, key=turns.__getitem__)[:number]
    chosen.sort(key=lambda query: (turns[query][2], ranks[query], by_hash(query)))
    return {query: ranks[query] for query in chosen}


def outcome(rank: int) -> str:
    """Return the name in :data:`OUTCOMES` for the position of the first right answer (0: none)."""
    return "missed" if rank == 0 else "first" if rank == 1 else "found"


def by_hash(query: QueryKey) -> str:
    """Return a hash of a query, for an arbitrary order that is always the same."""
    return hashlib.sha256(f"{query[0]}\n{query[1]}".encode()).hexdigest()


def headline_split(retrieval: Collection[str]) -> str:
    """Return the split that sums up a run: test, or else the first by name; test without any scored split."""
    return "test" if "test" in retrieval or not retrieval else min(retrieval)
