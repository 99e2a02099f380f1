"""Ranks computed by the workers of a cluster, one of which is killed."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ray_nodes import finish, members, wait_for

from sightword import machine
from sightword.evaluation.retrieval import distributed
from sightword.evaluation.retrieval.ranks import rank

NAMES = ("images", "captions", "owner")
TOP = 5
FEW = slice(0, 1000)


def main(folder: Path) -> None:
    """Rank the embeddings in a folder with two workers, and then some of them by another similarity."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    distributed.WORTH_IT = 0.0
    images, captions, owner = (np.load(folder / f"{name}.npy") for name in NAMES)
    here = replace(machine.current(), engine="ray", workers=2)
    counts = {"captions": len(captions), "pictures": len(images), "dimensions": images.shape[1]}
    with distributed.ranker(here, **counts) as ranker:
        found = ranker(images, captions, owner, top=TOP)
        again = ranker(images[FEW], captions[FEW], np.arange(len(captions[FEW])), "dot")
    tops = {f"{name}_{of}": getattr(getattr(found, name), of) for name, of in LISTS}
    ranks = {"to_image": found.caption_to_image, "to_caption": found.image_to_caption, "again": again.caption_to_image}
    np.savez(folder / "found.npz", **ranks, **tops)


LISTS = [(name, of) for name in ("top_images", "top_captions") for of in ("candidate", "score")]


@pytest.mark.full
def test_a_worker_killed_in_the_middle_changes_no_rank(repository, tmp_path) -> None:
    random = np.random.default_rng(0)
    images = random.standard_normal((20_000, 64)).astype(np.float32)
    images[10_000:] = images[:10_000]  # twins, so that ties abound
    owner = random.permutation(np.concatenate([np.arange(20_000), random.integers(0, 20_000, 20_000)]))
    captions = (images[owner] + random.standard_normal((40_000, 64))).astype(np.float32)
    for name, rows in zip(NAMES, (images, captions, owner), strict=True):
        np.save(tmp_path / f"{name}.npy", rows)

    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    process = subprocess.Popen(
        [sys.executable, __file__, str(tmp_path)],
        env=inherited | {"PYTHONPATH": f"{repository}:{repository}/tests/support"},
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip

    def working() -> list[int]:
        return [number for number, title in members(process.pid).items() if title.startswith("ray::_Actor.work")]

    wait_for(working, 200, process)
    os.kill(working()[0], signal.SIGKILL)
    said = finish(process)
    assert "Ray on this machine, with room for 2 workers\n" in said
    assert "a worker was lost, and its work is done again\n" in said
    assert "constructor arguments" not in said  # Ray's warning of arguments that a started worker would lack

    found, expected = np.load(tmp_path / "found.npz"), rank(images, captions, owner, top=TOP)
    np.testing.assert_array_equal(found["to_image"], expected.caption_to_image)
    np.testing.assert_array_equal(found["to_caption"], expected.image_to_caption)
    for name, of in LISTS:
        np.testing.assert_array_equal(found[f"{name}_{of}"], getattr(getattr(expected, name), of))
    again = rank(images[FEW], captions[FEW], np.arange(1000), "dot")
    np.testing.assert_array_equal(found["again"], again.caption_to_image)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
