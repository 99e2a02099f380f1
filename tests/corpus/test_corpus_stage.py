"""The stage corpus, in a folder of its own."""

from __future__ import annotations

import logging
import os
import subprocess
from pathlib import Path

import fork_server
import pyarrow.parquet as pq
import pytest
from PIL import Image
from ruamel.yaml import YAML

from sightword.corpus.settings import CorpusSettings
from sightword.errors import CorpusError, ParamsError
from stages.corpus import work

TABLE = {"file": None, "columns": {}, "draw_dev": 0.0, "draw_test": 0.0}
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
    assert caplog.messages[-1].startswith("corpus: 2 pictures (1 train, 0 dev, 1 test), 2 captions; 2 pictures without")
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


def stage(name: str, folder: Path, repository: Path, **corpus: object) -> subprocess.CompletedProcess[str]:
    """A stage as a process, in a project with its pictures and captions in ``data/raw/mine``."""
    document = YAML(typ="safe", pure=True).load((repository / "params.yaml").read_text())
    document["corpus"] |= {"path": "data/raw/mine", "pictures": "data/raw/mine/pictures", **corpus}
    document["resize"]["max_rejects"] = 1
    with (folder / "params.yaml").open("w") as stream:
        YAML().dump(document, stream)
    environment = {**os.environ, "PYTHONPATH": str(repository), "SIGHTWORD_WORKERS": "0"}
    environment.pop("DVC_STAGE", None)
    command = [fork_server.python(), "-m", "stages", name]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.slow
def test_odd_names_and_links_in_the_folder_of_pictures_are_handled(workspace: Path, repository: Path) -> None:
    pictures = workspace / "data/raw/mine/pictures"
    (pictures / os.fsdecode(b"\xfcber")).mkdir(parents=True)
    for name in (b"a.png", b"caf\xe9.png", b"\xfcber/b.png", b"notes \xe9.txt"):
        Image.new("RGB", (9, 9)).save(pictures / os.fsdecode(name), "PNG")
    for name in ("round.png", "stray.png", "strayer"):
        (pictures / name).symlink_to(name)
    (workspace / "data/raw/mine/my.csv").write_text(
        "image,caption,split\na.png,A dog,train\nround.png,A ring,train\ncaf\u00e9.png,A cup,train\n"
    )
    done = stage("corpus", workspace, repository, format="table", **TABLE, require_pictures=True)
    assert done.returncode == 0, done.stderr
    assert r"dropped 2 pictures: name is not UTF-8: \xfcber/b.png, caf\xe9.png" in done.stderr
    dropped = pq.read_table(workspace / "data/corpus/dropped.parquet").to_pylist()
    assert [(row["item"], row["reason"]) for row in dropped] == [
        (r"\xfcber/b.png", "name is not UTF-8"),
        (r"caf\xe9.png", "name is not UTF-8"),
        ("caf\u00e9.png", "no picture file"),
        ("stray.png", "no captions"),
    ]
    assert pq.read_table(workspace / "data/corpus/images.parquet")["image_id"].to_pylist() == ["a.png", "round.png"]
    done = stage("resize", workspace, repository)
    assert done.returncode == 0, done.stderr
    rejects = pq.read_table(workspace / "data/resized/rejects.parquet").to_pylist()
    assert [(row["image_id"], row["reason"]) for row in rejects] == [("round.png", "unreadable")]
