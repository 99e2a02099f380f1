"""Extraction on a GPU beside torchvision: pictures a second from uint8 pictures in memory, and the share of the peak.

The peer is what a user would write today: batches of as many pictures, uint8 from page-locked memory, torchvision's
ten_crop on the GPU, channels last and autocast. Its pictures are all of one size, as it needs them; ours may differ.
Weights are random, with batch norms that keep the numbers in their range. The sides take turns; each number is the
median of the rounds. float32 is float32: TF32 is off on both sides. The peer with torch.compile compiles in processes
of its own beside the other sides, and is measured after them. Where they fail, that is told instead of numbers.

The last line is JSON. `--device cpu --tiny` runs the same code with a small network in seconds.
"""

from __future__ import annotations

import argparse
import copy
import functools
import gc
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from peak import flops_a_picture, peak_flops
from torch import nn

from sightword.compute import devices
from sightword.features.backbones import build, find_backbone, skeleton
from sightword.features.extractor import Extractor
from sightword.features.identity import Transform
from sightword.features.networks.network import FeatureNetwork
from sightword.features.settings import IMAGENET_MEAN, IMAGENET_STD, Precision
from sightword.features.vision import torchvision
from sightword.machine import current

Work = Callable[[list[np.ndarray]], np.ndarray]
BATCH = 32
SECONDS = 90
"""The time that compiled peers may take when all other sides have their numbers."""


def transform(crop: int) -> Transform:
    return Transform("ten", crop, tuple(IMAGENET_MEAN), tuple(IMAGENET_STD), False, False, crop, "lanczos", False)


