"""How fast the stage resize is, against plain Pillow on the same pictures, and with two workers against one.

The sides take turns, several rounds, and medians are shown: other programs disturb all of them alike. The last line
is one JSON object.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image

from sightword.images.encoding import encode
from sightword.images.resize import resized_size
from sightword.images.resized import Source, write_resized
from sightword.images.settings import ResizeSettings

REPOSITORY = Path(__file__).resolve().parent.parent
SETTINGS = ResizeSettings()
QUICK = 60
"""Pictures of a quick run."""


def plain(path: Path) -> Image.Image:
    """What anyone would write: open, decode, Lanczos."""
    with Image.open(path) as picture:
        rgb = picture if picture.mode == "RGB" else picture.convert("RGB")
        return rgb.resize(resized_size(*rgb.size, SETTINGS.side), Image.Resampling.LANCZOS)


def plain_resize(paths: list[Path]) -> None:
    for path in paths:
        plain(path)


def plain_resize_and_encode(paths: list[Path]) -> None:
    for path in paths:
        plain(path).save(io.BytesIO(), format="WEBP", lossless=True, method=0)


def stage(paths: list[Path], folder: Path, workers: int = 0, repeats: int = 1) -> None:
    """All that the stage does, to the renamed folder on the disk; ``repeats`` gives each file several ids."""
    sources = [Source(f"{repeat}-{path.name}", str(path)) for repeat in range(repeats) for path in paths]
    summary = write_resized(folder / "resized", sources, SETTINGS, workers=workers)
    assert summary.pictures == len(sources)


Work = Callable[[Path], None]


def seconds(work: Work) -> tuple[float, float]:
    """Wall-clock time, and this process's processor time, of work that may fill a new folder; removing it is free."""
    with tempfile.TemporaryDirectory() as folder:
        wall, processor = time.perf_counter(), time.process_time()
        work(Path(folder))
        return time.perf_counter() - wall, time.process_time() - processor


def measure(paths: list[Path], rounds: int) -> dict[str, list[float]]:
    """Seconds of every side in every round; ``N workers once`` and ``thrice`` differ by two passes and no start-up.

    ``NAME, processor`` has the processor time, which waits for disks and for other programs do not lengthen.
    """
    sides: dict[str, Work] = {
        "plain": lambda _: plain_resize(paths),
        "same encoding": lambda _: plain_resize_and_encode(paths),
        "stage": lambda folder: stage(paths, folder),
    }
    processes: dict[str, Work] = {
        "1 worker once": lambda folder: stage(paths, folder, 1),
        "2 workers once": lambda folder: stage(paths, folder, 2),
        "1 worker thrice": lambda folder: stage(paths, folder, 1, 3),
        "2 workers thrice": lambda folder: stage(paths, folder, 2, 3),
    }
    seconds(lambda folder: stage(paths, folder))  # the files into the system's memory, the codecs loaded
    found: dict[str, list[float]] = defaultdict(list)
    for turn in (sides, processes):
        for _ in range(rounds):
            for name, work in turn.items():
                wall, processor = seconds(work)
                found[name].append(wall)
                found[f"{name}, processor"].append(processor)
    return found


def ratio(over: list[float], under: list[float]) -> float:
    """The median of the rounds' ratios: what disturbs a round disturbs both of its sides."""
    return statistics.median(a / b for a, b in zip(over, under, strict=True))


def difference(over: list[float], under: list[float]) -> list[float]:
    return [a - b for a, b in zip(over, under, strict=True)]


@contextmanager
def pictures(folder: Path | None, count: int | None) -> Iterator[tuple[list[Path], str]]:
    """The pictures of a folder, or drawn ones where there is none, and words that say which."""
    if folder is None:
        data = Path(os.environ.get("SIGHTWORD_TEST_DATA") or REPOSITORY.parent / "shared" / "data")
        folder = data / "flickr8k" / "images"
    elif not folder.is_dir():
        raise SystemExit(f"{folder}: is no folder")
    paths = sorted(path for path in folder.glob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))
    if paths:
        yield paths[:count], "photographs of a folder"
        return
    with tempfile.TemporaryDirectory() as drawn:
        yield draw(Path(drawn), count or 200), "generated pictures, since no folder of photographs was found"


def draw(folder: Path, count: int) -> list[Path]:
    """JPEG files of 500 x 375 smooth noise, which compress about as photographs do."""
    rng = np.random.default_rng(0)
    paths = [folder / f"{number:04d}.jpg" for number in range(count)]
    for path in paths:
        coarse = Image.fromarray(rng.integers(0, 256, (47, 63, 3), np.uint8)).resize((500, 375), 3)
        noisy = np.asarray(coarse, np.int16) + rng.integers(-12, 13, (375, 500, 3), np.int16)
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(path, quality=90)
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--pictures", type=Path, metavar="FOLDER", help="photographs (default: those of the tests, else generated)"
    )
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="turns of each side (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} pictures, three rounds: less exact")
    arguments = parser.parse_args()
    rounds = 3 if arguments.quick else arguments.rounds
    with pictures(arguments.pictures, QUICK if arguments.quick else None) as (paths, words):
        print(f"{len(paths)} {words}; {rounds} rounds")
        found = measure(paths, rounds)
        kept = [encode(plain(path), SETTINGS.encoding)[1] for path in paths]
    count = len(paths)
    steady = {n: difference(found[f"{n} thrice"], found[f"{n} once"]) for n in ("1 worker", "2 workers")}
    print(f"\n{'side':<52}{'ms a picture':>14}{'pictures/s':>12}")
    for name, times, passes in (
        ("plain Pillow: decode, Lanczos", found["plain"], 1),
        ("plain Pillow: decode, Lanczos, lossless WebP", found["same encoding"], 1),
        ("stage, in its own process", found["stage"], 1),
        ("stage, 1 worker, start-up aside", steady["1 worker"], 2),
        ("stage, 2 workers, start-up aside", steady["2 workers"], 2),
    ):
        each = statistics.median(times) / count / passes
        print(f"{name:<52}{1000 * each:>14.2f}{1 / each:>12.0f}")
    startup = statistics.median(difference(found["2 workers once"], [s / 2 for s in steady["2 workers"]]))
    result = {
        "pictures": count,
        "rounds": rounds,
        "ratio_to_same_encoding": round(ratio(found["same encoding"], found["stage"]), 3),
        "ratio_to_plain_resize": round(ratio(found["plain"], found["stage"]), 3),
        "processor_ratio_to_same_encoding": round(
            ratio(found["same encoding, processor"], found["stage, processor"]), 3
        ),
        "processor_ratio_to_plain_resize": round(ratio(found["plain, processor"], found["stage, processor"]), 3),
        "scaling_2_workers": round(ratio(steady["1 worker"], steady["2 workers"]), 3),
        "scaling_2_workers_with_start_up": round(ratio(found["1 worker thrice"], found["2 workers thrice"]), 3),
        "start_up_seconds": round(startup, 2),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "kept_bytes_a_picture": sum(map(len, kept)) // count,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
