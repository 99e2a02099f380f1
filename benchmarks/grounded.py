"""The grounded space's costly parts against the published way, on the same batches from the same weights, in one run.

Text: a step of SkipThought at 2,048 states over words of 620 numbers, 20,000 words, batches of 128 triples, with Adam
and a clipped gradient. The published way (Bordes et al. 2019): sentences padded to 30 words, the logits of all places,
autograd through PyTorch's GRU, float32. Today's plain way: sentences padded to the batch's longest, the logits of real
words alone, fused Adam; in bfloat16 by autocast. Ours: what the stage skipthought does. The sentences are those of the
books where they are at hand, else drawn with the same lengths. Seconds are the processor's.

Structural measures: ``benchmarks/structure.py`` in a process of its own.

The last line is JSON: text_ratio and text_bf16_ratio (predicted words a second, times the published way),
text_plain_ratio and text_plain_bf16_ratio (times the plain way of the same precision),
loss_difference (the largest relative difference of a batch's loss, float32), output_mb (the most memory of the
output layer's loss besides its gradients), and structure_ratio, structure_difference and structure_mb of vectors of 512
numbers, with _2048 at the end of 2,048 numbers (not with --quick).
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import gzip
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the stages do

import numpy as np
import torch
from numpy.typing import NDArray
from peak import peak_flops
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_

from sightword.captions.normalise import Normalisation
from sightword.captions.vocabulary import Vocabulary
from sightword.compute.devices import has_bfloat16_units, keep_memory
from sightword.grounded.skipthought.batches import batches
from sightword.grounded.skipthought.network import SkipThought
from sightword.grounded.skipthought.output import output_loss
from sightword.grounded.skipthought.settings import SkipthoughtSettings
from sightword.grounded.skipthought.task import TextTask
from sightword.text.storage import Text

CPU = torch.device("cpu")
WORDS, PLACES = 20_000, 30
SENTENCES = 30_000
"""Sentences of the books that are read."""
HELD_OUT = 1_000
"""The last sentences, which no side reads."""
PER_MILLE = (
    *(17, 21, 30, 36, 42, 46, 47, 48, 47, 46, 45, 44, 42, 41, 39, 38),
    *(36, 35, 33, 32, 30, 29, 27, 26, 25, 23, 22, 21),
)
"""How many of a thousand sentences of the books have 1, 2, .. words."""


class Published(nn.Module):
    """SkipThought as it was published: padded sentences, and the logits of all places; or the ``plain`` way."""

    def __init__(self, ours: SkipThought, *, plain: bool = False) -> None:
        super().__init__()
        self.plain = plain
        settings = ours.settings
        self.embedding = nn.Embedding.from_pretrained(
            ours.captions.embedding.weight.detach().clone(), freeze=False, padding_idx=0
        )
        sides = {"encoder": ours.captions.recurrent.onward, **ours.decoders}
        self.layers = nn.ModuleDict(
            {name: nn.GRU(settings.embedding, settings.hidden, batch_first=True) for name in sides}
        )
        for name, layer in sides.items():
            self.layers[name].load_state_dict(layer.state_dict())
        self.output = nn.Linear(settings.hidden, WORDS)
        self.output.load_state_dict(ours.output.state_dict())

    def loss(self, text: Text, middles: NDArray[np.int64]) -> torch.Tensor:
        ids, lengths = padded(text, middles)
        if self.plain:
            ids = ids[:, : int(lengths.max())]
        states = self.layers["encoder"](self.embedding(ids))[0]
        vectors = states[torch.arange(len(ids)), lengths - 1]
        total = torch.zeros(())
        for name, step in (("previous", -1), ("next", 1)):
            targets, lengths = padded(text, middles + step)
            if self.plain:
                targets = targets[:, : int(lengths.max())]
            before = F.pad(targets[:, :-1], (1, 0))  # a zero vector first
            states = self.layers[name](self.embedding(before), vectors[None])[0]
            mask = torch.arange(targets.shape[1]) < lengths[:, None]
            if self.plain:
                logits = self.output(states[mask]).float()
                total = total + F.cross_entropy(logits, targets[mask], reduction="sum") / (len(targets) * PLACES)
                continue
            losses = F.cross_entropy(self.output(states).flatten(0, 1), targets.flatten(), reduction="none")
            total = total + (losses * mask.flatten()).mean()
        return total


def padded(text: Text, numbers: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids (B, 30), and lengths (B,)."""
    ids = np.zeros((len(numbers), PLACES), np.int64)
    rows = text.rows(numbers)
    for line, row in zip(ids, rows, strict=True):
        line[: len(row)] = row
    return torch.from_numpy(ids), torch.tensor([len(row) for row in rows])


