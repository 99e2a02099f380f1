"""Outputs that DVC removed before a stage failed come back."""

from __future__ import annotations

import shutil

import pytest

from pipeline.lineage.restoration import restore


@pytest.fixture
def second(project, monkeypatch):
    """The project with a second pipeline, in whose folder the stages run; its last run is not committed."""
    project.add_second_pipeline()
    project.do("dvc", "repro", "-q", "extra/dvc.yaml")
    monkeypatch.chdir(project.folder)
    return project


def test_folders_of_the_cache_and_numbers_of_git_are_back(second):
    for address, paths in (
        ("second", ["models/encoder/weights"]),
        ("third", ["metrics/third.json"]),
        ("extra/dvc.yaml:fourth", ["data/fourth/text", "metrics/fourth.json"]),
    ):
        before = {path: (second.folder / path).read_bytes() for path in paths}
        for path in paths:
            (second.folder / path).unlink()
            if path.startswith(("models/", "data/")):
                (second.folder / path).parent.rmdir()
        assert restore(second.folder, address)
        assert {path: (second.folder / path).read_bytes() for path in paths} == before
    assert second.do("dvc", "status", "--json").strip() == "{}"


def test_what_the_stage_has_written_is_left_alone(second):
    (second.folder / "metrics/fourth.json").unlink()
    (second.folder / "data/fourth/text").write_text("new")
    assert not restore(second.folder, "extra/dvc.yaml:fourth")
    assert (second.folder / "data/fourth/text").read_text() == "new"
    assert not (second.folder / "metrics/fourth.json").exists()


def test_all_outputs_come_back_or_none(second):
    shutil.rmtree(second.folder / "data/fourth")
    shutil.rmtree(second.folder / "metrics")
    (second.folder / "metrics").write_text("in the way of the numbers")
    assert not restore(second.folder, "extra/dvc.yaml:fourth")
    assert not (second.folder / "data/fourth").exists()


def test_nothing_comes_back_from_an_empty_cache_or_without_dvc(second, tmp_path):
    shutil.rmtree(second.folder / ".dvc/cache")
    shutil.rmtree(second.folder / "data/fourth")
    (second.folder / "metrics/fourth.json").unlink()
    assert not restore(second.folder, "extra/dvc.yaml:fourth")
    assert not (second.folder / "metrics/fourth.json").exists()
    assert not restore(second.folder, "nobody")
    (tmp_path / "elsewhere").mkdir()
    assert not restore(tmp_path / "elsewhere", "second")
