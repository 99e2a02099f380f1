"""Pictures and captions as the libraries that people use write them, to features; the shards to a report.

The libraries are imported where they write: they take seconds to load.
"""

from __future__ import annotations

import contextlib
import csv
import io
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import pyarrow.parquet as pq
import pytest
from checkout import Checkout
from PIL import Image
from stage_here import run_here

from pipeline.cli import main

RECIPE = """\
base: own
resize: {shards: 1}
features: {backbone: shufflenet_v2_x0_5, weights: sample_shufflenet.safetensors, crops: one,
  weights_sha256: 186f3cb523b8cc5dea43b5c721c24edbe2a9053700242e59de999f187beabc1a}
train: {hidden: 8, batch: 8, epochs: 1, cycle: 1}
select: {members: 1}
retrieval: {top: 2}
semantics: {tasks: [STSSample]}
epochs: {tasks: [STSSample]}
"""
OWN = Path("data/raw/own")
DRAWN = {"dev": (9, 48), "test": (10, 24)}
"""What the hash draws of the names of loose files."""
DRAWN_OF_SHARDS = {"dev": (45, 49), "test": (11, 57)}
"""What the hash draws of names such as ``00000/000000045``."""
NUMBERS = sorted([*range(8), *DRAWN["dev"], *DRAWN["test"], *DRAWN_OF_SHARDS["dev"], *DRAWN_OF_SHARDS["test"]])


class Picture(NamedTuple):
    """A picture of the corpus that all layouts have."""

    key: str
    data: bytes
    captions: list[str]
    split: str

    @property
    def name(self) -> str:
        return f"{self.key}.jpg"


def make(number: int) -> Picture:
    buffer = io.BytesIO()
    Image.new("RGB", (60 + number, 50), (4 * number, 90, 240 - 4 * number)).save(buffer, "JPEG")
    split = next((split for split, numbers in DRAWN.items() if number in numbers), "train")
    return Picture(f"{number:09d}", buffer.getvalue(), [f"Picture {number} .", f"Blue , in {number} ."], split)


PICTURES = [make(number) for number in NUMBERS]
ROWS = [(one.name, text, one.split) for one in PICTURES for text in one.captions]
THEIRS = {"train": "train", "dev": "validation", "test": "test"}
"""The names of splits in data sets of Hugging Face."""


def loose(folder: Path) -> None:
    folder.mkdir()
    for one in PICTURES:
        (folder / one.name).write_bytes(one.data)


def tsv_of_polars(folder: Path) -> None:
    import polars as pl

    loose(folder / "images")
    frame = pl.DataFrame(ROWS, schema=["file_name", "text", "split"], orient="row")
    frame.write_csv(folder / "captions.tsv", separator="\t")


def captions_of_kaggle(folder: Path) -> None:
    loose(folder / "Images")
    with (folder / "captions.txt").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("image", "caption"), *(row[:2] for row in ROWS)])


def parquet_of_polars(folder: Path) -> None:
    import polars as pl

    columns = {
        "image": [{"bytes": one.data, "path": one.name} for one in PICTURES],
        "captions": [one.captions for one in PICTURES],
        "split": [one.split for one in PICTURES],
    }
    pl.DataFrame(columns).write_parquet(folder / "all.parquet")


def of_datasets(split: str) -> Any:
    import datasets

    rows = [one for one in PICTURES if one.split == split]
    columns = {f"caption_{at}": [one.captions[at] for one in rows] for at in range(2)}
    kinds = {"image": datasets.Image()} | dict.fromkeys(columns, datasets.Value("string"))
    columns["image"] = [{"bytes": one.data, "path": one.name} for one in rows]
    return datasets.Dataset.from_dict(columns, features=datasets.Features(kinds))


def parquet_of_datasets(folder: Path) -> None:
    for split, theirs in THEIRS.items():
        of_datasets(split).to_parquet(folder / f"data/{theirs}-00000-of-00001.parquet")


def shards_of_img2dataset(folder: Path) -> None:
    """A shard with its table and its counts beside it, as img2dataset 1.47 writes them."""
    import polars as pl
    import webdataset

    facts = [{"key": one.key, "caption": one.captions[0], "status": "success"} for one in PICTURES]
    with webdataset.TarWriter(str(folder / "00000.tar")) as shard:
        for one, own in zip(PICTURES, facts, strict=True):
            shard.write({"__key__": one.key, "jpg": one.data, "json": own, "txt": one.captions[0]})
    pl.DataFrame(facts).write_parquet(folder / "00000.parquet")
    (folder / "00000_stats.json").write_text('{"count": 16, "successes": 16}')


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, small_run: Any) -> Checkout:
    folder = tmp_path_factory.mktemp("layouts")
    made: Checkout = small_run.copy(folder / "clone", folder / "store", Checkout)
    shutil.copytree(made.folder / "data/corpus/senteval", made.folder / "data/raw/senteval")
    (made.folder / "recipes/small.yaml").write_text(RECIPE)
    (made.folder / OWN).symlink_to(folder / "own")
    return made


def features_of(project: Checkout, write: Callable[[Path], None], repository: Path) -> dict[str, bytes]:
    """Run the stages on a layout; the features of each picture, by the sha256 of its bytes."""
    elsewhere = project.folder.parent / "own"
    shutil.rmtree(elsewhere, ignore_errors=True)
    elsewhere.mkdir()
    write(elsewhere)
    with contextlib.chdir(project.folder):
        assert main(["params", "--recipe", "small", "--from", str(OWN), "--force"]) == 0
    for stage in ("corpus", "resize", "features"):
        done = run_here(repository, project.folder, stage, SIGHTWORD_STORE=project.environment["SIGHTWORD_STORE"])
        assert done.returncode == 0, f"{write.__name__}: {done.stderr}"
    return read_features(project)


def read_features(project: Checkout) -> dict[str, bytes]:
    with h5py.File(project.folder / "data/features/features.h5") as file:
        hashes = [one.decode() for one in file["sha256"][:]]
        return {one: row.tobytes() for one, row in zip(hashes, file["features"][:], strict=True)}


@pytest.mark.full
def test_each_layout_gives_the_features_of_loose_files_and_shards_a_report(project: Checkout, repository: Path) -> None:
    tables = (tsv_of_polars, captions_of_kaggle, parquet_of_polars, parquet_of_datasets)
    expected: dict[str, bytes] = {}
    for layouts, drawn in ((tables, DRAWN), ((shards_of_img2dataset,), DRAWN_OF_SHARDS)):
        captions = None
        for write in layouts:
            found = features_of(project, write, repository)
            expected = expected or found
            assert found == expected, write.__name__
            assert len(found) == len(PICTURES)
            corpus = project.folder / "data/corpus"
            captions = captions or (corpus / "captions.parquet").read_bytes()
            assert (corpus / "captions.parquet").read_bytes() == captions, write.__name__
            splits = {
                Path(one["image_id"]).stem: one["split"] for one in pq.read_table(corpus / "images.parquet").to_pylist()
            }
            of = {f"{number:09d}": split for split, numbers in drawn.items() for number in numbers}
            assert splits == {one.key: of.get(one.key, "train") for one in PICTURES}, write.__name__
    (project.folder / "report/index.html").unlink()
    project.run("dvc", "repro")
    assert read_features(project) == expected
    assert (project.folder / "report/index.html").is_file()
