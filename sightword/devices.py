"""The device and the threads torch works with."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sightword.errors import SetupError
from sightword.machine import Machine

log = logging.getLogger(__name__)

# MKL's vector functions (tanh, exp, log, ..) find the kind of processor at their first call in a process, by two
# writes without a lock. A second thread that calls one between the two writes gets kernels of few digits. The first
# call is therefore here: every module that computes imports this one before it starts a thread, and imports are locked.
torch.tanh(torch.zeros(1, dtype=torch.float32, device="cpu"))


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


def pool(count: int) -> ThreadPoolExecutor:
    """Threads in which each operation of torch takes one thread."""
    return ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,))


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Torch with another number of threads for its operations on a processor."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def shared(block: Callable[[], Iterator[None]]) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Return a context manager for settings of the whole process that several threads may enter at a time.

    The first thread to enter runs the block up to its ``yield``. The last thread to leave runs the rest. Each thread
    has the settings until it leaves, and the earlier settings come back.

    Args:
        block: a generator that sets, yields once, and restores.
    """
    lock, users, open_block = threading.Lock(), 0, contextlib.ExitStack()
    manager = contextlib.contextmanager(block)

    @contextlib.contextmanager
    def within() -> Iterator[None]:
        nonlocal users
        with lock:
            if users == 0:
                open_block.enter_context(manager())
            users += 1
        try:
            yield
        finally:
            with lock:
                users -= 1
                if users == 0:
                    open_block.close()

    return within


class OwnRandom(TorchDispatchMode):
    """Within the block, this thread draws from a generator of its own: the numbers that ``manual_seed`` gives.

    All threads of a process share one generator: a thread that seeds it changes the numbers of the others, and draws
    of the others change its own. For operations on a processor only.

    Args:
        seed: of the generator.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch gives it no types
        self._generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the operation, one that draws with this generator."""
        kwargs = dict(kwargs or {})
        if torch.Tag.nondeterministic_seeded in func.tags:
            kwargs["generator"] = self._generator
            if not any(argument.name == "generator" for argument in func._schema.arguments):
                func = func.overloadpacket.generator  # rand and others have an overload of that name
        return func(*args, **kwargs)


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
    # `use_deterministic_algorithms` sets the same, but loads torch's compiler, which takes two seconds.
    torch.set_deterministic_debug_mode("error" if deterministic else "default")
    # Or each new tensor would be filled, which changes nothing where none is read before it is written.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # torch hides it from types
