"""Training on a CUDA GPU: captions a second by precision and determinism, and the whole Flickr8k recipe.

Everything in one call. Without data it takes random features and captions of Flickr8k's
number and lengths: enough for time, memory and repeatability. With `--project`, a folder in which
the stages features and captions have run, it also trains there what its params.yaml says, in
memory, and tells the time and the recall on dev.

The last line is JSON: captions_a_second and minutes (for 32 epochs of 30,000 captions) by
variant, deterministic_cost (time with deterministic kernels over time without), repeats (two
deterministic runs gave the same weights), memory_gb, and with `--project` trained.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pipeline.params import params_file
from sightword import machine
from sightword.captions.table import read_captions
from sightword.captions.vocabulary import Vocabulary
from sightword.compute import devices
from sightword.features.pairs import Pairs, pair
from sightword.features.table import read_features
from sightword.vse.training.batches import batches
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.task import CaptionTask, train

PICTURES, CAPTIONS, FEATURES, TOKENS = 6000, 30_000, 1664, 80
EPOCHS = 32


def random_pairs() -> Pairs:
    """Flickr8k's training split by its numbers."""
    random = np.random.default_rng(0)
    lengths = np.maximum(5, random.normal(54, 20, CAPTIONS)).astype(int)
    return Pairs(
        [f"{number:05d}" for number in range(PICTURES)],
        random.standard_normal((PICTURES, FEATURES), np.float32),
        [""] * CAPTIONS,
        [random.integers(2, TOKENS, length) for length in lengths],
        np.tile(np.arange(5), PICTURES),
        np.repeat(np.arange(PICTURES), 5),
    )


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def steps(settings: TrainSettings, pairs: Pairs, device: torch.device, count: int) -> tuple[float, CaptionTask]:
    """Captions a second over so many batches, after as many to warm up; and the training."""
    run = CaptionTask(settings, pairs, TOKENS, device)
    run.encoders.train()
    order = batches(pairs, size=settings.batch, bucket=1, seed=0, epoch=0)[: 2 * count]
    for number, rows in enumerate(order[:count]):
        run.learn(rows, 1e-3, number)
    wait(device)
    started = time.perf_counter()
    for number, rows in enumerate(order[count:], count):
        run.learn(rows, 1e-3, number)
    wait(device)
    return sum(map(len, order[count:])) / (time.perf_counter() - started), run


def same(one: CaptionTask, other: CaptionTask) -> bool:
    """Whether two trainings have the same weights to the bit."""
    pairs = zip(one.encoders.parameters(), other.encoders.parameters(), strict=True)
    return all(torch.equal(weights, others) for weights, others in pairs)


def whole(project: Path, device: torch.device) -> dict[str, Any]:
    """Train what a project's params.yaml says."""
    settings = params_file.load(project / "params.yaml")["train"]
    assert isinstance(settings, TrainSettings)
    features = read_features(project / "data/features/features.h5")
    captions = read_captions(project / "data/captions/captions.parquet")
    tokens = len(Vocabulary.load(project / "data/captions/vocabulary.json"))
    training, dev = pair(features, captions, "train"), pair(features, captions, "dev")
    devices.use(machine.current(), deterministic=settings.deterministic)
    started = time.perf_counter()
    done = train(settings, training, dev, tokens=tokens, device=device, keep=lambda *_: None)
    minutes = (time.perf_counter() - started) / 60
    recall = {
        direction: done.recall[settings.epochs][direction]["r10"]
        for direction in ("caption_to_image", "image_to_caption")
    }
    print(f"trained {settings.epochs} epochs in {minutes:.1f} minutes, dev recall@10 {recall}")
    return {"minutes": round(minutes, 2), "epochs": settings.epochs, **recall}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--project", type=Path, help="a folder with params.yaml, data/features and data/captions")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--batches", type=int, default=50, help="batches timed for each variant")
    arguments = parser.parse_args()
    os.environ["SIGHTWORD_DEVICE"] = arguments.device
    here = machine.current()
    pairs = random_pairs()
    found: dict[str, float] = {}
    for size in (32, 100):
        for precision in ("fp32", "bf16"):
            for deterministic in (True, False):
                device = devices.use(here, deterministic=deterministic)
                settings = TrainSettings(hidden=arguments.hidden, batch=size, precision=precision)
                name = f"{precision}, {size} a batch, {'deterministic' if deterministic else 'any order'}"
                found[name], _ = steps(settings, pairs, device, arguments.batches)
                print(f"{name:36} {found[name]:8.0f} captions/s", flush=True)
    device = devices.use(here)
    again = [
        steps(TrainSettings(hidden=arguments.hidden, batch=100, precision="bf16"), pairs, device, 10)[1]
        for _ in range(2)
    ]
    result: dict[str, Any] = {
        "captions_a_second": {name: round(rate) for name, rate in found.items()},
        "minutes": {name: round(EPOCHS * CAPTIONS / rate / 60, 1) for name, rate in found.items()},
        "deterministic_cost": {
            name.rsplit(",", 1)[0]: round(found[name.replace("deterministic", "any order")] / rate, 3)
            for name, rate in found.items()
            if name.endswith("deterministic")
        },
        "repeats": same(*again),
        "memory_gb": round(torch.cuda.max_memory_allocated() / 1e9, 2) if device.type == "cuda" else None,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
    }
    if arguments.project:
        result["trained"] = whole(arguments.project, device)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
