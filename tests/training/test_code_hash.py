"""A half-done training is only taken up by the code, and the versions, that began it."""

from __future__ import annotations

import shutil

import first_party
import numpy as np
import pytest
import torch

from sightword.training import code_hash
from sightword.training.checkpoint import open_checkpoint

OF_THE_STAGE = {"sightword/features/origin.py"}
"""Texts for people, and a check of snapshots that are read: training runs neither."""


def test_all_code_of_the_library_that_the_stage_runs_is_in_it(repository):
    needed = {path for path in first_party.needed_files(repository, "stages.train") if path.startswith("sightword/")}
    found = {path.relative_to(repository).as_posix() for path in code_hash.code_files()}
    assert found == needed - OF_THE_STAGE


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A copy of the library, looked at in place of this one."""
    shutil.copytree(code_hash._PLACE, tmp_path / "sightword", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code_hash, "_PLACE", tmp_path / "sightword")
    return tmp_path / "sightword"


def test_a_change_of_what_training_runs_changes_it_and_no_other(copy):
    before = code_hash.code_hash()
    files = {path.relative_to(copy).as_posix() for path in code_hash.code_files()}
    assert {"pairs.py", "captions/table.py", "devices.py", "model/cells.py", "training/validation.py"} <= files
    assert (
        not {
            "retrieval/ranks.py",
            "statistics.py",
            "report/page.py",
            "semantics/evaluation.py",
            "features/extraction.py",
        }
        & files
    )
    for path, changes in [("pairs.py", True), ("report/page.py", False)]:
        text = (copy / path).read_text()
        (copy / path).write_text(text + "# changed\n")
        assert (code_hash.code_hash() != before) == changes
        (copy / path).write_text(text)
    assert code_hash.code_hash() == before


@pytest.mark.parametrize("library", [torch, np])
def test_another_version_starts_afresh(tmp_path, monkeypatch, library):
    with open_checkpoint(tmp_path, {}) as one:
        pass
    monkeypatch.setattr(library, "__version__", "0.0.1")
    with open_checkpoint(tmp_path, {}) as two:
        pass
    assert one.folder != two.folder
