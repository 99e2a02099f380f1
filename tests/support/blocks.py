"""Blocks of code on the pages, and what a reader has before the first block."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from sightword.evaluation.semantics.datasets import SUBTASKS

COMMANDS = ("sh", "python")
SHOWN = ("text", "yaml", "mermaid")
"""Output, files and diagrams: nothing to type."""

FENCE = re.compile(
    r"(?:^<!-- not run: (?P<why>[^\n]*) -->\n)?^```(?P<language>[^\s`]*) ?(?P<who>\S*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    """Of its first line within the fence, from 1."""
    language: str
    who: str
    """The person who types it, where a page names several."""
    text: str
    why: str
    """Why no test runs it; empty where one does. The comment ``<!-- not run: WHY -->`` stands on the line before."""

    @property
    def place(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in their order."""
    text = page.read_text()
    return [
        Block(
            page, text.count("\n", 0, one.start("text")) + 1, one["language"], one["who"], one["text"], one["why"] or ""
        )
        for one in FENCE.finditer(text)
    ]


def pages(repository: Path) -> list[Path]:
    """What a reader reads: README and the documentation."""
    return [repository / "README.md", *sorted((repository / "docs").glob("*.md"))]


def to_run(page: Path) -> list[Block]:
    """The blocks that a reader types one after another, by one person and without what only they have."""
    return [one for one in blocks(page) if one.language in COMMANDS and not one.why and not one.who]


ENCODER = """\
import zlib
import numpy as np

def model(sentences):
    rows = np.zeros((len(sentences), 64), np.float32)
    for row, sentence in zip(rows, sentences):
        for word in sentence.split():
            row[zlib.crc32(word.encode()) % 64] += 1
    return rows
"""
VECTORS = "".join(f"{word} {' '.join(str((7 * place + 3 * len(word)) % 11 - 5) for place in range(8))}\n" for word in
                  ("a", "red", "blue", "small", "large", "circle", "square", "star", "is", "."))  # fmt: skip

JUDGE = """\
sightword evaluate models/encoder --data data/raw/senteval --no-trained-head --pairs data/semantics/pairs.parquet \\
  --training-captions data/captions/captions.parquet \\
  --tasks STSSample STS12 STS13 STS14 STS15 STS16 STSBenchmark SICKRelatedness
"""

BEFORE = {
    "audit": [("sh", "git branch -M main; git branch my-experiment")],
    "evaluation": [
        ("python", """\
import numpy as np
image_of_caption = np.repeat(np.arange(20), 2)
image_embeddings = np.random.default_rng(0).normal(size=(20, 8))
caption_embeddings = image_embeddings[image_of_caption]
training_images = training_captions = np.random.default_rng(1).normal(size=(30, 8))
images, captions = image_embeddings, caption_embeddings
"""),
        ("sh", f"cat > my_encoder.py <<'E'\n{ENCODER}E\ncat > glove.840B.300d.txt <<'E'\n{VECTORS}E"),
        ("sh", "mkdir -p path/to/SentEval; ln -s ../../../data/raw/senteval path/to/SentEval/data"),
        ("python", """\
from my_encoder import model
def prepare(params, samples):
    assert params.batch_size == 64
def batcher(params, batch):
    return params.model([" ".join(words) for words in batch])
"""),
        ("sh", "git branch narrow"),  # tests/comparison has runs that differ
        ("sh", JUDGE),
        ("sh", "cp data/semantics/pairs.parquet other.parquet; mkdir ../other; cp -r data metrics plots ../other/"),
    ],
    "tutorial": [
        ("python", """\
import csv, shutil
from pathlib import Path
import pyarrow.parquet as pq
place = Path("../tutorial/my-pictures")
rows = pq.read_table("data/corpus/captions.parquet").to_pylist()
names = sorted({row["image_id"] for row in rows})[:60]
(place / "images").mkdir(parents=True)
for name in names:
    shutil.copy(Path("data/corpus/pictures") / name, place / "images" / name)
with open(place / "captions.csv", "w", newline="") as file:
    written = [[row["image_id"], row["text"]] for row in rows if row["image_id"] in names]
    csv.writer(file).writerows([["image", "caption"], *written])
"""),
        ("sh", "cd ../tutorial"),
    ],
    "training": [("sh", "git branch -M main; git branch small-gru-hidden16; git branch small-gru-hidden32")],
    "features": [
        ("python", """\
from pathlib import Path
from PIL import Image
for place, name in enumerate(["cat.jpg", "dog.png"]):
    Image.new("RGB", (300, 260), (90 * place, 120, 30)).save(name)
import torch
from safetensors.torch import save_file
from sightword.features.networks import build, find_backbone
Path("weights").mkdir()
torch.manual_seed(0)
save_file(build(find_backbone("densenet169"), initialise=True).state_dict(), "weights/densenet169.safetensors")
"""),
    ],
}  # fmt: skip
"""By page: what is run before its first block."""


def write_senteval(sample: Path, folder: Path) -> None:
    """SentEval's similarity sets, with the sentences of the sample's own ones in all of them."""
    shutil.copytree(sample, folder)
    own = sample / "downstream/STS/STSSample-en-test"
    count = 0
    for task, subtasks in SUBTASKS.items():
        to = folder / f"downstream/STS/{task}-en-test"
        to.mkdir(parents=True)
        for subtask in subtasks:
            for kind in ("input", "gs"):
                lines = (own / f"STS.{kind}.scenes.txt").read_text().splitlines(keepends=True)
                (to / f"STS.{kind}.{subtask}.txt").write_text("".join(lines[count:]))
            count += 1  # no two subtasks may be the same
    benchmark = folder / "downstream/STS/STSBenchmark"
    benchmark.mkdir()
    pairs = (own / "STS.input.scenes.txt").read_text().splitlines()
    gold = (own / "STS.gs.scenes.txt").read_text().splitlines()
    rows = "".join(
        f"g\tf\ty\t{place}\t{score}\t{pair}\n" for place, (pair, score) in enumerate(zip(pairs, gold, strict=True))
    )
    for part in ("train", "dev", "test"):
        (benchmark / f"sts-{part}.csv").write_text(rows)
