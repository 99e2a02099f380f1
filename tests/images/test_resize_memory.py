"""What the stage resize holds does not grow with the corpus, nor with what a header promises."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from memory import peak
from PIL import Image
from ruamel.yaml import YAML

from sightword.io.files import write_table

DECODE = """
import sys
from pathlib import Path
from sightword.images.decode import RejectError, decode
try:
    picture = decode(Path(sys.argv[1]).read_bytes(), exif=True, max_pixels=100_000_000)
except RejectError as error:
    sys.exit(error.reason != "too_large")
sys.exit(picture.mode != "RGB")
"""


@pytest.mark.slow
def test_a_bomb_takes_no_memory(repository, tmp_path) -> None:
    peaks = {}
    for side in (10, 5_000, 11_000):  # 5,000 is allowed: its 100 MB show that the measure sees pixels
        path = tmp_path / f"{side}.png"
        Image.new("1", (side, side)).save(path)
        peaks[side] = peak(repository, tmp_path, "-c", DECODE, str(path))
    assert peaks[5_000] > peaks[10] + 90
    assert peaks[11_000] < peaks[10] + 20


def project(repository: Path, folder: Path, count: int) -> Path:
    """A project of tiny pictures, kept raw in one shard: all of them would be 9 kB each."""
    (folder / "pictures").mkdir(parents=True)
    rng = np.random.default_rng(0)
    paths = [f"pictures/{number:05d}.png" for number in range(count)]
    for path in paths:
        Image.fromarray(rng.integers(0, 256, (24, 32, 3), np.uint8)).save(folder / path, compress_level=0)
    write_table(folder / "data/corpus/images.parquet", pa.table({"image_id": paths, "path": paths}))
    document = YAML(typ="safe", pure=True).load((repository / "params.yaml").read_text())
    document["resize"] |= {"side": 48, "encoding": "raw", "shards": 1}
    document["features"]["crop"] = 32
    with (folder / "params.yaml").open("w") as stream:
        YAML().dump(document, stream)
    return folder


@pytest.mark.full
def test_memory_does_not_grow_with_the_corpus(repository, tmp_path) -> None:
    few = peak(repository, project(repository, tmp_path / "few", 300), "-m", "stages", "resize")
    many = peak(repository, project(repository, tmp_path / "many", 5000), "-m", "stages", "resize")
    kept = (tmp_path / "many/data/resized/shard-00.parquet").stat().st_size / 1e6
    shutil.rmtree(tmp_path / "many")
    assert kept > 45  # so that holding them would show
    assert many < few + 25
