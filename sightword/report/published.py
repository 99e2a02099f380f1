"""Published retrieval results, for comparison with a run.

The numbers are as printed in Table 2 of Merkx & Frank (2019) and Table 2 of Vendrov et al. (2016): recall in percent,
rounded by the authors. A row of another paper's system names the table that it was read in. The numbers hold only for
the named data set and its number of candidates.
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
    """One system on one test set."""

    system: str
    data: str
    """The test set, with the number of pictures if several are in use."""
    source: str
    """Where the row is printed, after the paper of the system if that is another one."""
    caption_to_image: Direction | None
    image_to_caption: Direction | None


MERKX = "Merkx & Frank 2019"
VENDROV = "Vendrov et al. 2016"
FAGHRI = f"Faghri et al. 2018, in {MERKX}"
VSEPP = "VSE++ (fine-tuned ResNet-152)"
FOLDS = "COCO 1k"
OLDER = "COCO 1k, earlier systems"
"""Systems of other papers in Vendrov et al., who do not say how many of the test pictures their rows rest on."""

_TABLE: tuple[tuple[str, str, str, tuple[float | None, ...], tuple[float | None, ...]], ...] = (
    ("char-GRU", "Flickr8k", MERKX, (27.5, 58.2, 70.5, 4), (38.5, 68.9, 79.3, 2)),
    ("Klein 2015", "Flickr8k", f"in {MERKX}", (21.2, 50.0, 64.8, 5), (31.0, 59.3, 73.7, 4)),
    ("Wehrmann 2018", "Flickr8k", f"in {MERKX}", (26.9, None, 69.6, 4), (32.4, None, 73.6, 3)),
    ("Dong 2018", "Flickr8k", f"in {MERKX}", (), (36.3, 66.4, 78.2)),
    ("char-GRU", FOLDS, MERKX, (41.4, 76.8, 88.0, 2), (51.2, 83.5, 92.1, 1.2)),
    ("Wehrmann 2018", FOLDS, f"in {MERKX}", (40.4, None, 88.6, 2), (49.5, None, 91.3, 1.6)),
    ("order-embeddings", FOLDS, VENDROV, (37.9, None, 85.9, 2, 8.1), (46.7, None, 88.9, 2, 5.7)),
    ("order-embeddings, symmetric", FOLDS, VENDROV, (36.3, None, 85.8, 2, 9.0), (45.4, None, 88.7, 2, 5.8)),
    ("order-embeddings, 1 crop", FOLDS, VENDROV, (33.5, None, 82.2, 2.6, 10.0), (41.4, None, 84.2, 2, 8.7)),
    ("order-embeddings, reversed", FOLDS, VENDROV, (12.3, None, 53.5, 9, 30.1), (11.2, None, 44.0, 14.2, 86.6)),
    (VSEPP, FOLDS, FAGHRI, (52.0, 84.3, 92.0, 1), (64.6, 90.0, 95.7, 1)),
    ("FV", FOLDS, f"Klein et al. 2015, in {VENDROV}", (25.1, None, 76.6, 4, 11.1), (39.4, None, 80.9, 2, 10.4)),
    ("MNLM", OLDER, f"Kiros et al. 2014, in {VENDROV}", (31.0, None, 79.9, 3), (43.4, None, 85.8, 2)),
    ("m-RNN", OLDER, f"Mao et al. 2015, in {VENDROV}", (29.0, None, 77.0, 3), (41.0, None, 83.5, 2)),
    ("DVSA", OLDER, f"Karpathy & Li 2015, in {VENDROV}", (27.4, None, 74.8, 3), (38.4, None, 80.5, 1)),
    ("STV", OLDER, f"Kiros et al. 2015, in {VENDROV}", (25.9, None, 74.6, 4), (33.8, None, 82.1, 3)),
    ("m-CNN", OLDER, f"Ma et al. 2015, in {VENDROV}", (27.4, None, 79.5, 3), (38.3, None, 81.0, 2)),
    ("m-CNN, four networks", OLDER, f"Ma et al. 2015, in {VENDROV}", (32.6, None, 82.8, 3), (42.8, None, 84.1, 2)),
    ("char-GRU", "COCO 5k", MERKX, (20.2, 46.9, 60.9, 6), (25.7, 54.3, 68.8, 4)),
    ("order-embeddings", "COCO 5k", VENDROV, (18.0, None, 57.6, 7, 35.9), (23.3, None, 65.0, 5, 24.4)),
    ("order-embeddings, symmetric", "COCO 5k", VENDROV, (16.8, None, 56.3, 8, 40.4), (21.5, None, 62.9, 6, 24.4)),
    (VSEPP, "COCO 5k", FAGHRI, (30.3, 59.4, 72.4, 4), (41.3, 71.1, 81.2, 2)),
    ("Kiela 2018", "COCO 5k", f"in {MERKX}", (17.1, 43.0, 57.3, 8), (27.1, 55.6, 70.0, 4)),
    ("DVSA", "COCO 5k", f"Karpathy & Li 2015, in {VENDROV}", (8.9, None, 36.3, 19.5), (11.8, None, 45.4, 12.2)),
    ("FV", "COCO 5k", f"Klein et al. 2015, in {VENDROV}", (10.8, None, 40.1, 17, 49.3), (17.3, None, 50.2, 10, 46.4)),
)

ROWS = tuple(
    PublishedRow(*row[:3], Direction(*row[3]) if row[3] else None, Direction(*row[4]) if row[4] else None)
    for row in _TABLE
)
"""The rows by data set, with the char-GRU first in each."""

PROTOCOLS = {"Flickr8k": "full", FOLDS: "five_fold_1k", OLDER: "five_fold_1k", "COCO 5k": "full"}
"""The protocol of each test set's rows."""
_COCO = {"caption_to_image": 25_000, "image_to_caption": 5_000}
QUERIES = {"Flickr8k": {"caption_to_image": 5_000, "image_to_caption": 1_000}, FOLDS: _COCO, "COCO 5k": _COCO}
"""Queries of each test set by direction, with five captions a picture; on COCO 1k the sum of all five folds.
No entry where the number is not known."""
