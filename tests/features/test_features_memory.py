"""What the stage features holds does not grow with the number of pictures, and fits a plain computer."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from memory import peak
from ruamel.yaml import YAML

from sightword.images.shards import ResizedPicture, shard_path, write_shard
from sightword.io.files import write_table


def project(repository: Path, folder: Path, count: int, side: int, **settings: object) -> Path:
    """A project whose pictures are resized already."""
    rng = np.random.default_rng(0)
    names = [f"{number:06d}" for number in range(count)]
    pictures = (
        ResizedPicture(name, "", hashlib.sha256(name.encode()).hexdigest(), side, side, "raw", rng.bytes(side**2 * 3))
        for name in names
    )
    resized = folder / "data/resized"
    write_shard(shard_path(resized, 0), pictures, {"resize": side, "interpolation": "lanczos", "exif": False})
    nothing = pa.array([], pa.string())
    write_table(resized / "rejects.parquet", pa.table({"image_id": nothing, "reason": nothing, "detail": nothing}))
    write_table(folder / "data/corpus/images.parquet", pa.table({"image_id": names}))
    document = YAML(typ="safe", pure=True).load((repository / "params.yaml").read_text())
    document["resize"]["side"] = side
    document["features"] |= {"weights": "random", "weights_sha256": "", **settings}
    with (folder / "params.yaml").open("w") as stream:
        YAML().dump(document, stream)
    return folder


@pytest.mark.full
def test_memory_does_not_grow_with_the_pictures(repository, tmp_path) -> None:
    peaks = {}
    for count in (6000, 11_000):  # from 1,000 to 6,000 memory grows by up to 25 MB, and then no more
        folder = project(repository, tmp_path / str(count), count, 64, crop=48, crops="one")
        store = str(tmp_path / f"store-{count}")
        peaks[count] = peak(repository, folder, "-m", "stages", "features", "-q", SIGHTWORD_STORE=store)
    # Ids and keys take 1 kB a picture; 5,000 pictures (61 MB) or features (21 MB) would come on top.
    assert (tmp_path / "11000/data/features/features.h5").stat().st_size > 40e6
    assert peaks[11_000] < peaks[6000] + 20


@pytest.mark.full
def test_the_published_network_fits_a_plain_computer(repository, tmp_path) -> None:
    folder = project(repository, tmp_path / "project", 4, 256, backbone="resnet152")
    store = str(tmp_path / "store")
    held = peak(repository, folder, "-m", "stages", "features", "-q", SIGHTWORD_STORE=store, SIGHTWORD_THREADS="2")
    assert held < 3000
