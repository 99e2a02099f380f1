"""Runs the network: uint8 pictures in, the means of their crops' features out; crops are cut on the device."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue

import numpy as np
import numpy.typing as npt
import torch
from torch import fx, nn

from sightword.compute import devices
from sightword.errors import FeaturesError
from sightword.features.fusion import ready
from sightword.features.identity import Transform
from sightword.features.networks import FeatureNetwork
from sightword.features.openvino import OpenVinoNetwork
from sightword.features.settings import Crops, Precision
from sightword.images.encoding import Pixels

CROPS: dict[Crops, int] = {"ten": 10, "five": 5, "one": 1}
"""The number of crops of each choice."""
CROPS_A_CALL = {"cpu": 1, "cuda": 320}
"""Crops in a call of the network, at least those of one picture. The number is fixed for a kind of device, and short
calls are filled up: for another shape a library may choose another kernel, which gives other last bits."""
CALLS_AHEAD = 2
"""Calls whose pictures are read while other calls are computed."""
RECORDED = {"torch", "torchvision", "timm", "sightword"}
"""The packages whose modules do not wait for a GPU's result, which no recording can hold. A recording that fails
leaves torch 2.11 without a way to give memory back, so none is tried on other modules."""

Features = npt.NDArray[np.float32]


@dataclass
class Clock:
    """The speed of an extraction: times in seconds; reading, computing and writing run side by side."""

    read: float = 0.0
    """Waiting for pictures."""
    infer: float = 0.0
    """Computing, as the mean of the computing threads."""
    write: float = 0.0
    """Writing to the store."""
    wall: float = 0.0
    """The whole time."""
    pictures: int = 0


class Extractor:
    """A network, ready on a device; the given network is changed. The times are added to ``clock``.

    On a CPU each picture is one call in one of the ``threads``: their number cannot change a bit of the result.
    """

    def __init__(
        self,
        network: FeatureNetwork,
        transform: Transform,
        *,
        precision: Precision,
        device: torch.device,
        threads: int = 1,
        use_openvino: bool = False,
    ) -> None:
        self.dimension, self.transform, self.precision, self.device = network.dimension, transform, precision, device
        self.clock = Clock()
        self._count = CROPS[transform.crops]
        self._pictures = max(CROPS_A_CALL[device.type] // self._count, 1)
        # On a GPU a second thread prepares the next call while the first waits for its result.
        self._threads = threads if device.type == "cpu" else 2
        self._mean, self._std = (
            torch.tensor(values, dtype=torch.float32, device=device) for values in (transform.mean, transform.std)
        )
        shape = (self._pictures * self._count, transform.crop, transform.crop, 3)
        known = {type(module).__module__.partition(".")[0] for module in network.modules()} <= RECORDED
        if use_openvino:
            self._network: nn.Module = OpenVinoNetwork(network, shape, precision, self._threads)
        else:
            self._network = ready(network, precision=precision, device=device)
        self._free: SimpleQueue[_Buffer] = SimpleQueue()
        with _exactly(), devices.threads(1), self._memory():
            buffers = [_Buffer(shape, device) for _ in range(self._threads)]
            if device.type == "cuda" and precision == "bf16" and known and isinstance(self._network, fx.GraphModule):
                for buffer in buffers:
                    self._record(buffer)
            for buffer in buffers:
                self._free.put(buffer)
            self._compute([])  # lays the weights out before several threads use them

    def run(self, pictures: Iterable[Pixels]) -> Generator[Features, None, None]:
        """Yield the features of pictures, float32 (D,), in the given order; no picture changes another's features.

        Pictures are uint8 (height, width, 3), no side smaller than a crop, and are read a few calls ahead.
        FeaturesError: a feature is not finite.
        """
        source = iter(pictures)
        running: deque[Future[tuple[Features, float]]] = deque()
        begun, busy = time.perf_counter(), 0.0
        with _exactly(), devices.threads(1), devices.pool(self._threads) as workers:
            try:
                while True:
                    started = time.perf_counter()
                    call = list(itertools.islice(source, self._pictures))
                    self.clock.read += time.perf_counter() - started
                    if call:
                        running.append(workers.submit(self._timed, call))
                    while running and (not call or len(running) >= self._threads + CALLS_AHEAD):
                        features, seconds = running.popleft().result()
                        busy += seconds
                        self.clock.pictures += len(features)
                        self.clock.infer = busy / self._threads
                        yield from features
                    self.clock.wall = time.perf_counter() - begun
                    if not call:
                        return
            finally:
                for future in running:
                    future.cancel()

    def _timed(self, pictures: list[Pixels]) -> tuple[Features, float]:
        started = time.perf_counter()
        with self._memory():
            return self._compute(pictures), time.perf_counter() - started

    @contextlib.contextmanager
    def _memory(self) -> Iterator[None]:
        """Tell a lack of memory within a block as a FeaturesError."""
        try:
            yield
        except RuntimeError as error:
            # The end of a recording that had not enough memory raises another error.
            if not any(isinstance(one, torch.OutOfMemoryError) for one in (error, error.__context__)):
                raise
            what = f"not enough memory on {self.device} for {self._pictures} pictures a call"
            todo = "Free memory there, or take another device (SIGHTWORD_DEVICE)."
            raise FeaturesError(what, todo=todo) from None

    @torch.inference_mode()
    def _compute(self, pictures: list[Pixels]) -> Features:
        """Return the features (B, D) of the pictures of a call, at most as many as a call has."""
        buffer = self._free.get()
        try:
            with torch.cuda.stream(buffer.stream) if buffer.stream else contextlib.nullcontext():
                self._fill(buffer.crops, pictures)
                if buffer.recording:
                    graph, found = buffer.recording
                    graph.replay()
                else:
                    found = self._features(buffer.crops)
                features: Features = found[: len(pictures)].cpu().numpy()
        finally:
            self._free.put(buffer)
        if not np.isfinite(features).all():
            raise FeaturesError("the network gave features that are not finite", todo="Are these the right weights?")
        return features

    @torch.inference_mode()
    def _record(self, buffer: _Buffer) -> None:
        """Record the kernels of a call as a CUDA graph: the host starts kernels one by one more slowly than they run.

        The recording keeps the memory of a call, as does torch for the stream of a buffer without one.
        """
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(buffer.stream):
            self._features(buffer.crops)  # chooses and compiles the kernels
            # Other threads may take memory meanwhile.
            with torch.cuda.graph(graph, stream=buffer.stream, capture_error_mode="thread_local"):
                features = self._features(buffer.crops)
        buffer.recording = graph, features

    def _fill(self, crops: torch.Tensor, pictures: list[Pixels]) -> None:
        """Write the normalised crops of pictures; the rest is 0."""
        count = len(pictures) * self._count
        crops[count:].zero_()
        if not pictures:
            return
        # From page-locked memory a copy to a GPU runs beside the work of the other stream.
        memory, sizes = self.device.type == "cuda", [picture.shape[:2] for picture in pictures]
        pixels = torch.empty((sum(map(math.prod, sizes)), 3), dtype=torch.uint8, pin_memory=memory)
        np.concatenate([picture.reshape(-1, 3) for picture in pictures], out=pixels.numpy())
        places = positions(sizes, crops.shape[1], self.transform.crops)
        places = places.pin_memory() if memory else places
        pixels, places = (part.to(self.device, non_blocking=True) for part in (pixels, places))
        cut(normalise(pixels, self._mean, self._std), places, crops[:count])

    def _features(self, crops: torch.Tensor) -> torch.Tensor:
        """Return the features, float32 (B, D), of all crops of a call."""
        # All threads share the cache of weights, and no stream waits for what another one rounds.
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16", cache_enabled=False):
            found = self._network(crops.permute(0, 3, 1, 2))  # (B * crops, D)
        found = found.flatten(1).to(torch.float32)
        if self.transform.relu:
            found = found.relu()
        mean = found.unflatten(0, (self._pictures, self._count)).mean(dim=1)
        return nn.functional.normalize(mean, dim=1) if self.transform.l2 else mean


class _Buffer:
    """The memory of a call's crops and, on a GPU, a stream: the calls of two of them run side by side."""

    def __init__(self, shape: Sequence[int], device: torch.device) -> None:
        self.crops = torch.zeros(shape, device=device)
        self.stream: torch.cuda.Stream | None = None
        self.recording: tuple[torch.cuda.CUDAGraph, torch.Tensor] | None = None
        """The kernels from the crops to the features, and the features."""
        if device.type == "cuda":
            torch.cuda.synchronize(device)  # the weights are there
            self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch does not annotate it


