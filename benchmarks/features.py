"""Feature extraction against the published way, on the same pictures, in one run.

The published way: one picture at a time, Pillow's Lanczos, torchvision's TenCrop, crops
normalised on the CPU in NCHW, float32, the network as it is. Ours: what the stage
does. Both start from picture files and end with features; loading the network is
left out. Each measurement is a process of its own, and the sides take turns, since
other work on the machine comes and goes.

Speed is measured on ResNet-152 with random weights, which do for that. Agreement is
measured on DenseNet-169 with its trained weights: with random weights all pictures
look alike to a network, and no comparison of them could fail.

The last line is JSON: fp32_ratio, bf16_ratio (times faster than the published way),
bf16_cosine_min, peak_share (useful operations in bfloat16 over the best of three products
of 3000 x 3000 matrices in the same process; null without bfloat16 units), and more.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the stages do

import numpy as np
import torch
from peak import flops_a_picture
from PIL import Image

from sightword import FeaturesSettings, extract
from sightword.compute.devices import has_bfloat16_units
from sightword.features.backbones import find_backbone, skeleton
from sightword.features.extractor import Extractor
from sightword.features.identity import Transform
from sightword.features.settings import IMAGENET_MEAN, IMAGENET_STD
from sightword.features.vision import models, torchvision
from sightword.features.weights import Weights
from sightword.images.resized import Source, resize_file
from sightword.images.settings import ResizeSettings
from sightword.io.files import sha256_file

BACKBONE = "resnet152"
TRANSFORM = Transform("ten", 224, tuple(IMAGENET_MEAN), tuple(IMAGENET_STD), False, False, 256, "lanczos", False)
SIDES = ("published", "fp32", "bf16")


def published(network: torch.nn.Module, paths: list[Path]) -> np.ndarray:
    """One picture at a time; float32 (N, D)."""
    transforms = torchvision.transforms
    resize = transforms.Resize(256, transforms.InterpolationMode.LANCZOS)
    crop = transforms.TenCrop(224)
    tensor = transforms.Compose([transforms.ToTensor(), transforms.Normalize(IMAGENET_MEAN, IMAGENET_STD)])
    rows = []
    for path in paths:
        with Image.open(path) as picture:
            crops = torch.stack([tensor(part) for part in crop(resize(picture.convert("RGB")))])
        with torch.no_grad():
            rows.append(network(crops).mean(0).numpy())
    return np.stack(rows)


def ours(extractor: Extractor, paths: list[Path]) -> np.ndarray:
    """As the stage does; float32 (N, D)."""
    settings = ResizeSettings(encoding="raw")
    pictures = (resize_file(Source(path.name, str(path)), settings).array() for path in paths)
    return np.stack(list(extractor.run(pictures)))


def measure(side: str, paths: list[Path], threads: int) -> dict[str, float]:
    """Seconds a picture of one side, after one picture to warm up, and the peak in the same process."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    if side == "published":
        network = models.get_model_builder(BACKBONE)(weights=None).eval()
        network.fc = torch.nn.Identity()
        work = functools.partial(published, network)
    else:
        backbone = find_backbone(BACKBONE)
        network = backbone.cut(Weights(backbone, "random").load())
        extractor = Extractor(network, TRANSFORM, precision=side, device=torch.device("cpu"), threads=threads)
        work = functools.partial(ours, extractor)
    work(paths[:1])
    started = time.perf_counter()
    work(paths)
    seconds = (time.perf_counter() - started) / len(paths)
    dtype = torch.bfloat16 if side == "bf16" else torch.float32
    one, other = (torch.randn(3000, 3000).to(dtype) for _ in range(2))
    products = []
    for _ in range(3):
        started = time.perf_counter()
        one @ other
        products.append(time.perf_counter() - started)
    return {"seconds": seconds, "product_flops": 2 * 3000**3 / min(products)}


