"""All numbers of a run: the entry of each protocol, and the best candidates."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from sightword.captions.units import runs, split
from sightword.encoder.arguments import LONGEST
from sightword.errors import ScoringError
from sightword.evaluation.retrieval.protocols import DEPTHS, Folds, entry, hits, rank_folds
from sightword.evaluation.retrieval.querybank import with_querybank
from sightword.evaluation.retrieval.ranks import Ranks, rank, rank_best, tiles
from sightword.evaluation.retrieval.settings import RetrievalSettings
from sightword.evaluation.retrieval.similarity import embeddings
from sightword.evaluation.retrieval.similarity import similarity as named
from sightword.features.tables.pairs import Pairs
from sightword.messages import plural
from sightword.statistics.inference import Z95, proportion_interval

if TYPE_CHECKING:
    from sightword.encoder.sentence_encoder import SentenceEncoder


def languages_entries(
    sentences: NDArray[np.generic],
    images: NDArray[np.generic] | None,
    owners: NDArray[np.int64],
    languages: Sequence[str],
    similarity: str,
    *,
    device: torch.device | None = None,
) -> dict[str, Any]:
    """Return the entries of ``metrics/retrieval.json`` by language; empty for captions of one language.

    ``images`` (N, D) is None for an encoder without any. ``language_de`` is an entry as of the protocol ``full``, of
    the captions in German and the pictures that have one. ``across_languages`` has for ``en-de`` the recalls, ranks and
    number of captions in English among all captions in German: captions of the same picture are right, and the
    best-ranked one counts. Queries are of pictures with captions in both languages.
    """
    codes = np.asarray(languages, dtype=object)
    named = sorted(set(languages))
    if len(named) < 2:
        return {}
    rows = {code: np.flatnonzero(codes == code) for code in named}
    entries: dict[str, Any] = {}
    if images is not None:
        for code, own in rows.items():
            pictures, place = np.unique(owners[own], return_inverse=True)
            ranked = rank(sentences[own], images[pictures], place, similarity, device=device)
            entries[f"language_{code}"] = entry([ranked])
    across, between = {}, " to " if any("-" in code for code in named) else "-"
    for one, other in permutations(named, 2):
        queries = rows[one][np.isin(owners[rows[one]], owners[rows[other]])]
        if len(queries):
            right = _of_same(owners[queries], owners[rows[other]])
            ranks = rank_best(sentences[queries], sentences[rows[other]], right, similarity, device=device)
            across[f"{one}{between}{other}"] = _recalls(ranks)
    if across:
        entries["across_languages"] = across
    return entries


def _of_same(asked: NDArray[np.int64], given: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of queries and of candidates whose pictures, (Q,) and (N,), are the same."""
    order = np.argsort(given, kind="stable")
    first, end = (np.searchsorted(given[order], asked, side) for side in ("left", "right"))
    counts = end - first
    queries = np.repeat(np.arange(len(asked)), counts)
    within = np.arange(len(queries)) - np.repeat(np.cumsum(counts) - counts, counts)
    return queries, order[np.repeat(first, counts) + within]


def _recalls(ranks: NDArray[np.int64]) -> dict[str, Any]:
    recalls = {f"r{k}": hits(ranks, k) for k in DEPTHS}
    return {
        **recalls,
        **{f"{name}_ci95": proportion_interval(value, len(ranks)) for name, value in recalls.items()},
        "mean_rank": float(ranks.mean()),
        "median_rank": float(np.median(ranks)),
        "queries": len(ranks),
    }


NO_PAIRS = "no picture has two captions of different lengths"


def words(text: str) -> int:
    """Return the number of words of a caption: runs of letters with their marks, digits and underscores."""
    return sum(word[0] == "_" or word[0].isalnum() for word in split(text, "word"))


