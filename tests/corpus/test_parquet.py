"""Data sets of Hugging Face and the like. The layouts are those that ``datasets`` 5.2.0 (``to_parquet``), pandas 3.1.1
and polars 2.1.0 wrote of the same pictures; here pyarrow writes them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sightword.corpus.reading import read_corpus
from sightword.corpus.records import Corpus
from sightword.corpus.settings import CorpusSettings
from sightword.corpus.tables import write_tables
from sightword.errors import CorpusError, FileFormatError
from sightword.evaluation.retrieval.protocols import drawn_splits
from sightword.images.resized import corpus_sources
from sightword.places.place import Place
from sightword.places.place import read as read_place

SPLITS = {"train": ["a.jpg", "b.jpg"], "validation": ["c.jpg"], "test": ["d.jpg"]}
PICTURE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def data(name: str) -> bytes:
    return b"picture " + name.encode()


def captions(name: str) -> list[str]:
    return [f"{name} one .", f"{name} two ."]


def picture(name: str) -> dict[str, Any]:
    return {"bytes": data(name), "path": name}


def write(path: Path, columns: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, row_group_size=2)


def hub(folder: Path) -> None:
    """A struct, a column for each caption, shards named by splits."""
    for split, names in SPLITS.items():
        for number, name in enumerate(names):
            columns = {f"caption_{place}": [captions(name)[place]] for place in range(2)}
            path = folder / f"data/{split}-{number:05d}-of-{len(names):05d}.parquet"
            write(path, {"image": pa.array([picture(name)], PICTURE), **columns})


def lists(folder: Path) -> None:
    """One file called TEST, with lists of captions, a column of splits, and names in a column."""
    rows = [(name, split) for split, names in SPLITS.items() for name in names]
    pictures = [{"bytes": data(name), "path": None} for name, _ in rows]
    columns = {"caption": [captions(name) for name, _ in rows], "split": [split for _, split in rows]}
    named = {"image": pa.array(pictures, PICTURE), **columns, "filename": [name for name, _ in rows]}
    write(folder / "TEST-00000-of-00001.parquet", named)


def pandas(folder: Path) -> None:
    """Bare bytes, a row for each caption."""
    rows = [(name, text, split) for split, names in SPLITS.items() for name in names for text in captions(name)]
    columns = {"caption": [text for _, text, _ in rows], "split": pa.array([split for *_, split in rows])}
    columns["split"] = columns["split"].dictionary_encode()
    write(
        folder / "all.parquet",
        {"file_name": [row[0] for row in rows], "image": [data(row[0]) for row in rows]} | columns,
    )


def read(folder: Path, **values: Any) -> Corpus:
    return read_corpus(CorpusSettings(format="table", path=str(folder), pictures=str(folder), **values))


def stored(folder: Path, corpus: Corpus) -> dict[str, bytes]:
    """The bytes of each picture, where the stage resize finds them."""
    write_tables(folder, corpus, "nowhere")
    return {
        one.image_id: read_place(Place(str(one.path), one.part), 1 << 20)
        for one in corpus_sources(folder / "images.parquet")
    }


@pytest.mark.parametrize("layout", [hub, lists, pandas])
def test_each_layout_gives_the_same_corpus_and_the_bytes_of_its_pictures(tmp_path: Path, layout: Any) -> None:
    layout(tmp_path / "in")
    corpus = read(tmp_path / "in")
    expected = {name: {"validation": "dev"}.get(split, split) for split, names in SPLITS.items() for name in names}
    assert {image.image_id: image.split for image in corpus.images} == expected
    assert [(one.image_id, one.text) for one in corpus.captions] == [
        (n, t) for n in sorted(expected) for t in captions(n)
    ]
    (tmp_path / "out").mkdir()
    assert stored(tmp_path / "out", corpus) == {name: data(name) for name in expected}


@pytest.mark.parametrize("path", [None, "https://example.org/a/1.jpg"])
def test_unnamed_pictures_deduplicate_by_hash(tmp_path: Path, path: str | None) -> None:
    names = ["a", "b", "a", "c", "d", "e"]
    pictures = [{"bytes": data(name), "path": path} for name in names]
    write(tmp_path / "train.parquet", {"image": pa.array(pictures, PICTURE), "text": [f"Row {n} ." for n in range(6)]})
    corpus = read(tmp_path, draw_dev=0.3, draw_test=0.3)
    called = {name: hashlib.sha256(data(name)).hexdigest()[:16] for name in "abcde"}
    assert sorted(image.image_id for image in corpus.images) == sorted(called.values())
    assert [one.text for one in corpus.captions if one.image_id == called["a"]] == ["Row 0 .", "Row 2 ."]


def test_paths_beside_missing_bytes_are_names_of_loose_files(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images/a.jpg").write_bytes(b"loose")
    write(tmp_path / "train.parquet", {"image": pa.array([{"bytes": None, "path": "a.jpg"}], PICTURE), "text": ["A ."]})
    settings = CorpusSettings(format="table", path=str(tmp_path), pictures=str(tmp_path / "images"))
    corpus = read_corpus(settings)
    write_tables(tmp_path, corpus, settings.pictures)
    assert [one.path for one in corpus_sources(tmp_path / "images.parquet")] == [f"{tmp_path}/images/a.jpg"]


def test_a_row_without_bytes_is_dropped_with_its_name(tmp_path: Path) -> None:
    pictures = pa.array([picture("a.jpg"), {"bytes": None, "path": "b.jpg"}], PICTURE)
    write(tmp_path / "train.parquet", {"image": pictures, "text": ["A .", "B ."]})
    corpus = read(tmp_path)
    assert [image.image_id for image in corpus.images] == ["a.jpg"]
    assert [(one.item, one.reason) for one in corpus.dropped] == [("b.jpg", "no picture file")]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"image": pa.array([picture("a")], PICTURE), "label": [3]},
         r"no column caption \(it has: image struct<bytes: binary, path: string>, label int64\)\..*{caption: label}"),
        ({"image": [3.5], "text": ["A ."]}, "'image' has the type double; expected the pictures' bytes, a struct"),
        ({"image": [b"x"], "text": [3.5]}, "the column 'text' has the type double; expected texts or lists of texts"),
        ({"image": [b"x"], "text": ["A ."], "split": [1]}, "the column 'split' has the type int64; expected texts"),
        ({"image": pa.array([], PICTURE), "text": pa.array([], pa.string())}, r"train\.parquet: has no rows"),
        ({"image": pa.array([None], pa.binary()), "text": ["A ."]}, "row 1: the picture has neither a name nor bytes"),
        ({"image": pa.array([{"bytes": None, "path": None}], PICTURE), "text": ["A ."]},
         r"row 1: the picture has neither a name nor bytes\. Write the data set with its pictures in it"),
        ({"image": [b"x", b"y"], "text": ["A .", "B ."], "filename": ["a", "a"]},
         "row 2: the picture 'a' has other bytes than in an earlier row.*corpus.columns"),
        ({"image": [b"x"], "text": ["A ."], "filename": ["../a"]}, "row 1: the path '../a' leaves the folder"),
        ({"image": [b"x"], "text": ["A ."], "split": ["tset"]}, "row 1: unknown split 'tset'; expected one of train"),
    ],
)  # fmt: skip
def test_a_table_of_another_layout_is_refused_in_a_line(tmp_path: Path, columns: Any, message: str) -> None:
    write(tmp_path / "train.parquet", columns)
    with pytest.raises(CorpusError, match=message) as found:
        read(tmp_path)
    assert len(str(found.value)) < 400


def test_a_damaged_file_and_files_of_two_layouts_are_named(tmp_path: Path) -> None:
    write(tmp_path / "train.parquet", {"image": [b"x"], "text": ["A ."]})
    write(tmp_path / "test.parquet", {"image": [b"x"], "caption": ["A ."]})
    with pytest.raises(CorpusError, match=r"train\.parquet: has other columns than test\.parquet"):
        read(tmp_path)
    whole = (tmp_path / "train.parquet").read_bytes()
    (tmp_path / "test.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileFormatError, match=r"test\.parquet: is not a whole Parquet file"):
        read(tmp_path)


def test_arrow_files_are_refused_with_the_way_to_parquet(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "train/data-00000-of-00001.arrow").write_bytes(b"ARROW1")
    for values in ({}, {"file": "train/*.arrow"}):
        with pytest.raises(
            CorpusError, match=r"holds Arrow files; expected Parquet files\. Write .*to_parquet\(FILE\)"
        ):
            read(tmp_path, **values)


def test_a_drawn_split_keeps_copies_together_moves_nobody_else_and_is_told(tmp_path: Path) -> None:
    names = [f"{number:03d}.jpg" for number in range(400)]
    copies = {"399.jpg": "000.jpg", "398.jpg": "001.jpg"}

    def made(folder: str, some: Sequence[str]) -> Corpus:
        (tmp_path / folder / "images").mkdir(parents=True)
        lines = ["image,caption", *(f"{name},A dog ." for name in some)]
        (tmp_path / folder / "captions.txt").write_text("\n".join(lines))
        for name in some:
            (tmp_path / folder / "images" / name).write_bytes(data(copies.get(name, name)))
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
    told = f"{counts['dev']} dev (20 %) and {counts['test']} test (30 %) of 400 pictures drawn by a hash of their ids"
    assert drawn_splits(tmp_path / "images.parquet") == f"{told}, 2 copies with their originals"


def test_a_split_that_the_data_name_is_not_drawn(tmp_path: Path) -> None:
    names = [f"{number}" for number in range(60)]
    write(tmp_path / "all.parquet", {"image": [*map(data, names)], "text": ["A ."] * 60, "filename": names,
                                     "split": ["val" if number < 9 else "train" for number in range(60)]})  # fmt: skip
    corpus = read(tmp_path, draw_dev=0.5, draw_test=0.5 - 1e-9)
    assert sum(image.split == "dev" for image in corpus.images) == 9
    assert "dev" not in corpus.drawing
    assert corpus.counts()["test"] > 10
    assert all(one.split == "dev" for one in corpus.images if one.image_id in names[:9])
    assert read(tmp_path).counts() == {"train": 51, "dev": 9, "test": 0}
