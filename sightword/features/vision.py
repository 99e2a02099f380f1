"""Imports torchvision, also beside a torch that it was not built for; no other module imports torchvision.

torchvision's published wheel is built for CUDA. Beside a CPU-only torch its C++ library does not load, and the import
fails because two operators are unknown, which networks do not need: once their schemas are defined, it succeeds.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch

from sightword.errors import SetupError

log = logging.getLogger(__name__)

_SCHEMA = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_libraries: list[Any] = []  # a definition lasts as long as its library object


@contextlib.contextmanager
def _without_compiler() -> Iterator[None]:
    """Keep torch's compiler from being loaded, which takes a second: torchvision imports one function of it.

    The operator that calls the function is no part of a classifier; there it would load the compiler at its first call.
    """
    name = "torch._dynamo"
    if name in sys.modules:
        yield
        return

    def is_compile_supported(device: str) -> bool:
        from torch._dynamo import utils

        return bool(utils.is_compile_supported(device))

    stand_ins = {name: ModuleType(name), f"{name}.utils": ModuleType(f"{name}.utils")}
    vars(stand_ins[f"{name}.utils"])["is_compile_supported"] = is_compile_supported
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name in stand_ins:
            del sys.modules[name]


def _import_torchvision() -> ModuleType:
    try:
        import torchvision.models
    except ImportError as error:
        raise SetupError("torchvision cannot be imported", where=error.name, todo="Run `make install`.") from None
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        log.debug("torchvision's operators did not load (%s): defining two of them", error)
        library: Any = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
        _libraries.append(library)
        for name in ("nms", "qnms"):
            if not hasattr(torch.ops.torchvision, name):
                library.define(name + _SCHEMA)
        import torchvision.models
    module: ModuleType = torchvision
    return module


with _without_compiler():
    torchvision = _import_torchvision()
models: Any = torchvision.models


def classifiers() -> list[str]:
    """Return the names of torchvision's image classifiers, sorted."""
    return sorted(models.list_models(module=models))
