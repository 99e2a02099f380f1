"""The stage corpus, in a folder of its own."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sightword.corpus.settings import CorpusSettings
from sightword.errors import CorpusError, ParamsError
from stages.corpus import work

CSV = "image,caption,split\na.jpg,A dog .,train\nb.jpg,A cat .,test\nc.jpg,Gone .,\n"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data/raw/mine").mkdir(parents=True)
    (tmp_path / "data/raw/mine/my.csv").write_text(CSV)
    return tmp_path


def settings(form: str) -> CorpusSettings:
    return CorpusSettings(format=form, path="data/raw/mine", pictures="data/raw/mine/pictures", require_pictures=False)


def table() -> CorpusSettings:
    return settings("table")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_published_corpus_gives_tables_and_empty_folders_with_the_reason(
    workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        work(table())
    made = contents(workspace / "data/corpus")
    assert set(made) == {
        "images.parquet",
        "captions.parquet",
        "dropped.parquet",
        "drawn.parquet",
        "pictures/README.txt",
        "senteval/README.txt",
    }
    assert "corpus: no pictures in the split dev" in caplog.messages
    assert "corpus: dropped 1 picture: in no split: c.jpg" in caplog.messages
    work(table())
    assert contents(workspace / "data/corpus") == made


def test_bad_input_leaves_the_earlier_output_as_it_was(workspace: Path) -> None:
    work(table())
    before = contents(workspace / "data")
    (workspace / "data/raw/mine/my.csv").write_text(CSV + "d.jpg,More .,tets\n")
    with pytest.raises(CorpusError, match="line 5: unknown split 'tets'"):
        work(table())
    (workspace / "data/raw/mine/my.csv").write_text(CSV)
    assert contents(workspace / "data") == before


def test_the_sample_is_written_whole(workspace: Path, repository: Path) -> None:
    text = (repository / "data/raw/sample/scenes.yaml").read_text()
    small = text.replace("train: 320", "train: 6").replace("dev: 120", "dev: 3").replace("test: 120", "test: 3")
    (workspace / "scenes.yaml").write_text(small)
    work(CorpusSettings(format="sample", path="scenes.yaml", pictures="data/corpus/pictures"))
    images = pq.read_table(workspace / "data/corpus/images.parquet").to_pylist()
    assert len(images) == 12
    assert all((workspace / row["path"]).is_file() for row in images)
    assert pq.read_metadata(workspace / "data/corpus/captions.parquet").num_rows == 48
    assert (workspace / "data/corpus/senteval/downstream/SICK/SICK_train.txt").is_file()
    with pytest.raises(ParamsError, match="data/corpus/pictures for the sample"):
        work(CorpusSettings(format="sample", path="scenes.yaml", pictures="elsewhere"))