def speed(paths: list[Path], threads: int, rounds: int) -> dict[str, float | None]:
    """All sides in turn, round after round: medians of the ratios within a round."""
    sides = SIDES if has_bfloat16_units() else SIDES[:2]
    found: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for number in range(rounds):
        for side in sides:
            command = [sys.executable, __file__, "--side", side, "--threads", str(threads), *map(str, paths)]
            answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found[side].append(json.loads(answer.splitlines()[-1]))
            print(f"round {number + 1}: {side:9} {found[side][-1]['seconds']:.3f} s a picture", flush=True)
    flops = flops_a_picture(skeleton(find_backbone(BACKBONE)), TRANSFORM)

    def ratio(side: str) -> float | None:
        if side not in found:
            return None
        pairs = zip(found["published"], found[side], strict=True)
        return round(statistics.median(one["seconds"] / other["seconds"] for one, other in pairs), 3)

    shares = [flops / run["seconds"] / run["product_flops"] for run in found.get("bf16", [])]
    return {
        "fp32_ratio": ratio("fp32"),
        "bf16_ratio": ratio("bf16"),
        "peak_share": round(statistics.median(shares), 3) if shares else None,
        **{f"{side}_seconds": round(min(run["seconds"] for run in runs), 4) for side, runs in found.items()},
        "gflop_a_picture": round(flops / 1e9, 1),
    }


def agreement(paths: list[Path], weights: Path) -> dict[str, float]:
    """DenseNet-169 with trained weights against the published way, and the control that must fail."""
    network = Weights(find_backbone("densenet169"), str(weights)).load()
    network.classifier = torch.nn.Identity()
    expected = published(network, paths)

    known = {"backbone": "densenet169", "inputs": str(Path(weights).parent), "weights": Path(weights).name}
    known["weights_sha256"] = sha256_file(weights)
    exact, half = (
        extract(paths, FeaturesSettings.model_validate({**known, "precision": name})) for name in ("fp32", "bf16")
    )
    return {
        "fp32_difference_max": float(np.abs(exact - expected).max()),
        "bf16_cosine_min": round(float(cosines(half, expected).min()), 6),
        "control_difference": float(np.abs(np.roll(exact, 1, axis=0) - expected).max(axis=1).min()),
        "control_cosine_max": round(float(cosines(np.roll(half, 1, axis=0), expected).max()), 6),
        "compared": len(paths),
    }


def cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return (one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = Path(os.environ.get("SIGHTWORD_TEST_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--data", type=Path, default=data, help="folder with flickr8k/images and weights")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", action="store_true", help="fewer pictures and rounds: below 5 minutes on two cores")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("paths", nargs="*", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        print(json.dumps(measure(arguments.side, arguments.paths, arguments.threads)))
        return
    paths = sorted((arguments.data / "flickr8k/images").glob("*.jpg"))
    weights = arguments.data / "weights/densenet169_imagenet.safetensors"
    if not paths or not weights.is_file():
        sys.exit(f"{arguments.data} has no flickr8k/images/*.jpg or no {weights.name}; name another folder with --data")
    timed, rounds, compared = (6, 3, 12) if arguments.quick else (20, 5, len(paths))
    result = speed(paths[:timed], arguments.threads, rounds) | agreement(paths[:compared], weights)
    result |= {"threads": arguments.threads, "machine": platform.machine(), "torch": torch.__version__}
    agrees = result["fp32_difference_max"] < 1e-4 and (result["bf16_cosine_min"] or 0) >= 0.999
    control = result["control_difference"] > 1e-4 and result["control_cosine_max"] < 0.999
    print(f"{result['fp32_ratio']} times the published speed in float32, {result['bf16_ratio']} times in bfloat16")
    print(
        f"agreement {'holds' if agrees else 'FAILS'}; the control {'fails, as it must' if control else 'DOES NOT FAIL'}"
    )
    print(json.dumps(result))
    sys.exit(0 if agrees and control else 1)


if __name__ == "__main__":
    main()
