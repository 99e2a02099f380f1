"""A finished run in a folder of its own, made without the stages before: what the stage report reads."""

from __future__ import annotations

import hashlib
import io
import json
import math
import random
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image, ImageDraw

from sightword.captions.units import Unit
from sightword.captions.vocabulary import Vocabulary
from sightword.evaluation.semantics.datasets import RatedPairs
from sightword.evaluation.semantics.results import Judged, write_pairs
from sightword.images.shards import ResizedPicture, shard_of, shard_path, write_shard
from sightword.io.files import write_table
from sightword.report.inputs import RunFiles

COLOURS = {"red": "#c33", "blue": "#36c", "green": "#393", "yellow": "#db3"}
SHAPES = ("circle", "square", "triangle")
SHARDS = 2


def drawn(number: int) -> tuple[bytes, str, str]:
    """A picture as WebP, its colour and its shape."""
    colour, shape = list(COLOURS)[number % 4], SHAPES[number % 3]
    picture = Image.new("RGB", (341, 256) if number % 2 else (256, 256), "#eef")
    brush = ImageDraw.Draw(picture)
    corner, size = 30 + 7 * (number % 9), 70 + 5 * (number % 13)
    box = (corner, corner, corner + size, corner + size)
    if shape == "circle":
        brush.ellipse(box, fill=COLOURS[colour])
    elif shape == "square":
        brush.rectangle(box, fill=COLOURS[colour])
    else:
        brush.polygon([(box[0], box[3]), (box[2], box[3]), ((box[0] + box[2]) // 2, box[1])], fill=COLOURS[colour])
    buffer = io.BytesIO()
    picture.save(buffer, "WEBP", lossless=True)
    return buffer.getvalue(), colour, shape


def write_run(folder: Path, *, pictures: int = 40, with_shards: bool = True) -> RunFiles:
    """Every input of the stage report, of a made-up run of ``pictures`` test pictures with two captions each."""
    ids = [f"scene-{number:03d}.png" for number in range(pictures)]
    made = {image_id: drawn(number) for number, image_id in enumerate(ids)}
    captions = [
        (image_id, caption, "test", f"a {colour} {shape}" if caption == 0 else f"there is one {shape} in {colour}")
        for image_id, (_, colour, shape) in made.items()
        for caption in (0, 1)
    ]
    captions.append(("train-0.png", 0, "train", "never shown"))
    dropped = [("picture", "gone.png", "no picture file", ""), ("caption", "scene-000.png#7", "empty caption", "")]
    table(folder / "data/corpus/dropped.parquet", ["kind", "item", "reason", "detail"], dropped)
    table(folder / "data/captions/captions.parquet", ["image_id", "caption", "split", "text"], captions)
    for shard in range(SHARDS):
        rows = [
            ResizedPicture(i, hashlib.sha256(made[i][0]).hexdigest(), "", *size(made[i][0]), "webp", made[i][0])
            for i in ids
            if with_shards and shard_of(i, SHARDS) == shard
        ]
        (folder / "data/resized").mkdir(parents=True, exist_ok=True)
        write_shard(shard_path(folder / "data/resized", shard), rows, {"resize": 256})
    table(folder / "data/resized/rejects.parquet", ["image_id", "reason", "detail"], [])
    table(
        folder / "data/retrieval/top.parquet",
        ["split", "direction", "query_image", "query_caption", "position", "image_id", "caption", "score", "right"],
        top_answers(ids),
    )
    write_metrics(folder, pictures)
    write_encoder(folder / "models/encoder")
    write_semantics(folder)
    return RunFiles(
        dropped=folder / "data/corpus/dropped.parquet",
        captions=folder / "data/captions/captions.parquet",
        resized=folder / "data/resized",
        top=folder / "data/retrieval/top.parquet",
        pairs=folder / "data/semantics",
        metrics=folder / "metrics",
        encoder=folder / "models/encoder",
        plots=folder / "plots",
    )


def top_answers(ids: list[str]) -> list[tuple[object, ...]]:
    """Answers in which a third of the queries is right at once, a third later, and a third never."""
    draw = random.Random(0)
    rows: list[tuple[object, ...]] = []
    for direction in ("caption_to_image", "image_to_caption"):
        for number, image_id in enumerate(ids):
            for caption in (0, 1) if direction == "caption_to_image" else (-1,):
                place = (1, 2 + number % 9, 0)[number % 3]
                others = draw.sample([other for other in ids if other != image_id], 10)
                if place:
                    others[place - 1] = image_id
                for position, answer in enumerate(others, start=1):
                    which = -1 if direction == "caption_to_image" else position % 2
                    score = 1 - position / 20
                    rows.append(
                        ("test", direction, image_id, caption, position, answer, which, score, answer == image_id)
                    )
    return rows


def write_metrics(folder: Path, pictures: int) -> None:
    def direction(queries: int, r1: float, r5: float, r10: float) -> dict[str, float]:
        recalls = {"r1": r1, "r5": r5, "r10": r10}
        widths = {
            f"{key}_ci95": 196 * math.sqrt(value / 100 * (1 - value / 100) / queries) for key, value in recalls.items()
        }
        return {**recalls, "median_rank": 2.5, "mean_rank": 5.25, "queries": queries, **widths}

    def scores(pearson: float, seen: float, pairs: int = 750) -> dict[str, object]:
        ends = [pearson - 0.06, pearson + 0.05]
        return {
            "pearson": pearson,
            "spearman": pearson - 0.02,
            "pairs": pairs,
            "pearson_ci95": ends,
            "seen_in_training": seen,
        }

    full = {
        "caption_to_image": direction(2 * pictures, 33.3, 50.0, 66.7),
        "image_to_caption": direction(pictures, 33.3, 55.0, 66.7),
        "rsum": 305.0,
    }
    files: dict[str, object] = {
        "metrics/train.json": {
            "pictures": 300,
            "captions": 1500,
            "parameters": 123456,
            "epochs": 8,
            "snapshots": 2,
            "loss": 0.0123,
        },
        "metrics/select.json": {"snapshots": 2, "members": 2, "chosen_epochs": "8+4", "ensemble_r10": 61.5},
        "metrics/retrieval.json": {"test": {"full": full}},
        "metrics/semantics.json": {
            "STS15": {
                "images": scores(0.71, 0.755),
                "headlines": scores(0.42, 0.0),
                "mean": {"pearson": 0.565, "spearman": 0.545},
                "weighted_mean": {"pearson": 0.565, "spearman": 0.545},
                "all": {"pearson": 0.55, "spearman": 0.53},
            },
            "STSBenchmark": {"cosine": scores(0.6, 0.07, 1379), "trained": scores(0.66, 0.07, 1379)},
            "SICKRelatedness": {"cosine": scores(0.63, 0.025, 4927)},
        },
    }
    for name, value in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(value))
    steps = range(1, 401)
    curves = {
        "loss": ["step\tloss", *(f"{step}\t{0.2 * math.exp(-step / 100) + 0.01 * (step % 7)}" for step in steps)],
        "learning_rate": [
            "step\tlearning_rate",
            *(f"{step}\t{0.0005 * (1 - math.cos(2 * math.pi * step / 200)) + 1e-6}" for step in steps),
        ],
        "recall": [
            "\t".join(
                ["epoch", *(f"{to}_r{k}" for to in ("caption_to_image", "image_to_caption") for k in (1, 5, 10))]
            ),
            *(
                "\t".join(str(value) for value in (epoch, *(k * epoch + extra for extra in (0, 4) for k in (3, 5, 7))))
                for epoch in range(1, 9)
            ),
        ],
    }
    epochs = [
        "epoch\tcaption_to_image_r10\timage_to_caption_r10\tsemantics\tSTS15\tSTSBenchmark",
        "4\t40\t44\t51.5\t48.5\t54.5",
        "8\t68\t72\t\t56.5\t",
    ]
    tables = {f"train/{name}": lines for name, lines in curves.items()} | {"epochs/epochs": epochs}
    for name, lines in tables.items():
        path = folder / "plots" / f"{name}.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")


NOTES: dict[str, Any] = {
    "epochs": [8, 4],
    "training": {
        "cell": "gru",
        "hidden": 64,
        "margin": 0.2,
        "clip_images": None,
        "pooling": "attention",
        "snapshots": "cycle",
        "cycle": 4,
    },
    "features": {
        "backbone": "mobilenet_v3_small",
        "weights": "random:0",
        "weights_sha256": "0" * 64,
        "origin": "computed",
        "checksum": "f" * 64,
        "transform": '{"crop":224,"crops":"ten"}',
    },
}
"""What the encoder says of how it was made."""


def write_encoder(folder: Path, *, unit: Unit = "character", **shape: object) -> None:
    """A small encoder that never learned anything."""
    for name, data in _encoder(unit, tuple(sorted(shape.items()))).items():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


@cache
def _encoder(unit: Unit, shape: tuple[tuple[str, object], ...]) -> dict[str, bytes]:
    import torch

    from sightword.encoder.parts import parts_of
    from sightword.encoder.sentence_encoder import SentenceEncoder
    from sightword.model.encoders import Encoders
    from sightword.model.settings import ModelSettings

    torch.manual_seed(0)
    model = ModelSettings.model_validate({"embedding": 4, "hidden": 3, "attention": 5, **dict(shape)})
    texts = ["a red circle", "there is one blue square in green", "yellow triangle"]
    vocabulary = Vocabulary.build(texts, unit=unit)
    members = [Encoders(len(vocabulary), 6, model.shape) for _ in range(2)]
    with tempfile.TemporaryDirectory() as place:
        SentenceEncoder(parts_of(members, vocabulary, model.shape), notes=NOTES).save(place)
        return {path.name: path.read_bytes() for path in Path(place).iterdir()}


def write_semantics(folder: Path) -> None:
    """Every pair's score, the worst ones, and the tables of the drawings."""
    draw = np.random.default_rng(0)

    def judged(task: str, subtask: str, count: int) -> Judged:
        gold = draw.uniform(0, 5, count)
        texts = [f"sentence {number} of {task}" for number in range(count)]
        seen = draw.random(count) < 0.2
        pairs = RatedPairs(texts, [f"the {text}" for text in texts], gold)
        return Judged(task, subtask, pairs, gold / 5 + draw.normal(0, 0.2, count), {}, (seen, np.zeros(count, bool)))

    (folder / "data/semantics").mkdir(parents=True, exist_ok=True)
    (folder / "plots/semantics").mkdir(parents=True, exist_ok=True)
    rows = [
        judged("STS15", "images", 40),
        judged("STS15", "headlines", 60),
        judged("STSBenchmark", "cosine", 30),
        judged("STSBenchmark", "trained", 30),
    ]
    write_pairs(folder / "data/semantics/pairs.parquet", rows)
    texts = {
        "data/semantics/worst.tsv": "subtask\tgold\tscore\tgold_rank\tscore_rank\tfirst\tsecond\n"
        'STS15 images\t4.5\t0.101\t95\t3\t"He said ""no"" ."\tA tab\n'
        "STS15 headlines\t0\t0.950\t1\t99\ta<b>c\td & e\n",
        "plots/semantics/breakdown.tsv": "name\tpairs\trank_difference\tlean\nlength up to 5\t90\t0.200000\t-0.010000\n"
        "length over 30\t0\t\t\noverlap none\t40\t0.310000\t0.020000\n",
        "plots/semantics/systems.tsv": "name\tsystem\tpearson\tlo\thi\n"
        "STS15 images\tthis encoder\t0.71\t0.65\t0.76\nSTS15 images\tInferSent\t0.85\t0.83\t0.87\n"
        "STS15 images\tBOW (GloVe)\t0.69\t0.65\t0.72\nSTS15 images\tchar-GRU (COCO)\t0.9\t0.88\t0.91\n"
        "STS15 mine\tthis encoder\t0.5\t0.4\t0.6\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)


def table(path: Path, names: list[str], rows: list[tuple[object, ...]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = zip(*rows, strict=True) if rows else [[] for _ in names]
    write_table(path, pa.table({name: pa.array(list(column)) for name, column in zip(names, columns, strict=True)}))


def size(data: bytes) -> tuple[int, int]:
    with Image.open(io.BytesIO(data)) as picture:
        return picture.size


def change(path: Path, **values: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
