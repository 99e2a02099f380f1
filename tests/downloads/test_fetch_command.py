"""`sightword fetch`, as a person runs it; its table says nothing that the readers contradict."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import torch
from pydantic import ValidationError

from pipeline import cli
from pipeline.downloads.fetching import fetch
from pipeline.downloads.sources import WEIGHTS, DataSet, Source, data_sets, find
from pipeline.params import recipes, writing
from sightword.corpus.flickr8k import CAPTIONS, LISTS
from sightword.corpus.settings import CorpusSettings
from sightword.errors import DownloadError
from sightword.evaluation.semantics.classification_data import FILES
from sightword.evaluation.semantics.datasets import files_of
from sightword.evaluation.semantics.settings import CLASSIFICATION, LANGUAGES, TASKS
from sightword.features import vision


@pytest.fixture
def project(repository, tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "project"
    (folder / "data/raw").mkdir(parents=True)
    (folder / "dvc.yaml").write_bytes((repository / "dvc.yaml").read_bytes())
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    return folder


class Mirror:
    """A folder laid out as a mirror, whose files are known by their hashes as published ones are."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.monkeypatch = folder, monkeypatch

    def add(self, name: str, content: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        data_set, sha256 = data_sets()[path.parent.name], hashlib.sha256(content).hexdigest()
        known = {"sha256": sha256, "md5": "", "size": None}
        sources = [one.model_copy(update=known) if one.file == path.name else one for one in data_set.sources]
        self.monkeypatch.setitem(data_sets(), data_set.name, data_set.model_copy(update={"sources": sources}))


@pytest.fixture
def mirror(tmp_path, project, monkeypatch) -> Mirror:
    monkeypatch.setattr(sys.modules[__name__], "from_mirror", ["--mirror", str(tmp_path / "mirror")])
    return Mirror(tmp_path / "mirror", monkeypatch)


from_mirror: list[str] = []
"""The option of each command in a test with a mirror."""


def main(arguments: list[str]) -> int:
    return cli.main([*arguments, *from_mirror])


PICTURES = [f"{number}_a.jpg" for number in range(8091)]


def flickr8k_text() -> dict[str, bytes]:
    captions = "".join(f"{name}#{n}\tA dog number {n} .\n" for name in PICTURES[:30] for n in range(5))
    lists = {"train": PICTURES[:20], "dev": PICTURES[20:25], "test": PICTURES[25:30]}
    return {
        "Flickr8k.token.txt": captions.encode(),
        "Flickr8k.lemma.token.txt": b"not wanted",
        "readme.txt": b"not wanted",
        **{f"Flickr_8k.{split}Images.txt": "\n".join(names).encode() for split, names in lists.items()},
        "__MACOSX/._readme.txt": b"not wanted",
    }


def read(form, folder, **more):
    return CorpusSettings(format=form, path=str(folder), pictures=str(folder), **more).read(None)


def test_flickr8k_as_published_is_read(project, mirror, make_zip, capsys):
    mirror.add("flickr8k/Flickr8k_text.zip", make_zip(flickr8k_text()))
    pictures = {f"Flicker8k_Dataset/{name}": b"jpeg" for name in PICTURES}
    mirror.add("flickr8k/Flickr8k_Dataset.zip", make_zip({**pictures, "__MACOSX/Flicker8k_Dataset/._a.jpg": b"no"}))
    assert main(["fetch", "flickr8k"]) == 0
    images, captions = read("flickr8k", project / "data/raw/flickr8k")
    assert (len(images), len(captions)) == (30, 150)
    assert {path.name for path in (project / "data/raw/flickr8k/images").iterdir()} == set(PICTURES)
    assert {path.name for path in (project / "data/raw/flickr8k").iterdir()} == {
        "images",
        "Flickr8k.token.txt",
        *(f"Flickr_8k.{split}Images.txt" for split in ("train", "dev", "test")),
    }
    out = capsys.readouterr().out
    assert "non-commercial research" in out
    assert "Next: dvc add data/raw/flickr8k" in out
    assert main(["fetch", "flickr8k"]) == 0
    assert capsys.readouterr().out.count("there already") == 2


def karpathy(*splits: str, folder: str = "") -> bytes:
    images = [
        {"filename": f"{number}.jpg", "split": split, **({"filepath": folder} if folder else {}),
         "sentences": [{"raw": "A dog.", "tokens": ["a", "dog"], "sentid": number}]}
        for number, split in enumerate(splits)
    ]  # fmt: skip
    return json.dumps({"images": images, "dataset": "x"}).encode()


def test_coco_and_flickr30k_as_published_are_read(project, mirror, make_zip, capsys):
    sets = {f"dataset_{name}.json": karpathy("train", "val", "test") for name in ("flickr8k", "flickr30k")}
    sets["dataset_coco.json"] = karpathy("train", "restval", "val", "test", folder="val2014")
    for name in ("coco", "flickr30k"):
        mirror.add(f"{name}/caption_datasets.zip", make_zip(sets))
    entry = {"images": [{"id": 7, "file_name": "7.jpg"}], "annotations": [{"id": 1, "image_id": 7, "caption": "A cat"}]}
    annotations = {
        f"annotations/{kind}_{split}2014.json": json.dumps(entry).encode()
        for kind in ("captions", "instances")
        for split in ("train", "val")
    }
    mirror.add("coco/annotations_trainval2014.zip", make_zip(annotations))
    assert main(["fetch", "coco", "--only", "karpathy", "captions"]) == 0
    coco = project / "data/raw/coco"
    images, captions = read("karpathy", coco, text="tokens")
    assert [image.split for image in images] == ["train", "train", "dev", "test"]
    assert captions[0].text == "a dog ."
    images, captions = read("coco", coco)
    assert len(images) == len(captions) == 2
    assert sorted(path.name for path in (coco / "annotations").iterdir()) == [
        "captions_train2014.json",
        "captions_val2014.json",
    ]
    assert main(["fetch", "flickr30k"]) == 1
    out = capsys.readouterr().out
    assert "https://forms.illinois.edu/sec/229675" in out
    assert "Put it at data/raw/downloads/flickr30k/flickr30k-images.tar.gz" in out
    assert len(read("karpathy", project / "data/raw/flickr30k")[0]) == 3


def test_weights_go_where_torch_looks(project, mirror, capsys, monkeypatch):
    assert cli.downloads.torch_checkpoints() == Path(torch.hub.get_dir()) / "checkpoints"
    monkeypatch.delenv("TORCH_HOME")
    assert cli.downloads.torch_checkpoints() == Path(torch.hub.get_dir()) / "checkpoints"
    monkeypatch.setenv("TORCH_HOME", str(project / "torch"))
    mirror.add("weights/resnet152-394f9c45.pth", b"weights")
    assert main(["fetch", "weights", "resnet152"]) == 0
    checkpoints = Path(torch.hub.get_dir()) / "checkpoints"
    assert {path.name for path in checkpoints.iterdir()} == {"resnet152-394f9c45.pth"}
    capsys.readouterr()
    assert main(["fetch", "weights", "resnet18", "--dry-run"]) == 0
    assert "else https://download.pytorch.org/models/resnet18-f37072fd.pth" in capsys.readouterr().out
    assert main(["fetch", "weights", "resnet152:IMAGENET1K_V3"]) == 1
    assert "expected IMAGENET1K_V1 or IMAGENET1K_V2" in capsys.readouterr().err
    assert main(["fetch", "weights", "alexnot"]) == 1


@pytest.mark.parametrize(
    ("recipe", "code", "said"),
    [
        ("flickr8k", 0, "resnet152-394f9c45.pth"),
        ("sample", 1, "sample_shufflenet.safetensors"),
        ("flickr8k-precomputed", 0, "precomputed features, which need no download"),
    ],
)
def test_weights_are_those_of_the_parameters(project, repository, mirror, capsys, monkeypatch, recipe, code, said):
    (project / "params.yaml").write_text(writing.text(recipes.find(recipe, repository), repository))
    assert main(["fetch", "weights", "--dry-run"]) == code
    captured = capsys.readouterr()
    assert said in captured.out + captured.err


def test_list_and_dry_run_change_nothing(project, capsys):
    assert main(["fetch"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[0].split() == ["name", "part", "what", "size", "state"]
    assert sum(row.split()[:2] == ["multi30k", "task2"] for row in rows) == 2
    kinds = {(name, one.part, one.what) for name, data_set in data_sets().items() for one in data_set.sources}
    assert len(rows) == 1 + len(kinds)
    (project / "data/raw/flickr8k/images").mkdir(parents=True)
    (project / "data/raw/flickr8k/images/1.jpg").touch()
    assert main(["fetch"]) == 0
    assert "partly" in capsys.readouterr().out
    assert main(["fetch", "coco", "--dry-run", "--mirror", "/mirror"]) == 0
    places = "from /mirror/coco/train2014.zip, else http://images.cocodataset.org/zips/train2014.zip"
    assert places in capsys.readouterr().out
    assert main(["fetch", "flickr30k", "--dry-run"]) == 1
    assert {path.name for path in (project / "data/raw").rglob("*")} == {"flickr8k", "images", "1.jpg"}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["s3://lab/photos", "--to", "a"], 2, "an address needs --to FILE.csv"),
        (["flikr8k"], 1, "did you mean 'flickr8k'?"),
        (["coco", "--only", "captoins"], 1, "did you mean 'captions'?"),
        (["coco", "snli", "--only", "pairs"], 2, "--only needs a single NAME"),
    ],
)
def test_wrong_arguments_are_told(project, capsys, arguments, code, said):
    if code == 2:
        with pytest.raises(SystemExit) as stopped:
            main(["fetch", *arguments])
        assert stopped.value.code == 2
    else:
        assert main(["fetch", *arguments]) == code
    assert said in capsys.readouterr().err


def test_folder_is_named_outside_of_a_project(project, mirror, make_zip, tmp_path, monkeypatch, capsys):
    names = [f"{kind}.{part}" for kind in ("data", "index") for part in ("noun", "verb", "adj", "adv")]
    content = make_zip({f"wordnet/{name}": b"x" for name in names})
    mirror.add("wordnet/wordnet.zip", content)
    monkeypatch.chdir(tmp_path)
    assert main(["fetch", "wordnet"]) == 1
    assert "Or name a folder with --to" in capsys.readouterr().err
    assert main(["fetch", "wordnet", "--to", "to"]) == 0
    assert (tmp_path / "to/wordnet/data.noun").exists()


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
