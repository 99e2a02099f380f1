"""A small collection that can be searched, with an encoder that was never trained and features of a small network."""

from __future__ import annotations

import io
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from extracting import extract
from finished_run import drawn
from numpy.typing import NDArray
from PIL import Image

from sightword.captions.table import CaptionTable, read_texts, write_captions
from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.parts import parts_of
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.features.identity import Transform
from sightword.features.networks import find_backbone
from sightword.features.tables.table import FeatureTable, Origin, read_features, write_features
from sightword.features.weights import Weights
from sightword.images.resized import Source, write_resized
from sightword.images.settings import ResizeSettings
from sightword.io.files import sha256_file
from sightword.model.encoders import Encoders
from sightword.model.settings import ModelSettings

BACKBONE, SEED, SIDE, CROP = "squeezenet1_1", 1, 64, 48
TRANSFORM = Transform(
    resize=SIDE, interpolation="lanczos", exif=False, crops="one", crop=CROP,
    mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), relu=False, l2=False,
)  # fmt: skip
EVIL = "<img src=x onerror=alert(1)>.png"
INJECTION = '<script>document.title = "broken"</script><b onmouseover="alert(2)">a red circle</b>'


@dataclass(frozen=True)
class World:
    """Where it is: as a project has it, and ``files`` with the picture files, named by their ids."""

    folder: Path

    @property
    def features(self) -> Path:
        return self.folder / "data/features/features.h5"

    @property
    def files(self) -> Path:
        return self.folder / "files"

    def encoder(self) -> SentenceEncoder:
        return SentenceEncoder.load(self.folder / "models/encoder")

    def table(self) -> FeatureTable:
        return read_features(self.features)

    def captions(self) -> CaptionTable:
        return read_texts(self.folder / "data/captions/captions.parquet")


def cosines(rows: NDArray[np.float32], query: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the cosine of each row with a query."""
    sides = [side / np.linalg.norm(side, axis=-1, keepdims=True) for side in (rows.astype(float), query.astype(float))]
    return sides[0] @ sides[1]


def bomb(side: int) -> bytes:
    """A small PNG whose header says that it is a large picture."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    pixels = zlib.compress(bytes(100_000))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def make(folder: Path, pictures: int = 30) -> World:
    """Make it: every third picture is of test, and one has a name and a caption that attack a web page."""
    world = World(folder)
    world.files.mkdir(parents=True)
    ids, texts = [], {}
    for number in range(pictures):
        picture = EVIL if number == 0 else f"scene-{number:03d}.png"
        data, colour, shape = drawn(number)
        with Image.open(io.BytesIO(data)) as image:
            image.save(world.files / picture)
        ids.append(picture)
        texts[picture] = [f"a {colour} {shape}", f"there is one {shape} in {colour} ."]
    texts[EVIL][0] = INJECTION
    ids.sort()
    paths = [world.files / picture for picture in ids]
    write_resized(
        folder / "data/resized",
        [Source(picture, str(path)) for picture, path in zip(ids, paths, strict=True)],
        ResizeSettings(side=SIDE, shards=2),
    )
    values = extract(paths, BACKBONE, "random", weights_seed=SEED, resize=SIDE, crop=CROP, crops="one", device="cpu")
    weights = Weights(find_backbone(BACKBONE), "random", seed=SEED)
    origin = Origin(
        BACKBONE, weights.backbone.feature_point, weights.name, weights.sha256, TRANSFORM.as_json(), "fp32", "extracted"
    )
    hashes = [sha256_file(path) for path in paths]
    write_features(world.features, ids, hashes, values.shape[1], [(np.arange(len(ids)), values)], origin)
    vocabulary = Vocabulary.build(text for both in texts.values() for text in both)
    rows = [(picture, number, text) for picture in ids for number, text in enumerate(texts[picture])]
    splits = {picture: ("test", "dev", "train")[place % 3] for place, picture in enumerate(ids)}
    write_captions(
        folder / "data/captions/captions.parquet",
        CaptionTable(
            [picture for picture, _, _ in rows],
            [number for _, number, _ in rows],
            [splits[picture] for picture, _, _ in rows],
            [text for _, _, text in rows],
            [np.array(vocabulary.encode(text), np.int32) for _, _, text in rows],
        ),
    )
    torch.manual_seed(0)
    model = ModelSettings(embedding=5, hidden=8, attention=4)
    members = [Encoders(len(vocabulary), values.shape[1], model.shape).eval() for _ in range(2)]
    notes = {"features": dict(read_features(world.features).attributes)}
    SentenceEncoder(parts_of(members, vocabulary, model.shape), notes=notes).save(folder / "models/encoder")
    return world
