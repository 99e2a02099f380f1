"""The table says nothing that the readers contradict."""

from __future__ import annotations

import hashlib
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pydantic import ValidationError

from pipeline.downloads.fetching import fetch
from pipeline.downloads.sources import WEIGHTS, DataSet, Source, data_sets, find
from sightword.corpus.flickr8k import CAPTIONS, LISTS
from sightword.corpus.settings import CorpusSettings
from sightword.errors import DownloadError
from sightword.evaluation.semantics.classification_data import FILES
from sightword.evaluation.semantics.datasets import files_of
from sightword.evaluation.semantics.settings import CLASSIFICATION, LANGUAGES, TASKS
from sightword.features import vision


def test_each_entry_is_well_formed():
    for source in (one for data_set in data_sets().values() for one in data_set.sources):
        for url in source.urls:
            parts = urlsplit(url)
            assert parts.scheme in ("http", "https")
            assert parts.path.rpartition("/")[2] == source.file
            if parts.scheme == "http" and url == source.urls[0]:
                assert source.sha256, "whoever is in between may exchange it"
        assert source.size is None or source.size > 0
    for data_set in data_sets().values():
        names = [source.file for source in data_set.sources]
        assert len(set(names)) == len(names)


def test_senteval_is_what_its_readers_need(tmp_path):
    fetched = {name for set_ in ("senteval", "snli") for source in find(set_).sources for name in source.wanted()}
    needed = {str(file.relative_to(tmp_path)) for task in (*TASKS, *CLASSIFICATION) for file in _needed(task, tmp_path)}
    assert fetched == needed
    assert len(FILES) == len(CLASSIFICATION)


def _needed(task: str, data: Path) -> list[Path]:
    (data / "downstream/STS").mkdir(parents=True, exist_ok=True)
    if task[:5] in {f"STS{year}"[:5] for year in range(12, 17)}:
        (data / f"downstream/STS/{task}-en-test").mkdir(exist_ok=True)
    return files_of(task, data / "downstream")


def test_flickr8k_is_what_its_reader_needs():
    assert set(find("flickr8k").sources[0].wanted()) == {CAPTIONS, *LISTS.values()}


def test_multi30k_and_sts_languages_fit_their_readers(tmp_path):
    multi30k = {name for source in find("multi30k").sources for name in source.wanted()}
    for name in (name for name in multi30k if name.endswith(".txt")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    about = {"format": "multi30k", "path": str(tmp_path), "pictures": str(tmp_path), "split": "flickr8k"}
    needed = CorpusSettings(**about, task=1, languages=["en", "de", "fr", "cs"]).files()
    needed += CorpusSettings(**about, task=2, languages=["en", "de"]).files()
    assert multi30k == set(needed)
    benchmark = {name for source in find("stsb-multi-mt").sources for name in source.wanted()}
    tasks = [f"STSBenchmark-{language}" for language in LANGUAGES]
    assert benchmark == {str(file.relative_to(tmp_path)) for task in tasks for file in _needed(task, tmp_path)}


def test_files_of_one_address_are_fetched_each_with_its_hash(site, order, raw):
    site.files = {"data/a.txt": b"one", "data/b.txt": b"two"}
    digest = hashlib.sha256(b"one").hexdigest()
    entry = {"part": "p", "what": "w", "to": "in", "urls": [site.url("data/")]}
    entry["files"] = dict.fromkeys(("a.txt", "b.txt"), digest)
    one, other = DataSet(name="own", what="w", folder="own", page="p", terms="t", sources=[entry]).sources
    assert fetch(one, order()).checked
    assert (raw / "own/in/a.txt").read_bytes() == b"one"
    with pytest.raises(DownloadError, match=f"not {digest}"):
        fetch(other, order())


def test_recipes_look_where_it_puts_things(repository):
    from pipeline.params import overlay, recipes

    for recipe in ("flickr8k", "coco", "coco-order"):
        sections = overlay.resolve(recipes.find(recipe, repository), repository).sections
        corpus, semantics = sections["corpus"].model_dump(), sections["semantics"].model_dump()
        data_set = find(recipe.partition("-")[0])
        root = f"data/raw/{data_set.folder}"
        assert corpus["path"] == root
        assert semantics["data"] == f"data/raw/{find('senteval').folder}"
        folders = {f"{root}/{folder}" for source in data_set.choose() for folder in source.counts}
        assert folders
        assert all(Path(folder).is_relative_to(corpus["pictures"]) for folder in folders)
        assert "file" not in corpus or [corpus["file"]] in [source.wanted() for source in data_set.choose()]


def test_weights_are_those_torchvision_publishes():
    for source in find(WEIGHTS).sources:
        entry = vision.models.get_model_weights(source.part)[source.what]
        assert source.urls == [entry.url]
        assert source.begins
        assert entry.url.endswith(f"-{source.begins}.pth")
        assert source.about == pytest.approx(entry.meta["_file_size"] * 2**20, rel=0.1)


@pytest.mark.parametrize(
    "fields",
    [{"file": "../x"}, {"file": "a/b"}, {"urls": []}, {"request": "too"}, {"sha256": "abc"}, {"into": {"a": "b"}},
     {"nonsense": 1}],
)  # fmt: skip
def test_wrong_entry_is_refused(fields):
    with pytest.raises(ValidationError):
        Source.model_validate({"part": "a", "what": "a", "file": "a", "urls": ["http://a"], **fields})
