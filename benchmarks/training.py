"""Training against the published way and today's plain way, on the same batches from the same weights, in one run.

The published way: packed sequences through torch's bidirectional GRU, attention over the
padded states, hinge loss, float32. The plain way: the same over padded sequences, which torch
computes faster, with its fused Adam; in bfloat16 by its autocast. Ours: what the stage train
does. Padding takes part in the attention of all (`train.mask_padding: false`), so that the
losses of the published way can be compared. All sides keep freed memory, as the stage does.
Captions are those of Flickr8k where they are at hand, else random ones of their lengths.

The last line is JSON, with processor seconds: ratio and bf16_ratio (captions a second, times the
published way, at batches of 100), ratio_32 and bf16_ratio_32 (at 32), plain_ratio, plain_bf16_ratio
and so on (times the plain way of the same precision), loss_difference (largest over the first
steps, float32), peak_share (useful operations over the best of large matrix products).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Literal

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the stages do

import numpy as np
import torch
from peak import peak_flops
from torch import nn

from sightword.compute.devices import has_bfloat16_units, keep_memory
from sightword.features.tables.pairs import Pairs
from sightword.model.encoders import Encoders, pad
from sightword.model.losses import hinge
from sightword.vse.training.settings import TrainSettings
from sightword.vse.training.task import CaptionTask

FEATURES = 2048
TOKENS = 80


class Published(nn.Module):
    """The caption side as it was released: packed sequences, attention over padding too; or with padded sequences."""

    def __init__(self, ours: Encoders, hidden: int, *, packed: bool = True) -> None:
        super().__init__()
        self.packed = packed
        captions = ours.captions
        self.embedding = nn.Embedding.from_pretrained(captions.embedding.weight.detach().clone(), freeze=False)
        kind = nn.LSTM if captions.recurrent.cell == "lstm" else nn.GRU
        self.layer = kind(captions.embedding.embedding_dim, hidden, batch_first=True, bidirectional=True)
        for name, value in captions.recurrent.onward.named_parameters():
            getattr(self.layer, name).data.copy_(value)
        for name, value in captions.recurrent.backward_.named_parameters():
            getattr(self.layer, f"{name}_reverse").data.copy_(value)
        width = 2 * hidden
        self.hidden = nn.Linear(width, captions.pooling.hidden.out_features)
        self.out = nn.Linear(captions.pooling.hidden.out_features, width)
        self.hidden.load_state_dict(captions.pooling.hidden.state_dict())
        self.out.load_state_dict(captions.pooling.out.state_dict())
        self.images = nn.Linear(FEATURES, width)
        self.images.load_state_dict(ours.images.linear.state_dict())

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        embedded = self.embedding(ids.to(self.out.weight.device))
        if self.packed:
            packed = nn.utils.rnn.pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
            states, _ = nn.utils.rnn.pad_packed_sequence(self.layer(packed)[0], batch_first=True)
        else:
            states = self.layer(embedded)[0]
        weights = torch.softmax(self.out(torch.tanh(self.hidden(states))), dim=1)
        captions = nn.functional.normalize((weights * states).sum(dim=1), dim=1)
        return captions @ nn.functional.normalize(self.images(features.to(captions.device)), dim=1).T


def texts(data: Path, count: int) -> list[np.ndarray]:
    """Ids of as many captions, of different pictures."""
    file = data / "flickr8k/Flickr8k.token.txt"
    random = np.random.default_rng(0)
    if file.is_file():
        lines = [line.split("\t")[1] for line in file.read_text().splitlines()[::5]]
        return [
            np.array([2 + ord(c) % (TOKENS - 2) for c in lines[row]]) for row in random.permutation(len(lines))[:count]
        ]
    print("no Flickr8k here: random captions")
    return [random.integers(2, TOKENS, max(5, int(random.normal(54, 20)))) for _ in range(count)]


def pairs_of(ids: list[np.ndarray]) -> Pairs:
    count = len(ids)
    features = np.random.default_rng(1).normal(size=(count, FEATURES)).astype(np.float32)
    return Pairs(
        [f"{n:05d}" for n in range(count)], features, [""] * count, ids, np.zeros(count, int), np.arange(count)
    )


def torch_steps(
    network: Published, pairs: Pairs, batches: list[np.ndarray], *, bf16: bool = False
) -> tuple[list[float], float]:
    """Losses, and processor seconds after the first step."""
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3, fused=not network.packed)
    losses: list[float] = []
    started = 0.0
    for rows in batches:
        if len(losses) == 1:  # the first step loads what the first call loads
            started = time.process_time()
        ids, lengths = pad([pairs.ids[row] for row in rows])
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            scores = network(ids, lengths, torch.from_numpy(pairs.features[rows])).float()
        loss = hinge(scores, torch.eye(len(rows), dtype=torch.bool), margin=0.2, reduction="mean")
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses, time.process_time() - started


def our_steps(run: CaptionTask, batches: list[np.ndarray]) -> tuple[list[float], float]:
    run.encoders.train()
    losses = [run.learn(batches[0], 1e-3, 0)]
    started = time.process_time()
    losses += [run.learn(rows, 1e-3, number) for number, rows in enumerate(batches[1:], 1)]
    return [loss.item() for loss in losses], time.process_time() - started


def compare(
    pairs: Pairs, size: int, hidden: int, rounds: int, steps: int, cell: Literal["gru", "lstm"]
) -> dict[str, float | None]:
    """All sides in turn on the same batches, the first of which warms up: medians of ratios."""
    rates: dict[str, list[float]] = {}
    difference = 0.0
    random = np.random.default_rng(2)
    for number in range(rounds):
        batches = [random.choice(len(pairs.ids), size, replace=False) for _ in range(steps + 1)]
        losses: dict[str, list[float]] = {}
        for side in ("published", "plain", "fp32", *(["plain bf16", "bf16"] if has_bfloat16_units() else [])):
            settings = TrainSettings(
                hidden=hidden, batch=size, epochs=4, mask_padding=False, clip_images=None, clip_captions=None,
                precision="bf16" if side == "bf16" else "fp32", seed=number, cell=cell,
            )  # fmt: skip
            run = CaptionTask(settings, pairs, TOKENS, torch.device("cpu"))
            network = Published(run.encoders, hidden, packed=side == "published")
            losses[side], seconds = (
                our_steps(run, batches)
                if side in ("fp32", "bf16")
                else torch_steps(network, pairs, batches, bf16=side == "plain bf16")
            )
            rates.setdefault(side, []).append(size * steps / seconds)
            print(f"batch {size:3}, round {number + 1}: {side:10} {rates[side][-1]:7.1f} captions/s", flush=True)
        difference = max(difference, *np.abs(np.subtract(losses["published"], losses["fp32"])).tolist())

    def ratio(side: str, peer: str) -> float | None:
        if side not in rates:
            return None
        return round(statistics.median(np.divide(rates[side], rates[peer]).tolist()), 2)

    return {"fp32": ratio("fp32", "published"), "bf16": ratio("bf16", "published"),
            "plain_fp32": ratio("fp32", "plain"), "plain_bf16": ratio("bf16", "plain bf16"), "difference": difference,
            **{f"{side}_captions": round(statistics.median(found), 1) for side, found in rates.items()}}  # fmt: skip


def flops_a_caption(pairs: Pairs, hidden: int) -> float:
    """Forward and backward (twice as much), over real characters: the recurrent layer and the attention."""
    characters = float(np.mean([len(ids) for ids in pairs.ids]))
    recurrent = 2 * 3 * hidden * (20 + hidden)  # two directions, three gates
    attention = 2 * 2 * hidden * 128
    return 3 * 2 * (characters * (recurrent + attention) + FEATURES * 2 * hidden)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = Path(os.environ.get("SIGHTWORD_TEST_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--data", type=Path, default=data, help="folder with flickr8k/Flickr8k.token.txt")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--cell", choices=("gru", "lstm"), default="gru")
    parser.add_argument("--quick", action="store_true", help="fewer rounds: below 5 minutes on two cores")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    pairs = pairs_of(texts(arguments.data, 1000))
    rounds = 3 if arguments.quick else 5
    keep_memory()
    large = compare(pairs, 100, arguments.hidden, rounds, 2 if arguments.quick else 4, arguments.cell)
    small = compare(pairs, 32, arguments.hidden, rounds, 4 if arguments.quick else 8, arguments.cell)
    precision = "bf16" if large["bf16"] else "fp32"
    useful = flops_a_caption(pairs, arguments.hidden) * large[f"{precision}_captions"]
    result = {
        "ratio": large["fp32"],
        "bf16_ratio": large["bf16"],
        "ratio_32": small["fp32"],
        "bf16_ratio_32": small["bf16"],
        "plain_ratio": large["plain_fp32"],
        "plain_bf16_ratio": large["plain_bf16"],
        "plain_ratio_32": small["plain_fp32"],
        "plain_bf16_ratio_32": small["plain_bf16"],
        "loss_difference": max(large["difference"], small["difference"]),
        "peak_share": round(useful / peak_flops(precision, torch.device("cpu")), 3),
        "captions_a_second": {"100": large, "32": small},
        "threads": arguments.threads,
        "torch": torch.__version__,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
