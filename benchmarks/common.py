"""What the benchmarks share: sides that take turns, the machine's peak, captions, and the published caption encoder."""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the stages do

import numpy as np
import torch
from torch import nn

from sightword.captions.vocabulary import Vocabulary
from sightword.model.encoders import CaptionEncoder, pad

Found = TypeVar("Found")


def parser(about: str | None) -> argparse.ArgumentParser:
    """A parser with ``--data``, ``--threads``, ``--quick`` and ``--tiny``."""
    made = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = Path(os.environ.get("SIGHTWORD_TEST_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
    made.add_argument("--data", type=Path, default=data, help="the folder of flickr8k, senteval, weights and wordnet")
    made.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    made.add_argument("--quick", action="store_true", help="less work: below 5 minutes on two cores")
    made.add_argument("--tiny", action="store_true", help="seconds: that the code runs, and no numbers")
    return made


def in_turn(
    sides: Mapping[str, Callable[[int], Found]],
    rounds: int,
    *,
    warm: int = 0,
    look: Callable[[int, str, Found], object] = lambda *_: None,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, list[float]]:
    """Return the seconds of each side in each round.

    Args:
        sides: what each does in a round; rounds are counted, ``warm`` ones included.
        rounds: the rounds that count.
        warm: rounds before, which do not count.
        look: sees the round, the side and what the side found, outside of the measurement.
        clock: the processor's by default.
    """
    took: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(warm + rounds):
        for side, work in sides.items():
            started = clock()
            found = work(turn)
            seconds = clock() - started
            look(turn, side, found)
            if turn >= warm:
                took[side].append(seconds)
    return took


def costs(took: Mapping[str, list[float]], title: str) -> dict[str, list[float]]:
    """Print and return each side's milliseconds (median), and its cost times the first side's: least, median, most."""
    result = {}
    for side, seconds in took.items():
        ratios = np.divide(seconds, next(iter(took.values())))
        numbers = (statistics.median(seconds) * 1e3, ratios.min(), float(np.median(ratios)), ratios.max())
        result[side] = [round(float(number), 2) for number in numbers]
        print(f"{title}, {side}: {numbers[0]:.2f} ms, {numbers[1]:.2f}-{numbers[2]:.2f}-{numbers[3]:.2f}", flush=True)
    return result


def peak_flops(precision: str, device: torch.device) -> float:
    """Operations a second of a large matrix product: the best of three."""
    side = 8192 if device.type == "cuda" else 2000
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    one, other = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    seconds = []
    for _ in range(4):
        started = time.perf_counter()
        one @ other
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds.append(time.perf_counter() - started)
    return 2 * side**3 / min(seconds[1:])


def captions(data: Path, wanted: int) -> list[str]:
    """Different captions of Flickr8k where they are at hand, else random texts of such lengths, in no order."""
    draw = np.random.default_rng(0)
    file = data / "flickr8k/Flickr8k.token.txt"
    if file.is_file():
        texts = sorted({line.split("\t", 1)[1] for line in file.read_text().splitlines() if "\t" in line})
    else:
        print("no Flickr8k here: random captions")
        letters = list("abcdefghijklmnopqrstuvwxyz     .,")
        lengths = draw.normal(53, 20, wanted * 2).clip(8, 190).astype(int)
        texts = sorted({"".join(draw.choice(letters, length)) for length in lengths})
    return [texts[place] for place in draw.permutation(len(texts))[:wanted]]


class Published(nn.Module):
    """The caption side as it was released (Merkx & Frank 2019), with the weights of ours.

    Args:
        ours: the caption encoder whose weights are taken.
        packed: run the recurrent layer over packed sequences, else over the padding, which torch computes faster.
        masked: leave padding out of the attention; the released code does not.
    """

    def __init__(self, ours: CaptionEncoder, *, packed: bool = True, masked: bool = True) -> None:
        super().__init__()
        self.packed, self.masked = packed, masked
        self.embedding = nn.Embedding.from_pretrained(ours.embedding.weight.detach().clone(), freeze=False)
        kind = nn.LSTM if ours.recurrent.cell == "lstm" else nn.GRU
        hidden = ours.recurrent.onward.hidden_size
        self.layer = kind(ours.embedding.embedding_dim, hidden, batch_first=True, bidirectional=True)
        for name, value in ours.recurrent.onward.named_parameters():
            getattr(self.layer, name).data.copy_(value)
        for name, value in ours.recurrent.backward_.named_parameters():
            getattr(self.layer, f"{name}_reverse").data.copy_(value)
        self.inner = nn.Linear(2 * hidden, ours.pooling.hidden.out_features)
        self.out = nn.Linear(ours.pooling.hidden.out_features, 2 * hidden)
        self.inner.load_state_dict(ours.pooling.hidden.state_dict())
        self.out.load_state_dict(ours.pooling.out.state_dict())

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        embedded = self.embedding(ids.to(self.out.weight.device))
        if self.packed:
            rows = nn.utils.rnn.pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
            states, _ = nn.utils.rnn.pad_packed_sequence(self.layer(rows)[0], batch_first=True)
        else:
            states = self.layer(embedded)[0]
        logits = self.out(torch.tanh(self.inner(states)))
        if self.masked:
            outside = torch.arange(states.shape[1], device=states.device) >= lengths.to(states.device)[:, None]
            logits = logits.masked_fill(outside[:, :, None], float("-inf"))
        return nn.functional.normalize((torch.softmax(logits, dim=1) * states).sum(dim=1), dim=1)


def encode(network: Published, vocabulary: Vocabulary, texts: list[str], batch: int, *, ordered: bool) -> np.ndarray:
    """The embeddings of texts by the published way, ``batch`` together, sorted by length or as they come."""
    rows = [np.asarray(vocabulary.encode(text), np.int64) for text in texts]
    order = np.argsort([-len(row) for row in rows], kind="stable") if ordered else np.arange(len(rows))
    found = np.empty((len(rows), 2 * network.layer.hidden_size), np.float32)
    with torch.inference_mode():
        for start in range(0, len(rows), batch):
            part = order[start : start + batch]
            found[part] = network(*pad([rows[row] for row in part])).cpu().numpy()
    return found
