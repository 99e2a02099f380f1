"""Decoding JPEG files beside Pillow, and features.h5 beside h5py, in processor seconds on one thread.

- JPEG: `sightword.images.decode.decode`, which finds missing pieces, and Pillow alone, which does not; on the files of
  a folder. The pixels must be equal.
- features.h5: `write_features` and `read_features`, which check and write a sha256 of the file, and h5py with its
  defaults: the same features, ids and sha256 of pictures, and the features alone.

The sides take turns, picture by picture and file by file. The last line is JSON: for each side the milliseconds (of a
picture, or of the file), and its cost times the first side's (least, median, most).
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))

import h5py
import numpy as np
from PIL import Image
from turns import costs, in_turn

from sightword.features.tables.table import Origin, read_features, write_features
from sightword.images.decode import decode

ROWS, WIDTH = 8000, 512


def pictures(files: Sequence[Path], rounds: int) -> dict[str, list[float]]:
    data = [file.read_bytes() for file in files]

    def pillow(number: int) -> Image.Image:
        with Image.open(io.BytesIO(data[number % len(data)])) as picture:
            picture.load()
            return picture.convert("RGB") if picture.mode != "RGB" else picture

    def ours(number: int) -> Image.Image:
        return decode(data[number % len(data)], exif=False, max_pixels=10**8)

    for number in range(len(data)):
        assert np.array_equal(np.asarray(ours(number)), np.asarray(pillow(number))), files[number]
    took = in_turn({"Pillow": pillow, "ours": ours}, rounds, items=len(data))
    return costs(took, f"{len(data)} JPEG files", items=len(data))


def features(folder: Path, rounds: int) -> dict[str, dict[str, list[float]]]:
    values = np.random.default_rng(0).standard_normal((ROWS, WIDTH), np.float32)
    ids = [f"{number:08d}.jpg" for number in range(ROWS)]
    hashes = [hashlib.sha256(one.encode()).hexdigest() for one in ids]
    origin, own, other, bare = Origin("", "", "", "", "{}", "fp32", "extracted"), *(folder / name for name in "abc")

    def write_plain(path: Path, *, texts: bool) -> None:
        with h5py.File(path, "w") as file:
            file["features"] = values
            if texts:
                file["image_id"], file["sha256"] = ids, hashes

    def read_plain(path: Path, *, texts: bool) -> object:
        with h5py.File(path) as file:
            columns = [file[name].asstr()[:] for name in ("image_id", "sha256")] if texts else []
            return file["features"][:], columns

    written: dict[str, Callable[[int], object]] = {
        "h5py, the same contents": lambda _: write_plain(other, texts=True),
        "h5py, features alone": lambda _: write_plain(bare, texts=False),
        "ours": lambda _: write_features(own, ids, hashes, WIDTH, [(np.arange(ROWS), values)], origin),
    }
    read: dict[str, Callable[[int], object]] = {
        "h5py, the same contents": lambda _: read_plain(other, texts=True),
        "h5py, features alone": lambda _: read_plain(bare, texts=False),
        "ours": lambda _: read_features(own),
        "sha256 alone": lambda _: hashlib.sha256(values).hexdigest(),
    }
    title = f"features.h5, {ROWS:,} x {WIDTH}"
    return {
        "write": costs(in_turn(written, rounds), f"{title}, write"),
        "read": costs(in_turn(read, rounds), f"{title}, read"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a folder of JPEG files")
    parser.add_argument("--most", type=int, default=300, help="of these files (default: %(default)s)")
    arguments = parser.parse_args()
    result: dict[str, object] = {"jpeg": pictures(sorted(arguments.folder.glob("*.jpg"))[: arguments.most], 5)}
    with tempfile.TemporaryDirectory() as folder:
        result |= features(Path(folder), 15)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
