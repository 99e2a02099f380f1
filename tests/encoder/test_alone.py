"""The encoder with next to nothing installed."""

from __future__ import annotations

import importlib.metadata as metadata
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.model.encoders import Encoders
from sightword.model.settings import ModelSettings

TEXTS = ["a dog runs", "", "two big dogs run in the snow ."]
HEAVY = {"torch", "numpy", "safetensors", "dvc", "pandas", "torchvision", "pyarrow", "h5py", "pydantic", "tqdm"}

PROGRAM = """
import json, sys
sys.path[:0] = sys.argv[1:3]
from sightword import SentenceEncoder
encoder = SentenceEncoder.load(sys.argv[3])
texts = json.loads(sys.argv[4])
captions = encoder.encode(texts, show_progress_bar=True)
images = encoder.encode_images([[1.0] * encoder.features_width, [0.5] * encoder.features_width])
print(json.dumps({
    "captions": captions.tolist(),
    "images": images.tolist(),
    "similarity": encoder.similarity(captions, images).tolist(),
    "modules": sorted({name.split(".")[0] for name in sys.modules}),
}))
"""


def needed(*names: str) -> set[str]:
    """These distributions and all that they need, without extras, as far as they are installed."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        try:
            requires = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        if name in found:
            continue
        found.add(name)
        waiting += [re.split(r"[^\w.-]", text)[0] for text in requires if "extra ==" not in text]
    return found


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of installed packages with torch, safetensors, NumPy and their needs, and nothing else."""
    folder = tmp_path / "site"
    folder.mkdir()
    for name in needed("torch", "safetensors", "numpy"):
        for top in {file.parts[0] for file in metadata.files(name) or [] if file.parts[0] not in ("..", "__pycache__")}:
            link = folder / top
            if not link.exists():
                link.symlink_to(metadata.distribution(name).locate_file(top))
    return folder


@pytest.fixture
def encoder() -> SentenceEncoder:
    torch.manual_seed(0)
    model = ModelSettings(embedding=5, hidden=6, attention=4)
    vocabulary = Vocabulary.build(TEXTS)
    members = [Encoders(len(vocabulary), 7, model) for _ in range(2)]
    return SentenceEncoder(members, vocabulary, model)


def test_the_same_numbers_where_only_torch_safetensors_and_numpy_are_installed(repository, site, encoder, tmp_path):
    encoder.save(tmp_path / "encoder")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "sightword").symlink_to(repository / "sightword")
    arguments = [site, tmp_path / "package", tmp_path / "encoder", json.dumps(TEXTS)]
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    images = encoder.encode_images([[1.0] * 7, [0.5] * 7])
    assert np.abs(np.array(found["captions"]) - encoder.encode(TEXTS)).max() < 1e-6
    assert np.abs(np.array(found["images"]) - images).max() < 1e-6
    assert np.abs(np.array(found["similarity"]) - encoder.similarity(encoder.encode(TEXTS), images)).max() < 1e-6
    assert not {"dvc", "pandas", "torchvision", "pyarrow", "h5py", "pydantic", "tqdm"} & set(found["modules"])
    missing = subprocess.run(
        [sys.executable, "-I", "-S", "-c", "import sys; sys.path[:0] = sys.argv[1:]; import pydantic", str(site)],
        capture_output=True,
        check=False,
    )
    assert missing.returncode != 0  # the folder does hide what is installed here


def test_importing_the_package_loads_nothing_heavy():
    code = f"import sys, sightword; print(sorted({HEAVY} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_the_package_has_not_is_told_as_python_tells_it():
    import sightword

    with pytest.raises(AttributeError, match="has no attribute 'Encoder'"):
        _ = sightword.Encoder
    assert sightword.SentenceEncoder is SentenceEncoder
