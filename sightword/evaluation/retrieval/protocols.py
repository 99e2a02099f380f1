"""Computes the entries of ``metrics/retrieval.json`` from ranks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from sightword.errors import CorpusError, ScoringError
from sightword.evaluation.retrieval.ranks import Ranks, rank
from sightword.evaluation.retrieval.settings import RetrievalSettings
from sightword.io.files import Pathish, read_table
from sightword.statistics.bootstrap import Doubles, draws, ends
from sightword.statistics.inference import proportion_interval

log = logging.getLogger(__name__)

FOLDS = 5
FOLD_SIZE = 1000
PICTURES = FOLDS * FOLD_SIZE
_TODO = "Make it anew with the stage corpus (`dvc repro corpus`)."

Folds = list[NDArray[np.int64]]
"""The picture rows of each fold."""


def corpus_order(path: Pathish, image_ids: Sequence[str]) -> NDArray[np.int64]:
    """Return the (N,) rows of N pictures in the order of the corpus's ``images.parquet``.

    CorpusError if a picture is not in the table; FileFormatError if the table is missing, damaged or without positions.
    """
    table = read_table(path, ["image_id", "position"], todo=_TODO)
    position = dict(zip(table["image_id"].to_pylist(), table["position"].to_pylist(), strict=True))
    if missing := [image_id for image_id in image_ids if image_id not in position]:
        raise CorpusError(f"lacks {len(missing)} of {len(image_ids)} pictures, first {missing[0]}", where=path)
    return np.argsort([position[image_id] for image_id in image_ids], kind="stable").astype(np.int64)


def drawn_splits(images: Pathish) -> str:
    """Return how splits were drawn, in words, as ``images.parquet`` says; empty where the corpus names its splits."""
    if not Path(images).exists():
        return ""
    words: bytes = (read_table(images, ["image_id"], todo=_TODO).schema.metadata or {}).get(b"drawing", b"")
    return words.decode()


def fold_rows(order: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the picture rows of each of five folds of 1,000, sorted; ScoringError for fewer than 5,000 pictures.

    The first 1,000 of the order are a fold, the next 1,000 and so on (Vendrov et al. 2016, VSE++). Other pictures are
    in no fold.
    """
    if len(order) < PICTURES:
        raise ScoringError(f"{len(order)} pictures are too few for five folds", expected=f"at least {PICTURES}")
    return [np.sort(fold) for fold in order[:PICTURES].reshape(FOLDS, FOLD_SIZE).astype(np.int64)]


def choose_folds(settings: RetrievalSettings, image_ids: Sequence[str], images: Pathish) -> tuple[Folds | None, str]:
    """Return the folds, if the protocol five_fold_1k is asked for, and the reason why it is left out.

    ``images`` is the corpus's table of pictures, which has their order. ScoringError if there are too few pictures, and
    no other protocol is asked for.
    """
    if "five_fold_1k" not in settings.protocols:
        return None, ""
    if len(image_ids) >= PICTURES:
        return fold_rows(corpus_order(images, image_ids)), ""
    few = f"the split {settings.split} has {len(image_ids)} pictures, five folds need {PICTURES}"
    if settings.protocols == ["five_fold_1k"]:
        what, todo = f"{few}, and no other protocol is asked for", "Add full to retrieval.protocols."
        raise ScoringError(what, where="retrieval.protocols", todo=todo)
    log.warning("protocol five_fold_1k left out: %s", few)
    return None, few


RESAMPLES = 1000
SEED = 0
DEPTHS = (1, 5, 10)
_NUMBERS = 1 << 21
"""Queries times resamples in one block."""

Fold = tuple[NDArray[np.int64], NDArray[np.int64]]
"""The ranks of a fold's queries, and the row of each query's picture; every row from 0 to the largest has a query."""


