"""Judging an encoder on SentEval's files against the published way, with the same weights, in one run.

The encoder is the character GRU of Merkx & Frank (2019) with 1024 states a direction, untrained: its time is that of a
trained one. Everything is float32, and padding has no weight in the attention.

The published way is SentEval's: each task encodes both sides of its pairs anew, sorted by the number of words, 128 at a
time, through torch's bidirectional GRU over packed sequences and the attention over the padded states. Ours is what the
stage semantics does: each distinct sentence once over all tasks, sorted by length. Both give the vectors that the
cosines and SentEval's trained heads need; the heads themselves are the same work in both and left out.

With `--quick`, both take turns on every 36th of SentEval's batches, others in each round. What is measured there is
seconds a character, and the whole is told from it by the characters each way has to read.

The last line is JSON: ratio (times faster than the published way), score_difference (the largest between Pearson
correlations of cosine and gold), seconds and published_seconds (for all sentences), sentences, distinct.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import NamedTuple

import common
import numpy as np
import torch

from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.parts import parts_of
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.evaluation.semantics.datasets import RatedPairs, RelatednessTask, SimilarityTask, read_task
from sightword.evaluation.semantics.encoding import embed
from sightword.evaluation.semantics.relatedness import cosine
from sightword.model.encoders import Encoders
from sightword.model.settings import ModelSettings
from sightword.statistics.inference import pearson

TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STSBenchmark", "SICKRelatedness")
BATCH = 128
"""SentEval's."""
EVERY = 36


class Batch(NamedTuple):
    """Pairs that SentEval encodes together: the first sentences, then the second ones."""

    file: str
    first: list[str]
    second: list[str]
    gold: np.ndarray


def batches_of(data: Path) -> list[Batch]:
    """All of SentEval's batches, file by file, sorted by numbers of words, as SentEval encodes them."""
    files: dict[str, RatedPairs] = {}
    for name in TASKS:
        task = read_task(name, data)
        if isinstance(task, SimilarityTask):
            files |= {f"{name} {subtask}": pairs for subtask, pairs in task.subtasks.items()}
        elif isinstance(task, RelatednessTask):
            files |= {f"{name} {part}": getattr(task, part) for part in ("train", "dev", "test")}
    found = []
    for file, pairs in files.items():
        rows = zip(pairs.first, pairs.second, pairs.gold.tolist(), strict=True)
        ordered = sorted(rows, key=lambda row: (len(row[0].split()), len(row[1].split()), row[2]))
        for start in range(0, len(ordered), BATCH):
            first, second, gold = zip(*ordered[start : start + BATCH], strict=True)
            found.append(Batch(file, [*first], [*second], np.array(gold)))
    return found


def characters(batches: list[Batch], *, distinct: bool) -> int:
    sentences = [text for batch in batches for text in (*batch.first, *batch.second)]
    return sum(map(len, set(sentences) if distinct else sentences))


def scores(batches: list[Batch], cosines: list[np.ndarray]) -> dict[str, float]:
    """Pearson's r of cosine and gold in each file."""
    rows: dict[str, list[int]] = {}
    for number, batch in enumerate(batches):
        rows.setdefault(batch.file, []).append(number)
    return {
        file: pearson(np.concatenate([cosines[row] for row in own]), np.concatenate([batches[row].gold for row in own]))
        or 0.0
        for file, own in rows.items()
    }


def main() -> None:
    arguments = common.parser(__doc__).parse_args()
    torch.set_num_threads(arguments.threads)
    tiny = arguments.tiny
    batches = batches_of(arguments.data / "senteval")[:: EVERY * 8 if tiny else 1]
    sentences = [text for batch in batches for text in (*batch.first, *batch.second)]
    vocabulary = Vocabulary.build(sentences)
    torch.manual_seed(0)
    settings = ModelSettings(hidden=16 if tiny else 1024)
    encoders = Encoders(len(vocabulary), 1, settings.shape).eval()
    encoder = SentenceEncoder(parts_of([encoders], vocabulary, settings.shape))
    network = common.Published(encoders.captions).eval()

    def published(chosen: list[Batch]) -> list[np.ndarray]:
        sides = [
            [common.encode(network, vocabulary, side, BATCH, ordered=False) for side in (batch.first, batch.second)]
            for batch in chosen
        ]
        return [cosine(*both) for both in sides]

    def ours(chosen: list[Batch]) -> list[np.ndarray]:
        texts = (text for batch in chosen for text in (*batch.first, *batch.second))
        vectors = embed(lambda some: encoder.encode(some, batch_size=256), texts)
        return [cosine(vectors.of(batch.first), vectors.of(batch.second)) for batch in chosen]

    works = {"published": published, "ours": ours}
    whole = {side: characters(batches, distinct=side == "ours") for side in works}
    spent, read, largest = dict.fromkeys(works, 0.0), dict.fromkeys(works, 0), 0.0
    for number in range(3 if arguments.quick else 1):
        chosen = batches[number * EVERY // 3 :: EVERY] if arguments.quick else batches
        found = {}
        for side, work in works.items():
            started = time.perf_counter()
            found[side] = scores(chosen, work(chosen))
            spent[side] += time.perf_counter() - started
            read[side] += characters(chosen, distinct=side == "ours")
        largest = max(largest, *(abs(found["ours"][file] - found["published"][file]) for file in found["ours"]))
        print(f"round {number + 1}: {len(chosen)} batches, {spent}", flush=True)
    seconds = {side: spent[side] / read[side] * whole[side] for side in works}
    print(json.dumps({
        "ratio": round(seconds["published"] / seconds["ours"], 2), "score_difference": largest,
        "seconds": round(seconds["ours"], 1), "published_seconds": round(seconds["published"], 1),
        "extrapolated": arguments.quick, "sentences": len(sentences), "distinct": len(set(sentences)),
        "threads": arguments.threads, "torch": torch.__version__,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
