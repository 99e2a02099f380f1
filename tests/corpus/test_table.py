"""A user's own tables."""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sightword.corpus.reading import read_corpus
from sightword.corpus.records import Corpus, write_tables
from sightword.corpus.settings import CorpusSettings
from sightword.errors import CorpusError, FileFormatError
from sightword.images.resized import corpus_sources
from sightword.places.place import Place
from sightword.places.place import read as read_place

ROWS = [
    ("cats/one.jpg", "A cat, asleep .", "train"),
    ("two.png", "Ein Hund läuft .", "validation"),
    ("cats/one.jpg", "Again .", "train"),
    ("three.jpg", "Left out .", ""),
    ("two.png", "Ein Hund läuft .", "validation"),
    ("four.jpg", "Last .", "test"),
]


def read(folder: Path, **values: object) -> Corpus:
    values = {"pictures": str(folder / "pictures"), "require_pictures": False, **values}
    return read_corpus(CorpusSettings(format="table", path=str(folder), **values))


def texts(corpus: Corpus) -> list[tuple[str, str]]:
    return [(caption.image_id, caption.text) for caption in corpus.captions]


def frame() -> pd.DataFrame:
    return pd.DataFrame(ROWS, columns=["image", "caption", "split"])


def test_csv_and_parquet_give_the_same_corpus(tmp_path: Path) -> None:
    for kind in ("csv", "parquet"):
        (tmp_path / kind).mkdir()
    frame().assign(extra=1).to_csv(tmp_path / "csv/my.csv", index=False)
    frame().to_parquet(tmp_path / "parquet/my.parquet")
    corpus = read(tmp_path / "csv")
    assert corpus == read(tmp_path / "parquet")
    assert [(image.image_id, image.split) for image in corpus.images] == [
        ("cats/one.jpg", "train"),
        ("four.jpg", "test"),
        ("two.png", "dev"),
    ]
    assert [caption.text for caption in corpus.captions] == ["A cat, asleep .", "Again .", "Last .", "Ein Hund läuft ."]
    assert [(row.item.split("#")[0], row.reason) for row in corpus.dropped] == [
        ("two.png", "duplicate"),
        ("three.jpg", "in no split"),
    ]


