"""Exact search among 100,000 pictures, and how long a sentence takes to encode.

Embeddings are generated, as wide as those of models with 512 states in each direction (1,024) and as published (2,048).
A query is searched by the index of ``sightword.search``, which gives the answers of float64; in turns with it the
plain way: a float32 product of matrix and vector with NumPy, and a full sort. The best ten must be the same. All
use as many threads as ``--threads`` says. For the order similarity the plain way is NumPy's one expression.

Encoding is timed apart: a sentence of 23 characters, by an untrained character GRU of that width, an ensemble of two.

Start-up is that of a collection as large as Flickr8k, 8,000 pictures of 2,048 features: reading and checking the file,
embedding the pictures, reading 40,000 captions.

The last line is JSON: median_ms (cosine, 1,024), median_2048_ms, order_ms, encode_ms, startup_seconds, and more.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the stages do

import numpy as np
import torch

from sightword.captions.table import CaptionTable, read_texts, write_captions
from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.parts import parts_of
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.evaluation.retrieval.index import Index
from sightword.features.tables.table import Origin, read_features, write_features
from sightword.model.encoders import Encoders
from sightword.model.settings import ModelSettings
from sightword.search.searcher import Searcher

PICTURES = 100_000
TOP = 10
SENTENCE = "a dog runs in the snow."


def embeddings(count: int, width: int) -> np.ndarray:
    random = np.random.default_rng(0)
    rows = np.empty((count, width), np.float32)
    for start in range(0, count, 1000):
        part = rows[start : start + 1000]
        part[:] = random.standard_normal(part.shape, np.float32)
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return rows


def milliseconds(work: Callable[[], object]) -> tuple[float, object]:
    started = time.perf_counter()
    found = work()
    return (time.perf_counter() - started) * 1e3, found


def searched(width: int, similarity: str, threads: int, rounds: int, count: int) -> dict[str, float]:
    rows = embeddings(count, width)
    if similarity != "cosine":
        np.abs(rows, out=rows)
    index = Index(count, width, similarity, "pictures", threads=threads)
    index.add(rows)
    random = np.random.default_rng(1)

    def plain(query: np.ndarray) -> np.ndarray:
        if similarity == "cosine":
            return np.argsort(-(rows @ query))[:TOP]
        return np.argsort(np.square(np.maximum(query - rows, 0)).sum(axis=1))[:TOP]

    ours, theirs = [], []
    for number in range(rounds):
        query = rows[random.integers(count)] + random.standard_normal(width).astype(np.float32) / width**0.5
        query = np.abs(query) if similarity != "cosine" else query
        took, found = milliseconds(lambda query=query: index.best(query, TOP))
        ours.append(took)
        if number % 5 == 0:
            took, expected = milliseconds(lambda query=query: plain(query))
            theirs.append(took)
            assert found.rows.tolist() == expected.tolist()
    result = {"median": statistics.median(ours), "best": min(ours), "plain": statistics.median(theirs)}
    print(
        f"{similarity}, {count:,} x {width}: median {result['median']:.1f} ms, best {result['best']:.1f} ms, "
        f"plain way {result['plain']:.1f} ms",
        flush=True,
    )
    return {key: round(value, 1) for key, value in result.items()}


def encoder(width: int, features: int) -> SentenceEncoder:
    torch.manual_seed(0)
    vocabulary = Vocabulary.build([SENTENCE, "bcfghjklmpqtvxyz"])
    model = ModelSettings(hidden=width // 2)
    networks = [Encoders(len(vocabulary), features, model.shape) for _ in range(2)]
    return SentenceEncoder(parts_of(networks, vocabulary, model.shape))


def encoded(width: int, rounds: int) -> float:
    made = encoder(width, 8)
    made.encode(SENTENCE)
    took = statistics.median(
        milliseconds(lambda number=number: made.encode(f"{SENTENCE[:-1]}{'.' * (number % 2)}"))[0]
        for number in range(rounds)
    )
    print(f"encoding {len(SENTENCE)} characters, two members of width {width}: median {took:.1f} ms", flush=True)
    return round(took, 1)


def start_up(folder: Path, pictures: int) -> float:
    names = [f"{number:08d}.jpg" for number in range(pictures)]
    values = embeddings(pictures, 2048)
    origin = Origin("", "", "", "", "{}", "fp32", "precomputed: generated")
    write_features(folder / "f.h5", names, [""] * pictures, 2048, [(np.arange(pictures), values)], origin)
    made = encoder(2048, 2048)
    texts = [f"{name} {number}" for name in names for number in range(5)]
    owners = [name for name in names for _ in range(5)]
    numbers = [number for _ in names for number in range(5)]
    ids = [np.ones(3, np.int32)] * len(texts)
    write_captions(folder / "c.parquet", CaptionTable(owners, numbers, ["test"] * len(texts), texts, ids))
    took, _ = milliseconds(lambda: Searcher(made, read_features(folder / "f.h5"), read_texts(folder / "c.parquet")))
    print(f"start-up with {pictures:,} pictures and {len(texts):,} captions: {took / 1e3:.1f} s", flush=True)
    return round(took / 1e3, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    arguments = parser.parse_args()
    if os.environ.get("OPENBLAS_NUM_THREADS") != str(arguments.threads):  # numpy asks for it once, when it is loaded
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        threads = dict.fromkeys(names, str(arguments.threads))
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **threads})
    torch.set_num_threads(arguments.threads)
    rounds = 30 if arguments.quick else 200
    cosine = searched(1024, "cosine", arguments.threads, rounds, PICTURES)
    wide = searched(2048, "cosine", arguments.threads, rounds, PICTURES)
    order = searched(1024, "order", arguments.threads, rounds, PICTURES)
    with tempfile.TemporaryDirectory() as folder:
        startup = start_up(Path(folder), 8000)
    result = {
        "median_ms": cosine["median"],
        "best_ms": cosine["best"],
        "plain_ms": cosine["plain"],
        "median_2048_ms": wide["median"],
        "best_2048_ms": wide["best"],
        "order_ms": order["median"],
        "order_plain_ms": order["plain"],
        "encode_ms": encoded(1024, rounds),
        "encode_2048_ms": encoded(2048, rounds),
        "startup_seconds": startup,
        "pictures": PICTURES,
        "threads": arguments.threads,
        "machine": platform.machine(),
        "torch": torch.__version__,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
