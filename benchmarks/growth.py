"""What an item costs as their number grows: each kind and size in a process of its own, beside the plain way.

- corpus: the stage on a Parquet of that many pictures with a caption each, in rows of bytes; peer: pandas
  (``read_parquet`` without the bytes, ``drop_duplicates``, ``sort_values``, ``to_parquet``);
- captions: the stage on the tables of that corpus; without a peer;
- features_write, features_read: ``features.h5``; peer: h5py with its defaults;
- store_write, store_read: a store of features in a folder; peer: a table of SQLite;
- resize_loose, resize_tar: pictures of 500 x 375 in a bucket of an S3 server on this machine, loose or in tars; peer:
  the same files of a folder.

All features have 64 numbers: a million of 2,048 take 8 GB, and some kinds hold several copies.

Each line is JSON: kind, items, who, seconds of processor time without imports, and grown, the MB by which the most
memory exceeds that after the imports and the making of the items. ``--tiny`` runs all of it in one process.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import functools
import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests/support"))
import servers

from sightword.io.modules import leave_pandas
from sightword.storage.store import KindIdentity

SIZES = (1_000, 10_000, 100_000, 1_000_000)
WIDTH = 64
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


def resize_loose(who: str, count: int) -> Iterator[None]:
    yield from resize(who, count, tar=False)


def resize_tar(who: str, count: int) -> Iterator[None]:
    yield from resize(who, count, tar=True)


def resize(who: str, count: int, *, tar: bool) -> Iterator[None]:
    from PIL import Image

    from sightword.images.resized import Source, write_resized
    from sightword.images.settings import ResizeSettings
    from sightword.places.place import Part, Place, objects
    from sightword.places.tar import members

    shutil.rmtree("files", ignore_errors=True)
    Path("files/in").mkdir(parents=True)
    for number in range(count):
        blocks = np.random.default_rng(number).integers(0, 256, (8, 8 + number % 4, 3), np.uint8)
        Image.fromarray(blocks).resize((500, 375)).save(f"files/in/{number:06}.jpg")
    if tar:
        for start in range(0, count, 500):
            with tarfile.open(f"files/{start:06}.tar", "w") as archive:
                for path in sorted(Path("files/in").iterdir())[start : start + 500]:
                    archive.add(path, path.name)
        shutil.rmtree("files/in")
    files = [path for path in sorted(Path("files").rglob("*")) if path.is_file()]
    found = {path.name: Place(str(path)) for path in files}
    if who == "ours":
        bucket, below = served(), f"{count}{tar}"
        for path in files:
            bucket.put(f"{below}/{path.name}", path.read_bytes())
        found = objects([f"s3://{bucket.bucket}/{below}/"])
    sources = [Source(name, *place) for name, place in found.items()]
    if tar:
        inner = ((one, members(one, lambda _: False).files) for one in found.values())
        sources = [Source(name, one.path, Part(*span, version=one.part and one.part.version))
                   for one, spans in inner for name, span in spans.items()]  # fmt: skip
    write_resized("warm", sources[:1], ResizeSettings())
    yield
    assert write_resized(f"resized-{who}", sources, ResizeSettings(shards=4)).pictures == count


@functools.cache
def served() -> servers.S3Server:
    """Start an S3 server for this process."""
    made = contextlib.ExitStack()
    atexit.register(made.close)
    server = made.enter_context(servers.s3(Path(made.enter_context(tempfile.TemporaryDirectory()))))
    os.environ |= {"AWS_ENDPOINT_URL": server.endpoint, "AWS_ACCESS_KEY_ID": "test", "NO_PROXY": "127.0.0.1",
                   "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}  # fmt: skip
    return server


WORKS = {
    work.__name__: work
    for work in (
        corpus,
        captions,
        features_write,
        features_read,
        store_write,
        store_read,
        resize_loose,
        resize_tar,
    )
}


if __name__ == "__main__":
    main()
