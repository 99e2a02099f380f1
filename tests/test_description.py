"""The long description of the package, which an index of packages shows without the repository."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from email import message_from_string
from pathlib import Path

import pytest


def run(*command: str, cwd: Path) -> None:
    subprocess.run(command, check=True, capture_output=True, cwd=cwd)


@pytest.mark.parametrize(
    ("remote", "links"),
    [
        ("https://example.org/lab/sightword.git", r"https://example\.org/lab/sightword/(blob|raw)/main/\S+"),
        ("https://user:secret@example.org/lab/sightword.git", None),
        ("git@example.org:lab/sightword.git", None),
    ],
)
def test_description_has_links_that_lead_from_anywhere(repository, tmp_path, remote, links):
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(repository / name, tmp_path)
    run("git", "init", "-q", cwd=tmp_path)
    run("git", "remote", "add", "origin", remote, cwd=tmp_path)
    shutil.copytree(repository / "sightword/pretrained", tmp_path / "sightword/pretrained")
    shutil.copy(repository / "LICENSE", tmp_path)
    run(sys.executable, "setup.py", "-q", "egg_info", cwd=tmp_path)
    about = message_from_string((tmp_path / "sightword.egg-info/PKG-INFO").read_text())
    targets = re.findall(r"\]\(([^)]*)\)", about.get_payload())
    own = [one for one in targets if one != "https://dvc.org"]
    assert bool(own) == bool(about.get_all("Project-URL")) == bool(links)
    assert all(re.fullmatch(links or "", one) for one in own)
    assert "secret" not in about.as_string()
