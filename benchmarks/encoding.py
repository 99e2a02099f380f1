"""Encoding sentences with a trained encoder: ours, one sentence at a time, and the published way, in one run.

The encoder is the character GRU of Merkx & Frank (2019) with 1024 states a direction, untrained: its time is that
of a trained one. Sentences are captions of Flickr8k where they are at hand, else random ones of such lengths; each
comes once.

- ours: `SentenceEncoder.encode(sentences)`, sorted by length, 256 together;
- bf16: the same in bfloat16; and both with one thread, where there are more;
- one at a time: the same, called with one sentence after another;
- sorted: what a user would write today: sorted by length, 256 together, torch's bidirectional GRU over packed
  sequences, attention over padded states; and padded: the same with a GRU over the padding, which changes embeddings;
- published: as sorted, but 256 together as they come;
- ngrams, static: an encoder of n-grams of characters (512 numbers), and a static embedding of word pieces of the same
  width, as sentence-transformers' StaticEmbedding (Hugging Face's tokenizers, where they are installed, and
  `nn.EmbeddingBag`).

The sides take turns, on the same sentences; each round has others. With `--threads 1` on a CPU, seconds are those of
the processor, and no share of the peak is told. The embeddings must agree to 1e-5, those in bfloat16 to a cosine of
0.9999. `--device cuda` measures a GPU; `--own` leaves out the other ways.

The last line is JSON: sentences_a_second of each side (medians of the rounds), ratio_one_at_a_time, ratio_sorted,
ratio_padded, ratio_published (times faster, medians of the rounds), ratio_static (n-grams to it), ratio_bf16 and
ratio_threads (of bf16 to float32, of all threads to one), peak_share (of a large matrix product with as many threads,
for each precision), difference (the largest between embeddings), cosine (the least, of bf16), threads, device.
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
from peak import peak_flops
from torch import nn
from turns import costs, in_turn

from sightword.captions.vocabulary import Vocabulary
from sightword.compute.devices import threads
from sightword.encoder.parts import parts_of
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.model.encoders import CaptionEncoder, Encoders, pad
from sightword.model.settings import ModelSettings

BATCH = 256
WIDTH = 512
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

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor, *, packed: bool) -> torch.Tensor:
        device = self.embedding.weight.device
        embedded = self.embedding(ids.to(device))
        if packed:
            rows = nn.utils.rnn.pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
            states, _ = nn.utils.rnn.pad_packed_sequence(self.gru(rows)[0], batch_first=True)
        else:
            states, _ = self.gru(embedded)
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


def published(
    network: Published, vocabulary: Vocabulary, sentences: list[str], *, ordered: bool = False, packed: bool = True
) -> np.ndarray:
    rows = [np.asarray(vocabulary.encode(text), np.int64) for text in sentences]
    order = np.argsort([-len(row) for row in rows], kind="stable") if ordered else np.arange(len(rows))
    found = np.empty((len(rows), 2 * network.gru.hidden_size), np.float32)
    with torch.inference_mode():
        for start in range(0, len(rows), BATCH):
            part = order[start : start + BATCH]
            found[part] = network(*pad([rows[row] for row in part]), packed=packed).cpu().numpy()
    return found


def static(texts: list[str]) -> Callable[[list[str]], np.ndarray] | None:
    """The mean of the vectors of a sentence's word pieces, of length 1."""
    try:
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    except ModuleNotFoundError:
        return None
    os.environ["RAYON_NUM_THREADS"], os.environ["TOKENIZERS_PARALLELISM"] = "1", "false"
    pieces = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    pieces.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=30_000, special_tokens=["[UNK]"], show_progress=False)
    pieces.train_from_iterator(texts, trainer)
    bag = nn.EmbeddingBag(30_000, WIDTH, mode="mean")

    def encode(sentences: list[str]) -> np.ndarray:
        rows = [one.ids for one in pieces.encode_batch(sentences, add_special_tokens=False)]
        starts = torch.from_numpy(np.cumsum([0, *map(len, rows[:-1])]))
        with torch.inference_mode():
            vectors = bag(torch.tensor([number for row in rows for number in row]), starts)
            return nn.functional.normalize(vectors, dim=1).numpy()

    return encode


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
    published(network, vocabulary, texts[:BATCH], ordered=True)
    for precision in ("fp32", "bf16"):
        encoder.encode(texts[:BATCH], precision=precision)

    def alone(work: Callable[[list[str]], np.ndarray], part: list[str]) -> np.ndarray:
        with threads(1):
            return work(part)

    # Each side: its work on the sentences of a round, and every how many of these it encodes.
    sides: dict[str, tuple[Callable[[list[str]], np.ndarray], int]] = {
        "ours": (encoder.encode, 1),
        "bf16": (lambda part: encoder.encode(part, precision="bf16"), 1),
    }
    if arguments.threads > 1 and device.type == "cpu":
        sides |= {f"{side}_1": (lambda part, work=work: alone(work, part), 1) for side, (work, _) in sides.items()}
    if not arguments.own:
        sides["one_at_a_time"] = (lambda part: one_at_a_time(encoder, part[::ONE_AT_A_TIME]), ONE_AT_A_TIME)
        sides["sorted"] = (lambda part: published(network, vocabulary, part, ordered=True), 1)
        sides["padded"] = (lambda part: published(network, vocabulary, part, ordered=True, packed=False), 1)
        sides["published"] = (lambda part: published(network, vocabulary, part), 1)
        if device.type == "cpu":
            shape = ModelSettings(cell="ngrams", embedding=WIDTH).shape
            bags = SentenceEncoder(parts_of([Encoders(len(vocabulary), 1, shape)], vocabulary, shape))
            sides["ngrams"] = (bags.encode, 1)
            if word_pieces := static(texts):
                sides["static"] = (word_pieces, 1)
    mine: list[np.ndarray] = []
    difference, cosine = 0.0, 1.0

    def look(_: int, side: str, found: np.ndarray) -> None:
        nonlocal difference, cosine
        if side == "ours":
            mine.append(found)
        elif side.startswith("bf16"):
            cosine = min(cosine, float((mine[-1] * found).sum(1).min()))
        elif side not in ("ngrams", "static", "padded"):
            difference = max(difference, float(np.abs(mine[-1][:: sides[side][1]] - found).max()))

    def now() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.process_time() if device.type == "cpu" and arguments.threads == 1 else time.perf_counter()

    works = {
        side: lambda number, work=work: work(texts[number * each : (number + 1) * each])
        for side, (work, _) in sides.items()
    }
    took = in_turn(works, rounds, look=look, clock=now)
    took = {side: [one * sides[side][1] for one in seconds] for side, seconds in took.items()}  # of all sentences
    rates = {side: [each / one for one in seconds] for side, seconds in took.items()}
    costs(took, f"{each} sentences")
    assert difference < 1e-5, f"the embeddings differ by {difference:.1e}"
    assert cosine > 0.9999, f"the least cosine in bfloat16 is {cosine}"

    def ratio(one: str, other: str) -> float | None:
        if one not in rates or other not in rates:
            return None
        return round(statistics.median(np.divide(rates[one], rates[other]).tolist()), 2)

    medians = {side: round(statistics.median(found), 1) for side, found in rates.items()}
    flops = flops_a_sentence(statistics.mean(map(len, texts)), arguments.hidden)
    walls = device.type != "cpu" or arguments.threads > 1
    print(json.dumps({
        "sentences_a_second": medians,
        "ratio_one_at_a_time": ratio("ours", "one_at_a_time"),
        "ratio_sorted": ratio("ours", "sorted"),
        "ratio_padded": ratio("ours", "padded"),
        "ratio_published": ratio("ours", "published"),
        "ratio_static": ratio("ngrams", "static"),
        "ratio_bf16": ratio("bf16", "ours"),
        "ratio_bf16_1": ratio("bf16_1", "ours_1"),
        "ratio_threads": ratio("ours", "ours_1"),
        "ratio_threads_bf16": ratio("bf16", "bf16_1"),
        "peak_share": round(flops * medians["ours"] / peak_flops("fp32", device), 2) if walls else None,
        "peak_share_bf16": round(flops * medians["bf16"] / peak_flops("bf16", device), 2) if walls else None,
        "difference": difference,
        "cosine": cosine,
        "threads": arguments.threads,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "hidden": arguments.hidden,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
