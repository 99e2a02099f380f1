"""Retrieval scoring against the published way, what the order similarity costs, and memory.

The published way is that of VSE++ (Faghri et al. 2018): every picture stands in its array
five times, all in float64; a picture's products with all captions, then those of its five
captions with all pictures, each query sorted in full and the rank found by position. It
and ours, from the same numbers to recalls with intervals by 1,000 resamples, take turns on
5,000 captions and 1,000 pictures of 2,048 dimensions, and must find the same recalls,
medians and mean ranks. Both use as many threads as ``--threads`` says. The plain way of
today takes turns with ours in the ranks alone: torch's product in float32, and the number
of scores above that of the right pair.

The order similarity and the cosine take turns at 25,000 captions, 5,000 pictures and
1,024 dimensions.

Memory is that of a process that scores 25,000 captions and 5,000 pictures of 2,048
dimensions with lists of the ten best, beyond what it held with the embeddings before it
began. The stream is a part of a
million captions and 200,000 pictures of 64 dimensions, in the same tiles as the whole, or
with ``--whole`` all of it.

The last line is JSON: ratio (times faster than the published way), plain_cost (processor
seconds of our exact ranks, times the plain way's), order_cost (times
the cosine's time), peak_extra_mb (the larger of both similarities), and more.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the stages do

import numpy as np
import torch
from turns import costs, in_turn

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
    return {
        "caption_to_image": _numbers(_to_image(images, captions)),
        "image_to_caption": _numbers(_to_caption(images, captions)),
    }


def _to_caption(images: np.ndarray, captions: np.ndarray) -> np.ndarray:
    ranks = np.zeros(len(images) // EACH)
    for picture in range(len(ranks)):
        first = EACH * picture
        similarity = np.dot(images[first].reshape(1, -1), captions.T).flatten()
        best_first = np.argsort(similarity)[::-1]
        ranks[picture] = min(np.where(best_first == own)[0][0] for own in range(first, first + EACH))
    return ranks


def _to_image(images: np.ndarray, captions: np.ndarray) -> np.ndarray:
    once = np.array([images[row] for row in range(0, len(images), EACH)])
    ranks = np.zeros(len(captions))
    for picture in range(len(once)):
        first = EACH * picture
        similarity = np.dot(captions[first : first + EACH], once.T)
        best_first = np.zeros(similarity.shape)
        for row in range(len(best_first)):
            best_first[row] = np.argsort(similarity[row])[::-1]
            ranks[first + row] = np.where(best_first[row] == picture)[0][0]
    return ranks


def _numbers(ranks: np.ndarray) -> dict[str, float]:
    """Of ranks from 0."""
    return {
        **{f"r{k}": 100.0 * len(np.where(ranks < k)[0]) / len(ranks) for k in (1, 5, 10)},
        "median_rank": float(np.median(ranks)) + 1,
        "mean_rank": float(ranks.mean()) + 1,
    }


def seconds(work: Callable[[], object]) -> tuple[float, object]:
    started = time.perf_counter()
    found = work()
    return time.perf_counter() - started, found


def against_published(rounds: int) -> dict[str, float]:
    images, captions, owner = embeddings(1000, 5000, 2048, np.float64)
    repeated = np.repeat(images, EACH, axis=0)
    score(captions[:500], images[:100], owner[:500])
    ratios, ours = [], []
    for number in range(rounds):
        before, expected = seconds(lambda: published(repeated, captions))
        after, found = seconds(lambda: score(captions, images, owner))
        for direction, scores in expected.items():
            for name, value in scores.items():
                assert abs(found[direction][name] - value) < 1e-9, (direction, name, found[direction][name], value)
        ratios.append(before / after)
        ours.append(after)
        print(f"round {number + 1}: published {before:.2f} s, ours {after:.3f} s", flush=True)
    return {"ratio": round(statistics.median(ratios), 2), "seconds": round(min(ours), 3), **_recalls(found)}


def plain(images: np.ndarray, captions: np.ndarray, owner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ranks of the right pictures (M,), and of the best right captions (N,), counted from 1."""
    table, own = torch.from_numpy(captions) @ torch.from_numpy(images).T, torch.from_numpy(owner)
    right = table.gather(1, own[:, None])
    best = torch.full((len(images),), -torch.inf).scatter_reduce(0, own, right[:, 0], "amax")
    return (table > right).sum(1).numpy() + 1, (table > best).sum(0).numpy() + 1


