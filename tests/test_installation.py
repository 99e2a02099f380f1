"""Sightword as a user installs it: the names of the library, the core packages, the extras, the wheel."""

from __future__ import annotations

import importlib.metadata as metadata
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from packaging.requirements import Requirement

import sightword
from sightword.captions.vocabulary import Vocabulary
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
    made = SentenceEncoder([Encoders(len(vocabulary), 7, model) for _ in range(2)], vocabulary, model)
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


def test_an_encoder_gives_the_same_numbers_with_the_core_packages_alone(core, encoder, tmp_path):
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
def test_a_command_without_its_extra_names_the_extra_in_one_line(core, encoder, tmp_path, argv, extra):
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); from pipeline.cli import main; sys.exit(main())"
    done = run(sys.executable, "-I", "-S", "-c", code, core, *argv, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    line = (
        r"sightword: (the package \w+|onnx) is not installed\. Install the extra: pip install 'sightword\[(\w+)\]'\.?"
    )
    found = re.fullmatch(line, done.stderr.strip())
    assert found, done.stderr
    assert found[2] == extra


def test_a_missing_package_of_the_users_own_module_is_not_taken_for_an_extra(tmp_path, monkeypatch):
    from pipeline.cli import encoder, main

    def raise_it(_: object) -> int:
        exec(compile("import no_such_package", "theirs.py", "exec"), {"__name__": "theirs"})
        return 0

    monkeypatch.setattr(encoder, "_evaluate", raise_it)
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        main(["evaluate", "theirs:f", "--data", str(tmp_path)])


def test_importing_the_library_or_the_command_loads_no_heavy_package(repository):
    for package in ("sightword", "pipeline.cli"):
        code = f"import sys, {package}; print(sorted({EXTRAS | CORE} & sys.modules.keys()))"
        assert run(sys.executable, "-c", code, cwd=repository).stdout.strip() == "[]"


def test_each_public_name_of_the_library_is_there():
    assert sightword.SentenceEncoder is SentenceEncoder
    for name in sightword.__all__:
        assert getattr(sightword, name).__doc__
    assert {"SentenceEncoder", "extract", "score", "evaluate"} <= set(sightword.__all__) <= set(dir(sightword))
    with pytest.raises(AttributeError, match="has no attribute 'Encoder'"):
        _ = sightword.Encoder


def test_a_name_whose_packages_are_missing_names_the_extra(core):
    code = "import sys; sys.path.insert(0, sys.argv.pop(1)); import sightword; sightword.extract"
    done = run(sys.executable, "-I", "-S", "-c", code, core)
    assert re.search(r"sightword\.extract needs \w+, which .* pip install 'sightword\[pipeline\]'", done.stderr)


def test_a_saved_encoder_names_the_class_that_sentence_transformers_loads(encoder, tmp_path):
    (module,) = json.loads((tmp_path / "encoder" / "modules.json").read_text())
    assert module["type"] == "sightword.encoder.sentence_transformers.SightwordModule"


@pytest.mark.full
def test_the_wheel_works_in_a_clean_environment(repository, encoder, tmp_path):
    source = tmp_path / "source"
    for name in ("sightword", "pipeline", "stages"):
        shutil.copytree(repository / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(repository / name, source)
    built = run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w", tmp_path, source)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")

    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    listed = run(
        "git", "ls-files", "--cached", "--others", "--exclude-standard", "sightword", "pipeline", cwd=repository
    )
    assert held == {name for name in listed.stdout.splitlines() if (repository / name).is_file()}

    place = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    install = ("install", "--no-deps", "--no-index", "--disable-pip-version-check", wheel)
    assert run(sys.executable, "-m", "pip", "--python", place / "bin/python", *install).returncode == 0
    (site,) = (place / "lib").glob("python*/site-packages")
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
