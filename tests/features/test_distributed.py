"""Work cut into pieces for the workers of a cluster, and a worker's part of it, without a cluster."""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sightword.errors import FeaturesError
from sightword.features.compute import Job, pictures_of
from sightword.features.distributed import Pieces, Worker
from sightword.features.extraction import Extraction
from sightword.features.extractor import Clock
from sightword.features.settings import FeaturesSettings
from sightword.images.shards import (
    Group,
    ResizedPicture,
    Selection,
    list_pictures,
    read_arrays,
    read_transform,
    shard_path,
    write_shard,
)
from sightword.machine import Machine
from sightword.storage.store import Store

SIDE = 32


@given(
    st.lists(st.lists(st.integers(1, 32), min_size=1, max_size=30), max_size=5),
    st.lists(st.tuples(st.integers(1, 5000), st.floats(0, 100), st.integers(1, 9)), max_size=5),
)
def test_pieces_hold_each_job_once_and_one_shard_each(shards, speeds) -> None:
    jobs = [
        Job(Selection(Group(f"shard-{shard}", index, rows, ""), frozenset()), {str(n): b"" for n in range(rows)})
        for shard, groups in enumerate(shards)
        for index, rows in enumerate(groups)
    ]
    pieces, found = Pieces(jobs), []
    for piece in pieces:
        assert len({job.selection.group.path for job in piece}) == 1
        found += piece
        if speeds:
            count, seconds, workers = speeds.pop()
            pieces.learn(Clock(pictures=count, wall=seconds), workers)
    assert found == jobs


def test_fast_workers_get_larger_pieces_and_all_workers_get_some() -> None:
    jobs = [
        Job(Selection(Group("shard", index, 32, ""), frozenset()), {str(n): b"" for n in range(32)})
        for index in range(1000)
    ]
    pieces = Pieces(jobs)
    assert len(next(pieces)) == 1
    pieces.learn(Clock(pictures=32, wall=1.0), 2)  # 320 pictures in ten seconds
    assert len(next(pieces)) == 10
    pieces.learn(Clock(pictures=32, wall=0.001), 100)  # a 400th of the rest is 80 pictures
    assert len(next(pieces)) == 2


@pytest.fixture
def resized(tmp_path):
    """Forty pictures in two row groups."""
    rng = np.random.default_rng(0)
    pictures = [
        ResizedPicture(
            f"{n:02d}", "", hashlib.sha256(bytes([n])).hexdigest(), SIDE, SIDE, "raw", rng.bytes(SIDE * SIDE * 3)
        )
        for n in range(40)
    ]
    write_shard(shard_path(tmp_path / "resized", 0), pictures, {"resize": SIDE, "interpolation": "area", "exif": False})
    return tmp_path / "resized"


def test_a_worker_writes_the_features_of_one_machine_into_the_store(resized, tmp_path) -> None:
    settings = FeaturesSettings(backbone="shufflenet_v2_x0_5", weights="random", crop=SIDE, crops="one")
    here = Extraction(settings, read_transform(resized), device=torch.device("cpu"), store=None)
    groups: dict[Group, dict[str, bytes]] = {}
    for picture in list_pictures(resized):
        groups.setdefault(picture.group, {})[picture.image_id] = here.identity.key(picture.pixels_sha256)
    jobs = [Job(Selection(group, frozenset(keys)), keys) for group, keys in groups.items()]
    store = str(tmp_path / "store")
    machine = Machine("cpu", workers=0, threads=1, store=store, cache=tmp_path, scratch=tmp_path)
    worker = Worker(settings, resized, store, machine, here.identity)
    assert [worker([job]).pictures for job in jobs] == [32, 8]
    keys = [key for job in jobs for key in job.keys.values()]
    arrays = [read_arrays(job.selection) for job in jobs]
    expected = {
        key: value.tobytes()
        for found, values in here.run(keys, lambda _: pictures_of(jobs, arrays), progress=False)
        for key, value in zip(found, values, strict=True)
    }
    stored = {
        key: value.tobytes()
        for found, values in Store(store).read(here.identity, here.dimension, keys)
        for key, value in zip(found, values, strict=True)
    }
    assert stored == expected
    assert len(set(stored.values())) == 40

    other = dataclasses.replace(here.identity, kernel="cpu-other", code="0" * 64)
    with pytest.raises(
        FeaturesError, match=r"another kind of feature \(kernel cpu, code \w+\); expected kernel cpu-other, code 0000"
    ):
        Worker(settings, resized, store, machine, other)
