"""Retrieval scoring against the published way, what the order similarity costs, and memory.

The published way is that of VSE++: for each query the products with all candidates in
float64, a full sort, the rank by position. It and ours, intervals included, take turns
on the same numbers, 5,000 captions and 1,000 pictures of 2,048 dimensions, and must
find the same recalls and medians.

The order similarity and the cosine take turns at 25,000 captions, 5,000 pictures and
1,024 dimensions; compiling comes before and is told apart. Memory is that of a process
that scores 25,000 captions and 5,000 pictures of 2,048 dimensions with lists of the ten
best, beyond what it held with the embeddings before it began; for the order similarity,
the compiler is part of it. The stream is a slice of a million captions
and 200,000 pictures of 64 dimensions: its tiles are those of the whole.

The last line is JSON: ratio (times faster than the published way), order_cost (times
the cosine's time), peak_extra_mb (the larger of both similarities), and more.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the stages do

import numpy as np
import torch

from pipeline.retrieval import order, score
from pipeline.retrieval.protocols import entry
from pipeline.retrieval.ranks import rank

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
    """Five captions for each picture, in order: recalls and median rank in both directions."""
    to_caption, to_image = np.empty(len(images)), np.empty(len(captions))
    for picture, embedding in enumerate(images):
        sorted_rows = np.argsort(np.dot(captions, embedding))[::-1]
        to_caption[picture] = min(np.flatnonzero(sorted_rows == EACH * picture + k)[0] for k in range(EACH))
    for caption, embedding in enumerate(captions):
        sorted_rows = np.argsort(np.dot(images, embedding))[::-1]
        to_image[caption] = np.flatnonzero(sorted_rows == caption // EACH)[0]
    return {
        direction: {
            **{f"r{k}": 100.0 * float((ranks < k).mean()) for k in (1, 5, 10)},
            "median_rank": float(np.median(ranks)) + 1,
        }
        for direction, ranks in (("caption_to_image", to_image), ("image_to_caption", to_caption))
    }


def seconds(work: Callable[[], object]) -> tuple[float, object]:
    started = time.perf_counter()
    found = work()
    return time.perf_counter() - started, found


def against_published(rounds: int) -> dict[str, float]:
    images, captions, owner = embeddings(1000, 5000, 2048, np.float64)
    score(images[:100], captions[:500], owner[:500])
    ratios, ours = [], []
    for number in range(rounds):
        before, expected = seconds(lambda: published(images, captions))
        after, found = seconds(lambda: score(images, captions, owner))
        for direction, scores in expected.items():
            for name, value in scores.items():
                assert abs(found[direction][name] - value) < 1e-9, (direction, name, found[direction][name], value)
        ratios.append(before / after)
        ours.append(after)
        print(f"round {number + 1}: published {before:.2f} s, ours {after:.3f} s", flush=True)
    return {"ratio": round(statistics.median(ratios), 2), "seconds": round(min(ours), 3), **_recalls(found)}


def _recalls(found: dict) -> dict[str, float]:
    return {
        f"{direction}_r10": round(found[direction]["r10"], 2) for direction in ("caption_to_image", "image_to_caption")
    }


def order_against_cosine(captions_count: int, rounds: int) -> dict[str, float | int | bool]:
    # A slice has all pictures: each has fewer captions then.
    images, captions, _ = embeddings(5000, captions_count, 1024, np.float32)
    owner = np.arange(captions_count) % 5000
    compiling, kernel = seconds(lambda: order.compiled(1e12, torch.device("cpu")))
    costs, times = [], {}
    for number in range(rounds):
        times = {name: seconds(lambda name=name: rank(images, captions, owner, name))[0] for name in SIMILARITIES}
        costs.append(times["order"] / times["cosine"])
        print(f"round {number + 1}: cosine {times['cosine']:.2f} s, order {times['order']:.2f} s", flush=True)
    return {
        "order_cost": round(statistics.median(costs), 2),
        "order_captions": captions_count,
        "order_fused": kernel is not None,
        "order_compile_seconds": round(compiling, 1),
        "cosine_seconds": round(times["cosine"], 2),
    }


def peak(similarity: str, threads: int) -> dict[str, float]:
    """Of this process: the most memory beyond what it held with the embeddings, in MB."""
    torch.set_num_threads(threads)
    images, captions, owner = embeddings(5000, 25_000, 2048, np.float32)
    held = _most_held()
    took, ranks = seconds(lambda: rank(images, captions, owner, similarity, top=10))
    entry([ranks])
    return {"extra_mb": round(_most_held() - held, 1), "seconds": round(took, 2)}


def _most_held() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6


def apart(similarity: str, threads: int) -> dict[str, float]:
    """:func:`peak` in a process of its own, which a small one starts: a process counts what its parent held."""
    start = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
    command = [sys.executable, __file__, "--peak", similarity, "--threads", str(threads)]
    answer = subprocess.run([sys.executable, "-c", start, *command], check=True, capture_output=True, text=True).stdout
    found = json.loads(answer.splitlines()[-1])
    print(f"memory, {similarity}: {found['extra_mb']:.0f} MB beyond the embeddings", flush=True)
    return found


def stream(captions_count: int) -> dict[str, float]:
    images, captions, _ = embeddings(16_384, captions_count, 64, np.float32)
    owner = np.arange(len(captions)) % len(images)
    took = seconds(lambda: rank(images, captions, owner))[0]
    rate = len(images) * len(captions) / took
    whole = 1e6 * 2e5 / rate / 60
    print(
        f"stream: {rate / 1e6:.0f} million pairs a second; a million captions x 200,000 pictures: {whole:.0f} minutes"
    )
    return {"stream_pairs_a_second": round(rate), "stream_minutes": round(whole, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", action="store_true", help="fewer captions and rounds: below 5 minutes on two cores")
    parser.add_argument("--peak", choices=SIMILARITIES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        print(json.dumps(peak(arguments.peak, arguments.threads)))
        return
    torch.set_num_threads(arguments.threads)
    logging.basicConfig(format="%(message)s")
    logging.getLogger(order.__name__).setLevel(logging.DEBUG)
    quick = arguments.quick
    result: dict[str, object] = dict(against_published(3 if quick else 5))
    result |= order_against_cosine(5120 if quick else 25_000, 3 if quick else 5)
    peaks = {name: apart(name, arguments.threads)["extra_mb"] for name in SIMILARITIES}
    result |= {"peak_extra_mb": max(peaks.values()), **{f"peak_{name}_mb": value for name, value in peaks.items()}}
    result |= stream(16_384 if quick else 65_536)
    result |= {"threads": arguments.threads, "machine": platform.machine(), "torch": torch.__version__}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
