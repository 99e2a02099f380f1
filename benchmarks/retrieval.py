"""Retrieval scoring against the published way, what the order similarity costs, and memory.

The published way is that of VSE++ (Faghri et al. 2018): every picture stands in its array five times, all in float64; a
picture's products with all captions, then those of its five captions with all pictures, each query sorted in full and
the rank found by position. It and ours take turns, from the same numbers to recalls with intervals by 1,000 resamples,
on 5,000 captions and 1,000 pictures of 2,048 dimensions, and must find the same recalls, medians and mean ranks. The
plain way of today takes turns with ours in the ranks alone: torch's product in float32, and the number of scores above
that of the right pair. The order similarity and the cosine take turns at 25,000 captions and 5,000 pictures of 1,024.

Memory is that of a process that scores 25,000 captions and 5,000 pictures of 2,048 dimensions with lists of the ten
best, beyond what it held with the embeddings before it began.

The last line is JSON: ratio (times faster than the published way), plain_cost (processor seconds of our exact ranks,
times the plain way's), order_cost (times the cosine's time), peak_extra_mb by similarity.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import common
import numpy as np
import torch

from sightword import score
from sightword.evaluation.retrieval.protocols import entry
from sightword.evaluation.retrieval.ranks import rank

EACH = 5
SIMILARITIES = ("cosine", "order")


def embeddings(pictures: int, captions: int, width: int, dtype: type) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pictures, captions of positive numbers and unit length, and their pictures; nothing larger is ever held."""
    random = np.random.default_rng(0)
    images, sentences = (np.empty((count, width), dtype) for count in (pictures, captions))
    for rows in (images, sentences):
        for start in range(0, len(rows), 1000):
            part = np.abs(random.standard_normal(rows[start : start + 1000].shape))
            if rows is sentences:
                part += 4 * images[np.arange(start, start + len(part)) // EACH % pictures]
            rows[start : start + 1000] = part / np.linalg.norm(part, axis=1, keepdims=True)
    return images, sentences, np.arange(captions) // EACH % pictures


def published(images: np.ndarray, captions: np.ndarray) -> dict[str, dict[str, float]]:
    """Both float64 (5 n, D), row k of one belonging to row k of the other; the pictures stand there five times."""
    to_caption = np.zeros(len(images) // EACH)
    for picture in range(len(to_caption)):
        first = EACH * picture
        similarity = np.dot(images[first].reshape(1, -1), captions.T).flatten()
        best_first = np.argsort(similarity)[::-1]
        to_caption[picture] = min(np.where(best_first == own)[0][0] for own in range(first, first + EACH))
    once = np.array([images[row] for row in range(0, len(images), EACH)])
    to_image = np.zeros(len(captions))
    for picture in range(len(once)):
        first = EACH * picture
        similarity = np.dot(captions[first : first + EACH], once.T)
        for row in range(len(similarity)):
            best_first = np.argsort(similarity[row])[::-1]
            to_image[first + row] = np.where(best_first == picture)[0][0]
    return {
        direction: {
            **{f"r{k}": 100.0 * len(np.where(ranks < k)[0]) / len(ranks) for k in (1, 5, 10)},
            "median_rank": float(np.median(ranks)) + 1,
            "mean_rank": float(ranks.mean()) + 1,
        }
        for direction, ranks in (("caption_to_image", to_image), ("image_to_caption", to_caption))
    }


def against_published(pictures: int, rounds: int) -> float:
    images, captions, owner = embeddings(pictures, EACH * pictures, 2048, np.float64)
    repeated = np.repeat(images, EACH, axis=0)
    found: dict[str, dict[str, dict[str, float]]] = {}
    works = {"ours": lambda _: score(captions, images, owner), "published": lambda _: published(repeated, captions)}
    took = common.in_turn(works, rounds, warm=1, look=lambda _, side, numbers: found.update({side: numbers}))
    for direction, scores in found["published"].items():
        for name, value in scores.items():
            assert abs(found["ours"][direction][name] - value) < 1e-9, (direction, name)
    return common.costs(took, "scores")["published"][2]


def plain(images: np.ndarray, captions: np.ndarray, owner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ranks of the right pictures (M,), and of the best right captions (N,), counted from 1."""
    table, own = torch.from_numpy(captions) @ torch.from_numpy(images).T, torch.from_numpy(owner)
    right = table.gather(1, own[:, None])
    best = torch.full((len(images),), -torch.inf).scatter_reduce(0, own, right[:, 0], "amax")
    return (table > right).sum(1).numpy() + 1, (table > best).sum(0).numpy() + 1


def against_plain(pictures: int, rounds: int) -> float:
    images, captions, owner = embeddings(pictures, EACH * pictures, 1024, np.float32)
    works = {"plain": lambda _: plain(images, captions, owner), "ours": lambda _: rank(captions, images, owner)}
    return common.costs(common.in_turn(works, rounds, warm=1), "ranks")["ours"][2]


def order_against_cosine(pictures: int, rounds: int) -> float:
    images, captions, owner = embeddings(pictures, EACH * pictures, 1024, np.float32)
    works = {name: lambda _, name=name: rank(captions, images, owner, name) for name in SIMILARITIES}
    return common.costs(common.in_turn(works, rounds, warm=1), "ranks")["order"][2]


def peak(similarity: str) -> float:
    """Of this process: the most memory beyond what it held with the embeddings, in MB."""
    images, captions, owner = embeddings(5000, 25_000, 2048, np.float32)
    # Making them took some memory that is given back: what is held now counts, not the most so far.
    held = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    entry([rank(captions, images, owner, similarity, top=10)])
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return round((most - held) / 1e6, 1)


def apart(similarity: str, threads: int) -> float:
    """:func:`peak` in a process of its own, which a small one starts: a process counts what its parent held."""
    start = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
    command = [sys.executable, __file__, "--peak", similarity, "--threads", str(threads)]
    answer = subprocess.run([sys.executable, "-c", start, *command], check=True, capture_output=True, text=True).stdout
    return float(answer.splitlines()[-1])


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--peak", choices=SIMILARITIES, help="the memory of one similarity alone")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.peak:
        print(peak(arguments.peak))
        return
    settled = arguments.tiny or os.environ.get("OPENBLAS_NUM_THREADS") == str(arguments.threads)
    if not settled:  # numpy asks for the number once, when it is loaded
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        threads = dict.fromkeys(names, str(arguments.threads))
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **threads})
    rounds = 1 if arguments.tiny else 3 if arguments.quick else 5
    result: dict[str, object] = {
        "ratio": against_published(20 if arguments.tiny else 1000, rounds),
        "plain_cost": against_plain(20 if arguments.tiny else 1000, 2 * rounds),
        "order_cost": order_against_cosine(20 if arguments.tiny else 1000 if arguments.quick else 5000, rounds),
    }
    if not arguments.tiny:
        result["peak_extra_mb"] = {name: apart(name, arguments.threads) for name in SIMILARITIES}
    print(json.dumps(result | {"threads": arguments.threads, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
