"""A network's own cost on a CPU beside the engines that a user might take, in processor seconds of one thread.

The sides take turns within one process, ten crops a call. For each network and precision a line a side: its cost over
ours of the same round (least, median, most), the largest difference from the plain network in float32, and the least
cosine. ``torch`` is the plain network with channels last (and autocast), ``onnxruntime`` the graph that torch exports,
``openvino`` what ``SIGHTWORD_INFERENCE=openvino`` computes. Random weights do for speed; the differences tell something
with trained ones only (``--weights``, for torchvision's networks). The last line is JSON: the costs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import torch
from torch import nn

from sightword.compute.devices import has_bfloat16_units
from sightword.features.backbones import cut, find_backbone
from sightword.features.fusion import ready
from sightword.features.openvino import OpenVinoNetwork
from sightword.features.weights import Weights

Work = Callable[[torch.Tensor], torch.Tensor]


def onnxruntime(network: nn.Module, crops: torch.Tensor) -> Work:
    import onnxruntime as runtime

    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "network.onnx"
        torch.onnx.export(network, (crops,), path, dynamo=False, input_names=["crops"], opset_version=18)
        session = runtime.InferenceSession(str(path), options)
    return lambda images: torch.from_numpy(session.run(None, {"crops": images.numpy()})[0])


def sides(make: Callable[[], nn.Module], crops: torch.Tensor, precision: str) -> dict[str, Work]:
    """Return what computes the features (B, D) of crops (B, 3, H, W), by its name."""
    last = crops.contiguous(memory_format=torch.channels_last)
    fast = ready(make(), precision=precision, device=torch.device("cpu"))
    plain = make().to(memory_format=torch.channels_last)
    compiled = OpenVinoNetwork(make(), tuple(crops.permute(0, 2, 3, 1).shape), precision, 1)
    found: dict[str, Work] = {"ours": lambda _: fast(last), "torch": lambda _: plain(last)}
    if precision == "fp32":
        found["onnxruntime"] = onnxruntime(make(), crops)
    return found | {"openvino": lambda _: compiled(last)}


def compare(name: str, weights: str, precision: str, rounds: int) -> dict[str, list[float]]:
    """Return each side's cost over ours: least, median, most."""
    backbone = find_backbone(name)

    def make() -> nn.Module:
        return cut(Weights(backbone, weights).load(), backbone).eval()

    blocks = torch.randn(10, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    crops = nn.functional.interpolate(blocks, size=backbone.own.crop, mode="bicubic")
    all_sides = sides(make, crops, precision)
    with torch.inference_mode():
        expected = make()(crops)
    seconds: dict[str, list[float]] = {side: [] for side in all_sides}
    found: dict[str, torch.Tensor] = {}
    for number in range(rounds + 1):  # the first one warms up
        for side, work in all_sides.items():
            started = time.process_time()
            with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                found[side] = work(crops).float()
            if number:
                seconds[side].append(time.process_time() - started)
    result = {}
    for side, times in seconds.items():
        costs = [one / ours for one, ours in zip(times, seconds["ours"], strict=True)]
        cosine = float(nn.functional.cosine_similarity(found[side], expected).min())
        result[side] = [round(one, 2) for one in (min(costs), statistics.median(costs), max(costs))]
        cost = "-".join(f"{one:.2f}" for one in result[side])
        difference = float((found[side] - expected).abs().max() / expected.abs().max())
        print(f"{name:28} {precision} {side:12} {cost}  {statistics.median(times):.3f} s", end="  ")
        print(f"difference {difference:.1e} of the largest, cosine {cosine:.6f}", flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=["resnet152", "densenet169", "timm:vit_small_patch16_224"])
    parser.add_argument("--weights", default="random", help="of all networks named: a file, or a published name")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    precisions = ["fp32", "bf16"][: 1 + has_bfloat16_units()]
    result = {
        f"{name} {precision}": compare(name, arguments.weights, precision, arguments.rounds)
        for name in arguments.networks
        for precision in precisions
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
