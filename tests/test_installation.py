"""Sightword as a user installs it: the names of the library, the core packages, the extras, the wheel."""

from __future__ import annotations

import ast
import importlib.metadata as metadata
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import numpy as np
import pytest
import torch
from checkout import environment, locked
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from small_run import shrink

import sightword
from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.parts import parts_of
from sightword.encoder.pretrained import packaged
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.model.encoders import Encoders
from sightword.model.settings import ModelSettings

TEXTS = ["a dog runs", "", "two big dogs run in the snow ."]
CORE = {"torch", "numpy", "safetensors"}
EXTRAS = {"dvc", "pandas", "torchvision", "pyarrow", "h5py", "pydantic", "tqdm", "yaml", "scipy", "flask"}

ENCODE = """
import json, sys
sys.path[:0] = sys.argv[3:]
from sightword import SentenceEncoder
encoder = SentenceEncoder.from_pretrained(sys.argv[1])
texts = json.loads(sys.argv[2])
captions = encoder.encode(texts, show_progress_bar=True)
images = encoder.encode_images([[1.0] * encoder.features_width, [0.5] * encoder.features_width])
print(json.dumps({
    "captions": captions.tolist(),
    "images": images.tolist(),
    "similarity": encoder.similarity(captions, images).tolist(),
    "modules": sorted({name.split(".")[0] for name in sys.modules}),
}))
"""


PROGRAM = """
from sightword import SentenceEncoder, evaluate, extract, score
reveal_type(SentenceEncoder.load)
reveal_type(extract)
reveal_type(score)
reveal_type(evaluate)
"""


