"""Feature extraction against the published way, on the same pictures, in one run.

The published way: one picture at a time, Pillow's Lanczos, torchvision's TenCrop, crops normalised on the CPU in NCHW,
float32, the network as it is. Ours: what the stage does, by torch and by OpenVINO (`SIGHTWORD_ENGINE=openvino`,
where it is installed). All start from picture files and end with features; loading the network is left out. Each
measurement is a process of its own, and the sides take turns, since other work on the machine comes and goes.

Speed is measured on ResNet-152 with random weights. Agreement is measured on DenseNet-169 with its trained weights:
with random weights all pictures look alike to a network, and no comparison of them could fail.

The last line is JSON: for each side ratio (times faster than the published way, median) and seconds (best);
bf16_cosine_min, peak_share (operations in bfloat16 over a large matrix product's), and the control that must fail.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path

import common
import numpy as np
import torch
from PIL import Image
from torch.utils.flop_counter import FlopCounterMode

from sightword import FeaturesSettings, extract
from sightword.compute.devices import has_bfloat16_units
from sightword.features.extractor import Extractor
from sightword.features.identity import Transform
from sightword.features.networks import find_backbone
from sightword.features.settings import IMAGENET_MEAN, IMAGENET_STD
from sightword.features.vision import models, torchvision
from sightword.features.weights import Weights
from sightword.images.resized import Source, resize_file
from sightword.images.settings import ResizeSettings
from sightword.io.files import sha256_file

TRANSFORM = Transform("ten", 224, tuple(IMAGENET_MEAN), tuple(IMAGENET_STD), False, False, 256, "lanczos", False)


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


def measure(side: str, name: str, paths: list[Path], threads: int) -> float:
    """Seconds a picture of one side, after one picture to warm up."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    if side == "published":
        network = models.get_model_builder(name)(weights=None).eval()
        network.fc = torch.nn.Identity()
        work = functools.partial(published, network)
    else:
        precision, _, engine = side.partition(" ")
        backbone = find_backbone(name)
        extractor = Extractor(
            backbone.cut(Weights(backbone, "random").load()), TRANSFORM, precision=precision,
            device=torch.device("cpu"), threads=threads, use_openvino=engine == "openvino",
        )  # fmt: skip
        work = functools.partial(ours, extractor)
    work(paths[:1])
    started = time.perf_counter()
    work(paths)
    return (time.perf_counter() - started) / len(paths)


def speed(name: str, paths: list[Path], threads: int, rounds: int, *, here: bool) -> dict[str, float | None]:
    """All sides in turn, round after round: medians of the ratios within a round; ``here`` starts no processes."""
    precisions = ["fp32", "bf16"] if has_bfloat16_units() else ["fp32"]
    engines = ["", " openvino"] if importlib.util.find_spec("openvino") else [""]
    sides = ["published", *(f"{precision}{engine}" for engine in engines for precision in precisions)]
    found: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(rounds):
        for side in sides:
            command = [sys.executable, __file__, "--side", side, "--network", name, "--threads", str(threads)]
            if here:
                found[side].append(measure(side, name, paths, threads))
            else:
                answer = subprocess.run([*command, *map(str, paths)], check=True, capture_output=True, text=True).stdout
                found[side].append(float(answer.splitlines()[-1]))
            print(f"round {number + 1}: {side:13} {found[side][-1]:.3f} s a picture", flush=True)
    result: dict[str, float | None] = {}
    for side, seconds in found.items():
        result[f"{side} ratio"] = round(float(np.median(np.divide(found["published"], seconds))), 3)
        result[f"{side} seconds"] = round(min(seconds), 4)
    return result


def flops_a_picture(name: str) -> int:
    """Operations of a network for the ten crops of a picture."""
    network = models.get_model_builder(name)(weights=None).to("meta").eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(torch.zeros((10, 3, 224, 224), device="meta"))
    return counter.get_total_flops()


def agreement(paths: list[Path], weights: Path, half_precision: str) -> dict[str, float]:
    """DenseNet-169 with trained weights against the published way, and the control that must fail."""

    def cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        return (one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)

    network = Weights(find_backbone("densenet169"), str(weights)).load()
    network.classifier = torch.nn.Identity()
    expected = published(network, paths)
    known = {"backbone": "densenet169", "inputs": str(Path(weights).parent), "weights": Path(weights).name}
    known["weights_sha256"] = sha256_file(weights)
    precisions = dict.fromkeys(["fp32", half_precision])
    found = [extract(paths, FeaturesSettings.model_validate({**known, "precision": name})) for name in precisions]
    exact, half = found[0], found[-1]
    return {
        "fp32_difference_max": float(np.abs(exact - expected).max()),
        "bf16_cosine_min": round(float(cosines(half, expected).min()), 6),
        "control_difference": float(np.abs(np.roll(exact, 1, axis=0) - expected).max(axis=1).min()),
        "control_cosine_max": round(float(cosines(np.roll(half, 1, axis=0), expected).max()), 6),
        "compared": len(paths),
    }


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--side", help="measure this side alone, in this process")
    parser.add_argument("--network", default="resnet152")
    parser.add_argument("paths", nargs="*", type=Path)
    arguments = parser.parse_args()
    if arguments.side:
        print(measure(arguments.side, arguments.network, arguments.paths, arguments.threads))
        return
    paths = sorted((arguments.data / "flickr8k/images").glob("*.jpg"))
    weights = arguments.data / "weights/densenet169_imagenet.safetensors"
    if not paths or not weights.is_file():
        sys.exit(f"{arguments.data} has no flickr8k/images/*.jpg or no {weights.name}; name another folder with --data")
    timed, rounds, compared = (6, 3, 12) if arguments.quick else (20, 5, len(paths))
    if arguments.tiny:
        timed, rounds, compared, arguments.network = 1, 1, 2, "resnet18"
    half = "fp32" if arguments.tiny else "bf16"  # CPUs without bfloat16 take minutes
    result = speed(arguments.network, paths[:timed], arguments.threads, rounds, here=arguments.tiny)
    result |= agreement(paths[:compared], weights, half)
    if "bf16 seconds" in result and not arguments.tiny:
        peak = common.peak_flops("bf16", torch.device("cpu"))
        result["peak_share"] = round(flops_a_picture(arguments.network) / result["bf16 seconds"] / peak, 3)
    agrees = result["fp32_difference_max"] < 1e-4 and result["bf16_cosine_min"] >= 0.999
    control = result["control_difference"] > 1e-4 and result["control_cosine_max"] < 0.999
    print(
        f"agreement {'holds' if agrees else 'FAILS'}; the control {'fails, as it must' if control else 'DOES NOT FAIL'}"
    )
    print(json.dumps(result | {"threads": arguments.threads, "torch": torch.__version__}))
    sys.exit(0 if agrees and control else 1)


if __name__ == "__main__":
    main()
