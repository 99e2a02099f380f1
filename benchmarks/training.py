"""Training against the published way and today's plain way, on the same batches from the same weights, in one run.

The published way: packed sequences through torch's bidirectional GRU, attention over the padded states, hinge loss,
float32. The plain way: the same over padded sequences, which torch computes faster, with its fused Adam; in bfloat16 by
its autocast. Ours: what the stage train does. Padding takes part in the attention of all (`train.mask_padding: false`),
so that the losses of the published way can be compared. All sides keep freed memory, as the stage does.

The last line is JSON, with processor seconds: ratio and bf16_ratio (captions a second, times the published way, at
batches of 100), the same with _32 at 32; plain_ratio and so on (times the plain way of the same precision),
loss_difference (largest over the first steps, float32), peak_share (useful operations over a large matrix product's).
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import common
import numpy as np
import torch
from torch import nn

from sightword.captions.vocabulary import Vocabulary
from sightword.compute.devices import has_bfloat16_units, keep_memory
from sightword.features.tables.pairs import Pairs
from sightword.model.encoders import Encoders, pad
from sightword.model.losses import hinge
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.task import CaptionTask, Data

FEATURES = 2048
TOKENS = 80
VOCABULARY = Vocabulary(tuple(map(chr, range(0x100, 0x100 + TOKENS - 2))))


class Published(nn.Module):
    """Captions and pictures as they were released: the scores of a batch."""

    def __init__(self, ours: Encoders, *, packed: bool) -> None:
        super().__init__()
        self.packed = packed
        self.captions = common.Published(ours.captions, packed=packed, masked=False)
        self.images = nn.Linear(FEATURES, ours.images.linear.out_features)
        self.images.load_state_dict(ours.images.linear.state_dict())

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        captions = self.captions(ids, lengths)
        return captions @ nn.functional.normalize(self.images(features.to(captions.device)), dim=1).T


def pairs_of(data: Path, count: int) -> Pairs:
    """Captions of different pictures, with random features."""
    ids = [np.array([2 + ord(c) % (TOKENS - 2) for c in text]) for text in common.captions(data, count)]
    features = np.random.default_rng(1).normal(size=(len(ids), FEATURES)).astype(np.float32)
    names = [f"{n:05d}" for n in range(len(ids))]
    return Pairs(names, features, [""] * len(ids), ids, np.zeros(len(ids), int), np.arange(len(ids)))


def settings(hidden: int, size: int, precision: str, cell: Literal["gru", "lstm"], seed: int = 0) -> TrainSettings:
    return TrainSettings(
        hidden=hidden, batch=size, epochs=4, mask_padding=False, clip_images=None, clip_captions=None,
        precision=precision, seed=seed, cell=cell,
    )  # fmt: skip


def torch_step(
    network: Published, pairs: Pairs, device: torch.device, *, bf16: bool
) -> Callable[[np.ndarray], torch.Tensor]:
    """A step of a user's own code: torch's autocast, its fused Adam beside padded rows; the loss is not waited for."""
    adam = torch.optim.Adam(network.parameters(), lr=1e-3, fused=not network.packed)

    def step(rows: np.ndarray) -> torch.Tensor:
        ids, lengths = pad([pairs.ids[row] for row in rows])
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            scores = network(ids, lengths, torch.from_numpy(pairs.features[rows])).float()
        loss = hinge(scores, torch.eye(len(rows), dtype=torch.bool, device=device), margin=0.2, reduction="mean")
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss.detach()

    return step


def sides_of(
    pairs: Pairs,
    hidden: int,
    size: int,
    cell: Literal["gru", "lstm"],
    device: torch.device,
    precisions: list[str],
    seed: int,
) -> dict[str, Callable[[np.ndarray], torch.Tensor]]:
    """A step of each side from the same weights, by its name: ``ours fp32``, ``packed fp32``, ``padded bf16``."""
    found: dict[str, Callable[[np.ndarray], torch.Tensor]] = {}
    for precision in precisions:
        run = CaptionTask(settings(hidden, size, precision, cell, seed), Data(pairs, None, VOCABULARY), device)
        peers = {way: Published(run.encoders, packed=way == "packed").to(device) for way in ("packed", "padded")}
        for way, network in peers.items():
            found[f"{way} {precision}"] = torch_step(network, pairs, device, bf16=precision == "bf16")
        run.encoders.train()
        found[f"ours {precision}"] = lambda rows, run=run: run.learn(rows, 1e-3, 0)
    return found


def compare(
    pairs: Pairs, size: int, hidden: int, rounds: int, steps: int, cell: Literal["gru", "lstm"]
) -> dict[str, float | None]:
    """All sides in turn on the same batches, the first of which warms up: medians of ratios."""
    precisions = ["fp32", "bf16"] if has_bfloat16_units() else ["fp32"]
    rates: dict[str, list[float]] = {}
    difference, random = 0.0, np.random.default_rng(2)
    for number in range(rounds):
        batches = [random.choice(len(pairs.ids), size, replace=False) for _ in range(steps + 1)]
        losses: dict[str, list[float]] = {}
        for side, step in sides_of(pairs, hidden, size, cell, torch.device("cpu"), precisions, number).items():
            losses[side] = [float(step(batches[0]))]  # the first step loads what the first call loads
            started = time.process_time()
            losses[side] += [float(step(rows)) for rows in batches[1:]]
            rates.setdefault(side, []).append(size * steps / (time.process_time() - started))
            print(f"batch {size:3}, round {number + 1}: {side:11} {rates[side][-1]:7.1f} captions/s", flush=True)
        difference = max(difference, *np.abs(np.subtract(losses["packed fp32"], losses["ours fp32"])).tolist())

    def ratio(side: str, peer: str) -> float | None:
        return round(statistics.median(np.divide(rates[side], rates[peer]).tolist()), 2) if side in rates else None

    return {
        "ratio": ratio("ours fp32", "packed fp32"), "bf16_ratio": ratio("ours bf16", "packed fp32"),
        "plain_ratio": ratio("ours fp32", "padded fp32"), "plain_bf16_ratio": ratio("ours bf16", "padded bf16"),
        "difference": difference, "captions": round(statistics.median(rates[f"ours {precisions[-1]}"]), 1),
    }  # fmt: skip


def flops_a_caption(pairs: Pairs, hidden: int) -> float:
    """Forward and backward (twice as much), over real characters: the recurrent layer and the attention."""
    characters = float(np.mean([len(ids) for ids in pairs.ids]))
    recurrent = 2 * 3 * hidden * (20 + hidden)  # two directions, three gates
    return 3 * 2 * (characters * (recurrent + 2 * 2 * hidden * 128) + FEATURES * 2 * hidden)


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--cell", choices=("gru", "lstm"), default="gru")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    quick, tiny = arguments.quick, arguments.tiny
    hidden, rounds = (16, 1) if tiny else (1024, 3 if quick else 5)
    pairs = pairs_of(arguments.data, 200 if tiny else 1000)
    keep_memory()
    large = compare(pairs, 100, hidden, rounds, 1 if tiny else 2 if quick else 4, arguments.cell)
    small = compare(pairs, 32, hidden, rounds, 1 if tiny else 4 if quick else 8, arguments.cell)
    result = {**large, **{f"{name}_32": value for name, value in small.items()}}
    result["loss_difference"] = max(result.pop("difference"), result.pop("difference_32"))
    if not tiny:
        peak = common.peak_flops("bf16" if large["bf16_ratio"] else "fp32", torch.device("cpu"))
        result["peak_share"] = round(flops_a_caption(pairs, hidden) * large["captions"] / peak, 3)
    print(json.dumps(result | {"threads": arguments.threads, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
