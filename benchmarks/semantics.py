"""Judging an encoder on SentEval's files against the published way, with the same weights, in one run.

The encoder is the character GRU of Merkx & Frank (2019) with 1024 states a direction, untrained: its time is
that of a trained one. Everything is float32, and padding has no weight in the attention.

The published way is SentEval's: each task encodes both sides of its pairs anew, sorted by the number of
words, 128 at a time, through torch's bidirectional GRU over packed sequences and the attention over the padded states.
Ours is what the stage semantics does: each distinct sentence once over all tasks, sorted by length. Both give
the vectors that the cosines and SentEval's trained heads need (so training pairs too); the heads themselves are
the same work in both and left out.

With `--quick`, both take turns on some of SentEval's batches: every N-th one of each file, others in each round.
What is measured there is seconds a character, and the whole is told from it by the characters each way has to read;
the scores are compared on the pairs of those batches. Without it, all pairs are encoded both ways.

The last line is JSON: ratio (times faster than the published way), score_difference (the largest difference
between their Pearson correlations of cosine and gold), seconds and published_seconds (for all sentences;
extrapolated is true where they were not all encoded), sentences, distinct, and more.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the stages do

import numpy as np
import torch
from encoding import Published

from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.parts import parts_of
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.evaluation.semantics.datasets import RatedPairs, RelatednessTask, SimilarityTask, read_task
from sightword.evaluation.semantics.encoding import embed
from sightword.evaluation.semantics.relatedness import cosine
from sightword.model.encoders import Encoders, pad
from sightword.model.settings import ModelSettings
from sightword.statistics.inference import pearson

TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STSBenchmark", "SICKRelatedness")
BATCH = 128
"""SentEval's."""


@dataclass(frozen=True)
class Batch:
    """Pairs that SentEval encodes together: the first sentences, then the second ones."""

    file: str
    pairs: RatedPairs

    @property
    def sentences(self) -> list[str]:
        return [*self.pairs.first, *self.pairs.second]


def batches_of(data: Path) -> list[Batch]:
    """All of SentEval's batches, file by file, in the order in which it encodes them."""
    files: dict[str, RatedPairs] = {}
    for name in TASKS:
        task = read_task(name, data)
        if isinstance(task, SimilarityTask):
            files |= {f"{name} {subtask}": pairs for subtask, pairs in task.subtasks.items()}
        elif isinstance(task, RelatednessTask):
            files |= {f"{name} {part}": getattr(task, part) for part in ("train", "dev", "test")}
    return [
        Batch(file, part(pairs, slice(start, start + BATCH)))
        for file, pairs in ((file, by_words(pairs)) for file, pairs in files.items())
        for start in range(0, len(pairs), BATCH)
    ]


def by_words(pairs: RatedPairs) -> RatedPairs:
    order = sorted(
        range(len(pairs)),
        key=lambda row: (len(pairs.first[row].split()), len(pairs.second[row].split()), pairs.gold[row]),
    )
    return RatedPairs([pairs.first[row] for row in order], [pairs.second[row] for row in order], pairs.gold[order])


def part(pairs: RatedPairs, rows: slice) -> RatedPairs:
    return RatedPairs(pairs.first[rows], pairs.second[rows], pairs.gold[rows])


def published(network: Published, vocabulary: Vocabulary, batches: list[Batch]) -> tuple[float, list[np.ndarray]]:
    """Seconds, and the cosines of each batch."""
    started, found = time.perf_counter(), []
    with torch.no_grad():
        for batch in batches:
            sides = []
            for sentences in (batch.pairs.first, batch.pairs.second):
                ids, lengths = pad([np.asarray(vocabulary.encode(sentence), np.int64) for sentence in sentences])
                sides.append(network(ids, lengths).numpy())
            found.append(cosine(*sides))
    return time.perf_counter() - started, found


def ours(encoder: SentenceEncoder, batches: list[Batch], size: int) -> tuple[float, list[np.ndarray]]:
    """Seconds, and the cosines of each batch."""
    started = time.perf_counter()
    vectors = embed(
        lambda sentences: encoder.encode(sentences, batch_size=size),
        (sentence for batch in batches for sentence in batch.sentences),
    )
    found = [cosine(vectors.of(batch.pairs.first), vectors.of(batch.pairs.second)) for batch in batches]
    return time.perf_counter() - started, found


def scores(batches: list[Batch], cosines: list[np.ndarray]) -> dict[str, float | None]:
    """Pearson's r of cosine and gold in each file."""
    rows: dict[str, list[int]] = {}
    for number, batch in enumerate(batches):
        rows.setdefault(batch.file, []).append(number)
    return {
        file: pearson(
            np.concatenate([cosines[row] for row in own]), np.concatenate([batches[row].pairs.gold for row in own])
        )
        for file, own in rows.items()
    }


