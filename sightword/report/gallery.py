"""The gallery: captions with their retrieved pictures, and pictures with their retrieved captions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sightword.files import read_table
from sightword.report.summary import headline_split
from sightword.report.thumbnails import thumbnails

if TYPE_CHECKING:
    import pandas as pd

TODO = "`dvc repro` makes it."
OUTCOMES = ("first", "found", "missed")
"""The right answer came first, later in the list, or not in the list."""
SHOWN = 5
"""The number of captions to show for a picture; right captions further down are shown too."""


@dataclass(frozen=True)
class Tile:
    """A picture in the gallery.

    Attributes:
        image_id: its id.
        text: its first caption, shown in place of a missing picture.
        thumbnail: a data URI, or None without a resized picture.
        position: 1 for the best answer; 0 for a picture that is not an answer.
        right: whether it is the right answer.
    """

    image_id: str
    text: str
    thumbnail: str | None
    position: int
    right: bool


@dataclass(frozen=True)
class CaptionQuery:
    """A caption with its retrieved pictures; ``truth`` is its own picture, if not among them."""

    text: str
    outcome: str
    rank: int
    answers: list[Tile]
    truth: Tile | None


@dataclass(frozen=True)
class Answer:
    """A caption in the gallery; ``position`` is 0 for a caption that is not an answer."""

    text: str
    position: int
    right: bool


@dataclass(frozen=True)
class PictureQuery:
    """A picture with its retrieved captions; ``truth`` is one of its own captions, if none is among them."""

    picture: Tile
    outcome: str
    rank: int
    answers: list[Answer]
    truth: Answer | None


@dataclass(frozen=True)
class Gallery:
    """All queries of the gallery.

    Attributes:
        split: the split of the queries.
        depth: the number of known answers to each query.
        captions: the captions used as queries.
        pictures: the pictures used as queries.
        with_thumbnails: the number of pictures with a thumbnail.
        without_thumbnails: the number of pictures without a thumbnail.
    """

    split: str
    depth: int
    captions: list[CaptionQuery]
    pictures: list[PictureQuery]
    with_thumbnails: int
    without_thumbnails: int


@dataclass(frozen=True)
class Captions:
    """The captions of the scored splits.

    Attributes:
        texts: (image_id, caption) -> text.
        first: image_id -> its first caption.
        each: for each split, the number of captions of each picture.
    """

    texts: Mapping[tuple[str, int], str]
    first: Mapping[str, str]
    each: Mapping[str, list[int]]


def read_captions(path: Path, splits: list[str]) -> Captions:
    """Read the captions of the given splits.

    Raises:
        FileFormatError: the file cannot be read.
    """
    table = read_table(path, ["image_id", "caption", "split", "text"], todo=TODO).to_pandas()
    table = table[table["split"].isin(splits)]
    keys = zip(table["image_id"], table["caption"].astype(int), strict=True)
    texts = dict(zip(keys, table["text"], strict=True))
    first: dict[str, str] = {}
    for (image_id, _), text in sorted(texts.items()):
        first.setdefault(image_id, text)
    each = {
        str(split): rows.groupby("image_id", sort=True).size().tolist()
        for split, rows in table.groupby("split", sort=True)
    }
    return Captions(texts, first, each)


def read_top(path: Path) -> pd.DataFrame:
    """Read the best answers to each query.

    Raises:
        FileFormatError: the file cannot be read.
    """
    columns = ["split", "direction", "query_image", "query_caption", "position", "image_id", "caption", "right"]
    frame: pd.DataFrame = read_table(path, columns, todo=TODO).to_pandas()
    return frame.sort_values(["split", "direction", "query_image", "query_caption", "position"], kind="stable")


def build(top: pd.DataFrame, captions: Captions, resized: Path, *, number: int, thumbnail: int) -> Gallery:
    """Choose queries and combine them with their answers and thumbnails.

    Args:
        top: from :func:`read_top`.
        captions: from :func:`read_captions`.
        resized: the folder of resized pictures.
        number: how many captions, and how many pictures, to show.
        thumbnail: the longest side of an answer's picture in pixels; a query's picture is twice as large.
    """
    splits = sorted(set(top["split"]))
    split = headline_split(splits)
    here = top[top["split"] == split]
    to_picture = here[here["direction"] == "caption_to_image"]
    to_caption = here[here["direction"] == "image_to_caption"]
    depth = int(here["position"].max()) if len(here) else 0
    asked_captions = choose(first_right(to_picture), number)
    asked_pictures = choose(first_right(to_caption), number)

    found = {key: rows for key, rows in to_picture.groupby(["query_image", "query_caption"]) if key in asked_captions}
    sizes = dict.fromkeys((image for rows in found.values() for image in rows["image_id"]), thumbnail)
    sizes |= dict.fromkeys((image for image, _ in asked_captions), thumbnail)
    sizes |= dict.fromkeys((image for image, _ in asked_pictures), 2 * thumbnail)
    shown = thumbnails(resized, sizes)

    def tile(image_id: str, position: int, *, right: bool) -> Tile:
        return Tile(image_id, captions.first.get(image_id, ""), shown.get(image_id), position, right)

    caption_queries = []
    for (image_id, caption), rank in asked_captions.items():
        rows = found[image_id, caption]
        answers = [
            tile(answer, int(position), right=bool(right))
            for answer, position, right in zip(rows["image_id"], rows["position"], rows["right"], strict=True)
        ]
        truth = None if rank else tile(image_id, 0, right=True)
        text = captions.texts.get((image_id, caption), f"{image_id}, caption {caption}")
        caption_queries.append(CaptionQuery(text, outcome(rank), rank, answers, truth))

    picture_queries = []
    wanted = to_caption[to_caption["query_image"].isin([image for image, _ in asked_pictures])]
    by_picture = {str(key): rows for key, rows in wanted.groupby("query_image")}
    for (image_id, _), rank in asked_pictures.items():
        rows = by_picture[image_id]
        lines = [
            Answer(
                captions.texts.get((answer, int(caption)), f"{answer}, caption {caption}"), int(position), bool(right)
            )
            for answer, caption, position, right in zip(
                rows["image_id"], rows["caption"], rows["position"], rows["right"], strict=True
            )
        ]
        lines = [line for line in lines if line.position <= SHOWN or line.right]
        own = None if rank else Answer(captions.first.get(image_id, ""), 0, right=True)
        picture_queries.append(PictureQuery(tile(image_id, 0, right=True), outcome(rank), rank, lines, own))
    return Gallery(split, depth, caption_queries, picture_queries, len(shown), len(sizes) - len(shown))


def some_texts(captions: Captions, shown: Gallery, number: int) -> list[str]:
    """Return captions for the attention section: gallery queries, evenly over their outcomes, then others by a hash."""
    asked = list(dict.fromkeys(query.text for query in shown.captions))
    if len(asked) >= number:
        return [asked[place * len(asked) // number] for place in range(number)]
    others = [captions.texts[query] for query in sorted(captions.texts, key=by_hash)]
    return list(dict.fromkeys([*asked, *others]))[:number]


def first_right(rows: pd.DataFrame) -> dict[tuple[str, int], int]:
    """Return each query with the position of its first right answer, or 0 without a right answer."""
    best: dict[tuple[str, int], int] = {}
    columns = (rows[name].tolist() for name in ("query_image", "query_caption", "position", "right"))
    for image, caption, position, right in zip(*columns, strict=True):
        before = best.setdefault((image, caption), 0)
        if right and not 0 < before <= position:
            best[image, caption] = position
    return best


def choose(ranks: Mapping[tuple[str, int], int], number: int) -> dict[tuple[str, int], int]:
    """Choose queries deterministically: a third of each outcome, as far as possible.

    Within an outcome a hash of the query sets the order, so that nobody picks; a picture is used once, as long as there
    are others.

    Args:
        ranks: from :func:`first_right`.
        number: the number of queries to choose.

    Returns:
        The chosen queries with their ranks, by outcome.
    """
    waiting: dict[str, list[tuple[str, int]]] = {name: [] for name in OUTCOMES}
    again: dict[str, list[tuple[str, int]]] = {name: [] for name in OUTCOMES}
    used: set[str] = set()
    for query in sorted(ranks, key=by_hash):
        fresh = query[0] not in used
        used.add(query[0])
        (waiting if fresh else again)[outcome(ranks[query])].append(query)
    chosen: list[tuple[str, int]] = []
    for pool in (waiting, again):
        while len(chosen) < number and any(pool.values()):
            for name in OUTCOMES:
                if pool[name] and len(chosen) < number:
                    chosen.append(pool[name].pop(0))
    chosen.sort(key=lambda query: (OUTCOMES.index(outcome(ranks[query])), ranks[query], by_hash(query)))
    return {query: ranks[query] for query in chosen}


def outcome(rank: int) -> str:
    """Return the name in :data:`OUTCOMES` for the position of the first right answer (0: none)."""
    return "missed" if rank == 0 else "first" if rank == 1 else "found"


def by_hash(query: tuple[str, int]) -> str:
    """Return a hash, for an order that nobody chose."""
    return hashlib.sha256(f"{query[0]}\n{query[1]}".encode()).hexdigest()
