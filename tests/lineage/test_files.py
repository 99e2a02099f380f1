"""Hashes of files and folders are those of DVC."""

from __future__ import annotations

import os
import shutil

import pytest
from tiny_project import TinyProject

from pipeline.lineage.files import Cache, Ignored, hash_path, measure, take_out
from pipeline.lineage.repository import Repository
from sightword.errors import LineageError
from sightword.io import yaml_reader

NAMES = [
    "a.txt",
    "z/ä ö.txt",
    "z/b/c.bin",
    "Z.txt",
    "__pycache__/x.pyc",
    "z/skip.me",
    "z/keep.me",
    'quo"te.txt',
    "empty",
]


@pytest.fixture(scope="module")
def added(tmp_path_factory):
    """Files that DVC itself has hashed."""
    project = TinyProject(tmp_path_factory.mktemp("hash"), run=False)
    project.do("git", "init", "-q")
    project.do("dvc", "init", "-q")
    for number, name in enumerate(NAMES):
        project.write(f"sub/own/{name}", "" if name == "empty" else f"{number}\r\n" * number)
    project.write("big.bin", "x" * 3_000_000)
    project.write(".dvcignore", "__pycache__\n*.me\n")
    project.write("sub/.dvcignore", "!keep.me\n")
    project.do("dvc", "add", "-q", "sub/own", "big.bin")
    return project


def said(project, name):
    return yaml_reader.parse((project.folder / f"{name}.dvc").read_text(), name)["outs"][0]


@pytest.mark.parametrize("name", ["sub/own", "big.bin"])
def test_hash_and_size_are_those_of_dvc(added, name):
    found = hash_path(added.folder / name, Ignored(added.folder))
    assert found.md5 == said(added, name)["md5"]
    assert measure(added.folder / name, Ignored(added.folder)) == said(added, name)["size"]
    assert name == "big.bin" or len(found.files) == said(added, name)["nfiles"]


def test_another_byte_another_name_or_another_file_is_another_hash(added, tmp_path):
    ignored = Ignored(tmp_path)

    def hashed(**files):
        folder = tmp_path / "f"
        for path in folder.glob("*"):
            path.unlink()
        folder.mkdir(exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
        return hash_path(folder, ignored).md5

    assert len({hashed(a="1"), hashed(a="2"), hashed(b="1"), hashed(a="1", b="1"), hashed()}) == 5


def test_what_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        hash_path(tmp_path / "nothing", Ignored(tmp_path))
    os.symlink(tmp_path / "nowhere", tmp_path / "link")
    with pytest.raises(FileNotFoundError):
        hash_path(tmp_path / "link", Ignored(tmp_path))


WANTED = ["metrics/third.json", "data/first/out.txt", "models/encoder", "data/raw/in.txt"]


@pytest.fixture
def changed(project):
    """The project with a second run, of other numbers."""
    project.edit("params.yaml", "factor: 2", "factor: 7")
    project.do("dvc", "repro", "-q")
    project.commit("second run")
    return project


def taken(project, folder, revision, wanted=WANTED):
    with Repository(project.folder) as repository:
        commit = repository.commit(revision)
        return take_out(
            wanted, folder, lock=repository.lock(commit, revision), commit=commit, cache=Cache(project.folder),
            repository=repository,
        )  # fmt: skip


def test_files_are_as_they_were_and_the_workspace_is_left_alone(changed, tmp_path):
    lies_there = (changed.folder / "data/first/out.txt").read_text()
    assert taken(changed, tmp_path / "then", "HEAD~1") == []
    assert taken(changed, tmp_path / "now", "HEAD") == []
    assert (tmp_path / "then/data/first/out.txt").read_text() == "6.0"
    assert (tmp_path / "now/data/first/out.txt").read_text() == "21.0" == lies_there
    assert not (tmp_path / "then/data/first/same.txt").exists()  # only what was wanted
    assert float((tmp_path / "then/models/encoder/weights").read_text()) == pytest.approx(0.6)
    assert '"r10": 3.0' in (tmp_path / "then/metrics/third.json").read_text()
    assert (tmp_path / "then/data/raw/in.txt").read_text() == "3\n"
    assert changed.do("git", "status", "--porcelain") == ""


def test_what_neither_git_nor_the_cache_has_is_named(changed, tmp_path):
    shutil.rmtree(changed.folder / ".dvc/cache/files")
    assert taken(changed, tmp_path / "then", "HEAD~1") == ["data/first/out.txt", "models/encoder"]
    assert (tmp_path / "then/metrics/third.json").exists()
    assert taken(changed, tmp_path / "other", "HEAD", ["data/nowhere", "models/encoder/none"]) == [
        "data/nowhere",
        "models/encoder/none",
    ]


def test_a_damaged_object_is_noticed(changed, tmp_path):
    taken(changed, tmp_path / "then", "HEAD", ["data/first/out.txt"])
    found = (tmp_path / "then/data/first/out.txt").resolve()
    found.chmod(0o600)
    found.write_text("42.0")
    with pytest.raises(LineageError, match=r"data/first/out.txt of \w{7}: is damaged in DVC's cache: .*other bytes"):
        taken(changed, tmp_path / "again", "HEAD", ["data/first/out.txt"])