@devices.shared
def _exactly() -> Iterator[None]:
    """Set full float32 products (no TF32) and repeatable kernels; restore all settings except the workspace's."""
    products, strict = torch.get_float32_matmul_precision(), torch.get_deterministic_debug_mode()
    filled = devices.fill_new_tensors(False)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts
    flags = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False)
    try:
        with flags:
            torch.set_float32_matmul_precision("highest")
            torch.set_deterministic_debug_mode("error")  # see `sightword.compute.devices`
            yield
    finally:
        devices.fill_new_tensors(filled)
        torch.set_float32_matmul_precision(products)
        torch.set_deterministic_debug_mode(strict)


def corners(height: int, width: int, crop: int, crops: Crops) -> list[tuple[int, int]]:
    """Return top and left of each crop, in torchvision's order: the four corners, then the centre.

    The centre is rounded as in torchvision's ``CenterCrop``: half to even.
    """
    bottom, right = height - crop, width - crop
    centre = (round(bottom / 2.0), round(right / 2.0))
    return [centre] if crops == "one" else [(0, 0), (0, right), (bottom, 0), (bottom, right), centre]


def normalise(pixels: torch.Tensor, mean: torch.Tensor, std: torch.Tensor) -> torch.Tensor:
    """Return ``(pixel / 255 - mean) / std``, float32, of uint8 pixels (.., 3); mean and deviation are float32 (3,)."""
    return pixels.to(torch.float32).div_(255).sub_(mean).div_(std)


def positions(sizes: Iterable[tuple[int, int]], crop: int, crops: Crops) -> torch.Tensor:
    """Return the places of the crops of pictures (height, width) in the row of all their pixels, int64 (3, crops).

    The three numbers of a crop are its first pixel, the step from a line to the next, and the step from a pixel to the
    next, which is -1 in a mirrored picture. Ten crops are the five, then the five of the mirrored picture.
    """
    found, start = [], 0
    for height, width in sizes:
        origins = corners(height, width, crop, crops)
        found += [(start + top * width + left, width, 1) for top, left in origins]
        if crops == "ten":  # the mirrored picture is cut anew: at odd widths its centre is not the mirrored centre crop
            found += [(start + (top + 1) * width - 1 - left, width, -1) for top, left in origins]
        start += height * width
    return torch.tensor(found, dtype=torch.int64).reshape(-1, 3).T.contiguous()


def cut(pixels: torch.Tensor, places: torch.Tensor, out: torch.Tensor) -> None:
    """Copy the crops at :func:`positions` from pixels (P, 3) into ``out`` (number of crops, crop, crop, 3)."""
    steps = torch.arange(out.shape[1], device=out.device)
    first, down, right = places[..., None, None]
    wanted = first + down * steps[:, None] + right * steps
    torch.index_select(pixels, 0, wanted.flatten(), out=out.view(-1, 3))