# As published: Kaggle's Flickr8k, Flickr30k's own file; and lists in JSON, as Parquet of Hugging Face becomes CSV.
PUBLISHED = {
    "captions.txt": 'image,caption\na.jpg,A dog .\na.jpg,"Water , a dog ."\nb.jpg,"A sign reads ""no"" ."\n',
    "results_20130124.token": 'a.jpg#0\tA dog .\na.jpg#1\tWater , a dog .\nb.jpg#0\tA sign reads "no" .\n',
    "pandas.tsv": 'image\tcaption\na.jpg\tA dog .\na.jpg\tWater , a dog .\nb.jpg\t"A sign reads ""no"" ."\n',
    "own.tsv": 'filename\tsentence\na.jpg\tA dog .\na.jpg\tWater , a dog .\nb.jpg\tA sign reads "no" .\n',
    "wide.csv": 'file_name,caption_0,caption_1\na.jpg,A dog .,"Water , a dog ."\nb.jpg,"A sign reads ""no"" .",\n',
    "json.csv": 'image,caption\na.jpg,"[""A dog ."", ""Water , a dog .""]"\nb.jpg,"[""A sign reads \\""no\\"" .""]"\n',
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_tables_give_the_same_captions(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(PUBLISHED[name])
    with pytest.raises(CorpusError, match=r"names no split; expected a column split.* Set corpus\.draw_dev and"):
        read(tmp_path)
    corpus = read(tmp_path, draw_test=0.5)
    assert texts(corpus) == [("a.jpg", "A dog ."), ("a.jpg", "Water , a dog ."), ("b.jpg", 'A sign reads "no" .')]
    assert {image.image_id: image.split for image in corpus.images} == {"a.jpg": "train", "b.jpg": "test"}
    assert corpus.drawing.startswith("1 test (50 % asked for) of 2 pictures drawn by a hash of their ids")


def test_file_is_of_the_split_in_its_name(tmp_path: Path) -> None:
    for split in ("train", "val", "test"):
        (tmp_path / f"captions_{split}.csv").write_text(f"photo,alt\n{split}.jpg,A dog .\n")
    corpus = read(tmp_path, columns={"image": "photo", "caption": "alt"})
    assert [(image.image_id, image.split) for image in corpus.images] == [
        ("test.jpg", "test"),
        ("train.jpg", "train"),
        ("val.jpg", "dev"),
    ]
    (tmp_path / "more.csv").write_text("photo,alt\n")
    with pytest.raises(
        CorpusError, match=r"tables named by splits, but has captions_.*Name the right one in corpus.file"
    ):
        read(tmp_path)
    assert len(read(tmp_path, file="captions_*.csv", columns={"image": "photo", "caption": "alt"}).images) == 3
    with pytest.raises(CorpusError, match=r"has no column 'foto' \(it has: photo, alt\)\. Correct corpus\.columns"):
        read(tmp_path, file="captions_*.csv", columns={"image": "foto"})


def test_column_of_languages_gives_captions_their_language(tmp_path: Path) -> None:
    rows = frame().assign(language=["en", "de", "", "en", "de", "fr"])
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows.replace({"language": {"": None}}).to_parquet(tmp_path / "rows.parquet")
    for name in ("rows.csv", "rows.parquet"):
        found = [(one.text, one.language) for one in read(tmp_path, file=name).captions]
        assert found == [("A cat, asleep .", "en"), ("Again .", "und"), ("Last .", "fr"), ("Ein Hund läuft .", "de")]
    rows.assign(language=range(6)).to_parquet(tmp_path / "rows.parquet")
    assert {one.language for one in read(tmp_path, file="rows.parquet").captions} == {""}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"my\.csv, line 1: has no column image \(it has: none\)"),
        (
            "photo,alt,split\n",
            r"has no column caption \(.*\)\. Call the column caption, or set corpus\.columns, such as \{caption: alt",
        ),
        (
            "image;caption\na.jpg;A dog, running .\n",
            "Semicolons separate the cells: save the table with commas or tabs",
        ),
        *(
            (f'image,caption,split\na.jpg,"{cell}",train\n', "line 2: the caption is a list")
            for cell in ("['A .', 'B .']", "('A .', 'B .')", '{""raw"": ""A .""}', '[[""A .""]]', '[""A ."", null]')
        ),
        ("image,caption,split\na.jpg,A .,tset\n", r"line 2: unknown split 'tset'; expected one of train"),
        (
            "image,caption,split\na.jpg,A .,test\na.jpg,B .,train\n",
            "line 3: the picture 'a.jpg' stands twice, with the split 'test' .*line 2.* and the split 'train'",
        ),
        (
            "image,caption,split\na.jpg, ,test\n",
            r"no picture with captions is left: 1 empty caption, such as 'a\.jpg#' .*; 1 no captions, such as 'a\.jpg'",
        ),
    ],
)
def test_wrong_table_is_explained(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "my.csv").write_text(text)
    with pytest.raises(CorpusError, match=message):
        read(tmp_path)


WORDS = ("['Tis the season on a sign]", '["Exit" sign over a door]', '("Hello", says the sign)', '"' * 4000 + "a")


def test_words_in_brackets_and_quotes_are_a_caption(tmp_path: Path) -> None:
    with (tmp_path / "my.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [("image", "caption", "split"), *((f"a:{n}.jpg", w, "train") for n, w in enumerate(WORDS))]
        )
    assert {(one.image_id, one.text) for one in read(tmp_path).captions} == {
        (f"a:{n}.jpg", w) for n, w in enumerate(WORDS)
    }


BAD = ("../x.jpg", "/data/x.jpg", "", "a\1b.jpg", "x" * 10_000, "a//b.jpg")


@pytest.mark.parametrize("name", BAD)
def test_row_without_a_usable_picture_is_dropped(tmp_path: Path, name: str) -> None:
    (tmp_path / "my.csv").write_text(f"image,caption,split\na.jpg,A .,train\n{name},B .,test\nc.jpg,C .,test\n")
    corpus = read(tmp_path)
    assert [image.image_id for image in corpus.images] == ["a.jpg", "c.jpg"]
    assert [(row.item, row.reason) for row in corpus.dropped] == [(name or "my.csv, line 3", "damaged")]
    (tmp_path / "my.csv").unlink()
    pictures = [picture("a"), {"bytes": None, "path": name}, {"bytes": b"c", "path": name}]
    columns = {"image": pa.array(pictures, PICTURE), "text": ["A .", "B .", "C ."], "split": ["train", "test", "test"]}
    write(tmp_path / "my.parquet", columns)
    found = read_own(tmp_path)
    assert len(found.images) == 2
    assert len(found.dropped) == (0 if name in ("../x.jpg", "/data/x.jpg", "a//b.jpg") else 1)


