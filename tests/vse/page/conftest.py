"""Finished runs to report on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from finished_run import write_run
from sums import renew

from sightword.report.inputs import RunFiles


@pytest.fixture
def run_folder(tmp_path: Path) -> RunFiles:
    return write_run(tmp_path)


@pytest.fixture
def without_pictures(tmp_path: Path) -> RunFiles:
    places = write_run(tmp_path, with_shards=False)
    path = places.encoder / "encoder.json"
    description = json.loads(path.read_text())
    description["notes"]["features"] = {
        "backbone": "densenet169",
        "weights": "unknown",
        "origin": "precomputed by another lab",
    }
    path.write_text(json.dumps(description))
    renew(places.encoder)
    return places
