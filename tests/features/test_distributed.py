"""A worker on a node of Ray, and what it and the address of a cluster lack, without a cluster."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import signal
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from sightword.errors import FeaturesError, SetupError
from sightword.features.compute import Job, pictures_of
from sightword.features.distributed import Worker, _connected, _result
from sightword.features.extraction import Extraction
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


@pytest.fixture
def made(resized, tmp_path) -> Callable[..., Worker]:
    """A worker; some of its arguments may differ from what the node has."""
    settings = FeaturesSettings(backbone="shufflenet_v2_x0_5", weights="random", crop=SIDE, crops="one")
    here = Extraction(settings, read_transform(resized), device=torch.device("cpu"), store=None)
    store = str(tmp_path / "store")
    machine = Machine("cpu", workers=0, threads=1, store=store, cache=tmp_path, scratch=tmp_path)

    def make(**other: Any) -> Worker:
        known = {"identity": here.identity, "folder": str(tmp_path)}
        return Worker(settings, resized, store, machine, **known | other)

    return make


def test_a_worker_writes_the_features_of_one_machine_into_the_store(made, resized, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    worker = made()
    settings, identity = worker._settings, worker._identity
    here = Extraction(settings, read_transform(resized), device=torch.device("cpu"), store=None)
    groups: dict[Group, dict[str, bytes]] = {}
    for picture in list_pictures(resized):
        groups.setdefault(picture.group, {})[picture.image_id] = identity.key(picture.pixels_sha256)
    jobs = [Job(Selection(group, frozenset(keys)), keys) for group, keys in groups.items()]
    assert [worker.compute([job]).pictures for job in jobs] == [32, 8]
    keys = [key for job in jobs for key in job.keys.values()]
    arrays = [read_arrays(job.selection) for job in jobs]

    def by_key(found: Iterable[tuple[list[bytes], Any]]) -> dict[bytes, bytes]:
        return {key: value.tobytes() for some, values in found for key, value in zip(some, values, strict=True)}

    expected = by_key(here.run(keys, lambda _: pictures_of(jobs, arrays), progress=False))
    assert by_key(Store(tmp_path / "store").read(identity, here.dimension, keys)) == expected
    assert len(set(expected.values())) == 40


def test_a_node_that_differs_is_an_error(made, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    other = dataclasses.replace(made()._identity, kernel="cpu-other", code="0" * 64)
    for arguments, message in (
        (
            {"identity": other},
            r"another kind of feature \(kernel cpu, code \w+\); expected kernel cpu-other, code 0000",
        ),
        ({"folder": "/nowhere"}, "cannot enter the project's folder /nowhere"),
    ):
        with pytest.raises((FeaturesError, SetupError), match=message):
            made(**arguments).start()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "head:x"])
def test_an_address_without_a_cluster_is_an_error(address, made, monkeypatch) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_ADDRESS", address)
    with (
        pytest.raises(SetupError, match=f"RAY_ADDRESS={address}: no cluster of Ray answers"),
        _connected(made()._machine),
    ):
        pass


def test_the_engine_without_its_package_names_the_extra(made, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SetupError, match="the engine ray: Ray is not installed"), _connected(made()._machine):
        pass


@pytest.mark.parametrize("ends", [True, False])
def test_sigterm_interrupts_while_ray_starts_and_has_its_handler_later(ends, made, monkeypatch) -> None:
    """Ray takes the signal over when it starts."""

    def start(**_: object) -> None:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(number))
        if ends:
            os.kill(os.getpid(), signal.SIGTERM)

    ray = SimpleNamespace(init=start, shutdown=lambda: None, exceptions=SimpleNamespace(RayError=OSError))
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(KeyboardInterrupt) if ends else nullcontext(), _connected(made()._machine):
            assert signal.getsignal(signal.SIGTERM) == before
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_worker_that_is_lost_again_and_again_is_an_error() -> None:
    class LostError(Exception):
        pass

    def get(_: object) -> None:
        raise LostError("The actor died.\nDetails")

    class TaskError(Exception):
        cause = FeaturesError("of the worker")

    def fail(_: object) -> None:
        raise TaskError

    ray = SimpleNamespace(get=get, exceptions=SimpleNamespace(RayTaskError=TaskError, RayError=LostError))
    with pytest.raises(
        SetupError, match=r"a worker was lost 4 times, the last time so: The actor died\. Perhaps memory"
    ):
        _result(ray, None)
    ray.get = fail
    with pytest.raises(FeaturesError, match="of the worker"):
        _result(ray, None)
