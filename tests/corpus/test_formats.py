"""A format of a corpus is one class: its settings, its files, its reader."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import pytest
from ruamel.yaml import YAML

from pipeline import pipelines
from pipeline.params import params_file, reference
from sightword.corpus.listing import Listing
from sightword.corpus.reading import read_corpus
from sightword.corpus.records import Caption, Image
from sightword.corpus.settings import FORMATS, CorpusSettings
from sightword.errors import CorpusError, ParamsError
from sightword.io.opening import lines
from sightword.settings import SPLITS, Settings

NO_CAPTIONS = {"beside": "data/raw/captions", "beside_files": "", "beside_without": None}
WITHOUT = {
    "path": "data/raw/toy",
    "pictures": "data/raw/toy/pictures",
    "require_pictures": False,
    **NO_CAPTIONS,
    "seal": 0,
}


class Toy(CorpusSettings):
    """One caption a line: picture, blank, caption; the splits in turn."""

    format: Literal["toy"] = "toy"
    first: Literal["train", "dev", "test"] = "train"
    """The split of the first line."""

    def files(self) -> list[str]:
        return ["toy.txt"]

    def read(self, _listing: Listing | None, /) -> tuple[list[Image], list[Caption]]:
        images, captions = [], []
        for number, line in lines(self.folder / "toy.txt", CorpusError):
            name, _, text = line.partition(" ")
            images.append(Image(name, name, SPLITS[(SPLITS.index(self.first) + number - 1) % 3]))
            captions.append(Caption(name, str(number), text))
        return images, captions


def check(repository: Path, values: dict[str, object]) -> Settings:
    whole = YAML(typ="safe", pure=True).load((repository / "params.yaml").read_text())
    return params_file.check(whole | {"corpus": values}, pipeline=pipelines.pipelines(repository)[0])["corpus"]


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "toy_format", SimpleNamespace(Toy=Toy))
    monkeypatch.setitem(FORMATS, "toy", "toy_format:Toy")


@pytest.mark.usefixtures("toy")
def test_registered_format_is_read_checked_and_explained(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "toy.txt").write_text("a.jpg A dog .\nb.jpg A cat .\n")
    values = WITHOUT | {"format": "toy", "first": "dev", "path": str(tmp_path), "pictures": str(tmp_path / "pictures")}
    settings = check(repository, values)
    assert settings == Toy(**values) == CorpusSettings(**values)
    corpus = read_corpus(Toy(**values))
    assert [(image.image_id, image.split) for image in corpus.images] == [("a.jpg", "dev"), ("b.jpg", "test")]
    assert [one.text for one in reference.explain("corpus.first")] == ["Format `toy`: The split of the first line."]


@pytest.mark.usefixtures("toy")
def test_key_of_another_format_is_refused(repository: Path) -> None:
    values = WITHOUT | {"format": "toy", "first": "dev", "restval": "none"}
    with pytest.raises(ParamsError, match=r"corpus\.restval: no such key; accepted: format, path, .*, first"):
        check(repository, values)
    with pytest.raises(ParamsError, match=r"corpus\.first: the key is missing; its published value is 'train'"):
        check(repository, WITHOUT | {"format": "toy"})
    with pytest.raises(ParamsError, match=r"corpus\.draw_dev: the key is missing; its published value is 0\.0"):
        check(repository, WITHOUT | {"format": "table"})


def test_unknown_format_is_refused_with_those_that_exist(repository: Path) -> None:
    with pytest.raises(ParamsError, match="corpus: format is 'toy'; expected one of sample, flickr8k, karpathy, coco"):
        check(repository, WITHOUT | {"format": "toy"})