def needed(names: list[str]) -> set[str]:
    """Return the distributions ``names`` and all that they need, without extras, as far as they are installed."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        try:
            requires = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        if name not in found:
            found.add(name)
            waiting += [one.name for one in map(Requirement, requires) if "extra" not in str(one.marker)]
    return found


def link_packages(folder: Path, names: list[str]) -> None:
    """Fill a folder of installed packages with links to these distributions and to all that they need."""
    for name in needed(names):
        for top in {file.parts[0] for file in metadata.files(name) or [] if file.parts[0] not in ("..", "__pycache__")}:
            if not (folder / top).exists():
                (folder / top).symlink_to(metadata.distribution(name).locate_file(top))


def run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)


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
    packages = installed("dev" if rule == "dev" else default)
    assert abs(int(said[0]) - len(packages)) <= 5
    pinned = {line.partition("==")[0] for line in (repository / "constraints.txt").read_text().splitlines()}
    assert packages.keys() - {canonicalize_name(one) for one in pinned} <= {"sightword", "pip"}
    if "+cpu" in metadata.version("torch"):
        size = sum(file.size or 0 for one in packages.values() for file in one.files or []) / 1e9
        assert abs(float(said[1]) - size) <= 0.15
    for page in ("README.md", "docs/tutorial.md", "docs/machine.md"):
        assert rule == "dev" or f"about {said[0]} packages" in (repository / page).read_text()


def test_extras_of_users_have_every_imported_package(repository):
    """The developers' tools, which are here too, may not hide that something is missing."""
    (extras,) = re.findall(r"^EXTRAS \?= (\S+)$", (repository / "Makefile").read_text(), re.MULTILINE)
    users, owners = installed(extras), metadata.packages_distributions()
    rooms = ("sightword", "pipeline", "stages")
    missing = {}
    for path in (path for room in rooms for path in (repository / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
            for top in {name.split(".")[0] for name in names} - sys.stdlib_module_names - {*rooms}:
                if not {canonicalize_name(one) for one in owners.get(top, ())} & users.keys():
                    missing.setdefault(top, path.relative_to(repository))
    assert not missing


def test_container_files_name_existing_targets_and_versions(repository):
    """No container is built here: names, versions and paths only. Which registries are asked is the user's choice."""
    docker, makefile = (repository / "Dockerfile").read_text(), (repository / "Makefile").read_text()
    editor = json.loads((repository / ".devcontainer/devcontainer.json").read_text())
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert "--constraint constraints.txt" in makefile
    commands = re.sub(r"^#.*$", "", docker, flags=re.MULTILINE) + editor["postCreateCommand"]
    made = set(re.findall(r"\bmake(?: |\", \")([a-z-]+)", commands)) - {"make"}
    assert {"install", "repro", "dev"} <= made <= targets
    (python,) = re.findall(r"^FROM python:([\d.]+)-slim AS tools$", docker, re.MULTILINE)
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    assert SpecifierSet(project["requires-python"]).contains(f"{python}.99")

    here = repository / ".devcontainer"
    assert (here / editor["build"]["dockerfile"]).resolve() == repository / "Dockerfile"
    assert (here / editor["build"]["context"]).resolve() == repository
    assert f" AS {editor['build']['target']}\n" in docker
    copied = re.findall(r"^COPY (\S+) ", docker, re.MULTILINE)
    assert copied == [".git"]
    for text in (docker, json.dumps(editor)):
        assert "://" not in text
        assert not re.search(r"[a-z-]+\.(?:io|com|org|dev)\b", text)


@pytest.fixture
def core(tmp_path, repository) -> Path:
    """A folder of installed packages with Sightword, its core packages, and nothing else."""
    folder = tmp_path / "core"
    folder.mkdir()
    link_packages(folder, sorted(CORE))
    for name in ("sightword", "pipeline"):
        (folder / name).symlink_to(repository / name)
    (folder / "sightword-0.dist-info").mkdir()
    (folder / "sightword-0.dist-info" / "METADATA").write_text("Name: sightword\nVersion: 0\n")
    return folder


@pytest.fixture
def encoder(tmp_path) -> SentenceEncoder:
    """A small encoder, saved in the folder ``encoder``."""
    torch.manual_seed(0)
    model = ModelSettings(embedding=5, hidden=6, attention=4)
    vocabulary = Vocabulary.build(TEXTS)
    networks = [Encoders(len(vocabulary), 7, model.shape) for _ in range(2)]
    made = SentenceEncoder(parts_of(networks, vocabulary, model.shape))
    made.save(tmp_path / "encoder")
    return made


def check_embeddings(done: subprocess.CompletedProcess[str], encoder: SentenceEncoder) -> None:
    """Compare what ``ENCODE`` printed with the embeddings of this process."""
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    images = encoder.encode_images([[1.0] * encoder.features_width, [0.5] * encoder.features_width])
    assert np.abs(np.array(found["captions"]) - encoder.encode(TEXTS)).max() < 1e-6
    assert np.abs(np.array(found["images"]) - images).max() < 1e-6
    assert np.abs(np.array(found["similarity"]) - encoder.similarity(encoder.encode(TEXTS), images)).max() < 1e-6
    assert not EXTRAS & set(found["modules"])


def test_encoder_with_the_core_packages_alone_gives_equal_embeddings(core, encoder, tmp_path):
    done = run(sys.executable, "-I", "-S", "-c", ENCODE, tmp_path / "encoder", json.dumps(TEXTS), core)
    check_embeddings(done, encoder)


@pytest.mark.parametrize(
    ("argv", "extra"),
    [
        (["params"], "pipeline"),
        (["evaluate", "encoder", "--data", "."], "pipeline"),
        (["compare", "a", "b"], "pipeline"),
        (["audit", "metrics/summary.json"], "pipeline"),
        (["doctor"], "pipeline"),
        (["search", "encoder", "a dog"], "search"),
        (["export", "encoder", "out"], "export"),
    ],
)
def test_command_without_its_extra_names_the_extra_in_one_line(core, encoder, tmp_path, argv, extra):
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from pipeline.cli import main; sys.exit(main())"
    done = run(sys.executable, "-I", "-S", "-c", code, core, *argv, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    line = (
        r"sightword: (the package \w+|onnx) is not installed\. Install the extra: pip install 'sightword\[(\w+)\]'\.?"
    )
    found = re.fullmatch(line, done.stderr.strip())
    assert found, done.stderr
    assert found[2] == extra


def test_missing_package_of_the_users_module_is_raised_as_it_is(tmp_path, monkeypatch):
    from pipeline.cli import encoder, main

    def raise_it(_: object) -> int:
        exec(compile("import no_such_package", "theirs.py", "exec"), {"__name__": "theirs"})
        return 0

    monkeypatch.setattr(encoder, "_evaluate", raise_it)
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        main(["evaluate", "theirs:f", "--data", str(tmp_path)])


def test_import_of_library_or_command_loads_no_heavy_package(repository):
    for package in ("sightword", "pipeline.cli"):
        code = f"import sys, {package}; print(sorted({EXTRAS | CORE} & sys.modules.keys()))"
        assert run(sys.executable, "-c", code, cwd=repository).stdout.strip() == "[]"


def test_public_name_of_the_library_exists_with_a_docstring():
    assert sightword.SentenceEncoder is SentenceEncoder
    for name in sightword.__all__:
        assert getattr(sightword, name).__doc__
    assert {"SentenceEncoder", "extract", "score", "evaluate"} <= set(sightword.__all__) <= set(dir(sightword))
    with pytest.raises(AttributeError, match="has no attribute 'Encoder'"):
        _ = sightword.Encoder


def test_name_without_its_packages_names_the_extra(core):
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); import sightword; sightword.extract"
    done = run(sys.executable, "-I", "-S", "-c", code, core)
    assert re.search(r"sightword\.extract needs \w+, which .* pip install 'sightword\[pipeline\]'", done.stderr)


def test_saved_encoder_names_the_class_for_sentence_transformers(encoder, tmp_path):
    (module,) = json.loads((tmp_path / "encoder" / "modules.json").read_text())
    assert module["type"] == "sightword.export.sentence_transformers.SightwordModule"


@pytest.fixture(scope="module")
def files(repository) -> list[str]:
    """The files of the repository."""
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=repository).stdout.splitlines()
    return [name for name in listed if (repository / name).is_file()]


@pytest.fixture(scope="module")
def wheel(repository, files, tmp_path_factory) -> Path:
    """The wheel, built from a copy of the repository."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in files:
        (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(repository / name, folder / "source" / name)
    options = ("--no-index", "--no-build-isolation", "--no-deps", "-w", folder)
    built = run(sys.executable, "-m", "pip", "wheel", *options, folder / "source")
    assert built.returncode == 0, built.stderr
    (found,) = folder.glob("*.whl")
    return found


def install(wheel: Path, place: Path) -> Path:
    """Install the wheel, without what it needs, in a new environment; return the folder of its packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    options = ("--no-deps", "--no-index", "--disable-pip-version-check", wheel)
    assert run(sys.executable, "-m", "pip", "--python", place / "bin/python", "install", *options).returncode == 0
    (site,) = (place / "lib").glob("python*/site-packages")
    return site


@pytest.mark.full
def test_wheel_holds_the_packages_and_the_files_of_a_project_once(files, wheel):
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    beside = {
        name
        for name in files
        if re.match(
            r"(recipes|stages|data|\.dvc/plots)/|([a-z]+/)?((dvc|params)\.yaml|\.dvcignore)$|\.git(ignore|attributes)$",
            name,
        )
    }
    code = {name for name in files if name.startswith(("sightword/", "pipeline/"))}
    assert held == code | {f"pipeline/project/{name}" for name in beside}


@pytest.mark.full
def test_wheel_names_the_licences_of_code_and_weights(wheel, repository):
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        about = message_from_bytes(archive.read(path))
        listed = {
            name: archive.read(f"{path.removesuffix('METADATA')}licenses/{name}").decode()
            for name in about.get_all("License-File")
        }
    assert listed == {name: (repository / name).read_text() for name in listed}
    own = {text.split(maxsplit=1)[0] for name, text in listed.items() if name != "LICENSE"}
    assert {Path(name).parent.name for name in listed} == {"", *packaged()}
    assert set(about["License-Expression"].split(" AND ")) == {"Apache-2.0", *own}


@pytest.mark.full
def test_wheel_in_a_clean_environment_encodes_and_runs_commands(wheel, encoder, tmp_path):
    place = tmp_path / "environment"
    site = install(wheel, place)
    (about,) = site.glob("sightword-*.dist-info")
    asked = [Requirement(text) for text in metadata.Distribution.at(about).requires or []]
    names = [one.name for one in asked if one.marker is None]
    assert set(names) == CORE
    link_packages(site, names)

    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "mypy.ini").write_text("[mypy-numpy.*,torch.*,pydantic.*]\nfollow_imports = skip\n")
    checker = ("-m", "mypy", "--follow-imports", "silent", "--python-executable", place / "bin/python", "program.py")
    found = run(sys.executable, *checker, cwd=tmp_path)
    assert (found.returncode, found.stdout.count('Revealed type is "def (')) == (0, 4), found.stdout

    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = run(place / "bin/python", "-c", ENCODE, tmp_path / "encoder", json.dumps(TEXTS), cwd=tmp_path, env=clean)
    check_embeddings(done, encoder)
    done = run(place / "bin/python", "-c", ENCODE, "flickr8k", json.dumps(TEXTS), cwd=tmp_path, env=clean)
    check_embeddings(done, SentenceEncoder.from_pretrained("flickr8k"))
    command = place / "bin/sightword"
    shown = run(command, "--help", cwd=tmp_path, env=clean)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "audit" in shown.stdout
    assert run(command, "--version", env=clean).stdout == f"sightword {sightword.__version__}\n"
    refused = run(command, "params", cwd=tmp_path, env=clean)
    assert refused.returncode == 1
    assert refused.stderr.endswith("Install the extra: pip install 'sightword[pipeline]'\n")
    assert refused.stderr.count("\n") == 1


