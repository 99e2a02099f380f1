"""Feature extraction on a CUDA GPU, end to end from resized pictures, and what it could gain.

Everything in one call: it makes shards of generated pictures, extracts the features of
ResNet-152 (random weights do for time) in float32 and bfloat16 with an empty store, then
compares variants of the network alone (folded, not folded, compiled, other numbers of
pictures a call), checks that a second run gives the same bytes and that bfloat16 agrees
with float32, and measures the peak of a large matrix product or convolution.

The last line is JSON. Random weights make all pictures nearly alike, so the agreement
here only guards against gross mistakes; `features.py` compares real photographs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from PIL import Image

from sightword import machine
from sightword.compute import devices
from sightword.features import extractor
from sightword.features.backbones import cut, find_backbone
from sightword.features.compute import ResizedCorpus
from sightword.features.fusion import ready
from sightword.features.identity import transform_of
from sightword.features.settings import FeaturesSettings
from sightword.features.table import read_features
from sightword.features.utilisation import flops_a_picture, peak_flops, skeleton
from sightword.features.weights import Weights
from sightword.images.encoding import encode
from sightword.images.shards import ResizedPicture, shard_of, shard_path, write_shard
from sightword.io.files import write_table
from sightword.storage.store import Store

SHARDS = 32
RESIZED = {"resize": 256, "interpolation": "lanczos", "exif": False}


def make_shards(folder: Path, count: int) -> list[str]:
    """Pictures of coarse blocks, kept as the stage resize keeps them; many share their pixels, none its hash."""
    rng = np.random.default_rng(0)
    kept = []
    for _ in range(64):
        blocks = Image.fromarray(rng.integers(0, 256, (32, 43, 3), np.uint8)).resize(
            (341, 256), Image.Resampling.BICUBIC
        )
        noisy = np.asarray(blocks).astype(int) + rng.integers(-6, 7, (256, 341, 3))
        kept.append(encode(Image.fromarray(noisy.clip(0, 255).astype(np.uint8)), "webp"))
    by_shard: dict[int, list[ResizedPicture]] = {shard: [] for shard in range(SHARDS)}
    names = [f"picture-{number:07d}" for number in range(count)]
    for number, name in enumerate(names):
        encoding, pixels = kept[number % len(kept)]
        sha256 = hashlib.sha256(name.encode()).hexdigest()
        by_shard[shard_of(name, SHARDS)].append(ResizedPicture(name, sha256, 341, 256, encoding, pixels))
    for shard, pictures in by_shard.items():
        write_shard(shard_path(folder, shard), pictures, RESIZED)
    return names


def end_to_end(folder: Path, names: list[str], settings: FeaturesSettings, device: torch.device, run: str) -> dict:
    """The stage's work with an empty store."""
    empty = pa.array([], pa.string())
    write_table(folder / "rejects.parquet", pa.table(dict.fromkeys(("image_id", "reason", "detail"), empty)))
    corpus = ResizedCorpus(
        names, folder, settings, store=Store(folder / f"store-{run}"), device=device, workers=machine.current().workers
    )
    started = time.perf_counter()
    summary = corpus.write(folder / f"{run}.h5")
    wall = time.perf_counter() - started
    clock = summary.clock
    return {
        "pictures_a_second": round(len(names) / wall, 1),
        "steady_pictures_a_second": round(clock.pictures / clock.wall, 1),
        "read": round(clock.read, 2),
        "infer": round(clock.infer, 2),
        "write": round(clock.write, 2),
        "sha256": hashlib.sha256((folder / f"{run}.h5").read_bytes()).hexdigest(),
    }


def variants(settings: FeaturesSettings, device: torch.device, seconds: float) -> dict[str, float]:
    """Pictures a second of the network alone, crops ready on the device, by variant."""
    backbone = find_backbone(settings.backbone)
    found = {}
    for precision in ("fp32", "bf16"):
        for pictures in (8, 32, 64):
            crops = torch.rand(pictures * 10, 224, 224, 3, device=device).permute(0, 3, 1, 2)
            for compiled in (False, True):
                network = ready(cut(Weights(backbone, "random").load(), backbone), precision=precision, device=device)
                torch.backends.cudnn.allow_tf32 = False
                work = torch.compile(network) if compiled else network
                name = f"{precision} {pictures} a call{' compiled' if compiled else ''}"
                with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
                    started = time.perf_counter()
                    try:
                        for _ in range(2):
                            work(crops)
                    except (RuntimeError, OSError, ImportError) as error:  # no memory, no compiler: an answer too
                        print(f"{name:28} {error}", flush=True)
                        found[name] = f"{type(error).__name__}"
                        continue
                    torch.cuda.synchronize()
                    if compiled:
                        found[f"{name}, seconds to compile"] = round(time.perf_counter() - started, 1)
                    calls, started = 0, time.perf_counter()
                    while time.perf_counter() - started < seconds:
                        work(crops)
                        torch.cuda.synchronize()
                        calls += 1
                found[name] = round(calls * pictures / (time.perf_counter() - started), 1)
                print(f"{name:28} {found[name]} pictures a second", flush=True)
                del network, work
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=8192)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each variant of the network")
    parser.add_argument("--backbone", default="resnet152")
    parser.add_argument("--device", default="cuda", help="cpu tries the script itself out, with few pictures")
    arguments = parser.parse_args()
    os.environ["SIGHTWORD_DEVICE"] = arguments.device
    if arguments.device == "cuda" and not torch.cuda.is_available():
        sys.exit("there is no CUDA device")
    device = devices.use(machine.current())
    settings = {
        precision: FeaturesSettings(backbone=arguments.backbone, weights="random", precision=precision)
        for precision in ("fp32", "bf16")
    }
    result: dict = {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "pictures": arguments.pictures,
        "pictures_a_call": extractor.PICTURES_A_CALL[device.type],
        "workers": machine.current().workers,
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        names = make_shards(folder, arguments.pictures)
        for run, precision in (("fp32", "fp32"), ("bf16", "bf16"), ("bf16 again", "bf16")):
            result[run] = end_to_end(folder, names, settings[precision], device, run)
            print(f"{run:28} {result[run]}", flush=True)
        result["repeats_exactly"] = result["bf16"]["sha256"] == result["bf16 again"]["sha256"]
        one, other = (read_features(folder / f"{run}.h5").features for run in ("fp32", "bf16"))
        cosines = (one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)
        result["bf16_cosine_min"] = round(float(cosines.min()), 6)
    transform = transform_of(settings["fp32"], RESIZED)
    flops = flops_a_picture(skeleton(find_backbone(arguments.backbone)), transform)
    for precision in ("fp32", "bf16"):
        peak = peak_flops(precision, device)
        result[f"{precision}_peak_tflops"] = round(peak / 1e12, 2)
        result[f"{precision}_share_of_peak"] = round(flops * result[precision]["steady_pictures_a_second"] / peak, 3)
    if device.type == "cuda":
        result["network_alone"] = variants(settings["fp32"], device, arguments.seconds)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