def intervals(
    directions: Sequence[Sequence[Fold]], *, resamples: int = RESAMPLES, seed: int = SEED
) -> list[dict[str, list[float]]]:
    """Return 95 % percentile intervals of ``r1``, ``r5``, ``r10`` and ``median_rank`` of each direction.

    From each fold as many pictures as it has are drawn with replacement, each with all its queries: the same pictures
    in all directions. The numbers of a resample are defined as in the metrics: recalls over the queries of all folds,
    the mean of the folds' median ranks.
    """
    sides = [[_Fold(ranks, picture) for ranks, picture in folds] for folds in directions]
    queries = max(len(ranks) for folds in directions for ranks, _ in folds)
    at_once = max(1, _NUMBERS // queries)
    drawn = [
        draws(fold.pictures, resamples, seed, f"fold {number}", block=at_once * fold.pictures)
        for number, fold in enumerate(sides[0])
    ]
    sampled: list[list[list[Doubles]]] = [[] for _ in sides]
    for times in zip(*drawn, strict=True):
        for numbers, folds in zip(sampled, sides, strict=True):
            numbers.append([fold.numbers(rows) for fold, rows in zip(folds, times, strict=True)])
    return [_intervals(np.concatenate(numbers, axis=1)) for numbers in sampled]


def _intervals(numbers: Doubles) -> dict[str, list[float]]:
    """Return the intervals of one direction from (folds, resamples, 5) numbers of :meth:`_Fold.numbers`."""
    sums = numbers.sum(axis=0)
    of_all = [*(100.0 * sums[:, :3] / sums[:, 3:4]).T, numbers[:, :, 4].mean(axis=0)]
    names = [*(f"r{k}" for k in DEPTHS), "median_rank"]
    return {name: ends(values) or [] for name, values in zip(names, of_all, strict=True)}


class _Fold:
    """The queries of a fold in the order of ranks, with each picture's numbers of queries and hits."""

    def __init__(self, ranks: NDArray[np.int64], picture: NDArray[np.int64]) -> None:
        order = np.argsort(ranks, kind="stable")
        self._ranks, self._picture = ranks[order], picture[order]
        self.pictures = int(picture.max()) + 1
        hits = [self._queries(int(np.searchsorted(self._ranks, k, side="right"))) for k in DEPTHS]
        self._counted = np.column_stack([*hits, self._queries(len(ranks))])
        most = self.pictures * self._counted[:, 3].max()  # the largest possible number of queries of a resample
        self._kind = np.float32 if most < 2**24 else np.float64

    def _queries(self, first: int) -> NDArray[np.float64]:
        """Return the (pictures,) numbers of the first queries that each picture has."""
        return np.bincount(self._picture[:first], minlength=self.pictures).astype(np.float64)

    def numbers(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return hits at each depth, queries and median rank of each resample; ``times`` is (resamples, pictures)."""
        counted = times @ self._counted  # whole numbers, so exact
        queries = counted[:, -1:]
        middle = np.column_stack([(queries - 1) // 2, queries // 2])  # the one or two in the middle, from 0
        return np.column_stack([counted, self._at(times, middle).mean(axis=1)])

    def _at(self, times: NDArray[np.float64], places: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the ranks at some places (resamples, 2) of each resample's sorted queries.

        The middle of a resample is near the sample's: only queries near it are counted, and more if they do not reach.
        """
        count = len(self._ranks)
        margin = 1 + int(2 * count / np.sqrt(self.pictures))
        while True:
            low, high = max(0, count // 2 - margin), min(count, count // 2 + margin)
            before = (times @ self._queries(low))[:, None]
            # The numbers of queries up to each query: whole numbers, which the type holds exactly.
            upto = times.astype(self._kind)[:, self._picture[low:high]].cumsum(axis=1)
            upto += before.astype(self._kind)
            if (before <= places).all() and (upto[:, -1:] > places).all():
                steps = np.column_stack([(upto <= place[:, None]).sum(axis=1) for place in places.T])
                ranks: NDArray[np.int64] = self._ranks[low + steps]
                return ranks
            margin *= 4


DIRECTIONS = ("caption_to_image", "image_to_caption")


def score(
    caption_embeddings: ArrayLike, image_embeddings: ArrayLike, image_of_caption: ArrayLike, similarity: str = "cosine"
) -> dict[str, Any]:
    """Score embeddings by retrieval among all pictures and captions.

    The rank of a correct answer is 1 + the number of wrong candidates that score at least as high, so ties count
    against the answer. The rank for a picture is the best rank among its own captions, which do not compete with each
    other. Pictures have any number of captions.

    Args:
        caption_embeddings: (M, D) finite numbers.
        image_embeddings: (N, D) finite numbers.
        image_of_caption: (M,) the row of each caption's picture, in any order.
        similarity: "cosine", for embeddings of any lengths; or, for embeddings as they are, "dot", the dot product;
            "order", ``-sum_d max(0, c_d - i_d)^2`` of caption c and picture i (Vendrov et al. 2016); or
            "reversed_order", ``-sum_d max(0, i_d - c_d)^2``.

    Returns:
        ``caption_to_image`` and ``image_to_caption``, each with ``r1``, ``r5``, ``r10`` (percent of the queries whose
        rank is 1, at most 5, at most 10), ``rsum`` (the sum of the three), ``median_rank``, ``mean_rank``, ``queries``;
        ``r1_ci95``, ``r5_ci95``, ``r10_ci95`` (in percent, :func:`sightword.statistics.inference.proportion_interval`);
        ``r1_bootstrap95``, ``r5_bootstrap95``, ``r10_bootstrap95`` and ``median_rank_bootstrap95`` ([low, high] by
        resampling pictures with their captions); and ``rsum``, the sum of the six recalls.

    Raises:
        ScoringError: embeddings and captions that do not fit together, values that are not finite, or an unknown
            similarity.
    """
    return entry([rank(caption_embeddings, image_embeddings, image_of_caption, similarity)])


def entry(folds: Sequence[Ranks]) -> dict[str, Any]:
    """Return one protocol's entry from the ranks of its folds; ``full`` has one fold.

    Recalls, mean ranks and intervals are over the queries of all folds together. The median rank is the mean of the
    folds' medians, as in the published tables.
    """
    ranks_of = {direction: [getattr(ranks, direction) for ranks in folds] for direction in DIRECTIONS}
    pictures = (
        [ranks.image_of_caption for ranks in folds],
        [np.arange(len(ranks.image_to_caption)) for ranks in folds],
    )
    resampled = intervals(
        [list(zip(ranks, rows, strict=True)) for ranks, rows in zip(ranks_of.values(), pictures, strict=True)]
    )
    scores: dict[str, Any] = {}
    for (direction, each), bounds in zip(ranks_of.items(), resampled, strict=True):
        ranks = np.concatenate(each)
        recalls = {f"r{k}": hits(ranks, k) for k in DEPTHS}
        scores[direction] = {
            **recalls,
            "rsum": sum(recalls.values()),
            "median_rank": float(np.mean([np.median(fold) for fold in each])),
            "mean_rank": float(ranks.mean()),
            "queries": len(ranks),
            **{f"{name}_ci95": proportion_interval(value, len(ranks)) for name, value in recalls.items()},
            **{f"{name}_bootstrap95": interval for name, interval in bounds.items()},
        }
    scores["rsum"] = sum(scores[direction]["rsum"] for direction in DIRECTIONS)
    return scores


def hits(ranks: NDArray[np.int64], k: int) -> float:
    """Return the percentage of queries with a rank of at most ``k``."""
    return 100.0 * int((ranks <= k).sum()) / len(ranks)


def rank_folds(
    caption_embeddings: NDArray[np.generic],
    image_embeddings: NDArray[np.generic],
    image_of_caption: NDArray[np.int64],
    folds: Sequence[NDArray[np.int64]],
    similarity: str = "cosine",
    *,
    device: torch.device | None = None,
) -> list[Ranks]:
    """Return the ranks of each fold among its pictures and their captions; raise as :func:`score`."""
    ranked = []
    for rows in folds:
        place = np.full(len(image_embeddings), -1, dtype=np.int64)
        place[rows] = np.arange(len(rows))
        captions = np.flatnonzero(place[image_of_caption] >= 0)
        owners = place[image_of_caption[captions]]
        ranked.append(rank(caption_embeddings[captions], image_embeddings[rows], owners, similarity, device=device))
    return ranked
