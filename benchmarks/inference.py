"""A network's own cost on a CPU beside the engines that a user might take, in processor seconds of one thread.

The sides take turns within one process, ten crops a call. For each network and precision each side has two lines: the
largest difference from the plain network in float32 and the least cosine; the milliseconds, and the cost over ours of
the same round (least, median, most). ``torch`` is the plain network with channels last (and autocast), ``onnxruntime``
the graph that torch exports, ``openvino`` what ``SIGHTWORD_INFERENCE=openvino`` computes. Random weights do for speed;
the differences tell something with trained ones only (``--weights``, for torchvision's networks). The last line is
JSON: the milliseconds and costs.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import torch
from torch import nn
from turns import costs, in_turn

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
    """Return each side's milliseconds, and its cost over ours: least, median, most."""
    backbone = find_backbone(name)

    def make() -> nn.Module:
        return cut(Weights(backbone, weights).load(), backbone).eval()

    blocks = torch.randn(10, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    crops = nn.functional.interpolate(blocks, size=backbone.own.crop, mode="bicubic")
    all_sides = sides(make, crops, precision)
    with torch.inference_mode():
        expected = make()(crops)
    found: dict[str, torch.Tensor] = {}

    def computed(work: Work) -> torch.Tensor:
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            return work(crops).float()

    works = {side: lambda _, work=work: computed(work) for side, work in all_sides.items()}
    took = in_turn(works, rounds, warm=1, look=lambda _, side, features: found.update({side: features}))
    for side, features in found.items():
        cosine = float(nn.functional.cosine_similarity(features, expected).min())
        difference = float((features - expected).abs().max() / expected.abs().max())
        print(f"{name} {precision}, {side}: difference {difference:.1e} of the largest, cosine {cosine:.6f}")
    return costs(took, f"{name} {precision}")


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
