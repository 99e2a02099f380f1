"""The device and the threads torch works with."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator

import torch

from pipeline.errors import SetupError
from pipeline.machine import Machine

log = logging.getLogger(__name__)


def use(machine: Machine, *, deterministic: bool = True) -> torch.device:
    """Set torch up for this whole process, and return the device to work on.

    Args:
        machine: device and threads.
        deterministic: the same inputs give the same bits on CUDA too; on a CPU they always do.

    Raises:
        SetupError: CUDA was asked for by name and is not there.
    """
    torch.set_num_threads(machine.threads)
    _repeat_exactly(deterministic)
    return choose(machine.device)


def choose(name: str) -> torch.device:
    """The device of a name such as ``auto``, ``cpu``, ``cuda`` or ``cuda:1``; nothing is set.

    Raises:
        SetupError: there is no such device here.
    """
    if name == "auto":
        found = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        if found.type == "cpu":
            log.info("no CUDA device: working on the CPU with %d threads", torch.get_num_threads())
        return found
    try:
        device: torch.device | None = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise SetupError("no such device", where=name, expected="auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise SetupError(
            f"no such device here ({torch.cuda.device_count()} CUDA devices)",
            where=name,
            todo="Set SIGHTWORD_DEVICE=cpu, or install a torch built for this machine's driver.",
        )
    return device


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Torch with another number of threads for its operations on a processor."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def move(values: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Values of a processor's memory on a device; what runs on a GPU meanwhile is not waited for."""
    if device.type != "cuda":
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)


def _repeat_exactly(deterministic: bool) -> None:
    """No TF32, whose products are no float32; where asked for, only kernels that repeat to the bit."""
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.benchmark = not deterministic
    # Not by `use_deterministic_algorithms`, which says the same to torch and loads its compiler for it: two seconds.
    torch.set_deterministic_debug_mode("error" if deterministic else "default")
    # Or each new tensor would be filled, which changes nothing where none is read before it is written.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # torch hides it from types
