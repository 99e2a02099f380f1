"""All that is to be known of a GPU, in one call of some minutes: tests, extraction, training steps, a whole recipe.

Each part runs in a process of its own, so that a part that fails stops no other:

- ``tests``: those marked ``gpu``;
- ``features``: pictures a second from uint8 pictures in memory. The peer is what a user would write: batches of 32 from
  page-locked memory, torchvision's ten_crop on the GPU, channels last and autocast. Weights are random, with batch
  norms that keep the numbers in their range. TF32 is off on both sides;
- ``training``: a training step of captions and pictures beside packed and padded cuDNN layers, the peers of
  ``training.py``; ours is what the stage does, deterministic kernels included;
- ``scoring``: ranks of Flickr8k's size by cosine and by order similarity, and encoding;
- ``recipe``: the stages of a recipe up to ``select``: `flickr8k-infonce` where its data are at hand, else the sample.

The last line is JSON, which ``--out`` writes to a file too. `--device cpu --tiny` runs the same code in a minute.
"""

from __future__ import annotations

import argparse
import copy
import functools
import json
import math
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import common
import numpy as np
import torch
import training as peers
from features import TRANSFORM, flops_a_picture
from torch import nn

from sightword import machine
from sightword.compute import devices
from sightword.evaluation.retrieval.ranks import rank
from sightword.features.extractor import Extractor
from sightword.features.networks import build, find_backbone
from sightword.features.vision import torchvision
from sightword.model.embedding import embed_captions
from sightword.model.encoders import CaptionEncoder
from sightword.model.settings import ModelSettings

ROOT = Path(__file__).resolve().parents[1]
SECONDS = {"tests": 120, "features": 210, "training": 120, "scoring": 60, "recipe": 90}
"""The parts, and the time that each may take on a GPU."""
LISTS = ("Flickr8k.token.txt", "Flickr_8k.trainImages.txt", "Flickr_8k.devImages.txt", "Flickr_8k.testImages.txt")
FLICKR8K = (
    *((f"flickr8k/{name}", "flickr8k") for name in LISTS),
    *((f"flickr8k/features_densenet169.{end}", "features") for end in ("npy", "txt")),
)
"""Files of the recipe, and their folders below data/raw."""
BATCH = 32


def tests(_: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "tests/gpu", "-n0", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(done.stdout)
    last = done.stdout.strip().splitlines()[-1]
    return {"summary": last, "failed": re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)}


@functools.cache
def network(name: str) -> Any:
    """A random network whose batch norms have seen pictures."""
    torch.manual_seed(0)
    made = find_backbone(name).cut(build(find_backbone(name), initialise=True))
    for module in made.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 1.0
    with torch.no_grad():
        made.train()(nn.functional.interpolate(torch.randn(4, 3, 7, 7), size=224))
    return made.eval()


def by_torchvision(
    name: str, device: torch.device, crop: int, *, bf16: bool
) -> Callable[[list[np.ndarray]], np.ndarray]:
    """What a user would write today."""
    made = copy.deepcopy(network(name)).to(device, memory_format=torch.channels_last)
    mean, std = (torch.tensor(values, device=device).view(3, 1, 1) for values in (TRANSFORM.mean, TRANSFORM.std))

    @torch.inference_mode()
    def work(pictures: list[np.ndarray]) -> np.ndarray:
        found = []
        for start in range(0, len(pictures), BATCH):
            pixels = torch.from_numpy(np.stack(pictures[start : start + BATCH]))
            pixels = pixels.pin_memory() if device.type == "cuda" else pixels
            pixels = pixels.to(device, non_blocking=True).permute(0, 3, 1, 2)
            images = pixels.float().div_(255).sub_(mean).div_(std)
            crops = torch.stack(torchvision.transforms.functional.ten_crop(images, [crop, crop]), dim=1).flatten(0, 1)
            with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
                features = made(crops.contiguous(memory_format=torch.channels_last))
            found.append(features.flatten(1).float().unflatten(0, (-1, 10)).mean(1))
        return torch.cat(found).cpu().numpy()

    return work


