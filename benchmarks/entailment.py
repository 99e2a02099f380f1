"""Training on sentence pairs against the released way, on the very same batches from the very same weights, in one run.

The released way: premises and hypotheses of the pairs of a batch in two packed sequences through torch's GRU, each
sentence as often as it comes, float32. Ours: what the stage train does: each different sentence of a batch once. The
pairs are those of SNLI's dev where it is at hand, else the sample's, in batches of 128 with the pairs of a premise
together (`train.group_premises`), and at random as well; words of 300 numbers, 1,024 states. A sentence that comes
twice counts twice on both sides.

The last line is JSON: ratio and bf16_ratio (sentences a second, times the released way, grouped), loss_difference (the
largest relative difference over the first four batches of each round, float32; from then on rounding may grow).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the stages do

import numpy as np
import torch
from peak import peak_flops
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.nn.utils.rnn import pack_padded_sequence

from sightword.captions.normalise import Normalisation
from sightword.captions.vocabulary import Vocabulary
from sightword.compute.devices import has_bfloat16_units
from sightword.entailment.data.pairs import SentencePairs
from sightword.entailment.data.settings import Source
from sightword.entailment.data.sources import read_source
from sightword.entailment.training.batches import EncodedPairs, Rows, batches
from sightword.entailment.training.energies import margin_loss, torch_energies
from sightword.entailment.training.settings import EntailSettings
from sightword.entailment.training.task import PairTask
from sightword.model.encoders import CaptionEncoder, pad

CPU = torch.device("cpu")
FIRST = 4
"""Batches whose losses are compared."""


class Released(nn.Module):
    """The encoder as it was released: packed sequences, each sentence as often as it comes."""

    def __init__(self, ours: CaptionEncoder) -> None:
        super().__init__()
        layer = ours.recurrent.onward
        self.embedding = nn.Embedding.from_pretrained(ours.embedding.weight.detach().clone(), freeze=False)
        self.gru = nn.GRU(layer.input_size, layer.hidden_size, batch_first=True)
        self.gru.load_state_dict(layer.state_dict())

    def forward(self, rows: list[Rows]) -> torch.Tensor:
        ids, lengths = pad(rows)
        packed = pack_padded_sequence(self.embedding(ids), lengths, batch_first=True, enforce_sorted=False)
        return self.gru(packed)[1][0].abs()


def pairs_of(data: Path) -> tuple[EncodedPairs, int]:
    """Return the pairs, and the number of ids."""
    folder = data / "senteval/downstream/SNLI"
    source = Source(format="snli", path=str(folder), part="dev")
    if not folder.is_dir():
        print("no SNLI here: pairs of the sample")
        source = Source(format="sample", path="data/raw/sample", part="train", count=9000)
    pairs = SentencePairs.of([(*row, source.name) for row in read_source(source)])
    texts = [*pairs.premises, *pairs.hypotheses]
    vocabulary = Vocabulary.build(texts, normalise=Normalisation(case="lower"), unit="word")
    return EncodedPairs.of(pairs, vocabulary), len(vocabulary)


def released_steps(run: PairTask, order: list[Rows]) -> tuple[list[float], float]:
    """Train the released way from the weights of a run; return losses, and seconds."""
    network, settings, pairs = Released(run.captions), run.settings, run.training
    optimiser = torch.optim.Adam(network.parameters(), lr=settings.rate)
    losses, started = [], time.perf_counter()
    for rows in order:
        sides = [
            network([pairs.sentences[place] for place in side[rows]]) for side in (pairs.premises, pairs.hypotheses)
        ]
        entailed = torch.from_numpy(pairs.entailed[rows])
        energies = torch_energies("order", *sides)
        loss = margin_loss(energies, entailed, margin=settings.margin, reduction=settings.reduction)
        optimiser.zero_grad()
        loss.backward()
        clip_grad_norm_(network.parameters(), settings.clip)
        optimiser.step()
        losses.append(loss.item())
    return losses, time.perf_counter() - started


def our_steps(run: PairTask, order: list[Rows]) -> tuple[list[float], float]:
    run.captions.train()
    started = time.perf_counter()
    losses = [run.learn(rows) for rows in order]
    return [loss.item() for loss in losses], time.perf_counter() - started


def operations(pairs: EncodedPairs, order: list[Rows], settings: EntailSettings) -> float:
    """Return the additions and multiplications of the GRU for each different sentence of the batches, once."""
    places = [np.union1d(pairs.premises[rows], pairs.hypotheses[rows]) for rows in order]
    tokens = sum(len(pairs.sentences[place]) for found in places for place in found)
    return 3 * 2.0 * tokens * 3 * settings.hidden * (settings.hidden + settings.embedding)


def compare(pairs: EncodedPairs, tokens: int, *, grouped: bool, rounds: int, steps: int) -> dict[str, float | None]:
    """All sides in turn on the same batches: medians of sentences a second, and of ratios."""
    rates: dict[str, list[float]] = {}
    shares: dict[str, list[float]] = {}
    difference = 0.0
    for number in range(rounds):
        losses: dict[str, list[float]] = {}
        for side in ("released", "fp32", *(["bf16"] if has_bfloat16_units() else [])):
            settings = EntailSettings(
                normalise="none", group_premises=grouped, precision="bf16" if side == "bf16" else "fp32", seed=number
            )
            order = batches(pairs, size=settings.batch, seed=number, epoch=0, group_premises=grouped)[:steps]
            run = PairTask(settings, pairs, pairs, tokens, CPU)
            losses[side], seconds = (released_steps if side == "released" else our_steps)(run, order)
            rates.setdefault(side, []).append(2 * sum(map(len, order)) / seconds)
            shares.setdefault(side, []).append(operations(pairs, order, settings) / seconds)
            kind = "grouped" if grouped else "random "
            print(f"{kind} round {number + 1}: {side:8} {rates[side][-1]:7.1f} sentences/s", flush=True)
        apart = np.abs(np.subtract(losses["released"], losses["fp32"])) / np.abs(losses["released"])
        difference = max(difference, float(apart[:FIRST].max()))
    found: dict[str, float | None] = {"difference": difference, "bf16": None}
    for side in list(rates)[1:]:
        found[side] = round(statistics.median(np.divide(rates[side], rates["released"]).tolist()), 2)
    for side, values in shares.items():
        found[f"{side}_operations"] = statistics.median(values)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = Path(os.environ.get("SIGHTWORD_TEST_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--data", type=Path, default=data, help="folder with senteval/downstream/SNLI")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", action="store_true", help="fewer rounds and steps")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    pairs, tokens = pairs_of(arguments.data)
    print(f"{len(pairs)} pairs of {len(pairs.sentences)} sentences, {arguments.threads} threads", flush=True)
    rounds, steps = (2, 4) if arguments.quick else (5, 8)
    random = compare(pairs, tokens, grouped=False, rounds=rounds, steps=steps)
    grouped = compare(pairs, tokens, grouped=True, rounds=rounds, steps=steps)
    print(f"random batches: {random['fp32']} times in float32, {random['bf16']} in bfloat16")
    for name in ("fp32", "bf16"):
        if done := grouped.get(f"{name}_operations"):
            peak = peak_flops(name, CPU)
            print(f"{name}: {done / 1e9:.0f} of {peak / 1e9:.0f} GFLOP/s, {done / peak:.2f} of the peak")
    print(
        json.dumps(
            {
                "ratio": grouped["fp32"],
                "bf16_ratio": grouped["bf16"],
                "loss_difference": max(random["difference"] or 0.0, grouped["difference"] or 0.0),
            }
        )
    )


if __name__ == "__main__":
    main()