def text_of(data: Path, sentences: int = SENTENCES) -> Text:
    """Return sentences of the books, or sentences with the same lengths and words by Zipf's law."""
    books = data / "books/sentences.txt.gz"
    vocabulary = Vocabulary.build([" ".join(f"w{number}" for number in range(WORDS - 2))], unit="word")
    if books.is_file():
        with gzip.open(books, "rt", encoding="utf-8") as file:
            lines = [line.strip() for line in itertools.islice(file, sentences)]
        own = Vocabulary.build(lines, normalise=Normalisation(case="lower"), unit="treebank", size=WORDS - 2)
        rows = [own.encode(line) for line in lines]
        passage = np.cumsum([not row for row in rows])
    else:
        print("no books here: sentences of the same lengths")
        random = np.random.default_rng(0)
        weights = np.array(PER_MILLE) / sum(PER_MILLE)
        lengths = random.choice(len(weights), sentences, p=weights) + 1
        ranks = 1 / np.arange(2, WORDS)
        drawn = random.choice(np.arange(2, WORDS), int(lengths.sum()), p=ranks / ranks.sum())
        rows = [part.tolist() for part in np.split(drawn, np.cumsum(lengths)[:-1])]
        passage = np.zeros(sentences, np.int64)
    return Text(
        vocabulary,
        np.array(list(itertools.chain.from_iterable(rows)), np.uint16),
        np.cumsum([0, *map(len, rows)]),
        passage.astype(np.int32),
        (np.arange(len(rows)) >= len(rows) - HELD_OUT).astype(np.uint8),
        max_tokens=PLACES,
    )


def published_step(
    run: TextTask, device: torch.device = CPU, *, plain: bool = False
) -> Callable[[NDArray[np.int64]], float]:
    """Return a step of the published or the plain way from the weights of a run: it trains, and returns the loss."""
    assert isinstance(run.network, SkipThought)
    network, settings = Published(run.network, plain=plain).to(device), run.settings
    optimiser = torch.optim.Adam(network.parameters(), lr=settings.rate, fused=plain)

    def step(middles: NDArray[np.int64]) -> float:
        with torch.autocast("cpu", torch.bfloat16, enabled=plain and settings.precision == "bf16"):
            loss = network.loss(run.text, middles)
        optimiser.zero_grad()
        loss.backward()
        clip_grad_norm_(network.parameters(), settings.clip)
        optimiser.step()
        return loss.item()

    return step


def our_step(run: TextTask) -> Callable[[NDArray[np.int64]], float]:
    return lambda middles: run.learn(middles, 0).item()


def operations(text: Text, middles: NDArray[np.int64], settings: SkipthoughtSettings) -> float:
    """Return the additions and multiplications of all products of a step, forwards and backwards."""
    hidden = settings.hidden
    targets = 0
    total = 0.0
    for step in (0, -1, 1):
        words = np.concatenate(text.rows(middles + step))
        total += 3 * 2.0 * 3 * hidden * (hidden * len(words) + settings.embedding * len(np.unique(words)))
        targets += len(words) if step else 0
    return total + 3 * 2.0 * targets * hidden * WORDS


