"""Encoding sentences with a trained encoder: ours, one sentence at a time, and the published way, in one run.

The encoder is the character GRU of Merkx & Frank (2019) with 1024 states a direction, untrained: its time is that of a
trained one.

- ours: `SentenceEncoder.encode(sentences)`, sorted by length, 256 together; bf16: the same in bfloat16;
- one at a time: the same, called with one sentence after another;
- sorted: what a user would write today: sorted by length, 256 together, torch's bidirectional GRU over packed
  sequences, attention over padded states; padded: the same with a GRU over the padding, which changes embeddings;
- published: as sorted, but 256 together as they come;
- ngrams, static: an encoder of n-grams of characters (512 numbers), and a static embedding of word pieces of the same
  width (Hugging Face's tokenizers, where they are installed, and `nn.EmbeddingBag`).

The sides take turns; each round has other sentences. With `--threads 1` on a CPU, seconds are those of the processor.
The embeddings must agree to 1e-5, those in bfloat16 to a cosine of 0.9999.

The last line is JSON: sentences_a_second of each side (medians), ratios of ours to the other sides, ratio_static
(n-grams to it), peak_share (of a large matrix product), difference (the largest between embeddings), cosine (the
least, of bf16).
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable

import common
import numpy as np
import torch
from torch import nn

from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.parts import parts_of
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.model.encoders import Encoders
from sightword.model.settings import ModelSettings

BATCH = 256
WIDTH = 512
ONE_AT_A_TIME = 8
"""One of so many sentences is encoded alone: more would take most of the time."""


def static(texts: list[str]) -> Callable[[list[str]], np.ndarray] | None:
    """The mean of the vectors of a sentence's word pieces, of length 1; None without the package."""
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


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: %(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    device = torch.device(arguments.device)
    torch.backends.cudnn.allow_tf32 = False  # both sides in float32
    quick, tiny = arguments.quick, arguments.tiny
    rounds, hidden = (1, 32) if tiny else (3 if quick else 5, 1024)
    each = 64 if tiny else 32_768 if device.type == "cuda" else 1024 if quick else 2048
    texts = common.captions(arguments.data, rounds * each)
    rounds = min(rounds, max(1, len(texts) // each))
    vocabulary = Vocabulary.build(texts)
    settings = ModelSettings(hidden=hidden)
    torch.manual_seed(0)
    encoders = Encoders(len(vocabulary), 1, settings.shape).to(device)
    encoder = SentenceEncoder(parts_of([encoders], vocabulary, settings.shape))
    shape = ModelSettings(cell="ngrams", embedding=WIDTH).shape
    bags = SentenceEncoder(parts_of([Encoders(len(vocabulary), 1, shape)], vocabulary, shape))
    packed, padded = (common.Published(encoders.captions, packed=way).to(device).eval() for way in (True, False))
    print(f"{len(texts)} different captions of {statistics.mean(map(len, texts)):.0f} characters, {each} a round")

    # Each side: its work on the sentences of a round, and every how many of these it encodes.
    sides: dict[str, tuple[Callable[[list[str]], np.ndarray], int]] = {
        "ours": (encoder.encode, 1),
        "bf16": (lambda part: encoder.encode(part, precision="bf16"), 1),
        "one_at_a_time": (
            lambda part: np.stack([encoder.encode(text) for text in part[::ONE_AT_A_TIME]]),
            ONE_AT_A_TIME,
        ),
        "sorted": (lambda part: common.encode(packed, vocabulary, part, BATCH, ordered=True), 1),
        "padded": (lambda part: common.encode(padded, vocabulary, part, BATCH, ordered=True), 1),
        "published": (lambda part: common.encode(packed, vocabulary, part, BATCH, ordered=False), 1),
    }
    if device.type == "cpu":
        sides["ngrams"] = (bags.encode, 1)
        if word_pieces := static(texts):
            sides["static"] = (word_pieces, 1)
    for work, _ in sides.values():
        work(texts[:32])
    mine: list[np.ndarray] = []
    difference, cosine = 0.0, 1.0

    def look(_: int, side: str, found: np.ndarray) -> None:
        nonlocal difference, cosine
        if side == "ours":
            mine.append(found)
        elif side == "bf16":
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
    took = common.in_turn(works, rounds, look=look, clock=now)
    took = {side: [one * sides[side][1] for one in seconds] for side, seconds in took.items()}  # of all sentences
    common.costs(took, f"{each} sentences")
    assert difference < 1e-5, f"the embeddings differ by {difference:.1e}"
    assert cosine > 0.9999, f"the least cosine in bfloat16 is {cosine}"
    rates = {side: round(each / statistics.median(found), 1) for side, found in took.items()}

    def ratio(one: str, other: str) -> float | None:
        return round(float(np.median(np.divide(took[other], took[one]))), 2) if other in took else None

    characters = statistics.mean(map(len, texts))
    flops = 2 * characters * (2 * 3 * hidden * hidden + 2 * 2 * hidden * 128)  # products with states, and attention
    peers = ("one_at_a_time", "sorted", "padded", "published")
    result = {"sentences_a_second": rates, **{f"ratio_{peer}": ratio("ours", peer) for peer in peers}}
    result |= {
        "ratio_static": ratio("ngrams", "static") if "ngrams" in took else None,
        "ratio_bf16": ratio("bf16", "ours"),
    }
    if not tiny:
        result["peak_share"] = round(flops * rates["ours"] / common.peak_flops("fp32", device), 2)
    print(json.dumps(result | {"difference": difference, "cosine": cosine, "threads": arguments.threads}))


if __name__ == "__main__":
    main()
