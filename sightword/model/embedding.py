"""Embed many captions or pictures, without gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch

from sightword.devices import shared
from sightword.model.encoders import Encoders, pad
from sightword.model.threads import spread

Floats = npt.NDArray[np.float32]

MOST_TOKENS = 1 << 17
"""Tokens and padding of one batch, unless it is a single row: what bounds the memory, some GB with 2,048 numbers a
state. 256 captions of 512 characters reach it."""


def embed_captions(
    encoders: Encoders, rows: Sequence[npt.NDArray[np.int64]], *, batch: int = 256, progress: bool = False
) -> Floats:
    """Token ids of M captions to unit vectors float32 (M, width), in the order given.

    Equal captions are embedded once, so that they have equal bits and tie wherever they are compared. The longest
    captions go first, in batches of similar length: this saves padding, and a lack of memory shows at once.
    """
    row_of: dict[bytes, int] = {}
    places_of = [row_of.setdefault(row.tobytes(), len(row_of)) for row in rows]
    rows = [np.frombuffer(data, np.int64) for data in row_of]
    order = np.argsort([-len(row) for row in rows], kind="stable")
    found: Floats | None = None
    with torch.inference_mode(), _evaluating(encoders), true_float32(encoders.device):
        batches = _batches([len(rows[place]) for place in order], batch)
        for part in _with_progress(batches) if progress else batches:
            places = order[part]
            ids, lengths = pad([rows[place] for place in places])
            vectors = encoders.captions(ids.to(encoders.device), lengths.to(encoders.device)).cpu().numpy()
            if found is None:
                found = np.empty((len(rows), vectors.shape[1]), np.float32)
            found[places] = vectors
    return found[places_of] if found is not None else np.empty((0, encoders.width), np.float32)


def embed_images(encoders: Encoders, features: Floats, *, batch: int = 1024) -> Floats:
    """Raw features (N, D) to unit vectors float32 (N, width).

    On a processor batches are computed side by side, each in one thread. Several threads that share one product
    would give other last bits.
    """
    found = np.empty((len(features), encoders.width), np.float32)

    def work(start: int) -> None:
        rows = slice(start, start + batch)
        part = torch.from_numpy(np.require(features[rows], np.float32, ["C", "W"]))
        found[rows] = encoders.images(part.to(encoders.device)).cpu().numpy()

    starts = range(0, len(features), batch)
    with torch.inference_mode(), _evaluating(encoders):
        if encoders.device.type == "cpu":
            spread(work, starts)
        else:
            for start in starts:
                work(start)
    return found


def _batches(lengths: Sequence[int], most: int) -> list[slice]:
    """Parts of rows that are sorted by falling length: at most so many rows, and so much text as fits."""
    found, start = [], 0
    while start < len(lengths):
        size = min(most, max(1, MOST_TOKENS // max(1, lengths[start])))
        found.append(slice(start, start + size))
        start += size
    return found


def _with_progress(batches: Sequence[slice]) -> Iterable[slice]:
    """The batches with a bar on a terminal; without one where the library that draws it is not installed."""
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        return batches
    return tqdm(batches, desc="encode", unit="batch", leave=False, disable=None)


@contextlib.contextmanager
def _evaluating(module: torch.nn.Module) -> Iterator[None]:
    """Put a module in evaluation mode, and back into the one it was in; one that is in it is not touched."""
    if not module.training:
        yield
        return
    module.eval()
    try:
        yield
    finally:
        module.train()


@shared
def _no_tf32() -> Iterator[None]:
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


def true_float32(device: torch.device) -> contextlib.AbstractContextManager[None]:
    """Recurrent layers in true float32 on a GPU, where cuDNN would round its products to TF32 by default.

    With TF32 an embedding would depend on its batch in the fourth digit. On a processor nothing is set.
    """
    return _no_tf32() if device.type == "cuda" else contextlib.nullcontext()
