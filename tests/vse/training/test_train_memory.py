"""The memory of the stage train: COCO trains on a plain computer, since its features are held once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from memory import peak
from ruamel.yaml import YAML

from sightword.captions.table import CaptionTable, write_captions
from sightword.captions.vocabulary import FOLDER, Vocabulary
from sightword.features.tables.table import Origin, write_features

COCO = 113_287
WIDTH = 2048
DEV = 100


def of_pictures(repository: Path, folder: Path, pictures: int, **settings: object) -> Path:
    """What the stage train reads: five captions a picture, of Flickr8k's lengths."""
    random = np.random.default_rng(0)
    names = [f"{number:06d}" for number in range(pictures)]
    splits = ["dev" if number < DEV else "train" for number in range(pictures)]
    blocks = (
        (rows, random.standard_normal((len(rows), WIDTH), np.float32))
        for rows in np.array_split(np.arange(pictures), pictures // 1000 + 1)
    )
    origin = Origin("resnet152", "", "w", "", "{}", "fp32", "extracted")
    write_features(folder / "data/features/features.h5", names, [""] * pictures, WIDTH, blocks, origin)
    lines = ["a dog runs over the green grass", "two men on a bench in the snow, one of them with a red hat on"]
    vocabulary = Vocabulary.build(lines)
    ids = [np.asarray(vocabulary.encode(line), np.int32) for line in lines]
    captions = 5 * pictures
    write_captions(
        folder / "data/captions/captions.parquet",
        CaptionTable(
            image_ids=[name for name in names for _ in range(5)],
            captions=list(range(5)) * pictures,
            splits=[split for split in splits for _ in range(5)],
            texts=[lines[number % 2] for number in range(captions)],
            ids=[ids[number % 2] for number in range(captions)],
        ),
    )
    FOLDER.write(folder / "data/captions", vocabulary.to_json(), ["captions.parquet"])
    document = YAML(typ="safe", pure=True).load((repository / "params.yaml").read_text())
    document["select"]["members"] = 1
    document["train"] |= {"epochs": 1, "cycle": 1, "captions_per_epoch": "one", **settings}
    with (folder / "params.yaml").open("w") as stream:
        YAML().dump(document, stream)
    return folder


@pytest.mark.full
def test_memory_is_that_of_the_features_and_a_batch(repository, tmp_path):
    held = {}
    for pictures in (1_000, COCO // 10):
        folder = of_pictures(repository, tmp_path / str(pictures), pictures, hidden=64, batch=500)
        scratch = str(tmp_path / f"scratch-{pictures}")
        held[pictures] = peak(repository, folder, "-m", "stages", "train", "-q", SIGHTWORD_SCRATCH=scratch)
    growth = (held[COCO // 10] - held[1_000]) / (COCO // 10 - 1_000)  # megabytes a picture
    assert growth > WIDTH * 4 / 1e6
    # 1.5 GB stands for torch and a batch of the largest published network.
    assert growth * COCO + 1500 < 6000
