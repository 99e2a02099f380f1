"""A user's own tables."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sightword.corpus.reading import read_corpus
from sightword.corpus.records import Corpus
from sightword.corpus.settings import CorpusSettings
from sightword.errors import CorpusError, FileFormatError

ROWS = [
    ("cats/one.jpg", "A cat, asleep .", "train"),
    ("two.png", "Ein Hund läuft .", "validation"),
    ("cats/one.jpg", "Again .", "train"),
    ("three.jpg", "Left out .", ""),
    ("two.png", "Ein Hund läuft .", "validation"),
    ("four.jpg", "Last .", "test"),
]


def read(folder: Path) -> Corpus:
    return read_corpus(
        CorpusSettings(format="table", path=str(folder), pictures=str(folder / "pictures"), require_pictures=False)
    )


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no column image .it has: none."),
        ("image,text,split\n", r"has no column caption \(it has: image, text, split\)"),
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
        ("image,caption,split\na.jpg, ,test\n", "no picture with captions is left"),
    ],
)
def test_a_wrong_table_is_explained(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "my.csv").write_text(text)
    with pytest.raises(CorpusError, match=message):
        read(tmp_path)


def test_a_parquet_file_that_is_damaged_or_lacks_a_column_is_named(tmp_path: Path) -> None:
    frame().drop(columns="split").to_parquet(tmp_path / "my.parquet")
    with pytest.raises(FileFormatError, match=r"my\.parquet: has no column split"):
        read(tmp_path)
    frame().to_parquet(tmp_path / "my.parquet")
    data = (tmp_path / "my.parquet").read_bytes()
    (tmp_path / "my.parquet").write_bytes(data[: len(data) // 2])
    with pytest.raises(FileFormatError, match="not a whole Parquet file"):
        read(tmp_path)


def test_a_parquet_cell_of_another_type_is_named_with_its_row(tmp_path: Path) -> None:
    pd.DataFrame({"image": ["a.jpg"], "caption": [3.5], "split": ["train"]}).to_parquet(tmp_path / "my.parquet")
    with pytest.raises(CorpusError, match=r"row 1: caption is 3\.5"):
        read(tmp_path)


def test_a_picture_in_a_table_of_a_hub_is_quoted_in_short(tmp_path: Path) -> None:
    picture = {"bytes": bytes(200_000), "path": "1.jpg"}
    pq.write_table(pa.table({"image": [picture], "caption": ["A dog."], "split": ["train"]}), tmp_path / "a.parquet")
    with pytest.raises(
        CorpusError, match=r"a\.parquet, row 1: image is \{'bytes': b'.* \.\.\.; expected a text"
    ) as found:
        read(tmp_path)
    assert len(str(found.value)) < 300