# The layouts are those that datasets 5.2.0 (to_parquet), pandas 3.1.1 and polars 2.1.0 wrote of the same pictures.
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


def stored(folder: Path, corpus: Corpus) -> dict[str, bytes]:
    """The bytes of each picture, where the stage resize finds them."""
    write_tables(folder, corpus, "nowhere")
    return {
        one.image_id: read_place(Place(str(one.path), one.part), 1 << 20)
        for one in corpus_sources(folder / "images.parquet")
    }


def read_own(folder: Path, **values: object) -> Corpus:
    """The corpus whose pictures are in its tables."""
    return read(folder, pictures=str(folder), require_pictures=True, **values)


@pytest.mark.parametrize("layout", [hub, lists, pandas])
def test_each_layout_gives_the_same_corpus_and_bytes(tmp_path: Path, layout: Any) -> None:
    layout(tmp_path / "in")
    corpus = read_own(tmp_path / "in")
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
    corpus = read_own(tmp_path, draw_dev=0.3, draw_test=0.3)
    called = {name: hashlib.sha256(data(name)).hexdigest()[:16] for name in "abcde"}
    assert sorted(image.image_id for image in corpus.images) == sorted(called.values())
    assert [one.text for one in corpus.captions if one.image_id == called["a"]] == ["Row 0 .", "Row 2 ."]


def test_paths_without_bytes_are_names_of_loose_files(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images/a.jpg").write_bytes(b"loose")
    write(tmp_path / "train.parquet", {"image": pa.array([{"bytes": None, "path": "a.jpg"}], PICTURE), "text": ["A ."]})
    settings = CorpusSettings(format="table", path=str(tmp_path), pictures=str(tmp_path / "images"))
    corpus = read_corpus(settings)
    write_tables(tmp_path, corpus, settings.pictures)
    assert [one.path for one in corpus_sources(tmp_path / "images.parquet")] == [f"{tmp_path}/images/a.jpg"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"image": pa.array([picture("a")], PICTURE), "label": [3]},
         r"no column caption \(it has: image struct<bytes: binary, path: string>, label int64\)\..*{caption: label}"),
        ({"image": [3.5], "text": ["A ."]}, "'image' has the type double; expected the pictures' bytes, a struct"),
        ({"image": pa.array([], PICTURE), "text": pa.array([], pa.string())}, r"train\.parquet: has no rows"),
        ({"image": [b"x"], "text": ["A ."], "filename": [1.0]},
         r"'filename' has the type double; expected names, texts or whole numbers\. Name another"),
        ({"image": [b"x"], "text": ["A ."], "lang": ["en\tus"]}, r"row 1: the language is 'en\\tus'; expected a code"),
        ({"image": [b"x", b"y"], "text": ["A .", "B ."], "filename": ["a", "a"]},
         "row 2: the picture 'a' has other bytes than in an earlier row.*corpus.columns"),
    ],
)  # fmt: skip
def test_table_of_another_layout_is_refused_in_a_line(tmp_path: Path, columns: Any, message: str) -> None:
    write(tmp_path / "train.parquet", columns)
    with pytest.raises(CorpusError, match=message) as found:
        read_own(tmp_path)
    assert len(str(found.value)) < 400


def test_damaged_file_and_second_layout_are_named(tmp_path: Path) -> None:
    write(tmp_path / "train.parquet", {"image": [b"x"], "text": ["A ."]})
    write(tmp_path / "test.parquet", {"image": [b"x"], "caption": ["A ."]})
    with pytest.raises(CorpusError, match=r"train\.parquet: has other columns than test\.parquet"):
        read_own(tmp_path)
    whole = (tmp_path / "train.parquet").read_bytes()
    many = pa.DictionaryArray.from_arrays(np.zeros(1_000_001, np.int32), ["a"])
    pq.write_table(pa.table({"image": many, "text": many}), tmp_path / "train.parquet")
    with pytest.raises(FileFormatError, match=r"train\.parquet: states 1,000,001 rows; expected at most 1,000,000"):
        read(tmp_path, file="train.parquet")
    (tmp_path / "test.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(FileFormatError, match=r"test\.parquet: is not a whole Parquet file"):
        read_own(tmp_path)
