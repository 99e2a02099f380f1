"""Scoring takes what its tiles take, however many pictures and captions there are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

# What a few pictures take is taken before, by the same tiles. Scores of all pairs would be 324 MB more.
MEASURE = """
import resource, sys
import numpy as np
from sightword.evaluation.retrieval import querybank, ranks

ranks._BLOCK_BYTES = 1 << 20

def peak(pictures, similarity):
    random = np.random.default_rng(0)
    images, captions = (random.random((count, 4), np.float32) for count in (pictures, 2 * pictures))
    found = ranks.rank(captions, images, np.arange(2 * pictures) % pictures, similarity, top=5)
    assert len(found.top_captions.candidate) == pictures
    querybank.with_querybank(captions, images, captions, images)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6

few = max(peak(1000, "cosine"), peak(1000, "order"))
print(max(peak(4500, "cosine"), peak(4500, "order")) - few)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_pairs(repository):
    done = subprocess.run(
        [sys.executable, "-c", MEASURE],
        cwd=repository,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 30


STREAM = """
import resource, sys
import numpy as np
from sightword.evaluation.retrieval.ranks import rank

def held():  # without the pages of mapped files, which the system takes back when it needs them
    lines = dict(line.split(":") for line in open("/proc/self/status"))
    return int(lines["RssAnon"].split()[0]) / 1000

images, captions, owner = (np.load(name + ".npy", mmap_mode="r") for name in ("images", "captions", "owner"))
few = rank(captions[owner < 2000], images[:2000], owner[owner < 2000])
before, most = held(), 0.0
import threading, time
def watch():
    global most
    while True:
        most = max(most, held())
        time.sleep(0.05)
threading.Thread(target=watch, daemon=True).start()
found = rank(captions, images, owner)
np.savez("ranks.npz", to_image=found.caption_to_image, to_caption=found.image_to_caption)
print(most - before)
"""


@pytest.mark.full
def test_a_long_stream_from_files_is_exact_and_takes_little_memory(repository, tmp_path):
    if not Path("/proc/self/status").exists():
        pytest.skip("the memory of a running process is read from /proc, which only Linux has")
    random = np.random.default_rng(0)
    images = random.standard_normal((10_000, 64)).astype(np.float32)
    owner = random.permutation(np.concatenate([np.arange(10_000), random.integers(0, 10_000, 40_000)]))
    captions = (images[owner] + random.standard_normal((50_000, 64))).astype(np.float32)
    for name, rows in (("images", images), ("captions", captions), ("owner", owner)):
        np.save(tmp_path / f"{name}.npy", rows)
    done = subprocess.run(
        [sys.executable, "-c", STREAM],
        cwd=tmp_path,
        # Freed memory goes back to the system at once, so that the measurement is the same in each run.
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(repository), "MALLOC_MMAP_THRESHOLD_": "65536"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 40  # scores of all pairs in float32 would be 2000

    ranks = np.load(tmp_path / "ranks.npz")
    images, captions = (
        rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (images.astype(float), captions.astype(float))
    )
    own = np.einsum("nd,nd->n", captions, images[owner])
    best = np.full(len(images), -1.0)
    np.maximum.at(best, owner, own)
    for caption in random.integers(0, len(captions), 300):
        scores = images @ captions[caption]
        rivals = np.delete(scores, owner[caption]) >= own[caption] - 1e-13
        assert ranks["to_image"][caption] == 1 + rivals.sum()
    for image in random.integers(0, len(images), 300):
        rivals = (captions[owner != image] @ images[image]) >= best[image] - 1e-13
        assert ranks["to_caption"][image] == 1 + rivals.sum()
