"""Weights as safetensors files, read only into the network they belong to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeVar

import safetensors
import safetensors.torch
import torch
from torch import nn

from sightword.errors import EncoderError
from sightword.io.files import Pathish, atomic_file
from sightword.model.encoders import Encoders
from sightword.model.shape import Shape

Module = TypeVar("Module", bound=nn.Module)
StoredName = Literal["float32", "float16", "int8"]
"""The numbers in which weights are stored."""
SCALE = ".scale"


def write_tensors(path: Pathish, tensors: Mapping[str, torch.Tensor]) -> None:
    """Write a safetensors file, whole or not at all; the same values give the same bytes.

    Raises:
        OSError: the file system's error.
    """
    with atomic_file(path) as temporary:  # save_file makes files that only their owner can read
        temporary.write_bytes(tensor_bytes(tensors))


def tensor_bytes(tensors: Mapping[str, torch.Tensor]) -> bytes:
    """Return the content of a safetensors file."""
    return safetensors.torch.save({name: value.detach().cpu().contiguous() for name, value in tensors.items()})


def load_encoders(path: Pathish, tokens: int, features: int, shape: Shape) -> Encoders:
    """Read a network in evaluation mode. No random numbers are drawn.

    Args:
        path: the weights.
        tokens: number of ids, padding and unknown included.
        features: number of features of a picture.
        shape: the shape of the network.

    Raises:
        EncoderError: the file is missing, damaged, or of another network (which tensor, which shapes).
    """
    with torch.device("meta"):  # weights without memory
        encoders = Encoders(tokens, features, shape)
    return load_module(path, encoders)


def load_module(path: Pathish, module: Module, *, finite: bool = False) -> Module:
    """Read the weights of a module that was built without memory, on the device ``meta``; return the module.

    Args:
        path: the weights.
        module: the module, put in evaluation mode.
        finite: refuse weights that are not finite; an infinite standard deviation omits its feature.

    Raises:
        EncoderError: the file is missing, damaged, or of another network (which tensor, which shapes).
    """
    if not Path(path).is_file():
        raise EncoderError("weights are missing", where=path, todo="Run `dvc checkout` or `dvc repro`.")
    try:
        found = safetensors.torch.load_file(os.fspath(path))
    except safetensors.SafetensorError as error:
        raise EncoderError(f"is not a whole safetensors file ({error})", where=path) from None
    for key in [key for key, value in found.items() if value.dtype == torch.int8 and key + SCALE in found]:
        if found[key + SCALE].shape == found[key].shape[:1]:  # rows of whole numbers, each with its scale
            found[key] = found[key].float() * found.pop(key + SCALE)[:, None]
    want, have = ({name: tuple(value.shape) for name, value in one.items()} for one in (module.state_dict(), found))
    if name := next((name for name in sorted(want | have) if want.get(name) != have.get(name)), None):
        raise EncoderError(
            f"belongs to another network: {name} is {have.get(name, 'nothing')}, "
            f"this network has {want.get(name, 'nothing')}",
            where=path,
            todo="Use the description it was written with.",
        )
    if name := next((name for name, value in found.items() if not value.is_floating_point()), None):
        raise EncoderError(f"is damaged: {name} is {found[name].dtype}", where=path, expected="float32")
    # Copies: the tensors that were read are windows on the file.
    plain = {name: value.to(torch.float32, copy=True) for name, value in found.items()}
    for name, value in plain.items() if finite else ():
        bad = value.isnan() if name == "images.deviation" else ~value.isfinite()
        if bad.any():
            what = f"holds values that are not finite (in {name})"
            todo = "The training run diverged: look at the loss, and train again with a smaller learning rate."
            raise EncoderError(what, where=path, todo=todo)
    module.load_state_dict(plain, assign=True)
    return module.eval()


def packed(module: nn.Module, stored: StoredName, where: Path) -> dict[str, torch.Tensor]:
    """Return the weights as they are to be stored, and the statistics of the features, which may be tiny, as they are.

    With ``int8`` each row of a matrix is rounded to whole numbers from -127 to 127 times the row's scale, float32,
    whose name ends in :data:`SCALE`; other weights become float16. :func:`load_module` reads all of them as float32.

    Raises:
        EncoderError: a weight is beyond half precision, or not finite.
    """
    state = dict(module.state_dict())
    if stored == "float32":
        return state
    for name, _ in module.named_parameters():
        value = state[name]
        if stored == "int8" and value.ndim == 2:
            near = scale = value.abs().amax(dim=1) / 127
            state[name + SCALE] = scale
            state[name] = (value / torch.where(scale > 0, scale, 1)[:, None]).round().to(torch.int8)
        else:
            near = state[name] = value.half()
        if not near.isfinite().all():
            what = f"has weights beyond half precision (in {name})"
            raise EncoderError(what, where=where, expected="at most 65,504", todo="Save it as float32.")
    return state