def against_plain(rounds: int) -> dict[str, float]:
    images, captions, owner = embeddings(1000, 5000, 1024, np.float32)
    works = {
        "plain": lambda _: plain(images, captions, owner),
        "ours": lambda _: rank(captions, images, owner).caption_to_image,
    }
    return {"plain_cost": costs(in_turn(works, rounds, warm=1), "ranks")["ours"][2]}


def _recalls(found: dict) -> dict[str, float]:
    return {
        f"{direction}_r10": round(found[direction]["r10"], 2) for direction in ("caption_to_image", "image_to_caption")
    }


def order_against_cosine(captions_count: int, rounds: int) -> dict[str, float]:
    images, captions, _ = embeddings(5000, captions_count, 1024, np.float32)
    owner = np.arange(captions_count) % 5000
    costs, times = [], {}
    for number in range(rounds):
        times = {name: seconds(lambda name=name: rank(captions, images, owner, name))[0] for name in SIMILARITIES}
        costs.append(times["order"] / times["cosine"])
        print(f"round {number + 1}: cosine {times['cosine']:.2f} s, order {times['order']:.2f} s", flush=True)
    return {
        "order_cost": round(statistics.median(costs), 2),
        "order_captions": captions_count,
        "cosine_seconds": round(times["cosine"], 2),
    }


def peak(similarity: str, threads: int) -> dict[str, float]:
    """Of this process: the most memory beyond what it held with the embeddings, in MB."""
    torch.set_num_threads(threads)
    images, captions, owner = embeddings(5000, 25_000, 2048, np.float32)
    # Making them took some memory that is given back: what is held now counts, not the most so far.
    held = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    took, ranks = seconds(lambda: rank(captions, images, owner, similarity, top=10))
    entry([ranks])
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"extra_mb": round((most - held) / 1e6, 1), "seconds": round(took, 2)}


def apart(similarity: str, threads: int) -> dict[str, float]:
    """:func:`peak` in a process of its own, which a small one starts: a process counts what its parent held."""
    start = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
    command = [sys.executable, __file__, "--peak", similarity, "--threads", str(threads)]
    answer = subprocess.run([sys.executable, "-c", start, *command], check=True, capture_output=True, text=True).stdout
    found = json.loads(answer.splitlines()[-1])
    print(
        f"memory, {similarity}: {found['extra_mb']:.0f} MB beyond the embeddings, in {found['seconds']:.0f} s",
        flush=True,
    )
    return found


def stream(captions_count: int) -> dict[str, float | bool]:
    images, captions, owner = embeddings(captions_count // EACH, captions_count, 64, np.float32)
    took = seconds(lambda: rank(captions, images, owner))[0]
    rate = len(images) * len(captions) / took
    minutes = 1e6 * 2e5 / rate / 60
    whole = captions_count == 1_000_000
    print(
        f"stream: {len(captions):,} captions x {len(images):,} pictures in {took:.0f} s, {rate / 1e6:.0f} million "
        f"pairs a second; all {'took' if whole else 'would take'} {minutes:.0f} minutes"
    )
    return {"stream_pairs_a_second": round(rate), "stream_minutes": round(minutes, 1), "stream_whole": whole}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", action="store_true", help="fewer captions and rounds: below 5 minutes on two cores")
    parser.add_argument("--whole", action="store_true", help="the whole stream: some minutes more")
    parser.add_argument("--peak", choices=SIMILARITIES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        print(json.dumps(peak(arguments.peak, arguments.threads)))
        return
    if os.environ.get("OPENBLAS_NUM_THREADS") != str(arguments.threads):  # numpy asks for it once, when it is loaded
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        os.execve(
            sys.executable, [sys.executable, *sys.argv], {**os.environ, **dict.fromkeys(names, str(arguments.threads))}
        )
    torch.set_num_threads(arguments.threads)
    quick = arguments.quick
    result: dict[str, object] = dict(against_published(3 if quick else 5))
    result |= against_plain(6 if quick else 10)
    result |= order_against_cosine(5120 if quick else 25_000, 3 if quick else 5)
    peaks = {name: apart(name, arguments.threads)["extra_mb"] for name in SIMILARITIES}
    result |= {"peak_extra_mb": max(peaks.values()), **{f"peak_{name}_mb": value for name, value in peaks.items()}}
    result |= stream(1_000_000 if arguments.whole else 50_000 if quick else 200_000)
    result |= {"threads": arguments.threads, "machine": platform.machine(), "torch": torch.__version__}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
