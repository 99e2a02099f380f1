"""Published retrieval results, for comparison with a run.

The numbers are as printed in the papers: recall in percent, rounded by their authors. They hold only for the named data
set and its number of candidates.
"""

from __future__ import annotations

from typing import NamedTuple


class Direction(NamedTuple):
    """Scores of one direction; None for unreported scores."""

    r1: float | None
    r5: float | None
    r10: float | None
    median_rank: float | None = None
    mean_rank: float | None = None


class PublishedRow(NamedTuple):
    """One system on one test set; a system without a name has the name of its paper."""

    system: str
    data: str
    """The test set, with the number of pictures if several are in use."""
    source: str
    caption_to_image: Direction | None
    image_to_caption: Direction | None


MERKX = "Merkx & Frank 2019"
VENDROV = "Vendrov et al. 2016"
FAGHRI = "Faghri et al. 2018"
VSEPP = "VSE++ (fine-tuned ResNet-152)"

_TABLE: tuple[tuple[str, str, str, tuple[float | None, ...], tuple[float | None, ...]], ...] = (
    ("char-GRU", "Flickr8k", MERKX, (27.5, 58.2, 70.5, 4), (38.5, 68.9, 79.3, 2)),
    ("Klein 2015", "Flickr8k", "Klein 2015", (21.2, 50.0, 64.8, 5), (31.0, 59.3, 73.7, 4)),
    ("Wehrmann 2018", "Flickr8k", "Wehrmann 2018", (26.9, None, 69.6, 4), (32.4, None, 73.6, 3)),
    ("Dong 2018", "Flickr8k", "Dong 2018", (), (36.3, 66.4, 78.2)),
    ("char-GRU", "COCO 1k", MERKX, (41.4, 76.8, 88.0, 2), (51.2, 83.5, 92.1, 1.2)),
    ("order-embeddings", "COCO 1k", VENDROV, (37.9, None, 85.9, 2, 8.1), (46.7, None, 88.9, 2, 5.7)),
    ("order-embeddings, symmetric", "COCO 1k", VENDROV, (36.3, None, 85.8, 2, 9.0), (45.4, None, 88.7, 2, 5.8)),
    ("order-embeddings, 1 crop", "COCO 1k", VENDROV, (33.5, None, 82.2, 2.6), (41.4, None, 84.2, 2)),
    ("order-embeddings, reversed", "COCO 1k", VENDROV, (12.3, None, 53.5, 9), (11.2, None, 44.0, 14.2)),
    (VSEPP, "COCO 1k", FAGHRI, (52.0, 84.3, 92.0, 1), (64.6, 90.0, 95.7, 1)),
    ("char-GRU", "COCO 5k", MERKX, (20.2, 46.9, 60.9, 6), (25.7, 54.3, 68.8, 4)),
    ("order-embeddings", "COCO 5k", VENDROV, (18.0, None, 57.6, 7, 35.9), (23.3, None, 65.0, 5, 24.4)),
    (VSEPP, "COCO 5k", FAGHRI, (30.3, 59.4, 72.4, 4), (41.3, 71.1, 81.2, 2)),
    ("Kiela 2018", "COCO 5k", "Kiela 2018", (17.1, 43.0, 57.3, 8), (27.1, 55.6, 70.0, 4)),
)

ROWS = tuple(
    PublishedRow(*row[:3], Direction(*row[3]) if row[3] else None, Direction(*row[4]) if row[4] else None)
    for row in _TABLE
)
"""The rows by data set, with the char-GRU first in each."""

PROTOCOLS = {"Flickr8k": "full", "COCO 1k": "five_fold_1k", "COCO 5k": "full"}
"""The protocol of each test set's rows."""
_COCO = {"caption_to_image": 25_000, "image_to_caption": 5_000}
QUERIES = {"Flickr8k": {"caption_to_image": 5_000, "image_to_caption": 1_000}, "COCO 1k": _COCO, "COCO 5k": _COCO}
"""Queries of each test set by direction, with five captions a picture; on COCO 1k the sum of all five folds."""
