"""Encoding sentences with a trained encoder: ours, one sentence at a time, and the published way, in one run.

The encoder is the character GRU of Merkx & Frank (2019) with 1024 states a direction, untrained: its time is that
of a trained one. Sentences are captions of Flickr8k where they are at hand, else random ones of such lengths; each
comes once.

- ours: `SentenceEncoder.encode(sentences)`, sorted by length, 256 together;
- one at a time: the same, called with one sentence after another;
- published: as they come, 256 together, torch's bidirectional GRU over packed sequences, attention over padded states.

The sides take turns, on the same sentences; each round has others. The embeddings must agree to 1e-5. `--device cuda`
measures a GPU.

The last line is JSON: sentences_a_second of each side (medians of the rounds), ratio_one_at_a_time and ratio_published
(times faster, medians of the rounds), difference (the largest between embeddings), threads, device.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the stages do

import numpy as np
import torch
from torch import nn

from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.model.encoders import CaptionEncoder, Encoders, pad
from sightword.model.settings import ModelSettings

BATCH = 256
ONE_AT_A_TIME = 8
"""One of so many sentences is encoded alone: more would take most of the time."""


class Published(nn.Module):
    """The caption side as it was released, but with padding masked, so that the embeddings can be compared."""

    def __init__(self, ours: CaptionEncoder) -> None:
        super().__init__()
        self.embedding, self.pooling = ours.embedding, ours.pooling
        hidden = ours.recurrent.onward.hidden_size
        self.gru = nn.GRU(ours.embedding.embedding_dim, hidden, batch_first=True, bidirectional=True)
        for name, value in ours.recurrent.onward.named_parameters():
            getattr(self.gru, name).data.copy_(value)
        for name, value in ours.recurrent.backward_.named_parameters():
            getattr(self.gru, f"{name}_reverse").data.copy_(value)

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        device = self.embedding.weight.device
        embedded = self.embedding(ids.to(device))
        packed = nn.utils.rnn.pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        states, _ = nn.utils.rnn.pad_packed_sequence(self.gru(packed)[0], batch_first=True)
        logits = self.pooling.out(torch.tanh(self.pooling.hidden(states)))
        outside = torch.arange(states.shape[1], device=device) >= lengths.to(device)[:, None]
        weights = torch.softmax(logits.masked_fill(outside[:, :, None], float("-inf")), dim=1)
        return nn.functional.normalize((weights * states).sum(dim=1), dim=1)


def captions(data: Path, wanted: int) -> list[str]:
    """Different captions, in no order."""
    draw = np.random.default_rng(0)
    files = sorted(data.rglob("Flickr8k.token.txt"))
    if files:
        texts = sorted({line.split("\t", 1)[1] for line in files[0].read_text().splitlines() if "\t" in line})
    else:
        print("no Flickr8k here: random captions")
        letters = list("abcdefghijklmnopqrstuvwxyz     .,")
        lengths = draw.normal(53, 20, wanted * 2).clip(8, 190).astype(int)
        texts = sorted({"".join(draw.choice(letters, length)) for length in lengths})
    return [texts[place] for place in draw.permutation(len(texts))[:wanted]]


def timed(work: Callable[[], np.ndarray], device: torch.device) -> tuple[float, np.ndarray]:
    """Seconds, and what came out."""
    started = time.perf_counter()
    found = work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started, found


def published(network: Published, vocabulary: Vocabulary, sentences: list[str]) -> np.ndarray:
    found = []
    with torch.inference_mode():
        for start in range(0, len(sentences), BATCH):
            rows = [np.asarray(vocabulary.encode(text), np.int64) for text in sentences[start : start + BATCH]]
            found.append(network(*pad(rows)).cpu().numpy())
    return np.concatenate(found)


def one_at_a_time(encoder: SentenceEncoder, sentences: list[str]) -> np.ndarray:
    return np.stack([encoder.encode(text) for text in sentences])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared = Path(os.environ.get("SIGHTWORD_TEST_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--data", type=Path, default=shared, help="a folder with Flickr8k.token.txt somewhere in it")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--sentences", type=int, help="in each round (default: 2048; on a GPU 32768)")
    parser.add_argument("--rounds", type=int, help="default: 5; with --quick 3")
    parser.add_argument("--quick", action="store_true", help="fewer sentences: below 5 minutes on two cores")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    device = torch.device(arguments.device)
    torch.backends.cudnn.allow_tf32 = False  # both sides in float32
    rounds = arguments.rounds or (3 if arguments.quick else 5)
    each = arguments.sentences or (32768 if device.type == "cuda" else 1024 if arguments.quick else 2048)

    texts = captions(arguments.data, rounds * each)
    rounds = min(rounds, max(1, len(texts) // each))
    vocabulary = Vocabulary.build(texts)
    settings = ModelSettings(hidden=arguments.hidden)
    torch.manual_seed(0)
    encoders = Encoders(len(vocabulary), 1, settings).to(device)
    encoder = SentenceEncoder([encoders], vocabulary, settings)
    network = Published(encoders.captions).to(device).eval()
    print(f"{len(texts)} different captions of {statistics.mean(map(len, texts)):.0f} characters, {each} a round")
    for warm in (published(network, vocabulary, texts[:BATCH]), encoder.encode(texts[:BATCH])):
        del warm

    rates: dict[str, list[float]] = {"ours": [], "one_at_a_time": [], "published": []}
    difference = 0.0
    for number in range(rounds):
        part = texts[number * each : (number + 1) * each]
        some = part[::ONE_AT_A_TIME]
        seconds, mine = timed(lambda part=part: encoder.encode(part), device)
        alone_seconds, alone = timed(lambda some=some: one_at_a_time(encoder, some), device)
        their_seconds, theirs = timed(lambda part=part: published(network, vocabulary, part), device)
        rates["ours"].append(len(part) / seconds)
        rates["one_at_a_time"].append(len(some) / alone_seconds)
        rates["published"].append(len(part) / their_seconds)
        difference = max(difference, float(np.abs(mine - theirs).max()))
        difference = max(difference, float(np.abs(mine[::ONE_AT_A_TIME] - alone).max()))
        print(
            f"round {number + 1}:", ", ".join(f"{side} {found[-1]:.1f}/s" for side, found in rates.items()), flush=True
        )
    assert difference < 1e-5, f"the embeddings differ by {difference:.1e}"
    ratios = {
        f"ratio_{side}": round(
            statistics.median(ours / other for ours, other in zip(rates["ours"], rates[side], strict=True)), 2
        )
        for side in ("one_at_a_time", "published")
    }
    print(json.dumps({
        "sentences_a_second": {side: round(statistics.median(found), 1) for side, found in rates.items()},
        **ratios,
        "difference": difference,
        "threads": arguments.threads,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "hidden": arguments.hidden,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
