"""Encoding sentences with a trained encoder: ours, one sentence at a time, and the published way, in one run.

The encoder is the character GRU of Merkx & Frank (2019) with 1024 states a direction, untrained: its time is that
of a trained one. Sentences are captions of Flickr8k where they are at hand, else random ones of such lengths; each
comes once.

- ours: `SentenceEncoder.encode(sentences)`, sorted by length, 256 together;
- bf16: the same in bfloat16; and both with one thread, where there are more;
- one at a time: the same, called with one sentence after another;
- published: as they come, 256 together, torch's bidirectional GRU over packed sequences, attention over padded states.

The sides take turns, on the same sentences; each round has others. The embeddings must agree to 1e-5, those in bfloat16
to a cosine of 0.9999. `--device cuda` measures a GPU; `--own` leaves out the other ways.

The last line is JSON: sentences_a_second of each side (medians of the rounds), ratio_one_at_a_time and ratio_published
(times faster, medians of the rounds), ratio_bf16 and ratio_threads (of bf16 to float32, of all threads to one),
peak_share (of a large matrix product with as many threads, for each precision), difference (the largest between
embeddings), cosine (the least, of bf16), threads, device.
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
from sightword.compute.devices import threads
from sightword.encoder.parts import parts_of
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.features.utilisation import peak_flops
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


def flops_a_sentence(characters: float, hidden: int) -> float:
    """Of the recurrent layer's products with the states, and of the attention."""
    return 2 * characters * (2 * 3 * hidden * hidden + 2 * 2 * hidden * 128)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shared = Path(os.environ.get("SIGHTWORD_TEST_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--data", type=Path, default=shared, help="a folder with Flickr8k.token.txt somewhere in it")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--sentences", type=int, help="in each round (default: 2048; on a GPU 32768)")
    parser.add_argument("--own", action="store_true", help="not one at a time, and not the published way")
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
    encoders = Encoders(len(vocabulary), 1, settings.shape).to(device)
    encoder = SentenceEncoder(parts_of([encoders], vocabulary, settings.shape))
    network = Published(encoders.captions).to(device).eval()
    print(f"{len(texts)} different captions of {statistics.mean(map(len, texts)):.0f} characters, {each} a round")
    published(network, vocabulary, texts[:BATCH])
    for precision in ("fp32", "bf16"):
        encoder.encode(texts[:BATCH], precision=precision)

    def alone(precision: str) -> np.ndarray:
        with threads(1):
            return encoder.encode(part, precision=precision)

    # Each side: its work on the sentences of a round, and every how many of these it encodes.
    sides: dict[str, tuple[Callable[[], np.ndarray], int]] = {
        "ours": (lambda: encoder.encode(part), 1),
        "bf16": (lambda: encoder.encode(part, precision="bf16"), 1),
    }
    if arguments.threads > 1 and device.type == "cpu":
        sides |= {"ours_1": (lambda: alone("fp32"), 1), "bf16_1": (lambda: alone("bf16"), 1)}
    if not arguments.own:
        sides["one_at_a_time"] = (lambda: one_at_a_time(encoder, part[::ONE_AT_A_TIME]), ONE_AT_A_TIME)
        sides["published"] = (lambda: published(network, vocabulary, part), 1)
    rates: dict[str, list[float]] = {side: [] for side in sides}
    difference, cosine = 0.0, 1.0
    for number in range(rounds):
        part = texts[number * each : (number + 1) * each]
        mine = np.empty(0)
        for side, (work, every) in sides.items():
            seconds, found = timed(work, device)
            rates[side].append(len(found) / seconds)
            mine = found if side == "ours" else mine
            if side.startswith("bf16"):
                cosine = min(cosine, float((mine * found).sum(1).min()))
            else:
                difference = max(difference, float(np.abs(mine[::every] - found).max()))
        print(
            f"round {number + 1}:", ", ".join(f"{side} {found[-1]:.1f}/s" for side, found in rates.items()), flush=True
        )
    assert difference < 1e-5, f"the embeddings differ by {difference:.1e}"
    assert cosine > 0.9999, f"the least cosine in bfloat16 is {cosine}"

    def ratio(one: str, other: str) -> float | None:
        if one not in rates or other not in rates:
            return None
        return round(statistics.median(np.divide(rates[one], rates[other]).tolist()), 2)

    medians = {side: round(statistics.median(found), 1) for side, found in rates.items()}
    flops = flops_a_sentence(statistics.mean(map(len, texts)), arguments.hidden)
    print(json.dumps({
        "sentences_a_second": medians,
        "ratio_one_at_a_time": ratio("ours", "one_at_a_time"),
        "ratio_published": ratio("ours", "published"),
        "ratio_bf16": ratio("bf16", "ours"),
        "ratio_bf16_1": ratio("bf16_1", "ours_1"),
        "ratio_threads": ratio("ours", "ours_1"),
        "ratio_threads_bf16": ratio("bf16", "bf16_1"),
        "peak_share": round(flops * medians["ours"] / peak_flops("fp32", device), 2),
        "peak_share_bf16": round(flops * medians["bf16"] / peak_flops("bf16", device), 2),
        "difference": difference,
        "cosine": cosine,
        "threads": arguments.threads,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "hidden": arguments.hidden,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
