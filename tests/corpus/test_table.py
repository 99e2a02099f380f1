"""A user's own tables."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from sightword.corpus.reading import read_corpus
from sightword.corpus.records import Corpus
from sightword.corpus.settings import CorpusSettings
from sightword.errors import CorpusError

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
    "own.tsv": 'filename\tsentence\na.jpg\tA dog .\na.jpg\tWater , a dog .\nb.jpg\tA sign reads "no" .\n',
    "wide.csv": 'file_name,caption_0,caption_1\na.jpg,A dog .,"Water , a dog ."\nb.jpg,"A sign reads ""no"" .",\n',
    "json.csv": 'image,caption\na.jpg,"[""A dog ."", ""Water , a dog .""]"\nb.jpg,"[""A sign reads \\""no\\"" .""]"\n',
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_tables_as_published_give_the_same_captions_and_a_drawn_split(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(PUBLISHED[name])
    with pytest.raises(CorpusError, match=r"names no split; expected a column split.* Set corpus\.draw_dev and"):
        read(tmp_path)
    corpus = read(tmp_path, draw_test=0.5)
    assert texts(corpus) == [("a.jpg", "A dog ."), ("a.jpg", "Water , a dog ."), ("b.jpg", 'A sign reads "no" .')]
    assert {image.image_id: image.split for image in corpus.images} == {"a.jpg": "train", "b.jpg": "test"}
    assert corpus.drawing.startswith("1 test (50 %) of 2 pictures drawn by a hash of their ids")


def test_a_file_for_each_split_is_of_the_split_in_its_name(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("mixed", ["de, en", "de/en", "en de", "de;en", "?", "German"])
def test_a_cell_of_several_languages_is_refused_and_capitals_are_none(tmp_path: Path, mixed: str) -> None:
    frame().assign(language=["en", "DE", "EN", "de", "De", "pt-BR"]).to_csv(tmp_path / "rows.csv", index=False)
    assert {one.language for one in read(tmp_path, file="rows.csv").captions} == {"en", "de", "pt-br"}
    frame().assign(language=["en", "en", "en", mixed, "en", "en"]).to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(CorpusError, match=rf"rows.csv, line 5: the language '{re.escape(mixed)}' is not one code"):
        read(tmp_path, file="rows.csv")


def test_a_column_of_languages_gives_the_language_of_each_caption(tmp_path: Path) -> None:
    rows = frame().assign(language=["en", "de", "", "en", "de", "fr"])
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows.replace({"language": {"": None}}).to_parquet(tmp_path / "rows.parquet")
    for name in ("rows.csv", "rows.parquet"):
        found = [(one.text, one.language) for one in read(tmp_path, file=name).captions]
        assert found == [("A cat, asleep .", "en"), ("Again .", "und"), ("Last .", "fr"), ("Ein Hund läuft .", "de")]
    rows.assign(language=range(6)).to_parquet(tmp_path / "rows.parquet")
    assert {one.language for one in read(tmp_path, file="rows.parquet").captions} == {""}


def test_a_file_is_meant_by_its_name_before_its_pattern_and_lies_in_path(tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "rows [1].csv", index=False)
    assert len(read(tmp_path, file="rows [1].csv").images) == 3
    for outside in ("../rows.csv", "/rows.csv"):
        with pytest.raises(ValueError, match=r"leaves the folder corpus\.path"):
            read(tmp_path, file=outside)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"has no column image .it has: none.\. Call the column image\.$"),
        (
            "photo,alt,split\n",
            r"has no column caption \(.*\)\. Call the column caption, or set corpus\.columns, such as \{caption: alt",
        ),
        (
            "image;caption\na.jpg;A dog, running .\n",
            "Semicolons separate the cells: save the table with commas or tabs",
        ),
        ("image_name| comment\na.jpg| A\n", "Bars separate the cells: save the table with commas or tabs"),
        ("image,caption,split\na.jpg,\"['A .', 'B .']\",test\n", "line 2: the caption is a list: .*Write a row"),
        ("image,caption,split\n", "has no rows"),
        ("image,caption,split\na.jpg,A .,tset\n", r"line 2: unknown split 'tset'; expected one of train"),
        ("image,caption,split\na.jpg,A dog, running .,test\n", "line 2: has 4 cells; expected 3, as in the header"),
        ('image,caption,split\na.jpg,"A dog,test\n', "is not valid CSV"),
        ("image,caption,split\n../a.jpg,A .,test\n", "line 2: .*leaves the folder"),
        ("image,caption,split\n./a.jpg,A .,test\n", "not a plain file name"),
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
def test_a_wrong_table_is_explained(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "my.csv").write_text(text)
    with pytest.raises(CorpusError, match=message):
        read(tmp_path)


def test_a_web_address_is_a_picture_without_a_file(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures/a.jpg").touch()
    (tmp_path / "my.csv").write_text("image,caption,split\na.jpg,A .,train\nhttps://example.org/b.jpg,B .,train\n")
    corpus = read(tmp_path, require_pictures=True)
    assert texts(corpus) == [("a.jpg", "A .")]
    assert [(row.item, row.reason) for row in corpus.dropped] == [("https://example.org/b.jpg", "no picture file")]
