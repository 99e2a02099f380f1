"""Published retrieval results, for comparison with a run.

The numbers are as printed in the papers: recall in percent, rounded by their authors. They hold only for the named data
set and its number of candidates.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Direction:
    """Scores of one direction; None for unreported scores."""

    r1: float | None
    r5: float | None
    r10: float | None
    median_rank: float | None = None
    mean_rank: float | None = None


@dataclass(frozen=True)
class PublishedRow:
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

ROWS = (
    PublishedRow("char-GRU", "Flickr8k", MERKX, Direction(27.5, 58.2, 70.5, 4), Direction(38.5, 68.9, 79.3, 2)),
    PublishedRow(
        "Klein 2015", "Flickr8k", "Klein 2015", Direction(21.2, 50.0, 64.8, 5), Direction(31.0, 59.3, 73.7, 4)
    ),
    PublishedRow(
        "Wehrmann 2018", "Flickr8k", "Wehrmann 2018", Direction(26.9, None, 69.6, 4), Direction(32.4, None, 73.6, 3)
    ),
    PublishedRow("Dong 2018", "Flickr8k", "Dong 2018", None, Direction(36.3, 66.4, 78.2)),
    PublishedRow("char-GRU", "COCO 1k", MERKX, Direction(41.4, 76.8, 88.0, 2), Direction(51.2, 83.5, 92.1, 1.2)),
    PublishedRow(
        "order-embeddings", "COCO 1k", VENDROV, Direction(37.9, None, 85.9, 2, 8.1), Direction(46.7, None, 88.9, 2, 5.7)
    ),
    PublishedRow(
        "order-embeddings, symmetric",
        "COCO 1k",
        VENDROV,
        Direction(36.3, None, 85.8, 2, 9.0),
        Direction(45.4, None, 88.7, 2, 5.8),
    ),
    PublishedRow(
        "order-embeddings, 1 crop", "COCO 1k", VENDROV, Direction(33.5, None, 82.2, 2.6), Direction(41.4, None, 84.2, 2)
    ),
    PublishedRow(
        "order-embeddings, reversed",
        "COCO 1k",
        VENDROV,
        Direction(12.3, None, 53.5, 9),
        Direction(11.2, None, 44.0, 14.2),
    ),
    PublishedRow(
        "VSE++ (fine-tuned ResNet-152)",
        "COCO 1k",
        FAGHRI,
        Direction(52.0, 84.3, 92.0, 1),
        Direction(64.6, 90.0, 95.7, 1),
    ),
    PublishedRow("char-GRU", "COCO 5k", MERKX, Direction(20.2, 46.9, 60.9, 6), Direction(25.7, 54.3, 68.8, 4)),
    PublishedRow(
        "order-embeddings",
        "COCO 5k",
        VENDROV,
        Direction(18.0, None, 57.6, 7, 35.9),
        Direction(23.3, None, 65.0, 5, 24.4),
    ),
    PublishedRow(
        "VSE++ (fine-tuned ResNet-152)",
        "COCO 5k",
        FAGHRI,
        Direction(30.3, 59.4, 72.4, 4),
        Direction(41.3, 71.1, 81.2, 2),
    ),
    PublishedRow("Kiela 2018", "COCO 5k", "Kiela 2018", Direction(17.1, 43.0, 57.3, 8), Direction(27.1, 55.6, 70.0, 4)),
)
"""The rows by data set, with the char-GRU first in each."""

_COCO = {"caption_to_image": 25_000, "image_to_caption": 5_000}
QUERIES = {"Flickr8k": {"caption_to_image": 5_000, "image_to_caption": 1_000}, "COCO 1k": _COCO, "COCO 5k": _COCO}
"""Queries of each test set by direction, with five captions a picture; on COCO 1k the sum of all five folds."""
