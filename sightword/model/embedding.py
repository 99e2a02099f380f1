"""Embed many captions or pictures, without gradients."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from sightword.compute.devices import has_bfloat16_units, shared, thread_count
from sightword.compute.threads import spread
from sightword.model.encoders import CaptionEncoder, ImageEncoder
from sightword.model.ngrams import NGrams

log = logging.getLogger(__name__)

Floats = npt.NDArray[np.float32]
Precision = Literal["fp32", "bf16"]

MOST_TOKENS = 1 << 17
"""Tokens and padding of one batch with several rows; bounds the memory to some GB with 2,048 numbers a state. 256
captions of 512 characters reach the limit."""
MOST_TOGETHER = 1 << 19
"""Tokens and padding of the batches that are computed side by side."""
WORTH_IT = 4
"""Batches side by side that are as fast as any number of threads within a batch, by Amdahl's law: within a batch a
second thread made 1,024 states 1.3 to 1.6 times as fast, and fewer states less."""


def embed_captions(
    captions: CaptionEncoder,
    rows: Sequence[npt.NDArray[np.int64]],
    *,
    batch: int = 256,
    precision: Precision = "fp32",
    progress: bool = False,
) -> Floats:
    """Map the token ids of M captions to the vectors float32 (M, width) of a caption side, in the order given.

    With ``bf16`` the recurrent layer and the attention compute in bfloat16, as in training; n-grams have neither. Equal
    captions are embedded once, so that they have equal bits and tie wherever they are compared. The longest captions go
    first, in batches of similar length: this saves padding, and a lack of memory shows at once.

    On a CPU batches are computed side by side, each in one thread, which saves more time than threads within a small
    batch: at most one for each thread, and no more than :data:`MOST_TOGETHER` allows. If these are fewer than the
    threads and than :data:`WORTH_IT`, batches follow each other, each in all threads.
    """
    row_of: dict[bytes, int] = {}
    places_of = [row_of.setdefault(row.tobytes(), len(row_of)) for row in rows]
    rows = [np.frombuffer(data, np.int64) for data in row_of]
    order = np.argsort([-len(row) for row in rows], kind="stable")
    found = np.empty((len(rows), captions.width), np.float32)
    device = captions.embedding.weight.device
    lengths = [len(rows[place]) for place in order]
    batches = _batches(lengths, batch)
    recurrent = not isinstance(captions.embedding, NGrams)
    if precision == "bf16" and recurrent and device.type == "cpu" and not has_bfloat16_units():
        warn_slow()
    with _evaluating(captions), true_float32(device), _bar(len(batches), shown=progress) as count:

        def work(part: slice) -> None:
            # Autocast is a thread's own setting.
            with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
                found[order[part]] = captions.embed([rows[place] for place in order[part]]).cpu().numpy()
            count()

        threads = thread_count() if device.type == "cpu" else 1
        largest = max((lengths[part.start] * (part.stop - part.start) for part in batches), default=1)
        together = min(threads, len(batches), MOST_TOGETHER // max(1, largest))
        if 1 < min(threads, WORTH_IT) <= together:
            spread(work, batches, most=together)
        else:
            with torch.inference_mode():
                for part in batches:
                    work(part)
    return found if len(found) == len(places_of) else found[places_of]


@functools.cache  # once in a process
def warn_slow() -> None:
    """Log that this CPU may be slow in bfloat16."""
    log.warning("this CPU has no units for bfloat16 that PyTorch knows of: encoding may be slower than in float32")


def embed_images(images: ImageEncoder, features: Floats, *, batch: int = 1024) -> Floats:
    """Map raw features (N, D) to unit vectors float32 (N, width).

    On a CPU, batches are computed in parallel, each in one thread: a product shared by threads has other last bits.
    """
    found = np.empty((len(features), images.linear.out_features), np.float32)
    device = images.linear.weight.device

    def work(start: int) -> None:
        rows = slice(start, start + batch)
        part = torch.from_numpy(np.require(features[rows], np.float32, ["C", "W"]))
        found[rows] = images(part.to(device)).cpu().numpy()

    starts = range(0, len(features), batch)
    with torch.inference_mode(), _evaluating(images):
        if device.type == "cpu":
            spread(work, starts)
        else:
            for start in starts:
                work(start)
    return found


def _batches(lengths: Sequence[int], most: int) -> list[slice]:
    """Cut rows, sorted by falling length, into batches of at most ``most`` rows and :data:`MOST_TOKENS` tokens."""
    found, start = [], 0
    while start < len(lengths):
        size = min(most, max(1, MOST_TOKENS // max(1, lengths[start])))
        found.append(slice(start, start + size))
        start += size
    return found


@contextlib.contextmanager
def _bar(batches: int, *, shown: bool) -> Iterator[Callable[[], object]]:
    """Show a progress bar on a terminal, if tqdm is installed, and give the function that counts a batch."""
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        shown = False
    if not shown:
        yield lambda: None
        return
    with tqdm(total=batches, desc="encode", unit="batch", leave=False, disable=None) as bar:
        yield bar.update


@contextlib.contextmanager
def _evaluating(module: torch.nn.Module) -> Iterator[None]:
    """Put a module that is in training mode into evaluation mode for a block."""
    training = module.training
    if training:
        module.eval()
    try:
        yield
    finally:
        if training:
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
    """Switch off TF32 in cuDNN's recurrent layers for a block, on a GPU.

    With TF32, cuDNN's default, an embedding depends on its batch in the fourth digit.
    """
    return _no_tf32() if device.type == "cuda" else contextlib.nullcontext()
