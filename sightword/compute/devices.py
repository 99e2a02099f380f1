"""The device, the threads, the memory and the optimiser of torch."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from inspect import unwrap
from typing import Any, TypeVar

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
Item = TypeVar("Item")
Result = TypeVar("Result")

WORTH_A_THREAD = 20_000
"""Numbers in one step of a work from which a second thread pays. Below, waking each other and handing over the
interpreter's lock takes more time than it saves."""

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


class _Second:
    """The second thread of the process; it is kept, because a start takes a millisecond, four times a training step."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="beside")


_second = _Second()


def _renew() -> None:
    global _second
    _second = _Second()


os.register_at_fork(after_in_child=_renew)


def side_by_side(works: Sequence[Callable[[], Result]], *, size: int) -> list[Result]:
    """Do one or two works without gradients, each with half of torch's threads where there are two or more.

    Two works with threads of their own need not wait for each other. Works that are too small for that are done one
    after the other, and so are all works while another thread uses the process's second thread: each with the same
    number of threads, so with the same bits.

    Args:
        works: none of which needs another's result.
        size: numbers that one step of a work computes.

    Returns:
        The results, in the order of the works.

    Raises:
        Exception: the exception of a work.
    """
    count = thread_count()
    if len(works) == 1 or count == 1:
        return [_without_gradients(work, count) for work in works]
    half, second = count // 2, _second
    with threads(half):
        if size < WORTH_A_THREAD or not second.turn.acquire(blocking=False):
            return [_without_gradients(works[0], half), _without_gradients(works[1], count - half)]
        try:
            other = second.pool.submit(_without_gradients, works[1], count - half)
            try:
                first = _without_gradients(works[0], half)
            finally:
                wait([other])  # after a failure of the first work too: no thread is left that still writes
            return [first, other.result()]
        finally:
            second.turn.release()


def spread(work: Callable[[Item], None], items: Iterable[Item], *, most: int | None = None) -> None:
    """Do a work without gradients for each item, as many at a time as torch has threads, each in one thread.

    Args:
        work: the work.
        items: the items; the order in which their works end is open.
        most: the most works at a time, where that is fewer.

    Raises:
        Exception: the exception of a work, the first in the order of the items.
    """

    def alone(item: Item) -> None:
        with torch.inference_mode():  # a thread's own setting
            work(item)

    items = list(items)
    count = min(thread_count(), len(items), len(items) if most is None else most)
    if count <= 1:
        with threads(1):
            for item in items:
                alone(item)
        return
    with pool(count) as workers:
        for _ in workers.map(alone, items):
            pass


def _without_gradients(work: Callable[[], Result], count: int) -> Result:
    """Do a work with a number of threads and no gradients, both of which are settings of the thread."""
    if torch.get_num_threads() != count:
        torch.set_num_threads(count)
    with torch.no_grad():
        return work()


class Adam(torch.optim.Adam):
    """:class:`torch.optim.Adam` with the same numbers, without torch's compiler, whose import takes a second.

    torch wraps some methods for ``torch.compile``, and the wrappers load the compiler whether it is used or not.
    """

    step = torch.no_grad()(unwrap(torch.optim.Adam.step))
    add_param_group = unwrap(Optimizer.add_param_group)
    zero_grad = unwrap(Optimizer.zero_grad)
    state_dict = unwrap(Optimizer.state_dict)
    load_state_dict = unwrap(Optimizer.load_state_dict)
