"""The device, the threads of torch's operations, the memory and the optimiser."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from inspect import unwrap
from typing import Any

import torch
from torch.optim import Optimizer
from torch.utils._python_dispatch import TorchDispatchMode

from sightword.errors import SetupError
from sightword.machine import Machine
from sightword.messages import plural

TRIM, MAP = -1, -3
"""The numbers of glibc's thresholds (mallopt(3))."""
KEPT, MAPPED, OLD = (1 << 31) - 1, 1 << 30, 1 << 25
"""Bytes of free memory that are kept, of a block that is not, and of one that an older glibc takes at most."""

# MKL's vector functions (tanh, exp, log, ..) detect the kind of CPU at their first call in a process, by two writes
# without a lock. A second thread that calls one between the two writes gets kernels of few digits. The first call is
# therefore here: every module that computes imports this one before it starts a thread, and imports are locked.
torch.tanh(torch.zeros(1, dtype=torch.float32, device="cpu"))


def _after_fork() -> None:
    """Let torch take one thread in a forked child, which lacks the threads that OpenMP would wait for endlessly."""
    global _starting
    _starting = threading.Lock()  # a thread of the parent may hold the earlier one
    torch.set_num_threads(1)


os.register_at_fork(after_in_child=_after_fork)


def use(machine: Machine, *, deterministic: bool = True) -> torch.device:
    """Set torch up for this whole process, and return the device to work on.

    TF32 is off: its products are not float32.

    Args:
        machine: device and threads.
        deterministic: use only kernels that PyTorch calls deterministic on CUDA too; a CPU's always give the same bits.

    Raises:
        SetupError: the device does not exist.
    """
    torch.set_num_threads(machine.threads)
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.benchmark = not deterministic
    # `use_deterministic_algorithms` sets the same, but loads torch's compiler, which takes two seconds.
    torch.set_deterministic_debug_mode("error" if deterministic else "default")
    fill_new_tensors(False)
    return choose(machine.device)


def fill_new_tensors(fill: bool) -> bool:
    """Say whether PyTorch fills each new tensor in its deterministic mode; return what was said before.

    Filling changes nothing here, since no tensor is read before it is written.
    """
    settings: Any = torch.utils.deterministic  # torch's types lack the attribute
    before: bool = settings.fill_uninitialized_memory
    settings.fill_uninitialized_memory = fill
    return before


def choose(name: str) -> torch.device:
    """Return the device of a name: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``; nothing is set.

    SetupError: the device does not exist.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
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


def describe(device: torch.device) -> str:
    """Return a device in words for the log: ``CPU, 2 threads``, or the name of the GPU."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU, {plural(torch.get_num_threads(), 'thread')}"


def has_bfloat16_units() -> bool:
    """Return whether this CPU multiplies bfloat16 itself; False too if this torch cannot tell."""
    able: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(able.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16"))


def pool(count: int) -> ThreadPoolExecutor:
    """Return a pool of threads in which each operation of torch takes one thread.

    The number that a thread sets in torch is also that of threads that start later. So all threads of the pool start at
    once, and the number of the calling thread is set again.
    """
    met = threading.Barrier(count)
    workers = ThreadPoolExecutor(count, initializer=_take_one_thread)
    with _starting:
        before = torch.get_num_threads()
        try:
            for started in [workers.submit(met.wait) for _ in range(count)]:
                started.result()
        except BaseException:
            met.abort()  # else the others wait for a thread that could not start
            raise
        finally:
            torch.set_num_threads(before)
    return workers


_starting = threading.Lock()


def thread_count() -> int:
    """Return the number of threads of torch's operations in this thread.

    A thread's first question sets its number, so the answer waits while a pool starts.
    """
    with _starting:
        return torch.get_num_threads()


def _take_one_thread() -> None:
    torch.get_num_threads()  # the first question sets a thread's number to that of the process
    torch.set_num_threads(1)


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch's operations on a CPU take another number of threads for a block."""
    before = thread_count()
    if before == count:  # to set it would change the number of threads that start later
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def shared(block: Callable[[], Iterator[None]]) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Return a context manager for settings of the whole process that several threads may enter at a time.

    The first thread to enter runs the block, a generator that yields once, up to its ``yield``; the last thread to
    leave runs the rest.
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
    """Lets this thread draw from a generator of its own within a block, with the numbers that ``manual_seed`` gives.

    All threads of a process share torch's generator, so a thread that seeds it changes the numbers of the others. For
    operations on a CPU only.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch gives it no types
        self._generator = torch.Generator().manual_seed(seed)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: to hide the next method from torch's compiler, torch would import the compiler."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call an operation; an operation that draws gets this generator."""
        kwargs = dict(kwargs or {})
        if torch.Tag.nondeterministic_seeded in func.tags:
            kwargs["generator"] = self._generator
            if not any(argument.name == "generator" for argument in func._schema.arguments):
                func = func.overloadpacket.generator  # rand and others have an overload of that name
        return func(*args, **kwargs)


def move(values: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy values to a device, from a CPU's memory without waiting for a GPU."""
    from_cpu = device.type == "cuda" and values.device.type == "cpu"
    return values.pin_memory().to(device, non_blocking=True) if from_cpu else values.to(device)


@functools.cache  # once in a process
def keep_memory() -> None:
    """Keep freed blocks of up to 1 GB for later ones, with glibc (32 MB with an older one); elsewhere nothing changes.

    By default glibc returns each block above 32 MB to Linux, which fills the next one with zeros, page by page: a
    third of a training step of n-grams, and a tenth of one of a GRU (benchmarks/RESULTS.md).
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(TRIM, KEPT)
        if not libc.mallopt(MAP, MAPPED):  # and its own threshold, 128 kB at first, no longer grows
            libc.mallopt(MAP, OLD)


class Adam(torch.optim.Adam):
    """:class:`torch.optim.Adam` with the same numbers, without torch's compiler, whose import takes a second.

    torch wraps some methods for ``torch.compile``, and the wrappers load the compiler whether it is used or not.
    """

    step = torch.no_grad()(unwrap(torch.optim.Adam.step))
    add_param_group = unwrap(Optimizer.add_param_group)
    zero_grad = unwrap(Optimizer.zero_grad)
    state_dict = unwrap(Optimizer.state_dict)
    load_state_dict = unwrap(Optimizer.load_state_dict)
