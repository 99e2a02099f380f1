"""Embed many captions or pictures, without gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from tqdm import tqdm

from pipeline.model.encoders import Encoders, pad

Floats = npt.NDArray[np.float32]


def embed_captions(
    encoders: Encoders, rows: Sequence[npt.NDArray[np.int64]], *, batch: int = 256, progress: bool = False
) -> Floats:
    """Token ids of M captions to unit vectors float32 (M, width), in the order given.

    The longest rows go first, in batches of rows of like length: little padding, and
    too little memory is found out at once.
    """
    order = np.argsort([-len(row) for row in rows], kind="stable")
    found: Floats | None = None
    with torch.inference_mode(), _evaluating(encoders):
        starts = range(0, len(order), batch)
        for start in tqdm(starts, desc="encode", unit="batch", leave=False, disable=None if progress else True):
            places = order[start : start + batch]
            ids, lengths = pad([rows[place] for place in places])
            vectors = encoders.captions(ids.to(encoders.device), lengths.to(encoders.device)).cpu().numpy()
            if found is None:
                found = np.empty((len(rows), vectors.shape[1]), np.float32)
            found[places] = vectors
    return found if found is not None else np.empty((0, encoders.width), np.float32)


def embed_images(encoders: Encoders, features: Floats, *, batch: int = 4096) -> Floats:
    """Raw features (N, D) to unit vectors float32 (N, width)."""
    found = np.empty((len(features), encoders.width), np.float32)
    with torch.inference_mode(), _evaluating(encoders):
        for start in range(0, len(features), batch):
            rows = slice(start, start + batch)
            part = torch.from_numpy(np.ascontiguousarray(features[rows], np.float32))
            found[rows] = encoders.images(part.to(encoders.device)).cpu().numpy()
    return found


@contextlib.contextmanager
def _evaluating(module: torch.nn.Module) -> Iterator[None]:
    """Put a module in evaluation mode, and back into the one it was in."""
    before = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(before)
