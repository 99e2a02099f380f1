"""What only torch can say, in a process of its own: ``python -m pipeline.doctor.torch_facts``.

It reads a JSON object ``{"params": sections, "tokens": ids in use}`` and writes one, or several, a line each: a torch
that cannot be loaded, or dies, is then a finding and no crash.
"""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager
from typing import Any

from pipeline.params import params_file
from sightword.errors import SightwordError


def main() -> None:
    """Answer on standard output."""
    given = json.loads(sys.stdin.readline())
    _say(_torch())
    settings = params_file.check(given["params"]) if given["params"] else None
    width = None
    if settings is None or settings["features"].model_dump()["source"] == "extract":
        try:
            found = _backbone(settings)
        except (SightwordError, ImportError, OSError, RuntimeError) as error:
            _say({"torchvision_error": str(error).splitlines()[0]})
        else:
            _say(found)
            width = found.get("dimension")
    if settings is not None:
        _say(encoder_sizes(settings["train"], int(given["tokens"]), width or given.get("width") or 2048))


def _say(values: dict[str, Any]) -> None:
    print(json.dumps(values), flush=True)  # noqa: T201 - this is a program, and what it prints its answer


def _torch() -> dict[str, Any]:
    import torch

    found: dict[str, Any] = {"torch": torch.__version__, "cuda_build": torch.version.cuda, "devices": []}
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            free, total = torch.cuda.mem_get_info(number)
            name = torch.cuda.get_device_name(number)
            kind = "sm_{}{}".format(*torch.cuda.get_device_capability(number))
            found["devices"].append({"name": name, "free": free, "total": total, "kind": kind})
        found["kinds"] = torch.cuda.get_arch_list()
    return found


def _backbone(settings: dict[str, Any] | None) -> dict[str, Any]:
    from sightword.features import vision

    found: dict[str, Any] = {"torchvision": vision.torchvision.__version__, "mended": bool(vision._libraries)}
    if settings is None:
        return found
    from sightword.features.backbones import find_backbone
    from sightword.features.settings import RANDOM, is_weights_file
    from sightword.features.utilisation import skeleton

    section = settings["features"]
    with _undrawn():
        network = skeleton(find_backbone(section.backbone, section.feature_point))
    found["dimension"] = network.dimension
    found["network_bytes"] = 4 * sum(weight.numel() for weight in network.parameters())
    if section.weights != RANDOM and not is_weights_file(section.weights):
        import torch

        accepted = vision.models.get_model_weights(section.backbone)
        found["accepted"] = [entry.name for entry in accepted]
        if section.weights in found["accepted"]:
            found["url"] = accepted[section.weights].url
            found["hub"] = torch.hub.get_dir()
            found["weights_bytes"] = int(accepted[section.weights].meta.get("_file_size", 0) * 2**20)
    return found


def encoder_sizes(train: Any, tokens: int, width: int) -> dict[str, Any]:
    """Bytes of the encoders, by the real modules on torch's meta device.

    Args:
        train: the section ``train``.
        tokens: ids in use.
        width: numbers in a picture's features.

    Returns:
        ``encoder_bytes``, weights and buffers as a snapshot holds them, and ``weight_bytes`` of those that are learned.
    """
    import torch

    from sightword.model.encoders import Encoders
    from sightword.training.objective import Objective

    with torch.device("meta"), _undrawn():
        encoders = Encoders(tokens, width, train)
    learned = sum(weight.numel() * weight.element_size() for weight in encoders.parameters())
    whole = sum(value.numel() * value.element_size() for value in encoders.state_dict().values())
    learned += 4 * len(list(Objective(train).parameters()))
    return {"encoder_bytes": whole, "weight_bytes": learned}


def _undrawn() -> AbstractContextManager[Any]:
    """No random numbers for weights that have no memory: torch would load its compiler for it, for a second."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Undrawn(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if func in (torch.nn.init.normal_, torch.nn.init.trunc_normal_):
                return kwargs["tensor"] if "tensor" in kwargs else args[0]
            return func(*args, **kwargs)

    return Undrawn()


if __name__ == "__main__":
    main()
