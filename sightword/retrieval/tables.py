"""What a person looks at: the best candidates of each query, recall at every k, the spread of ranks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sightword.retrieval.best import Top
from sightword.retrieval.protocols import hits
from sightword.retrieval.ranks import Ranks

TOP_SCHEMA = pa.schema(
    [
        ("split", pa.string()),
        ("direction", pa.string()),
        ("query_image", pa.string()),
        ("query_caption", pa.int32()),
        ("position", pa.int32()),
        ("image_id", pa.string()),
        ("caption", pa.int32()),
        ("score", pa.float32()),
        ("right", pa.bool_()),
    ]
)
"""The columns of ``data/retrieval/top.parquet``; a caption of -1 says that this side is a picture."""


def top_table(
    ranks: Ranks,
    *,
    split: str,
    image_ids: Sequence[str],
    image_of_caption: NDArray[np.int64],
    caption_numbers: NDArray[np.int64],
) -> pa.Table:
    """The best candidates of each query, with ids.

    Args:
        ranks: of all pictures and captions of the split, with their best candidates.
        split: its name.
        image_ids: (N,) the pictures' ids.
        image_of_caption: (M,) the row of each caption's picture.
        caption_numbers: (M,) each caption's number within its picture.

    Returns:
        A table with :data:`TOP_SCHEMA`, captions as queries first, then pictures,
        each in the order of their rows, best candidate first.

    Raises:
        ValueError: the ranks came without best candidates.
    """
    if ranks.top_images is None or ranks.top_captions is None:
        raise ValueError("the ranks were made without their best candidates")
    ids = np.asarray(image_ids, dtype=object)
    parts = []
    for direction, top in (("caption_to_image", ranks.top_images), ("image_to_caption", ranks.top_captions)):
        queries, positions, candidates = _flat(top)
        if direction == "caption_to_image":
            query_image, query_caption = image_of_caption[queries], caption_numbers[queries]
            image, caption = candidates, np.full(len(candidates), -1)
        else:
            query_image, query_caption = queries, np.full(len(queries), -1)
            image, caption = image_of_caption[candidates], caption_numbers[candidates]
        columns = {
            "split": pa.array([split] * len(queries), pa.string()),
            "direction": pa.array([direction] * len(queries), pa.string()),
            "query_image": pa.array(ids[query_image], pa.string()),
            "query_caption": pa.array(query_caption.astype(np.int32)),
            "position": pa.array(positions.astype(np.int32)),
            "image_id": pa.array(ids[image], pa.string()),
            "caption": pa.array(caption.astype(np.int32)),
            # Six places: what lies below may differ from one number of threads to another.
            "score": pa.array(np.round(top.score.ravel(), 6).astype(np.float32)),
            "right": pa.array(query_image == image),
        }
        parts.append(pa.table(columns, schema=TOP_SCHEMA))
    return pa.concat_tables(parts).combine_chunks()


def _flat(top: Top) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    queries, width = top.candidate.shape
    return np.repeat(np.arange(queries), width), np.tile(np.arange(1, width + 1), queries), top.candidate.ravel()


def recall_rows(ranks: Ranks, *, most: int = 100) -> list[tuple[int, float, float]]:
    """Recall at every k up to ``most`` (or the number of pictures): k, caption to image, image to caption."""
    return [
        (k, hits(ranks.caption_to_image, k), hits(ranks.image_to_caption, k))
        for k in range(1, min(most, len(ranks.image_to_caption)) + 1)
    ]


def rank_rows(ranks: Ranks) -> list[tuple[str, float, float]]:
    """Percent of the queries with a rank of 1, 2, 3-4, 5-8 and so on: label, caption to image, image to caption."""
    worst = int(max(ranks.caption_to_image.max(), ranks.image_to_caption.max()))
    rows, low = [], 1
    while low <= worst:
        high = 1 if low == 1 else 2 * (low - 1)
        label = str(low) if low == high else f"{low}-{high}"
        shares = [
            100.0 * float(((found >= low) & (found <= high)).mean())
            for found in (ranks.caption_to_image, ranks.image_to_caption)
        ]
        rows.append((label, shares[0], shares[1]))
        low = high + 1
    return rows
