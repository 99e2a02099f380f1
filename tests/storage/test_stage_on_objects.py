"""The stage features with a store in object storage writes the bytes that it writes with a folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import fork_server
import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image
from ruamel.yaml import YAML

from sightword.features.compute import ResizedCorpus
from sightword.features.settings import FeaturesSettings
from sightword.images.resized import Source, write_resized
from sightword.images.settings import ResizeSettings
from sightword.io.files import write_table
from sightword.storage.store import Store

PICTURES = 9
SMALL = {"backbone": "squeezenet1_1", "weights": "random", "weights_seed": 1, "crop": 48}
RESIZE = {"side": 56, "shards": 3}


@pytest.fixture(scope="module")
def project(repository, tmp_path_factory) -> Path:
    """What the stages corpus and resize would write, and the parameters."""
    folder = tmp_path_factory.mktemp("project")
    sources = []
    for number in range(PICTURES):
        blocks = np.random.default_rng(number).integers(0, 256, (4, 4 + number % 3, 3), np.uint8)
        Image.fromarray(blocks).resize((80, 80)).save(folder / f"{number}.png")
        sources.append(Source(f"{number}.png", str(folder / f"{number}.png")))
    table = {"image_id": [source.image_id for source in sources], "path": [source.path for source in sources]}
    write_table(folder / "data/corpus/images.parquet", pa.table(table))
    write_resized(folder / "data/resized", sources, ResizeSettings(**RESIZE))
    document = YAML(typ="safe", pure=True).load((repository / "params.yaml").read_text())
    document["resize"] |= RESIZE
    document["features"] |= SMALL | {"weights_sha256": ""}
    with (folder / "params.yaml").open("w") as stream:
        YAML().dump(document, stream)
    return folder


def written(project: Path, place: object, out: Path) -> tuple[int, bytes]:
    """The number of features that were computed, and the bytes of the output."""
    ids = [f"{number}.png" for number in range(PICTURES)]
    settings, cpu = FeaturesSettings(**SMALL), torch.device("cpu")
    summary = ResizedCorpus(ids, project / "data/resized", settings, store=Store(str(place)), device=cpu).write(out)
    return summary.computed, out.read_bytes()


@pytest.mark.slow
def test_cold_warm_and_half_warm_are_equal(project, tmp_path, front, address, monkeypatch) -> None:
    computed, expected = written(project, tmp_path / "store", tmp_path / "local.h5")
    assert computed == PICTURES
    assert written(project, address, tmp_path / "cold.h5") == (PICTURES, expected)
    assert written(project, address, tmp_path / "warm.h5") == (0, expected)
    ids = [f"{number}.png" for number in range(PICTURES)]
    half = ResizedCorpus(
        ids, project / "data/resized", FeaturesSettings(**SMALL), store=Store(f"{address}-half"),
        device=torch.device("cpu"),
    )  # fmt: skip
    some = list(zip(half._keys, half._pictures, strict=True))[: PICTURES // 2]
    assert sum(len(keys) for keys, _ in half._features(some)) == PICTURES // 2
    assert written(project, f"{address}-half", tmp_path / "half.h5") == (PICTURES - PICTURES // 2, expected)


def stage(repository: Path, project: Path, store: object, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(repository),
        "SIGHTWORD_DEVICE": "cpu",
        "SIGHTWORD_STORE": str(store),
        "SIGHTWORD_WORKERS": "0",
    }
    python = sys.executable if environment.get("SIGHTWORD_ENGINE") == "ray" else fork_server.python()
    command = [python, "-m", "stages", "features", *arguments]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)


def counts(said: str) -> tuple[int, int]:
    found = [re.search(rf"(\d+) {kind}", said.splitlines()[-1]) for kind in ("computed", "from store")]
    return tuple(int(one[1]) if one else 0 for one in found)


@pytest.mark.full
def test_workers_of_a_cluster_write_into_it(repository, project, tmp_path, front, address, monkeypatch) -> None:
    _, expected = written(project, tmp_path / "store", tmp_path / "local.h5")
    monkeypatch.setenv("SIGHTWORD_ENGINE", "ray")
    done = stage(repository, project, address)
    assert (done.returncode, counts(done.stderr)) == (0, (PICTURES, 0)), done.stderr
    assert "features: asked Ray for workers with " in done.stderr
    assert (project / "data/features/features.h5").read_bytes() == expected


@pytest.mark.full
def test_a_store_that_refuses_writing_stops_the_stage_before_it_computes(repository, project, front, address) -> None:
    before = sorted((project / "data").rglob("*"))
    front.fault = lambda method, _path: "denied" if method == "PUT" else ""
    done = stage(repository, project, address)
    assert done.returncode == 1
    [told] = [line for line in done.stderr.splitlines() if "may not be written" in line]
    assert told == (
        f"features: {address}: the store may not be written with these credentials (AccessDenied). Ask for the "
        "permission, or give other credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE."
    )
    assert "Traceback" not in done.stderr
    assert [path for path in sorted((project / "data").rglob("*")) if path.is_file()] == [
        path for path in before if path.is_file()
    ]
