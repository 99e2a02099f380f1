"""What an item costs as their number grows: each kind and size in a process of its own, beside the plain way.

- corpus: the stage on a Parquet of that many pictures with a caption each, in rows of bytes; peer: pandas
  (``read_parquet`` without the bytes, ``drop_duplicates``, ``sort_values``, ``to_parquet``);
- captions: the stage on the tables of that corpus; without a peer;
- features: ``features.h5`` of 64 numbers, written and read; peer: h5py with its defaults;
- index: rows of 64 numbers added, and 16 queries; peer: NumPy's product and ``argpartition``.

Each line is JSON: kind, items, who, seconds of processor time without imports, and grown, the MB by which the most
memory exceeds that after the imports.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

SIZES = (1_000, 10_000, 100_000, 1_000_000)
WIDTH = 64
QUERIES = 16


def main() -> None:
    """Run all kinds at all sizes, or one in this process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", default=["corpus", "captions", "features", "index"])
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--one", nargs=2, metavar=("KIND", "WHO"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        one(*arguments.one, arguments.sizes[0])
        return
    for count in arguments.sizes:
        with tempfile.TemporaryDirectory(prefix="growth-") as folder:
            make(Path(folder, "raw"), count)
            for kind in arguments.kinds:
                for who in ("ours", "peer") if kind != "captions" else ("ours",):
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
    work = {"corpus": corpus, "captions": captions, "features": features, "index": index}[kind](who, count)
    next(work)
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
    from sightword.captions import encoding, table  # noqa: F401 - imported before the measurement
    from sightword.captions.settings import CaptionsSettings
    from stages.captions import work

    yield
    work(CaptionsSettings())


def features(who: str, count: int) -> Iterator[None]:
    import h5py

    from sightword.features.tables.table import Origin, read_features, write_features

    values = np.random.default_rng(0).standard_normal((count, WIDTH), np.float32)
    names = [f"{number:010d}" for number in range(count)]
    origin = Origin("", "", "", "", "{}", "float32", "extracted")
    yield
    if who == "ours":
        write_features("ours.h5", names, [""] * count, WIDTH, [(np.arange(count), values)], origin)
        assert len(read_features("ours.h5").features) == count
        return
    with h5py.File("peer.h5", "w") as file:
        file["features"], file["ids"] = values, names
    with h5py.File("peer.h5") as file:
        assert len(file["features"][:]) == len(file["ids"].asstr()[:])


def index(who: str, count: int) -> Iterator[None]:
    from sightword.evaluation.retrieval.index import Index

    random = np.random.default_rng(0)
    values = random.standard_normal((count, WIDTH), np.float32)
    queries = random.standard_normal((QUERIES, WIDTH), np.float32)
    yield
    if who == "ours":
        held = Index(count, WIDTH, "dot", "pictures")
        held.add(values)
        for query in queries:
            held.best(query, 10)
        return
    for query in queries:
        scores = values @ query
        best = np.argpartition(-scores, 10)[:10]
        assert len(best[np.argsort(-scores[best])]) == 10


if __name__ == "__main__":
    main()