def output_memory(lines: int, hidden: int) -> float:
    """Return the most memory of the output layer's loss in MB, besides its gradients, in float32 or bfloat16."""
    most = 0.0
    for dtype in (torch.float32, torch.bfloat16):
        states = torch.randn(lines, hidden).to(dtype).requires_grad_()
        weight, bias = torch.randn(WORDS, hidden).requires_grad_(), torch.zeros(WORDS).requires_grad_()
        targets, scale = torch.randint(WORDS, (lines,)), torch.ones(lines)
        kept = sum(leaf.numel() * leaf.element_size() for leaf in (states, weight, bias)) / 1e6
        output_loss(states[:9], weight, bias, targets[:9], scale[:9])  # loads what the first call loads
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # free memory would be taken again, and not be counted
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        before = status("VmRSS")
        loss = output_loss(states, weight, bias, targets, scale)
        most = max(most, status("VmHWM") - before - kept)
        del loss
    return most


def status(name: str) -> float:
    """Return a number of this process's memory in MB, as Linux counts it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(f"{name}:"))


def compare_text(text: Text, *, steps: int) -> dict[str, float | None]:
    """All sides in turn on each batch, so that they share a busy machine alike: medians of ratios of a batch."""
    keep_memory()  # as the stage does
    sides: dict[str, Callable[[NDArray[np.int64]], float]] = {}
    for precision in ("fp32", *(["bf16"] if has_bfloat16_units() else [])):
        settings = SkipthoughtSettings(precision=precision)
        run = TextTask(settings, text, CPU)
        if precision == "fp32":
            sides["published"] = published_step(run)
        sides["plain" if precision == "fp32" else "plain bf16"] = published_step(run, plain=True)
        sides[precision] = our_step(run)
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    shares: dict[str, list[float]] = {side: [] for side in sides}
    apart = []
    for number, middles in enumerate(itertools.islice(batches(text, settings, seed=0), steps)):
        losses = {}
        words = sum(map(len, text.rows(np.concatenate([middles - 1, middles + 1]))))
        for side, step in sides.items():
            started = time.process_time()
            losses[side] = step(middles)
            seconds[side].append(time.process_time() - started)
            shares[side].append(operations(text, middles, settings) / seconds[side][-1])
            rate = words / seconds[side][-1]
            print(
                f"batch {number + 1}: {side:10} {seconds[side][-1]:6.2f} s, {rate:6.0f} predicted words/s", flush=True
            )
        apart.append(abs(losses["published"] - losses["fp32"]) / abs(losses["published"]))
    for side in ("fp32", "bf16")[: len(sides) // 2]:
        peak, rate = peak_flops("bf16" if side == "bf16" else "fp32", CPU), statistics.median(shares[side])
        print(f"{side}: {rate / 1e9:.0f} of {peak / 1e9:.0f} GFLOP/s, {rate / peak:.2f} of the peak")

    def ratio(side: str, peer: str) -> float | None:
        if side not in sides:
            return None
        return round(statistics.median(np.divide(seconds[peer], seconds[side]).tolist()), 2)

    return {
        "text_ratio": ratio("fp32", "published"),
        "text_bf16_ratio": ratio("bf16", "published"),
        "text_plain_ratio": ratio("fp32", "plain"),
        "text_plain_bf16_ratio": ratio("bf16", "plain bf16"),
        "loss_difference": max(apart),
    }


def structure(*, quick: bool) -> dict[str, float]:
    """Return the numbers of ``benchmarks/structure.py``, which measures the memory of a whole process."""
    command = [sys.executable, str(Path(__file__).with_name("structure.py")), *(["--quick"] if quick else [])]
    *lines, last = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    print("\n".join(lines))
    by_width = json.loads(last)
    return {
        name if width == "512" else f"{name}_{width}": by_width[width][name]
        for width in by_width
        for name in by_width[width]
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = Path(os.environ.get("SIGHTWORD_TEST_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--data", type=Path, default=data, help="folder with books/sentences.txt.gz")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", action="store_true", help="fewer batches")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    found: dict[str, float | None] = {"output_mb": round(output_memory(3300, 2048), 1)}
    text = text_of(arguments.data)
    print(f"{len(text)} sentences, {len(text.triples(0))} triples, {arguments.threads} threads", flush=True)
    found |= compare_text(text, steps=2 if arguments.quick else 6)
    print(json.dumps(found | structure(quick=arguments.quick)))


if __name__ == "__main__":
    main()
