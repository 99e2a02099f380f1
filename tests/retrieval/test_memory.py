"""Scoring takes what its tiles take, however many pictures and captions there are."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# What a few pictures take is taken before, by the same tiles. Scores of all pairs would be 324 MB more.
MEASURE = """
import resource, sys
import numpy as np
from pipeline.retrieval import ranks

ranks._BLOCK_BYTES = 1 << 20

def peak(pictures, similarity):
    random = np.random.default_rng(0)
    images, captions = (random.random((count, 4), np.float32) for count in (pictures, 2 * pictures))
    found = ranks.rank(images, captions, np.arange(2 * pictures) % pictures, similarity, top=5)
    assert len(found.top_captions.candidate) == pictures
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
