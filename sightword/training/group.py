"""Several processes of a training run, over torch.distributed: gloo on CPUs, NCCL on GPUs."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import NoReturn

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import Store
from torch.distributed.elastic.multiprocessing.errors import get_error_handler
from torch.distributed.rendezvous import rendezvous

from sightword.errors import RanksError, TrainingError
from sightword.machine import Place
from sightword.messages import first_line
from sightword.training.processes import Processes, Rows

log = logging.getLogger(__name__)

PATIENCE = timedelta(hours=1)
"""Longest time for which ranks wait for each other while all of them give signs of life."""
EVERY = 1.0
"""Seconds between two signs of life."""
MISSED = 30
"""Number of signs of life that a rank misses before the others give up."""
AGAIN = "The checkpoint is kept: the same command goes on from there."


class Group(Processes):
    """The ranks of a run, from :func:`group`."""

    def __init__(self, place: Place, store: Store, device: torch.device) -> None:
        self.place, self.store, self.device = place, store, device
        self.rank, self.count, self.first = place.rank, place.ranks, place.rank == 0
        self.machine = place.node

    def cut(self, rows: Rows) -> tuple[Rows, slice]:
        """Return the rows of a batch in the order of the ranks; rank r has every count-th one, from the r-th on.

        So the shares of a batch that is sorted by length take the same time. A small batch leaves some shares empty.
        """
        shares = [rows[rank :: self.count] for rank in range(self.count)]
        start = sum(map(len, shares[: self.rank]))
        return np.concatenate(shares), slice(start, start + len(shares[self.rank]))

    def seed(self, seed: int, step: int) -> None:
        """Seed torch for a batch: the random numbers depend on seed, batch and rank alone, not on earlier batches."""
        state = np.random.SeedSequence([seed, step, self.rank]).generate_state(1, np.uint64)
        torch.manual_seed(int(state[0]))

    def gather(self, own: torch.Tensor, size: int) -> torch.Tensor:
        """Return the vectors of a batch; shares are filled up to one size on the way only."""
        sizes = [len(range(rank, size, self.count)) for rank in range(self.count)]
        sent = torch.nn.functional.pad(own.detach(), (0, 0, 0, sizes[0] - len(own)))
        parts = [torch.empty_like(sent) for _ in sizes]
        with _connected():
            dist.all_gather(parts, sent)
        found = [part[:count] for part, count in zip(parts, sizes, strict=True)]
        found[self.rank] = own
        return torch.cat(found)

    def add_gradients(self, weights: Iterable[torch.nn.Parameter]) -> None:
        """Give each weight the sum of its gradients, added in the order of the ranks: always the same bits.

        Each rank adds up a part of all numbers and sends the sums to the others.
        """
        weights = list(weights)
        grads = [torch.zeros_like(one) if one.grad is None else one.grad for one in weights]
        flat = torch.cat([grad.reshape(-1) for grad in grads])
        each = -(-len(flat) // self.count)
        sent = torch.nn.functional.pad(flat, (0, each * self.count - len(flat)))
        parts = torch.empty_like(sent)
        with _connected():
            dist.all_to_all_single(parts, sent)
            total, *others = parts.view(self.count, each)
            for other in others:
                total += other
            dist.all_gather(list(sent.view(self.count, each)), total)
        sums = torch.split(sent[: len(flat)], [one.numel() for one in weights])
        for one, total in zip(weights, sums, strict=True):
            one.grad = total.view_as(one)

    def from_first(self, data: bytes) -> bytes:
        """Return the bytes of the first rank, in every rank."""
        size = torch.tensor([len(data)], device=self.device)
        with _connected():
            dist.broadcast(size, 0)
            body = torch.empty(int(size), dtype=torch.uint8, device=self.device)
            if self.first:
                body.copy_(torch.from_numpy(np.frombuffer(data, np.uint8).copy()))
            dist.broadcast(body, 0)
        return body.cpu().numpy().tobytes()

    def from_first_here(self, text: str) -> str:
        """Return the text of the first process of this machine, in every process there; one call in a run."""
        key = f"text/{self.machine}"
        if text:
            self.store.set(key, text)
        return str(self.store.get(key).decode())

    def wait(self) -> None:
        """Wait until all ranks are here."""
        with _connected():
            dist.barrier()


@contextlib.contextmanager
def group(place: Place, device: torch.device) -> Iterator[Group]:
    """Yield the ranks of this run, once all of them have come; the variables of torch's elastic launch name the place.

    Raises:
        RanksError: the others do not come.
    """
    with _connected():
        store = next(iter(rendezvous("env://", timeout=PATIENCE)))[0]
        backend, gpu = ("nccl", device) if device.type == "cuda" else ("gloo", None)
        dist.init_process_group(
            backend, store=store, rank=place.rank, world_size=place.ranks, timeout=PATIENCE, device_id=gpu
        )
    found = Group(place, store, device)
    signs = _Signs(place, store.clone())
    signs.show("begins")
    found.wait()
    signs.start()
    try:
        yield found
        found.wait()
    finally:
        signs.ended.set()
    signs.show("done")
    dist.destroy_process_group()


class _Signs(threading.Thread):
    """Gives signs of life, and ends this process when another one gives none: a stopped process holds up all others.

    Signs are counted, not timed: processes that were all suspended go on.
    """

    def __init__(self, place: Place, store: Store) -> None:
        super().__init__(daemon=True, name="signs of life")
        self.place, self.store, self.ended = place, store, threading.Event()
        self._launcher = os.getppid()

    def show(self, sign: str) -> None:
        self.store.set(f"sign/{self.place.rank}", sign)

    def run(self) -> None:
        keys = [f"sign/{rank}" for rank in range(self.place.ranks)]
        seen, missed, count = [b""] * len(keys), [0] * len(keys), 0
        while not self.ended.wait(EVERY):
            count += 1
            try:
                self.show(str(count))
                signs = self.store.multi_get(keys)
            except RuntimeError:  # the launcher, which has the store, is gone
                os._exit(1)
            if os.getppid() != self._launcher:
                os._exit(1)
            still = [now == last and now != b"done" for now, last in zip(signs, seen, strict=True)]
            missed = [number + 1 if same else 0 for number, same in zip(missed, still, strict=True)]
            seen = signs
            silent = [rank for rank, number in enumerate(missed) if number >= MISSED]
            if silent and not self.ended.is_set():
                self._give_up(silent)

    def _give_up(self, silent: Sequence[int]) -> NoReturn:
        what = f"process {silent[0] + 1} of {self.place.ranks} has given no sign of life for {MISSED * EVERY:.0f} s"
        error = TrainingError(what, todo=f"The others were ended. {AGAIN}")
        speaker = next(rank for rank in range(self.place.ranks) if rank not in silent)
        if self.place.rank == speaker and not self.place.launcher_speaks:
            logging.disable(logging.NOTSET)
            log.error("train: %s", error)
        get_error_handler().record_exception(error)
        os._exit(1)


@contextlib.contextmanager
def _connected() -> Iterator[None]:
    """Turn torch's errors of communication into one that speaks to the user."""
    try:
        yield
    except RuntimeError as error:
        what = f"the connection to the other processes of this run broke ({first_line(error)})"
        raise RanksError(what, todo=AGAIN) from None