def features(arguments: argparse.Namespace) -> dict[str, Any]:
    device = use(arguments)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    crop, found = 64 if arguments.tiny else 224, {}
    cases = [("shufflenet_v2_x0_5", "fp32")] if arguments.tiny else [
        ("densenet169", "bf16"), ("resnet152", "bf16"), ("resnet152", "fp32"),
    ]  # fmt: skip
    for name, precision in cases:
        count = 4 if arguments.tiny else 256 if precision == "bf16" else 32
        blocks = np.random.default_rng(0).integers(0, 256, (count, 8, 11, 3), np.uint8)
        pictures = [np.ascontiguousarray(block.repeat(32, 0).repeat(32, 1)) for block in blocks]
        pictures = [picture[: crop + crop // 7, : crop + crop // 2] for picture in pictures]
        transform = replace(TRANSFORM, crop=crop, resize=crop)
        extractor = Extractor(
            copy.deepcopy(network(name)), transform, precision=precision, device=device, threads=torch.get_num_threads()
        )
        peer = by_torchvision(name, device, crop, bf16=precision == "bf16")
        works = {"ours": lambda some, run=extractor.run: np.stack(list(run(some))), "peer": peer}
        rows = {side: work(pictures) for side, work in works.items()}
        lengths = np.linalg.norm(rows["ours"], axis=1) * np.linalg.norm(rows["peer"], axis=1)
        sides = {side: lambda work=work, pictures=pictures: work(pictures) for side, work in works.items()}
        for side, seconds in in_turn(arguments, sides).items():
            rate = len(pictures) / statistics.median(seconds)
            share = rate * flops_a_picture(name) / peak_of(precision, arguments)
            cosine = float(((rows["ours"] * rows["peer"]).sum(1) / lengths).min())
            same = np.array_equal(works[side](pictures), rows[side])
            found[f"{name} {precision} {side}"] = {
                "pictures_a_second": rate,
                "share": share,
                "cosine": cosine,
                "same": same,
            }
    return found


def training(arguments: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds of a step and first losses of each side, and the share of the peak."""
    found: dict[str, Any] = {}
    shapes = [(12, 8, "gru")] if arguments.tiny else [
        (1024, 100, "gru"), (1024, 100, "lstm"), (1024, 400, "gru"), (2048, 100, "gru"),
    ]  # fmt: skip
    pairs = peers.pairs_of(arguments.data, 60 if arguments.tiny else 1000)
    steps, random = 2 if arguments.tiny else 5, np.random.default_rng(2)
    for hidden, size, cell in shapes:
        batches = [random.choice(len(pairs.ids), size, replace=False) for _ in range(steps)]
        sides = peers.sides_of(pairs, hidden, size, cell, use(arguments), ["fp32", "bf16"], 0)
        losses = {side: [float(step(rows)) for rows in batches] for side, step in sides.items()}
        for step in sides.values():
            for rows in [*batches, *batches]:  # lengths are recorded when they come again
                step(rows)
        works = {
            side: lambda step=step, batches=batches: [step(rows) for rows in batches] for side, step in sides.items()
        }
        for side, times in in_turn(arguments, works).items():
            seconds = statistics.median(times) / steps
            useful = peers.flops_a_caption(pairs, hidden) * size / seconds * (4 / 3 if cell == "lstm" else 1)
            share = useful / peak_of(side.split()[-1], arguments)
            found.setdefault(f"{cell} of {hidden}, batch {size}", {})[side] = {
                "ms": seconds * 1e3, "share": share, "first_losses": losses[side][:3],
            }  # fmt: skip
    return found


def scoring(arguments: argparse.Namespace) -> dict[str, Any]:
    """Seconds of ranks and of encoding."""
    device, random = use(arguments), np.random.default_rng(0)
    pictures, width = (20, 16) if arguments.tiny else (1000, 1024)
    images, captions = (np.abs(random.normal(size=(count, width))) for count in (pictures, 5 * pictures))
    owners, sides = np.repeat(np.arange(pictures), 5), {}
    for similarity in ("cosine", "order"):
        sides[f"ours, ranks, {similarity}"] = lambda how=similarity: rank(captions, images, owners, how, device=device)
    rows = peers.pairs_of(arguments.data, 30 if arguments.tiny else 5000).ids
    shape = ModelSettings(**({"hidden": 8, "attention": 4} if arguments.tiny else {})).shape
    made = CaptionEncoder(peers.TOKENS, shape).to(device).eval()
    for precision in ("fp32", "bf16"):
        sides[f"ours, encode, {precision}"] = lambda precision=precision: embed_captions(
            made, rows, precision=precision
        )
    found = {side: statistics.median(times) for side, times in in_turn(arguments, sides).items()}
    return {"seconds": found, "captions": len(rows)}


def recipe(arguments: argparse.Namespace) -> dict[str, Any]:
    """Seconds of the stages of a recipe up to the selection on dev, and recall@10 there."""
    at_hand = not arguments.tiny and all((arguments.data / name).is_file() for name, _ in FLICKR8K)
    name = "flickr8k-infonce" if at_hand else "sample"
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        for each in ("recipes", "data", *(path.name for path in ROOT.glob("*.yaml"))):
            (shutil.copytree if (ROOT / each).is_dir() else shutil.copy)(ROOT / each, project / each)
        environment = {
            **os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
            "SIGHTWORD_DEVICE": arguments.device, "SIGHTWORD_SCRATCH": f"{folder}/scratch",
            "SIGHTWORD_STORE": f"{folder}/store",
        }  # fmt: skip

        def python(*words: str) -> float:
            started = time.perf_counter()
            subprocess.run([sys.executable, "-m", *words], cwd=project, env=environment, check=True)
            return time.perf_counter() - started

        python("pipeline.cli", "params", "--recipe", name, "--force")
        for file, place in FLICKR8K if at_hand else ():
            (project / "data/raw" / place).mkdir(exist_ok=True)
            shutil.copy(arguments.data / file, project / "data/raw" / place)
        if arguments.tiny:
            print("tiny: the recipe sample with 40 + 12 + 12 pictures, one crop and 2 epochs", flush=True)
            params, scenes = project / "params.yaml", project / "data/raw/sample/scenes.yaml"
            params.write_text(params.read_text().replace("epochs: 4", "epochs: 2").replace("crops: ten", "crops: one"))
            scenes.write_text(scenes.read_text().replace(": 320", ": 40", 1).replace(": 120", ": 12"))
        stages = ("corpus", *(() if at_hand else ("resize",)), "features", "captions", "train", "select")
        seconds = {stage: python("stages", stage) for stage in stages}
        table = (project / "plots/train/recall.tsv").read_text().splitlines()
        return {"recipe": name, "seconds": seconds, "recall": [table[0], table[-1]]}


def use(arguments: argparse.Namespace) -> torch.device:
    """Set torch up as a stage does, and return the device."""
    return devices.use(replace(machine.current(), device=arguments.device))


def peak_of(precision: str, arguments: argparse.Namespace) -> float:
    """The operations a second that the device can do; unbounded in small, since CPUs without bfloat16 take minutes."""
    return math.inf if arguments.tiny else common.peak_flops(precision, use(arguments))


def in_turn(arguments: argparse.Namespace, sides: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """Seconds of each side after a call of each; peers in torch's own mode, ours as stages do."""

    def run(side: str, work: Callable[[], Any]) -> None:
        device = use(arguments)
        if not side.startswith("ours"):
            torch.set_deterministic_debug_mode("default")
            torch.backends.cudnn.benchmark = True
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    works = {side: lambda _, side=side, work=work: run(side, work) for side, work in sides.items()}
    took = common.in_turn(works, 1 if arguments.tiny else 3, warm=1, clock=time.perf_counter)
    common.costs(took, "sides")
    torch.set_grad_enabled(True)
    return took


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "tests": tests, "training": training, "features": features, "recipe": recipe, "scoring": scoring,
}  # fmt: skip


def run_part(part: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run a part in a process group, which is ended after its time, since it would keep the GPU."""
    words = ["--device", arguments.device, "--data", str(arguments.data), *(["--tiny"] if arguments.tiny else [])]
    with tempfile.NamedTemporaryFile() as file:
        command = [sys.executable, __file__, "--part", part, "--out", file.name, *words]
        with subprocess.Popen(command, start_new_session=True) as child:
            try:
                code = child.wait(None if arguments.tiny else SECONDS[part])
            except BaseException as error:
                os.killpg(child.pid, signal.SIGKILL)
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                return {"error": str(error)}
        return {"error": f"exit code {code}"} if code else json.load(file)


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--part", choices=PARTS, help="this part alone, in this process")
    parser.add_argument("--out", type=Path, help="a file for the JSON, written after each part")
    arguments = parser.parse_args()
    if arguments.part:
        arguments.out.write_text(json.dumps(PARTS[arguments.part](arguments)))
        return
    on_gpu = arguments.device != "cpu"
    result: dict[str, Any] = {"device": torch.cuda.get_device_name() if on_gpu else "cpu", "torch": torch.__version__}
    for part in arguments.parts:
        started = time.perf_counter()
        result[part] = run_part(part, arguments) | {"part_s": time.perf_counter() - started}
        if arguments.out:
            arguments.out.write_text(json.dumps(result, indent=1))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
