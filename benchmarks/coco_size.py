"""The first pipeline at COCO's size: what a picture and a caption cost there, and at a smaller size.

Draws small pictures of the sample's world with five captions each, in Karpathy's format with COCO's splits, in a new
project for each size, and runs every stage by ``dvc repro``. Memory is the sum of the proportional set sizes of the
stage's processes, looked at four times a second. The last line is JSON: for each size seconds (wall and processor) and
the most memory of each stage, and the seconds of an idle ``dvc repro`` and of ``dvc status``; and the cost of a picture
at the larger size as a multiple of the cost at the smaller one.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from ruamel.yaml import YAML
from tqdm import tqdm

from sightword.corpus.sample.drawing import draw_scene
from sightword.corpus.sample.grammar import captions
from sightword.corpus.sample.scene import random_scene
from sightword.corpus.sample.sentences import write_senteval
from sightword.corpus.sample.world import World, load_world

REPOSITORY = Path(__file__).resolve().parent.parent
COCO = 123_287
SIDE = 64
STAGES = ("corpus", "resize", "features", "captions", "train", "select", "retrieval", "semantics", "epochs", "report")
LOOK = 0.25
"""Seconds between two looks at the memory."""
SETTINGS: dict[str, dict[str, Any]] = {
    "corpus": {
        "format": "karpathy",
        "path": "data/raw/drawn",
        "pictures": "data/raw/drawn/pictures",
        "file": None,
        "text": "raw",
        "restval": "train",
    },
    "resize": {"side": SIDE, "shards": 64},
    "features": {"crop": 56},
    "train": {"epochs": 1, "cycle": 1, "batch": 100},
    "select": {"members": 1},
    "retrieval": {"protocols": ["full", "five_fold_1k"]},
    "semantics": {"data": "data/raw/senteval"},
    "epochs": {"data": "data/raw/senteval"},
}


def split_of(number: int, count: int) -> str:
    """COCO's splits of Karpathy: 82,783 train, 30,504 restval, 5,000 val, 5,000 test."""
    held_out = min(5000, count // 8)
    if number < 2 * held_out:
        return "val" if number % 2 else "test"
    return "train" if number % 4 else "restval"


def draw(number: int, folder: Path, world: World, count: int) -> dict[str, Any]:
    rng = random.Random(number)
    scene = random_scene(world, rng)
    name = f"{number:06}.jpg"
    draw_scene(scene, (SIDE + 16 * (number % 2), SIDE), world, rng).save(folder / name, quality=85)
    texts = captions(scene, world, rng)
    return {
        "filename": name,
        "split": split_of(number, count),
        "sentences": [{"sentid": 5 * number + place, "raw": text} for place, text in enumerate(texts)],
    }


def make_project(folder: Path, count: int) -> None:
    subprocess.run([sys.executable, "-m", "pipeline.cli", "init", str(folder)], cwd=REPOSITORY, check=True)
    pictures = folder / "data/raw/drawn/pictures"
    pictures.mkdir(parents=True)
    world = load_world(REPOSITORY / "data/raw/sample")
    one = functools.partial(draw, folder=pictures, world=world, count=count)
    with multiprocessing.get_context("spawn").Pool() as pool:
        images = list(tqdm(pool.imap(one, range(count), 200), total=count, desc="drawing", unit="picture"))
    (pictures.parent / "dataset_drawn.json").write_text(json.dumps({"images": images}))
    write_senteval(folder / "data/raw/senteval", world)
    yaml = YAML()
    params = yaml.load(REPOSITORY / "recipes/sample.yaml")
    for section, values in SETTINGS.items():
        params[section].update(values)
    yaml.dump(params, folder / "params.yaml")


def memory(process: psutil.Process) -> int:
    total = 0
    for one in [process, *process.children(recursive=True)]:
        try:
            total += one.memory_full_info().pss
        except psutil.Error:
            continue
    return total


def run(folder: Path, *command: str) -> dict[str, float]:
    """Run a command of DVC; return its seconds, wall and processor, and the most memory, in GB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    environment = {
        **os.environ,
        "DVC_NO_ANALYTICS": "1",
        "SIGHTWORD_STORE": str(folder.with_suffix(".store")),
        "PYTHONPATH": str(REPOSITORY),
    }
    with subprocess.Popen([sys.executable, "-m", "dvc", *command], cwd=folder, env=environment) as process:
        watched, most = psutil.Process(process.pid), 0
        while process.poll() is None:
            most = max(most, memory(watched))
            time.sleep(LOOK)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found = {"wall": time.perf_counter() - started, "processor": processor, "memory_gb": most / 1e9}
    return {name: round(value, 2) for name, value in found.items()}


def measure(folder: Path, count: int) -> dict[str, dict[str, float]]:
    make_project(folder, count)
    found = {}
    for stage in STAGES:
        found[stage] = run(folder, "repro", "-q", "-s", stage)
        print(count, stage, found[stage], flush=True)
    for name, command in (("idle dvc repro", ["repro"]), ("dvc status", ["status", "dvc.yaml"])):
        found[name] = run(folder, *command, "-q")
        print(count, name, found[name], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=COCO, help="pictures at the larger size (default: COCO's)")
    parser.add_argument("--fewer", type=int, default=8000, help="pictures at the smaller size")
    parser.add_argument("--quick", action="store_true", help="2,000 and 500 pictures: a trial of the script")
    parser.add_argument("--folder", type=Path, help="keep the projects here (default: a temporary folder)")
    options = parser.parse_args()
    sizes = (500, 2000) if options.quick else (options.fewer, options.pictures)
    with tempfile.TemporaryDirectory() as temporary:
        found = {count: measure((options.folder or Path(temporary)) / f"project-{count}", count) for count in sizes}
    few, many = (found[count] for count in sizes)
    growth = {
        stage: round(many[stage]["processor"] / sizes[1] / (few[stage]["processor"] / sizes[0]), 2) for stage in STAGES
    }
    print(json.dumps({"pictures": list(sizes), "runs": list(found.values()), "cost_of_a_picture": growth}))


if __name__ == "__main__":
    main()
