"""What an item costs as their number grows: each kind and size in a process of its own, beside the plain way.

- corpus: the stage on a Parquet of that many pictures with a caption each, in rows of bytes; peer: pandas
  (``read_parquet`` without the bytes, ``drop_duplicates``, ``sort_values``, ``to_parquet``);
- captions: the stage on the tables of that corpus; without a peer;
- features_write, features_read: ``features.h5``; peer: h5py with its defaults;
- store_write, store_read: a store of features in a folder; peer: a table of SQLite;
- index_build, index_query: rows added to the index of a search, and 16 queries one by one; peer: NumPy's lengths,
  products and ``argpartition``;
- ranks: that many captions and 1,000 pictures, both directions, in float64; peer: torch in float32, 1,000 captions at
  a time.

All features have 64 numbers: a million of 2,048 take 8 GB, and some kinds hold several copies.

Each line is JSON: kind, items, who, seconds of processor time without imports, and grown, the MB by which the most
memory exceeds that after the imports and the making of the items. ``--tiny`` runs all of it in one process.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sightword.io.files import leave_pandas
from sightword.storage.store import KindIdentity

SIZES = (1_000, 10_000, 100_000, 1_000_000)
WIDTH, PICTURES, QUERIES, TOP = 64, 1000, 16, 10
KIND = KindIdentity()


def main() -> None:
    """Run all kinds at all sizes, or one in this process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=WORKS, default=[*WORKS])
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--tiny", action="store_true", help="20 and 40 items, in this process")
    parser.add_argument("--one", nargs=2, metavar=("KIND", "WHO"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        one(*arguments.one, arguments.sizes[0])
        return
    for count in (20, 40) if arguments.tiny else arguments.sizes:
        with tempfile.TemporaryDirectory(prefix="growth-") as folder:
            if {"corpus", "captions"} & {*arguments.kinds}:
                make(Path(folder, "raw"), count)
            for kind in arguments.kinds:
                for who in ("ours", "peer") if kind != "captions" else ("ours",):
                    if arguments.tiny:
                        with contextlib.chdir(folder):
                            one(kind, who, count)
                        continue
                    command = [sys.executable, str(Path(__file__).resolve()), "--one", kind, who, "--sizes", str(count)]
                    subprocess.run(command, cwd=folder, check=True)


def make(folder: Path, count: int) -> None:
    """Write a Parquet of pictures and captions."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    random = np.random.default_rng(0)
    words = np.array(["a", "dog", "cat", "man", "woman", "runs", "jumps", "over", "snow", "water", "red", "blue"])
    picture = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    schema = pa.schema([("image", picture), ("caption", pa.string())])
    with pq.ParquetWriter(folder / "train.parquet", schema) as writer:
        for start in range(0, count, 100_000):
            numbers = np.arange(start, min(start + 100_000, count))
            names = [f"{number * 2_654_435_761 % 2**32:010d}.jpg" for number in numbers.tolist()]
            pictures = pa.StructArray.from_arrays([pa.array([b"picture"] * len(names)), pa.array(names)],
                                                  fields=[*picture])  # fmt: skip
            texts = [" ".join(row) for row in words[random.integers(0, len(words), (len(names), 10))]]
            writer.write_table(pa.table([pictures, pa.array(texts)], schema))


def one(kind: str, who: str, count: int) -> None:
    """Run one kind in this process, and print its cost."""
    work = WORKS[kind](who, count)
    next(work)
    if who == "ours":
        leave_pandas()  # as the stages do
    before, started = most(), time.process_time()
    next(work, None)
    spent, grown = time.process_time() - started, most() - before
    print(json.dumps({"kind": kind, "items": count, "who": who, "seconds": round(spent, 3), "grown": round(grown, 1)}),
          flush=True)  # fmt: skip


def most() -> float:
    """Return the most memory of this process so far, in MB."""
    # not getrusage, whose value begins with that of the parent process
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6


def corpus(who: str, _count: int) -> Iterator[None]:
    if who == "ours":
        import pyarrow.compute
        import pyarrow.parquet  # noqa: F401 - imported before the measurement

        from sightword.corpus.settings import CorpusSettings
        from stages.corpus import work

        settings = CorpusSettings(format="table", path="raw", pictures="raw")
        yield
        work(settings)
    else:
        import pandas as pd
        import pyarrow.parquet as pq

        yield
        table = pq.read_table("raw/train.parquet", columns=["image.path", "caption"]).flatten()
        frame = table.to_pandas().drop_duplicates()
        frame.sort_values(frame.columns[0]).to_parquet("peer.parquet")
        assert isinstance(frame, pd.DataFrame)


def captions(_who: str, _count: int) -> Iterator[None]:
    from sightword.captions import table  # noqa: F401 - imported before the measurement
    from sightword.captions.settings import CaptionsSettings
    from stages.captions import work

    yield
    work(CaptionsSettings())


def features_write(who: str, count: int) -> Iterator[None]:
    import h5py

    from sightword.features.tables.table import Origin, write_features

    values = np.random.default_rng(0).standard_normal((count, WIDTH), np.float32)
    names = [f"{number:010d}" for number in range(count)]
    origin = Origin("", "", "", "", "{}", "float32", "extracted")
    yield
    if who == "ours":
        write_features("ours.h5", names, [""] * count, WIDTH, [(np.arange(count), values)], origin)
        return
    with h5py.File("peer.h5", "w") as file:
        file["features"], file["ids"] = values, names


def features_read(who: str, count: int) -> Iterator[None]:
    import h5py

    from sightword.features.tables.table import read_features

    yield
    if who == "ours":
        assert len(read_features("ours.h5").features) == count
        return
    with h5py.File("peer.h5") as file:
        assert len(file["features"][:]) == len(file["ids"].asstr()[:]) == count


def store_write(who: str, count: int) -> Iterator[None]:
    from sightword.storage.store import Store

    yield
    if who == "ours":
        with Store("store").writer(KIND) as writer:
            for keys, values in stored(count):
                for key, feature in zip(keys, values, strict=True):
                    writer.put(key, feature)
        return
    with contextlib.closing(sqlite3.connect("peer.db")) as base:
        base.execute("CREATE TABLE features (key BLOB PRIMARY KEY, feature BLOB) WITHOUT ROWID")
        for keys, values in stored(count):
            with base:
                base.executemany("INSERT INTO features VALUES (?, ?)", zip(keys, map(bytes, values), strict=True))


def store_read(who: str, count: int) -> Iterator[None]:
    from sightword.storage.store import Store

    keys = [key for some, _ in stored(count) for key in some]
    yield
    if who == "ours":
        found = sum(len(values) for _, values in Store("store").read(KIND, WIDTH, keys))
    else:
        with contextlib.closing(sqlite3.connect("peer.db")) as base:
            one = "SELECT feature FROM features WHERE key = ?"
            found = sum(len(np.frombuffer(base.execute(one, (key,)).fetchone()[0], "<f4")) > 0 for key in keys)
    assert found == count


def stored(count: int) -> Iterator[tuple[list[bytes], np.ndarray]]:
    """Yield keys and features of some pictures at a time."""
    random = np.random.default_rng(0)
    for start in range(0, count, 1000):
        numbers = range(start, min(start + 1000, count))
        keys = [hashlib.sha256(b"%d" % number).digest() for number in numbers]
        yield keys, random.standard_normal((len(numbers), WIDTH), np.float32)


def index_build(who: str, count: int) -> Iterator[None]:
    yield from index(who, count, ask=False)


def index_query(who: str, count: int) -> Iterator[None]:
    yield from index(who, count, ask=True)


def index(who: str, count: int, *, ask: bool) -> Iterator[None]:
    from sightword.evaluation.retrieval.index import Index

    values = np.random.default_rng(0).standard_normal((count, WIDTH), np.float32)
    queries = np.random.default_rng(1).standard_normal((QUERIES, WIDTH), np.float32)
    held = Index(count, WIDTH, "cosine", "pictures")
    if not ask:
        yield
        if who == "ours":
            held.add(values)
        else:
            assert (values / np.linalg.norm(values, axis=1, keepdims=True)).shape == values.shape
        return
    held.add(values)
    lengths = np.linalg.norm(values, axis=1)
    yield
    for query in queries:
        if who == "ours":
            held.best(query, TOP)
            continue
        scores = (values @ query) / lengths
        best = np.argpartition(-scores, TOP)[:TOP]
        assert len(best[np.argsort(-scores[best])]) == TOP


def ranks(who: str, count: int) -> Iterator[None]:
    import torch

    from sightword.evaluation.retrieval.ranks import rank

    random = np.random.default_rng(0)
    pictures = random.standard_normal((min(PICTURES, count), WIDTH), np.float32)
    owner = np.arange(count) % len(pictures)
    values = random.standard_normal((count, WIDTH), np.float32)
    yield
    if who == "ours":
        rank(values, pictures, owner)
        return
    images = torch.nn.functional.normalize(torch.from_numpy(pictures))
    best, ranked = torch.full((len(pictures),), -torch.inf), torch.empty(count, dtype=torch.int64)
    counted = torch.zeros(len(pictures), dtype=torch.int64)
    for again in (False, True):  # the best caption of each picture first
        for start in range(0, count, PICTURES):
            own = torch.from_numpy(owner[start : start + PICTURES])
            table = torch.nn.functional.normalize(torch.from_numpy(values[start : start + PICTURES])) @ images.T
            right = table.gather(1, own[:, None])
            if again:
                counted += (table > best).sum(0)
            else:
                ranked[start : start + PICTURES] = (table > right).sum(1)
                best.scatter_reduce_(0, own, right[:, 0], "amax")


WORKS = {
    work.__name__: work
    for work in (
        corpus,
        captions,
        features_write,
        features_read,
        store_write,
        store_read,
        index_build,
        index_query,
        ranks,
    )
}


if __name__ == "__main__":
    main()
