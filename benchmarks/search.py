"""Exact search among 50,000 pictures beside faiss and torch, and the start of a search.

Embeddings are generated. The index of `sightword.search` gives the answers of float64; the peers are faiss's exact
IndexFlatIP, where it is installed (`pip install faiss-cpu`), torch's product with topk, and NumPy's with argpartition.
For the order similarity the peer is NumPy's one expression. The sides take turns in each round, each on one thread, in
processor seconds; the best ten must be those of the index. All keep freed memory: else Linux fills new memory with
zeros, for a third of NumPy's time, and many times that beside other work. The start is that of a collection as large
as Flickr8k: 8,000 pictures of 2,048 features, read, checked and embedded, and 40,000 captions, read.

The last line is JSON: for each similarity and number of queries the milliseconds of each side, and its cost times ours
(least, median, most); start_seconds.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import common
import numpy as np
import torch
from common import costs, in_turn

from sightword.captions.table import CaptionTable, read_texts, write_captions
from sightword.captions.vocabulary import Vocabulary
from sightword.compute.devices import keep_memory
from sightword.encoder.parts import parts_of
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.evaluation.retrieval.index import Index
from sightword.features.tables.table import Origin, read_features, write_features
from sightword.model.encoders import Encoders
from sightword.model.settings import ModelSettings
from sightword.search.searcher import Searcher

try:
    import faiss
except ModuleNotFoundError:
    faiss = None

COUNT, WIDTH, TOP = 50_000, 512, 10


def embeddings(count: int, width: int) -> np.ndarray:
    rows = np.random.default_rng(0).standard_normal((count, width), np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def compared(sides: dict[str, Callable[[int], np.ndarray]], rounds: int, title: str) -> dict[str, list[float]]:
    """Milliseconds of each side, and its cost times ours; all must find the same rows."""
    first: list[np.ndarray] = []

    def look(_: int, side: str, found: np.ndarray) -> None:
        first.append(found)
        assert np.array_equal(found, first[0]), side

    return costs(in_turn(sides, rounds, warm=1, look=look), title)


def queries(rows: np.ndarray, count: int) -> np.ndarray:
    noise = np.random.default_rng(1).standard_normal((count, WIDTH), np.float32) / WIDTH**0.5
    return rows[:count] + noise


def cosine(rows: np.ndarray, count: int, rounds: int) -> dict[str, list[float]]:
    index = Index(len(rows), WIDTH, "cosine", "pictures")
    index.add(rows)
    asked = queries(rows, count)
    theirs, ours = torch.from_numpy(rows), torch.from_numpy(asked)

    def partitioned(_: int) -> np.ndarray:
        scores = asked @ rows.T if count > 1 else np.vecdot(rows, asked)[None]
        best = np.argpartition(-scores, TOP, axis=1)[:, :TOP]
        order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1)
        return np.take_along_axis(best, order, axis=1)

    sides: dict[str, Callable[[int], np.ndarray]] = {"ours": lambda _: index.search(asked, TOP).rows}
    if faiss is not None:
        faiss.omp_set_num_threads(1)
        flat = faiss.IndexFlatIP(WIDTH)
        flat.add(rows)
        sides["faiss"] = lambda _: flat.search(asked, TOP)[1]
    sides["torch topk"] = lambda _: torch.topk(ours @ theirs.T, TOP, dim=1).indices.numpy()
    sides["NumPy argpartition"] = partitioned
    return compared(sides, rounds, f"cosine, {count} queries")


def order(rows: np.ndarray, count: int, rounds: int) -> dict[str, list[float]]:
    rows = np.abs(rows)
    index = Index(len(rows), WIDTH, "order", "pictures")
    index.add(rows)
    asked = np.abs(queries(rows, count))

    def plain(_: int) -> np.ndarray:
        return np.stack([np.argsort(np.square(np.maximum(one - rows, 0)).sum(axis=1))[:TOP] for one in asked])

    sides = {"ours": lambda _: index.search(asked, TOP).rows, "NumPy": plain}
    return compared(sides, rounds, f"order, {count} queries")


def start(folder: Path, pictures: int) -> float:
    names = [f"{number:08d}.jpg" for number in range(pictures)]
    values = embeddings(pictures, 2048)
    origin = Origin("", "", "", "", "{}", "fp32", "precomputed: generated")
    write_features(folder / "f.h5", names, [""] * pictures, 2048, [(np.arange(pictures), values)], origin)
    vocabulary, model = Vocabulary.build(["abcdefghijklmnopqrstuvwxyz ."]), ModelSettings(hidden=1024)
    made = SentenceEncoder(parts_of([Encoders(len(vocabulary), 2048, model.shape)], vocabulary, model.shape))
    owners = [name for name in names for _ in range(5)]
    texts = [f"{name} {number}" for number, name in enumerate(owners)]
    ids, numbers = [np.ones(3, np.int32)] * len(texts), list(range(5)) * pictures
    write_captions(folder / "c.parquet", CaptionTable(owners, numbers, ["test"] * len(texts), texts, ids))
    work = {"start": lambda _: Searcher(made, read_features(folder / "f.h5"), read_texts(folder / "c.parquet"))}
    title = f"{pictures:,} pictures and {len(texts):,} captions"
    return round(costs(in_turn(work, 1), title)["start"][0] / 1e3, 2)


def main() -> None:
    arguments = common.parser(__doc__).parse_args()
    rounds = 3 if arguments.tiny else 9 if arguments.quick else 31
    torch.set_num_threads(1)
    keep_memory()
    rows = embeddings(COUNT // (50 if arguments.tiny else 1), WIDTH)
    result: dict[str, object] = {f"cosine {count}": cosine(rows, count, rounds) for count in (1, 16, 256)}
    result |= {f"order {count}": order(rows, count, rounds // 3) for count in (1, 16)}
    with tempfile.TemporaryDirectory() as folder:
        result["start_seconds"] = start(Path(folder), 80 if arguments.tiny else 8000)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
