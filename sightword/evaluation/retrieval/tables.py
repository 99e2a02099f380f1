"""Makes tables to read and plot: the best candidates of each query, recall at every k, the distribution of ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sightword.evaluation.retrieval.protocols import hits
from sightword.evaluation.retrieval.ranks import Ranks

TOP_SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("split", "direction", "query_image")]
    + [("query_caption", pa.int32()), ("position", pa.int32()), ("image_id", pa.string())]
    + [("caption", pa.int32()), ("score", pa.float32()), ("right", pa.bool_())]
)
"""The columns of ``data/retrieval/top.parquet``; a caption of -1 marks a side that is a picture."""


def top_table(
    ranks: Ranks,
    *,
    split: str,
    image_ids: Sequence[str],
    image_of_caption: NDArray[np.int64],
    caption_numbers: NDArray[np.int64],
) -> pa.Table:
    """Return the best candidates of each query by their ids.

    Args:
        ranks: the ranks of all pictures and captions of the split, with their best candidates.
        split: the name of the split.
        image_ids: (N,) the pictures' ids.
        image_of_caption: (M,) the row of each caption's picture.
        caption_numbers: (M,) each caption's number within its picture.

    Returns:
        A table with :data:`TOP_SCHEMA`: captions as queries, then pictures as queries, each in the order of their rows,
        the best candidate first.

    Raises:
        ValueError: the ranks have no best candidates.
    """
    if ranks.top_images is None or ranks.top_captions is None:
        raise ValueError("the ranks were made without their best candidates")
    ids = np.asarray(image_ids, dtype=object)
    parts = []
    for direction, top in (("caption_to_image", ranks.top_images), ("image_to_caption", ranks.top_captions)):
        count, width = top.candidate.shape
        queries, candidates = np.repeat(np.arange(count), width), top.candidate.ravel()
        captions, images = (queries, candidates) if direction == "caption_to_image" else (candidates, queries)
        caption = image_of_caption[captions], caption_numbers[captions]
        picture = images, np.full(len(images), -1)
        query, answer = (caption, picture) if direction == "caption_to_image" else (picture, caption)
        columns = (
            *([split] * len(queries), [direction] * len(queries)),
            *(ids[query[0]], query[1], np.tile(np.arange(1, width + 1), count)),
            *(ids[answer[0]], answer[1]),
            # Six places, since further digits may depend on the number of threads.
            np.round(top.score.ravel(), 6).astype(np.float32),
            query[0] == answer[0],
        )
        arrays = [pa.array(column, field.type) for column, field in zip(columns, TOP_SCHEMA, strict=True)]
        parts.append(pa.table(arrays, schema=TOP_SCHEMA))
    return pa.concat_tables(parts).combine_chunks()


def recall_rows(ranks: Ranks) -> list[tuple[int, float, float]]:
    """Return the recalls at every k up to 100 or the number of pictures: k, caption to image, image to caption."""
    depths = range(1, min(100, len(ranks.image_to_caption)) + 1)
    return [(k, hits(ranks.caption_to_image, k), hits(ranks.image_to_caption, k)) for k in depths]


def rank_rows(ranks: Ranks) -> list[tuple[str, float, float]]:
    """Return the percentages of ranks of 1, 2, 3-4, 5-8 and so on: label, caption to image, image to caption."""
    sides = ranks.caption_to_image, ranks.image_to_caption
    rows, low, high = [], 1, 1
    while low <= max(side.max() for side in sides):
        there, back = (100.0 * float(((side >= low) & (side <= high)).mean()) for side in sides)
        rows.append((str(low) if low == high else f"{low}-{high}", there, back))
        low, high = high + 1, 2 * high
    return rows
