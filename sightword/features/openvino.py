"""Runs a network in OpenVINO on a CPU, which the extra ``openvino`` brings."""

from __future__ import annotations

import sys
import threading
import warnings
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch import nn

from sightword.errors import SetupError
from sightword.features.settings import Precision
from sightword.messages import install_extra

_WHERE = "SIGHTWORD_ENGINE=openvino"


def _imported() -> Any:
    """Import OpenVINO without its reports: each import would tell a server of the use, and write to ``~/intel``."""
    sys.modules.setdefault("openvino_telemetry", ModuleType("openvino_telemetry"))  # OpenVINO takes its own stub then
    import openvino

    return openvino


def check(precision: Precision) -> None:
    """Raise SetupError unless OpenVINO is installed and computes in this precision on this CPU."""
    if find_spec("openvino") is None:
        raise SetupError("openvino is not installed", where=_WHERE, todo=install_extra("openvino"))
    if precision == "bf16" and "BF16" not in _imported().Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        what = "OpenVINO has no bfloat16 on this CPU"
        raise SetupError(what, where=_WHERE, todo="Set features.precision to fp32, or leave the variable out.")


class OpenVinoNetwork(nn.Module):
    """A network as OpenVINO compiled it, for crops (B, H, W, 3) of one shape; each of ``threads`` has a stream.

    The network takes crops (B, 3, H, W) and returns (B, D), float32. With ``bf16`` all layers compute in bfloat16.
    SetupError: OpenVINO cannot compile the network.
    """

    def __init__(self, network: nn.Module, shape: tuple[int, ...], precision: Precision, threads: int) -> None:
        super().__init__()
        self._compiled = _compiled(network, shape, precision, threads)
        self._own = threading.local()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return features (B, D) of images (B, 3, H, W), channels last in memory."""
        if not hasattr(self._own, "request"):
            self._own.request = self._compiled.create_infer_request()
        pixels = images.permute(0, 2, 3, 1).contiguous().numpy()
        return torch.from_numpy(self._own.request.infer({0: pixels}, share_inputs=True)[0])


def _compiled(network: nn.Module, shape: tuple[int, ...], precision: Precision, threads: int) -> Any:
    """Compile a network; OpenVINO's own ``convert_model`` would silence all warnings of the process."""
    openvino = _imported()
    from openvino.frontend import FrontEndManager
    from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder

    crops = torch.zeros(shape).permute(0, 3, 1, 2).contiguous()
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # torch warns of what a trace keeps as a constant: the shape is one
            reader = FrontEndManager().load_by_framework("pytorch")
            traced = TorchScriptPythonDecoder(network.eval(), example_input=crops)  # OpenVINO holds no reference
            steps = openvino.preprocess.PrePostProcessor(reader.convert(reader.load(traced)))
        pixels = steps.input(0).tensor().set_element_type(openvino.Type.f32)
        pixels.set_layout(openvino.Layout("NHWC")).set_shape(shape)
        steps.input(0).model().set_layout(openvino.Layout("NCHW"))
        options = {
            "INFERENCE_PRECISION_HINT": "bf16" if precision == "bf16" else "f32",
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": threads,  # a picture is computed in one thread, so that their number changes no bit
            "ENABLE_CPU_PINNING": False,
        }
        return openvino.Core().compile_model(steps.build(), "CPU", options)
    except Exception as error:  # the converter runs the network and its own rules, each with classes of its own
        what = f"OpenVINO cannot compile the network ({type(error).__name__})"
        raise SetupError(what, where=_WHERE, todo="Leave the variable out: torch computes every network.") from error
