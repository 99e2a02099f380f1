"""Structural measures without pairs against matrices of all pairs, on the very same vectors, in one run.

The plain way: float32 matrices of the cosines of all sentences, and of their pictures; their means and their Pearson
correlation under masks; the nearest neighbours by sorting each row of the cosines of all pictures and of the c-th
captions of all pictures. Ours: :func:`sightword.structure`, in float64. Five sentences a picture; one CPU thread.

The last line is JSON: for each width, structure_ratio (CPU seconds of the plain way over ours), structure_difference
(the largest difference of a measure) and structure_mb (memory that ours adds to the vectors' own).
"""

from __future__ import annotations

import argparse
import json
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import resource

import numpy as np
from numpy.typing import NDArray

import sightword

Floats = NDArray[np.float32]
EACH, K = 5, 10


def vectors(pictures: int, width: int, seed: int = 0) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Return sentences that resemble their pictures, all in one cone, as trained encoders give them."""
    random = np.random.default_rng(seed)
    seen = random.standard_normal((pictures, width), dtype=np.float32) + np.float32(0.5)
    owner = np.repeat(np.arange(pictures), EACH)
    return seen[owner] + random.standard_normal((len(owner), width), dtype=np.float32), seen, owner


def plain(sentences: Floats, pictures: Floats, owner: NDArray[np.int64]) -> dict[str, float]:
    """Return the measures by matrices of all pairs, float32; sentences are sorted by picture, EACH of a picture."""
    s, v = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (sentences, pictures))
    shown = v[owner]
    x, y = s @ s.T, shown @ shown.T
    same = owner[:, None] == owner
    other = ~same
    np.fill_diagonal(same, False)
    intra, inter = float(x[same].mean(dtype=np.float64)), float(x[other].mean(dtype=np.float64))
    middle = float(y[other].mean(dtype=np.float64))
    near = np.argsort(-(v @ v.T), axis=1)[:, 1 : K + 1]
    shares = []
    for number in range(EACH):
        own = np.argsort(-x[number::EACH, number::EACH], axis=1)[:, 1 : K + 1]
        shares.append(np.mean([len(np.intersect1d(a, b)) for a, b in zip(own, near, strict=True)]) / K)
    x -= np.float32(inter)
    y -= np.float32(middle)
    x *= other
    y *= other
    products, of_x, of_y = (
        sum(float(np.einsum("ij,ij->", a[i : i + 256], b[i : i + 256])) for i in range(0, len(a), 256))
        for a, b in ((x, y), (x, x), (y, y))
    )
    return {
        "mnno": float(np.mean(shares)),
        "rho_vis": products / (of_x * of_y) ** 0.5,
        "c_inter": inter,
        "c_intra": intra,
    }


def compare(pictures: int, widths: tuple[int, ...]) -> dict[str, dict[str, float]]:
    """Return by width the ratio of the seconds, the largest difference, and the memory of ours.

    All measures of ours come first, since the largest memory of a process never falls.
    """
    sightword.structure(*vectors(50, 64), k=K)  # loads the packages
    ours, found = {}, {}
    for width in widths:
        material = vectors(pictures, width)
        before, start = _peak(), time.process_time()
        values = sightword.structure(*material, k=K)
        ours[width] = values, time.process_time() - start, _peak() - before
    for width, (values, seconds, added) in ours.items():
        start = time.process_time()
        theirs = plain(*vectors(pictures, width))
        slow = time.process_time() - start
        difference = max(abs(theirs[name] - value) for name, value in values.items() if value is not None)
        print(f"{pictures * EACH:,} sentences, {pictures:,} pictures, {width} numbers: {seconds:.2f} s, {added:.0f} MB")
        print(f"  matrices of all pairs: {slow:.1f} s; largest difference {difference:.1e}")
        found[str(width)] = {
            "structure_ratio": round(slow / seconds, 1),
            "structure_difference": difference,
            "structure_mb": round(added),
        }
    return found


def _peak() -> float:
    """Return the largest memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="vectors of 512 numbers only")
    widths = (512,) if parser.parse_args().quick else (512, 2_048)
    print(json.dumps(compare(5_000, widths)))