@pytest.mark.full
def test_project_of_the_wheel_runs_and_an_upgrade_reruns_dependent_stages(wheel, small_run, tmp_path):
    """Its stages start as a user's do, and take two threads; those of the shared small run are copies, with one."""
    place, demo = tmp_path / "environment", tmp_path / "demo"
    site = install(wheel, place)
    (site / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")  # after the wheel, without its .pth files
    own = {
        **environment(tmp_path / "store", forked=False),
        "PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "SIGHTWORD_THREADS": "2",
    }
    own.pop("PYTHONPATH", None)

    def call(*command: object, cwd: Path = demo) -> str:
        done = run(*command, cwd=cwd, env=own)
        assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    sightword_, dvc = place / "bin/sightword", (place / "bin/python", "-m", "dvc")
    assert "\n  flickr8k  " in call(sightword_, "recipe", "--list", cwd=tmp_path)
    assert call(sightword_, "init", "demo", cwd=tmp_path).endswith("Next: cd demo && dvc repro\n")
    shrink(demo)
    call("git", "add", "-A")
    call("git", "commit", "-qm", "start")
    call(*dvc, "repro")
    assert locked(demo) == small_run.locked()
    call("git", "add", "-A")
    call("git", "commit", "-qm", "sample")
    assert "all 10 sections are right" in call(sightword_, "params", "--check")
    found = call(sightword_, "search", "models/encoder", "a red circle", "--csv", "--top", "1")
    assert re.search(r"\n.*,1,(test|dev|train)-\d+\.", found)
    pairs = ("--data", "data/corpus/senteval", "--tasks", "STSSample")
    assert "STSSample  scenes" in call(sightword_, "evaluate", "flickr8k", *pairs)
    assert "train" in call(sightword_, "audit", "metrics/summary.json:image_r10")
    assert "image_r10" in call(sightword_, "experiments", "--csv")
    assert "both as one page" in call(sightword_, "compare", "HEAD", "workspace", "--samples", "100")
    assert "PROBLEM" not in call(sightword_, "doctor", "--quick")
    assert "up to date" in call(*dvc, "status", "dvc.yaml")

    with (site / "sightword/evaluation/retrieval/ranks.py").open("a") as code:
        code.write("# a newer version\n")
    assert "(files: 2 changed;" in call(sightword_, "init", "--update")  # and what describes the sample
    call("git", "checkout", "data/raw/sample")
    assert json.loads(call(*dvc, "status", "--json", "dvc.yaml")).keys() == {"report", "retrieval", "select"}
    call(*dvc, "repro")
    assert "up to date" in call(*dvc, "status", "dvc.yaml")