def characters(batches: list[Batch], *, distinct: bool) -> int:
    sentences = [sentence for batch in batches for sentence in batch.sentences]
    return sum(map(len, set(sentences) if distinct else sentences))


def difference(one: dict[str, float | None], other: dict[str, float | None]) -> float:
    """The largest; infinity where only one of the two has a score."""
    return max(
        float("inf") if (one[file] is None) != (other[file] is None) else abs((one[file] or 0.0) - (other[file] or 0.0))
        for file in one
    )


def profile(encoder: SentenceEncoder, batches: list[Batch], size: int) -> None:
    """Where the time of our way goes, in percent of the processor's."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as found:
        ours(encoder, batches, size)
    events = sorted(found.key_averages(), key=lambda event: -event.self_cpu_time_total)
    total = sum(event.self_cpu_time_total for event in events)
    print("where our time goes:", ", ".join(f"{event.key.split('::')[-1]} {event.self_cpu_time_total / total:.0%}"
                                            for event in events[:7]), flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared = Path(os.environ.get("SIGHTWORD_TEST_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument(
        "--data", type=Path, default=shared / "senteval", help="the folder that holds SentEval's downstream/"
    )
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--batch-size", type=int, default=256, help="sentences that our way encodes together")
    parser.add_argument("--every", type=int, default=36, help="with --quick: one of so many batches (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="some of the batches: below 5 minutes on two cores")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    batches = batches_of(arguments.data)
    sentences = [sentence for batch in batches for sentence in batch.sentences]
    vocabulary = Vocabulary.build(sentences)
    torch.manual_seed(0)
    settings = ModelSettings(hidden=arguments.hidden)
    encoders = Encoders(len(vocabulary), 1, settings.shape).eval()
    encoder = SentenceEncoder(parts_of([encoders], vocabulary, settings.shape))
    network = Published(encoders.captions).eval()
    whole = {"published": characters(batches, distinct=False), "ours": characters(batches, distinct=True)}
    print(f"{len(sentences)} sentences of {whole['published']} characters in {len(batches)} batches of pairs; "
          f"{len(set(sentences))} distinct ones of {whole['ours']}")  # fmt: skip
    profile(encoder, batches[:: 4 * arguments.every], arguments.batch_size)

    spent, read = dict.fromkeys(whole, 0.0), dict.fromkeys(whole, 0)
    largest, ratios, limit = 0.0, [], time.perf_counter() + 150
    for number in range(3 if arguments.quick else 1):
        if number > 1 and time.perf_counter() > limit:
            break
        # Others in each round: what the first has in its caches or was lucky with does not decide.
        chosen = batches[number * arguments.every // 3 :: arguments.every] if arguments.quick else batches
        took = {}
        took["published"], theirs = published(network, vocabulary, chosen)
        took["ours"], mine = ours(encoder, chosen, arguments.batch_size)
        for way in whole:
            spent[way] += took[way]
            read[way] += characters(chosen, distinct=way == "ours")
        largest = max(largest, difference(scores(chosen, theirs), scores(chosen, mine)))
        ratios.append(took["published"] / took["ours"])
        times = f"published {took['published']:.1f} s, ours {took['ours']:.1f} s"
        print(f"round {number + 1}: {len(chosen)} batches, {times}", flush=True)
    seconds = {way: spent[way] / read[way] * whole[way] for way in whole}
    print(f"\n{'':10} {'characters':>11} {'measured':>9} {'seconds':>8} {'all, s':>7}")
    for way in whole:
        print(f"{way:10} {whole[way]:11} {read[way]:9} {spent[way]:8.1f} {seconds[way]:7.0f}")
    if arguments.quick:
        print("measured: the characters that were read; all: seconds a character times all characters of that way")
    result = {
        "ratio": round(seconds["published"] / seconds["ours"], 2),
        "score_difference": largest,
        "seconds": round(seconds["ours"], 1),
        "published_seconds": round(seconds["published"], 1),
        "extrapolated": arguments.quick,
        "sentences": len(sentences),
        "distinct": len(set(sentences)),
        "characters": whole,
        "characters_measured": read,
        "ratio_as_measured": round(spent["published"] / spent["ours"], 2),
        "rounds": [round(ratio, 2) for ratio in ratios],
        "hidden": arguments.hidden,
        "threads": arguments.threads,
        "torch": torch.__version__,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
