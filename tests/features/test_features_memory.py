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

pytestmark = pytest.mark.full
FLAT = "import torch\n\ndef flat():\n    return torch.nn.Flatten(), {'crop': 56}, 'pixels'\n"
"""A network that takes no time: 9,408 features, 38 kB."""


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
    (folder / "flat_network.py").write_text(FLAT)
    return folder


def test_memory_does_not_grow_with_the_pictures(repository, tmp_path) -> None:
    """Ids and keys take 1 kB a picture; 3,000 pictures (37 MB) or features (113 MB) would come on top."""
    peaks, network = {}, {"backbone": "flat_network:flat", "weights": "package"}
    for count in (1500, 4500):
        folder = project(repository, tmp_path / str(count), count, 64, crops="one", **network)
        store = str(tmp_path / f"store-{count}")
        peaks[count] = peak(repository, folder, "-m", "stages", "features", "-q", SIGHTWORD_STORE=store)
    assert (tmp_path / "4500/data/features/features.h5").stat().st_size > 160e6
    assert peaks[4500] < peaks[1500] + 30


def test_the_published_network_fits_a_plain_computer(repository, tmp_path) -> None:
    folder = project(repository, tmp_path / "project", 4, 256, backbone="resnet152")
    store = str(tmp_path / "store")
    held = peak(repository, folder, "-m", "stages", "features", "-q", SIGHTWORD_STORE=store, SIGHTWORD_THREADS="2")
    assert held < 3000
