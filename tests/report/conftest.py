"""A finished run to report on."""

from __future__ import annotations

from pathlib import Path

import pytest
from finished_run import write_run

from sightword.report.inputs import RunFiles


@pytest.fixture
def run_folder(tmp_path: Path) -> RunFiles:
    return write_run(tmp_path)