def length_pairs(
    lengths: NDArray[np.int64], image_of_caption: NDArray[np.int64], most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows (P,) of the shorter and the longer captions of the ``most`` pairs with the largest differences.

    A pair is of one picture. Equal differences are in the order of the pictures, then of the captions.
    """
    order = np.argsort(image_of_caption, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(image_of_caption[order])) + 1)
    both = [part[np.column_stack(np.triu_indices(len(part), 1))] for part in parts]
    pairs = np.concatenate([*both, np.empty((0, 2), np.int64)])
    pairs = np.where((lengths[pairs[:, 0]] > lengths[pairs[:, 1]])[:, None], pairs[:, ::-1], pairs)
    difference = lengths[pairs[:, 1]] - lengths[pairs[:, 0]]
    first = np.argsort(-difference, kind="stable")[:most]
    shorter, longer = pairs[first[difference[first] > 0]].T
    return shorter, longer


def lengths_entry(
    sentences: NDArray[np.generic],
    ranks: NDArray[np.int64],
    similarity: str,
    *,
    most: int,
    texts: Sequence[str],
    image_of_caption: NDArray[np.int64],
    device: torch.device | None = None,
) -> dict[str, Any] | None:
    """Return the entry ``lengths`` of ``metrics/retrieval.json`` for the ``most`` pairs; None without pairs.

    ``ranks`` (M,) are those of the picture for each caption. ``shorter`` and ``longer`` have the mean of ``words``, and
    ``mean_rank`` and ``median_rank`` of the picture for these captions; ``longer_for_shorter`` has both ranks of the
    longer caption, on the side of the pictures, among all other captions, those of the same picture included.
    """
    lengths = np.array([words(text) for text in texts])
    shorter, longer = length_pairs(lengths, image_of_caption, most)
    rows = np.arange(len(shorter))
    if not len(rows):
        return None
    of_longer = rank_best(
        sentences[shorter], sentences, (rows, longer), similarity, left_out=(rows, shorter), device=device
    )

    def both(ranks: NDArray[np.int64]) -> dict[str, float]:
        return {"mean_rank": float(ranks.mean()), "median_rank": float(np.median(ranks))}

    return {
        "pairs": len(rows),
        "pictures": len(np.unique(image_of_caption[shorter])),
        "shorter": {"words": float(lengths[shorter].mean()), **both(ranks[shorter])},
        "longer": {"words": float(lengths[longer].mean()), **both(ranks[longer])},
        "longer_for_shorter": both(of_longer),
    }


NUMBERS = ("one_word", "two_words", "three_words")
FEWEST_PICTURES, MOST_QUERIES, FEWEST_QUERIES = 3, 300, 20
"""Right pictures of a short query, and short queries of a number of words."""
COMMON = 3
"""A word in the captions of more than one in so many pictures is taken for a function word, in any language."""
NO_SHORT = f"fewer than {FEWEST_QUERIES} runs of words occur with {FEWEST_PICTURES} pictures or more"


class ShortQuery(NamedTuple):
    """A run of words from captions, and the rows of the pictures of which a caption has the run."""

    text: str
    pictures: NDArray[np.int64]


def short_queries(texts: Sequence[str], image_of_caption: NDArray[np.int64]) -> dict[str, list[ShortQuery]]:
    """Return the most frequent runs (:func:`sightword.captions.units.runs`) by number of words.

    No run begins or ends with a word from the captions of more than a third of the pictures. Runs that differ in
    capitals only are one, written as most captions write the run behind their start. Equally frequent runs are in
    the order of their letters. A number of words with too few runs is left out.
    """
    found: list[dict[str, tuple[Counter[str], set[int]]]] = [{} for _ in NUMBERS]
    for text, picture in zip(texts, image_of_caption.tolist(), strict=True):
        for runs_of, places in zip(found, runs(list(text), "character", len(NUMBERS)), strict=True):
            for start, end in places:
                run = " ".join(text[start:end].split())
                spellings, pictures = runs_of.setdefault(run.casefold(), (Counter(), set()))
                spellings[run] += len(texts) if start else 1  # a capital at a caption's start is none of the word's
                pictures.add(picture)
    most = len(np.unique(image_of_caption)) / COMMON
    common = {word for word, (_, pictures) in found[0].items() if len(pictures) > most}
    queries = {}
    for name, runs_of in zip(NUMBERS, found, strict=True):
        frequent = [one for one in sorted(runs_of.items(), key=lambda one: (-len(one[1][1]), one[0]))
                    if len(one[1][1]) >= FEWEST_PICTURES
                    and not common & {one[0].split()[0], one[0].split()[-1]}]  # fmt: skip
        if len(frequent) >= FEWEST_QUERIES:
            queries[name] = [
                ShortQuery(min(spellings, key=lambda run: (-spellings[run], run)), np.array(sorted(pictures)))
                for _, (spellings, pictures) in frequent[:MOST_QUERIES]
            ]
    return queries


def short_entry(
    vectors: NDArray[np.generic],
    images: NDArray[np.generic],
    right: Sequence[NDArray[np.int64]],
    similarity: str,
    *,
    device: torch.device | None = None,
) -> dict[str, Any]:
    """Return the scores of short queries, whose ``vectors`` are (Q, D), among ``images`` (N, D).

    ``map`` is the mean average precision in percent: for each right picture the share of right ones among the pictures
    down to it. ``first_right`` is the percentage of queries whose first picture is right, ``first_right_chance`` that
    of a random order. Ties count against right pictures. Intervals are over queries.
    """
    sides = embeddings(vectors, "short queries"), embeddings(images, "image_embeddings")
    alike = named(similarity, *sides, device or torch.device("cpu"))
    table = np.empty((len(vectors), len(images)))
    with torch.inference_mode():
        for rows, columns, scores in tiles(alike, progress=False):
            table[rows, columns] = scores.cpu().numpy()
    precisions, first = [], 0
    for scores_of, pictures in zip(table, right, strict=True):
        bars = alike.bar(np.sort(scores_of[pictures])[::-1])
        wrong = np.sort(np.delete(scores_of, pictures))
        better = len(wrong) - np.searchsorted(wrong, bars)  # wrong pictures before each right one
        places = np.arange(1, len(bars) + 1)
        precisions.append(math.fsum(places / (places + better)) / len(bars))
        first += int(better[0] == 0)
    count = len(precisions)
    mean = math.fsum(precisions) / count
    variance = math.fsum((one - mean) ** 2 for one in precisions) / max(1, count - 1)
    share = 100.0 * first / count
    return {
        "map": 100.0 * mean,
        "map_ci95": 100.0 * Z95 * math.sqrt(variance / count),
        "first_right": share,
        "first_right_ci95": proportion_interval(share, count),
        "first_right_chance": 100.0 * sum(map(len, right)) / (count * len(images)),
        "queries": count,
    }


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
    """Return the best candidates of each query by their ids, with :data:`TOP_SCHEMA`.

    Captions are queries first, then pictures, each in the order of their rows, the best candidate first.
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


log = logging.getLogger(__name__)

Bank = tuple[NDArray[np.float32], list[str]]
"""Features (B, D) of training pictures, and a caption of each."""


@dataclass(frozen=True)
class Measured:
    """The numbers of a run."""

    metrics: dict[str, Any]
    """By protocol and language, with ``lengths`` and ``short_queries`` where they are measured, and ``skipped``."""
    ranks: Ranks
    """Of the protocol ``full``."""
    full: dict[str, Any]
    """The entry of the protocol ``full``, whether it is asked for or not."""
    top: pa.Table


def measure(
    encoder: SentenceEncoder,
    split: Pairs,
    settings: RetrievalSettings,
    *,
    folds: tuple[Folds | None, str],
    bank: Bank | None,
    device: torch.device,
) -> Measured:
    """Score an encoder by retrieval on a split; ``bank`` is None if the query bank is not asked for.

    Raises:
        ScoringError: the encoder is not compared by the cosine, and the query bank is asked for.
    """
    similarity, owners = encoder.similarity_name, split.image_of_caption
    if bank and similarity != "cosine":
        what = f"querybank needs an encoder that is compared by the cosine, this one is by {similarity}"
        todo = f"Leave querybank out{', or set select.renormalise: true' * (similarity == 'dot')}."
        raise ScoringError(what, where="retrieval.protocols", todo=todo)
    encode = partial(encoder.encode, batch_size=settings.batch_size, show_progress_bar=True, max_length=LONGEST)
    with_bank: dict[str, Any] = {}
    sentences, images = encode(split.texts), encoder.encode_images(split.features)
    ranks = rank(sentences, images, owners, similarity, top=settings.top, device=device, progress=True)
    if bank:
        log.info("retrieval: the query bank has %s, with one caption each", plural(len(bank[1]), "picture"))
        queries = encode(bank[1]), encoder.encode_images(bank[0])
        sides = with_querybank(
            *(sentences, images, *queries), temperature=settings.bank_temperature, device=device, progress=True
        )
        ranked = rank(*sides, owners, "dot", device=device, progress=True)
        with_bank = {**entry([ranked]), "bank_pictures": len(bank[1])}
    chosen, few = folds
    skipped = {"five_fold_1k": few} if few else {}
    full = entry([ranks])
    entries: dict[str, Any] = {}
    for protocol in settings.protocols:
        if protocol == "full":
            entries[protocol] = full
        elif protocol == "querybank":
            entries[protocol] = with_bank
        elif chosen is not None:
            entries[protocol] = entry(rank_folds(sentences, images, owners, chosen, similarity, device=device))
    entries |= languages_entries(sentences, images, owners, split.languages, similarity, device=device)
    if settings.length_pairs:
        lengths = lengths_entry(
            *(sentences, ranks.caption_to_image, similarity),
            most=settings.length_pairs, texts=split.texts, image_of_caption=owners, device=device,
        )  # fmt: skip
        if lengths:
            entries["lengths"] = lengths
        else:
            skipped["lengths"] = NO_PAIRS
            log.warning("lengths left out: %s", NO_PAIRS)
    short = short_queries(split.texts, owners)
    for name, queries_of in short.items():
        vectors, right = encode([query.text for query in queries_of]), [query.pictures for query in queries_of]
        entry_of = short_entry(vectors, images, right, similarity, device=device)
        entries.setdefault("short_queries", {})[name] = entry_of
    if few_runs := [name.replace("_", " ") for name in NUMBERS if name not in short]:
        skipped["short_queries"] = f"{NO_SHORT} ({', '.join(few_runs)})"
        log.info("short queries left out: %s", skipped["short_queries"])
    if skipped:
        entries["skipped"] = skipped
    ids: dict[str, Any] = {"image_ids": split.image_ids, "image_of_caption": owners, "caption_numbers": split.numbers}
    top = top_table(ranks, split=settings.split, **ids)
    return Measured(entries, ranks, full, top)
