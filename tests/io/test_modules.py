"""The files of a module and of what it imports, without running them."""

from __future__ import annotations

import pytest

from sightword.io.modules import hash_sources, imported_files

FILES = {
    "own/__init__.py": "from own.setup import ready\n",
    "own/setup.py": "ready = True\n",
    "own/net.py": "import torch\nfrom . import blocks\nfrom .deep.layers import Layer\nfrom json import loads\n",
    "own/blocks.py": "def block():\n    from own import lazy\n    return lazy\n",
    "own/lazy.py": "",
    "own/deep/layers.py": "from .. import above\nfrom ..other import thing\nimport helper\n",
    "own/above.py": "",
    "own/other/__init__.py": "thing = 1\n",
    "own/unused.py": "",
    "helper.py": "import own.net\n",
    "broken.py": "import (\n",
}
REACHED = sorted({*FILES} - {"own/unused.py", "broken.py"})


@pytest.fixture
def write(tmp_path):
    def into(folder: str):
        for name, text in FILES.items():
            (tmp_path / folder / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / folder / name).write_text(text)
        return tmp_path / folder

    return into


def test_imports_of_every_kind_are_followed(write) -> None:
    assert imported_files("own.net", write("project")) == REACHED
    assert imported_files("helper", write("project")) == REACHED


def test_an_installed_package_is_followed_to_its_end(write) -> None:
    root = write("lib/site-packages")
    assert imported_files("own.net", root) == [name for name in REACHED if name != "helper.py"]
    assert imported_files("helper", root) == ["helper.py"]


def test_modules_that_are_no_python_import_nothing(write) -> None:
    root = write("project")
    assert imported_files("broken", root) == ["broken.py"]
    assert imported_files("nowhere.module", root) == []


def test_each_file_and_its_name_are_in_the_hash(write) -> None:
    root = write("project")
    found = [hash_sources(root, ["helper.py"]), hash_sources(root, ["helper.py", "own/lazy.py"])]
    (root / "helper.py").rename(root / "renamed.py")
    found.append(hash_sources(root, ["renamed.py"]))
    (root / "renamed.py").write_text("# more\n")
    found.append(hash_sources(root, ["renamed.py"]))
    assert len({*found}) == 4
