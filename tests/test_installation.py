"""Sightword as a user installs it: the names of the library, the core packages, the extras."""

from __future__ import annotations

import ast
import importlib.metadata as metadata
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
from installed import CORE, ENCODE, EXTRAS, TEXTS, check_embeddings, link_packages, run, saved_encoder
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.messages import install_extra

CUDA = ("cuda-", "nvidia-", "triton")
"""How the names of the packages begin that PyTorch with CUDA needs."""


def installed(extras: str) -> dict[str, metadata.Distribution]:
    """Return the distributions that Sightword with these extras brings, itself included, by their normalised names."""
    found: dict[tuple[str, frozenset[str]], metadata.Distribution] = {}
    waiting = [Requirement(f"sightword[{extras}]")]
    while waiting:
        one = waiting.pop()
        key = (canonicalize_name(one.name), frozenset(one.extras))
        if key not in found:
            found[key] = metadata.distribution(one.name)
            for needed_one in map(Requirement, found[key].requires or []):
                marker = needed_one.marker
                if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *one.extras)):
                    waiting.append(needed_one)
    return {name: distribution for (name, _), distribution in found.items()}


@pytest.mark.parametrize("rule", ["with-$(EXTRAS)", "dev"])
def test_installation_names_the_number_and_size_of_its_packages(repository, rule):
    text = (repository / "Makefile").read_text()
    (default,) = re.findall(r"^EXTRAS \?= (\S+)$", text, re.MULTILINE)
    place = re.escape(f"$(VENV)/.{rule}")
    (said,) = re.findall(rf"^{place}: brings = about (\d+) packages, ([\d.]+) GB,$", text, re.MULTILINE)
    every = installed("dev" if rule == "dev" else default)
    packages = {name: one for name, one in every.items() if not name.startswith(CUDA)}
    assert abs(int(said[0]) - len(packages)) <= 5
    pinned = {line.partition("==")[0] for line in (repository / "constraints.txt").read_text().splitlines()}
    assert packages.keys() - {canonicalize_name(one) for one in pinned} <= {"sightword", "pip"}
    if "+cpu" in metadata.version("torch"):
        size = sum(file.size or 0 for one in packages.values() for file in one.files or []) / 1e9
        assert abs(float(said[1]) - size) <= 0.15
    for page in ("README.md", "docs/tutorial.md", "docs/machine.md"):
        assert rule == "dev" or f"about {said[0]} packages" in (repository / page).read_text()


def test_extras_of_users_have_every_imported_package(repository):
    """The developers' tools, which are here too, may not hide that something is missing.

    Triton comes with PyTorch's builds for CUDA alone, and the module that imports it does without.
    """
    (extras,) = re.findall(r"^EXTRAS \?= (\S+)$", (repository / "Makefile").read_text(), re.MULTILINE)
    # hub, openvino, s3: one module alone imports the package, and names the extra where the package is missing.
    users, owners = installed(f"{extras},hub,openvino,s3"), metadata.packages_distributions()
    rooms = ("sightword", "pipeline", "stages")
    missing = {}
    for path in (path for room in rooms for path in (repository / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
            for top in {name.split(".")[0] for name in names} - sys.stdlib_module_names - {*rooms}:
                if not {canonicalize_name(one) for one in owners.get(top, ())} & users.keys():
                    missing.setdefault(top, path.relative_to(repository))
    assert missing in ({}, {"triton": Path("sightword/features/norms.py")})


def test_container_files_name_existing_targets_and_versions(repository):
    """No container is built here: names, versions and paths only. Which registries are asked is the user's choice."""
    docker, makefile = (repository / "Dockerfile").read_text(), (repository / "Makefile").read_text()
    editor = json.loads((repository / ".devcontainer/devcontainer.json").read_text())
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert "--constraint constraints.txt" in makefile
    commands = re.sub(r"^#.*$", "", docker, flags=re.MULTILINE) + editor["postCreateCommand"]
    made = set(re.findall(r"\bmake(?: |\", \")([a-z-]+)", commands)) - {"make"}
    assert {"install", "dev"} <= made <= targets
    (python,) = re.findall(r"^FROM python:([\d.]+)-slim AS tools$", docker, re.MULTILINE)
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    assert SpecifierSet(project["requires-python"]).contains(f"{python}.99")


@pytest.fixture
def core(request, tmp_path, repository) -> Path:
    """A folder of installed packages with Sightword, its core packages or those of an extra, and nothing else."""
    folder = tmp_path / "core"
    folder.mkdir()
    link_packages(folder, sorted({*installed(request.param)} - {"sightword"} if hasattr(request, "param") else CORE))
    for name in ("sightword", "pipeline"):
        (folder / name).symlink_to(repository / name)
    (folder / "sightword-0.dist-info").mkdir()
    (folder / "sightword-0.dist-info" / "METADATA").write_text("Name: sightword\nVersion: 0\n")
    return folder


@pytest.fixture
def encoder(tmp_path) -> SentenceEncoder:
    """A small encoder, saved in the folder ``encoder``."""
    return saved_encoder(tmp_path / "encoder")


def test_encoder_with_the_core_packages_alone_gives_equal_embeddings(core, encoder, tmp_path):
    done = run(sys.executable, "-I", "-S", "-c", ENCODE, tmp_path / "encoder", json.dumps(TEXTS), core)
    check_embeddings(done, encoder)


@pytest.mark.parametrize(
    ("argv", "extra"),
    [
        (["params"], "pipeline"),
        (["evaluate", "encoder", "--data", "."], "pipeline"),
        (["search", "encoder", "a dog"], "search"),
    ],
)
def test_command_without_its_extra_names_the_extra_in_one_line(core, encoder, tmp_path, argv, extra):
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from pipeline.cli import main; sys.exit(main())"
    done = run(sys.executable, "-I", "-S", "-c", code, core, *argv, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    line = rf"sightword: the package \w+ is not installed\. {re.escape(install_extra(extra))}\n"
    assert re.fullmatch(line, done.stderr), done.stderr


@pytest.mark.parametrize("core", ["search"], indirect=True)
def test_search_needs_few_packages_and_no_dvc(core, tmp_path, repository):
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from pipeline.cli import main; sys.exit(main())"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/cat.jpg").symlink_to(repository / "docs/images/photographs/cat.jpg")
    done = run(
        *(sys.executable, "-I", "-S", "-c", code, core, "search", "flickr8k", "a cat", "--json"),
        *("--collection", tmp_path / "mine"), cwd=tmp_path, env={"SIGHTWORD_STORE": str(tmp_path / "store")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [picture["id"] for picture in json.loads(done.stdout)["pictures"]] == ["cat.jpg"]
    packages = {name for name in installed("search") if not name.startswith(CUDA)}
    assert len(packages) <= 45
    assert "dvc" not in packages


def test_import_of_library_or_command_loads_no_heavy_package(repository):
    for package in ("sightword", "pipeline.cli"):
        code = f"import sys, {package}; print(sorted({EXTRAS | CORE} & sys.modules.keys()))"
        assert run(sys.executable, "-c", code, cwd=repository).stdout.strip() == "[]"


def test_extra_of_each_hint_is_an_extra_of_the_package(repository):
    known = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    paths = (path for room in ("sightword", "pipeline") for path in (repository / room).rglob("*.py"))
    sources = "".join(path.read_text() for path in paths)
    named = set(re.findall(r'(?:install_extra\(|, extra=|extra: str = |library\("\w+", )"(\w+)"(?!,)', sources))
    assert {"pipeline", "search", "timm", "ray"} <= named <= set(known)
