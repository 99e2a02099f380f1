"""Facts about torch, from a process of its own: ``python -m pipeline.doctor.torch_facts``.

The program reads the section ``features`` as a JSON object, or ``{}``, and prints JSON objects, one a line. A torch
that cannot be loaded, or crashes, is then a finding and does not stop the doctor.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from sightword.text import first_line


def main() -> None:
    """Print the facts on standard output."""
    features = json.loads(sys.stdin.readline())
    _print(_torch())
    if features.get("source", "extract") != "extract":
        return
    try:
        _print(_torchvision(features))
    except Exception as error:  # noqa: BLE001 - torchvision fails to load in many ways
        _print({"torchvision_error": first_line(error)})


def _print(values: dict[str, Any]) -> None:
    print(json.dumps(values), flush=True)


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


def _torchvision(features: dict[str, Any]) -> dict[str, Any]:
    import torch

    from sightword.features import vision
    from sightword.features.settings import RANDOM, is_weights_file

    found: dict[str, Any] = {"torchvision": vision.torchvision.__version__, "patched": bool(vision._libraries)}
    weights = features.get("weights", RANDOM)
    if weights != RANDOM and not is_weights_file(weights):
        accepted = vision.models.get_model_weights(features["backbone"])
        found["accepted"] = [entry.name for entry in accepted]
        if weights in found["accepted"]:
            found["url"] = accepted[weights].url
            found["hub"] = torch.hub.get_dir()
            found["weights_bytes"] = int(accepted[weights].meta.get("_file_size", 0) * 2**20)
    return found


if __name__ == "__main__":
    main()