def draw(count: int, height: int, width: int) -> list[np.ndarray]:
    """Pictures of coarse blocks, uint8 (height, width, 3)."""
    rng = np.random.default_rng(0)
    blocks = rng.integers(0, 256, (count, 8, 11, 3), np.uint8)
    rows, columns = (np.arange(length) * parts // length for length, parts in ((height, 8), (width, 11)))
    return [np.ascontiguousarray(block[rows][:, columns]) for block in blocks]


@functools.cache
def network(name: str) -> FeatureNetwork:
    """A random network whose batch norms have seen pictures."""
    torch.manual_seed(0)
    made = find_backbone(name).cut(build(find_backbone(name), initialise=True))
    for module in made.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 1.0
    with torch.no_grad():
        made.train()(torch.nn.functional.interpolate(torch.randn(4, 3, 7, 7), size=224))
    return made.eval()


def ours(name: str, precision: Precision, device: torch.device, crop: int) -> Work:
    """What the stage does."""
    made, threads = copy.deepcopy(network(name)), torch.get_num_threads()
    extractor = Extractor(made, transform(crop), precision=precision, device=device, threads=threads)
    return lambda pictures: np.stack(list(extractor.run(pictures)))


def peer(name: str, precision: Precision, device: torch.device, crop: int, batch: int, *, compiled: bool) -> Work:
    """What a user would write today."""
    made = copy.deepcopy(network(name)).to(device, memory_format=torch.channels_last)
    run = torch.compile(made) if compiled else made
    mean, std = (torch.tensor(values, device=device).view(3, 1, 1) for values in (IMAGENET_MEAN, IMAGENET_STD))
    ten_crop = torchvision.transforms.functional.ten_crop

    def batches(pictures: list[np.ndarray]) -> Iterator[torch.Tensor]:
        for start in range(0, len(pictures), batch):
            pixels = torch.from_numpy(np.stack(pictures[start : start + batch]))
            pixels = pixels.pin_memory() if device.type == "cuda" else pixels
            yield pixels.to(device, non_blocking=True).permute(0, 3, 1, 2)

    @torch.inference_mode()
    def work(pictures: list[np.ndarray]) -> np.ndarray:
        found = []
        for pixels in batches(pictures):
            images = pixels.float().div_(255).sub_(mean).div_(std)
            crops = torch.stack(ten_crop(images, [crop, crop]), dim=1).flatten(0, 1)
            with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
                features = run(crops.contiguous(memory_format=torch.channels_last))
            found.append(features.flatten(1).float().unflatten(0, (-1, 10)).mean(1))
        return torch.cat(found).cpu().numpy()

    return work


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    """The least cosine of two rows."""
    return float(((one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)).min())


def compare(
    name: str, precision: Precision, device: torch.device, makers: dict[str, Callable[[], Work]], *, tiny: bool
) -> dict[str, Any]:
    """Return pictures a second, share of the peak, least cosine to float32 and start-up of each side."""
    crop, batch = (64, 4) if tiny else (224, BATCH)
    pictures = draw(2 * batch if tiny or precision == "fp32" else 8 * batch, crop + crop // 7, crop + crop // 2)
    exact = peer(name, "fp32", torch.device("cpu"), crop, batch, compiled=False)(pictures[:4])
    works: dict[str, Work] = {}
    seconds: dict[str, list[float]] = {}
    result: dict[str, Any] = {}
    for side, maker in makers.items():
        started = time.perf_counter()
        works[side] = maker()
        found = works[side](pictures[:batch])
        result[side] = {"start_s": time.perf_counter() - started, "cosine": cosine(found[: len(exact)], exact)}
        result[side]["same_bytes"] = works[side](pictures[:batch]).tobytes() == found.tobytes()
        seconds[side] = [_seconds(works[side], pictures)]
        print(f"{name} {precision} {side}: {1 / seconds[side][0]:.1f} pictures a second, {result[side]}", flush=True)
    for _ in range(0 if tiny else 2):
        for side, work in works.items():
            seconds[side].append(_seconds(work, pictures))
    peak = math.inf if tiny else peak_flops(precision, device)  # CPUs without bfloat16 take minutes
    flops = flops_a_picture(skeleton(find_backbone(name)), transform(crop))
    for side, times in seconds.items():
        median = statistics.median(times)
        result[side] |= {"pictures_per_s": 1 / median, "share": flops / median / peak, "rounds": times}
    return {"network": name, "precision": precision, "peak_tflops": peak / 1e12, "sides": result}


def _seconds(work: Work, pictures: list[np.ndarray]) -> float:
    """Return the seconds of a picture; the other sides get the memory afterwards."""
    work(pictures[: 2 * BATCH])  # takes the memory
    started = time.perf_counter()
    work(pictures)
    seconds = (time.perf_counter() - started) / len(pictures)
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return seconds


class Compiled:
    """The peer with torch.compile in a process of its own, which compiles while others are measured."""

    def __init__(self, name: str, precision: Precision, options: list[str]) -> None:
        self.name, self.precision = name, precision
        command = [sys.executable, __file__, "--compiled", name, precision, *options]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure(self, until: float) -> dict[str, Any]:
        """Return the comparison, or why there is none when the clock says ``until``."""
        try:
            text, _ = self.process.communicate("measure\n", timeout=max(until - time.monotonic(), 1))
            found: dict[str, Any] = json.loads(text.splitlines()[-1])
        except (subprocess.TimeoutExpired, IndexError, ValueError) as error:
            self.process.kill()
            failed = {"peer, compiled": {"failed": f"{type(error).__name__}"}}
            return {"network": self.name, "precision": self.precision, "sides": failed}
        return found


def compile_and_wait(name: str, precision: Precision, device: torch.device, *, tiny: bool) -> None:
    """Compile, wait for a line on the standard input, and print the comparison as JSON."""
    crop, batch = (64, 4) if tiny else (224, BATCH)
    started = time.perf_counter()
    work = peer(name, precision, device, crop, batch, compiled=True)
    _seconds(work, draw(batch, crop + crop // 7, crop + crop // 2))
    compiling = time.perf_counter() - started
    if not sys.stdin.readline():
        return
    found = compare(name, precision, device, {"peer, compiled": lambda: work}, tiny=tiny)
    found["sides"]["peer, compiled"]["start_s"] = compiling
    print(json.dumps(found), flush=True)


def cases(tiny: bool) -> list[tuple[str, Precision]]:
    if tiny:
        return [("shufflenet_v2_x0_5", "fp32"), ("shufflenet_v2_x0_5", "bf16")]
    return [("densenet169", "bf16"), ("resnet152", "bf16"), ("resnet152", "fp32")]


def measure(device: torch.device, *, tiny: bool, compiled: list[str] | None) -> Iterator[dict[str, Any]]:
    """Yield the comparisons: two minutes on an H100; ``compiled`` are a compiled peer's options."""
    half = [(name, precision) for name, precision in cases(tiny) if precision == "bf16"]
    others = [] if compiled is None else [Compiled(name, precision, compiled) for name, precision in half]
    try:
        for name, precision in cases(tiny):
            options = (name, precision, device, 64 if tiny else 224)
            makers = {
                "ours": functools.partial(ours, *options),
                "peer": functools.partial(peer, *options, 4 if tiny else BATCH, compiled=False),
            }
            yield compare(name, precision, device, makers, tiny=tiny)
            gc.collect()  # a recorded graph keeps its memory
        until = time.monotonic() + SECONDS
        for other in others:
            yield other.measure(until)
    finally:
        for other in others:
            other.process.kill()
            other.process.wait()


def lines(found: dict[str, Any]) -> Iterator[str]:
    """Yield the sides of a comparison in words."""
    for side, numbers in found["sides"].items():
        text = f"FAILED: {numbers.get('failed')}"
        if "failed" not in numbers:
            text = f"{numbers['pictures_per_s']:8.1f} pictures a second, {numbers['share']:.3f} of the peak, cosine"
            text += f" {numbers['cosine']:.6f}, bytes {'equal' if numbers['same_bytes'] else 'DIFFER'}"
            text += f", ready in {numbers['start_s']:.1f} s"
        yield f"{found['network']:20} {found['precision']} {side:14} {text}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--tiny", action="store_true", help="a small network: seconds, also on a CPU")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out, which takes a minute")
    parser.add_argument("--compiled", nargs=2, metavar=("NETWORK", "PRECISION"), help="the process of a compiled peer")
    arguments = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    device = devices.choose(arguments.device)
    torch.set_num_threads(current().threads)
    if arguments.compiled:
        name, precision = arguments.compiled
        compile_and_wait(name, precision, device, tiny=arguments.tiny)
        return
    options = ["--device", arguments.device, *(["--tiny"] if arguments.tiny else [])]
    found = []
    for one in measure(device, tiny=arguments.tiny, compiled=None if arguments.no_compile else options):
        found.append(one)
        print(*lines(one), sep="\n", flush=True)
    print(json.dumps({"device": devices.describe(device), "torch": torch.__version__, "extraction": found}))


if __name__ == "__main__":
    main()
