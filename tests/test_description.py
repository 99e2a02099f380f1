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
    ("remote", "repository_in", "links"),
    [
        ("https://example.org/lab/sightword.git", ".", r"https://example\.org/lab/sightword/(blob|raw)/main/\S+"),
        ("https://example.org/lab/other.git", "..", None),  # the sources lie in another repository
        ("https://user:secret@example.org/lab/sightword.git", ".", None),
        ("git@example.org:lab/sightword.git", ".", None),
    ],
)
def test_description_has_links_that_lead_from_anywhere(repository, tmp_path, remote, repository_in, links):
    folder = tmp_path / "sources"
    shutil.copytree(repository / "sightword/pretrained", folder / "sightword/pretrained")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(repository / name, folder)
    run("git", "init", "-q", cwd=folder / repository_in)
    run("git", "remote", "add", "origin", remote, cwd=folder / repository_in)
    run(sys.executable, "setup.py", "-q", "egg_info", cwd=folder)
    about = message_from_string((folder / "sightword.egg-info/PKG-INFO").read_text())
    targets = re.findall(r"\]\(([^)]*)\)", about.get_payload())
    own = [one for one in targets if one != "https://dvc.org"]
    assert bool(own) == bool(about.get_all("Project-URL")) == bool(links)
    assert all(re.fullmatch(links or "", one) for one in own)
    assert "secret" not in about.as_string()
