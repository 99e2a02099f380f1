"""Hypernyms against PyTorch on one thread: the released way, dense gradients and plain Adam over the whole table; and
today's plain way, an embedding with sparse gradients and SparseAdam, which leaves the other rows as they are.

Measured: the closure; the pairs a second of training in batches of 1000, with drawing the corrupted pairs; the largest
difference of the weights after 200 steps in float64 with epsilon 1e-30. The last line is JSON.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import common
import numpy as np
import torch
from torch.nn import functional as F

from sightword.hypernyms.data.pairs import ConceptPairs
from sightword.hypernyms.data.taxonomy import closure, read_scenes, read_wordnet
from sightword.hypernyms.settings import EmbedSettings
from sightword.hypernyms.training.optimisers import LazyAdam, sums
from sightword.hypernyms.training.task import ConceptsTask


def by_torch(pairs: ConceptPairs, concepts: int, batches: int, *, sparse: bool) -> float:
    """Train the released way or the plain way, and return the seconds."""
    random = np.random.default_rng(0)
    vectors = torch.from_numpy(random.standard_normal((concepts, 50), np.float32)).requires_grad_()
    optimiser = (torch.optim.SparseAdam if sparse else torch.optim.Adam)([vectors], lr=0.01)
    order = random.permutation(len(pairs.labels))
    started = time.process_time()
    for place in range(batches):
        rows = order[place * 500 % (len(order) - 500) :][:500]
        low, high = pairs.hyponyms[rows], pairs.hypernyms[rows]
        side, other = random.integers(0, 2, 500) == 0, random.integers(0, concepts, 500)
        low, high = np.append(low, np.where(side, other, low)), np.append(high, np.where(side, high, other))
        if sparse:
            both = F.embedding(torch.from_numpy(np.stack([high, low])), vectors, sparse=True).clamp(min=0)
        else:
            with torch.no_grad():
                vectors.clamp_(min=0)
            both = torch.stack([vectors[high], vectors[low]])
        energies = (both[0] - both[1]).clamp(min=0).square().sum(1)
        loss = torch.cat([energies[:500], (1 - energies[500:]).clamp(min=0)]).mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
    return time.process_time() - started


def ours(pairs: ConceptPairs, concepts: int, batches: int) -> float:
    """Train our way, and return the seconds."""
    settings = EmbedSettings(epochs=-(-batches * 500 // len(pairs.labels)))
    run = ConceptsTask(settings, pairs, None, concepts)
    started = time.process_time()
    for number in range(batches):
        run.step(number)
    return time.process_time() - started


def difference(pairs: ConceptPairs, concepts: int, steps: int = 200) -> float:
    """Return the largest difference of the weights after some steps on equal batches, float64, epsilon 1e-30."""
    used = min(concepts, 3000)
    random = np.random.default_rng(0)
    start = random.standard_normal((used, 10))
    table = LazyAdam(start, 0.01, steps, epsilon=1e-30, nonnegative=True)
    dense = torch.from_numpy(start.clip(0)).requires_grad_()
    optimiser = torch.optim.Adam([dense], lr=0.01, eps=1e-30)
    model = EmbedSettings()
    energy = ConceptsTask(model, pairs, None, concepts).energy
    for _ in range(steps):
        low, high = random.integers(0, used, (2, 100))
        energies = (dense[high] - dense[low]).clamp(min=0).square().sum(1)
        optimiser.zero_grad(set_to_none=True)
        torch.cat([energies[:50], (1 - energies[50:]).clamp(min=0)]).mean().backward()
        optimiser.step()
        dense.data.clamp_(min=0)
        found = energy.gradients(table.rows(low), table.rows(high), {})
        rows = np.append(low[found.rows], high[found.rows])
        ids, gradients, _ = sums(rows, np.concatenate([found.low, found.high]))
        table.step(ids, gradients, table.rows(ids))
    return float(np.abs(dense.detach().numpy() - table.rows(slice(None))).max())


def timed(work: Callable[[], object]) -> float:
    """Return the processor seconds of a work."""
    started = time.process_time()
    work()
    return time.process_time() - started


def main() -> None:
    arguments = common.parser(__doc__).parse_args()
    torch.set_num_threads(1)
    both = ("hypernym", "instance_hypernym")
    wordnet = arguments.data / "wordnet"
    at_hand = wordnet.is_dir() and not arguments.tiny
    sample = Path(__file__).parents[1] / "data/raw/sample"
    taxonomy = read_wordnet(wordnet, both) if at_hand else read_scenes(sample)
    count = len(taxonomy.names)
    closed = min(timed(lambda: closure(taxonomy)) for _ in range(3))
    low, high = closure(taxonomy)
    true = np.ones(len(low), bool)
    pairs = ConceptPairs(low, high, true, true, true.astype(np.int8))
    print(f"{count} concepts, {len(low)} pairs, closure in {closed:.2f} s", flush=True)
    few, many = (2, 20) if arguments.tiny else (40, 1500) if arguments.quick else (300, 15_000)
    rates: dict[str, list[float]] = {"released": [], "plain": [], "ours": []}
    for _ in range(2 if arguments.quick else 5):
        rates["released"].append(few * 1000 / by_torch(pairs, count, few, sparse=False))
        rates["plain"].append(10 * few * 1000 / by_torch(pairs, count, 10 * few, sparse=True))
        rates["ours"].append(many * 1000 / ours(pairs, count, many))
    ratios = {peer: np.divide(rates["ours"], rates[peer]).tolist() for peer in ("released", "plain")}
    print({side: [round(rate) for rate in found] for side, found in rates.items()}, "pairs/s", flush=True)
    apart = difference(pairs, count, 20 if arguments.tiny else 200)
    print(f"largest difference of the weights {apart:.1e}", flush=True)
    print(
        json.dumps(
            {
                "pairs_ratio": round(statistics.median(ratios["released"]), 1),
                "plain_ratio": round(statistics.median(ratios["plain"]), 2),
                "weights_difference": apart,
                "pairs_a_second": round(max(rates["ours"])),
                "closure_seconds": round(closed, 2),
            }
        )
    )


if __name__ == "__main__":
    main()
