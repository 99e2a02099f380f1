"""Splits that a hash draws, and the sealed one, whose captions only retrieval on it reads."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings, strategies
from pydantic import ValidationError

from sightword.captions.settings import CaptionsSettings
from sightword.captions.table import read_captions, read_texts, sealed_pictures
from sightword.corpus.reading import SEALED_SALT as SALT
from sightword.corpus.reading import read_corpus
from sightword.corpus.records import Corpus, write_tables
from sightword.corpus.settings import CorpusSettings
from sightword.errors import CorpusError
from sightword.evaluation.retrieval.protocols import drawn_splits
from sightword.evaluation.retrieval.settings import RetrievalSettings
from sightword.grounded.judging.settings import JudgeSettings
from sightword.io.files import write_table
from sightword.vse.selection.settings import SelectSettings
from stages import captions, corpus

Splits = dict[str, str]
"""The split of each picture, by its name."""
NAMES = strategies.text("abcdefghij0123456789", min_size=1, max_size=8).map("{}.jpg".format)


def write(folder: Path, splits: Splits) -> CorpusSettings:
    """A table of two captions a picture."""
    rows = [f"{name},Caption {number} of {name},{split}" for name, split in splits.items() for number in (0, 1)]
    (folder / "all.csv").write_text("\n".join(["image,caption,split", *rows]))
    return CorpusSettings(format="table", path=str(folder), pictures=str(folder), require_pictures=False)


def sealed(settings: CorpusSettings, count: int) -> Corpus:
    return read_corpus(settings.model_copy(update={"seal": count}))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=strategies.data())
def test_sealed_pictures_are_the_training_pictures_of_smallest_hash(
    data: strategies.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    names = data.draw(strategies.lists(NAMES, min_size=5, max_size=20, unique=True))
    others = data.draw(strategies.lists(strategies.sampled_from(["train", "dev", "test"]), max_size=len(names) - 5))
    splits = dict(zip(names, ["train", "train", "train", "dev", "test", *others], strict=False))
    read = write(tmp_path_factory.mktemp("corpus"), splits)
    training = [name for name, split in splits.items() if split == "train"]
    count = data.draw(strategies.integers(1, len(training) - 1))
    order = sorted(training, key=lambda name: hashlib.sha256((SALT + name).encode()).digest())
    found = {image.image_id: image.split for image in sealed(read, count).images}
    assert found == splits | dict.fromkeys(order[:count], "sealed")
    assert sealed(read, 0) == read_corpus(read)


def test_sealed_split_that_leaves_no_training_picture_is_refused(tmp_path: Path) -> None:
    read = write(tmp_path, {"a.jpg": "train", "b.jpg": "train", "c.jpg": "test"})
    with pytest.raises(CorpusError, match=r"corpus\.seal is 2; expected fewer than the 2 training pictures"):
        sealed(read, 2)
    with pytest.raises(ValidationError, match="greater than or equal to 0"):
        CorpusSettings(format="table", seal=-1)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the tables of six pictures, of which two are sealed."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "raw"
    folder.mkdir()
    splits = {f"{letter}.jpg": "train" for letter in "abcd"} | {"e.jpg": "dev", "f.jpg": "test"}
    read = write(folder, splits)
    corpus.work(read.model_copy(update={"seal": 2, "path": "raw", "pictures": "raw"}))
    return tmp_path


def test_stages_after_captions_are_the_same_whatever_the_sealed_captions_say(workspace: Path) -> None:
    """The vocabulary and all that the readers return."""

    def prepared() -> tuple[bytes, list[object]]:
        captions.work(CaptionsSettings())
        tables = [read_captions("data/captions/captions.parquet"), read_texts("data/corpus/captions.parquet")]
        every = [[*map(str, column)] for table in tables for column in vars(table).values()]
        return Path("data/captions/vocabulary.json").read_bytes(), every

    before = prepared()
    table = pq.read_table("data/corpus/captions.parquet")
    held = sealed_pictures("data/corpus/captions.parquet")
    assert len(held) == 2
    texts = [
        "Ω ∑ ∞" if split == "sealed" else text
        for split, text in zip(table["split"].to_pylist(), table["text"].to_pylist(), strict=True)
    ]
    write_table("data/corpus/captions.parquet", table.set_column(3, "text", pa.array(texts)))
    assert prepared() == before
    assert not held.intersection(read_captions("data/captions/captions.parquet").image_ids)
    assert "Ω ∑ ∞" in read_captions("data/captions/captions.parquet", withheld=["sealed"]).split("sealed").texts


def test_only_retrieval_may_name_the_sealed_split() -> None:
    assert RetrievalSettings(split="sealed").split == "sealed"
    with pytest.raises(ValidationError):
        SelectSettings(split="sealed")
    with pytest.raises(ValidationError):
        JudgeSettings(splits=["sealed"])


def test_drawn_split_keeps_copies_together_and_is_told(tmp_path: Path) -> None:
    names = [f"{number:03d}.jpg" for number in range(400)]
    copies = {"399.jpg": "000.jpg", "398.jpg": "001.jpg"}

    def made(folder: str, some: Sequence[str]) -> Corpus:
        (tmp_path / folder / "images").mkdir(parents=True)
        lines = ["image,caption", *(f"{name},A dog ." for name in some)]
        (tmp_path / folder / "captions.txt").write_text("\n".join(lines))
        for name in some:
            (tmp_path / folder / "images" / name).write_bytes(copies.get(name, name).encode())
        return read_corpus(CorpusSettings(
            format="table", path=str(tmp_path / folder), pictures=str(tmp_path / folder / "images"),
            draw_dev=0.2, draw_test=0.3,
        ))  # fmt: skip

    whole = made("whole", names)
    split = {image.image_id: str(image.split) for image in whole.images}
    assert all(split[copy] == split[name] for copy, name in copies.items())
    # sha256 by hand, as the docstring says
    for name in names[:398]:
        number = int(hashlib.sha256(b"sightword drawn split 1\n" + name.encode()).hexdigest()[:16], 16) / 16**16
        assert split[name] == ("dev" if number < 0.2 else "test" if number < 0.5 else "train")
    part = made("part", [name for name in names[::2] if name not in copies])
    assert all(split[image.image_id] == image.split for image in part.images)
    write_tables(tmp_path, whole, "images")
    counts = whole.counts()
    told = f"{counts['dev']} dev (20 % asked for) and {counts['test']} test (30 % asked for) of 400 pictures"
    drawn = f"{told} drawn by a hash of their ids, 2 copies with their originals"
    assert drawn_splits(tmp_path / "images.parquet") == drawn


def test_split_that_the_data_name_is_not_drawn(tmp_path: Path) -> None:
    names = [f"{number}" for number in range(60)]
    columns = {"image": [name.encode() for name in names], "text": ["A ."] * 60, "filename": names}
    columns["split"] = ["val" if number < 9 else "train" for number in range(60)]
    write_table(tmp_path / "all.parquet", pa.table(columns))

    def read(**draws: float) -> Corpus:
        return read_corpus(CorpusSettings(format="table", path=str(tmp_path), pictures=str(tmp_path), **draws))

    corpus = read(draw_dev=0.5, draw_test=0.5 - 1e-9)
    assert sum(image.split == "dev" for image in corpus.images) == 9
    assert "dev" not in corpus.drawing
    assert corpus.counts()["test"] > 10
    assert all(one.split == "dev" for one in corpus.images if one.image_id in names[:9])
    assert read().counts() == {"train": 51, "dev": 9, "test": 0}
